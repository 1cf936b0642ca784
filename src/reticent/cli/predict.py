"""`reticent predict`: a continuation of a prompt, each token charged to the ensemble's ledger before it is
drawn."""

import sys
from pathlib import Path
from typing import Annotated

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


def predict(
    run: Annotated[Path, typer.Argument(help="Run directory of `train --method submix`.", metavar="RUN")],
    prompt: Annotated[
        str | None, typer.Option("--prompt", help="Text to continue; '-' reads it from stdin.")
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    queries: Queries = None,
    mechanism: MechanismName = None,
    unit: ProtectedUnit = None,
    order: Order = None,
    weight_limit: WeightLimit = None,
    ledger: LedgerAddress = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", help="Tokens of the answer.", min=1, max=1_000_000)
    ] = 64,
    temperature: Annotated[float, typer.Option("--temperature", help="Inside the accounting.")] = 1.0,
    top_k: Annotated[int | None, typer.Option("--top-k", help="Of the public model's tokens.")] = None,
    top_p: Annotated[float | None, typer.Option("--top-p", help="Of the public model's mass.")] = None,
    refuse: Annotated[
        bool, typer.Option("--refuse", help="Stop, with exit code 3, rather than answer by the public model alone.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Continue a prompt privately. Tokens come from the system's generator, so there is no --seed."""
    from reticent.runs.ensemble.manifest import Manifest

    Manifest.read(run)  # what is no ensemble is said before torch is loaded
    from reticent.core.errors import ConfigError
    from reticent.core.guarantee import Unit
    from reticent.prediction.budgets import Kind
    from reticent.prediction.mechanisms.shaping import Shaping
    from reticent.prediction.predictor import Exhausted
    from reticent.runs.ensemble.prediction import answering, settings_of
    from reticent.runs.ledger_place import LedgerPlace

    output = Output(as_json=as_json)
    if prompt is None:
        raise ConfigError("--prompt is missing", hint="--prompt TEXT, or --prompt - to read standard input")
    if mechanism is not None and mechanism not in list(Kind):
        raise ConfigError("no such mechanism", found=mechanism, expected=", ".join(Kind))
    asked = {
        "mechanism": None if mechanism is None else Kind(mechanism),
        "epsilon": epsilon,
        "delta": delta,
        "horizon": queries,
        "unit": None if unit is None else Unit(unit.value),
        "order": order,
        "weight_limit": weight_limit,
    }
    text = sys.stdin.read() if prompt == "-" else prompt
    settings = settings_of(run, asked)
    shaping = Shaping(temperature, top_k, top_p)
    exhausted = Exhausted.REFUSE if refuse else Exhausted.PUBLIC
    place = LedgerPlace(ledger)
    with answering(run, settings, shaping=shaping, exhausted=exhausted, place=place) as open_run:
        public = open_run.predictor.ensemble.public
        (context,) = public.encode([text])
        room = max_tokens if public.context_length is None else public.context_length - 1 - len(context)
        made = open_run.predictor.generate(context, min(max_tokens, max(1, room)))
        (answer,) = public.decode([made])
    promise = open_run.guarantee
    output.document(
        {
            "schema_version": 1,
            "text": answer,
            "tokens": len(made),
            "mechanism": settings.mechanism.value,
            "guarantee": None if promise is None else promise.to_json(),
        }
    )
    output.show(answer)
