"""How many coins can be guessed: against exact formulas, and against the best guesser played many times."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from reticent.accounting.bounds.guessing import GuessingCurve
from reticent.accounting.pld import PrivacyProfile
from reticent.core.errors import UnsupportedEvent
from reticent.core.event import Gaussian, NonPrivate, Repeated, SampledGaussian
from reticent.core.guarantee import Neighbours


def curve_of(event) -> GuessingCurve:
    return GuessingCurve.of(PrivacyProfile(event, Neighbours.ADD_REMOVE))


def test_all_coins_of_a_gaussian_are_guessed_as_often_as_its_total_variation_says():
    # (1 + TV)/2 = Φ(μ/2), Dong, Roth and Su 2022.
    for noise in (0.5, 1.0, 3.0):
        assert curve_of(Gaussian(noise)).chance(np.ones(1))[0] == pytest.approx(norm.cdf(0.5 / noise), abs=1e-4)


def test_guessing_all_coins_is_a_binomial():
    curve = curve_of(Gaussian(1.0))
    expected = binom.sf(139, 200, curve.chance(np.ones(1))[0])
    assert curve.p_value(200, 200, correct=140) == pytest.approx(expected)


def test_chances_fall_with_the_share_and_never_pass_one_or_fall_below_a_half():
    curve = curve_of(Repeated(SampledGaussian(0.7, 0.1), 30))
    chances = curve.chance(np.linspace(0.001, 1.0, 300))
    assert (np.diff(chances) <= 1e-9).all()
    assert chances.max() <= 1.0
    assert chances.min() > 0.5


def test_less_noise_never_lowers_the_p_value():
    values = [
        curve_of(Repeated(SampledGaussian(noise, 0.1), 20)).p_value(300, 120, correct=95)
        for noise in (0.5, 0.8, 1.2, 2.0, 4.0)
    ]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("guesses", [10, 60, 200])
def test_the_best_guesser_of_a_sampled_gaussian_is_right_as_often_as_the_bound_says(guesses):
    rng, m, runs, q, noise, steps = np.random.default_rng(4), 200, 3000, 0.2, 1.0, 6
    coins = rng.random((runs, m)) < 0.5
    seen = (rng.random((steps, runs, m)) < q) & coins
    x = seen + noise * rng.standard_normal((steps, runs, m))
    loss = np.logaddexp(np.log1p(-q), np.log(q) + (x - 0.5) / noise**2).sum(0)  # [runs, m]
    surest = np.argsort(-np.abs(loss), axis=1)[:, :guesses]
    right = np.take_along_axis((loss > 0) == coins, surest, axis=1).sum(1)
    curve = curve_of(Repeated(SampledGaussian(noise, q), steps))
    for correct in np.quantile(right, [0.5, 0.9, 0.97]).astype(int):
        played = (right >= correct).mean()
        # 3000 plays: a share is known to 0.03, 3.3 standard deviations; the bound lies above by its cells alone.
        assert played - 0.03 <= curve.p_value(m, guesses, correct=int(correct)) <= played + 0.05


def test_impossible_counts_and_unprotected_releases_are_refused():
    curve = curve_of(Gaussian(1.0))
    for m, guesses, correct in ((10, 11, 3), (10, 5, 6), (10, 0, 0)):
        with pytest.raises(ValueError, match="guessing needs"):
            curve.p_value(m, guesses, correct=correct)
    with pytest.raises(UnsupportedEvent):
        curve_of(NonPrivate())
