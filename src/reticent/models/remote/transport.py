"""JSON over HTTP with time-outs, retries and a bounded number of requests at once, on httpx.

What is retried: no connection, a lost one, no answer in time, an answer that is not JSON, and the statuses 408, 429
and 5xx except 501; after a wait that doubles each time, with full jitter (Brooker 2015), or as long as the server's
`Retry-After` says. Every other status is refused at once. All loops end: `retries` bounds the tries of a request.

An error names the address, the status and the number of tries. It never holds the key, the request or the server's
answer, since a server may quote the prompt in it. Redirects are not followed: they would carry key and prompt to
someone else. Proxies and certificates come from the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY,
SSL_CERT_FILE), as other tools read it.
"""

import datetime
import email.utils
import json
import random
import ssl
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import httpx

from reticent.core.errors import ConfigError, ModelError
from reticent.core.secret import Secret

Item = TypeVar("Item")
Result = TypeVar("Result")

_RETRIED: Final = {408, 429, 500, 502, 503, 504}
_MOST_BYTES: Final = 256 * 2**20
_MOVED: Final = "redirects are not followed: give the address that the server moved to"
_HINTS: Final = {
    301: _MOVED,
    302: _MOVED,
    307: _MOVED,
    308: _MOVED,
    400: "the request does not fit the model: a shorter text or other options may",
    401: "the API key is missing or wrong",
    403: "the API key does not allow this",
    404: "check the address and the model's name",
    413: "the text is too long for this server",
    422: "the server does not know an option of this request",
}


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """Patience with a server: time-outs in seconds, tries after the first, and requests at once."""

    connect_seconds: float = 10.0
    read_seconds: float = 120.0
    retries: int = 5
    backoff_seconds: float = 0.5
    longest_wait_seconds: float = 60.0
    concurrency: int = 8

    def __post_init__(self) -> None:
        if min(self.connect_seconds, self.read_seconds) <= 0:
            raise ConfigError("time-outs must be above 0 seconds")
        if self.retries < 0 or self.backoff_seconds < 0 or self.longest_wait_seconds < 0 or self.concurrency < 1:
            raise ConfigError("retries and waits must be at least 0, and concurrency at least 1")


class RefusedRequest(ModelError):
    """The server answered with a status that trying again does not change."""

    def __init__(self, where: str, status: int) -> None:
        self.status = status
        super().__init__(f"{where} was refused", found=f"HTTP {status}", hint=_HINTS.get(status))


class _Failure(Exception):
    """One try that failed in a way that another may not; `wait` is what the server asks for."""

    def __init__(self, cause: str, wait: float | None = None) -> None:
        self.wait = wait
        super().__init__(cause)


