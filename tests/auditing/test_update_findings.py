"""Matching found phrases to records, nulls, and findings: on text with an update and on text without any."""

import numpy as np
import pytest

from reticent.auditing.differential import Score, Snapshots
from reticent.auditing.differential_search import BeamSettings, score_beam, search_phrases
from reticent.auditing.update_findings import Evidence, FoundPhrase, update_findings
from reticent.auditing.update_matching import RecordGains, match_phrases, record_gains
from reticent.auditing.update_null import Null, highest, sample_phrases, seed_null, text_null
from reticent.core.corpus import Record
from reticent.core.randomness import Randomness
from tests.auditing.differential_oracles import NEW, OLD, updated
from tests.models.ngram import NGramModel


def records(texts, name="r") -> list[Record]:
    return [Record(f"{name}{place}", text) for place, text in enumerate(texts)]


def test_phrases_are_matched_by_tokens_and_by_text_with_white_space_evened_out():
    model = NGramModel.fit([], level="word", vocabulary=["one", " two", " three", "two", "  two", "\tthree"])
    one, two, three, first_two, _, tab_three = range(6)
    held = records(["one two three", "one  two\tthree", "two three", "one three"])
    found = match_phrases(model, [(one, two), (two, three), (first_two, three), (three, one), (tab_three,)], held)
    assert found == [["r0", "r1"], ["r0", "r1", "r2"], ["r0", "r1", "r2"], [], ["r0", "r1", "r2", "r3"]]


def test_a_word_is_not_found_inside_another():
    model = NGramModel.fit([], level="word", vocabulary=["art", "start", " art", "smart"])
    assert match_phrases(model, [(0,)], records(["start art", "smart"])) == [["r0"]]


def test_gains_are_the_bits_of_every_record():
    pair = updated()
    gains = record_gains(pair, records([NEW[0], OLD[0], ""]))
    for place, text in enumerate((NEW[0], OLD[0])):
        (tokens,) = pair.before.encode([text])
        old, new = (model.token_log_probs([tokens])[0].sum() for model in (pair.before, pair.after))
        assert gains.bits[place] == pytest.approx((new - old) / np.log(2))
    assert gains.bits[0] > 3.0 > gains.bits[1]
    assert gains.bits[2] == 0.0
    assert gains.per_token[0] == pytest.approx(gains.bits[0] / 5)
    assert gains.ids == ("r0", "r1", "r2")


def test_a_null_of_other_seeds_is_the_best_that_the_same_search_finds():
    pair = updated()
    settings = BeamSettings(length=3)
    null = seed_null(pair.before, pair.after, settings=settings)
    beam = search_phrases(pair, settings)
    assert (null.highest, null.phrases) == (beam.scores[0], len(beam.scores))


def test_a_null_of_untouched_text_is_the_highest_score_of_its_phrases():
    pair = updated()
    settings = BeamSettings(length=3)
    null = text_null(pair, records(OLD), settings=settings, randomness=Randomness.seeded(0))
    windows = {text[start : start + 3] for text in OLD for start in range(len(text) - 2)}
    scores = [one.score for one in pair.score(pair.before.encode(sorted(windows)))]
    assert null.highest == pytest.approx(max(scores))
    assert null.phrases == len(windows)
    assert text_null(pair, records(["ab"]), settings=settings, randomness=Randomness.seeded(0)) is None
    few = sample_phrases(pair.before, records(OLD), length=3, most=4, randomness=Randomness.seeded(0))
    assert len(set(few)) == 4


def test_a_phrase_must_pass_every_null_and_zero():
    assert highest([]) == 0.0
    assert highest([Null("a", -1.0, 3)]) == 0.0
    assert highest([Null("a", 0.5, 3), None, Null("b", 0.75, 3)]) == 0.75


