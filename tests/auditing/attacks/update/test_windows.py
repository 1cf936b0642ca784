"""Windows inside texts: scores by the definition, whole words, records judged beyond what any update teaches."""

import numpy as np
import pytest

from reticent.auditing.attacks.update.guided import GuidedSettings, write_texts
from reticent.auditing.attacks.update.matching import record_gains
from reticent.auditing.attacks.update.null import NullTest, window_excess
from reticent.auditing.attacks.update.score import Snapshots, UpdateScore
from reticent.auditing.attacks.update.windows import (
    distinct_phrases,
    whole_words,
    window_scores,
    windows_apart,
)
from reticent.core.corpus import Record
from tests.auditing.attacks.update.oracles import plain_score, updated
from tests.models.ngram import NGramModel

LETTERS = list("abcdefghijklmnopqrstuvwxyz")


def planted(copies: int = 40, *, where: str = "abczyxwvcba") -> Snapshots:
    """Letters, and the same with copies of five rare ones in the middle of a text."""
    texts = ["abcdefghij" * 2, "jihgfedcba", "acegibdfhj", "abcabc", "cbacba"]
    settings = {"order": 4, "smoothing": 1e-4, "vocabulary": LETTERS}
    return Snapshots(NGramModel.fit(texts, **settings), NGramModel.fit([*texts, *[where] * copies], **settings))


@pytest.mark.parametrize("score", list(UpdateScore))
def test_every_window_has_the_score_of_the_definition_after_all_that_stands_before_it(score):
    pair = updated()
    (tokens,) = pair.before.encode(["abcdddabca"])
    before, after = (model.token_log_probs([tokens])[0] for model in (pair.before, pair.after))
    found = window_scores(before, after, length=3, score=score)
    expected = [plain_score(pair, tokens[start : start + 3], score, tokens[:start]) for start in range(8)]
    assert found == pytest.approx(expected, abs=1e-9)
    assert window_scores(before[:2], after[:2], length=3) == pytest.approx([plain_score(pair, tokens[:2])])
    assert len(window_scores(before[:0], after[:0], length=3)) == 0


def test_windows_of_a_text_share_no_token_and_the_highest_comes_first():
    pair = planted()
    (tokens,) = pair.before.encode(["abczyxwvcbaabc"])
    before, after = (model.token_log_probs([tokens])[0] for model in (pair.before, pair.after))
    found = windows_apart(tokens, before, after, length=4)
    places = [set(range(len(one.context), len(one.context) + 4)) for one in found]
    assert sum(map(len, places)) == len(set().union(*places))
    assert found[0].score == pytest.approx(window_scores(before, after, length=4).max())
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_phrases_that_say_nearly_the_same_are_shown_once():
    pair = planted()
    phrases = pair.score([(25, 24, 23, 22), (24, 23, 22, 21), (0, 1, 2, 3)])
    kept = distinct_phrases(phrases, most=5)
    assert len(kept) == 2
    assert kept[0].score == max(one.score for one in phrases)
    assert len(distinct_phrases(phrases, most=1)) == 1


def test_a_window_is_shown_as_whole_words():
    model = NGramModel.fit([], level="word", vocabulary=["The", " gar", "den", " of", " ro", "ses", ".", " x"])
    text = (0, 1, 2, 3, 4, 5, 6)  # The garden of roses.
    assert model.decode([whole_words(model, text, (2, 5))]) == [" garden of roses"]
    assert whole_words(model, text, (0, 1)) == (0,)
    assert whole_words(model, text, (5, 7)) == (4, 5, 6)
    assert whole_words(model, text, (6, 9)) == (6,)  # a window that passes the end


def test_a_record_is_found_by_a_window_in_its_middle():
    pair = planted()
    gains = record_gains(pair, [Record("a", "abczyxwvcba"), Record("b", "abcdefgh"), Record("c", "")], length=5)
    assert gains.highest[0] > 4.0 > 1.0 > gains.highest[1]
    assert gains.highest[2] == -np.inf
    place = int(gains.windows[0].argmax())
    assert place >= 3
    assert gains.windows[0][3] > 4.0  # zyxwv


