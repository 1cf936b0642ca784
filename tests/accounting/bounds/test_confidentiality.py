"""Confidentiality: printed numbers, exact small worlds, and what each correction of the paper repairs."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.accounting.bounds.confidentiality import (
    bayesian,
    confidentiality,
    group_of_secrets,
    missed_secret,
    missed_secret_of,
    worst_case,
)
from reticent.core.event import Repeated, SampledGaussian
from reticent.core.guarantee import Neighbours, Notion, Unit


def hockey_stick(p, q, epsilon):
    """The exact δ at `epsilon` of two pmfs, in the worse direction."""
    factor = math.exp(epsilon)
    return max(np.maximum(p - factor * q, 0).sum(), np.maximum(q - factor * p, 0).sum())


def test_redaction_amplifies_as_printed_and_the_worst_case_stands_beside_it():
    # spec 5: log(1+0.1(e−1)) = 0.159 (the text rounds to 0.2).
    told = confidentiality(missed_secret(1.0, 8e-5), 10, miss_rate=0.1, conservative_miss_rate=0.0)
    assert told.bayesian.epsilon == pytest.approx(0.1586, abs=5e-5)
    assert told.bayesian.delta == pytest.approx(8e-6)
    assert (told.worst_case.epsilon, told.worst_case.delta) == (1.0, 8e-5)
    assert told.group.epsilon == pytest.approx(10.0)


def test_statements_are_of_a_masked_secret():
    for guarantee in (
        missed_secret(1.0, 1e-5),
        bayesian(missed_secret(1.0, 1e-5), miss_rate=0.1, conservative_miss_rate=0),
    ):
        assert guarantee.notion in (Notion.CONFIDENTIALITY, Notion.BAYESIAN_CONFIDENTIALITY)
        assert guarantee.unit is Unit.SECRET
        assert guarantee.neighbours is Neighbours.MASK
        assert guarantee.assumes


def test_training_is_priced_by_replacing_a_record_not_by_adding_one():
    # spec 5: q=0.01, σ=1, T=1000, δ=8e-5: PLD 1.544 add/remove but 2.474 replace-one.
    training = Repeated(SampledGaussian(noise_multiplier=1.0, sampling_rate=0.01), 1000)
    assert missed_secret_of(training, 8e-5).epsilon == pytest.approx(2.474, abs=2e-3)


def test_without_a_conservative_policy_nothing_is_said_of_one():
    missed = missed_secret(1.0, 1e-5, has_conservative=False)
    told = confidentiality(missed, 2, miss_rate=0.1, conservative_miss_rate=0.0, has_conservative=False)
    for each in (told.missed, told.worst_case, told.group, told.bayesian):
        assert not [line for line in (each.covers, *each.assumes) if "conservative" in line]
    assert told.worst_case.epsilon == 1.0
    with pytest.raises(ValueError, match="without a conservative policy"):
        worst_case(missed, conservative_miss_rate=0.01, has_conservative=False)
    # With one, the worst case is only as good as what it catches.
    two = confidentiality(missed_secret(1.0, 1e-5), 2, miss_rate=0.1, conservative_miss_rate=0.0)
    assert "the conservative policy catches every secret that the policy misses" in two.worst_case.assumes
    assert all("the conservative policy catches" in each.covers for each in (two.missed, two.group))


def test_a_secret_that_both_policies_may_miss_has_no_bound():
    missed = missed_secret(1.0, 1e-5)
    told = confidentiality(missed, 2, miss_rate=0.1, conservative_miss_rate=0.01)
    assert told.worst_case.epsilon == math.inf
    assert told.bayesian.delta == pytest.approx(1e-6 + 0.01)
    assert worst_case(missed, conservative_miss_rate=0.0).epsilon == 1.0


@given(st.floats(0.0, 5.0), st.floats(1e-12, 1e-3), st.integers(1, 30))
def test_group_delta_is_the_geometric_sum_and_below_the_printed_one(epsilon, delta, group):
    found = group_of_secrets(missed_secret(epsilon, delta), group)
    total = sum(math.exp(j * epsilon) for j in range(group)) * delta
    assert found.epsilon == pytest.approx(group * epsilon)
    assert found.delta == pytest.approx(min(1.0, total), rel=1e-9)
    assert found.delta <= min(1.0, group * math.exp(group * epsilon) * delta) * (1 + 1e-9)


def test_group_delta_is_reached_by_a_chain_of_worlds_and_a_linear_delta_is_caught():
    # Worlds w_0..w_3 with one outcome whose chance grows as fast as (ε, δ) allows at each step.
    epsilon, delta, group = 0.7, 0.004, 3
    chance = 0.002
    chain = [np.array([1 - chance, chance])]
    for _ in range(group):
        chance = math.exp(epsilon) * chance + delta
        chain.append(np.array([1 - chance, chance]))
    for one, two in itertools.pairwise(chain):
        assert hockey_stick(one, two, epsilon) <= delta * (1 + 1e-9)
    exact = hockey_stick(chain[0], chain[-1], group * epsilon)
    found = group_of_secrets(missed_secret(epsilon, delta), group)
    assert exact == pytest.approx(found.delta, rel=1e-9)
    assert exact > group * delta  # twin: δ that grows linearly


@given(st.integers(0, 5000), st.floats(0.0, 1.0), st.floats(0.0, 3.0))
def test_amplification_covers_exact_small_worlds(seed, rate, epsilon):
    # A random secret: with chance γ the training sees it (pmf q), else the mask (pmf r).
    rng = np.random.default_rng(seed)
    r = rng.dirichlet(np.ones(4))
    q = rng.dirichlet(np.ones(4))
    delta = hockey_stick(q, r, epsilon)
    found = bayesian(missed_secret(epsilon, delta), miss_rate=rate, conservative_miss_rate=0.0)
    mixed = rate * q + (1 - rate) * r
    assert hockey_stick(mixed, r, found.epsilon) <= found.delta + 1e-12


def test_amplification_by_the_rate_alone_is_caught():
    # Twin: ε' = γε. The exact loss of the likeliest outcome passes it.
    r, epsilon, rate = np.array([0.9, 0.1]), 1.0, 0.1
    q = np.array([1 - 0.1 * math.e, 0.1 * math.e])
    mixed = rate * q + (1 - rate) * r
    found = bayesian(missed_secret(epsilon, 0.0), miss_rate=rate, conservative_miss_rate=0.0)
    assert hockey_stick(mixed, r, rate * epsilon) > 1e-3
    assert hockey_stick(mixed, r, found.epsilon) <= 1e-15


def test_an_average_of_nothing_can_still_disclose_everything():
    # spec 5: one-time pad. Over a uniform secret the release is uniform in both worlds: Bayesian ε = 0. Yet each
    # secret's release is all but surely told from the masked world's by whoever knows the secret.
    size = 8
    by_secret = np.eye(size)
    masked = np.full(size, 1 / size)
    assert hockey_stick(by_secret.mean(axis=0), masked, 0.0) == pytest.approx(0.0, abs=1e-15)
    assert hockey_stick(by_secret[3], masked, 0.0) == pytest.approx(1 - 1 / size)
    average = bayesian(missed_secret(math.inf, 0.0), miss_rate=0.0, conservative_miss_rate=0.0)
    assert average.epsilon == 0.0
    assert average.notion is Notion.BAYESIAN_CONFIDENTIALITY


def test_amplification_is_exact_at_both_ends():
    small = bayesian(missed_secret(1e-9, 0.0), miss_rate=0.5, conservative_miss_rate=0.0)
    large = bayesian(missed_secret(900.0, 0.0), miss_rate=0.5, conservative_miss_rate=0.0)
    assert small.epsilon == pytest.approx(5e-10, rel=1e-6)
    assert large.epsilon == pytest.approx(900 + math.log(0.5))
    assert group_of_secrets(missed_secret(900.0, 1e-300), 50).delta == 1.0


def test_a_group_is_priced_as_a_mixture_where_that_needs_a_smaller_epsilon():
    """σ = 4, q = 0.02, 500 steps: ten secrets have δ = 0.03 by black-box groups, and δ = 1e-5 by the mixture."""
    missed = missed_secret_of(Repeated(SampledGaussian(4.0, 0.02), 500), 1e-5)
    ten, black_box = group_of_secrets(missed, 10), group_of_secrets(replace(missed, basis=None), 10)
    assert black_box.delta == pytest.approx(0.0286, abs=1e-4)
    assert (ten.epsilon, ten.delta) == (pytest.approx(12.10, abs=0.01), 1e-5)
    assert ten.epsilon < min(e for e, d in black_box.points if d <= 1e-5)
    two = group_of_secrets(missed_secret_of(Repeated(SampledGaussian(2.0, 0.02), 500), 1e-5), 2)
    assert two.epsilon == pytest.approx(2 * 1.76747, abs=1e-4)  # here the mixture would say more at that δ


def test_impossible_rates_and_groups_are_refused():
    missed = missed_secret(1.0, 1e-5)
    with pytest.raises(ValueError, match="conservative"):
        bayesian(missed, miss_rate=0.1, conservative_miss_rate=0.2)
    with pytest.raises(ValueError, match="miss_rate"):
        bayesian(missed, miss_rate=1.2, conservative_miss_rate=0.0)
    with pytest.raises(ValueError, match="group"):
        group_of_secrets(missed, 0)
