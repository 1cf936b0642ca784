"""The operator's page: budget, spend of each part over time, tokens of each key. On a loopback port of its own.

    GET /   the page      GET /ledger.json   the same for programs
    GET /verify   checks the whole chain      GET /export   every row, as JSON lines

Every route asks for an operator's key, as the password of HTTP basic authentication or as a bearer token. One
self-contained page: no script, no network.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable

from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

from reticent.core.errors import UsageError
from reticent.core.safe_text import for_html as escape
from reticent.ledger.durable import DurableLedger
from reticent.server.guard import SAFE_HEADERS
from reticent.server.keys import Key, KeyFile
from reticent.server.quotas import Quotas
from reticent.server.spending import Spending, spending

_COLOURS = ("#1b6ca8", "#c8553d", "#4b8b3b", "#8e5ea2", "#b8860b", "#2a9d8f", "#6d6875", "#d1495b")
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .8rem;text-align:right}"
    "td:first-child,th:first-child{text-align:left}svg{width:100%;height:auto;background:#fafafa}"
    "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}svg{background:#222}}"
)


def operator_app(ledger: DurableLedger | None, keys: KeyFile, quotas: Quotas, *, name: str) -> FastAPI:
    """The operator's application; `ledger` is None where nothing is charged."""
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

    @app.get("/", response_class=HTMLResponse, dependencies=guarded)
    def page() -> str:
        return render(name, None if ledger is None else spending(ledger), _by_name(keys, quotas))

    @app.get("/ledger.json", dependencies=guarded)
    def document() -> JSONResponse:
        return JSONResponse({"name": name} | (spending(ledger).to_json() if ledger is not None else {}))

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


def render(name: str, spent: Spending | None, users: list[tuple[str, int, int | None]]) -> str:
    """The page."""
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(name)}</title><style>{_STYLE}</style>",
        f"<h1>{escape(name)}</h1><p>For the operator alone: what was spent depends on private text.</p>",
    ]
    if spent is None:
        parts.append("<p>Nothing is charged: the guarantee is that of the weights.</p>")
    else:
        promise = f"(ε = {spent.epsilon:.4g}, δ = {spent.delta:g})"
        parts.append(
            f"<p>Budget of each part: {spent.limit:.6g} {escape(spent.measure)}, within {promise}."
            f" {spent.answers or 0:,} tokens in {spent.rows:,} charges.</p>"
        )
        rows = "".join(
            f"<tr><td>{escape(part)}<td>{units:.6g}<td>{100 * units / spent.limit:.2f} %"
            for part, units in spent.spent.items()
        )
        parts.append(f"<h2>Spend</h2><table><tr><th>part<th>spent<th>of its budget{rows}</table>")
        parts.append(f"<h2>Over time</h2>{_chart(spent)}")
    users_rows = "".join(
        f"<tr><td>{escape(user)}<td>{drawn:,}<td>{'–' if quota is None else f'{quota:,}'}"
        for user, drawn, quota in users
    )
    parts.append(f"<h2>Keys</h2><table><tr><th>key<th>tokens<th>quota{users_rows}</table></html>")
    return "".join(parts)


def _chart(spent: Spending) -> str:
    """Spend of each part as a share of its budget, row by row."""
    width, height = 800.0, 240.0
    if not spent.course:
        return "<p>Nothing was charged yet.</p>"
    step = width / max(1, len(spent.course) - 1)
    lines = []
    for number, part in enumerate(spent.spent):
        points = " ".join(
            f"{place * step:.1f},{height * (1 - min(1.0, values[part] / spent.limit)):.1f}"
            for place, (_, values) in enumerate(spent.course)
        )
        colour = _COLOURS[number % len(_COLOURS)]
        lines.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}">'
            f"<title>{escape(part)}</title></polyline>"
        )
    first, last = escape(spent.course[0][0]), escape(spent.course[-1][0])
    drawn = f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="spend">{"".join(lines)}</svg>'
    return f"{drawn}<p>{first} to {last}; the upper edge is the whole budget of a part.</p>"
