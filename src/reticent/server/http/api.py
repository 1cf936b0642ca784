"""The web application: routes, keys and errors in OpenAI's form.

    POST /v1/completions   POST /v1/chat/completions   GET /v1/models   GET /v1/models/{id}      with a key
    GET /guarantee   GET /healthz   GET /readyz   GET /metrics   GET /openapi.json               for everyone

Nothing here depends on what was spent: an ensemble whose budget is used up answers by the public model, in the same
time and with the same statuses. There are no cross-origin permissions and no pages.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, cast

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from reticent import __version__
from reticent.server.access.keys import Key
from reticent.server.backends.backend import Backend
from reticent.server.http.answers import ChatForm, CompletionForm, Form, events, whole_answer
from reticent.server.http.connections import log_briefly
from reticent.server.http.guard import HOSTS, Guard
from reticent.server.limits import Limits
from reticent.server.refusal import REASONS, Refusal, broken, plain, unsupported
from reticent.server.requests.asking import Asked, chat_asked, completion_asked
from reticent.server.requests.protocol import ChatRequest, CompletionRequest, ErrorDocument
from reticent.server.scheduling.jobs import Piece
from reticent.server.service import Body, Left, Service, by_continuation, gathered, preceded, unless_left

_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": ErrorDocument} for status in (400, 401, 404, 413, 429, 500, 503, 504)
}
_BEARER = HTTPBearer(auto_error=False)


def create_app(service: Service) -> ASGIApp:
    """The application around a service, guarded."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(log_briefly)
        service.start()
        yield
        await service.stop()

    app = FastAPI(
        title="reticent",
        version=__version__,
        description="Text continued within a privacy budget; log-probabilities, seeds and charges never leave.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses=_ERRORS,
    )
    _add_error_forms(app, service)
    _add_answers(app, service)
    _add_information(app, service)
    hosts = HOSTS if service.keys is None else None
    return Guard(app, metrics=service.metrics, limits=service.limits, hosts=hosts)


def _add_answers(app: FastAPI, service: Service) -> None:
    """The two routes that draw tokens, and the models."""
    admitted = _admission(service)

    @app.post("/v1/completions", response_model=None)
    async def completions(
        body: CompletionRequest, request: Request, key: Annotated[Key, Depends(admitted)]
    ) -> Response:
        """Continue one or several prompts."""
        return await _answer(service, CompletionForm(), body, by=completion_asked, key=key, request=request)

    @app.post("/v1/chat/completions", response_model=None)
    async def chat_completions(
        body: ChatRequest, request: Request, key: Annotated[Key, Depends(admitted)]
    ) -> Response:
        """Continue a conversation."""
        return await _answer(service, ChatForm(), body, by=chat_asked, key=key, request=request)

    @app.get("/v1/models", response_model=None, dependencies=[Depends(admitted)])
    async def models() -> dict[str, Any]:
        """The one model that is served."""
        return {"object": "list", "data": [_model(service)]}

    @app.get("/v1/models/{name:path}", response_model=None, dependencies=[Depends(admitted)])
    async def model(name: str) -> dict[str, Any]:
        """The model of that name."""
        _require_model(service, name)
        return _model(service)


def _add_information(app: FastAPI, service: Service) -> None:
    """What anybody may know."""

    @app.get("/guarantee", response_model=None)
    async def guarantee() -> dict[str, Any]:
        """What all answers together promise: the cap is public, the spend is the operator's."""
        promise = service.backend.guarantee
        notes = list(service.backend.notes)
        return {"guarantee": None if promise is None else promise.to_json(), "notes": notes}

    @app.get("/healthz", response_model=None)
    async def healthz() -> dict[str, str]:
        """The process lives."""
        return {"status": "ok"}

    @app.get("/readyz", response_model=None)
    async def readyz() -> Response:
        """Whether answers can be given: charges reach the disk. Not whether the budget is spent."""
        ready = service.is_ready
        return JSONResponse({"status": "ready" if ready else "unavailable"}, 200 if ready else 503)

    @app.get("/metrics", response_model=None)
    async def metrics() -> Response:
        """Public counters."""
        return Response(service.metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _admission(service: Service) -> Any:
    """Who asks, as a dependency of a route."""

    async def admitted(
        request: Request, sent: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]
    ) -> Key:
        request.state.key = service.admit(None if sent is None else sent.credentials)
        return cast(Key, request.state.key)

    return admitted


