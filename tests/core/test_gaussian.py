"""Gaussians from words: the right numbers for known words, the right law, the same bits when compiled."""

import mpmath
import numpy as np
import pytest
from scipy import stats

from reticent.core import gaussian, randomness
from reticent.core.randomness import Randomness

# One false alarm in ten thousand for each statistical test, at a fixed seed.
LEVEL = 1e-4
DRAWS = 200_000


def words(seed, shape):
    return np.random.default_rng(seed).integers(2**64, size=shape, dtype=np.uint64)


def exact_pair(radius_word, angle_word):
    """One transform in 40 digits, from the same bits."""
    with mpmath.workdps(40):
        u = (mpmath.mpf(int(radius_word) >> 12) + mpmath.mpf(1) / 2) / 2**52
        centred = (mpmath.mpf(int(angle_word) >> 12) + mpmath.mpf(1) / 2) / 2**52 - mpmath.mpf(1) / 2
        radius = mpmath.sqrt(-2 * mpmath.log(u)) * (-1 if int(angle_word) & 1 else 1)
        along, across = radius * mpmath.cos(centred * mpmath.pi / 2), radius * mpmath.sin(centred * mpmath.pi / 2)
        return (across, along) if int(angle_word) & 2 else (along, across)


def test_known_words_give_the_numbers_of_arbitrary_precision():
    drawn = words(1, (4, 200))
    drawn[:, :4] = [[0, 2**64 - 1, 2**63, 2**12], [0, 2**64 - 1, 2, 1], [0, 2**64 - 1, 5, 2**62], [0, 3, 2**63, 7]]
    found = gaussian.gaussians(drawn)
    for column in range(200):
        first, second = exact_pair(*drawn[:2, column]), exact_pair(*drawn[2:, column])
        expected = [float((a + b) / mpmath.sqrt(2)) for a, b in zip(first, second, strict=True)]
        assert found[:, column] == pytest.approx(expected, rel=1e-14, abs=2e-15)


def test_extreme_words_are_finite_and_far_out():
    for word in (0, 1, 2, 3, 2**64 - 1):
        found = gaussian.gaussians(np.full((4, 1), word, dtype=np.uint64))
        assert np.isfinite(found).all()
    assert np.abs(gaussian.gaussians(np.zeros((4, 1), dtype=np.uint64))).max() > 8.0


def test_the_compiled_loop_gives_the_same_bits():
    compiled = pytest.importorskip("reticent.core.compiled_gaussian")
    drawn = words(2, (4, 5001))
    drawn[:, :2] = [[0, 2**64 - 1]] * 4
    assert np.array_equal(compiled.gaussians(drawn), gaussian.gaussians(drawn))


def test_how_many_were_drawn_before_changes_no_draw(monkeypatch):
    monkeypatch.setattr(randomness, "_drawn", 0)
    few = Randomness.seeded(3).normal(40_001)
    monkeypatch.setattr(randomness, "_drawn", 1 << 30)
    assert np.array_equal(few, Randomness.seeded(3).normal(40_001))


def test_draws_are_gaussian_uncorrelated_and_have_its_moments():
    first, second = gaussian.gaussians(words(4, (4, DRAWS)))
    for draws in (first, second):
        assert stats.kstest(draws, "norm").pvalue > LEVEL
        for power, moment, square in ((1, 0, 1), (2, 1, 3), (3, 0, 15), (4, 3, 105), (6, 15, 10395)):
            error = np.sqrt((square - moment**2) / DRAWS)
            assert abs((draws**power).mean() - moment) < 4.0 * error  # 6e-5 each
    assert abs(np.corrcoef(first, second)[0, 1]) < 4.0 / np.sqrt(DRAWS)
    assert abs(np.corrcoef(first**2, second**2)[0, 1]) < 4.0 / np.sqrt(DRAWS)


@pytest.mark.parametrize("zeros", [0, 13, 26])
def test_the_radius_has_its_law_beyond_six_deviations(zeros):
    """Words that begin with 26 zeros have radii above 6: what is above r₀ in r²/2 is exponential."""
    radii, angles = words(5, DRAWS) >> np.uint64(zeros), words(6, DRAWS)
    along, across = gaussian._pair(radii, angles)
    beyond = 0.5 * (along**2 + across**2) - zeros * np.log(2.0)
    assert stats.kstest(beyond, "expon").pvalue > LEVEL
    turns = np.arctan2(across, along) / (2 * np.pi) + 0.5
    assert stats.kstest(turns, "uniform").pvalue > LEVEL
    # Twin: a tail cut at 32 bits of the uniform, as of a generator of float32.
    if zeros == 26:
        rough = (radii >> np.uint64(32)) << np.uint64(32)
        along, across = gaussian._pair(rough, angles)
        assert stats.kstest(0.5 * (along**2 + across**2) - zeros * np.log(2.0), "expon").pvalue < LEVEL
