"""Options that several verbs share, so that they read alike everywhere."""

from enum import StrEnum
from typing import Annotated

import typer

from reticent.core.randomness import Randomness
from reticent.core.ranges import PROCESSES, SEED
from reticent.data.reading.formats import Format
from reticent.engine.work import EngineName, EngineSettings


class Protected(StrEnum):
    """What one promise of prediction protects."""

    PART = "part"
    OWNER = "owner"


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Seed = Annotated[
    int | None, typer.Option("--seed", help="Seed of an experiment, so that it can be repeated.", metavar="N")
]
TextField = Annotated[str, typer.Option("--text-field", help="Field that holds the text.", metavar="NAME")]
IdField = Annotated[str, typer.Option("--id-field", help="Field that holds the record's id.", metavar="NAME")]
OwnerField = Annotated[
    str, typer.Option("--owner-field", help="Field that names whose record it is.", metavar="NAME")
]
CorpusFormat = Annotated[
    Format | None, typer.Option("--format", help="Format of the corpus; recognised by its name unless given.")
]

Epsilon = Annotated[
    float | None, typer.Option("--epsilon", help="ε of all answers together; fixed by the first use.")
]
Delta = Annotated[float | None, typer.Option("--delta", help="δ, fixed by the first use.")]
Queries = Annotated[
    int | None, typer.Option("--queries", help="Tokens the budget is spread over (1024), fixed by the first use.")
]
MechanismName = Annotated[
    str | None, typer.Option("--mechanism", help="submix-f unless given; fixed by the first use.")
]
ProtectedUnit = Annotated[
    Protected | None, typer.Option("--unit", help="What is protected: a part, or one owner in it.")
]
Order = Annotated[float | None, typer.Option("--order", help="Rényi order of the accounting.")]
WeightLimit = Annotated[
    float | None, typer.Option("--weight-limit", help="Most that a part is mixed in (submix-f).")
]
LedgerAddress = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        help="postgresql://… of a ledger that servers share, instead of the run's own ledger.db.",
        envvar="RETICENT_LEDGER",
        metavar="ADDRESS",
        show_default=False,
    ),
]

_ENGINE = "Many workers"
EngineChoice = Annotated[
    EngineName | None,
    typer.Option("--engine", help="Run pieces in processes here, or on Ray.", rich_help_panel=_ENGINE),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        help="Pieces at once (all processors).",
        min=1,
        max=int(PROCESSES.high),
        rich_help_panel=_ENGINE,
        metavar="N",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address", help="Cluster to join, as host:port.", rich_help_panel=_ENGINE, metavar="ADDRESS"
    ),
]

SkipEmpty = Annotated[bool, typer.Option("--skip-empty", help="Leave out records without text.")]


def engine_of(name: EngineName | None, workers: int | None, address: str | None) -> EngineSettings | None:
    """The engine that was asked for; None where the work is to be done in this process."""
    if name is None and workers is None and address is None:
        return None
    chosen = name or (EngineName.LOCAL if address is None else EngineName.RAY)
    return EngineSettings(name=chosen, workers=workers, address=address)


def randomness_of(seed: int | None) -> Randomness:
    """A seeded source where a seed was given, else the system's."""
    if seed is None:
        return Randomness.system()
    SEED.require("a seed", seed)
    return Randomness.seeded(seed)
