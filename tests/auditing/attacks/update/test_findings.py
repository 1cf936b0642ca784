"""Matching found phrases to records, nulls, and findings: on text with an update and on text without any."""

import numpy as np
import pytest

from reticent.auditing.attacks.update.findings import Evidence, FoundPhrase, update_findings
from reticent.auditing.attacks.update.matching import RecordGains, match_phrases, record_gains
from reticent.auditing.attacks.update.null import Highest, NullTest
from reticent.auditing.attacks.update.score import Snapshots, UpdateScore
from reticent.auditing.attacks.update.search import BeamSettings, score_beam, search_phrases
from reticent.auditing.metrics.intervals import APPROXIMATE
from reticent.core.corpus import Record
from tests.auditing.attacks.update.oracles import NEW, OLD, updated
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


def decided(limit: float, *, level: float = 0.05) -> NullTest:
    """As many null snapshots as a verdict needs, the highest of which scored `limit`."""
    needed = NullTest((), level).needed
    return NullTest(tuple(Highest(limit - place, 10) for place in range(needed)), level)


def found_phrases(pair, *, test, update, untouched) -> list[FoundPhrase]:
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
            p_value=test.p_value(one.score),
            is_above_null=test.is_above(one.score),
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
    test = decided(1.0)
    phrases = found_phrases(pair, test=test, update=update, untouched=untouched)
    evidence = Evidence(
        phrases=[one.scores for one in phrases],
        searched=len(phrases),
        score=UpdateScore.ABSOLUTE,
        length=5,
        test=test,
        record_test=test,
        excess=record_gains(pair, update).highest,
        update=record_gains(pair, update),
        untouched=record_gains(pair, untouched),
    )
    found = {one.metric: one for one in update_findings(evidence)}
    assert set(found) == {"largest_differential_score", "exposed_records", "bits_gained_per_token", "update_auc"}
    assert found["largest_differential_score"].beats_null
    assert found["largest_differential_score"].high == 5.0
    assert found["exposed_records"].value == pytest.approx(0.8)
    assert found["exposed_records"].beats_null
    assert found["bits_gained_per_token"].value > 0 >= found["bits_gained_per_token"].null
    assert APPROXIMATE in found["bits_gained_per_token"].notes
    assert found["update_auc"].value > 0.5


def test_nothing_is_exposed_where_no_window_passes_the_null_and_then_no_phrase_is_judged():
    pair = planted(40)
    update = records(["zyxwv"] * 4)
    gains = record_gains(pair, update)
    high, low = decided(5.0), decided(1.0)
    for record_test, phrase_test in ((high, high), (high, low)):
        evidence = Evidence(
            phrases=pair.score([(25, 24, 23, 22, 21)]),
            searched=9,
            score=UpdateScore.ABSOLUTE,
            length=5,
            test=phrase_test,
            record_test=record_test,
            excess=gains.highest,
            update=gains,
        )
        found = {one.metric: one for one in update_findings(evidence)}
        assert found["exposed_records"].value == 0.0
        assert not found["exposed_records"].beats_null
        assert not evidence.judges_phrases
        assert found["largest_differential_score"].null is None  # records come first: phrases have no verdict


@pytest.mark.parametrize("nulls", [0, 1, 18])
def test_with_too_few_nulls_nothing_is_exposed_and_no_verdict_is_given(nulls):
    pair = planted(40)
    update = records(["zyxwv"] * 4)
    test = NullTest((Highest(0.1, 5),) * nulls, 0.05)
    phrases = found_phrases(pair, test=test, update=update, untouched=[])
    assert not any(one.is_exposed for one in phrases)
    evidence = Evidence(
        phrases=[one.scores for one in phrases],
        searched=9,
        score=UpdateScore.ABSOLUTE,
        length=5,
        test=test,
        record_test=test,
        excess=record_gains(pair, update).highest,
        update=record_gains(pair, update),
    )
    found = {one.metric: one for one in update_findings(evidence)}
    assert found["largest_differential_score"].null is None
    assert any("at least 19 needed" in note for note in found["largest_differential_score"].notes)
    exposed = found["exposed_records"]
    assert "at least 19 needed" in exposed.void
    assert (exposed.low, exposed.high) == (0.0, 1.0)
    assert not any(one.beats_null for one in found.values())


def test_without_a_null_nothing_is_said_to_lie_above_it_and_one_record_is_no_certainty():
    pair = planted(2)
    update = records(["zyxwv"])
    test = NullTest((), 0.05)
    phrases = found_phrases(pair, test=test, update=update, untouched=[])
    evidence = Evidence(
        phrases=[one.scores for one in phrases],
        searched=9,
        score=UpdateScore.RELATIVE,
        length=5,
        test=test,
        record_test=test,
        excess=record_gains(pair, update).highest,
        update=record_gains(pair, update),
        untouched=RecordGains(("a",), ("a",), ((0,),), np.zeros(1), (np.zeros(1),)),
    )
    found = {one.metric: one for one in update_findings(evidence)}
    largest = found["largest_relative_differential_score"]
    assert largest.null is None
    assert not largest.beats_null
    assert largest.high == 5 * UpdateScore.RELATIVE.most_per_token
    assert "update_auc" not in found
    gained = found["bits_gained_per_token"]
    assert (gained.low, gained.high) == (-np.inf, np.inf)


def test_no_repr_shows_a_phrase():
    pair = planted(2)
    phrases = found_phrases(pair, test=NullTest((), 0.05), update=[], untouched=[])
    assert str(phrases[0].scores.tokens)[1:-1] not in repr(phrases)
