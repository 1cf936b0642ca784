"""Compiled loops that the processes of a test run share: each is found by all that it was made of."""

import numba
import numpy as np
import pytest

from reticent.accounting.mixing import loops, power_loops
from tests.shared_loops import _described, _loops_of, compiled_here, name_of

SIGNATURE = (numba.float64,)


def adding(number, **options):
    """A compiled function that adds a number, which is a constant in its machine code."""

    def add(x):
        return x + number

    return numba.njit(**options)(add)


def test_a_loop_is_found_again_by_its_name():
    assert name_of(adding(1), SIGNATURE) == name_of(adding(1), SIGNATURE)
    assert name_of(loops._moments_from(4), SIGNATURE) == name_of(compiled_here(loops._moments_from(4)), SIGNATURE)


def test_names_tell_orders_precisions_options_and_signatures_apart():
    others = [
        name_of(adding(2), SIGNATURE),
        name_of(adding(1.0), SIGNATURE),
        name_of(adding(True), SIGNATURE),
        name_of(adding(1, fastmath={"nsz"}), SIGNATURE),
        name_of(adding(1), (numba.float32,)),
        *(name_of(loops._moments_from(first), SIGNATURE) for first in (1, 4, 7)),
        *(
            name_of(loops._reverse_at(order, real, has_falls=has_falls), SIGNATURE)
            for order in (2, 3)
            for real in (np.float32, np.float64)
            for has_falls in (False, True)
        ),
    ]
    assert len({name_of(adding(1), SIGNATURE), *others}) == 1 + len(others)


@pytest.mark.parametrize("name", ["_NEAR", "_LEAST"])
def test_a_constant_of_what_a_loop_calls_is_part_of_its_name(monkeypatch, name):
    before = name_of(power_loops._part_sums, SIGNATURE)  # calls `_terms`, which has the constant
    monkeypatch.setattr(power_loops, name, 0.5)
    assert name_of(power_loops._part_sums, SIGNATURE) != before


def test_what_cannot_be_told_apart_is_refused():
    with pytest.raises(TypeError, match="tell two values"):
        _described(np.zeros(3))


def test_a_loaded_loop_gives_the_bits_of_the_one_that_was_compiled(tmp_path):
    rows = np.random.default_rng(0).random((1, 2, 700))
    first = numba.njit(loops._add_rows.py_func)
    first._cache = _loops_of(first, tmp_path)
    expected, found = np.empty((1, 2)), np.empty((1, 2))
    first(rows, expected)
    assert len(list(tmp_path.iterdir())) == 1
    second = numba.njit(loops._add_rows.py_func)
    second._cache = _loops_of(second, tmp_path)
    second(rows, found)
    assert second.stats.cache_hits
    assert (found == expected).all()
    assert (found > 0.0).all()