class JsonTransport:
    """Requests to one server, over a pool of connections that stay open."""

    def __init__(self, url: str, *, api_key: Secret | None, options: RemoteOptions) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("a remote model's address must be an http or https URL", expected="http://host:port")
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise ConfigError(
                "a remote model's address must hold no user, query or fragment", hint="use the API key"
            )
        if api_key is not None and not (api_key.reveal().isascii() and api_key.reveal().isprintable()):
            raise ConfigError("the API key has characters that no HTTP header may hold")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}"
        self._api_key = api_key
        self._options = options
        self._client = _client(self.url, api_key, options)

    def __repr__(self) -> str:
        return f"JsonTransport({self.url})"

    def get(self, path: str) -> Any:
        """The JSON document at `path`."""
        return self._request("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """The JSON answer to `body`."""
        return self._request("POST", path, json.dumps(body, allow_nan=False).encode("ascii"))

    def each(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """`work` of every item, in order, so many at once as the options allow; the first error ends it."""
        if len(items) <= 1 or self._options.concurrency == 1:
            return [work(item) for item in items]
        workers = ThreadPoolExecutor(min(self._options.concurrency, len(items)))
        try:
            return list(workers.map(work, items))
        finally:
            workers.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        """Close the connections; another request opens new ones."""
        self._client.close()
        self._client = _client(self.url, self._api_key, self._options)

    def _request(self, method: str, path: str, body: bytes | None) -> Any:
        where, cause = f"{method} {self.url}{path}", "nothing"
        for attempt in range(self._options.retries + 1):
            try:
                return self._try(method, path, body)
            except _Failure as failure:
                cause = str(failure)
                wait = failure.wait
            if attempt < self._options.retries:
                time.sleep(self._pause(attempt, wait, where))
        tries = self._options.retries + 1
        raise ModelError(
            f"{where} failed {tries} time{'s' if tries > 1 else ''}",
            found=cause,
            hint="is the server up, and is the address right? the options hold time-outs and retries",
        )

    def _pause(self, attempt: int, asked: float | None, where: str) -> float:
        """Seconds before the next try."""
        longest = self._options.longest_wait_seconds
        if asked is None:
            return random.random() * min(longest, self._options.backoff_seconds * 2.0**attempt)
        if asked > longest:
            raise ModelError(
                f"{where}: the server asks to wait too long",
                found=f"{asked:.0f} s",
                expected=f"at most {longest:.0f} s",
                hint="try again later, or allow a longer wait in the options",
            )
        return asked

    def _try(self, method: str, path: str, body: bytes | None) -> Any:
        """One try: the JSON answer, `_Failure` where another try may help, or a final error."""
        kind = {} if body is None else {"Content-Type": "application/json"}
        try:
            with self._client.stream(method, self.url + path, content=body, headers=kind) as response:
                content = self._read(response)
        except (httpx.TimeoutException, TimeoutError):
            raise _Failure("no answer in time") from None
        except httpx.TransportError as error:
            origin = _origin(error)
            if isinstance(origin, ssl.SSLCertVerificationError):
                raise ModelError(f"{self.url}: the server's certificate cannot be verified") from None
            raise _Failure(f"no connection, or a lost one ({type(origin).__name__})") from None
        status = response.status_code
        if status in _RETRIED:
            raise _Failure(f"HTTP {status}", _retry_after(response.headers.get("Retry-After")))
        if not 200 <= status < 300:
            raise RefusedRequest(f"{method} {self.url}{path}", status)
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise _Failure("an answer that is not JSON") from None

    def _read(self, response: httpx.Response) -> bytes:
        """The whole body. The client's time-out is for each piece; this one is for all of them."""
        end = time.monotonic() + self._options.read_seconds
        pieces, size = [], 0
        for piece in response.iter_raw():
            pieces.append(piece)
            size += len(piece)
            if time.monotonic() > end:
                raise TimeoutError
            if size > _MOST_BYTES:
                raise ModelError(
                    f"{self.url}: the server's answer is too long", expected=f"at most {_MOST_BYTES} B"
                )
        return b"".join(pieces)


def _client(url: str, api_key: Secret | None, options: RemoteOptions) -> httpx.Client:
    """A pool of connections that stay open, through the proxies of the environment."""
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if api_key is not None:
        headers["Authorization"] = f"Bearer {api_key.reveal()}"
    try:
        httpx.URL(url)
        return httpx.Client(
            headers=headers,
            timeout=httpx.Timeout(options.read_seconds, connect=options.connect_seconds, pool=None),
            limits=httpx.Limits(max_connections=options.concurrency),
            follow_redirects=False,
        )
    except httpx.InvalidURL:
        raise ConfigError("a remote model's address is not a URL", expected="http://host:port") from None
    except (ValueError, OSError, ImportError) as error:  # what the environment says, which may hold a password
        raise ConfigError(
            f"the proxies or certificates of the environment cannot be used ({type(error).__name__})",
            hint="check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE",
        ) from None


def _origin(error: BaseException) -> BaseException:
    """What an error comes from: the system's own, below those that the client makes of it."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return error


def _retry_after(value: str | None) -> float | None:
    """Seconds that a `Retry-After` header asks for (a number or a date), or None."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:  # "-0000": a time in UTC whose zone is not stated
        moment = moment.replace(tzinfo=datetime.UTC)
    return max(0.0, (moment - datetime.datetime.now(datetime.UTC)).total_seconds())
