"""The operator's page: what is left by when, spend of each part over time, tokens of each key. On a loopback port.

    GET /   the page      GET /ledger.json   the same for programs
    GET /verify   checks the whole chain      GET /export   every row, as JSON lines

Every route asks for an operator's key, as the password of HTTP basic authentication or as a bearer token. One
self-contained page: no script, no network.
"""

import base64
import binascii
import datetime
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

from reticent.core.errors import UsageError
from reticent.core.printing.numbers import Scale, shown
from reticent.ledger.durable import DurableLedger
from reticent.reporting.content import Axis, Cell, Chart, Figure, Section, Trace, cell, table
from reticent.reporting.formats.page import render_sections
from reticent.server.access.keys import Key, KeyFile
from reticent.server.access.quotas import Quotas
from reticent.server.http.guard import SAFE_HEADERS
from reticent.server.operator.spending import Spending, spending

_REFRESH: Final = 60  # seconds
_ROLES: Final = 6  # colours; further lines are dashed


def operator_app(
    ledger: DurableLedger | None, keys: KeyFile, quotas: Quotas, *, name: str, queries: int | None = None
) -> FastAPI:
    """The operator's application; `ledger` is None where nothing is charged, `queries` the query budget."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.middleware("http")
    async def safe(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await go_on(request)
        for header, value in SAFE_HEADERS.items():
            response.headers[header] = value
        response.headers["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'"
        return response

    @app.exception_handler(_Denied)
    async def denied(_: Request, __: Exception) -> Response:
        return Response("an operator's key is needed\n", 401, {"WWW-Authenticate": 'Basic realm="operator"'})

    @app.exception_handler(UsageError)
    async def broken(_: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, 503)

    def operator(request: Request) -> Key:
        found = keys.find(_sent_key(request.headers.get("authorization", "")))
        if found is None or not found.is_operator:
            raise _Denied
        return found

    guarded = [Depends(operator)]

    def spent() -> Spending | None:
        return None if ledger is None else spending(ledger, queries=queries)

    @app.get("/", response_class=HTMLResponse, dependencies=guarded)
    def page() -> str:
        return render(name, spent(), _by_name(keys, quotas))

    @app.get("/ledger.json", dependencies=guarded)
    def document() -> JSONResponse:
        found = spent()
        return JSONResponse({"name": name} | ({} if found is None else found.to_json()))

    @app.get("/verify", dependencies=guarded)
    def verify() -> JSONResponse:
        if ledger is None:
            return JSONResponse({"rows": 0, "digest": None})
        head = ledger.verify()
        return JSONResponse({"rows": head.sequence, "digest": head.digest})

    @app.get("/export", dependencies=guarded)
    def export() -> StreamingResponse:
        lines = (line + "\n" for line in (() if ledger is None else ledger.export()))
        return StreamingResponse(lines, media_type="application/jsonl")

    return app


class _Denied(Exception):
    """No operator's key was sent."""


