"""The n-gram oracle: exact numbers, total probability, sampling frequencies, round trips."""

import itertools
import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core.errors import ConfigError, ModelError
from reticent.core.model import Access, LanguageModel
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from tests.models.ngram import END, NGramModel

TEXTS = ["abba", "abab", "baa", "", "cab"]
TABLE = {
    (): {"a": 0.5, "b": 0.25, END: 0.25},
    ("a",): {"a": 0.1, "b": 0.7, END: 0.2},
    ("b",): {"a": 1.0},
}


def table_model() -> NGramModel:
    return NGramModel.from_table(["a", "b"], TABLE, order=2)


def counted(texts: list[str], context: str, symbol: str, *, order: int, smoothing: float) -> float:
    """The definition, slowly: pad with boundaries, look at every window."""
    vocabulary = len(set("".join(texts))) + 1
    windows = [("^" * (order - 1) + text + "$")[i : i + order] for text in texts for i in range(len(text) + 1)]
    padded = ("^" * (order - 1) + context)[len(context) :] if order > 1 else ""
    total = sum(window[:-1] == padded for window in windows)
    hits = sum(window == padded + symbol for window in windows)
    return (hits + smoothing) / (total + smoothing * vocabulary)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_fitted_probabilities_are_those_of_the_definition(order):
    model = NGramModel.fit(TEXTS, order=order, smoothing=0.3)
    for text in ("abc", "ca", "bbbb", ""):
        scored = model.token_log_probs([[*model.encode([text])[0], model.end_token]])[0]
        for place, symbol in enumerate(text + "$"):
            expected = counted(TEXTS, text[:place], symbol, order=order, smoothing=0.3)
            assert scored[place] == pytest.approx(math.log(expected), abs=1e-13)


def test_the_definition_catches_a_model_of_another_smoothing():
    model = NGramModel.fit(TEXTS, order=2, smoothing=0.31)
    scored = model.token_log_probs(model.encode(["ab"]))[0]
    assert abs(scored[1] - math.log(counted(TEXTS, "a", "b", order=2, smoothing=0.3))) > 1e-4


@given(
    st.lists(st.text("abc", max_size=6), min_size=1, max_size=5).filter(lambda texts: "".join(texts)),
    st.integers(1, 4),
    st.floats(1e-3, 10.0),
)
def test_every_distribution_sums_to_one(texts, order, smoothing):
    model = NGramModel.fit(texts, order=order, smoothing=smoothing)
    symbols = range(model.vocabulary_size - 1)
    contexts = [list(context) for length in range(3) for context in itertools.product(symbols, repeat=length)]
    rows = model.next_token_log_probs(contexts)
    assert rows.shape == (len(contexts), model.vocabulary_size)
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("model", [table_model(), NGramModel.fit(TEXTS, order=3)], ids=["table", "fitted"])
def test_all_texts_up_to_three_symbols_have_probability_one_in_all(model):
    symbols = range(model.vocabulary_size - 1)
    total = 0.0
    for length in range(4):
        for text in itertools.product(symbols, repeat=length):
            sequence = [*text] if length == 3 else [*text, model.end_token]  # length 3: however it goes on
            total += math.exp(model.token_log_probs([sequence])[0].sum())
    assert total == pytest.approx(1.0, abs=1e-12)


def test_a_table_is_scored_by_its_very_numbers():
    model = table_model()
    a, b, end = 0, 1, model.end_token
    scored = model.token_log_probs([[a, b, a, end], [b, b], []])
    np.testing.assert_allclose(np.exp(scored[0]), [0.5, 0.7, 1.0, 0.2], rtol=1e-15)
    np.testing.assert_allclose(np.exp(scored[1]), [0.25, 0.0], rtol=1e-15)
    assert scored[2].shape == (0,)
    np.testing.assert_allclose(
        np.exp(model.next_token_log_probs([[], [b, a]])), [[0.5, 0.25, 0.25], [0.1, 0.7, 0.2]]
    )


