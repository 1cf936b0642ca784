"""Scrubbing: twice is once, fakes are consistent, offsets lead back, counts without values."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.known_policies import GoldLabels
from reticent.core.corpus import Record, Span
from reticent.core.randomness import Randomness
from reticent.data.generators.cases import generate_cases
from reticent.data.generators.labels import secrets_of
from reticent.data.policies.combined import Dictionary, UnionPolicy
from reticent.data.policies.shapes.circumstances import Circumstances
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.data.policies.words.capitals import CapitalRuns
from reticent.data.redaction.fakes import Fakes
from reticent.data.redaction.scrubbing import Replace, Scrubber, substitute

PIECES = [
    "call ",
    "555-123-4567",
    " ",
    "Ada",
    "Ada Byron",
    "a@b.com",
    "<MASK>",
    "<PHONE>",
    "<WORD>",
    "<",
    ">",
    "x",
    "1926",
]
texts = st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join).filter(str.strip)
FAKES = Fakes(b"k" * 32)


class Fickle:
    """A contextual tagger: finds the first name only, whatever that is once the others are masked."""

    name = "fickle"
    is_local = False
    kinds = ("NAME",)

    def find(self, texts):
        names = Dictionary({"Ada": "NAME", "Byron": "NAME"})
        return [spans[:1] for spans in names.find(texts)]


LOCAL = UnionPolicy(
    [PatternPolicy(), Circumstances(), CapitalRuns(), Dictionary({"x": "WORD", "mask": "WORD"}, ignore_case=True)]
)


@pytest.mark.parametrize("replace", [Replace.MASK, Replace.TYPE])
@pytest.mark.parametrize("policy", [LOCAL, Fickle()], ids=["union", "contextual"])
@given(text=texts)
@settings(max_examples=150, deadline=None)
def test_scrubbing_twice_is_scrubbing_once(policy, replace, text):
    (once,) = Scrubber(policy, replace=replace).scrub([Record("r", text)])
    (twice,) = Scrubber(policy, replace=replace).scrub([once.record])
    assert twice.record.text == once.record.text


def test_a_single_pass_of_a_contextual_tagger_would_not_be_idempotent():
    from reticent.data.redaction.masking import redact

    text = "Ada, Byron"
    once = redact(text, Fickle().find([text])[0]).text
    assert redact(once, Fickle().find([once])[0]).text != once
    (scrubbed,) = Scrubber(Fickle()).scrub([Record("r", text)])
    assert scrubbed.record.text == "<MASK>, <MASK>"


@given(texts, st.sampled_from(list(Replace)))
@settings(max_examples=150, deadline=None)
def test_offsets_lead_back_and_nothing_else_changes(text, replace):
    fakes = FAKES if replace is Replace.FAKE else None
    (done,) = Scrubber(LOCAL, replace=replace, fakes=fakes).scrub([Record("r", text)])
    redaction, result = done.redaction, done.record.text
    replaced = {n for r in redaction.replacements for n in range(r.new_start, r.new_end)}
    for place in set(range(len(result))) - replaced:
        start, end = redaction.to_original(place, place + 1)
        assert text[start:end] == result[place]
    for r in redaction.replacements:
        assert redaction.to_original(r.new_start, r.new_end) == (r.start, r.end)
        assert redaction.to_redacted(r.start, r.end) == (r.new_start, r.new_end)


def test_one_value_is_one_fake_throughout_the_corpus():
    records = [Record(str(n), f"{n}: Ada Byron wrote to ADA BYRON") for n in range(600)]
    policy = Dictionary({"Ada Byron": "PERSON"}, ignore_case=True)
    done = [s.record.text for s in Scrubber(policy, replace=Replace.FAKE, fakes=FAKES).scrub(records)]
    fakes = {text.split(": ")[1].split(" wrote to ")[0] for text in done}
    assert len(fakes) == 1
    assert all(text.split(" wrote to ")[1].casefold() == fakes.copy().pop().casefold() for text in done)
    assert "Ada" not in "".join(done)


def test_scrubbed_cases_hold_no_secret_and_the_tally_counts_them_by_type():
    cases = generate_cases(20, randomness=Randomness.seeded(3))
    scrubber = Scrubber(GoldLabels(cases))
    text = "\n".join(scrubbed.record.text for scrubbed in scrubber.scrub(cases))
    held = [record.text[s.start : s.end] for record in cases for s in record.spans]
    assert all(secret.reveal() not in text for secret in secrets_of(cases) if secret.kind == "APPLICATION")
    assert scrubber.tally.by_kind.total() <= len(held)
    assert set(scrubber.tally.to_json()["replaced"]) == {s.kind for record in cases for s in record.spans}
    assert scrubber.tally.changed == scrubber.tally.records == 20


def test_labels_that_were_replaced_go_and_those_that_were_missed_move():
    record = Record("r", "Ada met Bob", spans=(Span(0, 3, "N"), Span(8, 11, "N")))
    (done,) = Scrubber(Dictionary({"Ada": "N"})).scrub([record])
    assert [done.record.text[s.start : s.end] for s in done.record.spans] == ["Bob"]


def test_sidecar_holds_numbers_and_types_only():
    (done,) = Scrubber(Dictionary({"Ada": "NAME"})).scrub([Record("r7", "by Ada")])
    assert json.loads(json.dumps(done.offsets_to_json())) == {"id": "r7", "replacements": [[3, 9, 3, 6, "NAME"]]}
    assert "Ada" not in repr(done)


def test_nothing_found_is_a_result():
    scrubber = Scrubber(Dictionary({"Ada": "NAME"}))
    (done,) = scrubber.scrub([Record("r", "nothing")])
    assert done.record.text == "nothing"
    assert scrubber.tally.to_json()["replaced"] == {}
    assert list(Scrubber(Dictionary({"Ada": "NAME"})).scrub([])) == []


def test_fakes_are_asked_for_where_they_are_needed_and_only_there():
    with pytest.raises(ValueError):
        Scrubber(LOCAL, replace=Replace.FAKE)
    with pytest.raises(ValueError):
        Scrubber(LOCAL, fakes=FAKES)


def test_overlapping_spans_get_one_fake():
    done = substitute("Ada Byron", [Span(0, 9, "PERSON"), Span(4, 9, "PERSON")], FAKES)
    assert len(done.replacements) == 1
