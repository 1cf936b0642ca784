"""How many of m fair coins can be guessed right from a release, if nobody's coin tells of another's.

A unit is in by a fair coin. Its privacy loss L is log P/Q of the release, P with it and Q without; after the
release the coin is "in" with chance e^L/(1 + e^L). Whoever guesses a share g of all coins, the surest first, is
right on a share of at most

    C(g) = ½ P[L > τ] + ½ Q[L < −τ],   g = ½ (P + Q)[|L| > τ]      (concave; C(1) = (1 + total variation)/2)

Of m such coins, independent of each other, let r be guessed. The (r+1)-th surest lies at a share
g ~ Beta(r+1, m−r), and given it the r guesses are right independently, each with chance C(g)/g at most. So the
number of right guesses is at most, in distribution,

    Binomial(r, C(g)/g),   g ~ Beta(r+1, m−r)                             (r = m: Binomial(m, C(1)))

whichever coins are guessed, by whatever score: given the release every coin is a coin of its own, and guessing the
surest by their sign is best (sums of independent coins grow with each chance).

Independence is what the plan gives to units whose gradients are orthogonal: the noise along each is its own, and
what other units add is known to the strongest adversary. `auditing.metrics.one_run` needs no independence, and
finds less.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from reticent.accounting.pld import PrivacyProfile
from reticent.core.arrays import Floats

# Shares of the Beta distribution at which it is cut; each cell counts with the chance of its surer end.
_TAILS = 10.0 ** np.arange(-8.0, -2.0)
_CELLS = 400


@dataclass(frozen=True, slots=True, eq=False)
class GuessingCurve:
    """C at ascending shares from 0 to 1, linear in between."""

    shares: Floats
    right: Floats

    @classmethod
    def of(cls, profile: PrivacyProfile) -> "GuessingCurve":
        """The curve of an event whose privacy loss distribution is known.

        Guarantee: no guesser of fair coins is right on more; the discretisation only ever raises the curve.
        """
        sides = profile.losses()
        losses = np.concatenate([loss for loss, _ in sides])  # [n], both directions
        masses = np.concatenate([mass for _, mass in sides])  # [n], under the world that is guessed
        order = np.argsort(-losses, kind="stable")
        masses, odds = masses[order], np.exp(-losses[order])
        shares = np.cumsum(0.5 * masses * (1.0 + odds))
        right = np.cumsum(0.5 * masses)
        inside = shares < 1.0
        shares = np.concatenate([[0.0], shares[inside], [1.0]])
        # What is left has a loss of 0 or below: a guess is right with chance ½.
        last = right[inside][-1] if inside.any() else 0.0
        rest = right[~inside][0] if (~inside).any() else last + 0.5 * (1.0 - shares[-2])
        return cls(shares, np.concatenate([[0.0], right[inside], [min(1.0, rest)]]))

    def chance(self, share: Floats) -> Floats:
        """Greatest chance [n] of a right guess among the surest shares [n], above 0, of all coins."""
        return np.asarray(np.minimum(np.interp(share, self.shares, self.right) / share, 1.0))

    def p_value(self, m: int, guesses: int, *, correct: int) -> float:
        """Chance of at least `correct` right guesses of `guesses` of m coins, at most.

        Guarantee: an upper bound on that chance for m independent coins; it grows with the curve.
        """
        if not 0 <= correct <= guesses <= m or guesses < 1:
            raise ValueError("guessing needs 0 <= correct <= guesses <= m and a guess")
        from scipy.special import bdtrc  # P[B > k]; deferred: keeps the command line quick to start

        if correct == 0:
            return 1.0
        if guesses == m:
            return float(bdtrc(correct - 1, guesses, self.chance(np.ones(1))[0]))
        chances, share = _cells(m, guesses)
        tails = bdtrc(correct - 1, guesses, self.chance(share))
        tails[0] = 1.0  # the outermost cell, of chance 1e-8
        return min(1.0, float(chances @ tails))


@lru_cache(maxsize=64)
def _cells(m: int, guesses: int) -> tuple[Floats, Floats]:
    """Chances [cells] of the cells of Beta(r+1, m−r), and the surer end of each: every member of a family asks."""
    from scipy.special import betaincinv

    edges = np.unique(np.concatenate([[0.0], _TAILS, np.arange(1, _CELLS) / _CELLS, [1.0]]))  # [cells + 1]
    return np.diff(edges), np.maximum(betaincinv(guesses + 1, m - guesses, edges[:-1]), 1e-12)
