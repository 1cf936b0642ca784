"""From membership scores to findings: on records and owners, with the control by words and the available power.

If records name owners, owners are the independent units: intervals and p-values are by owner, unless each
record was included by its own coin. If none are named, every record is assumed independent, and a note says so.

Whether so many members and non-members can show anything at a false-positive rate depends on their numbers and
owners alone, so rates that cannot take no share of the error: their findings are void, and the plan says how many
it would take.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np

from reticent.auditing.attack import SCHEMA_VERSION, Lines, skip
from reticent.auditing.attacks.membership.control import Control, bag_of_words_control, permutation_p_value
from reticent.auditing.attacks.membership.groups import score_owners
from reticent.auditing.attacks.membership.metrics import MembershipSetting, membership_findings
from reticent.auditing.metrics.intervals import shared_confidence
from reticent.auditing.metrics.roc import Owners, tpr_at_fpr
from reticent.auditing.settings import AttackSettings
from reticent.auditing.subject import Subject
from reticent.auditing.targets import Targets
from reticent.core.arrays import Floats
from reticent.core.document import as_json
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.metric import TPR_AT_FPR
from reticent.core.model import Access

_MOST_TARGETS: Final = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class ScoredTargets:
    """Targets with the scores [n] of every attack on them, and what their words alone tell."""

    targets: Targets
    scores: dict[str, Floats]
    access: dict[str, Access]
    control: Control

    @classmethod
    def of(
        cls,
        subject: Subject,
        settings: AttackSettings,
        *,
        targets: Targets,
        scores: dict[str, Floats],
        access: dict[str, Access],
    ) -> "ScoredTargets":
        """The scores with the control that voids them all; owners stay whole where records name them."""
        control = bag_of_words_control(
            targets.texts,
            targets.is_member,
            randomness=settings.randomness("control"),
            owners=targets.owners if subject.has_owners else None,
        )
        return cls(targets, scores, access, control)

    def confidence(self, subject: Subject, settings: AttackSettings, *, more: int = 0) -> float:
        """Confidence of each interval, if those of all scores and `more` others hold together."""
        sides = self.targets.sides(settings)
        return powerful_rates(subject, settings, sides=sides, scores=len(self.scores), more=more)[1]

    def findings(self, subject: Subject, settings: AttackSettings, *, confidence: float) -> Iterator[Finding]:
        """Findings on records, and on owners where a guarantee speaks of them; each at `confidence`."""
        is_member, control = self.targets.is_member, self.control
        owners = self.targets.clusters(settings)
        whose = None if owners is None else self.targets.owners
        for name, values in self.scores.items():
            randomness = settings.randomness(f"permutations {name}")
            p_value = permutation_p_value(values, is_member, randomness=randomness, permutations=199, owners=whose)
            notes = (
                f"probability of such an AUC if membership were random: p = {p_value:.3g}",
                f"words alone: AUC {control.auc.value:.3f}, p = {control.p_value:.3g}",
                independence(owners, settings),
            )
            setting = MembershipSetting(
                attack=name, access=self.access[name], confidence=confidence, void=control.void, notes=notes
            )
            measured = membership_findings(values, is_member, setting=setting, rates=settings.rates, owners=owners)
            yield from _without_power(measured, self.targets.sides(settings))
            if speaks_of_owners(subject):
                owned = score_owners(values, is_member, owners=self.targets.owners)
                of_owners = replace(setting, attack=f"{name}, owners", unit=Unit.OWNER, notes=())
                measured = membership_findings(
                    owned.scores, owned.is_member, setting=of_owners, rates=settings.rates
                )
                inside = int(owned.is_member.sum())
                yield from _without_power(measured, (inside, len(owned.is_member) - inside))

    def to_json(self) -> dict[str, Any]:
        """Scores by record id; no text."""
        return {
            "schema_version": SCHEMA_VERSION,
            "ids": [record.id for record in self.targets.records],
            "is_member": self.targets.is_member.tolist(),
            "scores": as_json({name: values.tolist() for name, values in self.scores.items()}),
            "control": {
                "auc": self.control.auc.value,
                "p_value": self.control.p_value,
                "void": self.control.void,
            },
        }


def independence(owners: Owners | None, settings: AttackSettings) -> str:
    """What intervals and p-values take as independent, for a note."""
    if owners is not None:
        return f"interval and p-value by owner: {owners.count} owners, assumed independent"
    if settings.by_coin:
        return "each record was included by its own coin: records are assumed independent"
    return "no owner has several of these records: records are assumed independent"


def speaks_of_owners(subject: Subject) -> bool:
    """Whether findings on owners are to be set beside the guarantee, and every owner is on one side."""
    guarantee = subject.guarantee
    return guarantee is not None and guarantee.unit is Unit.OWNER and not subject.splits_owners


@lru_cache(maxsize=1024)
def has_power(members: int, others: int, *, rate: float, confidence: float) -> bool:
    """Whether scores that part the two sides wholly would show more than chance at this false-positive rate."""
    best = tpr_at_fpr(np.ones(members), np.zeros(others), fpr=rate, confidence=confidence)
    return best is not None and best.low > rate


@lru_cache(maxsize=256)
def fewest_targets(rate: float, *, confidence: float) -> int | None:
    """The fewest records of either side that let a perfect attack show more than chance; None above a million."""
    high = 2
    while not has_power(high, high, rate=rate, confidence=confidence):
        if high > _MOST_TARGETS:
            return None
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if has_power(middle, middle, rate=rate, confidence=confidence) else (middle, high)
    return high


def powerful_rates(
    subject: Subject, settings: AttackSettings, *, sides: tuple[int, int], scores: int, more: int = 0
) -> tuple[tuple[float, ...], float]:
    """The rates at which so many independent targets can show anything, and the confidence of each interval."""
    rates = settings.rates
    while True:
        intervals = scores * (1 + len(rates)) * (1 + speaks_of_owners(subject)) + more
        confidence = shared_confidence(settings.attack_confidence, intervals)
        kept = tuple(rate for rate in rates if has_power(*sides, rate=rate, confidence=confidence))
        if kept == rates:
            return rates, confidence
        rates = kept  # fewer intervals: each has more of the error, so what had power keeps it


def few_targets(
    name: str, subject: Subject, settings: AttackSettings, *, sides: tuple[int, int], scores: int
) -> Lines:
    """Lines for the false-positive rates that so many members and non-members cannot show, and how many could."""
    rates, confidence = powerful_rates(subject, settings, sides=sides, scores=scores)
    lines = []
    for rate in (rate for rate in settings.rates if rate not in rates):
        least = fewest_targets(rate, confidence=confidence)
        reason = (
            f"{sides[0]:,} members and {sides[1]:,} non-members (independent ones, where owners have several) are "
            f"too few; about {least:,} of each are needed"
        )
        lines.append(skip(f"{name}: {TPR_AT_FPR.at(rate)}", "enough records", reason))
    return tuple(lines)


def _without_power(findings: Sequence[Finding], sides: tuple[int, int]) -> Iterator[Finding]:
    """The findings, a rate void where not even scores that part the sides wholly would show more than chance."""
    members, others = sides
    for finding in findings:
        rate = finding.null if TPR_AT_FPR.parameters(finding.metric) else None
        if (
            rate is not None
            and not finding.void
            and not has_power(members, others, rate=rate, confidence=finding.confidence)
        ):
            few = (
                f"{members} independent members and {others} non-members are too few to distinguish any attack "
                "from chance"
            )
            finding = replace(finding, void=f"{few} at a false-positive rate of {rate:g}")
        yield finding
