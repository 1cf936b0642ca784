"""What a report may show of a record's text: its shape and the kinds of secrets in it, every letter covered.

    USR: my card is 4111 1111 1111 1111.   →   •••: •• •••• •• <card>.

A span that the policy finds is replaced by its kind; all else but white space and punctuation becomes dots. So a
policy that misses a name shows a dot for each of its letters and nothing else.
"""

from collections import Counter
from collections.abc import Sequence
from string import punctuation
from typing import Final

from reticent.core.corpus import Corpus, Policy, Record, Span
from reticent.data.reading.corpus_file import CorpusFile
from reticent.reporting.report import RecordFacts

_MOST: Final = 240  # characters of a covered text


def record_facts(corpus: Corpus, policy: Policy, *, ids: frozenset[str]) -> dict[str, RecordFacts]:
    """Copies, kinds of secrets and the covered text of the named records."""
    texts = Counter(record.text for record in corpus)
    chosen = [record for record in corpus if record.id in ids]
    found = policy.find([record.text for record in chosen])
    return {
        record.id: RecordFacts(
            copies=texts[record.text],
            kinds=tuple(sorted({span.kind for span in spans})),
            masked=covered(record, spans),
        )
        for record, spans in zip(chosen, found, strict=True)
    }


def covered(record: Record, spans: Sequence[Span]) -> str:
    """The text with its spans named by kind and everything else covered."""
    pieces, done = [], 0
    for span in spans:
        pieces += [_dots(record.text[done : span.start]), f"<{span.kind}>"]
        done = span.end
    whole = " ".join("".join([*pieces, _dots(record.text[done:])]).split())
    return whole if len(whole) <= _MOST else whole[: _MOST - 1] + "…"


def _dots(text: str) -> str:
    """Everything but white space and ASCII punctuation covered: whatever may carry meaning in any script."""
    return "".join(letter if letter.isspace() or letter in punctuation else "•" for letter in text)


def read_facts(text: CorpusFile, policy: str, *, ids: frozenset[str]) -> dict[str, RecordFacts]:
    """The facts of records of a corpus file."""
    from reticent.runs.policies.by_name import policy_named

    return record_facts(text.load(), policy_named(policy), ids=ids)
