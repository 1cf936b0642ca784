"""What the demo found, and the one table that tells it: usefulness, every attack, and what was proved.

A planted number is said in at most Σ T(2^−b) of the answers, T from the guarantee (`accounting.bounds.leakage`),
since an answer is at most one number (`auditing.attacks.extraction.codes.hit_rate_ceiling`). That ceiling holds for
every promise of the story: a number belongs to one owner, stands in one part, and is one secret that redacted
training finds whole. What the policies of redacted training do not find whole is counted and told: its ε does not
hold there.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reticent.accounting.bounds.leakage import leakage_of_guarantee
from reticent.auditing.attacks.extraction.codes import hit_rate_ceiling
from reticent.core.document import object_to_json
from reticent.core.finding import Comparison, Finding, Verdict
from reticent.core.guarantee import Guarantee, Unit
from reticent.core.metric import (
    AUC,
    CODE_HIT_RATE,
    EMITTED_SHARE,
    EPSILON_LOWER_BOUND_AT_DELTA,
    EXPOSURE,
    INFERENCE_ACCURACY,
    LARGEST_EXPOSURE,
    UPDATE_AUC,
)
from reticent.core.printing.numbers import at_least, at_most
from reticent.core.statistics.estimate import Estimate
from reticent.core.statistics.proportion import Share

CODES = CODE_HIT_RATE.name
PUBLIC = "public"
UNDEFENDED = "undefended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One model of the story: how useful it is, what attacks found, what was proved.

    `allowed` is the ceiling of the share of answers that say a planted number, None without a promise. `lost` are
    the labelled values that the promise does not hold for, where it depends on what policies find.
    """

    name: str
    perplexity: Estimate
    findings: tuple[Finding, ...]
    comparisons: tuple[Comparison, ...] = ()
    guarantee: Guarantee | None = None
    allowed: float | None = None
    lost: Share | None = None

    def find(self, metric: str, *, unit: Unit | None = None) -> Finding | None:
        """The finding of that metric whose interval begins highest; intervals of one audit hold together."""
        found = [
            finding
            for finding in self.findings
            if finding.metric == metric and not finding.void and unit in (None, finding.unit)
        ]
        return max(found, key=lambda finding: finding.low, default=None)

    @property
    def compared(self) -> tuple[Comparison, ...]:
        """Every finding beside the guarantee; the planted numbers beside the ceiling of all of them together."""
        said = self.find(CODES)
        if self.guarantee is None or self.allowed is None or said is None:
            return self.comparisons
        others = (one for one in self.comparisons if one.finding.metric != CODES)
        return (*others, Comparison(said, self.guarantee, self.allowed, greatest=1.0))

    @property
    def verdicts(self) -> Counter[Verdict]:
        """How often each verdict was reached."""
        return Counter(one.verdict for one in self.compared)

    @property
    def is_refuted(self) -> bool:
        """Whether more leaked than was proved possible."""
        return self.verdicts[Verdict.REFUTED] > 0

    def to_json(self) -> dict[str, Any]:
        """For the demo's document."""
        document = {
            "model": self.name,
            "perplexity": self.perplexity.value,
            "perplexity_interval": (self.perplexity.low, self.perplexity.high),
            "findings": self.findings,
            "guarantee": self.guarantee,
            "allowed_code_hit_rate": self.allowed,
            "labelled_values": None if self.lost is None else self.lost.trials,
            "labelled_values_without_guarantee": None if self.lost is None else self.lost.hits,
            "verdicts": {verdict: self.verdicts[verdict] for verdict in Verdict},
        }
        return object_to_json(document)


@dataclass(frozen=True, slots=True)
class Story:
    """What the demo found; `bits` is the size of a planted number."""

    models: tuple[Told, ...]
    bits: float
    folder: Path
    page: Path

    def closed(self, told: Told) -> float | None:
        """How far a model goes from the public to the undefended one, in log-perplexity; None without both."""
        ends = {one.name: math.log(one.perplexity.value) for one in self.models}
        if PUBLIC not in ends or UNDEFENDED not in ends or ends[PUBLIC] <= ends[UNDEFENDED]:
            return None
        return (ends[PUBLIC] - math.log(told.perplexity.value)) / (ends[PUBLIC] - ends[UNDEFENDED])

    def to_json(self) -> dict[str, Any]:
        """One JSON document."""
        places = {"folder": self.folder, "report": self.page}
        return object_to_json({"schema_version": 4, "secret_bits": self.bits} | places | {"models": self.models})


