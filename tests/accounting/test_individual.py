"""What is proved of single records: never below what a fixed level costs, and true of runs that adapt."""

import math

import numpy as np
import pytest

from reticent.accounting.guarantees import epsilons
from reticent.accounting.individual import IndividualPrice
from reticent.core.event import Repeated, SampledGaussian, SampledGroup
from reticent.core.guarantee import Neighbours

SHARES = (1.0, 0.5, 0.25, 0.125)
STEPS = 60
STEP = SampledGaussian(1.1, 0.2)


def exact(noise: float, *, delta: float = 1e-4, group: int = 1) -> float:
    """ε of a run whose contributions are all held to one level."""
    step = SampledGaussian(noise, 0.2) if group == 1 else SampledGroup(noise, 0.2, group)
    return epsilons(Repeated(step, STEPS), delta=delta, neighbours=Neighbours.ADD_REMOVE).least


@pytest.fixture(scope="module")
def price() -> IndividualPrice:
    return IndividualPrice(STEP, SHARES, STEPS, 1e-4, exact(1.1))


def at_one_level() -> np.ndarray:
    """A record for each level, at it in every step."""
    return STEPS * np.eye(len(SHARES), dtype=np.int64)


def test_a_record_at_one_level_gets_no_less_than_that_level_costs_and_not_much_more(price):
    found = price.epsilons(at_one_level())
    costs = [exact(1.1 / share) for share in SHARES]
    assert found[0] == price.epsilon
    assert all(cost <= bound <= 2.2 * cost for bound, cost in zip(found, costs, strict=True))
    assert (np.diff(found) < 0).all()


@pytest.mark.parametrize("copies", [2, 5])
def test_a_text_of_several_copies_gets_no_less_than_as_many_records_together(price, copies):
    found = price.epsilons(at_one_level(), copies=copies)
    costs = [exact(1.1 / share, group=copies) for share in SHARES]
    assert all(cost <= bound * (1 + 1e-9) for bound, cost in zip(found, costs, strict=True))
    assert found[0] == costs[0]  # any text with so many copies
    assert found[-1] < found[0] / 3


def test_fewer_steps_and_lower_levels_never_cost_more(price):
    mixed = np.array([[30, 30, 0, 0], [30, 0, 0, 30], [0, 30, 0, 30], [0, 0, 0, 30], [0, 0, 0, 0]])
    assert (np.diff(price.epsilons(mixed)) <= 0).all()


@pytest.mark.parametrize("counts", [[[1, 0, 0]], [[STEPS, 1, 0, 0]]])
def test_counts_of_other_levels_or_of_too_many_steps_are_refused(price, counts):
    with pytest.raises(ValueError, match="record"):
        price.epsilons(np.array(counts))


@pytest.mark.parametrize("changed", [{"delta": 0.0}, {"epsilon": math.inf}, {"shares": (2.0,)}])
def test_a_price_without_a_promise_to_start_from_is_refused(changed):
    values = {"step": STEP, "shares": SHARES, "steps": STEPS, "delta": 1e-4, "epsilon": 8.0} | changed
    with pytest.raises(ValueError, match=r"epsilon|clip norm"):
        IndividualPrice(**values)


def losses_and_bounds(*, holds_to_level: bool, worlds: int = 4000) -> tuple[np.ndarray, np.ndarray, float]:
    """log-likelihood ratios of whole runs, and what is proved of them, where levels follow from what was released.

    One number is released in each step. After every fifth step the record is measured: it is loud where the last
    releases were high, and quiet where they were low. Then it is as loud as it can be. `holds_to_level` False is
    the broken twin: what was measured is charged, and nobody is held to it.
    """
    rate, noise, delta = 0.3, 1.2, 0.05
    whole = epsilons(Repeated(SampledGaussian(noise, rate), 40), delta=delta, neighbours=Neighbours.ADD_REMOVE)
    price = IndividualPrice(SampledGaussian(noise, rate), SHARES, 40, delta, whole.least)
    draws = np.random.default_rng(11)
    level, recent = np.zeros(worlds, dtype=np.int64), np.zeros(worlds)
    counts, losses = np.zeros((worlds, len(SHARES)), dtype=np.int64), np.zeros(worlds)
    for step in range(40):
        if step % 5 == 0:
            level = np.where(recent > 5.0, 0, np.where(recent > 4.0, 2, 3))
            recent = np.zeros(worlds)
        counts[np.arange(worlds), level] += 1
        size = np.asarray(SHARES)[level] if holds_to_level else np.ones(worlds)
        released = size * (draws.random(worlds) < rate) + noise * draws.standard_normal(worlds)
        ratio = np.exp((size * released - size**2 / 2) / noise**2)
        losses += np.log1p(rate * (ratio - 1.0))
        recent += released
    return losses, price.epsilons(counts), delta


def test_where_levels_follow_from_what_was_released_the_bound_holds_in_all_but_delta_of_the_runs():
    losses, bounds, delta = losses_and_bounds(holds_to_level=True)
    assert len(set(bounds.tolist())) > 3  # the levels did adapt
    assert (losses > bounds).mean() <= delta


def test_the_twin_that_charges_a_level_and_does_not_hold_to_it_is_caught():
    losses, bounds, delta = losses_and_bounds(holds_to_level=False)
    assert (losses > bounds).mean() > 2 * delta
