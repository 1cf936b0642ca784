"""Canary phrases by frequency class: their fifths, their structure, and that they are new."""

from collections import Counter

import pytest

from reproductions.updates.canary_making import (
    TEMPLATE,
    FrequencyClass,
    PhraseSettings,
    PhraseSpace,
    Slot,
    frequency_parts,
    make_phrase_canaries,
)
from reticent.core.errors import ConfigError
from reticent.core.randomness import Randomness

STEMS = [f"{first}{second}{third}on" for first in "bcdfg" for second in "aeiou" for third in "lmnr"]
ENDINGS = ("ers", "ed", "ly", "al", "ment")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Every stem with every ending; stem i stands i + 1 times."""
    return [
        " ".join(f"{stem}{ending}" for stem in STEMS[place:]) for ending in ENDINGS for place in range(len(STEMS))
    ]


def test_fifths_hold_equally_many_words_the_rarest_first():
    counts = Counter({f"word{'x' * place}": place + 1 for place in range(23)}) + Counter({"X9": 50, "Upper": 4})
    parts = frequency_parts(counts)
    assert [len(part) for part in parts] == [4, 5, 4, 5, 5]
    assert [word for part in parts for word in part] == [f"word{'x' * place}" for place in range(23)]


@pytest.mark.parametrize("length", [1, 3, 5, 6, 10])
def test_classes_say_which_fifth_each_word_comes_from(length):
    assert set(FrequencyClass.ALL_LOW.parts(length)) == {0}
    rising = FrequencyClass.LOW_TO_HIGH.parts(length)
    assert list(rising) == sorted(rising)
    assert FrequencyClass.HIGH_TO_LOW.parts(length) == rising[::-1]
    mixed = FrequencyClass.MIXED.parts(length)
    assert sorted(mixed) == sorted(rising)
    assert mixed[0] == 0
    if length >= 3:
        assert list(mixed) not in (sorted(mixed), sorted(mixed, reverse=True))


def test_phrases_have_the_words_of_their_class_in_the_template_and_are_new(texts):
    settings = PhraseSettings(count=3, copies=7)
    made = make_phrase_canaries(texts, settings, randomness=Randomness.seeded(1))
    parts = frequency_parts(Counter(word for text in texts for word in text.split()))
    used = []
    for kind, canaries in made.items():
        assert len(canaries) == 3
        for canary in canaries:
            words = canary.text().split()
            used += words
            assert canary.copies == 7
            assert canary.secret.reveal() in canary.space
            assert not any(canary.text() in text for text in texts)
            for word, slot, part in zip(words, TEMPLATE, kind.parts(5), strict=True):
                assert slot.takes(word)
                assert word in parts[part]
    assert len(set(used)) == len(used)
    again = make_phrase_canaries(texts, settings, randomness=Randomness.seeded(1))
    assert [c.text() for cs in again.values() for c in cs] == [c.text() for cs in made.values() for c in cs]
    assert made[FrequencyClass.MIXED][0].text() not in repr(made)


def test_words_that_a_model_does_not_know_are_left_out(texts):
    known = frozenset(f"{stem}{ending}" for stem in STEMS[::2] for ending in ENDINGS)
    made = make_phrase_canaries(texts, PhraseSettings(known=known), randomness=Randomness.seeded(1))
    assert all(set(canary.text().split()) <= known for (canary,) in made.values())


def test_a_slot_without_words_is_an_error_that_names_it_and_no_text(texts):
    settings = PhraseSettings(template=(Slot("verb", ("zzz",)),))
    with pytest.raises(ConfigError, match="'verb'") as raised:
        make_phrase_canaries(texts, settings, randomness=Randomness.seeded(1))
    assert STEMS[0] not in str(raised.value)
    with pytest.raises(ConfigError, match="every phrase"):
        make_phrase_canaries(
            ["aly bly cly dly ely"],
            PhraseSettings(template=(Slot("a", ("y",)),)),
            randomness=Randomness.seeded(1),
        )


def test_a_space_lists_and_knows_its_phrases():
    space = PhraseSpace([["a", "b"], ["c"], ["d", "e"]])
    assert list(space) == ["a c d", "a c e", "b c d", "b c e"]
    assert space.size == 4
    assert "b c d" in space
    assert "b c" not in space
    assert "c c d" not in space
    assert space.sample(Randomness.seeded(0)) in space