def test_what_every_update_teaches_is_no_excess_and_what_one_teaches_is():
    common, own = np.array([0.1, 4.5, 0.2]), np.array([4.6, 4.5, 0.2])
    nulls = [[common + 0.01 * place] for place in range(19)]
    found = window_excess([own], nulls)
    assert found.excess[0] == pytest.approx(4.6 - 0.19, abs=0.02)
    assert found.places[0] == 0
    assert NullTest(found.nulls, 0.05).is_above(float(found.excess[0]))
    unchanged = window_excess([common], nulls)
    assert not NullTest(unchanged.nulls, 0.05).is_above(float(unchanged.excess[0]))
    alone = window_excess([own, np.empty(0)], [])
    assert (alone.excess[0], alone.excess[1], alone.nulls) == (4.6, -np.inf, ())


def test_null_worlds_flag_a_record_as_often_as_said_and_records_judged_one_by_one_nearly_always():
    """2,000 worlds of 20 records: a rate of 0.05 has a standard error of 0.0049, and 0.07 is 4.1 of them."""
    generator = np.random.default_rng(3)
    worlds, alarms, one_by_one = 2000, 0, 0
    for _ in range(worlds):
        scores = generator.normal(size=(20, 20, 8)) + generator.normal(size=(20, 8))  # snapshot, record, window
        found = window_excess(list(scores[0]), [list(one) for one in scores[1:]])
        alarms += any(NullTest(found.nulls, 0.05).is_above(float(one)) for one in found.excess)
        highest = scores.max(axis=2)  # the broken twin: each record by its own nulls at the full level
        one_by_one += bool((highest[0] > highest[1:].max(axis=0)).any())
    assert 0.03 <= alarms / worlds <= 0.07
    assert one_by_one / worlds > 0.5


def test_guided_texts_write_out_what_the_update_added_in_the_middle_of_a_text():
    pair = planted(4)
    settings = GuidedSettings(texts=24, tokens=20, seed=1)
    written = write_texts(pair, settings)
    (best, *_) = written.phrases(settings, most=10)
    assert pair.before.decode([best.tokens])[0] in "abczyxwvcba"
    assert best.score > 3.0
    again = pair.score([best.tokens], prefix=best.context)[0]
    assert again.score == pytest.approx(best.score, abs=1e-9)
    assert written.words(pair.before, best)
    same = write_texts(pair, settings)
    assert [one.tokens for one in same.texts] == [one.tokens for one in written.texts]
    special = pair.special_tokens
    assert not any(token in special for text in written.texts for token in text.tokens)
    assert "zyx" not in repr(written)


def test_guidance_finds_more_of_the_update_than_sampling_alone():
    pair = planted(1)

    def hits(guidance: float) -> int:
        settings = GuidedSettings(texts=60, tokens=20, guidance=guidance, plausible=1e-3, seed=2)
        texts = pair.before.decode([one.tokens for one in write_texts(pair, settings).texts])
        return sum("zyxwv" in text for text in texts)

    assert hits(1.0) > 2 * hits(0.0)


def test_each_prefix_has_its_own_texts_and_is_never_part_of_a_phrase():
    pair = planted(4)
    (known, other) = (tuple(row) for row in pair.before.encode(["abczy", "jih"]))
    settings = GuidedSettings(texts=8, tokens=6, length=3, prefixes=(known, other))
    written = write_texts(pair, settings)
    assert [text.prefix for text in written.texts] == [known] * 4 + [other] * 4
    phrases = [phrase for text in written.texts for phrase in text.phrases(settings)]
    assert all(phrase.context[: len(known)] == known or phrase.context[: len(other)] == other for phrase in phrases)
    blocks = write_texts(pair, GuidedSettings(texts=8, tokens=6, length=3, prefixes=(known,), entries=27))
    assert len(blocks.texts) == 8  # one row a block, whatever the memory


@pytest.mark.parametrize("wrong", [{"texts": 0}, {"guidance": -1.0}, {"plausible": 0.0}, {"prefixes": ()}])
def test_settings_that_mean_nothing_are_refused(wrong):
    with pytest.raises(ValueError, match=r"positive|guidance"):
        GuidedSettings(**wrong)
