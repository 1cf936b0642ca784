"""The fast λ solve against bisection on core's divergence: equal to 1e-9 at every order."""

import math
import warnings

import numpy as np
import pytest

from reticent.accounting.mixing.charge import filtered_charges
from reticent.accounting.mixing.curves import Halves, Pull
from reticent.core.divergence import log_normalise, renyi_divergence, symmetric_renyi_divergence
from reticent.prediction.mechanisms.mixing_weight import filtered_weights, half_weights, radius_weights
from tests.accounting.mixing.oracles import log_mixture, slow_filtered_charges

ORDERS = (2.0, 3.0, 4.0, 7.0, 16.0, 1.05, 1.5, 2.5, 17.0, 20.5, 24.0, 64.0, 256.0)


def bisect(divergence, cap, upper):
    """The slow, obvious way: divergence(λ) is monotone."""
    if divergence(upper) <= cap:
        return upper
    low, high = 0.0, upper
    for _ in range(70):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if divergence(middle) <= cap else (low, middle)
    return low


def reaches(found, divergence, cap, upper):
    """Whether bisection would end within 1e-9 of `found`: a divergence that rises is within the cap just below it,
    and beyond the cap just above, unless there is no above."""
    below, above = found * (1.0 - 1e-9), found * (1.0 + 1e-9)
    return 0.0 < found <= upper and divergence(below) <= cap and (above >= upper or divergence(above) > cap)


def cases(seed, count=8):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        v, scale = int(rng.integers(2, 12)), rng.choice([0.1, 1.0, 4.0])
        rows = log_normalise(rng.normal(scale=scale, size=(3, v)))
        yield rows[0], rows[1], rows[2], float(np.exp(rng.normal(-4.0, 2.0)))


def filtered_charge(part, public, order, setting):
    return lambda x: float(slow_filtered_charges(part, public, x, order=order, **setting))


def half_divergence(first, second, public, order):
    def divergence(x):
        pair = log_mixture(first, public, x), log_mixture(second, public, x)
        return float(symmetric_renyi_divergence(*pair, order))

    return divergence


@pytest.mark.parametrize("order", ORDERS)
def test_weight_of_a_filtered_part_equals_bisection(order):
    for public, part, _, cap in cases(1):
        for parts, limit in ((1, 0.9), (2, 0.5), (8, 0.5), (16, 0.2), (4, 0.3)):
            setting = {"parts": parts, "weight_limit": limit}
            found = filtered_weights(Pull(np.exp(part)[None], np.exp(public), order), np.array([cap]), **setting)
            assert reaches(found[0], filtered_charge(part, public, order, setting), cap, limit)


@pytest.mark.parametrize("order", [*ORDERS, math.inf])
def test_weight_of_halves_equals_bisection(order):
    for public, first, second, cap in cases(2):
        found = half_weights(np.exp(first)[None], np.exp(second)[None], np.exp(public), order=order, leakage=cap)
        assert reaches(found[0], half_divergence(first, second, public, order), cap, 1.0)


@pytest.mark.parametrize("order", ORDERS)
def test_weight_within_a_radius_equals_bisection(order):
    for public, part, _, cap in cases(3):
        found = radius_weights(Pull(np.exp(part)[None], np.exp(public), order), cap)
        assert reaches(found[0], half_divergence(part, public, public, order), cap, 1.0)


def test_weight_at_order_infinity_meets_its_cap_exactly():
    for public, part, _, cap in cases(4):
        pull = Pull(np.exp(part)[None], np.exp(public), math.inf)
        weight = filtered_weights(pull, np.array([cap]), parts=3, weight_limit=0.9)
        charge = filtered_charges(pull, weight, parts=3, weight_limit=0.9)
        assert charge[0] == pytest.approx(cap, rel=1e-9) or (weight[0] == 0.9 and charge[0] < cap)


def test_the_solve_by_hand_for_three_tokens():
    # p − q = (½, −¼, −¼): both directions have χ²(λ) = 4λ²/(4−λ²), so λ = ½ at D = log(19/15).
    public, first, second = np.array([[1 / 2, 1 / 4, 1 / 4], [3 / 4, 1 / 8, 1 / 8], [1 / 4, 3 / 8, 3 / 8]])
    found = half_weights(first[None], second[None], public, order=2.0, leakage=math.log(19 / 15))
    assert found[0] == pytest.approx(0.5, rel=1e-12)
    # u = (½, −½, −½), θ = λ/1.5: reverse excess θ²/(4−θ²) = 1/63 at λ = 3/8; w = ¾, charge log(85/84).
    pull = Pull(first[None], public, 2.0)
    weight = filtered_weights(pull, np.array([math.log(85 / 84)]), parts=2, weight_limit=0.5)
    assert weight[0] == pytest.approx(3 / 8, rel=1e-12)


