"""Policies on real court cases (Text Anonymization Benchmark): chosen on the train split, judged on the dev split.

A labelled span counts only if every visible character of it is found.
"""

import json

import pytest

from bench.labelled_text import f_score
from reticent.core.errors import UsageError
from reticent.data.measurement import measure_policy
from reticent.data.reading.corpus_file import open_corpus
from reticent.runs.policies.by_name import union_policy

BEST = union_policy()


@pytest.fixture(scope="module")
def cases(shared):
    path = shared / "data" / "tab.jsonl"
    splits = {row["id"]: row["split"] for row in map(json.loads, path.read_text(encoding="utf8").splitlines())}
    chosen = {"train": [], "dev": []}
    for record in open_corpus(path):
        chosen[splits[record.id]].append(record)
    return chosen


def test_the_default_policy_masks_the_identifiers_of_cases_it_was_not_chosen_on(cases):
    result = measure_policy(cases["dev"], BEST)
    direct, quasi = result.recall_by_identifier["direct"], result.recall_by_identifier["quasi"]
    assert direct.trials == 45
    assert direct.value >= 0.95
    assert direct.interval[0] >= 0.80  # of applicants, not of mentions: few, so the interval is wide
    assert quasi.trials == 515
    assert quasi.value >= 0.80
    assert quasi.interval[0] >= 0.50
    assert result.partial_recall.value > result.recall.value
    assert result.recall_by_kind["PERSON"].value >= 0.95
    # The price: four of ten hidden characters are harmless.
    assert result.character_precision >= 0.55
    assert f_score(result) >= 0.75


@pytest.mark.parametrize(("name", "f2", "precision"), [("tweets", 0.67, 0.59), ("german", 0.82, 0.68)])
def test_the_default_policy_on_text_of_other_sorts(shared, name, f2, precision):
    from bench.labelled_text import labelled_sets

    result = measure_policy(labelled_sets()[name][1], BEST)
    assert f_score(result) >= f2
    assert result.character_precision >= precision


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tab", "tweets", "german", "pii-sentences"])
def test_the_default_policy_beats_its_rivals_by_f2(shared, name):
    pytest.importorskip("presidio_analyzer")
    from bench.labelled_text import labelled_sets
    from reticent.data.policies.taggers.named_entities import INSTALL, SpacyPolicy
    from reticent.data.policies.taggers.presidio import PresidioPolicy

    try:
        rivals = SpacyPolicy(), PresidioPolicy()
    except UsageError:
        pytest.skip(f"the rivals need an English pipeline of spaCy: {INSTALL}")
    reported = labelled_sets()[name][1]
    ours = f_score(measure_policy(reported, BEST))
    assert all(ours > f_score(measure_policy(reported, rival)) for rival in rivals)
