"""Emission chances against closed forms, sampling and high precision."""

import math

import mpmath
import numpy as np
import pytest

from reticent.auditing.attacks.lazy.emission import (
    calibrated_loss,
    emission_log_prob,
    log_chance_in_samples,
)
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from tests.auditing.attacks.exposure.oracles import CountingModel, random_model
from tests.models.ngram import END, NGramModel

# One symbol follows another by known chances, so that every sampler has a closed form.
TABLE = {
    (): {"a": 0.5, "b": 0.3, "c": 0.2},
    ("a",): {"a": 0.1, "b": 0.6, "c": 0.2, END: 0.1},
    ("b",): {"a": 0.4, "b": 0.25, "c": 0.15, END: 0.2},
    ("c",): {"a": 0.7, "b": 0.1, "c": 0.1, END: 0.1},
}
MODEL = NGramModel.from_table(["a", "b", "c"], TABLE, order=2)


def tokens(*texts: str) -> list[list[int]]:
    return MODEL.encode(texts)


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(), 0.5 * 0.6 * 0.4),
        (Sampling(temperature=0.5), (0.25 / 0.38) * (0.36 / 0.42) * (0.16 / 0.285)),
        # The schedule: 1 for the first token, then 2, the last value repeated.
        (
            Sampling(temperature=(1.0, 2.0)),
            0.5
            * math.sqrt(0.6)
            / sum(map(math.sqrt, (0.1, 0.6, 0.2, 0.1)))
            * math.sqrt(0.4)
            / sum(map(math.sqrt, (0.4, 0.25, 0.15, 0.2))),
        ),
        (Sampling(top_k=2), 0.5 / 0.8 * 0.6 / 0.8 * 0.4 / 0.65),
        (Sampling(top_p=0.55), 0.5 / 0.8 * 1.0 * 0.4 / 0.65),
        (Sampling(temperature=0.0), 1.0),
    ],
)
def test_emission_has_its_closed_form_under_every_sampler(sampling: Sampling, expected: float) -> None:
    (log_prob,) = emission_log_prob(MODEL, tokens("aba"), sampling)
    assert math.exp(log_prob) == pytest.approx(expected, rel=1e-12)


def test_what_a_sampler_cuts_off_is_impossible_and_nothing_else_is() -> None:
    found = emission_log_prob(MODEL, tokens("ca", "bc", "ab", ""), Sampling(top_k=2))
    assert np.isneginf(found[:2]).all()
    assert found[2] == pytest.approx(math.log(0.5 / 0.8 * 0.6 / 0.8))
    assert found[3] == 0.0
    assert np.isfinite(emission_log_prob(MODEL, tokens("ca", "bc"), Sampling(temperature=3.0))).all()


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=(0.7, 1.3)), Sampling(top_k=3, top_p=0.9)])
def test_a_prompt_conditions_and_the_schedule_starts_after_it(sampling: Sampling) -> None:
    prompts = tokens("ab", "ab", "c", "")
    sequences = tokens("aba", "b", "ab", "ab")
    found = emission_log_prob(MODEL, sequences, sampling, prompts=prompts)
    for value, prompt, sequence in zip(found, prompts, sequences, strict=True):
        expected = 0.0
        for place, token in enumerate(sequence):
            row = MODEL.next_token_log_probs([[*prompt, *sequence[:place]]])[0]
            expected += sampling.transform(row, place)[token]
        assert value == pytest.approx(expected, abs=1e-12)
    with pytest.raises(ValueError, match="one prompt"):
        emission_log_prob(MODEL, sequences, sampling, prompts=prompts[:1])


@pytest.mark.parametrize("sampling", [Sampling(max_tokens=3), Sampling(max_tokens=3, temperature=0.6, top_k=2)])
def test_emission_is_how_often_the_sampler_really_emits(sampling: Sampling) -> None:
    """1,500 samples; four standard errors, false alarm 1e-4."""
    end = MODEL.end_token
    drawn = MODEL.generate([[]], sampling, count=1500, randomness=Randomness.seeded(0))[0]
    for text in ("aba", "ab", "bab"):
        (sequence,) = tokens(text)
        wanted = sequence if len(sequence) == 3 else [*sequence, end]  # three tokens are cut, fewer must end
        chance = math.exp(emission_log_prob(MODEL, [wanted], sampling)[0])
        seen = sum(row == sequence for row in drawn) / 1500
        assert abs(seen - chance) < 4 * math.sqrt(chance * (1 - chance) / 1500) + 1e-9


def test_plain_emission_is_one_pass_and_equals_the_slow_route() -> None:
    model = random_model(0, CountingModel)
    assert isinstance(model, CountingModel)
    sequences = model.encode(["i: 123.", "", "9", "i: 124"])
    fast = emission_log_prob(model, sequences, Sampling())
    assert model.read == 0  # neither distributions nor continuations: token log-probabilities alone
    slow = emission_log_prob(model, sequences, Sampling(temperature=(1.0, 1.0), top_k=model.vocabulary_size))
    assert fast == pytest.approx(slow)


def test_a_sequence_that_died_is_read_no_further() -> None:
    model = random_model(0, CountingModel)
    assert isinstance(model, CountingModel)
    row = model.next_token_log_probs([[]])[0]
    first = int(row.argmin())
    model.read = 0
    found = emission_log_prob(model, [[first] * 20] * 5, Sampling(top_k=2))
    assert np.isneginf(found).all()
    assert model.read == 1  # the empty context, once for all five


@pytest.mark.parametrize("log_p", [-1e-9, -0.1, -5.0, math.log(1e-18), -36.9, -37.1, -500.0, -5000.0])
@pytest.mark.parametrize("samples", [1, 10, 10**6, 10**15])
def test_chance_in_samples_equals_high_precision(log_p: float, samples: int) -> None:
    with mpmath.workdps(3000 if log_p < -1000 else 300):
        p = mpmath.exp(log_p)
        chance = -mpmath.expm1(samples * mpmath.log1p(-p))
        expected = float(mpmath.log(chance))
    assert log_chance_in_samples(log_p, samples) == pytest.approx(expected, rel=1e-12, abs=1e-300)


def test_the_naive_formula_is_caught() -> None:
    """Broken twin: 1 − (1 − p)^n is 0 for every p below 1e-16."""
    p, n = 1e-18, 1000
    assert 1.0 - (1.0 - p) ** n == 0.0
    assert math.exp(float(log_chance_in_samples(math.log(p), n))) == pytest.approx(1e-15, rel=1e-12)
    assert log_chance_in_samples(-5000.0, 10**6) == pytest.approx(-5000.0 + math.log(1e6))


def test_certain_and_impossible_texts_have_chances_one_and_zero() -> None:
    assert np.exp(log_chance_in_samples([0.0, 1e-16, -np.inf], 3)).tolist() == [1.0, 1.0, 0.0]
    with pytest.raises(ValueError, match="positive"):
        log_chance_in_samples(-1.0, 0)


def test_calibrated_loss_is_negative_for_what_only_the_target_knows() -> None:
    assert calibrated_loss([-2.0, -9.0], [-5.0, -9.0]).tolist() == [-3.0, 0.0]
    with pytest.raises(ValueError, match="both"):
        calibrated_loss(-np.inf, -np.inf)