def _sent_key(header: str) -> str:
    """The key of a basic or bearer header, else an empty one, which nobody has."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).decode("utf8").partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _by_name(keys: KeyFile, quotas: Quotas) -> list[tuple[str, int, int | None]]:
    drawn = quotas.drawn()
    return [(key.name, drawn.get(key.digest, 0), key.quota) for key in keys.keys if not key.is_operator]


Users = Sequence[tuple[str, int, int | None]]


def render(name: str, spent: Spending | None, users: Users, *, now: datetime.datetime | None = None) -> str:
    """The page, as of now."""
    now = now or datetime.datetime.now(datetime.UTC)
    tone = "found" if spent is not None and spent.share >= 1.0 else "measured"
    return render_sections(
        name,
        (*(() if spent is None else (_parts(spent),)), _keys(users)),
        verdict=verdict(spent, now),
        tone=tone,
        footer=f"For the operator only: what was spent depends on private text. As of {_when(now)}. The page "
        f"reloads every {_REFRESH} seconds.",
        refresh=_REFRESH,
    )


def verdict(spent: Spending | None, now: datetime.datetime) -> tuple[str, ...]:
    """Budget, what is left by when, the last day and health, each in a sentence."""
    if spent is None:
        return ("Budget: nothing is charged, since the weights carry the guarantee.",)
    promise = f"(ε = {shown(spent.epsilon, side='up')}, δ = {shown(spent.delta, side='up')})"
    budget = f"{shown(spent.share, Scale.SHARE, digits=2, side='up')} spent by the part that spent most"
    of = "" if spent.queries is None else f"of {spent.queries:,} "
    tokens = "" if spent.answers is None else f"{spent.answers:,} {of}tokens in "
    today = spent.today
    return (
        f"Budget: {budget}, within {promise}: {tokens}{spent.rows:,} charges since the start.",
        f"Left: {_left(spent, now)}",
        f"Today: {today.tokens:,} tokens in {today.charges:,} charges since {_when(today.since)}.",
        f"Health: {_health(spent, now)}",
    )


def _left(spent: Spending, now: datetime.datetime) -> str:
    if spent.share >= 1.0:
        return "nothing. A part has spent its whole budget."
    tokens, until = spent.tokens_left, spent.lasts_until(now)
    if tokens is None or until is None:
        return "no token was charged today, so no rate is known."
    return f"about {shown(tokens, digits=2, side='down')} tokens, until {_when(until)} at today's rate."


def _health(spent: Spending, now: datetime.datetime) -> str:
    last = "nothing was charged yet" if spent.last is None else f"last charge {_ago(now - spent.last)}"
    again = f"; the ledger was accepted {spent.reanchored} times without its witness" * bool(spent.reanchored)
    return f"the ledger can be read, {last}{again}. /verify checks its whole chain."


def _ago(passed: datetime.timedelta) -> str:
    seconds = max(0.0, passed.total_seconds())
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} seconds ago"


def _when(time: datetime.datetime) -> str:
    return f"{time.astimezone(datetime.UTC):%Y-%m-%d %H:%M} UTC"


def _parts(spent: Spending) -> Section:
    """The spend of each part: one chart with its data."""
    rows = [
        (cell(part), Cell(shown(units, digits=3), units), Cell(shown(units / spent.limit, Scale.SHARE), units))
        for part, units in spent.spent.items()
    ]
    data = table("Parts", ("part", f"spent ({spent.measure})", "of its budget"), rows)
    lead = f"Each part has a budget of {shown(spent.limit, digits=3)} ({spent.measure})."
    if not spent.course:
        return Section("parts", "Spend by part", lead, (data,), is_folded=False)
    summary = "What each part has spent of its budget. The dashed line is the whole budget."
    chart = Chart("spend", "Spend over time", summary, _figure(spent), data)
    return Section("parts", "Spend by part", lead, (chart,), is_folded=False)


def _figure(spent: Spending) -> Figure:
    times = [datetime.datetime.fromisoformat(time) for time, _ in spent.course]
    hours = tuple((time - times[0]).total_seconds() / 3600.0 for time in times)
    traces = [
        Trace(
            part,
            hours,
            tuple(min(1.0, values[part] / spent.limit) for _, values in spent.course),
            role=str(place % _ROLES + 1),
            kind="steps",
            dash="dot" if place >= _ROLES else "",
        )
        for place, part in enumerate(spent.spent)
    ]
    traces.append(Trace("the whole budget", (0.0, hours[-1]), (1.0, 1.0), role="null", dash="dash"))
    across = Axis("hours since the first charge", is_from_zero=True)
    return Figure(tuple(traces), across, Axis("spent", ends=(0.0, 1.05), scale=Scale.SHARE), height=300)


def _keys(users: Users) -> Section:
    """Tokens of each key."""
    rows = [
        (
            cell(user),
            Cell(f"{drawn:,}", drawn),
            Cell("–") if quota is None else Cell(f"{quota:,}", quota),
            Cell("–") if quota is None else Cell(f"{max(0, quota - drawn):,}", max(0, quota - drawn)),
        )
        for user, drawn, quota in users
    ]
    tokens = table("Keys", ("key", "tokens", "quota", "left"), rows)
    return Section("keys", "Requests by key", "Tokens that each key has drawn.", (tokens,), is_folded=False)
