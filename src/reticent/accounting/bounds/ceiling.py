"""The largest value that a guarantee allows a measured metric to reach, and the comparison of the two.

Every ceiling comes from one function, T(p0): the greatest chance an event can have in one world if it has chance
p0 in the neighbouring one (`approximate`, `binary_renyi`; concave and increasing in p0). It bounds the metric's
**expectation** over training, sampling and the choice of the target; a finding refutes a guarantee when its whole
interval lies above.

    metric                          ceiling                       because
    tpr_at_fpr_X                    T(X)                          a membership test is an event; pooling is concave
    auc                             area under T                  the area under the ROC curve
    advantage                       greatest T(x) − x             total variation between the worlds
    membership_accuracy             (1 + advantage)/2             equally many members and non-members
    inference_accuracy              T(1/m), m candidates          without the secret the chances to guess i sum
                                                                  to 1 over i, and T is concave (Jensen)
    extraction_probability          T(2^−b), b bits               an attack that never saw it emits it at 2^−b
    exposure (mean, in bits)        Σ_{k<m} T(k/m) log2((k+1)/k)  E[log2 m − log2 rank], summed by parts over
                                                                  P[rank ≤ k], which is k/m without the secret
    epsilon_lower_bound             ε proved at the headline's δ  the definition
    epsilon_lower_bound_at_delta_X  least ε proved at δ = X       the definition

Exposure needs ranks without ties (ties ranked last); without leakage its ceiling is the null's 1.44 bits. The
largest of several exposures has another null and no ceiling here.

Not comparable, hence None: operational or data-dependent promises, which speak of one data set; average-case
(Bayesian) confidentiality, whose attacker does not know the secret that an attack scores; another unit than the
finding's; an unknown metric; a metric whose context (m or b) is not given.
"""

import math

import numpy as np

from reticent.accounting.bounds.tradeoff import (
    advantage_ceiling,
    auc_ceiling,
    log_chance_ceilings,
    true_positive_rate_ceiling,
)
from reticent.accounting.conversion import epsilon_from_renyi
from reticent.accounting.guarantees import guarantee_of_group
from reticent.core.arrays import Floats
from reticent.core.finding import Comparison, Finding
from reticent.core.guarantee import Guarantee, Notion
from reticent.core.metric import Ceiling, read_metric

_BLOCK = 6  # a block of ranks is a sixth of its first rank: single ranks up to 11, then growing
_MOST_BITS = 1000.0  # of a secret whose exposure is bounded


def ceiling(
    metric: str,
    guarantee: Guarantee,
    *,
    candidates: int | None = None,
    secret_bits: float | None = None,
    copies: int = 1,
) -> float | None:
    """Greatest expectation of `metric` that the guarantee allows; None where the two are not comparable.

    `candidates` is the number m of equally likely secrets, `secret_bits` their log2 where m is not given; `copies`
    the number of records or owners that the secret stands in (metrics of secrets only; others need 1). Redacted
    training keeps one copy of a secret, and its ceilings are those of one copy.

    Guarantee: if the guarantee holds, no attack between its neighbouring worlds has a higher expected value.
    """
    measured = read_metric(metric)
    if measured is None or measured.metric.ceiling is None or not is_comparable(guarantee):
        return None
    kind = measured.metric.ceiling
    if kind in (Ceiling.GUESS, Ceiling.EXPOSURE):
        return _secret_ceiling(kind, guarantee, bits=_bits(candidates, secret_bits), copies=copies)
    return _membership_ceiling(kind, guarantee, at=measured.numbers) if copies == 1 else None


def compare_with_guarantee(
    finding: Finding,
    guarantee: Guarantee,
    *,
    candidates: int | None = None,
    secret_bits: float | None = None,
    copies: int = 1,
) -> Comparison:
    """Compare a finding with the ceiling of its metric; there is none where the two speak of different units.

    Guarantee: as `ceiling`. The finding's other world must be the guarantee's neighbour (out, replaced or masked).
    """
    if not is_comparable(guarantee):
        return Comparison(finding, guarantee, None, reason=f"{_promised(guarantee)} promises nothing of an attack")
    if finding.unit is not guarantee.unit:
        reason = f"the finding is about one {finding.unit.value}, the guarantee about one {guarantee.unit.value}"
        return Comparison(finding, guarantee, None, reason=reason)
    limit = ceiling(finding.metric, guarantee, candidates=candidates, secret_bits=secret_bits, copies=copies)
    greatest = greatest_value(finding.metric, candidates=candidates, secret_bits=secret_bits)
    return Comparison(finding, guarantee, limit, greatest, "" if limit is not None else "no ceiling for its metric")


