"""Sampling: the same law as core's definition, the right draws, ragged prompts, repeatable seeds."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from reticent.core.divergence import log_normalise
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.models.huggingface import decoding
from reticent.models.huggingface.decoding import Row, draw, plan_batches, transform
from tests.models.tiny import CONTEXT, plain_next, ragged, tiny_model

SAMPLERS = [
    Sampling(),
    Sampling(temperature=0.3),
    Sampling(temperature=0.0),
    Sampling(top_k=1),
    Sampling(top_k=7),
    Sampling(top_k=10**6),
    Sampling(top_p=0.6),
    Sampling(top_p=1.0),
    Sampling(temperature=(10.0, 5.0, 1.0, 0.0), top_k=9, top_p=0.8),
]


def tied_rows() -> Any:
    """Random log-pmfs, half of them rounded so that ties are common."""
    rows = np.random.default_rng(0).normal(0, 3, (40, 50))
    rows[::2] = rows[::2].round()
    return log_normalise(rows)


@pytest.mark.parametrize("sampling", SAMPLERS)
def test_transform_equals_the_definition_in_core(sampling: Sampling) -> None:
    rows = tied_rows()
    positions = [index % 6 for index in range(len(rows))]
    want = np.stack([sampling.transform(row, position) for row, position in zip(rows, positions, strict=True)])
    got = transform(torch.from_numpy(rows), sampling, positions).numpy()
    np.testing.assert_array_equal(np.isneginf(got), np.isneginf(want))
    np.testing.assert_allclose(np.exp(got), np.exp(want), atol=1e-12)
    np.testing.assert_allclose(got[np.isfinite(got)], want[np.isfinite(want)], atol=1e-6)


def test_a_transform_that_cuts_before_it_tempers_is_told_from_the_right_one() -> None:
    sampling, rows = Sampling(temperature=3.0, top_p=0.6), torch.from_numpy(tied_rows())
    cut = transform(rows, Sampling(top_p=0.6), [0] * len(rows))
    twin = torch.log_softmax(cut / 3.0, dim=-1)
    want = sampling.transform(rows.numpy(), 0)
    assert not np.allclose(np.exp(twin.numpy()), np.exp(want), atol=1e-6)


def test_draws_never_have_probability_zero_even_at_the_edges() -> None:
    pmf = torch.tensor([0.0, 0.5, 0.0, 0.5, 0.0], dtype=torch.float64)
    edges = torch.tensor([2.0**-53, 0.5 - 2.0**-54, 0.5, 1.0 - 2.0**-53, 1.0], dtype=torch.float64)
    assert draw(pmf.log().expand(5, 5), edges).tolist() == [1, 1, 3, 3, 3]


def test_draws_follow_the_pmf() -> None:
    pmf = np.array([0.5, 0.25, 0.0, 0.2, 0.05])
    n = 20_000
    uniforms = torch.from_numpy(Randomness.seeded(5).uniform(n))
    with np.errstate(divide="ignore"):
        tokens = draw(torch.from_numpy(np.log(pmf)).expand(n, 5), uniforms).numpy()
    counts = np.bincount(tokens, minlength=5)
    assert counts[2] == 0
    kept = pmf > 0
    assert chisquare(counts[kept], n * pmf[kept]).pvalue > 1e-4  # the false-alarm rate; the seed is fixed


@pytest.mark.parametrize("kind", ["gpt2", "llama", "lstm"])
def test_pairs_of_sampled_tokens_follow_the_exact_law(kind: str) -> None:
    """Chi-square over (first, second) token of a schedule with top-k: false-alarm rate 1e-4 with a fixed seed."""
    model = tiny_model(kind, token_budget=4096)
    sampling = Sampling(max_tokens=2, temperature=(0.7, 2.0), top_k=5)
    prompt, n = [7, 8, 9], 6000
    ((*samples,),) = model.generate([prompt], sampling, count=n, randomness=Randomness.seeded(3))
    first = np.exp(sampling.transform(plain_next(model.module, 1, prompt), 0))
    law: dict[tuple[int, ...], float] = {}
    for token in np.flatnonzero(first):
        if token == model.end_token:
            law[()] = first[token]
            continue
        second = np.exp(sampling.transform(plain_next(model.module, 1, [*prompt, int(token)]), 1))
        for follower in np.flatnonzero(second):
            ended = (int(token),) if follower == model.end_token else (int(token), int(follower))
            law[ended] = first[token] * second[follower]
    counts = dict.fromkeys(law, 0)
    for sample in samples:
        counts[tuple(sample)] += 1  # a KeyError is a continuation that the law forbids
    expected = n * np.array(list(law.values()))
    observed = np.array([counts[key] for key in law])
    rare = expected < 5
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    used = expected > 0
    assert chisquare(observed[used], expected[used], sum_check=False).pvalue > 1e-4


@pytest.mark.parametrize("kind", ["gpt2", "llama", "mistral", "lstm"])
def test_greedy_continuations_of_ragged_prompts_equal_step_by_step_forwards(kind: str) -> None:
    model = tiny_model(kind, token_budget=4096)
    prompts = ragged(1, 12, longest=CONTEXT - 9)
    got = model.generate(prompts, Sampling(max_tokens=8, temperature=0.0), count=1, randomness=Randomness.seeded(0))
    for prompt, (continuation,) in zip(prompts, got, strict=True):
        want: list[int] = []
        while len(want) < 8:
            token = int(plain_next(model.module, 1, prompt + want).argmax())
            if token == model.end_token:
                break
            want.append(token)
        assert continuation == want


def test_the_same_seed_gives_the_same_samples_and_another_seed_others() -> None:
    model, prompts = tiny_model(), ragged(2, 5, longest=20)
    sampling = Sampling(max_tokens=10)
    runs = [model.generate(prompts, sampling, count=4, randomness=Randomness.seeded(s)) for s in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    assert [len(samples) for samples in runs[0]] == [4] * 5


def test_samples_do_not_depend_on_the_token_budget() -> None:
    prompts, sampling = ragged(3, 6, longest=20), Sampling(max_tokens=10)
    narrow, wide = (
        tiny_model(token_budget=budget).generate(prompts, sampling, count=3, randomness=Randomness.seeded(1))
        for budget in (1, 4096)
    )
    assert narrow == wide


def test_system_randomness_gives_other_samples_each_time() -> None:
    model, sampling = tiny_model(), Sampling(max_tokens=20)
    runs = [model.generate([[5]], sampling, count=4, randomness=Randomness.system()) for _ in range(2)]
    assert runs[0] != runs[1]


def test_torch_s_own_generator_is_never_used() -> None:
    model, sampling = tiny_model(), Sampling(max_tokens=10)
    before = torch.random.get_rng_state()
    model.generate([[5]], sampling, count=4, randomness=Randomness.seeded(0))
    assert torch.equal(before, torch.random.get_rng_state())


def test_continuations_stop_before_the_end_token_and_at_the_longest_length() -> None:
    model = tiny_model(token_budget=4096)
    ((*samples,),) = model.generate([[4]], Sampling(max_tokens=40), count=200, randomness=Randomness.seeded(4))
    lengths = {len(sample) for sample in samples}
    assert all(model.end_token not in sample for sample in samples)
    assert max(lengths) <= 40
    assert len(lengths) > 3  # some ended early, so finished rows were dropped on the way


def test_prompts_of_unlike_length_share_a_batch_only_within_the_spread() -> None:
    rows = [Row(tuple(range(length)), index) for index, length in enumerate([100, 3, 90, 1, 2, 40])]
    batches = plan_batches(rows, token_budget=10**6, max_tokens=5)
    assert [sorted(row.prompt_index for row in batch) for batch in batches] == [[1, 3, 4], [5], [0, 2]]
    assert all(len(batch) == 1 for batch in plan_batches(rows, token_budget=1, max_tokens=5))


def test_a_decoder_that_forgets_the_prompt_s_end_is_told_from_the_right_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The twin samples from the shortest prompt's end for every row, as batches without forced tokens would."""
    model, prompts = tiny_model(token_budget=4096), [[5, 6], [5, 6, 7, 8, 9]]
    sampling = Sampling(max_tokens=6, temperature=0.0)
    right = model.generate(prompts, sampling, count=1, randomness=Randomness.seeded(0))
    real = decoding.sample_batch

    def twin(stream: Any, rows: Any, *rest: Any, **named: Any) -> Any:
        width = min(len(row.prompt) for row in rows)
        return real(stream, [Row(row.prompt[:width], row.prompt_index) for row in rows], *rest, **named)

    monkeypatch.setattr("reticent.models.huggingface.model.sample_batch", twin)
    assert model.generate(prompts, sampling, count=1, randomness=Randomness.seeded(0)) != right
