"""Exposures of several canaries as findings against the null of no memorisation.

- `exposure`: the mean in bits, whose null is 1.44 bits. Whether it beats the null is decided by the **exact**
  chance of such a sum without memorisation (a Gamma tail). The interval is that of the
  expectation over canaries: its low end by order statistics (Gaffke's, `intervals.mean_lower`), its high end by
  Hoeffding's bound for values in [0, log2 |R|] (Kullback–Leibler form). Gaffke's is conjectured for more than two
  values, so a guarantee's ceiling is compared with Hoeffding's low end (`proved_low`).
- `largest_exposure`: null is what the largest of n passes with chance 1 − confidence (7.6 bits for ten at 0.95);
  its expectation (4.22) stands in the notes.

**The null** is what exposure is when nothing was memorised. The secret was drawn uniformly from m candidates, so a
model that never saw it gives it each rank with chance 1/m:

    P[exposure ≥ x] = ⌊m 2^−x⌋ / m ≤ 2^−x          exposure = log2 m − log2 rank, exponential with mean 1/ln 2
    E[exposure]     = log2 m − log2(m!)/m → 1.4427 bits
    E[largest of n] → (1 + 1/2 + … + 1/n)/ln 2 = 4.2256 bits for n = 10

Ties rank before the canary, which only lowers exposure: every p-value here stays valid. For m → ∞ the sum of n
exposures times ln 2 is Gamma(n, 1); for finite m it is at most that, stochastically. Canaries of one space
draw distinct secrets and are ranked without each other, hence each is uniform given the others.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from reticent.auditing.attacks.exposure.ranking import Exposure
from reticent.auditing.metrics.intervals import mean_lower
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.metric import EXPOSURE, LARGEST_EXPOSURE
from reticent.core.model import Access

_EXACT_SUM: Final = 2**20  # ranks summed one by one; beyond, the limit is right to five digits


def exposure_findings(
    exposures: Sequence[Exposure], *, confidence: float = 0.95, unit: Unit = Unit.SECRET
) -> tuple[Finding, Finding]:
    """The mean and the largest exposure as findings, each against its null; `confidence` that of the measurement.

    Guarantee: canaries drawn independently of the model's training beat a null with chance at most 1 − confidence.
    """
    if not exposures:
        raise ValueError("no canary is not a finding")
    n = len(exposures)
    notes = tuple(dict.fromkeys(note for exposure in exposures for note in exposure.notes))
    shared: dict[str, Any] = {
        "attack": "canary exposure",
        "confidence": confidence,
        "n": n,
        "unit": unit,
        "access": Access.LOGPROBS,
    }
    mean = _mean_finding(exposures, notes, shared)
    largest = max(exposures, key=lambda exposure: exposure.low)
    usual = null_largest_mean(min(exposure.candidates for exposure in exposures), n)
    chance = null_survival(largest.low, n)
    alpha = (1.0 - confidence) * _share_left(exposures)
    quantile = null_quantile(1.0 - alpha, n)
    could_pass = quantile < max(exposure.bits for exposure in exposures)
    if not could_pass:
        notes = (*notes, "the space is too small for its largest exposure to be distinguishable from chance")
    finding = Finding(
        metric=LARGEST_EXPOSURE.name,
        value=largest.value,
        low=largest.low,
        high=max(exposure.high for exposure in exposures),
        measure=f"largest exposure of {n} canaries, in bits, of {largest.bits:.2f}",
        null=quantile,
        notes=(
            f"without memorisation the largest of {n} is {usual:.2f} bits on average and passes {quantile:.2f} "
            f"with chance {alpha:.2g}; p = {chance:.2g}",
            *notes,
        ),
        could_pass=could_pass,
        **shared,
    )
    return mean, finding


def _mean_finding(exposures: Sequence[Exposure], notes: tuple[str, ...], shared: dict[str, Any]) -> Finding:
    """Mean exposure, with the interval of its expectation over canaries."""
    n = len(exposures)
    most = max(exposure.bits for exposure in exposures)
    alpha = (1.0 - shared["confidence"]) * _share_left(exposures)
    lows, values, highs = (
        float(np.mean([getattr(exposure, end) for exposure in exposures])) for end in ("low", "value", "high")
    )
    p_value, best = (null_sum_survival(total, n) for total in (lows * n, sum(one.bits for one in exposures)))
    return Finding(
        metric=EXPOSURE.name,
        value=values,
        low=min(values, mean_lower([exposure.low for exposure in exposures], tail=alpha / 2.0)),
        proved_low=min(values, most * bounded_mean_limit(lows / most, n, alpha=alpha / 2.0, upper=False)),
        high=max(values, most * bounded_mean_limit(highs / most, n, alpha=alpha / 2.0, upper=True)),
        measure=f"mean exposure of {n} canaries, in bits, of {most:.2f}",
        null=float(np.mean([null_mean(exposure.candidates) for exposure in exposures])),
        notes=(f"chance of such a mean without memorisation: p = {p_value:.2g}", *notes),
        # Where ranks are estimated, half of the false-alarm rate is theirs.
        p_value=min(1.0, p_value / _share_left(exposures)),
        could_pass=best <= alpha,
        **shared,
    )


def _share_left(exposures: Sequence[Exposure]) -> float:
    """How much of the false-alarm rate is left for a finding: half was spent where ranks are estimated."""
    return 1.0 if all(exposure.is_exact for exposure in exposures) else 0.5


def bounded_mean_limit(mean: float, n: int, *, alpha: float, upper: bool) -> float:
    """One-sided limit for the expectation of n independent values in [0, 1] with this sample mean.

    The furthest μ with n KL(mean‖μ) ≤ log(1/alpha) (Hoeffding 1963, theorem 1); Clopper and Pearson's at 0 and 1.

    Guarantee: the expectation lies beyond it with chance at most alpha, whatever the distribution.
    """
    if not (0.0 <= mean <= 1.0 + 1e-12 and n >= 1 and 0.0 < alpha < 1.0):
        raise ValueError("a mean in [0, 1], at least one value and alpha in (0, 1) are needed")
    x = min(mean, 1.0)
    inside, outside = x, 1.0 if upper else 0.0
    for _ in range(200):  # bisection: KL grows on either side of x
        middle = 0.5 * (inside + outside)
        if middle in (inside, outside):
            break
        inside, outside = (middle, outside) if n * _binary_kl(x, middle) <= -math.log(alpha) else (inside, middle)
    return outside


def _binary_kl(x: float, y: float) -> float:
    """KL divergence of coins with chances x and y, 0 < y < 1."""
    first = x * math.log(x / y) if x > 0.0 else 0.0
    return first + ((1.0 - x) * math.log((1.0 - x) / (1.0 - y)) if x < 1.0 else 0.0)


def null_mean(candidates: int) -> float:
    """Expected exposure in bits without memorisation, exact for every number of candidates."""
    if candidates < 1:
        raise ValueError(f"at least one candidate is needed, found {candidates}")
    return max(0.0, math.log2(candidates) - math.lgamma(candidates + 1) / (candidates * math.log(2.0)))


def null_largest_mean(candidates: int, canaries: int) -> float:
    """Expected largest exposure of independent canaries without memorisation, in bits.

    E[log2 of the least rank] = Σ_k P[all ranks > k] log2((k+1)/k), summed by parts.
    """
    if candidates < 1 or canaries < 1:
        raise ValueError("at least one candidate and one canary are needed")
    if candidates > _EXACT_SUM:
        return float((1.0 / np.arange(1, canaries + 1)).sum()) / math.log(2.0)
    k = np.arange(1, candidates)  # [m − 1]
    all_later = np.exp(canaries * np.log1p(-k / candidates))
    return math.log2(candidates) - float((all_later * np.log2(1.0 + 1.0 / k)).sum())


def null_survival(exposure: float, canaries: int = 1) -> float:
    """Chance that the largest of so many exposures reaches `exposure` bits without memorisation: its p-value.

    Guarantee: at least the true chance for independent canaries, whatever the number of candidates, ties included.
    """
    if exposure < 0.0 or canaries < 1:
        raise ValueError("exposure is at least 0 and there is at least one canary")
    if exposure == 0.0:
        return 1.0
    return float(-math.expm1(canaries * math.log1p(-(2.0**-exposure))))


def null_quantile(confidence: float, canaries: int = 1) -> float:
    """Bits that the largest of so many exposures stays below with `confidence` without memorisation."""
    if not 0.0 < confidence < 1.0 or canaries < 1:
        raise ValueError("a confidence in (0, 1) and at least one canary are needed")
    return -math.log2(-math.expm1(math.log(confidence) / canaries))


def null_sum_survival(total: float, canaries: int) -> float:
    """Chance that the exposures of so many canaries sum to `total` bits or more without memorisation.

    Guarantee: at least the true chance for independent canaries: the Gamma tail of the limit m → ∞.
    """
    if total < 0.0 or canaries < 1:
        raise ValueError("exposures are at least 0 and there is at least one canary")
    from scipy.special import gammaincc  # deferred: keeps the command line quick to start

    return float(gammaincc(canaries, total * math.log(2.0)))