def test_scores_rows_and_continuations_agree():
    model = NGramModel.fit(TEXTS, order=3)
    prefix, continuations = model.encode(["ab"])[0], model.encode(["ba", "c", ""])
    by_continuation = model.continuation_log_probs(prefix, continuations)
    whole = model.token_log_probs([[*prefix, *continuation] for continuation in continuations])
    for part, everything, continuation in zip(by_continuation, whole, continuations, strict=True):
        assert np.array_equal(part, everything[2:])
        for place, token in enumerate(continuation):
            assert model.next_token_log_probs([[*prefix, *continuation[:place]]])[0, token] == part[place]


def test_what_follows_an_end_token_is_scored_as_a_new_text():
    model = NGramModel.fit(TEXTS, order=3)
    first, second = model.encode(["abb", "ca"])
    scored = model.token_log_probs([[*first, model.end_token, *second]])[0]
    assert np.array_equal(scored[4:], model.token_log_probs([second])[0])


def test_sampled_texts_have_the_frequencies_of_the_table():
    # 4,000 draws, |frequency - p| ≤ 4.5 sd for each of 4 events: false alarm below 4 · 7e-6; the seed is fixed.
    model, draws = table_model(), 4000
    sampled = model.generate([[]], Sampling(max_tokens=2), count=draws, randomness=Randomness.seeded(5))[0]
    a, b = 0, 1
    chances = {(): 0.25, (a,): 0.5 * 0.2, (a, b): 0.5 * 0.7, (b, a): 0.25}
    for text, p in chances.items():
        frequency = sampled.count(list(text)) / draws
        assert abs(frequency - p) < 4.5 * math.sqrt(p * (1 - p) / draws)


def test_generation_follows_the_sampler_and_repeats_with_its_seed():
    model = NGramModel.fit(TEXTS, order=2)
    greedy = Sampling(max_tokens=5, temperature=0.0)
    text = model.complete(["c"], greedy, count=2, randomness=Randomness.system())[0]
    assert text[0] == text[1]
    sequence = model.encode(["c" + text[0]])[0]
    for place in range(1, len(sequence)):
        assert model.next_token_log_probs([sequence[:place]])[0].argmax() == sequence[place]
    options = {"count": 3, "randomness": Randomness.seeded(1)}
    first = model.complete(["a", ""], Sampling(max_tokens=4), **options)
    options["randomness"] = Randomness.seeded(1)
    assert model.complete(["a", ""], Sampling(max_tokens=4), **options) == first
    with pytest.raises(ValueError):
        model.generate([[]], greedy, count=0, randomness=Randomness.system())


@given(st.text(max_size=40))
def test_words_join_to_the_text_they_came_from(text):
    if text == END or not text:
        return
    for level in ("word", "character"):
        model = NGramModel.fit([text], order=2, level=level)
        assert model.decode(model.encode([text])) == [text]


def test_word_level_with_an_unknown_symbol():
    model = NGramModel.fit(["my number is 5", "my number is 7"], order=2, level="word", unknown="<unk>")
    assert len(model.encode(["my number"])[0]) == 2
    strange = model.encode(["my dog"])[0]
    assert model.decode([strange]) == ["my<unk>"]


def test_text_outside_the_vocabulary_is_an_error_that_does_not_show_it():
    model = NGramModel.fit(TEXTS, order=2)
    with pytest.raises(ModelError) as caught:
        model.encode(["abzzyx"])
    assert "zz" not in caught.value.line()
    assert "4 of 6, the first at 2" in caught.value.line()


def test_a_given_vocabulary_keeps_its_order_and_its_unseen_symbols():
    model = NGramModel.fit(["11"], order=1, vocabulary="0123456789", smoothing=1.0)
    assert model.vocabulary_size == 11
    np.testing.assert_allclose(np.exp(model.next_token_log_probs([[]])[0]), [1 / 14, 3 / 14, *[1 / 14] * 8, 2 / 14])


