"""The nouns of a report: what runs measured and proved, as plain values that a page can be drawn from.

A `Report` holds one `RunReport` for each run, beside each other. Everything that costs thought (curves, intervals,
bounds) was computed by whoever made the report; here are numbers and ids. Nothing here says "safe", and nothing
holds text of a corpus: `RiskPoint.masked` and `RecordFacts.masked` have every letter and digit already covered.

A part that is None or empty was not measured; `absent` says why, by the section's key, and of nothing else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Final

from reticent.core.document import JsonObject, called
from reticent.core.finding import Comparison, Finding, Verdict
from reticent.core.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class Series:
    """A curve with its interval: x and y [n], `low` and `high` [n] or empty; from `n` observations."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    n: int | None = None
    unit: str = ""

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or len(self.low) != len(self.high) or len(self.low) not in (0, len(self.x)):
            raise ValueError(f"{self.name}: a curve needs as many values as places")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFacts:
    """What the corpus itself says of a record, without its text."""

    copies: int
    kinds: tuple[str, ...]
    masked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskPoint:
    """A record of the risk map: log-probabilities in nats.

    `rank` is the place of its text among the group's, 0 the one at most risk (`auditing.attacks.lazy.risk_map`);
    records of one text share it. `epsilon` and `log_proved` are what is proved of the text, where anything is.
    """

    id: str
    tokens: int
    emission: float
    log_chance: float
    calibrated: float
    rank: int
    facts: RecordFacts | None = None
    epsilon: float | None = None
    log_proved: float | None = None


@dataclass(frozen=True, slots=True)
class RiskGroup:
    """Records of one kind in the map."""

    name: str
    points: tuple[RiskPoint, ...]
    skipped: int = 0
    cut: int = 0

    def worst(self, count: int) -> tuple[tuple[RiskPoint, int], ...]:
        """One record of each text with the number of its copies, the text at most risk first."""
        texts: dict[int, list[RiskPoint]] = {}
        for point in self.points:
            texts.setdefault(point.rank, []).append(point)
        return tuple((texts[rank][0], len(texts[rank])) for rank in sorted(texts)[:count])


