"""The sampler's law against a slow, literal reading of its docstring."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.core.divergence import log_normalise
from reticent.core.sampling import Sampling


def slow_transform(log_probs, temperature, top_k, top_p):
    """Oracle: plain lists, one row."""
    weights = [math.exp(x / temperature) for x in log_probs]
    probabilities = [w / sum(weights) for w in weights]
    ranked = sorted(range(len(weights)), key=lambda i: (-log_probs[i], i))
    kept = ranked[:top_k] if top_k else ranked
    mass = sum(probabilities[i] for i in kept)
    if top_p is not None and top_p < 1:
        nucleus, before = [], 0.0
        for i in kept:
            if before < top_p:
                nucleus.append(i)
            before += probabilities[i] / mass
        kept = nucleus
    mass = sum(probabilities[i] for i in kept)
    return [probabilities[i] / mass if i in kept else 0.0 for i in range(len(weights))]


@given(
    st.integers(0, 10_000),
    st.floats(0.3, 3),
    st.sampled_from([None, 1, 2, 5, 50]),
    st.sampled_from([None, 0.1, 0.5, 0.93, 1.0]),
)
@settings(max_examples=150, deadline=None)
def test_transform_equals_the_slow_reading(seed, temperature, top_k, top_p):
    row = log_normalise(np.random.default_rng(seed).normal(size=12) * 2)
    fast = np.exp(Sampling(temperature=temperature, top_k=top_k, top_p=top_p).transform(row, 0))
    assert fast == pytest.approx(slow_transform(row.tolist(), temperature, top_k, top_p), abs=1e-12)
    assert fast.sum() == pytest.approx(1.0)


def test_rows_are_transformed_independently():
    rows = log_normalise(np.random.default_rng(1).normal(size=(3, 4, 9)))
    sampling = Sampling(temperature=0.7, top_k=4, top_p=0.8)
    assert np.array_equal(sampling.transform(rows, 0)[1, 2], sampling.transform(rows[1, 2], 0))


def test_schedule_gives_each_position_its_temperature_and_repeats_the_last():
    sampling = Sampling(temperature=(10.0, 2.0, 1.0))
    assert [sampling.temperature_at(i) for i in range(5)] == [10.0, 2.0, 1.0, 1.0, 1.0]


def test_greedy_puts_all_mass_on_the_first_of_the_likeliest():
    assert Sampling(temperature=0.0).transform(np.log([0.2, 0.4, 0.4]), 0).tolist() == [-math.inf, 0.0, -math.inf]


def test_plain_sampling_changes_nothing():
    row = log_normalise(np.random.default_rng(2).normal(size=20))
    assert Sampling().is_plain
    assert not Sampling(top_k=3).is_plain
    assert Sampling().transform(row, 0) == pytest.approx(row, abs=1e-15)


@pytest.mark.parametrize(
    "arguments",
    [
        {"temperature": -1.0},
        {"temperature": math.inf},
        {"temperature": ()},
        {"top_k": 0},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"max_tokens": 0},
    ],
)
def test_senseless_samplers_are_refused(arguments):
    with pytest.raises(ValueError):
        Sampling(**arguments)
