"""SubMix and SubMix-F: by hand for three tokens, against slow oracles, and at the edges of the budget."""

import math

import numpy as np
import pytest

from reticent.core.divergence import log_normalise
from reticent.core.errors import ConfigError
from reticent.core.event import FilteredCharge, RealisedCharge
from reticent.core.randomness import Randomness
from reticent.prediction.mechanisms.mechanism import Layout, Moment
from reticent.prediction.mechanisms.shaping import Shaping
from reticent.prediction.mechanisms.submix import SubMix, SubMixF
from tests.accounting.mixing.oracles import (
    fixed_mixture,
    slow_filtered_charges,
    slow_submix_charges,
    submix_mixture,
)
from tests.prediction.mechanisms.test_mixing_weight import bisect, filtered_charge, half_divergence
from tests.prediction.tables import random_pmfs

SEED = Randomness.seeded(0)
PUBLIC = [1 / 2, 1 / 4, 1 / 4]
# Part 1: halves that disagree around the public model. Part 2: halves that agree.
BY_HAND = np.log(
    [PUBLIC, [3 / 4, 1 / 8, 1 / 8], [1 / 4, 3 / 8, 3 / 8], [1 / 8, 3 / 4, 1 / 8], [1 / 8, 3 / 4, 1 / 8]]
)


def moment(remaining, left=1, **more):
    return Moment(remaining=np.asarray(remaining, dtype=float), left=left, **more)


def test_submix_by_hand_for_three_tokens():
    # β = log(19/15) gives λ = (½, 1), λ* = ¾; part 1's mean is the public model, part 2's (1/8, 6/8, 1/8).
    # Mixture (23, 28, 13)/64. Without part 2: the public model, Σ(M−r)²/r = 774/4096, the greater direction.
    # Without part 1: (8, 48, 8)/64, Σ(M−M')²/M' = (225/8 + 400/48 + 25/8)/64.
    release = SubMix(Layout.halves(2), math.log(19 / 15)).release(BY_HAND, moment([9, 9]), randomness=SEED)
    assert release.pmf == pytest.approx(np.array([23, 28, 13]) / 64, rel=1e-12)
    first, second = math.log1p((225 / 8 + 400 / 48 + 25 / 8) / 64), math.log1p(774 / 4096)
    assert release.costs == pytest.approx([first, second], rel=1e-12)
    assert release.event == RealisedCharge(2.0, release.costs.max())
    assert not release.stops


def test_submix_with_a_weight_a_part_by_hand():
    # (½ r + ½ r)/2 + (1/8, 6/8, 1/8)/2 = (5, 8, 3)/16.
    mechanism = SubMix(Layout.halves(2), math.log(19 / 15), common=False)
    release = mechanism.release(BY_HAND, moment([9, 9]), randomness=SEED)
    assert release.pmf == pytest.approx(np.array([5, 8, 3]) / 16, rel=1e-12)


def test_submix_f_by_hand_for_three_tokens():
    # k = 2, λmax = ½, w = ¾: a cap of log(85/84) gives λ = 3/8; the other part is the public model, free of charge.
    rows = np.log([PUBLIC, [3 / 4, 1 / 8, 1 / 8], PUBLIC])
    budget = math.log(85 / 84)  # left 1: the whole remainder may be spent
    release = SubMixF(Layout.single(2)).release(rows, moment([budget, budget]), randomness=SEED)
    pull = np.array([1 / 4, -1 / 8, -1 / 8])
    assert release.pmf == pytest.approx(np.array(PUBLIC) + 3 / 16 * pull, rel=1e-8)
    assert release.costs == pytest.approx([budget, 0.0], rel=1e-8)
    assert release.costs[0] <= budget
    assert release.event == FilteredCharge(2.0, release.costs.max())


@pytest.mark.parametrize("parts", [None, 8])
@pytest.mark.parametrize("order", [2.0, 4.0, 2.5])
def test_submix_f_equals_its_slow_oracle(order, parts):
    rng = np.random.default_rng(3)
    for _ in range(5):
        k, left = parts or int(rng.integers(1, 5)), int(rng.integers(1, 9))
        rows = random_pmfs(rng, 1 + k, 6, scale=1.5)
        remaining = rng.uniform(0.01, 1.0, size=k)
        setting = {"parts": k, "weight_limit": 0.6}
        release = SubMixF(Layout.single(k), order, 0.6).release(rows, moment(remaining, left), randomness=SEED)
        caps = np.minimum(remaining, 3.0 * remaining / left)
        weights = [
            bisect(filtered_charge(row, rows[0], order, setting), cap, 0.6)
            for row, cap in zip(rows[1:], caps, strict=True)
        ]
        charges = slow_filtered_charges(rows[1:], rows[0], np.array(weights), order=order, **setting)
        assert release.costs == pytest.approx(charges, rel=1e-6)
        assert release.log_pmf == pytest.approx(fixed_mixture(rows[1:], rows[0], weights), abs=1e-7)
        assert (release.costs <= remaining).all()


@pytest.mark.parametrize("common", [True, False])
@pytest.mark.parametrize("order", [2.0, 5.0, math.inf])
def test_submix_equals_its_slow_oracle(order, common):
    rng = np.random.default_rng(4)
    for _ in range(4):
        rows = random_pmfs(rng, 7, 5, scale=1.5)
        mechanism = SubMix(Layout.halves(3), 0.05, order, common)
        release = mechanism.release(rows, moment([50.0] * 3), randomness=SEED)
        halves = rows[1:].reshape(3, 2, 5)
        weights = [bisect(half_divergence(p, q, rows[0], order), 0.05, 1.0) for p, q in halves]
        means = np.logaddexp(halves[:, 0], halves[:, 1]) - math.log(2)
        expected = submix_mixture(means, rows[0], weights, common=common)
        assert release.log_pmf == pytest.approx(expected, abs=1e-8)
        charges = slow_submix_charges(means, rows[0], weights, order=order, common=common)
        assert release.costs == pytest.approx(charges, rel=1e-6)


