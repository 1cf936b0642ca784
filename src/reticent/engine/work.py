"""Many independent pieces of work, run by processes of this machine or by a Ray cluster, each landing once.

    with open_engine(EngineSettings(workers=2)) as engine:
        run_pieces(pieces, work, engine=engine, land=keep, observe=show)

A piece has a name and an argument; `work(argument, told)` is a function of a module that gets the argument and
nothing else, so that its result depends on neither the engine nor the number of workers. Every worker computes with
one thread: sums are then taken in one order, and results are equal bit for bit.

- **Landing**: results come back to the caller's process, which alone writes them; a piece that was computed twice,
  because a worker was thought dead, lands once. What landed before an interruption is the caller's to leave out.
- **Failures**: a piece whose worker died or raised is given to another one, `tries` times in all. An error that
  asks the user to fix something is not tried again. Messages of other errors may quote text: only their type and
  place are passed on.
- **Progress**: `told(amount)` adds up over pieces; what a failed try had told is taken back.

Pieces are read one by one, a few for each worker at a time: there may be more than fit into memory.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol, TypeVar

from reticent.core.choice import settle_choices
from reticent.core.errors import ConfigError, InternalError, UsageError

TRIES: Final = 3
AHEAD: Final = 2  # pieces that wait for each worker, so that none idles while results land

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Told = Callable[[int], None]
Work = Callable[[Any, Told], Any]


class EngineName(StrEnum):
    """Where pieces run."""

    LOCAL = "local"
    RAY = "ray"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Which engine, with how many workers (None: as many as it has), where Ray is, and tries of a piece."""

    name: EngineName = EngineName.LOCAL
    workers: int | None = 1
    address: str | None = None
    tries: int = TRIES

    def __post_init__(self) -> None:
        settle_choices(self, name=EngineName)
        if self.address is not None and self.name is not EngineName.RAY:
            raise ConfigError("--ray-address belongs to --engine ray", hint="add --engine ray, or leave it out")
        if self.tries < 1 or (self.workers is not None and self.workers < 1):
            raise ConfigError("an engine needs at least one worker and one try", found=self.workers)


@dataclass(frozen=True, slots=True, repr=False)
class Piece:
    """A named piece of work. Its argument may be private: `repr` shows the name."""

    name: str
    argument: Any

    def __repr__(self) -> str:
        return f"Piece({self.name})"


@dataclass(frozen=True, slots=True)
class Began:
    """A try of a piece began: what an earlier one told is void."""

    name: str


@dataclass(frozen=True, slots=True)
class Advanced:
    """A piece is so much further; an empty name and 0 only say that time passes."""

    name: str
    amount: int


@dataclass(frozen=True, slots=True, repr=False)
class Landed:
    """A piece is finished."""

    name: str
    result: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """A piece is given up: why, without any text, and what to do where the user can do something."""

    name: str
    reason: str
    hint: str | None = None


Event = Began | Advanced | Landed | Failed
IDLE: Final = Advanced("", 0)


class Engine(Protocol):
    """Runs pieces and tells what happens, in any order."""

    @property
    def workers(self) -> int:
        """How many pieces run at once."""
        ...

    def run(self, pieces: Iterator[Piece], work: Work) -> Iterator[Event]:
        """Events until every piece has landed or failed. Closing the iterator stops the work."""
        ...


@contextmanager
def open_engine(settings: EngineSettings) -> Iterator[Engine]:
    """The engine, started when it is first used, and ended with the block."""
    if settings.name is EngineName.RAY:
        from reticent.engine.ray import RayEngine

        with RayEngine(settings) as cluster:
            yield cluster
        return
    from reticent.engine.local import LocalEngine

    with LocalEngine(settings) as processes:
        yield processes


def run_pieces(
    pieces: Iterable[Piece],
    work: Work,
    *,
    engine: Engine,
    land: Callable[[str, Any], None],
    observe: Callable[[int], bool] = lambda _: True,
) -> bool:
    """Run all pieces; each result is given to `land` once, as it comes. Whether all have landed.

    `observe` hears how much was told so far over all pieces, and stops the work by returning False.
    """
    told: dict[str, int] = {}
    landed: set[str] = set()
    names: set[str] = set()
    total = 0
    events = engine.run(_named(pieces, names), work)
    try:
        for event in events:
            match event:
                case Began(name):
                    total -= told.pop(name, 0)
                case Advanced(name, amount):
                    if name not in landed:
                        told[name] = told.get(name, 0) + amount
                        total += amount
                case Landed(name, result):
                    if name not in landed:
                        landed.add(name)
                        land(name, result)
                case Failed(name, reason, hint):
                    raise UsageError(f"the piece {name!r} of this work failed", found=reason, hint=hint)
            if not observe(total):
                return False
    finally:
        close = getattr(events, "close", None)  # a generator's: stops what is still running
        if close is not None:
            close()
    if landed != names:
        raise InternalError(f"an engine lost {len(names - landed)} of {len(names)} pieces")
    return True


def gather(
    pieces: Iterable[Piece],
    work: Callable[[Any, Told], Result],
    *,
    engine: Engine,
    told: Callable[[int], None] = lambda _: None,
) -> list[Result]:
    """The results of all pieces, in their order; `told` hears of progress in steps that add up."""
    chosen = list(pieces)
    results: dict[str, Result] = {}
    heard = 0

    def observe(total: int) -> bool:
        nonlocal heard
        if total > heard:  # a bar does not go back: a second try is silent until it has caught up
            told(total - heard)
            heard = total
        return True

    run_pieces(chosen, work, engine=engine, land=results.__setitem__, observe=observe)
    return [results[piece.name] for piece in chosen]


def _named(pieces: Iterable[Piece], names: set[str]) -> Iterator[Piece]:
    """The pieces; their names are noted, and one that comes twice is our bug."""
    for piece in pieces:
        if piece.name in names:
            raise InternalError(f"two pieces of one name: {piece.name!r}")
        names.add(piece.name)
        yield piece
