"""Regular expressions as a policy: what they find, what is refused, and that no text hangs them."""

import pickle

import pytest

from reticent.core.errors import ConfigError, DataError
from reticent.data.policies.shapes.expressions import Expressions, read_expressions
from reticent.runs.policies.by_name import policy_named

pytest.importorskip("re2")


def found(policy, text):
    return [(text[span.start : span.end], span.kind) for span in policy.find([text])[0]]


def test_matches_and_the_group_named_secret_are_found():
    policy = Expressions({"DIGITS": [r"\d+"], "ID": [r"ID: (?P<secret>[A-Z]{3})"]})
    assert found(policy, "é 12 ID: ABC, 7") == [("12", "DIGITS"), ("ABC", "ID"), ("7", "DIGITS")]
    assert found(pickle.loads(pickle.dumps(policy)), "ID: ABC") == [("ABC", "ID")]


def test_a_text_that_hangs_a_backtracking_engine_is_read_at_once():
    assert Expressions({"X": [r"(a+)+$"]}).find(["a" * 50_000 + "b"]) == [()]


@pytest.mark.parametrize("expression", [r"(?=a)b", r"(a)\1", "("])
def test_what_no_automaton_can_do_is_refused(expression):
    with pytest.raises(ConfigError, match="cannot be compiled"):
        Expressions({"X": [expression]})


def test_a_file_is_a_policy_by_name(tmp_path):
    path = tmp_path / "digits.tsv"
    path.write_text("# as in the paper on redacted training\nDIGITS\t\\d+\n\n", encoding="utf8")
    assert found(policy_named(f"regex:{path}"), "In 1998 @,@ 12 games") == [("1998", "DIGITS"), ("12", "DIGITS")]


@pytest.mark.parametrize("content", ["", "DIGITS \\d+\n", "\t\\d\n"])
def test_a_file_without_a_kind_and_an_expression_is_refused(tmp_path, content):
    path = tmp_path / "bad.tsv"
    path.write_text(content, encoding="utf8")
    with pytest.raises(DataError):
        read_expressions(path)
    with pytest.raises(DataError, match="no such file"):
        read_expressions(tmp_path / "absent")


def test_every_digit_of_wikitext_is_found(shared, tmp_path):
    text = (shared / "data" / "wikitext-2.valid.txt").read_text(encoding="utf8")[:200_000]
    (spans,) = Expressions({"DIGITS": [r"\d+"]}).find([text])
    left = list(text)
    for span in spans:
        left[span.start : span.end] = " " * (span.end - span.start)
    assert not any(symbol in "0123456789" for symbol in left)
