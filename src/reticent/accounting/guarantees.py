"""From an event to a `Guarantee`: the least ε of all valid accountants, with the evidence behind it.

`profile` holds (ε, δ) points of the privacy loss distribution where the event has one, and `renyi` points of the
Rényi curve, so that ceilings and leakage bounds can be taken from the guarantee alone, without the event.

An event with a realised charge (SubMix's Algorithm 2) is a promise of another kind: operational privacy of the
actual data at one order. It is stated as such, is never converted to (ε, δ), and the number itself is private.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from reticent.accounting.bounds.parts import owner_guarantee, owner_point
from reticent.accounting.conversion import epsilon_from_renyi, rdp_epsilon
from reticent.accounting.curve import RenyiCurve, known_orders, leaves
from reticent.accounting.groups import group_event
from reticent.accounting.pld import has_privacy_profile, privacy_profile
from reticent.core.choice import member_of
from reticent.core.errors import UnsupportedEvent
from reticent.core.event import Event, FilteredCharge, NoisyVote, RealisedCharge, Round, SampledGroup
from reticent.core.guarantee import Basis, Guarantee, Neighbours, Notion, Unit

_RENYI_POINTS = 1.0 + np.geomspace(1e-2, 1023.0, 36)

CLIPPED = "each unit's contribution to a step is clipped to the stated norm before noise is added"
NOISE = "noise comes from a generator the adversary cannot predict"


@dataclass(frozen=True, slots=True)
class Epsilons:
    """ε at one δ by each accountant; None where an accountant does not know the event."""

    delta: float
    rdp: float
    rdp_order: float
    pld: float | None

    @property
    def least(self) -> float:
        """The least: every accountant's number is an upper bound."""
        return self.rdp if self.pld is None else min(self.rdp, self.pld)


@lru_cache(maxsize=64)
def epsilons(event: Event, *, delta: float, neighbours: Neighbours) -> Epsilons:
    """ε at `delta` by every accountant that knows the event.

    Guarantee: the event is (ε, delta)-DP for each of the numbers.
    """
    neighbours = member_of(Neighbours, neighbours, name="neighbours")
    converted = rdp_epsilon(RenyiCurve(event, neighbours), delta=delta)
    pld = privacy_profile(event, neighbours).epsilon(delta) if has_privacy_profile(event) else None
    return Epsilons(delta, converted.value, converted.order, pld)


def guarantee_of(
    event: Event,
    *,
    delta: float,
    unit: Unit,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    mechanism: str = "",
    assumes: tuple[str, ...] = (),
) -> Guarantee:
    """What an event proves for one unit, with the points that back it.

    Guarantee: (ε, delta)-differential privacy for the stated neighbours under the stated assumptions; operational
    privacy at one order where the event holds a realised charge.
    """
    unit, neighbours = member_of(Unit, unit, name="unit"), member_of(Neighbours, neighbours, name="neighbours")
    if any(isinstance(leaf, RealisedCharge) for leaf, _ in leaves(event)):
        return _operational(event, unit=unit, neighbours=neighbours, mechanism=mechanism, assumes=assumes)
    _refuse_realised_filter(event)
    if isinstance(event, FilteredCharge) and unit is Unit.OWNER:
        return _filtered_for_owner(event, delta=delta, mechanism=mechanism, assumes=assumes)
    found = epsilons(event, delta=delta, neighbours=neighbours)
    # Priced by the actual votes, the sum is no bound once a question depends on earlier answers.
    is_counted = any(isinstance(leaf, NoisyVote) and leaf.counts is not None for leaf, _ in leaves(event))
    everything = f"everything computed from what was released, against any adversary, for one {unit.value}"
    return Guarantee(
        mechanism=mechanism or _name(event),
        notion=Notion.DIFFERENTIAL_PRIVACY,
        unit=unit,
        neighbours=neighbours,
        epsilon=found.least,
        delta=delta,
        covers="the released winners of these very votes, the questions fixed ahead" if is_counted else everything,
        assumes=assumes,
        data_dependent=is_counted,
        profile=_profile_points(event, neighbours),
        renyi=_renyi_points(event, neighbours),
        basis=Basis(event=event, delta=delta),
    )


def _filtered_for_owner(
    charge: FilteredCharge, *, delta: float, mechanism: str, assumes: tuple[str, ...]
) -> Guarantee:
    """What a Rényi filter of every part proves for one owner, whose text stands in one part: replace one."""
    part = guarantee_of(charge, delta=delta, unit=Unit.PART, mechanism=mechanism, assumes=assumes)
    at_order = replace(
        part,
        epsilon=charge.epsilon,
        delta=0.0,
        order=None if charge.order == math.inf else charge.order,
        profile=(),
        renyi=(),
    )
    owner = owner_guarantee(at_order)
    reach, spent = owner_point(charge.order, charge.epsilon)
    if reach == math.inf:
        return owner
    epsilon = epsilon_from_renyi(reach, spent, delta=delta)
    return replace(owner, order=None, epsilon=epsilon, delta=delta, renyi=((reach, spent),))


