"""PMixED: Poisson-drawn models, each mixed within a radius of the public model, averaged, one token sampled.

The mechanism (Flemings, Razaviyayn and Annavaram 2024): each of N models is drawn with chance p, independently;
p_i = λ_i h_i + (1−λ_i) r with the largest λ_i such that D_a^sym(p_i‖r) ≤ βa; the drawn p_i are averaged (none: r).

**Printed price** (in the tests): log((N−1+exp((a−1)·4βa))/N)/(a−1), and its Poisson-subsampled bound. It
rests on "p and q within βa of r at order a are within 4βa of each other at order a". That holds if the radius holds
at every order, but PMixED fixes it at one, and there it is false: r(y) = x, p(y) = √(xC), q(y) = x²/C with
C = e^{2β}−1 are within 2β at order 2, while I_2(p‖q) ≈ C²/x is unbounded as x → 0. So it is no guarantee for a
removed model whose divisor goes with it, nor for a replaced one. What is proved here instead, c = (1−(1−p)^N)/N:

- **Add or remove one**: N is public and a part without data answers as the public model does, as fine-tuning on
  nothing gives. The two pmfs differ by c (p_i − r), both hold w = (1−p)^N + c of r, so with θ = c/w and
  G = (1−θ) r + θ p_i (as in SubMix-F):  I_a ≤ w·max(I_a(G‖r), I_a(r‖G)) + 1 − w.  G against r is a Poisson sample
  of rate θ of (p_i against r), D_l ≤ βa for l ≤ a: Zhu and Wang (2019), Theorem 6, at integer orders. By joint
  convexity alone, at every order l ≤ a:  I_l ≤ 1 + c (e^{(l−1)βa} − 1).
- **Replace one** (or remove one with its place in the divisor): p_i and what takes its place are both within βa of
  r, hence within d = (2a−1)/(a−1)·βa at order a' = a²/(2a−1) (`parts.owner_point`), and
  I_l ≤ 1 + c (e^{(l−1)d} − 1) for l ≤ a'.

Above those orders nothing is known of the mixture: the price is infinite.
"""

import math
from typing import Final

import numpy as np

from reticent.accounting.bounds.parts import owner_point
from reticent.accounting.light_imports import gammaln
from reticent.accounting.prices.price import Price
from reticent.core.event import SubsampledMixture
from reticent.core.guarantee import Neighbours


def subsampled_mixture_epsilon(event: SubsampledMixture, order: float, neighbours: Neighbours) -> float:
    """Rényi price at `order` of one token of PMixED.

    Guarantee: bounds the symmetric D_order between neighbouring ensembles as the module's docstring states them; ∞
    above the mixing order (add-remove), or above a²/(2a−1) (replace). The number of queries must be fixed ahead.
    """
    if not order > 1.0:
        raise ValueError(f"a Rényi order must be above 1, found {order}")
    share = influence(event)
    radius = event.order * event.beta
    if radius == math.inf:
        return math.inf
    if neighbours is not Neighbours.ADD_REMOVE:
        reach, distance = owner_point(event.order, radius)
        return _convex_epsilon(share, distance, order) if order <= reach else math.inf
    if order > event.order:
        return math.inf
    convex = _convex_epsilon(share, radius, order)
    whole = math.ceil(order)
    if whole > event.order:
        return convex
    public_share = (1.0 - event.sampling_rate) ** event.models + share  # w
    amplified = poisson_subsampled_log_moment(min(1.0, share / public_share), radius, order=whole)
    rest = math.log1p(-public_share) if public_share < 1.0 else -math.inf
    diluted = np.logaddexp(math.log(public_share) + amplified, rest)
    return min(convex, max(0.0, float(diluted)) / (whole - 1.0))


def influence(event: SubsampledMixture) -> float:
    """c = p·E[1/n | model i is drawn] = (1−(1−p)^N)/N: the weight of one model in the released pmf."""
    if event.sampling_rate == 1.0:
        return 1.0 / event.models
    return -math.expm1(event.models * math.log1p(-event.sampling_rate)) / event.models


def poisson_subsampled_log_moment(rate: float, epsilon: float, *, order: int) -> float:
    """(a−1) times Zhu and Wang's (2019, Theorem 6) Rényi bound of a Poisson-sampled mechanism, integer a ≥ 2.

    Guarantee: bounds log I_a, both directions, for a mechanism with D_l ≤ `epsilon` at each of l = 2..a, run on
    a sample that holds the changed unit with chance `rate`, against the unit being absent.
    """
    if order < 2:
        raise ValueError(f"the subsampling bound needs an integer order of at least 2, found {order}")
    if rate == 1.0:
        return (order - 1.0) * epsilon
    log_rate, log_rest = math.log(rate), math.log1p(-rate)
    terms = [(order - 1.0) * log_rest + math.log1p((order - 1.0) * rate)]
    for count in range(2, order + 1):
        log_choose = float(gammaln(order + 1) - gammaln(count + 1) - gammaln(order - count + 1))
        factor = math.log(3.0) if count >= 3 else 0.0
        power = count * log_rate + (order - count) * log_rest
        terms.append(factor + log_choose + power + (count - 1.0) * epsilon)
    return max(0.0, float(np.logaddexp.reduce(terms)))


def _convex_epsilon(share: float, distance: float, order: float) -> float:
    """log(1 + c (e^{(a−1)d} − 1))/(a−1), without overflow."""
    exponent = (order - 1.0) * distance
    if exponent < 1.0:
        return math.log1p(share * math.expm1(exponent)) / (order - 1.0)
    rest = math.log1p(-share) if share < 1.0 else -math.inf
    return float(np.logaddexp(math.log(share) + exponent, rest)) / (order - 1.0)


SUBSAMPLED_MIXTURE: Final = Price(
    SubsampledMixture,
    renyi=subsampled_mixture_epsilon,
    known_orders=lambda event: {event.order, owner_point(event.order, 1.0)[0]},  # the second: of replacing one
)
