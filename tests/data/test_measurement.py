"""Recall, precision, miss rate: exact on hand-made cases, right intervals, and a result where nothing was found."""

from collections.abc import Iterable
from itertools import compress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from bench.known_policies import GoldLabels, RandomMiss
from reticent.core.corpus import Record, Span
from reticent.data.measurement import Rate, is_covered, measure_policy
from reticent.data.policies.combined import Dictionary
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.data.reading.corpus_file import open_corpus
from reticent.data.redaction.masking import merge_spans

RECORDS = [
    Record("a", "Ada Byron met Bob", spans=(Span(0, 9, "NAME", "direct"), Span(14, 17, "NAME", "quasi"))),
    Record("b", "Bob in Rome, Italy", spans=(Span(0, 3, "NAME", "quasi"), Span(7, 11, "PLACE", "none"))),
    Record("c", "nothing", spans=()),
]


def policy(*words: str) -> Dictionary:
    return Dictionary(dict.fromkeys(words, "W"))


def test_partly_detected_secret_is_missed_and_wholly_detected_ones_count():
    result = measure_policy(RECORDS, policy("Ada", "Bob"))
    assert (result.recall.hits, result.recall.trials) == (2, 3)
    assert measure_policy(RECORDS, policy("Ada", "Byron", "Bob")).recall.value == 1.0
    # The twin that counts a touched secret as found says 3 of 3 here.
    (spans,) = policy("Ada", "Bob").find([RECORDS[0].text])
    assert all(any(s.overlaps(label) for s in spans) for label in RECORDS[0].spans)


def test_classes_kinds_and_distinct_secrets_are_counted_apart():
    result = measure_policy(RECORDS, policy("Bob", "Rome", "nothing"))
    assert result.recall_by_identifier["direct"].hits == 0
    assert (result.recall_by_identifier["quasi"].hits, result.recall_by_identifier["quasi"].trials) == (2, 2)
    assert set(result.recall_by_identifier) == {"direct", "quasi"}
    assert set(result.recall_by_kind) == {"PERSON"}
    assert (result.distinct_recall.hits, result.distinct_recall.trials) == (1, 2)
    # Bob twice is right; Rome was left in clear by the annotators and "nothing" is nothing.
    assert (result.precision.hits, result.precision.trials) == (2, 4)
    assert result.miss_rate.value == pytest.approx(1 / 3)


def test_secret_with_one_missed_mention_is_missed():
    records = [Record(str(n), f"Bob {n}", spans=(Span(0, 3, "NAME"),)) for n in range(20)]
    flaky = RandomMiss(GoldLabels(records), 0.5, key=b"k", unit="mention")
    result = measure_policy(records, flaky)
    assert 0 < result.recall.hits < 20
    assert (result.distinct_recall.hits, result.distinct_recall.trials) == (0, 1)


def test_nothing_found_is_a_result():
    result = measure_policy(RECORDS, policy("Zebedee"))
    assert result.recall.value == 0.0
    assert result.precision.value is None
    assert result.precision.interval == (0.0, 1.0)
    assert result.to_json()["precision"]["value"] is None


def test_nothing_labelled_is_a_result_and_never_certainty():
    result = measure_policy([Record("a", "Ada")], policy("Ada"))
    assert result.recall.value is None
    assert result.miss_rate.interval == (0.0, 1.0)
    assert result.precision.value == 0.0
    assert measure_policy([], policy("Ada")).records == 0


def test_gold_labels_measure_as_perfect():
    result = measure_policy(RECORDS, GoldLabels(RECORDS))
    assert result.recall.value == result.precision.value == result.distinct_recall.value == 1.0


@given(st.integers(0, 60), st.integers(1, 60), st.sampled_from([0.8, 0.95, 0.99]))
def test_interval_equals_an_independent_program(hits, trials, confidence):
    hits = min(hits, trials)
    oracle = binomtest(hits, trials).proportion_ci(confidence, method="exact")
    assert Rate(hits, trials, confidence).interval == pytest.approx((oracle.low, oracle.high), abs=1e-9)


def coverage(interval, n: int, p: float) -> float:
    """The exact chance that the interval of a binomial count contains p."""
    return float(sum(binom.pmf(k, n, p) for k in range(n + 1) if interval(k, n)[0] <= p <= interval(k, n)[1]))


