"""Gaussians from words: the right numbers for known words, the right law, the same bits when compiled."""

import os

import mpmath
import numpy as np
import pytest
from scipy import stats

from reticent.core import randomness
from reticent.core.noise import gaussian
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


def made(drawn, by=gaussian):
    """The Gaussians of words [32, n]."""
    out = np.empty((gaussian.DRAWS, drawn.shape[1]))
    by.gaussians(drawn, out)
    return out


def test_known_words_give_the_numbers_of_arbitrary_precision():
    drawn = words(1, (gaussian.WORDS, 40))
    extremes = [[0, 2**64 - 1, 2**63, 2**12], [0, 2**64 - 1, 2, 1], [5, 3, 2**62, 7]]
    drawn[:, :4] = np.tile(np.array(extremes, dtype=np.uint64), (11, 1))[: gaussian.WORDS]
    found = made(drawn)
    for column in range(40):
        pairs = [exact_pair(*drawn[2 * each : 2 * each + 2, column]) for each in range(gaussian.MIXED)]
        expected = [float(mpmath.fsum(drawn) / 8 - one) for drawn in zip(*pairs, strict=True) for one in drawn[:-1]]
        assert found[:, column] == pytest.approx(expected, rel=1e-14, abs=1e-14)


def test_extreme_words_are_finite_and_far_out():
    for word in (0, 1, 2, 3, 2**64 - 1):
        assert np.isfinite(made(np.full((gaussian.WORDS, 1), word, dtype=np.uint64))).all()
    assert np.hypot(*gaussian._pair(*np.zeros((2, 1), dtype=np.uint64))) > 8.0


def test_the_mixture_is_orthogonal_and_cannot_be_undone():
    """Fifteen rows of a reflection: independent draws stay independent, and no 15 numbers tell the 16 draws."""
    mixture = gaussian.REFLECTION - np.eye(gaussian.MIXED)[:-1]
    assert np.allclose(mixture @ mixture.T, np.eye(gaussian.MIXED - 1), rtol=0, atol=1e-15)
    assert np.linalg.matrix_rank(mixture) == gaussian.MIXED - 1 == gaussian.DRAWS // 2


def test_the_compiled_loop_gives_the_same_bits():
    compiled = pytest.importorskip("reticent.core.noise.compiled")
    drawn = words(2, (gaussian.WORDS, 700))
    drawn[:, :2] = [[0, 2**64 - 1]] * gaussian.WORDS
    assert np.array_equal(made(drawn, by=compiled), made(drawn))


def test_the_compiled_sum_lies_on_the_same_points_of_the_grid():
    compiled = pytest.importorskip("reticent.core.noise.compiled")
    source = np.random.default_rng(3)
    for kind in (np.float32, np.float64):
        exact, noise = (1e3 * source.normal(size=999)).astype(kind), source.normal(size=999)
        plain, fast = np.empty_like(exact), np.empty_like(exact)
        gaussian.on_grid(noise, exact, 0.3, 2.0**-20, plain)
        compiled.on_grid(noise, exact, 0.3, 2.0**-20, fast)
        assert np.array_equal(plain, fast)
        assert np.array_equal(np.rint(plain * 2.0**20), plain * 2.0**20)


class Repeating:
    """Broken twin: a keystream that begins anew for every block of numbers."""

    def words(self, count):
        return words(7, count)


def most_alike(first, second):
    """The greatest share of values that two rows have in common, block by block."""
    return max(np.isin(one, second).mean() for one in np.array_split(first, 20))


@pytest.mark.usefixtures("systems_own_chance")
def test_no_word_of_the_keystream_is_used_twice_and_reuse_would_be_found_out():
    source = Randomness.system()
    first, second = source.normal(200_000), source.normal(200_000)
    assert most_alike(first, second) == 0.0
    assert len(np.unique(first)) == len(first)
    source._bits = Repeating()
    first, second = source.normal(200_000), source.normal(200_000)
    assert most_alike(first, second) == 1.0
    assert len(np.unique(first)) < len(first)


@pytest.mark.usefixtures("systems_own_chance")
def test_processes_that_part_draw_different_noise():
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, Randomness.system().normal(8).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    assert not np.isin(np.frombuffer(os.read(read, 64)), Randomness.system().normal(8)).any()


def test_how_many_were_drawn_before_changes_no_draw(monkeypatch):
    monkeypatch.setattr(randomness, "_drawn", 0)
    few = Randomness.seeded(3).normal(40_001)
    monkeypatch.setattr(randomness, "_drawn", 1 << 30)
    assert np.array_equal(few, Randomness.seeded(3).normal(40_001))


def test_draws_are_gaussian_uncorrelated_and_have_its_moments():
    columns = made(words(4, (gaussian.WORDS, DRAWS // gaussian.DRAWS)))
    draws = columns.ravel()
    assert stats.kstest(draws, "norm").pvalue > LEVEL
    for power, moment, square in ((1, 0, 1), (2, 1, 3), (3, 0, 15), (4, 3, 105), (6, 15, 10395)):
        error = np.sqrt((square - moment**2) / len(draws))
        assert abs((draws**power).mean() - moment) < 4.0 * error  # 6e-5 each
    for values in (columns, columns**2):
        correlations = np.corrcoef(values)[np.triu_indices(gaussian.DRAWS, 1)]
        assert np.abs(correlations).max() < 5.5 / np.sqrt(columns.shape[1])  # 435 pairs: 2e-5 together


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
