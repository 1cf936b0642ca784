"""The conservative policy: finds more than the default, and leaves ordinary lines alone."""

import json

import pytest

from reticent.data.measurement import measure
from reticent.data.policies.possible import LongNumbers, possible
from reticent.runs.policies import union_policy

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


def test_flag_rate_and_recall_on_text_that_chose_nothing(shared):
    from bench.labelled_text import labelled_sets

    path = shared / "data" / "customersim.valid.jsonl"
    with path.open(encoding="utf8") as file:
        texts = [json.loads(line)["text"] for line in file]
    lines = [line for text in texts[:200] for line in text.splitlines() if line.strip()]
    assert sum(map(bool, POLICY.find(lines))) <= 0.55 * len(lines)
    german = labelled_sets()["german"][1][:300]
    careful, usual = measure(german, POLICY), measure(german, union_policy())
    assert careful.partial_recall.value >= 0.93
    assert careful.recall.value > usual.recall.value
