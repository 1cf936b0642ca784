"""Deduplication as one would write it down: the oracle of what finds repeats on disk."""

from reticent.core.corpus import Corpus, Record
from reticent.data.duplicates.exact import TextCounter


def deduplicate(records: list[Record]) -> Corpus:
    """The first record of each text, in order."""
    counter = TextCounter()
    return Corpus(record for record in records if counter.add(record.text))
