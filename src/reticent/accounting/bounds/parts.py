"""What a Rényi guarantee for one unit says of several: groups, owners in parts, text extraction.

With ρ = a/(a−1), a release that is (a, ε)-Rényi-close for one changed unit is, for κ changed units,

    (α_κ, ε_κ) = ( ρ^κ/(ρ^κ − 1),  ε (a−1)(ρ^κ − 1) ).

Proof: Mironov (2017), Proposition 11, from world κ−1 to κ with p = 1 + (α_{κ−1}−1)/a: the second term stays at
order a, the first has factor ρ, so ε_κ = ρ ε_{κ−1} + ε and 1/(α_κ−1) + 1 = ρ^κ. Two uses:

- κ = 2 is part → owner, (a²/(2a−1), (2a−1)/(a−1)·ε): the worlds before and after one owner's text changes both
  lie within ε of the world without that owner's part. Holds for all a > 1, where the printed Theorem C.1 of
  SubMix (Ginart et al. 2022) is undefined at a = 2 and weaker above.
- KL ≤ D_{α_κ} ≤ ε_κ. The printed linear rule κ·ε (C.2, C.3, Eq. 10–11) does not hold.

Random stopping (appendix C.4) is not here: Proposition C.3(1), which states a guarantee for it, is false.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from reticent.core.errors import NotComparable
from reticent.core.guarantee import Guarantee, Neighbours, Unit

_LARGE = 700.0  # of a logarithm: its exponential is the last that float64 holds

ONE_PART: Final = "each owner's text stands in one part, and no owner's place depends on another's"


def group_point(order: float, epsilon: float, *, group: int) -> tuple[float, float]:
    """(order, epsilon) for `group` changed units, from (order, epsilon) for one.

    Guarantee: D_{α_κ} between any two worlds at distance κ is at most ε_κ if neighbours are within ε at `order`,
    in both directions. Order ∞ (pure differential privacy) gives κ·ε at order ∞.
    """
    if not order > 1.0 or not epsilon >= 0.0 or group < 1:
        raise ValueError("a group needs an order above 1, a non-negative epsilon and at least one unit")
    if order == math.inf:
        return math.inf, group * epsilon
    if group == 1:
        return order, epsilon
    log_growth = group * -math.log1p(-1.0 / order)
    if log_growth > _LARGE:  # nothing is proved of a group so large, unless one unit changes nothing at all
        return math.nextafter(1.0, 2.0), math.inf if epsilon > 0.0 else 0.0
    growth = math.expm1(log_growth)  # ρ^κ − 1, exact for large orders
    return 1.0 + 1.0 / growth, epsilon * (order - 1.0) * growth


def owner_point(order: float, epsilon: float) -> tuple[float, float]:
    """(order, epsilon) for changing one owner's text, from the same for removing that owner's part.

    Guarantee: needs that each owner stands in one part and that no other owner's place depends on this owner.
    """
    return group_point(order, epsilon, group=2)


def owner_guarantee(part: Guarantee) -> Guarantee:
    """The owner-level guarantee (replace one) that a part-level Rényi guarantee implies.

    Guarantee: `owner_point` on every proved Rényi point. (ε, δ) points of the part level are not carried over.
    """
    points = [(a, e) for a, e in part.renyi_points if a > 1.0]
    if part.unit is not Unit.PART or part.neighbours is not Neighbours.ADD_REMOVE or not points:
        raise NotComparable("owner-level conversion needs a Rényi guarantee for adding or removing one part")
    converted = [owner_point(a, e) for a, e in points]
    order, epsilon = converted[0]
    return replace(
        part,
        unit=Unit.OWNER,
        neighbours=Neighbours.REPLACE,
        order=None if order == math.inf else order,
        epsilon=epsilon,
        delta=0.0,
        profile=(),
        renyi=tuple(converted[1:]),
        covers=part.covers.replace("one part", "one owner"),
        assumes=(*part.assumes, ONE_PART),
    )


@dataclass(frozen=True, slots=True)
class ExtractionBound:
    """Ceilings on the chance to name a secret among m equally likely candidates; `success` is the lesser."""

    direct: float
    fano: float

    @property
    def success(self) -> float:
        """The lesser of the two: both are proved."""
        return min(self.direct, self.fano)


def extraction_success(order: float, epsilon: float, *, candidates: int, group: int = 1) -> ExtractionBound:
    """The best chance of any attack to name a secret, uniform among `candidates`, that stands in `group` units.

    Guarantee: let R be the world without the secret, P_i the one with candidate i. Direct: for the event "guess =
    i", P_i ≤ (e^ε R)^((a−1)/a) (Mironov 2017, Proposition 10); R's chances sum to at most 1 and x^((a−1)/a) is
    concave, so the mean is at most (e^ε/m)^((a−1)/a). Fano: the mutual information is at most max_i KL(P_i‖R), so
    the mean is at most (KL + log 2)/log m. For a group both use `group_point`; (α−1)/α is then ρ^−κ.
    """
    if candidates < 1:
        raise ValueError(f"candidates must be at least 1, found {candidates}")
    reach, spent = group_point(order, epsilon, group=group)
    power = 1.0 if reach == math.inf else (reach - 1.0) / reach
    log_direct = power * (spent - math.log(candidates))
    fano = 1.0 if candidates == 1 else (spent + math.log(2.0)) / math.log(candidates)
    return ExtractionBound(direct=math.exp(min(0.0, log_direct)), fano=min(1.0, fano))
