"""A finished ensemble ready to answer: its predictor, and the one ledger that all of its answers are charged to.

The first use fixes mechanism, (ε, δ), what is protected and the query budget in `prediction.json` and makes the
ledger (`runs.ledger_place`), bound to the ensemble's fingerprint. Every later use must ask for the same, or for
nothing: the budget is global to the ensemble, and a second one beside it would spend twice. Temperature and
truncation may differ from call to call, since they are inside the accounting.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, ClassVar, Final

from reticent.core.document import (
    ADDED_LATER,
    MALFORMED,
    UNLESS_DEFAULT,
    JsonObject,
    called,
    check_schema,
    fields_from_json,
    object_to_json,
    read_document,
    write_document,
)
from reticent.core.ensemble import Ensemble
from reticent.core.errors import ConfigError, LedgerError
from reticent.core.event import Composed
from reticent.core.guarantee import Guarantee, Unit
from reticent.core.ledger import Budget
from reticent.ledger.chain import EDITED, Row
from reticent.ledger.durable import DurableLedger
from reticent.prediction.budgets import (
    DEFAULT_WEIGHT_LIMIT,
    SERVED,
    MechanismName,
    MechanismOptions,
    PredictionTarget,
    Setup,
    best_order,
    set_up_mechanism,
)
from reticent.prediction.calibration import CalibratedEnsemble, Calibration
from reticent.prediction.lifetime import Lifetime
from reticent.prediction.mechanisms.mechanism import Layout
from reticent.prediction.mechanisms.shaping import Shaping
from reticent.prediction.predictor import Exhausted, TokenPredictor
from reticent.runs.directory import MANIFEST, PREDICTION, RunDirectory
from reticent.runs.ensemble.manifest import Manifest
from reticent.runs.ensemble.public_text import calibrate, require_same_text
from reticent.runs.ledger_place import LedgerPlace
from reticent.runs.proofs.ancestry import ANCESTRY, Ancestry, ancestry_of, answers_together
from reticent.runs.proofs.corpus_ledger import CorpusLedger
from reticent.runs.settings.declaration import flag_of

SCHEMA_VERSION: Final = 1
QUERIES: Final = 1024
# Mechanisms whose charges are metered at one order.
ONE_ORDER: Final = (MechanismName.SUBMIX_F, MechanismName.SUBMIX, MechanismName.SUBMIX_PER_PART)


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionSettings(JsonObject):
    """The public settings that an ensemble answers with, fixed by its first use."""

    schema_version: ClassVar = SCHEMA_VERSION
    mechanism: MechanismName
    epsilon: float
    delta: float
    unit: Unit = Unit.PART
    order: float | None = None
    weight_limit: float | None = field(default=None, metadata=ADDED_LATER)
    calibration: Calibration | None = field(default=None, metadata=UNLESS_DEFAULT)
    since: str | None = field(default=None, metadata=UNLESS_DEFAULT)  # the day of the first use, with `until`
    until: str | None = field(default=None, metadata=UNLESS_DEFAULT)
    # By its name in the file, which ledgers are bound to.
    queries: int = field(default=QUERIES, metadata=called("horizon"))

    def __post_init__(self) -> None:
        if self.until is not None and self.mechanism is not MechanismName.SUBMIX_F:
            raise ConfigError(
                "--until paces SubMix-F alone: other mechanisms cost the same however many answers come",
                found=self.mechanism.value,
                hint="leave --until out",
            )
        _ = self.lifetime
        if self.mechanism is MechanismName.GNMAX_COUNTED:
            raise ConfigError(
                "the price of actual votes holds for questions that are fixed ahead, and answers are not",
                found=self.mechanism.value,
                hint="use gnmax; compare the two with `reticent evaluate`",
            )
        if self.mechanism is MechanismName.CONFIDENT_GNMAX:
            raise ConfigError(
                "confident-gnmax is a rival to compare, not a way to serve answers",
                found=self.mechanism.value,
                hint="use submix-f; compare the two with `reticent evaluate`",
            )
        if self.mechanism not in SERVED:
            raise ConfigError(
                f"{self.mechanism.value} protects nothing, so it does not serve answers",
                expected=", ".join(kind.value for kind in SERVED),
                hint="compare it with `reticent evaluate`",
            )

    @property
    def lifetime(self) -> Lifetime | None:
        """The days that the budget is spread over, where a last one was given."""
        if self.until is None or self.since is None:
            return None
        return Lifetime(_day(self.since), _day(self.until))

    def set_up(self, layout: Layout, shaping: Shaping | None = None) -> Setup:
        """The mechanism and its budget, for parts of this layout."""
        target = PredictionTarget(epsilon=self.epsilon, delta=self.delta, queries=self.queries, unit=self.unit)
        # Older versions settled no order: theirs is found again by their rule, as the ledger is bound to it.
        order = best_order(target, growth=1.0) if self.order is None and self.mechanism in ONE_ORDER else self.order
        options = MechanismOptions(shaping=shaping or Shaping(), order=order, weight_limit=self.weight_limit)
        found = set_up_mechanism(self.mechanism, target, layout, options=options)
        if found.budget is None or self.calibration is None:
            return found
        promise = found.budget.guarantee
        promise = replace(promise, assumes=(*promise.assumes, self.calibration.assumption))
        return replace(found, budget=replace(found.budget, guarantee=promise))

    def settled(self) -> "PredictionSettings":
        """The same with the defaults of this version written out, so that another version answers alike."""
        if self.mechanism not in ONE_ORDER:
            return self
        target = PredictionTarget(epsilon=self.epsilon, delta=self.delta, queries=self.queries, unit=self.unit)
        order, limit = self.order, self.weight_limit
        if limit is None and self.mechanism is MechanismName.SUBMIX_F:
            limit = DEFAULT_WEIGHT_LIMIT
        return replace(self, order=best_order(target) if order is None else order, weight_limit=limit)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "PredictionSettings":
        """The settings that `to_json` wrote."""
        check_schema(document, SCHEMA_VERSION, kind="prediction settings")
        return fields_from_json(cls, document)


def settings_of(run: Path, asked: dict[str, Any]) -> PredictionSettings:
    """The settings of a run: those of its first use, which `asked` (None: not asked for) must not contradict."""
    given = {name: value for name, value in asked.items() if value is not None}
    public: Path | None = given.pop("public", None)
    if (run / PREDICTION).is_file():
        stored = _stored(run / PREDICTION)
        if public is not None:
            require_same_text(stored.calibration, public)
        other = [name for name, value in given.items() if getattr(stored, name) != value]
        if other:
            raise ConfigError(
                f"{run}: the settings of this ensemble are already fixed",
                found=f"{flag_of(other[0])} {given[other[0]]}",
                expected=f"{getattr(stored, other[0])}",
                hint="one budget covers all answers; leave the option out",
            )
        check_unit(run, stored.unit)
        return stored
    missing = [name for name in ("epsilon", "delta") if name not in given]
    if missing:
        raise ConfigError(f"--{missing[0]} is missing", hint="the first use of an ensemble fixes its budget")
    if "until" in given:
        given["since"] = datetime.now(UTC).date().isoformat()
    first = PredictionSettings(**{"mechanism": MechanismName.SUBMIX_F} | given).settled()
    check_unit(run, first.unit)
    return first if public is None else replace(first, calibration=calibrate(run, public))


def query_budget(run: Path) -> int | None:
    """How many tokens the first use of an ensemble spread its budget over; None where nothing was used yet."""
    return _stored(run / PREDICTION).queries if (run / PREDICTION).is_file() else None


def _stored(file: Path) -> PredictionSettings:
    """The settings of the first use, as they were written."""
    try:
        return PredictionSettings.from_json(read_document(file))
    except MALFORMED as error:
        hint = "the first use of an ensemble wrote it; put it back as it was"
        raise ConfigError(
            f"{file}: not the settings of an ensemble", found=type(error).__name__, hint=hint
        ) from None


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ConfigError("not a day of the calendar", found=text, expected="such as 2027-01-31") from None


def check_unit(run: Path, unit: Unit) -> None:
    """Refuse to protect owners in an ensemble of records that named none: an owner's may stand in several parts."""
    if unit is Unit.OWNER and Manifest.read(run).unit != Unit.OWNER.value:
        raise ConfigError(
            f"{run}: the ensemble was trained on records without owners, so owners cannot be protected",
            hint="--unit part, or train again on a corpus with owners",
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """A private continuation of a prompt: its text, its tokens, and what all answers of the ensemble prove."""

    text: str
    tokens: int
    mechanism: MechanismName
    guarantee: Guarantee | None
    is_replayed: bool = False  # released before: nothing was charged this time

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        said = {"text": self.text, "tokens": self.tokens, "replayed": self.is_replayed}
        proved = {"mechanism": self.mechanism, "guarantee": self.guarantee}
        return object_to_json({"schema_version": SCHEMA_VERSION} | said | proved)


@dataclass(frozen=True, slots=True)
class Answering:
    """An open ensemble: the predictor, its settings and what its answers prove (None: the public model alone)."""

    predictor: TokenPredictor
    settings: PredictionSettings
    guarantee: Guarantee | None


@contextmanager
def answering(
    run: Path,
    settings: PredictionSettings,
    *,
    shaping: Shaping | None = None,
    exhausted: Exhausted = Exhausted.PUBLIC,
    ensemble: Ensemble | None = None,
    place: LedgerPlace | None = None,
) -> Iterator[Answering]:
    """A predictor on a run's ensemble and ledger, which is made at the first use; `place` is ledger.db if None."""
    if ensemble is None:
        from reticent.runs.ensemble.loading import load_ensemble  # torch, only where there is something to load

        ensemble = load_ensemble(run)
    if settings.calibration is not None:
        ensemble = CalibratedEnsemble(ensemble, settings.calibration)
    alone = settings.set_up(Layout(ensemble.rows), shaping)
    setup = with_base(run, alone)
    if setup.budget is None:
        yield Answering(
            TokenPredictor(ensemble, setup.mechanism, ledger=None, queries=settings.queries), settings, None
        )
        return
    is_joined = place is not None and place.joins  # whoever made that ledger has entered it
    if alone.budget is not None and not is_joined and not (run / PREDICTION).is_file():
        _enter_release(run, alone.budget.guarantee)
    with _ledger(run, settings, setup, ensemble=ensemble, place=place or LedgerPlace()) as ledger:
        predictor = TokenPredictor(
            ensemble,
            setup.mechanism,
            ledger=ledger,
            queries=settings.queries,
            exhausted=exhausted,
            answered=answers_given(ledger),
            lifetime=settings.lifetime,
        )
        yield Answering(predictor, settings, ledger.budget.guarantee)


def with_base(run: Path, setup: Setup) -> Setup:
    """The setup whose guarantee counts what the ensemble's base model has released of the same text."""
    if setup.budget is None:
        return setup
    whole = answers_together(setup.budget.guarantee, _base_of(run))
    return replace(setup, budget=replace(setup.budget, guarantee=whole))


def _base_of(run: Path) -> Ancestry:
    """The trainings behind the base; where none were kept, those that are found now, their text not compared."""
    if (run / ANCESTRY).is_file():
        kept = Ancestry.read(run)
        return replace(kept, runs=kept.runs[:-1])  # without the last: what the run itself started from
    return ancestry_of(Manifest.read(run).base) if (run / MANIFEST).is_file() else Ancestry("the base model")


def _ledger(
    run: Path, settings: PredictionSettings, setup: Setup, *, ensemble: Ensemble, place: LedgerPlace
) -> DurableLedger:
    """The run's ledger, made where there is none; refused where its budget is not what the settings give."""
    assert setup.budget is not None
    path, name = RunDirectory.open(run).ledger, ledger_identity(ensemble, settings)
    is_first = not (run / PREDICTION).is_file()
    if is_first and path.exists():
        raise LedgerError(f"{path}: a ledger without {PREDICTION}", hint="put the file back as it was")
    if place.joins:
        place.join(run, identity=name)
    elif is_first:
        place.create(run, setup.budget, accounts=ensemble.parts, identity=name)
    if is_first:
        write_document(run / PREDICTION, settings.to_json(), mode=0o600)
    ledger = place.open(run, identity=name)
    if _proved(ledger.budget) != _proved(setup.budget):
        ledger.close()
        raise LedgerError(f"{ledger.name}: made for another budget than {PREDICTION} asks for")
    return ledger


def _enter_release(run: Path, guarantee: Guarantee) -> None:
    """Write the answers into the ledger of the corpus, where the ensemble's training named one."""
    kept = RunDirectory.open(run).information().get("config", {}).get("data", {}).get("corpus_ledger")
    if kept is not None:
        ledger = CorpusLedger(Path(kept))
        for one in ledger.unlisted(_base_of(run).overlapping(guarantee.unit)):
            ledger.enter(one.run, one.guarantee, training=one.training)
        ledger.enter(run.resolve().name, guarantee)


def ledger_identity(ensemble: Ensemble, settings: PredictionSettings) -> str:
    """What a ledger is bound to: the ensemble's weights, and every setting that decides what an answer costs.

    Mechanisms that are paid by the answer have the same limit at every ε: without the settings in its name, a
    ledger made for ε = 1 would meter answers that were calibrated for ε = 200.
    """
    settled = json.dumps(settings.to_json(), sort_keys=True).encode()
    return f"{ensemble.fingerprint} {hashlib.blake2b(settled, digest_size=16).hexdigest()}"


def _proved(budget: Budget) -> tuple[Any, ...]:
    promise = budget.guarantee
    stated = (promise.mechanism, promise.notion, promise.unit, promise.neighbours, promise.epsilon, promise.delta)
    return (budget.measure, budget.limit, *stated)


def answers_given(ledger: DurableLedger) -> int:
    """How many answers a ledger was charged for: a public count, whatever they cost."""
    return sum(map(answers_in, ledger.rows()))


def answers_in(row: Row) -> int:
    """How many answers one row of a ledger was charged for.

    Counted without making the events: a server reads all rows whenever it starts, and there may be many.
    """
    if row.kind != "charge":
        return 0
    match row.event_document:
        case {"type": Composed.__name__, "events": [_, *_] as events}:
            return len(events)
        case {"type": _}:
            return 1
    raise LedgerError(f"row {row.sequence} of the ledger holds no event", hint=EDITED)
