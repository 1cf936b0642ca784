"""ε so far, cheap enough for a progress bar.

    ε(n) = min over orders a of convert(a, n·d_a; δ),   d_a the Rényi divergence of one round, computed once

The whole plan's ε comes from all accountants together (`accounting.guarantees`); the number here is from the
Rényi curve on a thinned grid, hence an upper bound for the rounds taken, and never above the whole plan's. A round
without a Rényi price (an epoch of random allocation) is priced by its privacy loss distribution. A round that has
begun costs as much as one that has ended.
"""

import math

from reticent.accounting.conversion import epsilon_from_renyi
from reticent.accounting.curve import RenyiCurve
from reticent.accounting.pld import pld_epsilon
from reticent.core.event import Repeated, Round
from reticent.core.guarantee import Neighbours

_EVERY = 6  # every sixth order of the accountant's grid; the whole plan's ε caps what is lost by it


class Spending:
    """ε of the first n steps of a run of equal rounds."""

    def __init__(self, one: Round, *, steps: int, neighbours: Neighbours, epsilon: float, delta: float) -> None:
        """The run has `steps` steps in rounds like `one`; all of them together prove `epsilon` at `delta`."""
        curve = RenyiCurve(one, neighbours)
        orders = curve.orders()[::_EVERY]
        self._costs = [(float(order), curve(float(order))) for order in orders]
        self._round = one
        self._steps = steps
        self._neighbours = neighbours
        self._epsilon = epsilon
        self._delta = delta
        self._by_profile: dict[int, float] = {}

    def epsilon(self, steps: int) -> float:
        """An upper bound on ε after so many steps.

        Guarantee: `steps` steps are (ε, δ)-DP with the returned ε: fewer steps never prove less than all of them.
        """
        if not 0 <= steps <= self._steps:
            raise ValueError(f"the plan has {self._steps} steps, found {steps}")
        if steps == 0:
            return 0.0
        rounds = math.ceil(steps / self._round.steps)
        finite = [(order, cost) for order, cost in self._costs if math.isfinite(cost)]
        if not finite:
            return min(self._profile_epsilon(rounds), self._epsilon)
        found = min(epsilon_from_renyi(order, rounds * cost, delta=self._delta) for order, cost in finite)
        return min(found, self._epsilon)

    def _profile_epsilon(self, rounds: int) -> float:
        if rounds * self._round.steps == self._steps:
            return self._epsilon
        if rounds not in self._by_profile:
            event = Repeated(self._round, rounds)
            self._by_profile[rounds] = pld_epsilon(event, delta=self._delta, neighbours=self._neighbours)
        return self._by_profile[rounds]