async def _answer(
    service: Service,
    form: Form,
    body: Body,
    *,
    by: Callable[[Body, Backend, Limits], Asked],
    key: Key,
    request: Request,
) -> Response:
    """Reserve, read `by` the route's own rules, draw, and answer whole or as a stream.

    Whatever is refused at once is refused before a stream begins.
    """
    _require_model(service, body.model)
    reserved = service.reserve(body, key)
    asked = await service.read(body, key, by=by, reserved=reserved)
    pieces = service.pieces(asked, key, reserved=reserved)
    name = service.backend.name
    try:
        if not body.stream:
            answers = by_continuation(await unless_left(gathered(pieces), request))
            return JSONResponse(whole_answer(form, asked, answers, model=name))
        first = await unless_left(anext(pieces), request)
    except Left:
        return Response(status_code=499)
    with_usage = bool(body.stream_options and body.stream_options.include_usage)
    stream = events(form, asked, preceded(first, pieces), model=name, with_usage=with_usage)
    return ClosingStream(stream, pieces)


class ClosingStream(StreamingResponse):
    """A stream of events that lets go of its job when it ends, even when the client leaves in the middle."""

    def __init__(self, content: AsyncGenerator[str], pieces: AsyncGenerator[Piece]) -> None:
        super().__init__(content, media_type="text/event-stream")
        self._content, self._pieces = content, pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events; close their sources whatever happens."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._content.aclose()
            await self._pieces.aclose()


def _require_model(service: Service, name: str) -> None:
    if name != service.backend.name:
        raise Refusal(404, "no such model; see /v1/models", param="model", code="model_not_found")


def _model(service: Service) -> dict[str, Any]:
    return {"id": service.backend.name, "object": "model", "created": service.started, "owned_by": "reticent"}


def _add_error_forms(app: FastAPI, service: Service) -> None:
    """Every error leaves in OpenAI's form, without what the client sent."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        if error.status == 429:
            await asyncio.sleep(service.refusal_delay(request.state.key))
        return JSONResponse(error.document(), error.status, error.headers)

    async def not_valid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return await refused(_, _refusal_of(error))

    async def http_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if isinstance(error.__cause__, Refusal):  # of the guard, while the body was read
            return await refused(_, error.__cause__)
        words = {404: "no such page", 405: "this page does not take that method"}
        refusal = Refusal(error.status_code, words.get(error.status_code, "the request cannot be read"))
        return JSONResponse(refusal.document(), error.status_code, error.headers)

    async def unexpected(_: Request, error: Exception) -> Response:  # noqa: ARG001
        return await refused(_, broken())

    app.add_exception_handler(Refusal, refused)
    app.add_exception_handler(RequestValidationError, not_valid)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(Exception, unexpected)


def _refusal_of(error: RequestValidationError) -> Refusal:
    """The first fault in words; values that the client sent are not repeated."""
    fault = error.errors()[0]
    names = [part for part in fault["loc"] if isinstance(part, str) and part != "body"]
    param = names[0] if names else None
    if param in REASONS:
        return unsupported(param)
    if fault["type"] == "extra_forbidden":
        shown = plain(names[-1] if names else None)
        what = "an unknown field" if shown is None else f"{shown}: unknown field"
        return Refusal(400, f"{what}, refused since it may be meant to change sampling", param=shown)
    if fault["type"] == "json_invalid" or param is None:
        return Refusal(400, "the body is not a JSON object that this route accepts")
    shown = plain(param)
    what = "a field" if shown is None else shown
    if shown == "prompt" and fault["type"] == "string_type":
        return Refusal(400, "prompt: should be a string, or a list of strings or tokens", param=shown)
    return Refusal(400, f"{what}: {_WORDS.get(fault['type'], 'not a value that this route accepts')}", param=shown)


_WORDS: Final = {
    "missing": "is missing",
    "string_type": "should be a string",
    "string_unicode": "a lone surrogate is not valid text",
    "less_than_equal": "is too large",
    "greater_than_equal": "is too small",
    "greater_than": "is too small",
    "too_long": "has too many items",
    "too_short": "has too few items",
    "string_too_long": "is too long",
    "string_too_short": "is too short",
}
