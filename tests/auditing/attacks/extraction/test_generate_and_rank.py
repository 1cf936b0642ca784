"""Generate and rank on the n-gram oracle: rates in closed form, memorised texts first, nothing on null data."""

import json

import numpy as np
import pytest

from reticent.auditing.attacks.extraction.eidetic import EideticIndex
from reticent.auditing.attacks.extraction.findings import MatchRule, extracted_records_finding, ranking_findings
from reticent.auditing.attacks.extraction.generate_and_rank import (
    GeneratedTexts,
    RankedTexts,
    best_window,
    generate_texts,
    match_corpus,
    match_records,
    rank_texts,
    ranking_scores,
)
from reticent.auditing.metrics.intervals import clopper_pearson
from reticent.core.corpus import Record
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.core.secret import Secret
from tests.auditing.attacks.extraction.small_models import (
    TextOnly,
    memorising_model,
    random_records,
    templated_records,
)
from tests.models.ngram import NGramModel

RANKINGS = {"perplexity", "zlib", "lower-case", "window", "reference", "repeats"}


def as_generated(texts: list[str]) -> GeneratedTexts:
    return GeneratedTexts(
        tuple(Secret(text, "generated text") for text in texts), np.ones(len(texts), dtype=np.int64), len(texts), 0
    )


def test_the_extraction_rate_meets_its_closed_form_and_memorised_texts_are_all_found() -> None:
    """The chance that a draw is a training record is the sum of theirs; Clopper–Pearson at 99.9 %."""
    training, held_out = random_records(12, seed=1), random_records(12, seed=2)
    model = memorising_model(training, order=20, smoothing=2e-4)
    sequences = [[*tokens, model.end_token] for tokens in model.encode([record.text for record in training])]
    expected = sum(float(np.exp(values.sum())) for values in model.token_log_probs(sequences))
    assert 0.5 < expected < 0.95
    generated = generate_texts(
        model, 150, sampling=Sampling(max_tokens=60), randomness=Randomness.seeded(4), batch=64
    )
    assert generated.drawn == 150
    ranked = rank_texts(model, generated, training=EideticIndex(training), held_out=EideticIndex(held_out))
    finding, *precisions = ranking_findings(ranked, top=5, rule=MatchRule(least=40, k=1))
    low, high = clopper_pearson(round(finding.value * 150), 150, confidence=0.999)
    assert low <= expected <= high
    mine, other = (match_records(generated.texts, group) for group in (training, held_out))
    share = extracted_records_finding(mine, other, least=40)
    assert share.beats_null
    assert (
        share.value
        == len({text.reveal()[:40] for text in generated.texts} & {record.text for record in training}) / 12
    )
    assert share.value >= 10 / 12  # a record is missed in 150 draws with chance (1 − p)^150 < 2e-3
    by_metric = {finding.metric: finding.value for finding in precisions}
    assert by_metric["extraction_precision_perplexity"] == 1.0
    assert by_metric["extraction_precision_repeats"] == 1.0


def test_every_ranking_puts_the_memorised_text_first() -> None:
    (known,) = random_records(1, seed=3, length=60)
    shout = Record("shout", known.text.upper())
    others = [record.text.upper() for record in random_records(6, seed=4, length=60)]
    vocabulary = list("abcdefghABCDEFGH")
    model = NGramModel.fit([shout.text] * 5, order=6, smoothing=0.01, vocabulary=vocabulary)
    reference = NGramModel.fit(others, order=2, smoothing=0.5, vocabulary=vocabulary)
    generated = as_generated([*others[:3], shout.text, *others[3:]])
    ranked = rank_texts(model, generated, training=EideticIndex([shout]), reference=reference)
    assert set(ranked.scores) == RANKINGS
    for ranking in RANKINGS - {"repeats"}:
        assert ranked.top(ranking, 1).tolist() == [3], ranking
    assert np.array_equal(ranked.training.lengths >= 60, np.arange(7) == 3)


def test_scores_have_their_closed_forms() -> None:
    model = NGramModel.fit(["ABAB"], order=1, smoothing=0.5, vocabulary=list("ABab"))
    reference = NGramModel.fit(["AAAA"], order=1, smoothing=0.5, vocabulary=list("ABab"))
    # Counts of ABAB with its end: A 2, B 2, end 1, and 0.5 on each of 5 symbols: 2.5/7.5, 0.5/7.5.
    scores = ranking_scores(model, as_generated(["AABB"]), reference=reference, window=2)
    loss, lowered = -np.log(2.5 / 7.5), -np.log(0.5 / 7.5)
    assert scores["perplexity"][0] == pytest.approx(-loss)
    assert scores["lower-case"][0] == pytest.approx(lowered / loss)
    assert scores["window"][0] == pytest.approx(-loss)
    assert scores["reference"][0] == pytest.approx(-(np.log(4.5 / 7.5) + np.log(0.5 / 7.5)) / 2 / loss)


