"""Did the declared mechanism make these releases? Tests of its parts, along canaries whose gradients are known.

ε from guesses (`metrics.one_run_family`) asks how well members are told apart from non-members. A broken
step may hardly change that. These tests check noise, clipping and sampling themselves. They refute the mechanism
that was declared and priced; none says what ε is instead. Projections of step t (`core.evidence.canary_trace`):

    x_t = length · drawn_t + b_t + σ z_t      declared: length ≤ 1, drawn_t ~ Bernoulli(q), z_t fresh and normal

with b_t what records add along the canary. σ and q are the plan's.

    noise            Σ x² ≥ σ² χ² in distribution, over others and steps, whatever b_t is: too little noise shows
    fresh noise      the same of x_t − x_s, for each pair of steps, given what step s released: reused noise cancels
    contribution     members add more than one clip norm: score of the likelihood in `length`
    sampling rate    members are drawn more often than q: score of the likelihood in q
    one draw a pass  members are drawn once in each pass over the data: likelihood ratio of that to Poisson samples

These are Poisson samples; `draws` has the scores of the last three, and of other samplers. They compare members
with others to whom made-up draws were added: what the declared mechanism would have shown of them. Coins are fair,
so both groups have one distribution, and the sum of ranks (Mann and Whitney 1947) is a test at any level. It takes
b_t to be the same with and without the canary's own earlier draws.

Every test is one-sided, towards less privacy: more noise or fewer draws than declared refute nothing.
"""

from typing import Final

import numpy as np

from reticent.auditing.attacks.one_run.draws import LONG, OFTEN, SHUFFLED, Draws
from reticent.core.arrays import Floats
from reticent.core.evidence.canary_trace import CanaryTrace
from reticent.core.randomness import Randomness

TOO_LITTLE_NOISE: Final = "too little noise"
REUSED_NOISE: Final = "noise used more than once"
FAULTS: Final = (TOO_LITTLE_NOISE, REUSED_NOISE, LONG, OFTEN, SHUFFLED)


def mechanism_p_values(
    trace: CanaryTrace, *, draws: Draws, deviation: float, randomness: Randomness
) -> dict[str, float]:
    """The p-value of each fault that could be tested here, by its name.

    Guarantee: under the declared mechanism each is at most p with chance at most p.
    """
    members, others = trace.projections[:, trace.is_member], trace.projections[:, ~trace.is_member]  # [T, n]
    found: dict[str, float] = {}
    if others.size:
        found[TOO_LITTLE_NOISE] = _too_small(float((others**2).sum()) / deviation**2, others.size)
        if len(others) > 1:
            found[REUSED_NOISE] = _reused(others / deviation)
    if members.size and others.size:
        made_up = others + draws.made_up(others.shape, randomness)
        theirs = draws.fault_scores(made_up, deviation)
        for name, ours in draws.fault_scores(members, deviation).items():
            found[name] = _larger(ours, theirs[name])
    return found


def _reused(others: Floats) -> float:
    """The least p-value of a distance between two steps of [T, n], in deviations, times the number of pairs."""
    products = others @ others.T  # [T, T]
    lengths = np.diag(products)
    first, second = np.triu_indices(len(others), 1)
    distances = lengths[first] + lengths[second] - 2.0 * products[first, second]
    return min(1.0, len(first) * _too_small(float(distances.min()), others.shape[1]))


def _too_small(total: float, squares: int) -> float:
    """Chance that so many squares of standard normals add up to no more."""
    from scipy.special import chdtr  # deferred: keeps the command line quick to start

    return float(chdtr(squares, max(0.0, total)))


def _larger(ours: Floats, theirs: Floats) -> float:
    """p-value of the rank test for [n] being larger than [k]."""
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(ours, theirs, alternative="greater", method="asymptotic").pvalue)