def allowed_hit_rate(guarantee: Guarantee, *, bits: float, codes: int) -> float:
    """Greatest expected share of answers that say one of `codes` planted numbers of `bits` bits.

    Guarantee: as `leakage_of_guarantee` for one number, summed over the numbers (`hit_rate_ceiling`).
    """
    return hit_rate_ceiling(2.0 ** leakage_of_guarantee(guarantee, bits).posterior_bits, codes)


def table_rows(story: Story) -> Iterator[tuple[str, list[str]]]:
    """The lines of the table, a cell for each model; ▲ marks an interval above what no leak would show."""
    models = story.models
    yield "held-out perplexity", [f"{told.perplexity.value:#.3g}".removesuffix(".") for told in models]
    yield (
        "  gap closed (%)",
        ["–" if (share := story.closed(told)) is None else f"{100.0 * share:.0f}" for told in models],
    )
    for label, cell in _attacks(story.bits).items():
        yield label, [cell(told) for told in models]
    yield "ε measured, at least", [_least_epsilon(told) for told in models]
    yield "ε proved, at most", ["–" if (g := told.guarantee) is None else at_most(g.epsilon, 3) for told in models]
    yield (
        "  protects one",
        ["–" if (g := told.guarantee) is None else f"{g.unit.value}{_notion(g)}" for told in models],
    )
    yield (
        "  canary hits ≤ (%)",
        ["–" if told.allowed is None else at_most(100.0 * told.allowed, 2) for told in models],
    )
    yield "measured ≤ proved", [_verdict(told) for told in models]


def _attacks(bits: float) -> dict[str, Callable[[Told], str]]:
    """Every attack's line: its name and what stands in a cell."""

    def of(metric: str, *, percent: bool = False, unit: Unit | None = None) -> Callable[[Told], str]:
        return lambda told: _cell(told.find(metric, unit=unit), percent=percent)

    return {
        f"exposure (of {bits:.1f} bits)": of(EXPOSURE.name),
        "  most exposed canary": of(LARGEST_EXPOSURE.name),
        "canary hit rate (%)": of(CODES, percent=True),
        "membership (AUC)": of(AUC.name, unit=Unit.RECORD),
        "messages emitted (%)": of(EMITTED_SHARE.name, percent=True),
        "PII inferred (%)": of(INFERENCE_ACCURACY.name, percent=True),
        "update membership (AUC)": of(UPDATE_AUC.name),
    }


def _cell(finding: Finding | None, *, percent: bool) -> str:
    if finding is None:
        return "–"
    value = f"{100.0 * finding.value:.1f}" if percent else f"{finding.value:.2f}"
    return f"{value} ▲" if finding.beats_null else value


def _least_epsilon(told: Told) -> str:
    """What was measured of ε, for what the promise is about and at its δ; nothing without a promise."""
    promise = told.guarantee
    if promise is None or promise.delta <= 0.0:
        return "–"
    found = told.find(EPSILON_LOWER_BOUND_AT_DELTA.at(promise.delta), unit=promise.unit)
    return "–" if found is None else at_least(found.low, 3)


def _notion(guarantee: Guarantee) -> str:
    """Differential privacy goes without saying; another promise is named."""
    return "" if guarantee.notion.value == "differential privacy" else "*"


def _verdict(told: Told) -> str:
    """Yes, with the number of findings below a ceiling they could have refuted; never for a vacuous one."""
    if told.is_refuted:
        return "REFUTED"
    held, vacuous = (told.verdicts[verdict] for verdict in (Verdict.CONSISTENT, Verdict.VACUOUS))
    if held:
        return f"yes, {held}"
    return "vacuous" if vacuous else "–"
