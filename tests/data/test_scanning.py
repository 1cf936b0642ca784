"""A scan counts spans, secrets, duplicates and owners, and holds no value of any."""

import json

from reticent.core.corpus import Record, Span
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.data.reading.corpus_file import open_corpus
from reticent.data.scanning import KindCount, scan

RECORDS = [
    Record(
        "1", "call 555-123-4567 or 555-123-4567", owner="Ada", spans=(Span(5, 17, "PHONE"), Span(21, 33, "PHONE"))
    ),
    Record("2", "call 555-123-9999", owner="Ada", spans=(Span(5, 17, "PHONE"),)),
    Record("3", "call 555-123-9999", owner="Bob", spans=(Span(5, 17, "PHONE"),)),
    Record("4", "mail a@b.com", owner="Bob", spans=()),
    Record("5", "nothing", owner="Bob", spans=(Span(0, 7, "WORD"),)),
]


def test_scan_counts():
    result = scan(iter(RECORDS), PatternPolicy())
    assert (result.records, result.owners, result.largest_owner) == (5, 2, 3)
    assert (result.duplicates, result.most_duplicated, result.sensitive_records) == (1, 2, 4)
    assert result.kinds == {"EMAIL": KindCount(1, 1, 1, 1), "PHONE": KindCount(4, 2, 2, 3)}
    assert result.characters == sum(len(r.text) for r in RECORDS)
    assert result.measurement is None


def test_scan_with_labels_measures_the_policy():
    result = scan(RECORDS, PatternPolicy(), labels=True)
    assert result.measurement is not None
    assert (result.measurement.recall.hits, result.measurement.recall.trials) == (4, 5)
    assert (result.measurement.precision.hits, result.measurement.precision.trials) == (4, 5)


def test_empty_scan_is_a_result():
    result = scan([], PatternPolicy(), labels=True)
    assert (result.records, result.owners, result.kinds) == (0, 0, {})


def test_no_value_is_in_the_document():
    said = json.dumps(scan(RECORDS, PatternPolicy(), labels=True).to_json()) + repr(scan(RECORDS, PatternPolicy()))
    for value in ("555", "a@b", "Ada", "nothing"):
        assert value not in said
    assert json.loads(json.dumps(scan(RECORDS, PatternPolicy()).to_json()))["schema_version"] == 1


def test_customer_dialogues(shared):
    result = scan(open_corpus(shared / "data" / "customersim.valid.jsonl"), PatternPolicy())
    assert result.records == result.owners == 1000
    assert {"ORDER", "PHONE", "TRACKING"} <= set(result.kinds)
    assert result.sensitive_records > 900
