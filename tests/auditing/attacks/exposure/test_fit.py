"""The skew-normal estimate: right where the losses are skew-normal, called poor where they are not."""

import math

import numpy as np
import pytest
from scipy.stats import skewnorm

from reticent.auditing.attacks.exposure.fit import fit_exposure


def test_the_estimate_is_near_the_truth_for_skew_normal_losses() -> None:
    losses = skewnorm.rvs(2.0, loc=30.0, scale=4.0, size=1500, random_state=0)
    for loss in (28.0, 31.0, 35.0):
        fit = fit_exposure(losses, loss, most_bits=60.0)
        assert fit is not None
        assert fit.bits == pytest.approx(-skewnorm.logcdf(loss, 2.0, 30.0, 4.0) / math.log(2.0), abs=0.7)
        assert not fit.is_poor
        assert not fit.is_extrapolated


def test_a_canary_below_every_loss_is_extrapolated_and_capped_by_the_space() -> None:
    losses = np.random.default_rng(1).normal(20.0, 1.0, 300)
    fit = fit_exposure(losses, 0.1, most_bits=19.93)
    assert fit is not None
    assert fit.is_extrapolated
    assert fit.bits == 19.93


def test_losses_of_two_kinds_are_called_a_poor_fit() -> None:
    generator = np.random.default_rng(2)
    losses = np.where(generator.random(600) < 0.5, generator.normal(5, 0.3, 600), generator.normal(20, 0.3, 600))
    fit = fit_exposure(losses, 4.0, most_bits=20.0)
    assert fit is not None
    assert fit.is_poor
    assert fit.to_json()["is_poor"] is True


def test_good_fits_are_called_poor_at_about_the_stated_rate() -> None:
    """12 good fits at 1 % (some more, since the fit has errors of its own): more than 3 have chance below 1e-3."""
    poor = 0
    for seed in range(12):
        losses = skewnorm.rvs(3.0, loc=10.0, scale=2.0, size=200, random_state=seed)
        fit = fit_exposure(losses, 9.0, most_bits=20.0)
        assert fit is not None
        poor += fit.is_poor
    assert poor <= 3


@pytest.mark.parametrize(
    "losses", [np.ones(10), np.ones(500), np.array([*np.arange(100.0), np.inf])], ids=["few", "equal", "infinite"]
)
def test_no_fit_is_made_of_what_cannot_be_fitted(losses: np.ndarray) -> None:
    assert fit_exposure(losses, 0.5, most_bits=20.0) is None