def test_a_one_sided_weight_is_caught():
    # Twin: only D(λh + (1−λ)r ‖ r). A part that never says what the public model says half the time passes it.
    public, part, cap = np.log([0.5, 0.5]), np.log([1 - 1e-9, 1e-9]), 0.5
    twin = bisect(lambda x: float(renyi_divergence(log_mixture(part, public, x), public, 4.0)), cap, 1.0)
    honest = radius_weights(Pull(np.exp(part)[None], np.exp(public), 4.0), cap)[0]
    assert honest < twin * 0.9
    for weight, holds in ((twin, False), (honest, True)):
        both = float(symmetric_renyi_divergence(log_mixture(part, public, weight), public, 4.0))
        assert (both <= cap * (1 + 1e-9)) is holds


@pytest.mark.parametrize("order", [4.0, 9.0, 16.0])
@pytest.mark.parametrize("chance", [1e-18, 3e-21, 1e-25, 1e-40, 1e-110])
def test_moments_at_the_edge_of_the_numbers_neither_warn_nor_miss_the_cap(order, chance):
    """A token that the public model hardly knows and a part is sure of: powers of the ratio overflow."""
    public, part, cap = np.array([1.0 - chance, chance]), np.array([[1e-12, 1.0 - 1e-12]]), 0.01
    setting = {"parts": 8, "weight_limit": 0.5}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pull = Pull(part, public, order)
        found = filtered_weights(pull, np.array([cap]), **setting)
        charge = filtered_charges(pull, found, **setting)
        assert radius_weights(pull, cap) > 0.0
    if np.isfinite(pull.moments()[-1, 0]) and found[0] > 1e-290:
        assert charge[0] == pytest.approx(cap, rel=1e-6)
    else:
        assert found[0] < 1e-200  # whatever the charge: such a weight is none


def counted_looks(monkeypatch, owner, *names):
    """A list to which every search adds a list: the names of the curves that it looked at."""
    looks = []
    for name in names:
        original = getattr(owner, name)

        def counted(self, weights, name=name, original=original, **options):
            looks[-1].append(name)
            return original(self, weights, **options)

        monkeypatch.setattr(owner, name, counted)
    return looks


@pytest.mark.parametrize("order", [4.0, 16.0, 17.0, 20.5, 64.0, 2.5])
@pytest.mark.parametrize("parts", [2, 8])
def test_the_number_of_looks_does_not_depend_on_the_rows(monkeypatch, parts, order):
    looks = counted_looks(monkeypatch, Pull, "forward", "nearly_reverse", "reverse", "both", "token_weights")
    for public, part, _, cap in [*cases(5), *far_halves(5, 4)]:
        looks.append([])
        pull = Pull(np.exp(part)[None], np.exp(public), order)
        filtered_weights(pull, np.array([cap]), parts=parts, weight_limit=0.5)
        filtered_charges(pull, np.array([0.1]), parts=parts, weight_limit=0.5)
    assert all(each == looks[0] for each in looks)
    if order in {4.0, 16.0}:
        assert looks[0].count("nearly_reverse") == 1
        assert looks[0][-1] == "reverse"  # the last is exact
    else:
        assert looks[0] == ["token_weights"] + ["both"] * (6 if order == 64.0 else 5)


