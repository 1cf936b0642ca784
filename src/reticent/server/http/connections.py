"""Connections of clients that may be hostile: how many there are, how long they may take, what they are told.

Uvicorn reads requests by h11 and waits for ever for a client that sends a byte an hour. Here a client has a time
for its headers, on a new connection and on a kept one, and there are at most so many connections that files remain
for the ledger. What is no HTTP is refused in OpenAI's form. A client that closed its sending side only is answered:
it looks like one that left, so it is sent "100 Continue" now and then, on which the network tells the two apart.
"""

import asyncio
import json
import logging
import resource
from contextlib import suppress
from http import HTTPStatus
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from reticent.server.refusal import Refusal, overloaded

LOG: Final = logging.getLogger("reticent.serve")
_HEAD_ROOM: Final = 128  # files for the ledger, the witness, weights and sockets that listen
_WANTED_FILES: Final = 65_536
_PROBE: Final = 0.5  # seconds
_FLUSH: Final = 5.0  # seconds that a refused client has to take its refusal
_GOODBYE: Final = 1.0  # seconds that an idle client has to end TLS when the server ends; asyncio would wait for 30


class LimitedConnection(H11Protocol):
    """One connection. `most` and `patience` are set by `connection_class`."""

    most: ClassVar[int] = 1024
    patience: ClassVar[float] = 20.0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuse one too many; else wait for its headers."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            self.refuse(overloaded())
            return
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client left."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some of a request: its headers must be whole in time."""
        if self.transport.is_closing():
            return
        if not self._is_answering and self._late is None:
            self._await_headers()
        super().data_received(data)
        if self._is_answering:
            self._stop_waiting()

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """The client sends no more: it may still read, unless its request is not whole."""
        if not self._is_answering or self.cycle.more_body or self.scheme == "https":
            return None
        self.cycle.keep_alive = False
        self._probe()
        return True

    def shutdown(self) -> None:
        """The server ends: clients that wait for nothing are let go, also those that do not say goodbye."""
        super().shutdown()
        if self.transport.is_closing():
            self.loop.call_later(_GOODBYE, self._leave)

    def _leave(self) -> None:
        if not self.transport.get_write_buffer_size():  # else an answer is still under way
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """What was sent is no HTTP."""
        del msg
        self.refuse(Refusal(400, "the request is not valid HTTP"))

    def refuse(self, refusal: Refusal) -> None:
        """Say why, in OpenAI's form, and close; nothing is said in the middle of an answer."""
        self._stop_waiting()
        if not (self._is_answering and self.cycle.response_started):
            body = json.dumps(refusal.document()).encode()
            head = [
                f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}",
                "content-type: application/json",
                f"content-length: {len(body)}",
                "connection: close",
                *(f"{name.lower()}: {value}" for name, value in refusal.headers.items()),
            ]
            self.transport.write("\r\n".join([*head, "", ""]).encode() + body)
        self.transport.close()
        self.loop.call_later(_FLUSH, self.transport.abort)

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_headers(self) -> None:
        self._late = self.loop.call_later(self.patience, self._headers_are_late)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _headers_are_late(self) -> None:
        self._late = None
        if not self._is_answering and not self.transport.is_closing():
            self.refuse(Refusal(408, "the request took too long to arrive", code="timeout"))

    def _probe(self) -> None:
        """Write something that a client which is there passes over and one that left answers by a reset."""
        if self.transport.is_closing() or not self._is_answering or self.cycle.response_started:
            return
        if self.scope["http_version"] != "1.0":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.loop.call_later(_PROBE, self._probe)


def connection_class(*, connections: int, patience: float) -> type[LimitedConnection]:
    """The class of a server's connections, no more of them than there are files for."""
    most = max(1, min(connections, _files() - _HEAD_ROOM))
    return type("Connection", (LimitedConnection,), {"most": most, "patience": patience})


def _files() -> int:
    """How many files this process may open, after asking for more where that is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, _WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return _WANTED_FILES if soft == resource.RLIM_INFINITY else soft


def log_briefly(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """One line for what goes wrong between requests, such as no file left for a connection; no traceback."""
    del loop
    error = context.get("exception")
    LOG.error("the event loop: %s", type(error).__name__ if error is not None else "an error")
