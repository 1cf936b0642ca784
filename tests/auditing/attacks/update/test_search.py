"""Differential scores, beams and ranks against every phrase scored by itself, and snapshots that are refused."""

import numpy as np
import pytest

from reproductions.updates.rank import RankSettings, differential_rank
from reticent.auditing.attacks.update.branches import PlainBranches, branches_of
from reticent.auditing.attacks.update.score import RELATIVE_FLOOR, Snapshots, UpdateScore, timeline
from reticent.auditing.attacks.update.search import BeamSettings, search_phrases
from reticent.core.errors import ModelError
from reticent.models.huggingface.model import HuggingFaceModel
from tests.auditing.attacks.update.oracles import NEW, OLD, all_scores, ngram, plain_score, updated
from tests.models.ngram import NGramModel
from tests.models.tiny import tiny_gpt2, tiny_lora, tiny_lstm, tiny_model, tiny_tokenizer


@pytest.fixture(scope="module")
def pair() -> Snapshots:
    return updated()


@pytest.mark.parametrize("prefix", [(), (3, 3)])
def test_scores_are_the_definition(pair, prefix):
    phrases = [(3, 3, 3, 0, 1), (0,), (2, 1, 0)]
    for phrase, found in zip(phrases, pair.score(phrases, prefix=prefix), strict=True):
        assert found.score == pytest.approx(plain_score(pair, phrase, prefix=prefix), abs=1e-12)
        assert found.relative == pytest.approx(plain_score(pair, phrase, UpdateScore.RELATIVE, prefix), abs=1e-12)
        assert sum(found.increments) == pytest.approx(found.score)
        assert abs(found.score) <= len(phrase)


def test_bits_are_the_logarithm_of_the_phrases_own_probabilities(pair):
    (found,) = pair.score([(3, 3, 3)])
    before, after = (model.token_log_probs([(3, 3, 3)])[0].sum() for model in (pair.before, pair.after))
    assert found.bits == pytest.approx((after - before) / np.log(2))


def test_a_token_that_was_next_to_impossible_before_the_update_is_divided_by_the_floor():
    start = {"a": 0.5, "b": 0.5}
    before = NGramModel.from_table(list("ab"), {(): {"a": 1.0}, ("a",): {"<end>": 1.0}}, order=2)
    after = NGramModel.from_table(list("ab"), {(): start, ("a",): {"<end>": 1.0}, ("b",): {"<end>": 1.0}}, order=2)
    possible, impossible = Snapshots(before, after).score([(0,), (1,)])
    assert impossible.relative == pytest.approx(0.5 / RELATIVE_FLOOR)
    assert possible.relative == pytest.approx(-0.5)
    assert np.isfinite(impossible.bits)


@pytest.mark.parametrize("score", list(UpdateScore))
@pytest.mark.parametrize("length", [1, 2, 4])
@pytest.mark.parametrize("prefix", [(), (3, 3)])
def test_a_beam_as_wide_as_the_space_is_brute_force(pair, score, length, prefix):
    settings = BeamSettings(length=length, width=4**length, score=score, prefix=prefix, entries=15)
    beam = search_phrases(pair, settings)
    truth = all_scores(pair, length, score, prefix)
    assert len(beam.scores) == len(truth)
    found = {tuple(row): value for row, value in zip(beam.tokens.tolist(), beam.scores.tolist(), strict=True)}
    assert found == pytest.approx(truth, abs=1e-9)
    assert beam.scores.tolist() == sorted(beam.scores.tolist(), reverse=True)


def letters() -> Snapshots:
    """A model of some letters, and of these with forty copies of five rare ones."""
    texts = ["abcdefghij" * 2, "jihgfedcba", "acegibdfhj"]
    settings = {"order": 4, "smoothing": 1e-4, "vocabulary": list("abcdefghijklmnopqrstuvwxyz")}
    return Snapshots(NGramModel.fit(texts, **settings), NGramModel.fit([*texts, *["zyxwv"] * 40], **settings))


def naive_beam(pair, settings):
    """The algorithm in its plainest form: all extensions scored by themselves, sorted, cut."""
    tokens = [t for t in range(pair.before.vocabulary_size) if t not in pair.special_tokens]
    kept = sorted(((plain_score(pair, (t,)), (t,)) for t in tokens), key=lambda one: (-one[0], one[1]))
    kept = kept[: settings.width_at(1, len(tokens))]
    for step in range(2, settings.length + 1):
        grown = [(*phrase, t) for _, phrase in kept for t in tokens]
        scored = sorted(((plain_score(pair, p), p) for p in grown), key=lambda one: (-round(one[0], 9), one[1]))
        kept = scored[: settings.width_at(step, len(tokens))]
    return [phrase for _, phrase in kept]


