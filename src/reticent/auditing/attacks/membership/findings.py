"""From membership scores to findings: AUC, true-positive rates at low false-positive rates, ε; records and owners.

    metric                          null   interval
    auc                             1/2    DeLong and Newcombe (`roc`); by owner: Obuchowski
    tpr_at_fpr_X                    X      exact, the threshold's randomness included (`roc`); approximate by owner
    epsilon_lower_bound_at_delta_X  0      one-sided: [bound, ∞)
    gaussian_mu_lower_bound         0      one-sided: [bound, ∞); no ceiling, see `one_run_curve`

A false-positive rate that too few non-members can show is void with the reason, never 0. Metrics of groups of
records carry the group's size in their names, so that they are never set beside a guarantee for one record.

If records name owners, owners are the independent units: intervals and p-values are by owner, unless each
record was included by its own coin. If none are named, every record is assumed independent, and a note says so.

Each interval is at the stated confidence by itself; of many attacks and metrics the best is found by chance more
often (`intervals.shared_confidence`). Whether so many members and non-members can show anything at a false-positive
rate depends on their numbers and owners alone, so rates that cannot take no share of the error: their findings are
void, and the plan says how many it would take.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from reticent.auditing.attack import SCHEMA_VERSION, Lines, skip
from reticent.auditing.attacks.membership.control import Control, bag_of_words_control, permutation_p_value
from reticent.auditing.attacks.membership.groups import score_owners
from reticent.auditing.metrics.intervals import shared_confidence
from reticent.auditing.metrics.one_run import FAIR_COINS, EpsilonBound
from reticent.auditing.metrics.roc import Estimate, Owners, auc_interval, fewest_nonmembers, labelled, tpr_at_fpr
from reticent.auditing.settings import RATES, AttackSettings
from reticent.auditing.subject import Subject
from reticent.auditing.targets import Targets
from reticent.core.arrays import Floats
from reticent.core.choice import settle_choices
from reticent.core.document import as_json
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.metric import (
    AUC,
    EPSILON_LOWER_BOUND_AT_DELTA,
    GAUSSIAN_MU_LOWER_BOUND,
    OF_GROUPS,
    TPR_AT_FPR,
    Metric,
    read_metric,
)
from reticent.core.model import Access

_MOST_TARGETS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipSetting:
    """What membership findings state beside their numbers: attack, access, whose membership, what voids them."""

    attack: str
    access: Access = Access.LOGPROBS
    unit: Unit = Unit.RECORD
    group_size: int = 1
    confidence: float = 0.95
    void: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        settle_choices(self, access=Access, unit=Unit)
        if self.group_size < 1:
            raise ValueError("a group has at least one record")

    def finding(
        self,
        metric: Metric,
        found: Estimate,
        *,
        n: int,
        measure: str,
        at: tuple[float, ...] = (),
        could_pass: bool = True,
    ) -> Finding:
        """A finding with the value and interval of an estimate; `at` are the parameters of the metric."""
        is_single = self.group_size == 1
        name = metric.at(*at) if is_single else OF_GROUPS[metric.name].at(self.group_size, *at)
        measured = read_metric(name)
        return Finding(
            attack=self.attack,
            metric=name,
            value=found.value,
            low=found.low,
            high=found.high,
            confidence=self.confidence,
            n=n,
            measure=measure,
            unit=self.unit,
            access=self.access,
            null=None if measured is None else measured.null,
            void=self.void,
            notes=self.notes,
            could_pass=could_pass,
        )


def membership_findings(
    scores: ArrayLike,
    is_member: ArrayLike,
    *,
    setting: MembershipSetting,
    rates: tuple[float, ...] = RATES,
    owners: Owners | None = None,
) -> tuple[Finding, ...]:
    """AUC and true-positive rates at `rates`, in that order, of scores [n] with labels [n].

    With `owners`, these are taken as independent; without, every target is.
    """
    values, labels = labelled(scores, is_member)
    members, nonmembers = values[labels], values[~labels]
    area = auc_interval(members, nonmembers, confidence=setting.confidence, owners=owners)
    perfect = auc_interval(
        np.ones(len(members)), np.zeros(len(nonmembers)), confidence=setting.confidence, owners=owners
    )
    first = setting.finding(
        AUC,
        area,
        n=len(values),
        measure="probability that a member scores above a non-member (ties count half)",
        could_pass=perfect.low > 0.5,
    )
    others = [_rate_finding(members, nonmembers, rate, setting=setting, owners=owners) for rate in rates]
    return (first, *others)


def _rate_finding(
    members: Floats, nonmembers: Floats, rate: float, *, setting: MembershipSetting, owners: Owners | None
) -> Finding:
    """The finding at one false-positive rate; void where there are too few non-members to speak of it."""
    estimate = tpr_at_fpr(members, nonmembers, fpr=rate, confidence=setting.confidence, owners=owners)
    measure = f"share of members above the threshold that at most {rate:.4g} of the non-members pass"
    n = len(members) + len(nonmembers)
    if estimate is not None:
        return setting.finding(TPR_AT_FPR, estimate, n=n, measure=measure, at=(rate,))
    few = (
        f"a false-positive rate of {rate:g} needs at least {fewest_nonmembers(rate)} non-members, "
        f"found {len(nonmembers)}; the value is the share above all of them"
    )
    above_all = float((members > nonmembers.max()).mean())
    reasons = "; ".join(reason for reason in (setting.void, few) if reason)
    return replace(setting, void=reasons).finding(
        TPR_AT_FPR, Estimate(above_all, 0.0, 1.0), n=n, measure=measure, at=(rate,)
    )


def epsilon_finding(bound: EpsilonBound, *, setting: MembershipSetting) -> Finding:
    """A lower bound on ε as a finding, at the bound's own confidence, with its assumption as a note."""
    if not math.isclose(setting.confidence, bound.confidence):
        raise ValueError(f"the bound was computed at confidence {bound.confidence}, not {setting.confidence}")
    return replace(setting, notes=(*setting.notes, bound.assumes)).finding(
        EPSILON_LOWER_BOUND_AT_DELTA,
        Estimate(bound.epsilon, bound.epsilon, math.inf),
        n=bound.n,
        measure=f"largest ε that the scores refute ({bound.method})",
        at=(bound.delta,),
    )


