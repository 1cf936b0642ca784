"""Compiled loops that the processes of a test run share: each is found by all that it was made of."""

import numba
import numpy as np
import pytest

from reticent.accounting.mixing import loops, power_loops
from reticent.core.noise import compiled
from tests.shared_loops import Untold, _loops_of, compiled_here, name_of

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


def test_a_loop_of_values_that_cannot_be_told_apart_is_compiled_by_everybody(tmp_path):
    table = np.zeros(3)
    look_up = numba.njit(lambda place: table[place])
    with pytest.raises(Untold, match="tell two values"):
        name_of(look_up, (numba.int64,))
    look_up._cache = _loops_of(look_up, tmp_path)
    assert look_up(1) == 0.0
    assert not list(tmp_path.iterdir())


def test_the_loops_of_noise_are_shared_and_give_the_same_bits(tmp_path):
    words = np.random.default_rng(0).integers(0, 2**64, (compiled.gaussian.WORDS, 300), dtype=np.uint64)
    words.setflags(write=False)
    expected, found = (np.empty((compiled.gaussian.DRAWS, 300)) for _ in range(2))
    for out in (expected, found):
        fill = numba.njit(nogil=True, error_model="numpy")(compiled._fill.py_func)
        fill._cache = _loops_of(fill, tmp_path)
        fill(words, out)
    assert fill.stats.cache_hits
    assert (found == expected).all()
    assert np.isfinite(found).all()


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