def test_a_charge_that_would_reach_the_budget_stops_and_is_not_spent():
    mechanism = SubMix(Layout.halves(2), math.log(19 / 15))
    enough = mechanism.release(BY_HAND, moment([9, 9]), randomness=SEED).costs
    for remaining in (enough, enough * [1, 0.99], [0.0, 9.0]):  # strictly below, as printed
        release = mechanism.release(BY_HAND, moment(remaining), randomness=SEED)
        assert release.stops
        assert not release.costs.any()
        assert release.pmf == pytest.approx(PUBLIC)
    assert not mechanism.release(BY_HAND, moment(enough * 1.001), randomness=SEED).stops
    later = mechanism.release(BY_HAND, moment([9, 9], stopped=True), randomness=SEED)
    assert later.pmf == pytest.approx(PUBLIC)  # for good


def test_a_spent_part_is_silent_and_the_others_go_on():
    rows = random_pmfs(np.random.default_rng(5), 4, 5)
    mechanism = SubMixF(Layout.single(3))
    spent = mechanism.release(rows, moment([0.0, 0.5, 0.5], 10), randomness=SEED)
    absent = rows.copy()
    absent[1] = rows[0]  # the part's data removed: it answers as the public model
    without = mechanism.release(absent, moment([0.5, 0.5, 0.5], 10), randomness=SEED)
    assert spent.costs[0] == 0.0
    assert (spent.costs[1:] > 0).all()
    assert spent.pmf == pytest.approx(without.pmf, rel=1e-12)
    silent = mechanism.release(rows, moment([0.0] * 3, 10), randomness=SEED)
    assert silent.log_pmf == pytest.approx(rows[0], abs=1e-12)


def test_halves_are_averaged_where_one_model_a_part_is_needed():
    rows = random_pmfs(np.random.default_rng(6), 5, 5)
    halves = SubMixF(Layout.halves(2)).release(rows, moment([0.5, 0.5], 4), randomness=SEED)
    means = np.vstack([rows[:1], np.log(np.exp(rows[1:]).reshape(2, 2, 5).mean(axis=1))])
    single = SubMixF(Layout.single(2)).release(means, moment([0.5, 0.5], 4), randomness=SEED)
    assert halves.pmf == pytest.approx(single.pmf, rel=1e-9)


def test_submix_without_halves_is_refused():
    with pytest.raises(ConfigError, match="halves"):
        SubMix(Layout.single(3), 0.1)


@pytest.mark.parametrize("shaping", [Shaping(0.7), Shaping(1.3, top_k=3), Shaping(1.0, top_p=0.8)])
def test_shaped_rows_are_what_is_charged(shaping):
    rows = random_pmfs(np.random.default_rng(7), 4, 8, scale=2.0)
    kept = shaping.shape(rows).spread(shaping.shape(rows).public) > 0
    tempered = log_normalise(np.where(kept, rows / shaping.temperature, -np.inf)[:, kept])
    release = SubMixF(Layout.single(3), shaping=shaping).release(rows, moment([0.5] * 3, 4), randomness=SEED)
    plain = SubMixF(Layout.single(3)).release(tempered, moment([0.5] * 3, 4), randomness=SEED)
    assert release.costs == pytest.approx(plain.costs, rel=1e-9)
    assert release.pmf[kept] == pytest.approx(plain.pmf, rel=1e-9)
    assert not release.pmf[~kept].any()


def test_greedy_decoding_is_refused_and_the_support_is_the_public_models():
    with pytest.raises(ConfigError, match="greedy"):
        Shaping(0.0)
    rows = np.log([[0.6, 0.3, 0.1], [0.01, 0.01, 0.98]])
    shaped = Shaping(top_k=2).shape(rows)
    assert shaped.support.tolist() == [0, 1]  # although the part would choose the third
    assert shaped.spread(shaped.private[0]) == pytest.approx([0.5, 0.5, 0.0])
    nearly_one = rows + np.log([[1 + 1e-7], [1 - 1e-7]])  # float32 accuracy
    assert Shaping().shape(nearly_one).private.sum(axis=1) == pytest.approx(1.0, abs=1e-15)


def test_what_a_release_holds_stays_out_of_its_repr():
    release = SubMixF(Layout.single(1)).release(BY_HAND[:2], moment([1.0]), randomness=SEED)
    assert repr(release) == "Release()"
    assert "1.0" not in repr(moment([1.0]))


def test_what_a_part_is_charged_does_not_depend_on_the_others():
    # What a filter of its own needs. Algorithm 2 fails it, which is why its charges are no filter's.
    rng = np.random.default_rng(8)
    rows, others = random_pmfs(rng, 7, 5), random_pmfs(rng, 7, 5)
    others[:3] = rows[:3]  # the public model and both halves of part 0
    remaining = moment([0.5, 0.4, 0.3], 6)
    changed = moment([0.5, 0.0, 9.0], 6)
    costs = {}
    for name, mechanism in (("filter", SubMixF(Layout.halves(3))), ("stop", SubMix(Layout.halves(3), 0.05))):
        costs[name] = [
            mechanism.release(rows, remaining, randomness=SEED).costs[0],
            mechanism.release(others, changed, randomness=SEED).costs[0],
        ]
    assert costs["filter"][0] == costs["filter"][1] > 0
    assert costs["stop"][0] != costs["stop"][1]
