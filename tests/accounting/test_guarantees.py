"""Guarantees made from events: least of the accountants, the evidence, the notion, and what must be said."""

import math

import pytest

from reticent.accounting.guarantees import dp_sgd_guarantee, epsilons, guarantee_of
from reticent.core.errors import UnsupportedEvent
from reticent.core.event import (
    Composed,
    FilteredCharge,
    Gaussian,
    Laplace,
    NoisyVote,
    NonPrivate,
    RandomAllocation,
    RealisedCharge,
    Repeated,
    SampledGaussian,
    SampledGroup,
)
from reticent.core.guarantee import Guarantee, Neighbours, Notion, Unit

EVENT = Repeated(SampledGaussian(1.0, 0.01), 1000)


def test_epsilon_is_the_least_of_the_accountants() -> None:
    found = epsilons(EVENT, delta=8e-5, neighbours=Neighbours.ADD_REMOVE)
    assert found.pld is not None
    assert found.least == found.pld < found.rdp
    assert dp_sgd_guarantee(EVENT, delta=8e-5).epsilon == found.least
    # where the FFT's round-off leaves nothing, the Rényi accountant still answers
    deep = epsilons(EVENT, delta=1e-30, neighbours=Neighbours.ADD_REMOVE)
    assert deep.pld == math.inf
    assert deep.least == deep.rdp < 20.0


def test_dp_sgd_states_what_it_rests_on_and_carries_its_evidence() -> None:
    found = dp_sgd_guarantee(EVENT, delta=1e-6, assumes=("the tokeniser is public",))
    text = " ".join(found.assumes)
    assert "Poisson" in text
    assert "clipped" in text
    assert "the tokeniser is public" in found.assumes
    assert found.notion is Notion.DIFFERENTIAL_PRIVACY
    assert not found.data_dependent
    assert len(found.profile) >= 24
    assert len(found.renyi) >= 24
    assert found.profile[0][0] == 0.0
    assert Guarantee.from_json(found.to_json()) == found


def test_dp_sgd_names_no_way_of_drawing_that_its_event_does_not_have() -> None:
    together = dp_sgd_guarantee(Repeated(Gaussian(9.0), 3), delta=1e-6)
    assert not any("Poisson" in each or "drawn" in each for each in together.assumes)
    both = dp_sgd_guarantee(Composed((EVENT, RandomAllocation(2.0, 10))), delta=1e-6)
    assert sum("Poisson" in each for each in both.assumes) == 1
    assert sum("random allocation" in each for each in both.assumes) == 1
    of_group = dp_sgd_guarantee(SampledGroup(2.0, 0.1, 3), delta=1e-6)
    assert of_group.assumes == dp_sgd_guarantee(EVENT, delta=1e-6).assumes
    for unknown in (Laplace(1.0), Composed((EVENT, NoisyVote(9.0))), NonPrivate()):
        with pytest.raises(UnsupportedEvent, match="DP-SGD"):
            dp_sgd_guarantee(unknown, delta=1e-6)


def test_replacing_gives_a_greater_epsilon() -> None:
    assert dp_sgd_guarantee(EVENT, delta=8e-5, neighbours=Neighbours.REPLACE).epsilon == pytest.approx(
        2.474, abs=1e-3
    )


def test_a_realised_charge_is_operational_at_its_order_and_private() -> None:
    event = Composed((Repeated(RealisedCharge(2.0, 0.01), 50), RealisedCharge(2.0, 0.5)))
    found = guarantee_of(event, delta=1e-5, unit=Unit.PART)
    assert found.notion is Notion.OPERATIONAL_PRIVACY
    assert found.data_dependent
    assert (found.order, found.delta) == (2.0, 0.0)
    assert found.epsilon == pytest.approx(1.0)
    assert found.profile == ()
    assert "actual data" in found.covers


def test_a_realised_charge_beside_an_event_unknown_at_its_order_is_refused() -> None:
    with pytest.raises(UnsupportedEvent):
        guarantee_of(Composed((RealisedCharge(4.0, 0.1), FilteredCharge(2.0, 0.1))), delta=1e-5, unit=Unit.PART)


def test_a_filter_s_realised_sum_is_refused() -> None:
    with pytest.raises(UnsupportedEvent, match="whole budget"):
        guarantee_of(Repeated(FilteredCharge(2.0, 0.02), 100), delta=1e-5, unit=Unit.PART)


def test_a_filtered_charge_is_ordinary_privacy() -> None:
    found = guarantee_of(FilteredCharge(2.0, 2.0), delta=1e-5, unit=Unit.PART)
    assert found.notion is Notion.DIFFERENTIAL_PRIVACY
    assert found.epsilon == pytest.approx(12.13, abs=0.01)  # (2, 2)-RDP by the improved conversion
    assert (2.0, 2.0) in [(order, pytest.approx(epsilon)) for order, epsilon in found.renyi]


def test_counted_votes_make_the_number_private() -> None:
    assert guarantee_of(NoisyVote(10.0, (90, 5, 5)), delta=1e-5, unit=Unit.PART).data_dependent
    assert not guarantee_of(NoisyVote(10.0), delta=1e-5, unit=Unit.PART).data_dependent


def test_pure_events_keep_their_infinite_order_and_no_protection_is_infinite() -> None:
    assert (math.inf, 0.5) in guarantee_of(Laplace(2.0), delta=1e-9, unit=Unit.RECORD).renyi
    unprotected = guarantee_of(Composed((Gaussian(1.0), NonPrivate())), delta=1e-5, unit=Unit.RECORD)
    assert unprotected.epsilon == math.inf
    assert unprotected.renyi == ()
    assert unprotected.mechanism == "Gaussian + NonPrivate"


def test_a_guarantee_made_with_half_the_noise_is_not_the_same() -> None:
    # the broken twin: pricing the multiplier as if one record moved the sum by 1/2
    honest = dp_sgd_guarantee(EVENT, delta=1e-6).epsilon
    assert dp_sgd_guarantee(Repeated(SampledGaussian(2.0, 0.01), 1000), delta=1e-6).epsilon < 0.5 * honest