def dp_sgd_guarantee(
    event: Event,
    *,
    delta: float,
    unit: Unit = Unit.RECORD,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    assumes: tuple[str, ...] = (),
) -> Guarantee:
    """What DP-SGD proves for its weights and every intermediate model.

    Guarantee: (ε, delta)-differential privacy of all intermediate and final weights for one unit.
    """
    return guarantee_of(
        event,
        delta=delta,
        unit=unit,
        neighbours=neighbours,
        mechanism="DP-SGD",
        assumes=(*_sampling(event), CLIPPED, NOISE, *assumes),
    )


def _sampling(event: Event) -> tuple[str, ...]:
    """What the event's steps rest on: each way to draw once."""
    found: list[str] = []
    for leaf, _ in leaves(event):
        if not isinstance(leaf, Round | SampledGroup):
            raise UnsupportedEvent(f"DP-SGD has no steps of this kind: {type(leaf).__name__}")
        found += leaf.assumes
    return tuple(dict.fromkeys(found))


def guarantee_of_group(guarantee: Guarantee, group: int) -> Guarantee | None:
    """What the same release proves for `group` units that come and go together, each drawn by itself.

    None where nothing tighter than black-box group privacy is known: one unit, another notion, an event that is not
    of Gaussian steps, or earlier releases beside it.

    Guarantee: (ε, δ) at the guarantee's δ, and its profile, hold for worlds that differ in `group` of its units.
    """
    basis = guarantee.basis
    if group == 1 or basis is None or basis.earlier or guarantee.notion is not Notion.DIFFERENTIAL_PRIVACY:
        return None
    event = group_event(basis.event, group)
    if event is None:
        return None
    profile = privacy_profile(event, guarantee.neighbours)
    return replace(
        guarantee,
        epsilon=profile.epsilon(basis.delta),
        delta=basis.delta,
        covers=_of_others(guarantee, f"for {group} {guarantee.unit.value}s together"),
        profile=profile.points(),
        renyi=(),
        basis=replace(basis, event=event),
    )


def _of_others(guarantee: Guarantee, whom: str) -> str:
    """What the guarantee covers, said of others than its one unit."""
    return f"{guarantee.covers.removesuffix(f', for one {guarantee.unit.value}')}, {whom}"


def guarantee_of_owner(guarantee: Guarantee, records: int) -> Guarantee | None:
    """What a release that protects one record proves for an owner of at most `records` of them, all at once.

    None where records are replaced, or where no price of the group is known (`guarantee_of_group`).

    Guarantee: (ε, δ)-differential privacy for adding or removing all records of one owner, each drawn by itself.
    """
    if guarantee.unit is not Unit.RECORD or guarantee.neighbours is not Neighbours.ADD_REMOVE:
        return None
    grouped = guarantee_of_group(guarantee, records)
    if grouped is None:
        return None
    return replace(
        grouped,
        unit=Unit.OWNER,
        covers=_of_others(guarantee, f"for all records of one owner, at most {records}"),
        assumes=(*guarantee.assumes, f"no owner has more than {records} records, and this number is public"),
    )


def _refuse_realised_filter(event: Event) -> None:
    """What a Rényi filter proves is its budget, priced as one charge; what was spent so far depends on the data."""
    charges = [count for leaf, count in leaves(event) if isinstance(leaf, FilteredCharge)]
    if sum(charges) > 1:
        raise UnsupportedEvent(
            "a sum of filtered charges is private and proves nothing by itself: "
            "price one FilteredCharge of the filter's whole budget"
        )


def _operational(
    event: Event, *, unit: Unit, neighbours: Neighbours, mechanism: str, assumes: tuple[str, ...]
) -> Guarantee:
    """The Rényi sum of realised charges at the greatest order at which all of them are known."""
    curve = RenyiCurve(event, neighbours)
    order = min(leaf.order for leaf, _ in leaves(event) if isinstance(leaf, RealisedCharge))
    epsilon = curve(order)
    if not math.isfinite(epsilon):
        raise UnsupportedEvent(f"the event's charges are not all known at order {order}")
    return Guarantee(
        mechanism=mechanism or _name(event),
        notion=Notion.OPERATIONAL_PRIVACY,
        unit=unit,
        neighbours=neighbours,
        epsilon=epsilon,
        order=order,
        covers="the released tokens up to the stopping time of the actual partition, for the actual data only",
        assumes=(*assumes, "the stopping time, the charges and the mixing weights stay private"),
        data_dependent=True,
        basis=Basis(event=event, delta=0.0),
    )


@lru_cache(maxsize=64)
def _profile_points(event: Event, neighbours: Neighbours) -> tuple[tuple[float, float], ...]:
    """Points of the privacy loss distribution, none where the event has none or no protection."""
    if not has_privacy_profile(event):
        return ()
    profile = privacy_profile(event, neighbours)
    return () if profile.is_unprotected else profile.points()


@lru_cache(maxsize=64)
def _renyi_points(event: Event, neighbours: Neighbours) -> tuple[tuple[float, float], ...]:
    """Finite points (order, ε) of the curve: a geometric grid and the orders at which a charge is known."""
    curve = RenyiCurve(event, neighbours)
    orders = sorted({*_RENYI_POINTS.tolist(), *known_orders(event), math.inf})
    points = ((order, curve(order)) for order in orders)
    return tuple((order, epsilon) for order, epsilon in points if math.isfinite(epsilon))


def _name(event: Event) -> str:
    """The kinds of releases inside an event."""
    return " + ".join(dict.fromkeys(type(leaf).__name__ for leaf, _ in leaves(event))) or "nothing released"
