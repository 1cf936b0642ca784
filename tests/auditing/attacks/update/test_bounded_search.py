"""The search that proves what it can, against every phrase scored by itself, and a bound that is wrong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.auditing.attacks.update.bounded_search import (
    BoundedSettings,
    find_phrases,
    naive_tokens,
    search_bounded,
)
from reticent.auditing.attacks.update.descent import Descent, _Growth
from reticent.auditing.attacks.update.score import Snapshots, UpdateScore
from reticent.auditing.attacks.update.search import BeamSettings, search_phrases
from reticent.models.huggingface.model import HuggingFaceModel
from tests.auditing.attacks.update.oracles import all_scores, plain_score, updated
from tests.models.ngram import NGramModel
from tests.models.tiny import tiny_gpt2, tiny_lora, tiny_lstm, tiny_tokenizer


def keeps_its_promise(pair, beam, length, prefix=()) -> None:
    """Nothing outside the beam passes the ceiling, and the first `proved` phrases are the truth's first."""
    truth = all_scores(pair, length, prefix=prefix)
    found = {tuple(row): score for row, score in zip(beam.tokens.tolist(), beam.scores.tolist(), strict=True)}
    assert len(found) == len(beam.scores)
    assert found == pytest.approx({phrase: truth[phrase] for phrase in found}, abs=1e-9)
    others = [score for phrase, score in truth.items() if phrase not in found]
    assert max(others, default=-np.inf) <= beam.ceiling + 1e-9
    best = sorted(truth.values(), reverse=True)[: beam.proved]
    assert beam.scores[: beam.proved].tolist() == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("prefix", [(), (3, 3)])
@pytest.mark.parametrize("tokens", [None, 1, 1000])
def test_the_ceiling_holds_for_every_phrase_that_is_not_returned(length, prefix, tokens):
    pair = updated()
    chosen = BoundedSettings(length=length, prefix=prefix, top=2, most_tokens=tokens, entries=12)
    keeps_its_promise(pair, search_bounded(pair, chosen), length, prefix)


@settings(max_examples=30, deadline=None)
@given(
    old=st.lists(st.text("abcd", min_size=1, max_size=8), min_size=1, max_size=6),
    new=st.lists(st.text("abcd", min_size=4, max_size=4), min_size=1, max_size=6),
    length=st.integers(2, 4),
    tokens=st.integers(1, 200),
    entries=st.integers(1, 64),
)
def test_the_ceiling_holds_whatever_the_models_are(old, new, length, tokens, entries):
    fitted = {"order": 3, "smoothing": 0.01, "vocabulary": "abcd"}
    pair = Snapshots(NGramModel.fit(old, **fitted), NGramModel.fit([*old, *new], **fitted))
    chosen = BoundedSettings(length=length, top=1, most_tokens=tokens, entries=entries)
    keeps_its_promise(pair, search_bounded(pair, chosen), length)


def letters(copies: int = 40) -> Snapshots:
    """A model of some letters, and of these with copies of five rare ones."""
    texts = ["abcdefghij" * 2, "jihgfedcba", "acegibdfhj"]
    fitted = {"order": 4, "smoothing": 1e-4, "vocabulary": list("abcdefghijklmnopqrstuvwxyz")}
    return Snapshots(NGramModel.fit(texts, **fitted), NGramModel.fit([*texts, *["zyxwv"] * copies], **fitted))


def test_an_exposed_phrase_is_proved_to_be_the_best_of_all():
    pair = letters()
    beam = search_bounded(pair, BoundedSettings(length=5, top=1))
    assert beam.proved >= 1
    assert pair.before.decode(beam.tokens[:1].tolist()) == ["zyxwv"]
    assert beam.ceiling < beam.scores[0]
    assert beam.scores[0] == pytest.approx(plain_score(pair, tuple(beam.tokens[0].tolist())), abs=1e-9)


def test_two_models_without_a_difference_prove_nothing():
    pair = letters(copies=0)
    beam = search_bounded(pair, BoundedSettings(length=4))
    assert beam.proved == 0
    assert beam.ceiling >= 2.0  # two tokens are open after each pair


