"""Ceilings from the trade-off curve: exact ROC curves of finite pairs never pass them, and pass the broken ones."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from reticent.accounting.bounds.tradeoff import (
    advantage_ceiling,
    auc_ceiling,
    concave_area,
    true_positive_rate_ceiling,
)
from reticent.accounting.guarantees import guarantee_of
from reticent.core.event import Gaussian, NonPrivate
from reticent.core.guarantee import Guarantee, Neighbours, Notion, Unit
from tests.accounting.oracles import divergence, hockey_stick, random_pair, roc

ORDERS = (1.1, 2.0, 4.0, 16.0)
EPSILONS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0, 3.0)


def guarantee(epsilon: float = math.inf, *, delta: float = 0.0, **points: object) -> Guarantee:
    return Guarantee(
        mechanism="test",
        notion=Notion.DIFFERENTIAL_PRIVACY,
        unit=Unit.RECORD,
        neighbours=Neighbours.ADD_REMOVE,
        epsilon=epsilon,
        delta=delta,
        covers="test",
        **points,  # type: ignore[arg-type]
    )


def proved(p: np.ndarray, q: np.ndarray, *, shrink: float = 1.0) -> dict[str, Guarantee]:
    """What is true of a pair, as (ε, δ) points alone and as Rényi points alone; `shrink` < 1 makes it a lie."""
    profile = tuple((epsilon, shrink * hockey_stick(p, q, epsilon)) for epsilon in EPSILONS)
    renyi = tuple((order, shrink * divergence(p, q, order)) for order in ORDERS)
    top = EPSILONS[-1]
    return {
        "profile": guarantee(top, delta=profile[-1][1], profile=profile),
        "renyi": guarantee(1e6, delta=1.0, renyi=renyi),
    }


def area(fpr: np.ndarray, tpr: np.ndarray) -> float:
    return float(np.sum(np.diff(fpr) * (tpr[1:] + tpr[:-1]) / 2))


@pytest.mark.parametrize("kind", ["profile", "renyi"])
def test_exact_roc_curves_never_pass_the_ceilings_but_pass_those_of_a_lie(kind: str) -> None:
    generator = np.random.default_rng(21)
    caught = {"tpr": 0, "advantage": 0, "auc": 0}
    for index in range(25 if kind == "profile" else 10):
        p, q = random_pair(generator, int(generator.integers(2, 7)), spread=float(generator.uniform(0.1, 2.0)))
        true, lie = proved(p, q)[kind], proved(p, q, shrink=0.4)[kind]
        fpr, tpr = roc(p, q)
        for rate, power in zip(fpr, tpr, strict=True):
            rate, power = min(float(rate), 1.0), min(float(power), 1.0)
            assert power <= true_positive_rate_ceiling(true, rate) + 1e-9
            assert power <= true_positive_rate_ceiling(true, rate) + 1e-9
            caught["tpr"] += power > true_positive_rate_ceiling(lie, rate) + 1e-9
        assert (tpr - fpr).max() <= advantage_ceiling(true) + 1e-9
        caught["advantage"] += (tpr - fpr).max() > advantage_ceiling(lie) + 1e-9
        if index < 4:
            assert area(fpr, tpr) <= auc_ceiling(true) + 1e-9
            caught["auc"] += area(fpr, tpr) > auc_ceiling(lie) + 1e-9
    assert all(count >= 2 for count in caught.values()), caught


def test_a_full_profile_makes_the_ceilings_tight() -> None:
    # A Gaussian of multiplier 1: power Φ(Φ⁻¹(α) + 1), AUC Φ(1/√2), advantage 2Φ(1/2) − 1 (Dong, Roth and Su 2022)
    proven = guarantee_of(Gaussian(1.0), delta=1e-5, unit=Unit.RECORD)
    for rate in (1e-3, 0.01, 0.1, 0.5, 0.9):
        exact = norm.cdf(norm.ppf(rate) + 1.0)
        assert exact - 1e-12 <= true_positive_rate_ceiling(proven, rate) <= exact * 1.01
    assert advantage_ceiling(proven) == pytest.approx(2 * norm.cdf(0.5) - 1, rel=1e-9)
    assert norm.cdf(1 / math.sqrt(2)) <= auc_ceiling(proven) <= norm.cdf(1 / math.sqrt(2)) + 0.002


def test_pure_privacy_has_its_closed_forms() -> None:
    proven = guarantee(1.0)
    assert true_positive_rate_ceiling(proven, 0.01) == pytest.approx(math.e * 0.01, rel=1e-9)
    assert true_positive_rate_ceiling(proven, 0.5) == pytest.approx(1 - math.exp(-1) * 0.5, rel=1e-9)
    assert advantage_ceiling(proven) == pytest.approx(math.tanh(0.5), rel=1e-9)
    corner = 1 / (1 + math.e)  # the ROC is two straight lines through (corner, 1 − corner)
    assert auc_ceiling(proven) == pytest.approx(1 - corner, abs=2e-3)
    assert auc_ceiling(proven) >= 1 - corner
    assert true_positive_rate_ceiling(proven, 0.0) == 0.0
    assert true_positive_rate_ceiling(guarantee(1.0, delta=0.25), 0.0) == pytest.approx(0.25)


def test_without_proof_everything_is_allowed_and_with_perfect_privacy_nothing() -> None:
    unprotected = guarantee_of(NonPrivate(), delta=1e-5, unit=Unit.RECORD)
    assert true_positive_rate_ceiling(unprotected, 0.01) == 1.0
    assert advantage_ceiling(unprotected) == 1.0
    assert auc_ceiling(unprotected) == 1.0
    perfect = guarantee(0.0)
    assert true_positive_rate_ceiling(perfect, 0.3) == pytest.approx(0.3)
    assert advantage_ceiling(perfect) == pytest.approx(0.0, abs=1e-9)
    assert auc_ceiling(perfect) == pytest.approx(0.5, abs=1e-3)


def test_the_area_bound_lies_above_every_concave_curve_through_the_nodes() -> None:
    x = np.linspace(0.0, 1.0, 12)
    for power in (0.2, 0.5, 0.9, 1.0):
        exact = 1.0 / (1.0 + power)
        trapezoid = area(x, x**power)
        assert concave_area(x, x**power) >= exact - 1e-12
        assert trapezoid <= exact + 1e-12  # the plain rule would be too low
    assert concave_area(x, x**0.9) == pytest.approx(1 / 1.9, abs=2e-3)


def test_an_impossible_rate_is_refused() -> None:
    with pytest.raises(ValueError):
        true_positive_rate_ceiling(guarantee(1.0), 1.2)


@pytest.mark.parametrize("points", [{"renyi": ((2.0, math.nan),)}, {"profile": ((math.nan, 0.1),)}])
@pytest.mark.parametrize(
    "ceiling", [advantage_ceiling, auc_ceiling, lambda of: true_positive_rate_ceiling(of, 0.1)]
)
def test_no_ceiling_follows_from_a_point_that_is_not_a_number(ceiling, points) -> None:
    broken = guarantee()
    for name, value in points.items():
        object.__setattr__(broken, name, value)  # past the guarantee's own check
    with pytest.raises(ValueError, match="found"):
        ceiling(broken)
