"""JSON over HTTP with time-outs, retries and a bounded number of requests at once, on the standard library alone.

What is retried: no connection, a lost one, no answer in time, an answer that is not JSON, and the statuses 408, 429
and 5xx except 501; after a wait that doubles each time, with full jitter (Brooker 2015), or as long as the server's
`Retry-After` says. Every other status is refused at once. All loops end: `retries` bounds the tries of a request.

An error names the address, the status and the number of tries. It never holds the key, the request or the server's
answer, since a server may quote the prompt in it. Redirects are not followed: they would carry key and prompt to
somebody else. Proxies of the environment are not used.
"""

import datetime
import email.utils
import http.client
import json
import queue
import random
import ssl
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from reticent.core.errors import ConfigError, ModelError
from reticent.core.secret import Secret

Item = TypeVar("Item")
Result = TypeVar("Result")

_RETRIED: Final = {408, 429, 500, 502, 503, 504}
_MOST_BYTES: Final = 256 * 2**20
_CHUNK_BYTES: Final = 2**16
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
    """Requests to one server, over a small pool of connections that stay open."""

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
        self._parts = parts
        self._path = parts.path.rstrip("/").removesuffix("/v1")
        self.url = f"{parts.scheme}://{parts.netloc}{self._path}"
        self._api_key = api_key
        self._options = options
        self._idle: queue.LifoQueue[http.client.HTTPConnection] = queue.LifoQueue(options.concurrency)

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
        """Close the idle connections."""
        while True:
            try:
                self._idle.get_nowait().close()
            except queue.Empty:
                return

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
        try:
            status, headers, content = self._exchange(method, path, body)
        except ssl.SSLCertVerificationError:
            raise ModelError(f"{self.url}: the server's certificate cannot be verified") from None
        except TimeoutError:
            raise _Failure("no answer in time") from None
        except (OSError, http.client.HTTPException) as error:
            raise _Failure(f"no connection, or a lost one ({type(error).__name__})") from None
        if status in _RETRIED:
            raise _Failure(f"HTTP {status}", _retry_after(headers))
        if not 200 <= status < 300:
            raise RefusedRequest(f"{method} {self.url}{path}", status)
        try:
            return json.loads(content)
        except ValueError:
            raise _Failure("an answer that is not JSON") from None

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Send and receive once; over a fresh connection as well where one that stood idle was closed meanwhile."""
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            return self._send(self._connect(), method, path, body)
        try:
            return self._send(connection, method, path, body)
        except (ConnectionError, http.client.BadStatusLine):
            return self._send(self._connect(), method, path, body)

    def _connect(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._parts.hostname or "", self._parts.port, timeout=self._options.connect_seconds)
        connection.connect()
        return connection

    def _send(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._api_key is not None:
            headers["Authorization"] = f"Bearer {self._api_key.reveal()}"
        is_reusable = False
        try:
            if connection.sock is not None:
                connection.sock.settimeout(self._options.read_seconds)
            connection.request(method, self._path + path, body=body, headers=headers)
            response = connection.getresponse()
            content = self._read(response)
            is_reusable = not response.will_close
            return response.status, response.headers, content
        finally:
            if is_reusable:
                self._keep(connection)
            else:
                connection.close()

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        """The whole body. The socket's time-out is for each piece; this one is for all of them."""
        end = time.monotonic() + self._options.read_seconds
        pieces, size = [], 0
        while piece := response.read1(_CHUNK_BYTES):
            pieces.append(piece)
            size += len(piece)
            if time.monotonic() > end:
                raise TimeoutError
            if size > _MOST_BYTES:
                raise ModelError(
                    f"{self.url}: the server's answer is too long", expected=f"at most {_MOST_BYTES} B"
                )
        if response.length:  # what Content-Length promised and did not come
            raise http.client.IncompleteRead(b"", response.length)
        response.close()  # else the connection believes that there is more to read, and takes no other request
        return b"".join(pieces)

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        try:
            self._idle.put_nowait(connection)
        except queue.Full:
            connection.close()


def _retry_after(headers: http.client.HTTPMessage) -> float | None:
    """Seconds that a `Retry-After` header asks for (a number or a date), or None."""
    value = headers.get("Retry-After")
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