def greatest_value(metric: str, *, candidates: int | None = None, secret_bits: float | None = None) -> float:
    """The largest value that a metric with a ceiling can take at all: a ceiling there allows everything."""
    measured = read_metric(metric)
    greatest = 1.0 if measured is None else measured.metric.greatest
    if greatest is not None:
        return greatest
    bits = _bits(candidates, secret_bits)
    return math.inf if bits is None else bits


def _promised(guarantee: Guarantee) -> str:
    """The kind of a promise that no attack can be held against."""
    return "a guarantee for this data set alone" if guarantee.data_dependent else guarantee.notion.value


def is_comparable(guarantee: Guarantee) -> bool:
    """Whether a guarantee promises something of an attack at all, whatever its metric."""
    of_one_data_set = guarantee.data_dependent or guarantee.notion is Notion.OPERATIONAL_PRIVACY
    return not of_one_data_set and guarantee.notion is not Notion.BAYESIAN_CONFIDENTIALITY


def _membership_ceiling(kind: Ceiling, guarantee: Guarantee, *, at: tuple[float, ...]) -> float | None:
    """Ceilings of tests between the two worlds, which need no context but the rate or δ they are stated at."""
    if kind is Ceiling.AREA:
        return auc_ceiling(guarantee)
    if kind is Ceiling.ADVANTAGE:
        return advantage_ceiling(guarantee)
    if kind is Ceiling.ACCURACY:
        return 0.5 * (1.0 + advantage_ceiling(guarantee))
    if kind is Ceiling.EPSILON:
        return guarantee.epsilon if guarantee.order is None else None
    (rate,) = at
    if rate > 1.0:
        return None
    return true_positive_rate_ceiling(guarantee, rate) if kind is Ceiling.RATE else _epsilon_at(guarantee, rate)


def _secret_ceiling(kind: Ceiling, guarantee: Guarantee, *, bits: float | None, copies: int) -> float | None:
    """Ceilings of guesses at a secret of so many bits."""
    if bits is None:
        return None
    if kind is Ceiling.EXPOSURE:
        return _exposure_ceiling(guarantee, round(2.0**bits), copies) if bits <= _MOST_BITS else None
    log_p0 = np.array([-bits * math.log(2.0)])
    return math.exp(float(_group_ceilings(guarantee, log_p0, copies)[0]))


def _group_ceilings(guarantee: Guarantee, log_p0: Floats, copies: int) -> Floats:
    """log T(p0) [n] for a secret in so many units: by black-box groups, or by the group's own price where lower."""
    units = guarantee.units_of_secret(copies)
    allowed = log_chance_ceilings(guarantee, log_p0, copies=units)
    grouped = guarantee_of_group(guarantee, units)
    return allowed if grouped is None else np.minimum(allowed, log_chance_ceilings(grouped, log_p0))


def _bits(candidates: int | None, secret_bits: float | None) -> float | None:
    if candidates is not None:
        if candidates < 1:
            raise ValueError(f"candidates must be at least 1, found {candidates}")
        return math.log2(candidates)
    if secret_bits is not None and not 0.0 <= secret_bits < math.inf:
        raise ValueError(f"secret_bits must be finite and at least 0, found {secret_bits}")
    return secret_bits


def _exposure_ceiling(guarantee: Guarantee, candidates: int, copies: int) -> float:
    """Σ_{k<m} T(k/m) log2((k+1)/k), from above: exact for the first ranks, then by blocks.

    In a block k1 ≤ k < k2, T(k/m) is at most T((k2−1)/m) as T increases, and at most (k/k1) T(k1/m) as T is concave
    with T(0) ≥ 0; since k·log2((k+1)/k) ≤ 1/ln 2, the second sums to at most T(k1/m) (k2−k1)/(k1 ln 2).
    """
    edges = [1]
    while edges[-1] < candidates:
        edges.append(min(candidates, edges[-1] + max(1, edges[-1] // _BLOCK)))
    log_ranks = np.array([math.log(edge) for edge in edges])  # ranks may pass 2^64
    chances = np.exp(_group_ceilings(guarantee, np.minimum(0.0, log_ranks - log_ranks[-1]), copies))
    total = 0.0
    for first, after, here, there in zip(edges[:-1], edges[1:], chances[:-1], chances[1:], strict=True):
        top = here if after == first + 1 else there  # T(k2/m) ≥ T((k2−1)/m)
        total += min(top * math.log2(after / first), here * ((after - first) / first) / math.log(2.0))
    return min(float(total), math.log2(candidates))


def _epsilon_at(guarantee: Guarantee, delta: float) -> float:
    """Least ε that the guarantee proves at δ; ∞ where it proves none."""
    proved = [e for e, d in guarantee.points if d <= delta]
    proved += [epsilon_from_renyi(a, d, delta=delta) for a, d in guarantee.renyi_points]
    return min([math.inf, *proved])