def test_the_best_window_is_the_best_of_all_windows() -> None:
    rng = np.random.default_rng(0)
    misses = 0
    for _ in range(50):
        values = -rng.exponential(size=rng.integers(1, 12))
        window = int(rng.integers(1, 6))
        size = min(window, len(values))
        means = [values[start : start + size].mean() for start in range(len(values) - size + 1)]
        assert best_window(values, window) == pytest.approx(max(means))
        misses += len(means) > 1 and max(means[:-1]) < max(means)  # a loop that ends one window early
    assert misses > 3
    with pytest.raises(ValueError, match="at least one"):
        best_window(np.empty(0), 3)


def test_draws_are_spread_over_prompts_and_equal_texts_are_one() -> None:
    model = NGramModel.from_table(["a", "b"], {(): {"a": 1.0}, ("a",): {"b": 1.0}, ("b",): {"<end>": 1.0}}, order=2)
    generated = generate_texts(
        model,
        10,
        sampling=Sampling(max_tokens=4),
        randomness=Randomness.seeded(0),
        prompts=["a", "", "ab"],
        batch=2,
    )
    counts = {text.reveal(): int(n) for text, n in zip(generated.texts, generated.repeats, strict=True)}
    assert counts == {"b": 4, "ab": 3}  # the first prompt takes the one left over; after "ab" nothing comes
    assert (generated.drawn, generated.empty) == (10, 3)
    assert "ab" not in repr(generated.texts)


def test_near_repeats_of_a_better_text_do_not_fill_the_top() -> None:
    texts = ["one two three four five", "one two three four six", "seven eight nine ten"]
    generated = as_generated(texts)
    index = EideticIndex([Record("r", "nothing")])
    ranked = rank_texts(TextOnly(memorising_model([])), generated, training=index)
    assert set(ranked.scores) == {"repeats"}  # all that text alone allows
    assert ranked.top("repeats", 3).tolist() == [0, 2]


def test_no_text_at_all_is_a_result() -> None:
    model = NGramModel.from_table(["a"], {(): {"<end>": 1.0}}, order=2)
    generated = generate_texts(model, 20, sampling=Sampling(max_tokens=4), randomness=Randomness.seeded(0))
    ranked = rank_texts(model, generated, training=EideticIndex([Record("r", "a")]))
    (finding,) = ranking_findings(ranked)
    assert (finding.value, finding.low, finding.n) == (0.0, 0.0, 20)
    assert finding.high > 0.1


def test_pieces_that_many_records_hold_are_not_k_eidetic() -> None:
    index = EideticIndex([Record(f"r{i}", "common text" + " rare" * (i == 0)) for i in range(5)])
    matches = match_corpus(as_generated(["common text", "text rare"]).texts, index)
    assert matches.are_hits(9).tolist() == [True, True]
    assert matches.are_hits(9, k=1).tolist() == [False, True]


def test_on_null_data_no_finding_beats_its_null_and_draws_as_trials_would() -> None:
    """A model that saw neither corpus; 30 trials at 5 %: more than 5 alarms have chance 3e-3.

    A template of chance 4 % is in one corpus of 30 records and not in the other with chance 0.21, and 100 draws say
    it often: with draws as trials each such pair of corpora looks like memory.
    """
    fitted = [record.text for record in templated_records(60, seed=999, share=1.0)]
    model = NGramModel.fit(fitted, order=3, smoothing=0.05, vocabulary=list("abcdefghxy"))
    generated = generate_texts(model, 100, sampling=Sampling(max_tokens=20), randomness=Randomness.seeded(1))
    alarms, twin = 0, 0
    for seed in range(30):
        groups = [templated_records(30, seed=1000 + 2 * seed + half, share=0.04) for half in (0, 1)]
        mine, other = (match_records(generated.texts, group) for group in groups)
        alarms += extracted_records_finding(mine, other, least=9).beats_null
        matches = [match_corpus(generated.texts, EideticIndex(group)) for group in groups]
        hits, others = (int(generated.repeats[found.are_hits(9)].sum()) for found in matches)
        twin += clopper_pearson(hits, 100)[0] > clopper_pearson(others, 100)[1]
        if seed == 0:
            ranked = RankedTexts(generated, {"repeats": np.ones(len(generated.texts))}, *matches)
            assert all(finding.null is None for finding in ranking_findings(ranked, rule=MatchRule(least=9)))
    assert alarms <= 5
    assert twin > 5


def test_held_out_counts_stand_beside_the_rate_and_no_text_does() -> None:
    training, held_out = random_records(4, seed=1), random_records(2, seed=2)
    generated = as_generated([training[0].text, held_out[0].text, training[1].text[:20] + "xxxx"])
    ranked = rank_texts(
        memorising_model(training), generated, training=EideticIndex(training), held_out=EideticIndex(held_out)
    )
    rate, *_ = findings = ranking_findings(ranked, rule=MatchRule(least=20))
    assert rate.value == pytest.approx(2 / 3)
    assert rate.notes[0] == "2 of 3; against held-out records 1 of 3"
    written = json.dumps([finding.to_json() for finding in findings]) + repr(ranked)
    assert not any(text.reveal()[:8] in written for text in generated.texts)