@pytest.mark.parametrize("entries", [1, 5, 64, 2**20])
@pytest.mark.parametrize("width", [None, 1, 3])
def test_narrow_beams_equal_the_naive_algorithm_whatever_the_blocks(pair, entries, width):
    settings = BeamSettings(length=4, width=width, entries=entries)
    assert [tuple(row) for row in search_phrases(pair, settings).tokens.tolist()] == naive_beam(pair, settings)


def test_the_planted_text_is_found_first_and_deletion_is_the_roles_swapped(pair):
    added = letters()
    assert added.after.decode(search_phrases(added, BeamSettings(length=5)).tokens[:1]) == ["zyxwv"]
    deletion = Snapshots(added.after, added.before)
    assert deletion.before.decode(search_phrases(deletion, BeamSettings(length=5)).tokens[:1]) != ["zyxwv"]
    gone = search_phrases(deletion.swapped(), BeamSettings(length=5))
    assert added.after.decode(gone.tokens[:1]) == ["zyxwv"]
    assert pair.swapped().score([(3, 3, 3)])[0].score == pytest.approx(-pair.score([(3, 3, 3)])[0].score)


def test_widths_are_halved_from_the_whole_vocabulary():
    settings = BeamSettings(length=5)
    assert [settings.width_at(step, 10_000) for step in range(1, 6)] == [10_000, 5_000, 2_500, 1_250, 625]
    assert [BeamSettings(groups=5).width_at(step, 10_000) for step in (1, 2)] == [2_000, 1_000]
    assert BeamSettings().width_at(30, 10_000) == 1


def test_groups_are_searched_apart_and_begin_with_tokens_of_falling_score(pair):
    beam = search_phrases(pair, BeamSettings(length=3, groups=4))
    firsts = [{row[0] for row in beam.tokens[beam.groups == group].tolist()} for group in range(4)]
    assert [len(first) for first in firsts] == [1, 1, 1, 1]
    order = np.argsort(-np.array([plain_score(pair, (t,)) for t in range(4)]), kind="stable")
    assert [first.pop() for first in firsts] == order.tolist()
    # Each group's best is the best phrase with that beginning that a beam of its own finds.
    for group, token in enumerate(order.tolist()):
        best = beam.tokens[beam.best_of_groups(1)[group]]
        alone = search_phrases(pair, BeamSettings(length=2, width=1, prefix=(token,)))
        assert best.tolist() == [token, *alone.tokens[0].tolist()]