def test_a_bound_that_is_too_tight_would_be_caught(monkeypatch):
    """The broken twins: what was skipped forgotten, and a token allowed to add a tenth only."""
    pair = updated()
    chosen = BoundedSettings(length=4, top=2, most_tokens=1)
    honest = search_bounded(pair, chosen)
    for broken in (lambda growth: -np.inf, lambda growth: min(growth._highest, growth._floor)):
        with monkeypatch.context() as patched:
            patched.setattr(_Growth, "highest_cut", broken)
            patched.setattr(Descent, "narrow", lambda self, level, width, floor: level)
            with pytest.raises(AssertionError):
                keeps_its_promise(pair, _forgetful(pair, chosen, patched), 4)
    keeps_its_promise(pair, honest, 4)


def _forgetful(pair, chosen, patched):
    """A search that notes no bound but those of whole phrases."""
    patched.setattr(Descent, "note", lambda self, bound: setattr(self, "ceiling", max(self.ceiling, bound - 3.0)))
    return search_bounded(pair, chosen)


def test_a_wider_search_finds_no_less_and_its_ceiling_does_not_rise():
    pair = updated()
    beams = [search_bounded(pair, BoundedSettings(length=5, top=3, most_tokens=n)) for n in (1, 400, 4000)]
    assert [beam.scores[0] for beam in beams] == sorted(beam.scores[0] for beam in beams)
    assert [beam.ceiling for beam in beams] == sorted((beam.ceiling for beam in beams), reverse=True)


@pytest.mark.parametrize("length", [4, 5, 6, 8])
def test_a_tenth_of_the_naive_beams_tokens_is_read_by_default(length):
    pair = Snapshots(*(HuggingFaceModel(tiny_lstm(seed), tiny_tokenizer()) for seed in (0, 1)))
    size = pair.before.vocabulary_size - len(pair.special_tokens)
    beam = search_bounded(pair, BoundedSettings(length=length, top=1))
    # A vocabulary this small cannot do with a tenth: sixteen phrases are kept at every length at least.
    assert beam.forward_tokens <= max(naive_tokens(length, size) // 10, 2 * size + 2 * 16 * 2 * length)


def test_the_naive_beams_tokens_are_what_it_reads():
    pair = letters()
    for length in (2, 3, 5):
        beam = search_phrases(pair, BeamSettings(length=length, width=26))
        assert beam.forward_tokens == naive_tokens(length, 26)  # an n-gram model has no cache


@pytest.mark.parametrize("kind", ["lstm", "adapter"])
def test_cached_models_are_searched_as_plain_ones_are(kind):
    before = tiny_lstm(0) if kind == "lstm" else tiny_gpt2()
    after = tiny_lstm(1) if kind == "lstm" else tiny_lora(tiny_gpt2())
    pair = Snapshots(*(HuggingFaceModel(module, tiny_tokenizer()) for module in (before, after)))
    size = pair.before.vocabulary_size
    everything = BoundedSettings(length=3, top=5, most_tokens=10 * size**2, entries=61 * size)
    beam = search_bounded(pair, everything)
    whole = search_phrases(pair, BeamSettings(length=3, width=size**2))
    np.testing.assert_allclose(beam.scores[:5], whole.scores[:5], atol=1e-5)
    again = pair.score([tuple(row) for row in beam.tokens[:5].tolist()])
    assert [one.score for one in again] == pytest.approx(beam.scores[:5].tolist(), abs=1e-5)


def test_settings_choose_the_search_and_what_has_no_bound_is_refused():
    pair = letters()
    bounded = find_phrases(pair, BeamSettings(length=4, is_bounded=True), top=3)
    assert np.isfinite(bounded.ceiling)
    assert find_phrases(pair, BeamSettings(length=4)).ceiling == np.inf
    for wrong in ({"width": 3}, {"groups": 2}, {"score": UpdateScore.RELATIVE}):
        with pytest.raises(ValueError, match="bound"):
            BeamSettings(is_bounded=True, **wrong)
    with pytest.raises(ValueError, match="positive"):
        BoundedSettings(top=0)
