"""Discoverable extraction on the n-gram oracle: chances in closed form, memorised records all found."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest

from reticent.auditing.attacks.extraction.discoverable import DiscoverySettings, discover, discover_text
from reticent.auditing.attacks.extraction.findings import discoverable_findings
from reticent.auditing.metrics.intervals import clopper_pearson
from reticent.core.corpus import Record
from reticent.core.model import Access
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from tests.auditing.attacks.extraction.small_models import (
    TextOnly,
    memorising_model,
    random_records,
    templated_records,
)
from tests.models.ngram import END, NGramModel

TABLE = {
    (): {"a": 0.7, "b": 0.3},
    ("a",): {"a": 0.2, "b": 0.5, "c": 0.3},
    ("b",): {"a": 0.6, "c": 0.4},
    ("c",): {"a": 0.1, "b": 0.8, END: 0.1},
}
ORACLE = NGramModel.from_table(["a", "b", "c"], TABLE, order=2)
SMALL = DiscoverySettings(prefix=3, suffix=4, least=4)


def chain(prefix: str, suffix: str) -> float:
    """Product of the table's entries along the suffix, the first one given the last symbol of the prefix."""
    path = prefix[-1] + suffix
    return math.prod(TABLE[(one,)][two] for one, two in pairwise(path))


def test_the_suffix_is_priced_from_its_first_token_given_the_prefix() -> None:
    records = [Record("one", "abcbaba"), Record("two", "aabcabc")]
    found = discover(ORACLE, records, settings=SMALL)
    expected = [chain("abc", "baba"), chain("aab", "cabc")]
    assert found.log_prob.tolist() == pytest.approx(np.log(expected).tolist())
    assert found.prefix.tolist() == [3, 3]
    assert found.suffix.tolist() == [4, 4]
    # The published mistake: one token too early, the last one dropped.
    scored = ORACLE.token_log_probs(ORACLE.encode([record.text for record in records]))
    shifted = [float(values[2:6].sum()) for values in scored]
    assert not np.isclose(shifted, np.log(expected)).any()


def test_truncated_and_tempered_samplers_are_priced_by_their_own_law() -> None:
    record = [Record("one", "abcbaba")]
    top = DiscoverySettings(prefix=3, suffix=4, least=4, sampling=Sampling(top_k=1))
    likeliest = [Record("likeliest", "abcbaba")]  # c → b → a → b → a is the greedy path
    assert discover(ORACLE, likeliest, settings=top).log_prob[0] == pytest.approx(0.0)
    assert discover(ORACLE, likeliest, settings=top).verbatim[0]
    hot = DiscoverySettings(prefix=3, suffix=4, least=4, sampling=Sampling(temperature=2.0))
    path, expected = "cbaba", 1.0
    for one, two in pairwise(path):
        row = TABLE[(one,)]
        expected *= row[two] ** 0.5 / sum(p**0.5 for p in row.values())
    assert discover(ORACLE, record, settings=hot).log_prob[0] == pytest.approx(math.log(expected))


def test_chances_in_n_draws_are_right_where_floats_lose_them() -> None:
    """p = 1e-18 in 10^6 draws is 1e-12; 1 − (1 − p)^n gives 0."""
    tiny = {"a": 1e-9, "b": 1.0 - 1e-9}
    model = NGramModel.from_table(["a", "b"], {(): tiny, ("a",): tiny, ("b",): tiny}, order=2)
    found = discover(model, [Record("one", "baa")], settings=DiscoverySettings(prefix=1, suffix=2, least=3))
    assert math.exp(found.log_chance(1e6)[0]) == pytest.approx(1e-12, rel=1e-9)
    assert found.discoverable(1e6, 1e-13).all()
    assert not found.discoverable(1e6, 1e-11).any()
    assert 1.0 - (1.0 - 1e-18) ** 10**6 == 0.0


def test_computed_chances_meet_the_frequencies_of_draws() -> None:
    """Per record Clopper–Pearson at 99.99 %: a false alarm with chance below 1e-3."""
    words = {
        (): {"w": 1.0},
        ("w",): {" x": 0.25, " y": 0.75},
        (" x",): {" y": 0.5, " x": 0.5},
        (" y",): {" x": 1.0},
    }
    model = NGramModel.from_table(["w", " x", " y"], words, order=2, level="word")
    records = [Record("one", "w x y"), Record("two", "w y x"), Record("three", "w x x"), Record("four", "w y y")]
    settings = DiscoverySettings(prefix=1, suffix=2, least=3, bytes_per_token=2.0)
    exact = discover(model, records, settings=settings)
    assert np.exp(exact.log_prob).tolist() == pytest.approx([0.125, 0.75, 0.125, 0.0])
    drawn = discover_text(TextOnly(model), records, randomness=Randomness.seeded(3), draws=300, settings=settings)
    assert drawn.access is Access.TEXT
    for hits, log_prob in zip(drawn.hits.tolist(), exact.log_prob.tolist(), strict=True):
        low, high = clopper_pearson(hits, 300, confidence=0.9999)
        assert low <= math.exp(log_prob) <= high
    assert drawn.verbatim.tolist() == exact.verbatim.tolist() == [False, True, False, False]
    with pytest.raises(ValueError, match="no chances"):
        drawn.log_chance(10)