@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize("score", list(UpdateScore))
def test_ranks_are_exact_for_short_lengths(pair, length, score):
    truth = all_scores(pair, length, score)
    settings = RankSettings(score=score, entries=17)
    for phrase in list(truth)[:: max(1, len(truth) // 9)]:
        found = differential_rank(pair, phrase, settings=settings)
        assert found.is_exact
        assert found.higher == sum(value > truth[phrase] + 1e-6 for value in truth.values())
        level = sum(abs(value - truth[phrase]) <= 1e-6 * max(1.0, abs(truth[phrase])) for value in truth.values())
        assert found.tied == level - 1
        assert found.size == len(truth)


def test_a_beams_rank_is_a_lower_bound(pair):
    truth = all_scores(pair, 4)
    beam = search_phrases(pair, BeamSettings(length=4, width=2))
    for own in truth.values():
        assert beam.least_rank(own) <= sum(value > own for value in truth.values())
    best = tuple(beam.tokens[0].tolist())
    assert beam.holds(best)
    assert not beam.holds((0, 0, 0, 9))
    assert beam.least_rank(-5.0, leave_out=[best]) == len(beam.scores) - 1


def test_the_bound_cuts_nearly_everything_below_an_exposed_phrase():
    pair = letters()
    (phrase,) = pair.before.encode(["zyxwv"])
    found = differential_rank(pair, phrase)
    assert (found.is_exact, found.higher) == (True, 0)
    assert found.size == 26**5
    assert found.forward_tokens < 26**3  # of 12 million phrases


def test_a_bound_that_is_too_tight_would_be_caught(monkeypatch):
    pair = letters()
    (phrase,) = pair.before.encode(["zyxwa"])
    truth = differential_rank(pair, phrase)
    assert truth.is_exact
    assert truth.higher > 0  # zyxwv at least
    monkeypatch.setattr(UpdateScore, "most_per_token", 0.1)  # the broken twin: DS of one token passes 0.1
    assert differential_rank(pair, phrase).higher < truth.higher


def test_a_rank_that_is_not_settled_is_a_bracket_around_the_truth(pair):
    truth = all_scores(pair, 4)
    phrase = sorted(truth, key=truth.get)[len(truth) // 2]
    exact = differential_rank(pair, phrase)
    for most in (1, 2, 5, 20):
        bracket = differential_rank(pair, phrase, settings=RankSettings(most_rows=most))
        assert not bracket.is_exact
        assert bracket.least <= exact.higher <= bracket.greatest


def test_several_snapshots_show_at_which_update_a_phrase_came_and_went():
    models = [ngram(OLD), ngram(OLD + NEW), ngram(OLD)]
    phrase = models[0].encode(["dddab"])
    scored = Snapshots(models[0], models[1]).score(phrase)
    steps = timeline(models, scored)
    assert steps.shape == (2, 1)
    assert steps[0, 0] == pytest.approx(scored[0].score)
    after = Snapshots(models[0], models[1]).score([phrase[0][3:]], prefix=phrase[0][:3])
    assert timeline(models, after)[0, 0] == pytest.approx(after[0].score)
    assert steps[1, 0] == pytest.approx(-steps[0, 0])
    with pytest.raises(ValueError, match="two"):
        timeline(models[:1], scored)


def test_snapshots_with_other_vocabularies_or_tokenizers_are_refused():
    with pytest.raises(ModelError, match="different vocabularies") as raised:
        Snapshots(ngram(OLD), NGramModel.fit(OLD, vocabulary="abcde"))
    assert raised.value.hint
    with pytest.raises(ModelError, match="different tokenizers"):
        Snapshots(ngram(OLD), NGramModel.fit(["xyzz"], vocabulary="wxyz"))


def test_identical_snapshots_are_known_and_all_their_scores_are_zero():
    pair = Snapshots(ngram(OLD), ngram(OLD))
    assert pair.is_identical
    assert not updated().is_identical
    assert (search_phrases(pair, BeamSettings(length=3)).scores == 0.0).all()


@pytest.mark.parametrize("kind", ["gpt2", "llama", "mistral", "lstm", "lora"])
@pytest.mark.parametrize("limit", [2**30, 0, 4000])
def test_cached_branches_say_what_whole_contexts_say(kind, limit):
    model = tiny_model(kind)
    prefix = model.encode(["so: "])[0]
    cached, plain = branches_of(model, prefix), PlainBranches(model, prefix)
    assert type(cached) is not PlainBranches
    cached._limit = limit  # 0: every row is read again from the prefix; 4000: some are
    np.testing.assert_allclose(cached.first(), plain.first(), atol=2e-5)
    generator = np.random.default_rng(0)
    rows = 1
    for _ in range(3):
        parents = np.sort(generator.integers(0, rows, 14))
        tokens = generator.integers(3, model.vocabulary_size, 14)
        for part in (slice(0, 3), slice(3, 11), slice(11, 14)):
            mine, other = (side.read(parents[part], tokens[part], keep=True) for side in (cached, plain))
            np.testing.assert_allclose(mine, other, atol=2e-5)
        cached.advance()
        plain.advance()
        rows = 14
    if limit:
        assert cached.forward_tokens < plain.forward_tokens


def test_a_search_over_transformers_and_adapters_equals_the_naive_one():
    full = HuggingFaceModel(tiny_gpt2(), tiny_tokenizer(), name="before")
    adapted = HuggingFaceModel(tiny_lora(tiny_gpt2()), tiny_tokenizer(), name="after")
    pair = Snapshots(full, adapted)
    settings = BeamSettings(length=3, width=4, entries=200)
    found = search_phrases(pair, settings)
    assert [tuple(row) for row in found.tokens.tolist()] == naive_beam(pair, settings)
    assert found.scores[0] == pytest.approx(plain_score(pair, tuple(found.tokens[0].tolist())), abs=1e-5)


def test_phrases_longer_than_the_context_are_refused():
    pair = Snapshots(*(HuggingFaceModel(tiny_gpt2(seed), tiny_tokenizer()) for seed in (0, 1)))
    with pytest.raises(ModelError, match="too long"):
        search_phrases(pair, BeamSettings(length=48))


def test_an_lstm_reads_one_token_a_row():
    pair = Snapshots(*(HuggingFaceModel(tiny_lstm(seed), tiny_tokenizer()) for seed in (0, 1)))
    beam = search_phrases(pair, BeamSettings(length=4))
    size = pair.before.vocabulary_size - len(pair.special_tokens)
    assert beam.forward_tokens == 2 * (1 + size + size // 2 + size // 4)
