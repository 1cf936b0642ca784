"""Every rival against a slow oracle, and its sensitivity against every neighbour."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace, norm

from reticent.accounting.prices.noisy_vote import noisy_vote_epsilon
from reticent.accounting.prices.subsampled_mixture import subsampled_mixture_epsilon
from reticent.core.divergence import log_normalise, symmetric_renyi_divergence
from reticent.core.event import NoisyVote, NonPrivate
from reticent.core.guarantee import Neighbours
from reticent.core.randomness import Randomness
from reticent.prediction.mechanisms.aggregation import GNMax, SubsampleAndAggregate
from reticent.prediction.mechanisms.clipped_differences import ClippedDifferences
from reticent.prediction.mechanisms.mechanism import Layout, Moment
from reticent.prediction.mechanisms.pmixed import PMixED
from reticent.prediction.mechanisms.shaping import Shaping
from reticent.prediction.mechanisms.unprotected import (
    MemFree,
    NGramIndex,
    NonPrivateEnsemble,
    PublicModel,
)
from tests.prediction.mechanisms.test_mixing_weight import bisect, half_divergence
from tests.prediction.tables import random_pmfs

SEED = Randomness.seeded(0)
RICH = Moment(remaining=np.full(3, 100.0), left=10)
SPENT = Moment(remaining=np.zeros(3), left=10)
LAYOUT = Layout.single(3)


def look_ups(seed, count=6, rows=4, vocabulary=5, scale=1.5):
    rng = np.random.default_rng(seed)
    return [random_pmfs(rng, rows, vocabulary, scale) for _ in range(count)]


def with_part_public(rows, part):
    changed = rows.copy()
    changed[1 + part] = rows[0]
    return changed


# ---------------------------------------------------------------- PMixED


@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_pmixed_equals_the_average_over_every_draw_of_models(rate):
    for rows in look_ups(1):
        release = PMixED(LAYOUT, 0.02, 3.0, rate).release(rows, RICH, randomness=SEED)
        public = np.exp(rows[0])
        mixed = []
        for row in rows[1:]:
            weight = bisect(half_divergence(row, rows[0], rows[0], 3.0), 0.06, 1.0)
            mixed.append(weight * np.exp(row) + (1 - weight) * public)
        expected = np.zeros_like(public)
        for drawn in itertools.product([False, True], repeat=3):
            chance = math.prod(rate if d else 1 - rate for d in drawn)
            chosen = [m for m, d in zip(mixed, drawn, strict=True) if d]
            expected += chance * (np.mean(chosen, axis=0) if chosen else public)
        assert release.pmf == pytest.approx(expected, rel=1e-8)
        assert release.costs.tolist() == [1.0] * 3


def test_pmixed_never_costs_more_than_its_price_when_a_part_becomes_public():
    for rows in look_ups(2, scale=3.0):
        mechanism = PMixED(LAYOUT, 0.05, 2.0, 0.5)
        price = subsampled_mixture_epsilon(mechanism.event, 2.0, Neighbours.ADD_REMOVE)
        full = mechanism.release(rows, RICH, randomness=SEED).log_pmf
        for part in range(3):
            other = mechanism.release(with_part_public(rows, part), RICH, randomness=SEED).log_pmf
            assert float(symmetric_renyi_divergence(full, other, 2.0)) <= price


# ---------------------------------------------------------------- clipped differences


def clipped_oracle(rows, clip, temperature, kept):
    logits = []
    for y in range(rows.shape[1]):
        differences = [min(clip, max(-clip, rows[i, y] - rows[0, y])) for i in range(1, len(rows))]
        logits.append((rows[0, y] + sum(differences) / len(differences)) / temperature if kept[y] else -np.inf)
    return np.exp(log_normalise(np.array(logits)))


@pytest.mark.parametrize("shaping", [Shaping(), Shaping(0.7), Shaping(1.2, top_k=3)])
def test_clipped_differences_equal_the_formula_token_by_token(shaping):
    for rows in look_ups(3):
        kept = np.ones(5, bool)
        if shaping.top_k:
            kept = rows[0] >= np.sort(rows[0])[-shaping.top_k]
        release = ClippedDifferences(LAYOUT, 0.4, shaping).release(rows, RICH, randomness=SEED)
        assert release.pmf == pytest.approx(clipped_oracle(rows, 0.4, shaping.temperature, kept), rel=1e-10)


def test_clipped_differences_stay_within_their_range_and_half_of_it_is_caught():
    widest = 0.0
    for rows in look_ups(4, count=20, scale=4.0):
        mechanism = ClippedDifferences(LAYOUT, 0.5, Shaping(0.8))
        full = mechanism.release(rows, RICH, randomness=SEED).log_pmf
        for part in range(3):
            ratio = full - mechanism.release(with_part_public(rows, part), RICH, randomness=SEED).log_pmf
            widest = max(widest, float(ratio.max() - ratio.min()))
    assert widest <= mechanism.event.epsilon * (1 + 1e-9)
    assert widest > 0.9 * mechanism.event.epsilon  # a price of half the range would be passed


# ---------------------------------------------------------------- aggregation


class Stub(Randomness):
    """A source whose next uniforms are given."""

    def __init__(self, values):
        super().__init__("seeded", 0)
        self.values = np.asarray(values)

    def uniform(self, shape):
        return self.values.reshape(shape)


def test_subsample_and_aggregate_equals_laplace_noise_on_the_mean_by_inverse_distribution():
    for number, rows in enumerate(look_ups(5)):
        uniforms = np.random.default_rng(number).uniform(size=5)
        mechanism = SubsampleAndAggregate(LAYOUT, 0.2, 0.1)
        release = mechanism.release(rows, RICH, randomness=Stub(uniforms))
        noisy = np.maximum(np.exp(rows[1:]).mean(axis=0) + laplace.ppf(uniforms, scale=0.2), 0.0)
        projected = noisy / noisy.sum() if noisy.sum() > 0 else np.exp(rows[0])
        assert release.pmf == pytest.approx(0.1 * np.exp(rows[0]) + 0.9 * projected, rel=1e-9)


def test_the_price_of_an_aggregate_knows_that_the_mean_moves_by_two_over_k():
    # Pure price at order ∞: L1 distance over the scale.
    mechanism = SubsampleAndAggregate(LAYOUT, 0.2)
    here, there = np.array([[1.0, 0.0]] * 3), np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    moved = np.abs(here.mean(axis=0) - there.mean(axis=0)).sum()
    assert 1.0 / mechanism.event.scale == pytest.approx(moved / 0.2)  # add or remove
    assert 2.0 / mechanism.replace_event.scale == pytest.approx(moved / 0.2)  # its accountant doubles the distance


def winner_chance(counts, noise, token):
    """P[token wins] by numerical integration."""

    def density(t):
        others = [norm.cdf((t - n) / noise) for i, n in enumerate(counts) if i != token]
        return norm.pdf((t - counts[token]) / noise) / noise * math.prod(others)

    return quad(density, min(counts) - 12 * noise, max(counts) + 12 * noise, limit=200)[0]


def test_gnmax_equals_the_integral_over_the_noise():
    for rows in look_ups(6, count=2, vocabulary=3):
        mechanism = GNMax(LAYOUT, 1.3)
        counts = np.bincount(rows[1:].argmax(axis=1), minlength=3)
        release = mechanism.release(rows, RICH, randomness=SEED)
        assert release.pmf == pytest.approx([winner_chance(counts, 1.3, y) for y in range(3)], abs=1e-9)
        assert release.costs.tolist() == [1.0] * 3


def test_gnmax_by_its_votes_charges_the_data_dependent_price_and_stops():
    rows = np.log([[0.4, 0.3, 0.3], *[[0.8, 0.1, 0.1]] * 3])
    mechanism = GNMax(LAYOUT, 0.25, counted=True, order=1.5)
    price = noisy_vote_epsilon(NoisyVote(0.25, (3, 0, 0)), 1.5, Neighbours.ADD_REMOVE)
    release = mechanism.release(rows, RICH, randomness=SEED)
    assert release.costs == pytest.approx([price] * 3)
    assert price < noisy_vote_epsilon(NoisyVote(0.25), 1.5, Neighbours.ADD_REMOVE)
    poor = mechanism.release(rows, Moment(remaining=np.full(3, price / 2)), randomness=SEED)
    assert poor.stops
    assert poor.log_pmf == pytest.approx(rows[0])


# ---------------------------------------------------------------- without a mechanism


def test_public_model_and_ensemble_are_their_rows():
    for rows in look_ups(7):
        pmfs = np.exp(rows)
        for mechanism, expected in (
            (PublicModel(LAYOUT), pmfs[0]),
            (NonPrivateEnsemble(LAYOUT), pmfs[1:].mean(axis=0)),
        ):
            assert mechanism.release(rows, RICH, randomness=SEED).pmf == pytest.approx(expected, rel=1e-12)
    assert NonPrivateEnsemble(LAYOUT).release(rows, RICH, randomness=SEED).event == NonPrivate()


def test_memfree_never_completes_an_n_gram_of_the_corpus_and_promises_nothing():
    index = NGramIndex([[0, 1, 2, 1, 2, 3]], 3)
    mechanism = MemFree(LAYOUT, index)
    rows = look_ups(8)[0]
    release = mechanism.release(rows, Moment(remaining=np.ones(3), context=(4, 1, 2)), randomness=SEED)
    mean = np.exp(rows[1:]).mean(axis=0)
    mean[[1, 3]] = 0.0  # 1 2 → 1 and 1 2 → 3 stand in the corpus
    assert release.pmf == pytest.approx(mean / mean.sum())
    assert release.event == NonPrivate()
    free = mechanism.release(rows, Moment(remaining=np.ones(3), context=(2,)), randomness=SEED)
    assert free.pmf == pytest.approx(np.exp(rows[1:]).mean(axis=0))
    assert "1" not in repr(index).replace("n=3", "").replace(" prefixes", "").split(",")[0]
    everything = MemFree(LAYOUT, NGramIndex([[0, y] for y in range(5)], 2))
    stuck = everything.release(rows, Moment(remaining=np.ones(3), context=(0,)), randomness=SEED)
    assert stuck.log_pmf == pytest.approx(rows[0])  # nothing left: the public model


@pytest.mark.parametrize(
    "mechanism",
    [PMixED(LAYOUT, 0.1), ClippedDifferences(LAYOUT, 1.0), SubsampleAndAggregate(LAYOUT, 0.1), GNMax(LAYOUT, 1.0)],
    ids=lambda m: m.name,
)
def test_a_spent_rival_answers_as_the_public_model_and_charges_nothing(mechanism):
    rows = look_ups(9)[0]
    release = mechanism.release(rows, SPENT, randomness=SEED)
    assert release.log_pmf == pytest.approx(rows[0], abs=1e-12)
    assert not release.costs.any()
    assert not np.allclose(mechanism.release(rows, RICH, randomness=SEED).log_pmf, rows[0])
