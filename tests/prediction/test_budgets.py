"""Budgets keep what was asked for: ε at δ, by part and by owner, priced by the accountants themselves."""

import dataclasses
import math

import numpy as np
import pytest

from reticent.accounting.bounds.parts import owner_point
from reticent.accounting.conversion import epsilon_from_renyi
from reticent.accounting.prices.noisy_vote import noisy_vote_epsilon
from reticent.core.divergence import symmetric_renyi_divergence
from reticent.core.errors import ConfigError
from reticent.core.guarantee import Neighbours, Notion, Unit
from reticent.core.randomness import Randomness
from reticent.prediction.budgets import (
    SERVED,
    MechanismName,
    MechanismOptions,
    PredictionTarget,
    best_order,
    renyi_limit,
    set_up_mechanism,
)
from reticent.prediction.mechanisms.mechanism import Layout, Moment
from reticent.prediction.mechanisms.unprotected import NGramIndex
from reticent.runs.ensemble.prediction import PredictionSettings

LAYOUT = Layout.halves(4)
PROVED = (MechanismName.SUBMIX_F, MechanismName.PMIXED, MechanismName.CLIPPED_DIFFERENCES, MechanismName.GNMAX)
NEIGHBOURS = {Unit.PART: Neighbours.ADD_REMOVE, Unit.OWNER: Neighbours.REPLACE}


def target(unit=Unit.PART, **more):
    return PredictionTarget(**{"epsilon": 8.0, "delta": 1e-5, "queries": 64, "unit": unit, **more})


@pytest.mark.parametrize("unit", [Unit.PART, Unit.OWNER])
@pytest.mark.parametrize("kind", PROVED)
def test_a_budget_spends_what_was_asked_for_and_no_more(kind, unit):
    setup = set_up_mechanism(kind, target(unit), LAYOUT)
    promise = setup.budget.guarantee
    assert promise.unit is unit
    assert promise.neighbours is (Neighbours.REPLACE if kind is MechanismName.GNMAX else NEIGHBOURS[unit])
    assert promise.notion is Notion.DIFFERENTIAL_PRIVACY
    assert promise.delta == 1e-5
    assert 0.99 * 8.0 < promise.epsilon <= 8.0
    assert not promise.data_dependent
    assert setup.budget.measure == setup.mechanism.measure


RESTS_ON = (
    "the public model and its tokenizer were made without the private text",
    "hyper-parameters of the parts and of the mechanism were not chosen by looking at the private text",
    "tokens alone are released",
    "each charge is committed before its token is drawn",
    "a generator that the adversary cannot predict",
)


@pytest.mark.parametrize("unit", [Unit.PART, Unit.OWNER])
@pytest.mark.parametrize("kind", [*PROVED, MechanismName.AGGREGATE, MechanismName.SUBMIX])
def test_every_promise_of_answers_lists_what_it_rests_on(kind, unit):
    promise = set_up_mechanism(kind, target(unit, queries=8), LAYOUT).budget.guarantee
    listed = "; ".join(promise.assumes)
    assert [line for line in RESTS_ON if line not in listed] == []
    by_owner = "each owner's text stands in one part"
    assert (by_owner in listed) == (promise.unit is Unit.OWNER)
    own = "mixing weight and charge follow from its own rows, the public model's and the transcript"
    assert (own in listed) == (kind is MechanismName.SUBMIX_F)
    assert ("the limit of the mixing weights are public" in listed) == (kind is MechanismName.SUBMIX_F)
    assert ("when the parts stopped answering" in listed) == (kind is MechanismName.SUBMIX)


def test_noise_on_a_mean_is_calibrated_with_its_whole_sensitivity():
    setup = set_up_mechanism(MechanismName.AGGREGATE, target(queries=8), LAYOUT)
    assert 0.8 * 8.0 < setup.budget.guarantee.epsilon <= 8.0


@pytest.mark.parametrize("unit", [Unit.PART, Unit.OWNER])
@pytest.mark.parametrize("order", [3.0, 7.0, 64.0])
def test_the_limit_at_an_order_converts_back_to_epsilon(order, unit):
    asked = target(unit, epsilon=30.0)
    limit = renyi_limit(asked, order)
    reach, spent = (order, limit) if unit is Unit.PART else owner_point(order, limit)
    assert epsilon_from_renyi(reach, spent, delta=1e-5) == pytest.approx(30.0, rel=1e-9)
    assert epsilon_from_renyi(reach, spent, delta=1e-5) <= 30.0
    # Twin: the part's limit for an owner.
    twin = owner_point(order, renyi_limit(target(epsilon=30.0), order))
    assert epsilon_from_renyi(*twin, delta=1e-5) > 30.0


def test_golden_conversions():
    # spec 2: a = 2, ε = 2 is 12.1-DP at δ = 1e-5, so (12.1, 1e-5) allows about 2 nats at order 2.
    assert renyi_limit(target(epsilon=12.127), 2.0) == pytest.approx(2.0, abs=2e-3)
    assert best_order(target()) == 3.0  # d/a² = 3.198/9 is the greatest
    assert best_order(target(), growth=1.0) == 4.0  # d/a = 4.912/4 is the greatest
    assert renyi_limit(target(), 4.0) == pytest.approx(8 - math.log(0.75) + math.log(4e-5) / 3, rel=1e-9)


