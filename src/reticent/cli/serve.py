"""`reticent serve`: answer OpenAI-compatible requests within a privacy budget."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.cli.console import Output
from reticent.cli.options import (
    AsJson,
    Delta,
    Epsilon,
    LedgerAddress,
    MechanismName,
    Order,
    ProtectedUnit,
    Queries,
    WeightLimit,
)
from reticent.core.errors import ConfigError
from reticent.core.extras import require
from reticent.core.ranges import PROCESSES

if TYPE_CHECKING:
    from reticent.server.launching import Serving


def serve(
    run: Annotated[
        Path, typer.Argument(help="Run directory of `train`: an ensemble, or a private model.", metavar="RUN")
    ],
    epsilon: Epsilon = None,
    delta: Delta = None,
    queries: Queries = None,
    mechanism: MechanismName = None,
    unit: ProtectedUnit = None,
    order: Order = None,
    weight_limit: WeightLimit = None,
    ledger: LedgerAddress = None,
    join: Annotated[
        bool, typer.Option("--join", help="This machine uses the ledger that --ledger names for the first time.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML with [prediction] and [limits]; flags override it.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The model's name; the run's unless given.")] = None,
    host: Annotated[str, typer.Option("--host", help="Address; others than loopback need --keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535)] = 8000,
    workers: Annotated[
        int, typer.Option("--workers", help="Processes that share port and ledger.", min=1, max=int(PROCESSES.high))
    ] = 1,
    keys: Annotated[
        Path | None, typer.Option("--keys", help="Key file of `reticent keys add`.", metavar="FILE")
    ] = None,
    operator_port: Annotated[
        int | None, typer.Option("--operator-port", help="The operator's page, on loopback.", min=1, max=65535)
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", help="Certificate chain (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="Its key (PEM).")] = None,
    memfree: Annotated[
        Path | None,
        typer.Option("--memfree", help="Training corpus whose n-grams a private model never completes."),
    ] = None,
    memfree_length: Annotated[int, typer.Option("--memfree-length", help="n of the n-grams.", min=2)] = 8,
    seed: Annotated[int | None, typer.Option("--seed", hidden=True)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the guarantee and stop.")] = False,
    as_json: AsJson = False,
) -> int:
    """Answer requests until stopped; every token is charged durably before it is drawn."""
    require("fastapi", "uvicorn", "prometheus_client", purpose="serving")
    if not run.is_dir():
        raise ConfigError(f"{run}: no such folder", hint="give the run directory of a training")
    from reticent.runs.ledger_place import LedgerPlace
    from reticent.server.launching import log_plainly
    from reticent.server.launching import serve as answer

    flags = {
        "prediction": {
            "mechanism": mechanism,
            "epsilon": epsilon,
            "delta": delta,
            "horizon": queries,
            "unit": None if unit is None else unit.value,
            "order": order,
            "weight_limit": weight_limit,
            "seed": seed,
        }
    }
    serving = _serving(run, config, flags, name=name or run.resolve().name)
    serving = _replaced(
        serving,
        ledger=LedgerPlace(ledger, joins=join),
        host=host,
        port=port,
        workers=workers,
        keys=keys,
        operator_port=operator_port,
        tls_certificate=tls_cert,
        tls_key=tls_key,
        memfree=memfree,
        memfree_length=memfree_length,
    )
    output = Output(as_json=as_json)
    _show_promise(serving, output)
    if dry_run:
        serving.check()
        output.show("Nothing was started: this is what answers would promise.")
        return 0
    log_plainly()
    output.show(f"'{serving.name}' on http{'s' if tls_cert else ''}://{host}:{port}/v1")
    return answer(serving)


def _serving(run: Path, config: Path | None, flags: dict[str, Any], *, name: str) -> "Serving":
    """What the file and the flags say together."""
    from reticent.server.backend import settings_for
    from reticent.server.config import serving_config
    from reticent.server.launching import Serving

    read = serving_config(config, flags)
    return Serving(run=run, name=name, settings=settings_for(run, read.asked()), limits=read.limits.checked())


def _replaced(serving: "Serving", **values: Any) -> "Serving":
    from dataclasses import replace

    return replace(serving, **values)


def _show_promise(serving: "Serving", output: Output) -> None:
    """The guarantee that answers have, or would have."""
    from reticent.server.promise import promised

    guarantee, lines = promised(serving)
    output.document(
        {
            "schema_version": 1,
            "name": serving.name,
            "guarantee": None if guarantee is None else guarantee.to_json(),
            "sentences": lines,
        }
    )
    output.show(*lines)