@pytest.mark.parametrize(
    "model", [table_model(), NGramModel.fit(TEXTS, order=3, unknown="?")], ids=["table", "fit"]
)
def test_saved_then_loaded_is_the_identity(tmp_path, model):
    model.save(tmp_path / "model.json")
    loaded = NGramModel.load(tmp_path / "model.json")
    assert loaded.fingerprint == model.fingerprint
    assert np.array_equal(
        loaded.next_token_log_probs([[], [0], [1, 0]]), model.next_token_log_probs([[], [0], [1, 0]])
    )
    assert loaded.name == model.name


def test_fingerprint_changes_with_every_part_of_the_model():
    variants = [
        NGramModel.fit(TEXTS, order=3),
        NGramModel.fit(TEXTS, order=2),
        NGramModel.fit(TEXTS, order=3, smoothing=0.2),
        NGramModel.fit([*TEXTS, "a"], order=3),
        NGramModel.fit(TEXTS, order=3, vocabulary="cba"),
        NGramModel.fit(TEXTS, order=3, level="word"),
    ]
    assert len({model.fingerprint for model in variants}) == len(variants)
    assert NGramModel.fit(TEXTS, order=3).fingerprint == variants[0].fingerprint


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "model.json"
    table_model().save(path)
    document = json.loads(path.read_text())
    for change, error in [
        ({"schema_version": 2}, ConfigError),
        ({"kind": "other"}, ModelError),
        ({"rows": [{"context": [0]}]}, ModelError),
        ({"order": 0}, ModelError),
    ]:
        path.write_text(json.dumps({**document, **change}))
        with pytest.raises(error):
            NGramModel.load(path)
    path.write_text("{")
    with pytest.raises(ModelError):
        NGramModel.load(path)
    with pytest.raises(ModelError):
        NGramModel.load(tmp_path / "absent.json")


@pytest.mark.parametrize(
    "table",
    [
        {(): {"a": 0.6, "b": 0.5}, ("a",): {END: 1.0}, ("b",): {END: 1.0}},
        {(): {"a": 1.5, "b": -0.5}, ("a",): {END: 1.0}, ("b",): {END: 1.0}},
        {(): {"a": 0.5, "b": 0.5}, ("a",): {END: 1.0}},
        {(): {"c": 1.0}},
        {(): {END: 1.0}, ("a", "b"): {END: 1.0}},
    ],
    ids=["sum", "negative", "missing row", "unknown symbol", "long context"],
)
def test_tables_that_are_no_model_are_refused(table):
    with pytest.raises(ModelError):
        NGramModel.from_table(["a", "b"], table, order=2)


def test_a_row_that_cannot_occur_may_be_left_out():
    model = NGramModel.from_table(["a", "b"], {(): {"a": 1.0}, ("a",): {END: 1.0}}, order=2)
    assert model.token_log_probs([[0, 2]])[0].tolist() == [0.0, 0.0]
    assert model.token_log_probs([[1]])[0].tolist() == [-math.inf]


def test_ids_outside_the_vocabulary_and_bad_arguments_are_refused():
    model = table_model()
    for call in (
        lambda: model.token_log_probs([[3]]),
        lambda: model.next_token_log_probs([[-1]]),
        lambda: NGramModel.fit(TEXTS, smoothing=0.0),
        lambda: NGramModel.fit(TEXTS, order=0),
        lambda: NGramModel.fit([""]),
        lambda: NGramModel.from_table(["a", "a"], {}, order=1),
    ):
        with pytest.raises(ModelError):
            call()


def test_it_is_a_language_model_that_grants_everything_and_shows_no_text():
    model = NGramModel.fit(["secret code"], order=2)
    assert isinstance(model, LanguageModel)
    assert model.access is Access.WEIGHTS
    assert repr(model) == "NGramModel(order=2, characters, V=9, 9 contexts)"
    assert model.context_length is None


def test_the_oracle_needs_no_torch():
    script = "import tests.models.ngram, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
