"""GNMax: the winner of a vote under Gaussian noise, its exact outcome chances and its Rényi price; and the check
that comes before it in Confident-GNMax.

Each of V outcomes has a vote count n_j; the release is argmax_j n_j + N(0, σ²). Chances are one-dimensional
integrals over the distinct counts, exact to float64:

    P[j wins] = ∫ φ((t−n_j)/σ)/σ · Π_{i≠j} Φ((t−n_i)/σ) dt,     q = P[the leader does not win].

Price at order a (Papernot et al. 2018, "Scalable private learning with PATE"):

- whatever the counts: ε(a) = c·a. **Replace one** voter moves one vote, two counts change by 1, L2 distance √2:
  c = 1/σ². **Add or remove one** voter changes one count: c = 1/(2σ²).
- at the actual counts (data-dependent, hence private), Theorem 6: with ε(μ) = cμ and q e^ε(μ2) < 1,
      (1−q)·A^(a−1) + q·B^(a−1),  A = (1−q)/(1−(q e^ε(μ2))^((μ2−1)/μ2)),  B = e^ε(μ1)/q^(1/(μ1−1))
  bounds I_a(M(D)‖M(D')), with its optimal orders μ2 = √(log(1/q)/c), μ1 = μ2 + 1 (Proposition 10).

Theorem 6 is one-sided. The other direction needs its own bound, which is greater when q is small. With E = "the
leader does not win", q' its chance under D', and any μ > a, Hölder between the orders 1 and μ on E and
(1−q')^a ≤ 1−q' give
      I_a(M(D')‖M(D)) ≤ (1−q)^(1−a) (1−q') + q'^s e^((a−1)ε(μ)),  s = (μ−a)/(μ−1),  q' ≤ (q e^ε(μ))^((μ−1)/μ),
concave in q', and about least at the same μ = √(log(1/q)/c). The price is the greater of both directions and never
above the worst case.

A **check** whether a number that one voter moves by at most 1 (the leader's votes, say) passes a threshold under
Gaussian noise costs ε(a) = a/(2σ²) at most, whether the voter is added, removed or replaced (their Algorithm 1).

Does not smooth or sanitise the data-dependent price: the number itself must not be published.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from reticent.accounting.light_imports import log_ndtr
from reticent.accounting.prices.price import Price
from reticent.core.arrays import Floats
from reticent.core.divergence import log_sum_exp
from reticent.core.event import NoisyCheck, NoisyVote
from reticent.core.guarantee import Neighbours

_STEP = 1.0 / 32.0  # of σ; the trapezoid rule is exact to float64 for these analytic, Gaussian-tailed integrands
_TAIL = 12.0  # standard deviations beyond the outermost count that matters
_FAR = 60.0  # lead in σ from which the union bound on q equals q to float64 (relative excess e^−300)
_WIDEST = 1e5  # spread of counts in σ up to which the outcome chances are integrated
_LOG_SMALL = -1e-200  # log Π Φ above this has lost its digits: 1 − Π Φ is then Σ (1 − Φ), which is not less


def noisy_vote_epsilon(event: NoisyVote, order: float, neighbours: Neighbours) -> float:
    """Rényi price at `order` of one noisy vote, for one voter added or removed, or replaced (also: masked).

    Guarantee: at least the symmetric D_a between the outcome and that of any neighbouring vote; of all votes if the
    event has no counts, of these very counts (data-dependent) if it has.
    """
    if not order > 1.0:
        raise ValueError(f"a Rényi order must be above 1, found {order}")
    slope = vote_slope(event.noise, neighbours)
    worst = slope * order
    if event.counts is None:
        return worst
    log_q = _kept_log_upset_chance(event.counts, event.noise)
    return min(worst, max(likely_outcome_epsilon(log_q, slope, order=order), _reverse_epsilon(log_q, slope, order)))


def vote_slope(noise: float, neighbours: Neighbours) -> float:
    """c in ε(a) = c·a: 1/σ² where a vote may move, 1/(2σ²) where it may only appear or vanish."""
    moved_counts = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    return moved_counts / (2.0 * noise**2)


def noisy_check_epsilon(event: NoisyCheck, order: float) -> float:
    """Rényi price at `order` of one noisy check, for one voter added, removed or replaced (also: masked).

    Guarantee: at least the symmetric D_a between the outcomes of any two numbers at a distance of at most 1.
    """
    if not order > 1.0:
        raise ValueError(f"a Rényi order must be above 1, found {order}")
    return order / (2.0 * event.noise**2)


def check_chances(number: float, *, threshold: float, noise: float) -> Floats:
    """Pmf [2] of a noisy check: below the threshold, or not below it. Both are exact where they are small."""
    return np.asarray(np.exp(log_ndtr(np.array([threshold - number, number - threshold]) / noise)))


def likely_outcome_epsilon(log_q: float, slope: float, *, order: float) -> float:
    """Theorem 6 of Papernot et al. with its optimal orders; ∞ where it does not apply. One-sided, as published.

    Guarantee: bounds D_a(M(D)‖M(D')), not its reverse, for a mechanism with D_a ≤ slope·a whose likeliest outcome
    fails with chance e^log_q.
    """
    if log_q == -math.inf:
        return 0.0
    if log_q >= 0.0 or order == math.inf:
        return math.inf
    mu2 = math.sqrt(-log_q / slope)
    mu1 = mu2 + 1.0
    if mu2 <= 1.0 or order > mu1:
        return math.inf
    # The theorem's condition keeps the bound increasing in q, so that rounding q up stays on the safe side.
    limit = (mu2 - 1.0) * slope * mu2 - mu2 * (math.log(mu1 / (mu1 - 1.0)) + math.log(mu2 / (mu2 - 1.0)))
    log_bad = (log_q + slope * mu2) * (mu2 - 1.0) / mu2
    if log_q > limit or log_bad >= 0.0:
        return math.inf
    log_good = math.log(-math.expm1(log_q))
    log_a = log_good - math.log(-math.expm1(log_bad))
    log_b = slope * mu1 - log_q / (mu1 - 1.0)
    total = np.logaddexp(log_good + (order - 1.0) * log_a, log_q + (order - 1.0) * log_b)
    return max(0.0, float(total)) / (order - 1.0)


def _reverse_epsilon(log_q: float, slope: float, order: float) -> float:
    """The bound on D_a(M(D')‖M(D)) of the module's docstring; ∞ where it does not apply."""
    if log_q == -math.inf:
        return 0.0
    if log_q >= 0.0:
        return math.inf
    mu = math.sqrt(-log_q / slope)
    if order >= mu:
        return math.inf
    epsilon, log_keep = slope * mu, math.log(-math.expm1(log_q))  # ε(μ), log(1−q)
    most = min(0.0, (log_q + epsilon) * (mu - 1.0) / mu)
    power = (mu - order) / (mu - 1.0)  # s
    peak = (mu - 1.0) * (math.log(power) / (order - 1.0) + epsilon + log_keep)
    log_other = min(most, peak)  # log q' where the bound is greatest
    growth = (order - 1.0) * (epsilon + log_keep - log_other / (mu - 1.0))
    if growth > 500.0:
        return math.inf
    scale = math.exp((1.0 - order) * log_keep)
    excess = math.expm1((1.0 - order) * log_keep) + math.exp(log_other) * scale * math.expm1(growth)
    return math.log1p(max(0.0, excess)) / (order - 1.0)


@lru_cache(maxsize=64)
def _kept_log_upset_chance(counts: tuple[int, ...], noise: float) -> float:
    """The same event is priced at many orders: integrate once."""
    return log_upset_chance(counts, noise)


def log_upset_chance(counts: Sequence[int], noise: float) -> float:
    """log q, q = P[the leading outcome does not win], exact to float64 also where q underflows.

    Guarantee: where the lead passes 60 σ it is the union bound, which is never below q.
    """
    distinct, times = _distinct(counts)
    leader, rivals = distinct[-1], times.copy()
    rivals[-1] -= 1.0
    present = rivals > 0
    if not present.any():
        return -math.inf
    distinct, rivals = distinct[present], rivals[present]
    lead = (leader - distinct[-1]) / noise
    if lead > _FAR:
        return min(
            0.0, float(log_sum_exp(log_ndtr((distinct - leader) / (noise * math.sqrt(2.0))) + np.log(rivals)))
        )
    t = np.arange(-lead / 2.0 - 2.0 * _TAIL, 2.0 * _TAIL, _STEP)  # in σ from the leader's count
    gap = t[:, None] - (distinct - leader)[None, :] / noise  # [T, distinct]
    none_above = log_ndtr(gap) @ rivals  # log Π Φ, [T]
    with np.errstate(divide="ignore"):
        exact = np.log(-np.expm1(none_above))
        small = log_sum_exp(log_ndtr(-gap) + np.log(rivals))
    some_above = np.where(none_above > _LOG_SMALL, small, exact)
    return min(0.0, float(log_sum_exp(_log_density(t) + some_above)) + math.log(_STEP))


def log_outcome_chances(counts: Sequence[int], noise: float) -> Floats:
    """Log-pmf [V] of the noisy winner: from it follows the exact perplexity of GNMax."""
    distinct, times = _distinct(counts)
    if (distinct[-1] - distinct[0]) / noise > _WIDEST:
        raise ValueError(
            f"counts that spread over more than {_WIDEST:g} times the noise have no outcome chances here"
        )
    low, high = distinct[0] / noise - _TAIL, distinct[-1] / noise + _TAIL
    t = np.arange(low, high, _STEP)  # [T], in σ
    below = np.stack([log_ndtr(t - count / noise) for count in distinct])  # [distinct, T]
    all_below = times @ below  # [T]
    log_chance = np.empty(len(distinct))
    for d, count in enumerate(distinct):
        log_chance[d] = log_sum_exp(_log_density(t - count / noise) + all_below - below[d]) + math.log(_STEP)
    log_chance -= log_sum_exp(log_chance + np.log(times))
    return np.asarray(log_chance[np.searchsorted(distinct, np.asarray(counts, dtype=np.float64))])


def _distinct(counts: Sequence[int]) -> tuple[Floats, Floats]:
    """Distinct counts, ascending, and how many outcomes have each."""
    values, times = np.unique(np.asarray(counts, dtype=np.float64), return_counts=True)
    return values, times.astype(np.float64)


def _log_density(x: Floats) -> Floats:
    """log φ(x) of the standard normal."""
    return np.asarray(-0.5 * x**2 - 0.5 * math.log(2.0 * math.pi))


NOISY_VOTE: Final = Price(NoisyVote, renyi=noisy_vote_epsilon)
NOISY_CHECK: Final = Price(NoisyCheck, renyi=lambda event, order, _: noisy_check_epsilon(event, order))