def far_halves(seed, count):
    """Public models with a long tail and halves that differ from it by up to e^±30 at a token."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        v = int(rng.choice([2, 12, 300, 5000]))
        public = rng.normal(scale=rng.choice([0.3, 3.0, 8.0]), size=v)
        halves = public + rng.normal(scale=rng.choice([1e-3, 0.5, 2.0, 6.0]), size=(2, v))
        halves[rng.integers(2), rng.integers(v)] += rng.choice([-30.0, 0.0, 5.0, 15.0, 30.0])
        rows = log_normalise(np.vstack([public, halves]))
        yield rows[0], rows[1], rows[2], float(np.exp(rng.uniform(-12.0, -3.0)))


def silent_parts(seed, count):
    """Parts that hardly ever say some of what the public model says: there the reverse direction is the greater."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        v = int(rng.choice([3, 12, 300, 5000]))
        public = log_normalise(rng.normal(scale=rng.choice([0.3, 1.0]), size=v))
        part = public + rng.normal(scale=rng.choice([1e-3, 0.1]), size=v)
        part[rng.permutation(v)[: max(1, v // int(rng.choice([3, 10, 30])))]] -= rng.choice([1.0, 4.0, 20.0])
        yield public, log_normalise(part), float(np.exp(rng.uniform(-12.0, -5.0)))


@pytest.mark.parametrize("order", [2.0, 3.0, 4.0, 8.0, 16.0, 2.5, 20.0, 64.0])
@pytest.mark.parametrize("parts", [2, 8, 16])
def test_weight_of_a_silent_part_equals_bisection(order, parts):
    setting = {"parts": parts, "weight_limit": 0.5}
    reversed_ones = 0
    for public, part, cap in silent_parts(10, 24):
        pull = Pull(np.exp(part)[None], np.exp(public), order)
        found = filtered_weights(pull, np.array([cap]), **setting)
        assert reaches(found[0], filtered_charge(part, public, order, setting), cap, 0.5)
        reversed_ones += found[0] < 0.5 and np.argmax(pull.both(found)[0]) == 1
    assert reversed_ones >= 8


@pytest.mark.parametrize("order", [2.0, 3.0, 4.0, 8.0, 16.0, 1.05, 2.5, 20.0, 64.0, 512.0])
@pytest.mark.parametrize("parts", [2, 8, 16])
def test_weight_of_a_filtered_part_far_from_the_public_model_equals_bisection(order, parts):
    setting = {"parts": parts, "weight_limit": 0.5}
    for public, part, _, cap in far_halves(10, 12):
        found = filtered_weights(Pull(np.exp(part)[None], np.exp(public), order), np.array([cap]), **setting)
        assert reaches(found[0], filtered_charge(part, public, order, setting), cap, 0.5)


@pytest.mark.parametrize("order", [2.0, 3.0, 4.0, 8.0, 2.5, 20.0, 256.0])
def test_weight_of_halves_far_apart_equals_bisection(order):
    for public, first, second, cap in far_halves(6, 12):
        found = half_weights(np.exp(first)[None], np.exp(second)[None], np.exp(public), order=order, leakage=cap)
        assert reaches(found[0], half_divergence(first, second, public, order), cap, 1.0)


def test_steps_in_single_precision_alone_are_not_exact(monkeypatch):
    # Twin: the last step in single precision as well. It ends within 1e-4 of the root, and not within 1e-9.
    monkeypatch.setattr(Pull, "reverse", lambda self, theta, **_: Pull.nearly_reverse(self, theta))
    setting = {"parts": 8, "weight_limit": 0.5}
    errors = []
    for public, part, cap in silent_parts(10, 24):
        found = filtered_weights(Pull(np.exp(part)[None], np.exp(public), 4.0), np.array([cap]), **setting)
        slow = bisect(filtered_charge(part, public, 4.0, setting), cap, 0.5)
        errors.append(abs(found[0] / slow - 1.0))
        assert reaches(slow, filtered_charge(part, public, 4.0, setting), cap, 0.5)
        is_near = reaches(found[0], filtered_charge(part, public, 4.0, setting), cap, 0.5)
        assert is_near == (errors[-1] < 1e-9)
    assert 1e-9 < max(errors) < 1e-4


def test_public_chances_below_single_precision_do_not_break_the_way():
    public, part = np.array([1.0 - 1e-200, 1e-200]), np.array([[0.5, 0.5]])
    pull = Pull(part, public, 4.0)
    excess, slope = pull.nearly_reverse(np.array([0.01]))
    expected, _ = pull.reverse(np.array([0.01]))
    assert excess == pytest.approx(expected, abs=1e-4)  # both are logarithms
    assert (slope >= 1.0).all()


def test_the_number_of_looks_at_halves_does_not_depend_on_them(monkeypatch):
    looks = counted_looks(monkeypatch, Halves, "both")
    for public, first, second, _ in far_halves(8, 6):
        looks.append([])
        half_weights(np.exp(first)[None], np.exp(second)[None], np.exp(public), order=4.0, leakage=0.003)
    assert all(each == looks[0] for each in looks)
