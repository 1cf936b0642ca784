"""Deduplication as one would write it down: the oracle of what finds repeats on disk."""

from reticent.core.corpus import Corpus, Record


def deduplicate(records: list[Record]) -> Corpus:
    """The first record of each text, in order."""
    first: dict[str, Record] = {}
    for record in records:
        first.setdefault(record.text, record)
    return Corpus(first.values())