def test_interval_contains_the_truth_as_often_as_it_says_and_a_normal_one_does_not():
    def wald(k: int, n: int) -> tuple[float, float]:
        half = 1.96 * (k / n * (1 - k / n) / n) ** 0.5
        return k / n - half, k / n + half

    rates = [0.01, 0.05, 0.3, 0.97]
    assert all(coverage(lambda k, n: Rate(k, n).interval, 30, p) >= 0.95 for p in rates)
    assert min(coverage(wald, 30, p) for p in rates) < 0.5


def test_impossible_rate_is_refused():
    with pytest.raises(ValueError):
        Rate(2, 1)
    with pytest.raises(ValueError):
        Rate(1, 2, 0.95, {"a": (1, 1)})


def test_rates_of_several_kinds_pool_by_owner():
    one, other = Rate(1, 2, 0.95, {"a": (1, 2)}), Rate(3, 4, 0.95, {"a": (1, 1), "b": (2, 3)})
    both = Rate.pooled([one, other])
    assert both.by_owner == {"a": (2, 3), "b": (2, 3)}
    assert both.complement.by_owner == {"a": (1, 3), "b": (1, 3)}
    assert (both.hits, both.trials) == (4, 6)
    low, high = both.interval
    assert both.complement.interval == pytest.approx((1 - high, 1 - low))


class EveryLabelOfSome:
    """A policy that finds all labels of some owners' texts, and none of the others'."""

    name = "some"

    def __init__(self, records: Iterable[Record]) -> None:
        self._spans = {record.text: record.spans for record in records}

    def find(self, texts):
        return [self._spans.get(text, ()) for text in texts]


def test_intervals_count_owners_where_a_policy_finds_all_of_a_person_or_nothing():
    """Coverage over worlds in which the spans of an owner have one outcome; counting spans is the mistake."""
    truth, missed, missed_by_spans = 0.8, 0, 0
    worlds = 300
    labels = tuple(Span(4 * k, 4 * k + 3, "PERSON") for k in range(12))
    for seed in range(worlds):
        draw = np.random.default_rng(seed)
        sizes = draw.integers(1, 13, 60)
        found = draw.random(60) < truth
        records = [
            Record(f"{owner}", "Ada " * size + f"{owner}", owner=f"o{owner}", spans=labels[:size])
            for owner, size in enumerate(sizes.tolist())
        ]
        policy = EveryLabelOfSome(compress(records, found))
        recall = measure_policy(records, policy).recall
        low, high = recall.interval
        missed += not low <= truth <= high
        low, high = Rate(recall.hits, recall.trials).interval
        missed_by_spans += not low <= truth <= high
    assert missed / worlds <= 0.05
    assert missed_by_spans / worlds > 0.25


@given(st.text("ab ", min_size=3, max_size=12), st.data())
def test_cover_equals_the_slow_version(text, data):
    edges = st.tuples(st.integers(0, len(text) - 1), st.integers(1, len(text))).filter(lambda e: e[0] < e[1])
    span = Span(*data.draw(edges), "A")
    cover = merge_spans(Span(*e, "B") for e in data.draw(st.lists(edges, max_size=4)))
    slow = all(text[n] == " " or any(c.start <= n < c.end for c in cover) for n in range(span.start, span.end))
    assert is_covered(span, cover, text) == slow


def test_patterns_on_labelled_sentences(shared):
    result = measure_policy(open_corpus(shared / "data" / "pii-sentences.jsonl"), PatternPolicy())
    recall = {kind: rate.value for kind, rate in result.recall_by_kind.items()}
    for kind in ("EMAIL", "CARD", "IBAN", "IP", "SSN"):
        assert recall[kind] >= 0.95, kind
    assert recall["PHONE"] >= 0.9
    assert recall["PERSON"] < 0.05


def test_patterns_on_court_cases(shared):
    result = measure_policy(open_corpus(shared / "data" / "tab.jsonl"), PatternPolicy())
    assert result.recall_by_kind["CODE"].value >= 0.6
    assert result.recall_by_kind["DATE"].value >= 0.6
    assert result.recall_by_kind["PERSON"].value < 0.05
    assert result.precision.value >= 0.9
