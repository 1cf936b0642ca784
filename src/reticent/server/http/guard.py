"""What stands around every request: a limit on its body, safe headers on its answer, one log line, no traceback.

A server without keys, on loopback, answers to the names of loopback alone: a page in the operator's browser that
points a name of its own to 127.0.0.1 (DNS rebinding) is refused. A client that sends its body or takes its answer
too slowly is let go of.

A log line holds method, route, status and time: no prompt, no answer, no address, no key. An error that nobody
expected is logged by type and place and answered by a plain 500.
"""

import asyncio
import logging
import secrets
import time
from typing import Final

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reticent.server.limits import Limits
from reticent.server.metrics import Metrics
from reticent.server.refusal import Refusal, broken
from reticent.server.scheduling.scheduler import place_of

LOG: Final = logging.getLogger("reticent.serve")
ROUTES: Final = frozenset(
    ("/v1/completions", "/v1/chat/completions", "/v1/models", "/guarantee", "/healthz", "/readyz", "/metrics")
)
HOSTS: Final = frozenset(("localhost", "127.0.0.1", "[::1]"))  # of loopback
SAFE_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """An ASGI application around another one."""

    def __init__(
        self, inner: ASGIApp, *, metrics: Metrics, limits: Limits, hosts: frozenset[str] | None = None
    ) -> None:
        """`hosts`: the only names that are answered to, where given."""
        self._inner = inner
        self._metrics = metrics
        self._body_bytes = limits.body_bytes
        self._patience = limits.patience
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens inside."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        begun = time.perf_counter()
        status = 0
        read = 0
        is_whole = False

        async def counted_receive() -> Message:
            nonlocal read, is_whole
            if is_whole:
                return await receive()  # whether the client leaves
            try:
                async with asyncio.timeout(begun + self._patience - time.perf_counter()):
                    message = await receive()
            except TimeoutError:
                raise Refusal(408, "the request took too long to arrive", code="timeout") from None
            if message["type"] == "http.request":
                is_whole = not message.get("more_body", False)
                read += len(message.get("body", b""))
                if read > self._body_bytes:
                    raise self._too_large()
            return message

        async def safe_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
                headers = MutableHeaders(scope=message)
                for name, value in SAFE_HEADERS.items():
                    headers.setdefault(name, value)
                headers["X-Request-Id"] = secrets.token_hex(8)
                if status == 408:
                    headers["Connection"] = "close"
            async with asyncio.timeout(self._patience):
                await send(message)

        try:
            if int(_content_length(scope)) > self._body_bytes:
                raise self._too_large()
            if self._hosts is not None and _host(scope) not in self._hosts:
                raise Refusal(421, "this server answers only to the host names of this machine", code="wrong_host")
            await self._inner(scope, counted_receive, safe_send)
        except Refusal as refusal:
            if not status:
                await _answer(refusal, scope, receive, safe_send)
        except TimeoutError:  # of `safe_send`: the client does not read
            LOG.info("a client is not reading its answer")
        except Exception as error:
            LOG.error("a request failed: %s", place_of(error))
            if not status:
                await _answer(broken(), scope, receive, safe_send)
        finally:
            route = scope["path"] if scope["path"] in ROUTES else "other"
            seconds = time.perf_counter() - begun
            self._metrics.observe_request(route, status, seconds)
            LOG.info("%s %s %d %.3f s", _method(scope), route, status, seconds)

    def _too_large(self) -> Refusal:
        return Refusal(413, f"the body is larger than {self._body_bytes} bytes", code="request_too_large")


def _content_length(scope: Scope) -> str:
    length = Headers(scope=scope).get("content-length", "0")
    return length if length.isascii() and length.isdigit() and len(length) < 19 else "0"


def _host(scope: Scope) -> str:
    """The name that a client asked for, without its port; that of this machine where an old client names none."""
    named = Headers(scope=scope).get("host", "localhost").lower()
    name, _, port = named.rpartition(":")
    return name if port.isdigit() and name else named


def _method(scope: Scope) -> str:
    method = str(scope["method"])
    return method if method in ("GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH") else "other"


async def _answer(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    await JSONResponse(refusal.document(), refusal.status, refusal.headers)(scope, receive, send)
