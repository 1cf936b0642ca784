"""ε so far, cheap enough for a progress bar.

    ε(n) = min over orders a of convert(a, n·d_a; δ),   d_a the Rényi divergence of one step, computed once

The whole plan's ε comes from all accountants together (`accounting.guarantees`); the number here is from the
Rényi curve on a thinned grid, hence an upper bound for the steps taken, and never above the whole plan's.
"""

from reticent.accounting.conversion import epsilon_from_renyi
from reticent.accounting.curve import RenyiCurve
from reticent.core.event import Event
from reticent.core.guarantee import Neighbours

_EVERY = 6  # each sixth order of the accountant's grid; the whole plan's ε caps what is lost by it


class Spending:
    """ε of the first n of `steps` equal steps."""

    def __init__(self, event: Event, *, steps: int, neighbours: Neighbours, epsilon: float, delta: float) -> None:
        """`event` is one step, `epsilon` what all `steps` prove at `delta`."""
        curve = RenyiCurve(event, neighbours)
        orders = curve.orders()[::_EVERY]
        self._costs = [(float(order), curve(float(order))) for order in orders]
        self._steps = steps
        self._epsilon = epsilon
        self._delta = delta

    def epsilon(self, steps: int) -> float:
        """An upper bound on ε after so many steps.

        Guarantee: `steps` steps are (ε, δ)-DP with the returned ε: fewer steps never prove less than all of them.
        """
        if not 0 <= steps <= self._steps:
            raise ValueError(f"the plan has {self._steps} steps, found {steps}")
        if steps == 0:
            return 0.0
        found = min(epsilon_from_renyi(order, steps * cost, delta=self._delta) for order, cost in self._costs)
        return min(found, self._epsilon)
