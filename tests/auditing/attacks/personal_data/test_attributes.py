"""Attribute inference: exact for a model that understands every clue, at chance for one that reads none."""

import dataclasses

import numpy as np
import pytest

from reticent.auditing.attacks.personal_data.attributes import AttributeAttack
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import make_subject
from reticent.core.corpus import Corpus, Record
from reticent.core.finding import Standing
from reticent.core.model import Access
from reticent.core.randomness import Randomness
from reticent.data.generators.comments import CLUES, QUESTIONS, generate_authors
from tests.runs.audit.subjects import TextOnly

CORPORA = {"training": Corpus([Record("a", "some text")]), "held_out": Corpus([Record("b", "other text")])}


class Reader:
    """One token a character; a value is likely after its own clues and, whatever was read, as `liked` says."""

    access = Access.LOGPROBS
    name = fingerprint = "reader"
    vocabulary_size, context_length, start_token, end_token = 0x110000, None, 0, None

    def __init__(self, *, understands: bool, liked: dict[str, float] | None = None) -> None:
        self._understands, self._liked = understands, liked or {}

    def encode(self, texts):
        return [list(map(ord, text)) for text in texts]

    def decode(self, sequences):
        return ["".join(map(chr, tokens)) for tokens in sequences]

    def continuation_log_probs(self, prefix, continuations):
        before = self.decode([prefix])[0]
        rows = []
        for said in self.decode(continuations):
            value = said.strip()
            known = [clue for values in CLUES.values() for clue in values.get(value, ())]
            fits = self._understands and any(clue in before for clue in known)
            first = -30.0 + 10.0 * fits + self._liked.get(value, 0.0)
            rows.append(np.array([first, *[0.0] * (len(said) - 1)]))
        return rows

    def token_log_probs(self, sequences):
        return self.continuation_log_probs([], sequences)

    def next_token_log_probs(self, contexts):
        raise NotImplementedError

    def generate(self, prompts, sampling, *, count, randomness):
        raise NotImplementedError

    def complete(self, prompts, sampling, *, count, randomness):
        raise NotImplementedError


def measured(model, seed=0, authors=60):
    subject = make_subject(model, None, **CORPORA)
    settings = AttackSettings(attacks=("attributes",), sizes=Sizes(extraction_records=authors), seed=seed, shares=1)
    (line,) = AttributeAttack().plan(subject, settings, sizes=settings.sizes, mean=3.0)
    found = AttributeAttack().run(subject, settings, sizes=settings.sizes)
    assert line.n == found.findings[0].n == authors * len(CLUES)
    return found


def test_a_model_that_understands_every_clue_infers_every_attribute_whatever_it_likes():
    found = measured(Reader(understands=True, liked={"Paris": 15.0, "married": 20.0}))
    (finding,) = found.findings
    assert finding.value == 1.0
    assert finding.beats_null
    assert finding.null == pytest.approx(np.mean([1 / len(values) for values in CLUES.values()]))
    assert all(row["right"] == row["n"] == 60 for row in found.artefacts["attributes.json"]["attributes"])


def test_a_model_that_reads_nothing_is_at_chance():
    """60 × 3 guesses, ties to the first value, whose truth is drawn. Of 20 seeds at 2.5 %, more than 4: 1e-4."""
    alarms, shares = 0, []
    for seed in range(20):
        (finding,) = measured(Reader(understands=False), seed).findings
        alarms += finding.beats_null
        shares.append(finding.value)
    assert alarms <= 4
    # The mean of 3,600 guesses, 0.217 ± 0.0069: five deviations.
    assert abs(np.mean(shares) - finding.null) < 0.035


def test_few_authors_are_too_few_to_tell_and_text_alone_is_not_enough():
    (finding,) = measured(Reader(understands=True), authors=1).findings
    assert finding.standing is Standing.TOO_FEW
    subject = make_subject(TextOnly(Reader(understands=True)), None, **CORPORA)
    settings = AttackSettings(sizes=Sizes())
    assert AttributeAttack().plan(subject, settings, sizes=settings.sizes, mean=3.0)[0].skipped


def test_no_comment_says_its_attribute_and_values_are_drawn_evenly():
    for attribute, values in CLUES.items():
        assert attribute in QUESTIONS
        for value, clues in values.items():
            assert len(set(clues)) == len(clues) == 3
            assert not any(value.lower() in clue.lower() for clue in clues)
    authors = generate_authors(600, randomness=Randomness.seeded(4))
    counts = np.unique([author.attributes["city"] for author in authors], return_counts=True)[1]
    assert len(counts) == 5
    assert abs(counts - 120).max() < 50  # five deviations
    assert dataclasses.asdict(authors[0]) == dataclasses.asdict(
        generate_authors(1, randomness=Randomness.seeded(4))[0]
    )