def test_pure_differential_privacy_is_order_infinity():
    setup = set_up_mechanism(MechanismName.SUBMIX_F, target(delta=0.0), LAYOUT)
    assert setup.mechanism.order == math.inf
    assert setup.budget.limit == pytest.approx(8.0)
    assert setup.budget.guarantee.epsilon <= 8.0
    assert setup.budget.guarantee.delta == 0.0
    owner = set_up_mechanism(MechanismName.SUBMIX_F, target(Unit.OWNER, delta=0.0), LAYOUT)
    assert owner.budget.limit == pytest.approx(4.0)
    assert owner.budget.guarantee.epsilon <= 8.0


def test_a_small_epsilon_takes_a_great_order_or_infinity():
    assert best_order(target(epsilon=0.1)) == 96.0
    assert best_order(target(epsilon=0.1), growth=1.0) > 100
    assert renyi_limit(target(epsilon=0.1), best_order(target(epsilon=0.1))) > 0
    assert best_order(target(epsilon=0.001)) == math.inf


def test_an_order_that_proves_nothing_is_refused_with_a_better_one():
    with pytest.raises(ConfigError, match="order 2") as caught:
        set_up_mechanism(MechanismName.SUBMIX_F, target(), LAYOUT, options=MechanismOptions(order=2.0))
    assert "order 3" in caught.value.hint


@pytest.mark.parametrize("kind", [MechanismName.NON_PRIVATE, MechanismName.MEMFREE])
def test_what_has_no_guarantee_says_so(kind):
    options = MechanismOptions(index=NGramIndex([[1, 2, 3]], 2))
    promise = set_up_mechanism(kind, target(), LAYOUT, options=options).budget.guarantee
    assert promise.epsilon == math.inf
    assert promise.delta == 1.0
    assert "no guarantee" in promise.covers


def test_free_answers_have_no_budget_and_memfree_needs_its_index():
    setup = set_up_mechanism(MechanismName.PUBLIC, target(), LAYOUT)
    assert setup.budget is None
    assert setup.mechanism.measure is None
    with pytest.raises(ConfigError, match="n-grams"):
        set_up_mechanism(MechanismName.MEMFREE, target(), LAYOUT)
    with pytest.raises(ConfigError, match="not part of an ensemble"):
        set_up_mechanism(MechanismName.DP_SGD, target(), LAYOUT)


def test_a_target_is_checked():
    for wrong in ({"epsilon": 0.0}, {"delta": 1.0}, {"queries": 0}, {"unit": Unit.RECORD}):
        with pytest.raises(ConfigError):
            dataclasses.replace(target(), **wrong)
    with pytest.raises(ConfigError):
        Layout((0, 2))
    assert Layout((0, 0, 1, 1)).has_halves
    assert not Layout.single(2).has_halves
    assert Layout((0, 1, 0, 1)).part_pmfs(np.arange(8.0).reshape(4, 2)).tolist() == [[2, 3], [4, 5]]


@pytest.mark.parametrize("order", [2.0, 4.0, 16.0])
def test_gnmax_pays_for_a_part_that_goes_over_to_the_public_models_vote(order):
    """The vote of a removed part moves: two counts change. As one count less, D_2 was 0.078 against 0.061."""
    layout = Layout.single(8)
    mechanism = set_up_mechanism(
        MechanismName.GNMAX, PredictionTarget(epsilon=1.0, delta=1e-5, queries=1), layout
    ).mechanism
    one, other = np.log([0.6, 0.4]), np.log([0.4, 0.6])
    rows = np.vstack([one, *[one] * 3, *[other] * 5])
    without = rows.copy()
    without[-1] = one
    moment = Moment(remaining=np.ones(8))
    pmfs = [mechanism.release(each, moment, randomness=Randomness.seeded(0)).pmf for each in (rows, without)]
    found = float(symmetric_renyi_divergence(np.log(pmfs[0]), np.log(pmfs[1]), order))
    assert found <= noisy_vote_epsilon(mechanism.event, order, Neighbours.REPLACE)
    assert order > 4.0 or found > noisy_vote_epsilon(mechanism.event, order, Neighbours.ADD_REMOVE)


@pytest.mark.parametrize("unit", [Unit.PART, Unit.OWNER])
def test_gnmax_at_its_actual_votes_promises_the_actual_data_and_is_not_served(unit):
    asked, layout = target(unit, queries=1000), Layout.single(50)
    worst = set_up_mechanism(MechanismName.GNMAX, asked, layout)
    counted = set_up_mechanism(MechanismName.GNMAX_COUNTED, asked, layout)
    assert counted.mechanism.counted
    assert counted.mechanism.noise < 0.5 * worst.mechanism.noise
    promise = counted.budget.guarantee
    assert (promise.notion, promise.data_dependent) == (Notion.OPERATIONAL_PRIVACY, True)
    assert (promise.unit, promise.order) == (Unit.PART, counted.mechanism.order)
    assert counted.mechanism.neighbours is Neighbours.REPLACE  # a part that leaves votes as the public model does
    assert promise.epsilon == counted.budget.limit == renyi_limit(target(queries=1000), promise.order)
    assert any("fixed ahead" in each for each in promise.assumes)
    with pytest.raises(ConfigError, match="questions that are fixed ahead"):
        PredictionSettings(mechanism=MechanismName.GNMAX_COUNTED, epsilon=8.0, delta=1e-5)
    assert MechanismName.GNMAX_COUNTED not in SERVED