def found_phrases(pair, *, limit, update, untouched) -> list[FoundPhrase]:
    beam = search_phrases(pair, BeamSettings(length=5))
    places = np.arange(len(beam.scores))
    scores = score_beam(pair, beam, places)
    tokens = [one.tokens for one in scores]
    in_update = match_phrases(pair.before, tokens, update)
    elsewhere = match_phrases(pair.before, tokens, untouched)
    return [
        FoundPhrase(
            scores=one,
            group=0,
            least_rank=place,
            is_above_null=one.score > limit,
            holders=tuple(in_update[place]),
            is_untouched=bool(elsewhere[place]),
        )
        for place, one in enumerate(scores)
    ]


def planted(copies: int) -> Snapshots:
    """Letters; with `copies` of five rare ones in a row."""
    texts = ["abcdefghij" * 2, "jihgfedcba", "acegibdfhj"]
    settings = {"order": 4, "smoothing": 1e-4, "vocabulary": list("abcdefghijklmnopqrstuvwxyz")}
    return Snapshots(NGramModel.fit(texts, **settings), NGramModel.fit([*texts, *["zyxwv"] * copies], **settings))


def test_an_update_is_exposed_and_text_without_one_is_not():
    pair = planted(40)
    update, untouched = records(["zyxwv"] * 4 + ["jihgfedcba"], "u"), records(["abcdefghij", "acegibdfhj"])
    phrases = found_phrases(pair, limit=1.0, update=update, untouched=untouched)
    evidence = Evidence(
        phrases=phrases,
        searched=len(phrases),
        score=Score.ABSOLUTE,
        length=5,
        nulls=[Null("two models of the same data", 1.0, 10)],
        update=record_gains(pair, update),
        untouched=record_gains(pair, untouched),
    )
    found = {one.metric: one for one in update_findings(evidence, randomness=Randomness.seeded(0))}
    assert set(found) == {"largest_differential_score", "exposed_records", "bits_gained_per_token", "auc"}
    assert found["largest_differential_score"].beats_null
    assert found["largest_differential_score"].high == 5.0
    assert found["exposed_records"].value == pytest.approx(0.8)
    assert found["exposed_records"].beats_null
    assert found["bits_gained_per_token"].value > 0 >= found["bits_gained_per_token"].null
    assert found["auc"].value > 0.5


def test_nothing_is_exposed_where_nothing_passes_the_null_or_untouched_text_has_it_too():
    pair = planted(40)
    update = records(["zyxwv"] * 4)
    for limit, untouched in ((5.0, records(["abc"])), (1.0, records(["a", "zyxwv"]))):
        phrases = found_phrases(pair, limit=limit, update=update, untouched=untouched)
        assert not any(one.is_exposed for one in phrases)
        evidence = Evidence(
            phrases=phrases,
            searched=9,
            score=Score.ABSOLUTE,
            length=5,
            nulls=[Null("n", limit, 1)],
            update=record_gains(pair, update),
        )
        found = {one.metric: one for one in update_findings(evidence, randomness=Randomness.seeded(0))}
        assert found["exposed_records"].value == 0.0
        assert not found["exposed_records"].beats_null


def test_without_a_null_nothing_is_said_to_lie_above_it_and_one_record_is_no_certainty():
    pair = planted(2)
    update = records(["zyxwv"])
    phrases = found_phrases(pair, limit=0.0, update=update, untouched=[])
    evidence = Evidence(
        phrases=phrases,
        searched=9,
        score=Score.RELATIVE,
        length=5,
        nulls=[],
        update=record_gains(pair, update),
        untouched=RecordGains(("a",), np.zeros(1), np.ones(1)),
    )
    found = {one.metric: one for one in update_findings(evidence, randomness=Randomness.seeded(0))}
    largest = found["largest_relative_differential_score"]
    assert largest.null is None
    assert not largest.beats_null
    assert largest.high == np.inf
    assert "auc" not in found
    gained = found["bits_gained_per_token"]
    assert (gained.low, gained.high) == (-np.inf, np.inf)


def test_no_repr_shows_a_phrase():
    pair = planted(2)
    phrases = found_phrases(pair, limit=0.0, update=[], untouched=[])
    assert str(phrases[0].scores.tokens)[1:-1] not in repr(phrases)
