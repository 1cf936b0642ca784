"""Records asked for in another writing: a filter of verbatim text is no filter of memory."""

import re

import pytest

from reticent.auditing.attacks.extraction.attack import StyledAttack
from reticent.auditing.attacks.extraction.discoverable import Writing, discover_text
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import make_subject
from reticent.core.corpus import Corpus, Record
from reticent.core.model import Access
from reticent.core.randomness import Randomness

SETTINGS = AttackSettings(attacks=("styles",), sizes=Sizes(extraction_records=40), shares=1)


def texts(first: int, count: int) -> Corpus:
    """Sentences of twenty words, each its own."""
    return Corpus(
        Record(f"r{i}", f"Case {i}: " + " ".join(f"Word{i * 31 % 97}x{place}" for place in range(18)) + ".")
        for i in range(first, first + count)
    )


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


class Reciting:
    """Goes on as a record does, in the writing it is asked in; filtered, never by four of its words verbatim."""

    access = Access.TEXT
    name = fingerprint = "reciting"

    def __init__(self, known: Corpus, *, is_filtered: bool) -> None:
        self._known, self._is_filtered = known, is_filtered

    def complete(self, prompts, sampling, *, count, randomness):
        return [[self._answer(prompt)] * count for prompt in prompts]

    def _answer(self, prompt: str) -> str:
        asked = words(prompt)
        for record in self._known:
            if words(record.text)[: len(asked)] == asked:
                rest = re.findall(r"\s*\S+", record.text)[len(asked) :]
                cases = {
                    Writing.SPACED: "  " in prompt,
                    Writing.UPPER: prompt.isupper(),
                    Writing.LOWER: prompt.islower(),
                }
                writing = next((one for one, holds in cases.items() if holds), Writing.PLAIN)
                answer = writing("".join(rest))
                blocked = any("".join(rest[at : at + 4]) in answer for at in range(len(rest) - 3))
                return "" if self._is_filtered and blocked else answer
        return " who knows"


def measured(model: Reciting) -> dict:
    subject = make_subject(model, None, training=texts(0, 40), held_out=texts(100, 40))
    (line,) = StyledAttack().plan(subject, SETTINGS, sizes=SETTINGS.sizes, mean=40.0)
    found = StyledAttack().run(subject, SETTINGS, sizes=SETTINGS.sizes).findings
    assert {finding.metric for finding in found} == set(line.metrics)
    return {finding.metric.removeprefix("styled_share_"): finding for finding in found}


def test_records_behind_a_verbatim_filter_come_out_in_other_writings():
    model = Reciting(texts(0, 40), is_filtered=True)
    plain = discover_text(model, texts(0, 40), randomness=Randomness.seeded(0))
    assert not plain.verbatim.any()
    assert plain.similarity.max() < 0.9
    for finding in measured(model).values():
        assert finding.value == 1.0
        assert finding.beats_null
        assert "40 of them not verbatim" in " ".join(finding.notes)
        assert f"p = {0.5**40:.2g}" in " ".join(finding.notes)


def test_what_is_recited_plainly_too_is_no_evasion_and_strangers_say_nothing():
    for finding in measured(Reciting(texts(0, 40), is_filtered=False)).values():
        assert finding.value == 1.0
        assert "0 of them not verbatim when asked plainly, 0 plainly alone: p = 1" in " ".join(finding.notes)
    for finding in measured(Reciting(texts(500, 10), is_filtered=True)).values():
        assert finding.value == 0.0
        assert not finding.beats_null


@pytest.mark.parametrize("writing", list(Writing))
def test_writings_keep_the_words(writing):
    text = "A short, plain Text."
    assert words(writing(text)) == words(text)
    assert writing.compared(writing(text)) == (text if writing is Writing.PLAIN else "a short plain text")
    assert (writing(text) == text) is (writing is Writing.PLAIN)
