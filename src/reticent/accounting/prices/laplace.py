"""Laplace noise: its Rényi divergence (Mironov 2017, proposition 6) and its exact δ(ε)."""

import math
from functools import partial
from typing import Final

import numpy as np

from reticent.accounting.loss_sums import Losses, joined
from reticent.accounting.prices.price import MOST_CELLS, LossDistribution, Price, distance
from reticent.core.arrays import Floats
from reticent.core.event import Laplace
from reticent.core.guarantee import Neighbours


def _losses(event: Laplace, neighbours: Neighbours, spacing: float) -> tuple[tuple[Losses, ...], int]:
    """One side, which is its own mirror image."""
    reach = distance(neighbours) / event.scale
    side = joined(partial(laplace_delta, reach=reach), (-reach, reach), spacing=spacing)
    return (side,), math.ceil(2.0 * reach / spacing)


def _renyi(shift: float, order: float) -> float:
    """D_a between Laplace(0, 1) and Laplace(shift, 1).

    Convex in the shift and 0 at 0, hence superadditive: for a vector of L1 sensitivity 1 the worst case puts all of
    it into one coordinate.
    """
    if order == math.inf:
        return shift
    high, low = order / (2.0 * order - 1.0), (order - 1.0) / (2.0 * order - 1.0)
    if (order - 1.0) * shift > 1.0:
        exponents = math.log(high) + (order - 1.0) * shift, math.log(low) - order * shift
        return min(shift, float(np.logaddexp(*exponents)) / (order - 1.0))
    excess = high * math.expm1((order - 1.0) * shift) + low * math.expm1(-order * shift)
    return min(shift, math.log1p(max(excess, 0.0)) / (order - 1.0))


def laplace_delta(epsilons: Floats, *, reach: float) -> Floats:
    """δ of one Laplace release whose privacy loss lies between −reach and reach, exact."""
    inside = -np.expm1(0.5 * (np.minimum(epsilons, reach) - reach))
    return np.asarray(np.where(epsilons < -reach, -np.expm1(np.minimum(epsilons, 0.0)), inside))


LAPLACE: Final = Price(
    Laplace,
    renyi=lambda event, order, neighbours: _renyi(distance(neighbours) / event.scale, order),
    distribution=LossDistribution(
        losses=_losses,
        least_spacing=lambda event, _: 4.0 / event.scale / MOST_CELLS,  # of a replaced unit
        is_known_for_replaced=True,
    ),
)