def test_all_memorised_records_are_found_and_no_held_out_one() -> None:
    training, held_out = random_records(40, seed=1), random_records(40, seed=2, name="h")
    model = memorising_model(training)
    settings = DiscoverySettings(prefix=15, suffix=20, least=20)
    mine, other = discover(model, training, settings=settings), discover(model, held_out, settings=settings)
    assert mine.verbatim.all()
    assert (mine.similarity == 1.0).all()
    assert (mine.common == 1.0).all()
    assert not other.verbatim.any()
    findings = {finding.metric: finding for finding in discoverable_findings(mine, other, samples=10, chance=0.9)}
    assert set(findings) == {"discoverable_share", "near_discoverable_share", "np_discoverable_share"}
    for finding in findings.values():
        assert finding.value == 1.0
        assert finding.beats_null
        assert finding.low == pytest.approx(0.025 ** (1 / 40))  # Clopper–Pearson of 40 of 40
        assert finding.null == pytest.approx(1.0 - 0.025 ** (1 / 40))  # of 0 of 40
    written = json.dumps([finding.to_json() for finding in findings.values()]) + repr(mine)
    assert not any(record.text[start : start + 8] in written for record in training for start in range(0, 32, 8))
    assert "r0" in written


def test_a_near_copy_counts_as_near_and_not_as_verbatim() -> None:
    (known,) = random_records(1, seed=5)
    changed = Record("near", known.text[:30] + "x" + known.text[31:])
    found = discover(memorising_model([known]), [changed], settings=DiscoverySettings(20, 20, 20))
    assert not found.verbatim[0]
    assert found.similarity[0] == pytest.approx(0.95)
    assert found.common[0] == pytest.approx(0.5)
    verbatim, near, _ = discoverable_findings(found, near=0.9)
    assert (verbatim.value, near.value) == (0.0, 1.0)
    assert verbatim.null is None


def test_short_records_are_cut_in_proportion_or_skipped_and_counted() -> None:
    settings = DiscoverySettings(prefix=50, suffix=50, least=20)
    assert settings.lengths(100) == settings.lengths(5_000) == (50, 50)
    assert settings.lengths(31) == (15, 16)
    assert settings.lengths(19) is None
    assert settings.lengths(500, room=63) == (31, 32)
    records = [Record("long", "abcbababcb"), Record("short", "ab"), Record("middle", "abcba")]
    found = discover(ORACLE, records, settings=SMALL)
    assert (found.ids, found.skipped) == (("long", "middle"), 1)
    assert found.suffix.tolist() == [4, 3]
    nothing = discover(ORACLE, records[1:2], settings=SMALL)
    assert nothing.ids == ()
    with pytest.raises(ValueError, match="no data"):
        discoverable_findings(nothing)
    assert discover_text(TextOnly(ORACLE), records[1:2], randomness=Randomness.seeded(0), settings=SMALL).ids == ()


def test_on_null_data_nothing_beats_the_baseline_though_much_is_guessed() -> None:
    """20 trials at 5 % for each of three findings: more than 4 alarms of one have chance 3e-3."""
    settings = DiscoverySettings(prefix=10, suffix=10, least=20)
    fitted = [record.text for record in templated_records(60, seed=999)]
    model = NGramModel.fit(fitted, order=3, smoothing=0.05, vocabulary=list("abcdefghxy"))
    alarms = {"discoverable_share": 0, "near_discoverable_share": 0, "np_discoverable_share": 0}
    shares, without_baseline = [], 0
    for seed in range(20):
        training, held_out = (templated_records(30, seed=2 * seed + half) for half in (0, 1))
        mine, other = (discover(model, group, settings=settings) for group in (training, held_out))
        for finding in discoverable_findings(mine, other, samples=100, chance=0.5):
            alarms[finding.metric] += finding.beats_null
            shares.append(finding.value)
        without_baseline += discoverable_findings(mine, samples=100, chance=0.5)[2].low > 0.0
    assert max(alarms.values()) <= 4
    assert np.mean(shares) > 0.1  # the template is guessed by a model that never saw these records …
    assert without_baseline > 15  # … which the broken twin, a null of zero, calls memory