@dataclass(frozen=True, slots=True)
class RiskMap:
    """The map of one run: `samples` is how often the lazy attacker draws."""

    groups: tuple[RiskGroup, ...]
    samples: int
    model: str
    reference: str

    def group(self, name: str) -> RiskGroup | None:
        """The group of that name, where there is one."""
        return next((group for group in self.groups if group.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryExposure(JsonObject):
    """Exposure of one planted secret, in bits, of `bits` that it had."""

    canary: str
    value: float
    low: float
    high: float
    bits: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakagePoint:
    """Bits of a secret of `secret_bits` that may leak at most; `traditional` is what ε at δ = 2^−b says."""

    secret_bits: float
    most: float
    traditional: float | None


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """What the ledger says: the limit of each account, in `measure`, and what was spent by when (seconds since)."""

    measure: str
    limit: float
    accounts: tuple[Series, ...]
    rows: int
    started: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRate(JsonObject):
    """One measured rate of a policy: what is counted, hits of trials, with its interval."""

    policy: str
    what: str
    value: float | None
    low: float
    high: float
    confidence: float
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePhrase(JsonObject):
    """A phrase that an update reveals, by number, never by its text; `records` None if not looked up."""

    update: str
    number: int
    bits: float
    score: float = field(metadata=called("differential_score"))
    is_above_null: bool | None = field(metadata=called("above_null"))
    records: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLine:
    """An attack of the plan; `skipped` says why it did not run."""

    attack: str
    needs: str
    n: int
    seconds: float
    skipped: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLine(JsonObject):
    """A limit of `option` and its outcome (within, undecided, exceeded, not measured); `end` is what decides.

    `by` names the attacks behind the outcome; `fails` says whether it made the exit code 1.
    """

    option: str
    limit: str
    end: str
    outcome: str
    fails: bool
    by: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the run comes from and how to make it again; `folder` is seen from where the report was made."""

    command: str
    started: str
    finished: str
    seed: int | None
    versions: Mapping[str, str]
    fingerprints: Mapping[str, str]
    sources: tuple[str, ...]
    folder: str = ""
    trained_in: str = ""  # the run that trained the model: this one, or another


@dataclass(frozen=True, slots=True, kw_only=True)
class Utility:
    """How useful the model is on held-out text: a value with its interval and the tokens it was taken over."""

    name: str
    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """All that one run says."""

    name: str
    kind: str
    model: str
    origin: Origin
    corpus: str = ""
    base: str | None = None
    findings: tuple[Finding, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    guarantee: Guarantee | None = None
    other_guarantees: Mapping[str, Guarantee] = field(default_factory=dict)
    confidence: float | None = None
    utility: tuple[Utility, ...] = ()
    plan: tuple[PlanLine, ...] = ()
    gate: tuple[GateLine, ...] = ()
    notes: tuple[str, ...] = ()
    risk_map: RiskMap | None = None
    roc: tuple[Series, ...] = ()
    exposures: tuple[CanaryExposure, ...] = ()
    exposure_null: float | None = None
    extraction: tuple[Series, ...] = ()
    leakage: tuple[LeakagePoint, ...] = ()
    budget: BudgetUse | None = None
    policies: tuple[PolicyRate, ...] = ()
    update: tuple[UpdatePhrase, ...] = ()
    is_audited: bool = False  # by another run of the report
    absent: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        present = [key for key in self.absent if _IS_PRESENT[key](self)]
        if present:
            raise ValueError(f"{self.name}: a reason for the absence of what is there: {', '.join(present)}")

    def comparison(self, finding: Finding) -> Comparison | None:
        """The finding beside the guarantee; None without one."""
        return next((one for one in self.comparisons if one.finding == finding), None)

    def ceiling(self, finding: Finding) -> float | None:
        """What was proved the finding's metric cannot pass; None where the two are not comparable."""
        found = self.comparison(finding)
        return None if found is None else found.ceiling

    def verdict(self, finding: Finding) -> Verdict | None:
        """What the finding says of the guarantee; None without one."""
        found = self.comparison(finding)
        return None if found is None else found.verdict

    @property
    def refuted(self) -> tuple[Comparison, ...]:
        """Comparisons in which more was measured than was proved possible."""
        return tuple(one for one in self.comparisons if one.verdict is Verdict.REFUTED)


# Whether a section of the page has data, by the key under which `RunReport.absent` says why it has none.
_IS_PRESENT: Final[Mapping[str, Callable[[RunReport], bool]]] = {
    "findings": lambda run: bool(run.findings),
    "plan": lambda run: bool(run.plan),
    "risk": lambda run: run.risk_map is not None,
    "roc": lambda run: bool(run.roc),
    "exposure": lambda run: bool(run.exposures),
    "extraction": lambda run: bool(run.extraction),
    "leakage": lambda run: bool(run.leakage),
    "budget": lambda run: run.budget is not None,
    "policies": lambda run: bool(run.policies),
    "update": lambda run: bool(run.update),
}


def only_absent(run: RunReport, reasons: Mapping[str, str]) -> RunReport:
    """The run with those of the reasons that speak of something it does not have."""
    return replace(run, absent={key: why for key, why in reasons.items() if why and not _IS_PRESENT[key](run)})


@dataclass(frozen=True, slots=True)
class Report:
    """Runs beside each other, and when they were set so."""

    runs: tuple[RunReport, ...]
    written: str
    version: str

    def __post_init__(self) -> None:
        names = [run.name for run in self.runs]
        if not names or len(set(names)) != len(names):
            raise ValueError("a report needs runs with distinct names")


def named(model: str) -> str:
    """The name of a model: of a path its last part, so that no folder of the maker's machine is shown."""
    return PurePath(model).name if model.startswith((".", "/", "~")) else model
