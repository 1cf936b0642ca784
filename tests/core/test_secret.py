"""Secrets never show themselves; spaces count and enumerate; canaries keep their place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core.randomness import Randomness
from reticent.core.secret import Canary, CodeSpace, ListedSpace, Secret, SecretSpace


def test_secret_is_masked_in_every_rendering():
    secret = Secret("843-58572-7002", "order")
    for shown in (repr(secret), str(secret), f"{secret}", f"{secret!r}", f"{[secret]}", format(secret, ">40")):
        assert "843" not in shown
    assert secret.reveal() == "843-58572-7002"


@given(st.integers(1, 4), st.sampled_from(["01", "abc", "0123456789"]))
def test_code_space_enumerates_each_code_once(length, alphabet):
    space = CodeSpace(length, alphabet)
    codes = list(space)
    assert len(codes) == len(set(codes)) == space.size
    assert all(code in space for code in codes)
    assert "x" * length not in space


def test_code_space_samples_uniformly_even_beyond_64_bits():
    space = CodeSpace(30)
    assert space.size == 10**30
    assert space.sample(Randomness.seeded(1)) in space
    first = [CodeSpace(1).sample(Randomness.seeded(seed)) for seed in range(200)]
    assert set(first) == set("0123456789")


def test_spaces_satisfy_the_protocol_and_hide_their_candidates():
    names = ListedSpace(("Ada", "Grace"))
    assert isinstance(names, SecretSpace)
    assert isinstance(CodeSpace(2), SecretSpace)
    assert "Ada" not in repr(names)
    assert names.sample(Randomness.seeded(1)) in names


def test_canary_texts_differ_only_in_the_secret():
    canary = Canary("c0", "My ID is: {}.", Secret("341752", "code"), CodeSpace(6), copies=20)
    assert canary.text() == "My ID is: 341752."
    assert canary.text("000000") == "My ID is: 000000."
    assert canary.prefix + "341752" + canary.suffix == canary.text()
    assert canary.bits == pytest.approx(19.93, abs=0.005)  # log2 of 10^6
    assert "341752" not in repr(canary)


@pytest.mark.parametrize(("template", "value"), [("no place", "1"), ("{} and {}", "1"), ("{}", "12"), ("{}", "x")])
def test_malformed_canaries_are_refused(template, value):
    with pytest.raises(ValueError, match="canary"):
        Canary("c", template, Secret(value, "code"), CodeSpace(1), copies=1)
