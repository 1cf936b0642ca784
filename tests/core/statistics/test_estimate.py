"""Means per token over texts: against a plain mean, coverage over drawn corpora, and what one text cannot say."""

import math

import numpy as np
import pytest

from reticent.core.statistics.estimate import mean_per_token


def draw(rng: np.random.Generator, texts: int) -> tuple[list[float], list[int]]:
    """Texts that differ in length and in how hard they are: the mean per token is Σ (2 + n/80) n / Σ n."""
    sizes = rng.integers(10, 60, size=texts)
    hardness = rng.normal(2.0 + sizes / 80.0, 0.8)
    return [
        float(h * n + rng.normal(scale=math.sqrt(n))) for h, n in zip(hardness, sizes, strict=True)
    ], sizes.tolist()


def true_mean() -> float:
    sizes = np.arange(10, 60)
    return float(((2.0 + sizes / 80.0) * sizes).sum() / sizes.sum())


def share_covered(of_tokens: bool) -> float:
    rng, covered = np.random.default_rng(5), 0
    for _ in range(400):
        sums, sizes = draw(rng, 40)
        found = mean_per_token(sums, sizes)
        low, high = found.low, found.high
        if of_tokens:  # the broken twin: as if every token were a draw of its own
            half = 1.96 / math.sqrt(sum(sizes))
            low, high = found.value - half, found.value + half
        covered += low <= true_mean() <= high
    return covered / 400


def test_the_interval_holds_the_true_mean_as_often_as_it_says():
    # 95 % of 400: below 365 or above 394 in fewer than 1 of 1,000 runs.
    assert 0.9125 <= share_covered(of_tokens=False) <= 0.985


def test_an_interval_over_tokens_would_be_too_short():
    assert share_covered(of_tokens=True) < 0.7


def test_texts_of_one_size_give_students_interval():
    values = [1.0, 2.0, 4.0, 3.0]
    found = mean_per_token([10 * v for v in values], [10] * 4)
    half = 3.182446305284263 * np.std(values, ddof=1) / 2.0
    assert (found.value, found.low, found.high) == pytest.approx((2.5, 2.5 - half, 2.5 + half))


def test_one_text_says_nothing_of_others_and_nothing_is_refused():
    found = mean_per_token([6.0], [3])
    assert (found.value, found.low, found.high) == (2.0, -math.inf, math.inf)
    with pytest.raises(ValueError, match="a mean needs"):
        mean_per_token([], [])
    with pytest.raises(ValueError, match="confidence"):
        mean_per_token([1.0], [1], confidence=1.0)


def test_a_text_that_cannot_be_said_has_no_end():
    found = mean_per_token([1.0, math.inf], [1, 1])
    assert (found.value, found.high) == (math.inf, math.inf)
