"""The conservative policy: finds more than the default, and leaves ordinary lines alone."""

import json
import random

import pytest

from bench.labelled_text import labelled_sets
from reticent.core.corpus import Record
from reticent.data.measurement import measure_policy
from reticent.data.policies.combined import UnionPolicy
from reticent.data.policies.possible import LongNumbers, possible
from reticent.data.policies.shapes.circumstances import Circumstances
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.data.policies.words.capitals import CapitalRuns
from reticent.runs.policies.by_name import union_policy
from reticent.training.methods.redaction import redact_and_route

POLICY = possible()


@pytest.mark.parametrize(
    "line",
    [
        "SYS: Hello, I am the customer support bot. What can I do for you?",
        "USR: I ordered a pot several days ago but I can't track it.",
        "The weather was fine and nobody came.",
    ],
)
def test_lines_of_ordinary_words_are_not_flagged(line):
    assert POLICY.find([line]) == [()]


@pytest.mark.parametrize(
    "line", ["USR: Patrick Schug", "My ID is 341752.", "It's 843-58572-7002.", "pin 4821", "@ann_lee"]
)
def test_lines_that_could_hold_a_secret_are(line):
    assert POLICY.find([line]) != [()]


def test_long_numbers_are_found_with_their_marks():
    (spans,) = LongNumbers().find(["12 and 1,234.5 and 987"])
    assert [(span.start, span.end) for span in spans] == [(7, 14)]


def lines_of(shared, name: str, count: int) -> list[str]:
    """So many lines that are not empty, drawn from all of a file by a seed."""
    text = (shared / "data" / name).read_text(encoding="utf8")
    texts = [json.loads(row)["text"] for row in text.splitlines()] if name.endswith("jsonl") else [text]
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    random.Random(0).shuffle(lines)
    return lines[:count]


def every_capital() -> UnionPolicy:
    """The conservative policy that this one took the place of."""
    return UnionPolicy([PatternPolicy(context=False), Circumstances(), CapitalRuns()])


@pytest.mark.parametrize(
    ("name", "count", "share"),
    [("customersim.valid.jsonl", 800, 0.39), ("newsgroups.jsonl", 2000, 0.60), ("wikitext-2.valid.txt", 600, 0.80)],
)
def test_flag_rates_are_those_of_the_page(shared, name, count, share):
    """Our own figures (docs/personal-data.md), held so that a change is noticed.

    The twin flags every capital: all lines of the chats, whose speakers are "SYS" and "USR".
    """
    lines = lines_of(shared, name, count)
    flagged, by_capitals = (sum(map(bool, policy.find(lines))) / count for policy in (POLICY, every_capital()))
    assert flagged == pytest.approx(share, abs=0.03)
    assert by_capitals > flagged + 0.08
    if name.startswith("customersim"):
        assert by_capitals == 1.0


def test_chats_keep_public_records_and_none_becomes_a_bare_mask(shared):
    """The old redaction left no line public and made bare masks of 69 %."""
    lines = lines_of(shared, "customersim.valid.jsonl", 800)
    records = [Record(str(place), line) for place, line in enumerate(lines)]
    counts = redact_and_route(records, union_policy(), conservative=POLICY).counts
    assert counts.public == pytest.approx(488, abs=20)  # of 800: our own figure
    assert counts.bare < 0.01 * len(lines)
    assert counts.noisy_share < 0.5
    assert redact_and_route(records, union_policy(), conservative=every_capital()).counts.public == 0  # the twin


@pytest.mark.parametrize(
    ("name", "recall", "in_part"),
    [
        ("tab", 0.830, 0.904),
        ("tweets", 0.832, 0.900),
        ("german", 0.938, 0.965),
        ("pii-sentences", 0.824, 0.911),
        ("chats in English", 1.0, 1.0),
        ("chats in German", 0.997, 0.999),
    ],
)
def test_recall_on_the_reported_halves_is_that_of_the_page(shared, name, recall, in_part):
    """Our own figures (docs/personal-data.md); the tagger learnt from the other halves."""
    labelled = labelled_sets()[name][1]
    careful = measure_policy(labelled, POLICY)
    assert careful.recall.value == pytest.approx(recall, abs=0.01)
    assert careful.partial_recall.value == pytest.approx(in_part, abs=0.01)
    assert careful.partial_recall.value >= measure_policy(labelled, union_policy()).partial_recall.value
