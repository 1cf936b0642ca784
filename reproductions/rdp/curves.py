"""The curves that the paper draws: bits leaked by the Rényi bound alone, and by the traditional reading of ε.

`reticent bound` quotes and draws the least of several bounds instead (`accounting.bounds.leakage`).
"""

import math
from typing import Final

from reticent.accounting import RenyiCurve, rdp_leakage
from reticent.core import Event, Neighbours

_LOG2: Final = math.log(2.0)


def leaked_bits(event: Event, secret_bits: float) -> float:
    """Bits by the Rényi bound, capped."""
    curve = RenyiCurve(event, Neighbours.ADD_REMOVE)
    return curve.minimise(lambda a, d: rdp_leakage(-secret_bits * _LOG2, a, renyi=d))[0] / _LOG2


def traditional_bits(event: Event, secret_bits: float) -> float:
    """Bits by the traditional reading, ε at δ = 2^−b: not capped, never tighter."""
    curve = RenyiCurve(event, Neighbours.ADD_REMOVE)
    return curve.minimise(lambda a, d: d + secret_bits * _LOG2 / (a - 1.0) if a > 1.0 else math.inf)[0] / _LOG2
