"""What exposure is when nothing was memorised: the null that every measured exposure is compared with.

The secret was drawn uniformly from m candidates, so a model that never saw it gives it each rank with chance 1/m:

    P[exposure ≥ x] = ⌊m 2^−x⌋ / m ≤ 2^−x          exposure = log2 m − log2 rank, exponential with mean 1/ln 2
    E[exposure]     = log2 m − log2(m!)/m → 1.4427 bits
    E[largest of n] → (1 + 1/2 + … + 1/n)/ln 2 = 4.2256 bits for n = 10

Ties rank before the canary, which only lowers exposure: every p-value here stays valid. For m → ∞ the sum of n
exposures times ln 2 is Gamma(n, 1); for finite m it is at most that, stochastically. Canaries of one space
draw distinct secrets and are ranked without each other, hence each is uniform given the others.
"""

import math
from typing import Final

import numpy as np

_EXACT_SUM: Final = 2**20  # ranks summed one by one; beyond, the limit is right to five digits


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
