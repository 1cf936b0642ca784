"""The three domains of the PII games, each as training and held-out records, a tagger and labels.

    case law    generated cases, a paragraph a record (`reproductions.pii.case_law`)
    dialogues   generated customer dialogues, a dialogue a record
    TAB         real cases of the European Court of Human Rights, labelled by hand: `tab.jsonl` of the user's folder

The paper's are case law (ECHR), e-mails (Enron) and reviews (Yelp-Health). Of TAB and of dialogues only paragraphs
that name a person are read, persons being what is asked for. No owner is on both sides.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from reproductions.pii.case_law import CaseLaw, ShapeTagger, make_case_law, paragraphs
from reticent import Corpus, Record, open_corpus
from reticent.auditing import take_inventory
from reticent.core import Policy, Randomness
from reticent.data import PatternPolicy, UnionPolicy, generate_dialogues, measure_policy

CASE_LAW, DIALOGUES, TAB = "case law", "dialogues", "TAB"
DOMAINS: Final = (CASE_LAW, DIALOGUES, TAB)
TAB_FILE: Final = "tab.jsonl"
_PERSON: Final = "PERSON"
# Kinds of TAB as the tagger calls them; others are not looked for.
_KINDS: Final = {"PERSON": _PERSON, "LOC": "LOC", "DATETIME": "DATE", "CODE": "APPLICATION"}


def domain_text(domain: str, training: int, *, held_out: int, data: Path | None, randomness: Randomness) -> CaseLaw:
    """So many cases or dialogues to train on, and held-out ones; TAB has 113 cases in all."""
    if domain == CASE_LAW:
        return make_case_law(training, held_out=held_out, randomness=randomness)
    if domain == DIALOGUES:
        whole = generate_dialogues(training + held_out, randomness=randomness)
        kinds = ("EMAIL", "PHONE", "ORDER", "TRACKING")
        return _divided(
            whole, training, UnionPolicy([PatternPolicy(kinds=kinds), ShapeTagger()], name="patterns, shapes")
        )
    if data is None:
        raise ValueError("TAB is read from a folder of data")
    cases = list(open_corpus(data / TAB_FILE))
    order = randomness.permutation(len(cases))[: training + held_out]
    shuffled = [_renamed(cases[int(place)]) for place in order]
    tagger = UnionPolicy([PatternPolicy(kinds=("DATE", "APPLICATION")), ShapeTagger()], name="patterns and shapes")
    return _divided(shuffled, training, tagger)


def _divided(whole: Iterable[Record], training: int, tagger: Policy) -> CaseLaw:
    """The first `training` records to train on, the others held out but for those of the same owners."""
    records = list(whole)
    owners = {record.owner for record in records[:training]}
    inside = Corpus(_naming(records[:training]))
    outside = Corpus(_naming(record for record in records[training:] if record.owner not in owners))
    return CaseLaw(
        inside, outside, tagger, measure_policy(inside, tagger), take_inventory(inside), take_inventory(outside)
    )


def _naming(records: Iterable[Record]) -> list[Record]:
    """Paragraphs that name a person."""
    return [one for one in paragraphs(records) if any(span.kind == _PERSON for span in one.spans)]


def _renamed(record: Record) -> Record:
    """A case of TAB with the tagger's kinds, what annotators left in clear not among them."""
    spans = tuple(
        replace(span, kind=_KINDS[span.kind])
        for span in record.spans
        if span.kind in _KINDS and span.identifier != "none"
    )
    return replace(record, spans=spans)
