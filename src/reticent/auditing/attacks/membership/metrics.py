"""From membership scores to findings: AUC, true-positive rates at low false-positive rates, ε.

    metric                          null   interval
    auc                             1/2    DeLong and Newcombe (`roc`); by owner: Obuchowski
    tpr_at_fpr_X                    X      exact, the threshold's randomness included (`roc`); approximate by owner
    epsilon_lower_bound_at_delta_X  0      one-sided: [bound, ∞)
    gaussian_mu_lower_bound         0      one-sided: [bound, ∞); no ceiling, see `one_run_curve`

A false-positive rate that too few non-members can show is void with the reason, never 0. Metrics of groups of
records carry the group's size in their names, so that they are never set beside a guarantee for one record.

Each interval is at the stated confidence by itself; of many attacks and metrics the best is found by chance more
often (`intervals.shared_confidence`).
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from reticent.auditing.attacks.membership.groups import labelled
from reticent.auditing.metrics.one_run import FAIR_COINS, EpsilonBound
from reticent.auditing.metrics.roc import Owners, auc_interval, fewest_nonmembers, tpr_at_fpr
from reticent.core.arrays import Floats
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

RATES = (0.01, 0.001)


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
        if self.group_size < 1:
            raise ValueError("a group has at least one record")

    def finding(
        self,
        metric: Metric,
        interval: tuple[float, float, float],
        *,
        n: int,
        measure: str,
        at: tuple[float, ...] = (),
        could_pass: bool = True,
    ) -> Finding:
        """A finding with the value and the ends (value, low, high) of an interval; `at` are the parameters."""
        value, low, high = interval
        is_single = self.group_size == 1
        name = metric.at(*at) if is_single else OF_GROUPS[metric.name].at(self.group_size, *at)
        measured = read_metric(name)
        return Finding(
            attack=self.attack,
            metric=name,
            value=value,
            low=low,
            high=high,
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
        (area.value, area.low, area.high),
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
        interval = (estimate.value, estimate.low, estimate.high)
        return setting.finding(TPR_AT_FPR, interval, n=n, measure=measure, at=(rate,))
    few = (
        f"a false-positive rate of {rate:g} needs at least {fewest_nonmembers(rate)} non-members, "
        f"found {len(nonmembers)}; the value is the share above all of them"
    )
    above_all = float((members > nonmembers.max()).mean())
    reasons = "; ".join(reason for reason in (setting.void, few) if reason)
    return replace(setting, void=reasons).finding(
        TPR_AT_FPR, (above_all, 0.0, 1.0), n=n, measure=measure, at=(rate,)
    )


def epsilon_finding(bound: EpsilonBound, *, setting: MembershipSetting) -> Finding:
    """A lower bound on ε as a finding, at the bound's own confidence, with its assumption as a note."""
    if not math.isclose(setting.confidence, bound.confidence):
        raise ValueError(f"the bound was computed at confidence {bound.confidence}, not {setting.confidence}")
    return replace(setting, notes=(*setting.notes, bound.assumes)).finding(
        EPSILON_LOWER_BOUND_AT_DELTA,
        (bound.epsilon, bound.epsilon, math.inf),
        n=bound.n,
        measure=f"largest ε that the scores refute ({bound.method})",
        at=(bound.delta,),
    )


def gaussian_mu_finding(mu: float, *, n: int, setting: MembershipSetting) -> Finding:
    """A lower bound on μ of Gaussian differential privacy, from coins of one run, as a finding."""
    return replace(setting, notes=(*setting.notes, FAIR_COINS)).finding(
        GAUSSIAN_MU_LOWER_BOUND,
        (mu, mu, math.inf),
        n=n,
        measure="largest μ for which one run refutes μ-GDP",
    )