def gaussian_mu_finding(mu: float, *, n: int, setting: MembershipSetting) -> Finding:
    """A lower bound on μ of Gaussian differential privacy, from coins of one run, as a finding."""
    return replace(setting, notes=(*setting.notes, FAIR_COINS)).finding(
        GAUSSIAN_MU_LOWER_BOUND,
        Estimate(mu, mu, math.inf),
        n=n,
        measure="largest μ for which one run refutes μ-GDP",
    )


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

    def findings(self, subject: Subject, settings: AttackSettings, *, more: int = 0) -> Iterator[Finding]:
        """Findings on records, and on owners where a guarantee speaks of them.

        Each is at the confidence at which the intervals of all of them and `more` others hold together.
        """
        is_member, control, sides = self.targets.is_member, self.control, self.targets.sides(settings)
        _, confidence = powerful_rates(subject, settings, sides=sides, scores=len(self.scores), more=more)
        owners = self.targets.clusters(settings)
        whose = None if owners is None else self.targets.owners
        for name, values in self.scores.items():
            randomness = settings.randomness(f"permutations {name}")
            p_value = permutation_p_value(values, is_member, randomness=randomness, permutations=199, owners=whose)
            notes = (
                f"words alone: AUC {control.auc.value:.3f}, p = {control.p_value:.3g}",
                independence(owners, settings),
            )
            setting = MembershipSetting(
                attack=name, access=self.access[name], confidence=confidence, void=control.void, notes=notes
            )
            area, *rates = membership_findings(
                values, is_member, setting=setting, rates=settings.rates, owners=owners
            )
            chance = f"probability of such an AUC if membership were random: p = {p_value:.3g}"
            area = replace(area, notes=(chance, *area.notes))
            yield from _without_power([area, *rates], sides, void=control.void)
            if speaks_of_owners(subject):
                owned = score_owners(values, is_member, owners=self.targets.owners)
                of_owners = replace(setting, attack=f"{name}, owners", unit=Unit.OWNER, notes=())
                measured = membership_findings(
                    owned.scores, owned.is_member, setting=of_owners, rates=settings.rates
                )
                inside = int(owned.is_member.sum())
                outside = len(owned.is_member) - inside
                yield from _without_power(measured, (inside, outside), void=control.void)

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
        reason = _too_few(rate, sides=sides, confidence=confidence)
        lines.append(skip(f"{name}: {TPR_AT_FPR.at(rate)}", "enough records", reason))
    return tuple(lines)


def _without_power(findings: Sequence[Finding], sides: tuple[int, int], *, void: str) -> Iterator[Finding]:
    """The findings, a rate void where not even scores that part the sides wholly would show more than chance.

    `void` is what voids them all. The reason is the plan's, so that one thing has one name and one number.
    """
    for finding in findings:
        rate = finding.null if TPR_AT_FPR.parameters(finding.metric) else None
        if rate is not None and not has_power(*sides, rate=rate, confidence=finding.confidence):
            few = _too_few(rate, sides=sides, confidence=finding.confidence)
            finding = replace(finding, void="; ".join(reason for reason in (void, few) if reason))
        yield finding


def _too_few(rate: float, *, sides: tuple[int, int], confidence: float) -> str:
    """Why so many members and non-members can show nothing at a false-positive rate, and how many could."""
    least = fewest_targets(rate, confidence=confidence)
    enough = f"more than {_MOST_TARGETS:,}" if least is None else f"about {least:,}"
    return (
        f"{sides[0]:,} members and {sides[1]:,} non-members (independent ones, where owners have several) are too "
        f"few; {enough} of each are needed"
    )
