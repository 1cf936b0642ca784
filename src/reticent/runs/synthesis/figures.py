"""Numbers about a synthetic corpus.

`Figures` are computed from its texts alone, so the guarantee covers them as it covers the texts. `Closeness` also
reads a corpus that may be private: the guarantee does not cover it, and no datasheet has it.
"""

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reticent.core.corpus import Corpus, Policy
from reticent.core.document import JsonObject, fields_to_json
from reticent.data.scanning import Scan, scan
from reticent.runs.synthesis.sources import Drawn

_WORDS: Final = re.compile(r"\w+|[^\w\s]")
_LENGTHS: Final = (1, 2, 3)
_OVERLAP: Final = 4  # words: shorter phrases are everybody's


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures(JsonObject):
    """Counts, lengths and variety of the texts. `distinct` has, for n words, the share of n-grams that are new."""

    records: int
    tokens: int
    shortest: int
    median: float
    longest: int
    cut: int  # texts that the limit of tokens or the budget ended, not the model
    empty: int  # drawn and left out
    characters: int
    duplicates: int
    distinct: dict[str, float]
    policy: str
    sensitive_records: int
    spans: dict[str, int]


def figures_of(corpus: Corpus, drawn: Sequence[Drawn], policy: Policy) -> Figures:
    """The figures of a corpus and of the draws that it was made of."""
    found: Scan = scan(corpus, policy)
    kept = [each for each in drawn if not each.is_empty]
    lengths = [each.tokens for each in kept]
    return Figures(
        records=len(kept),
        tokens=sum(lengths),
        shortest=min(lengths),
        median=statistics.median(lengths),
        longest=max(lengths),
        cut=sum(not each.is_whole for each in kept),
        empty=len(drawn) - len(kept),
        characters=found.characters,
        duplicates=found.duplicates,
        distinct={str(length): _distinct(corpus.texts, length) for length in _LENGTHS},
        policy=found.policy,
        sensitive_records=found.sensitive_records,
        spans={kind: counts.mentions for kind, counts in found.kinds.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Closeness(JsonObject):
    """How near the texts are to others: shares of distinct phrases of four words, and of texts.

    `phrases_found` of the synthetic phrases stand in the other text too, `phrases_covered` of the other text's in
    the synthetic one; `equal_texts` synthetic texts are word for word another's.
    """

    phrases_found: float
    phrases_covered: float
    equal_texts: int

    def to_json(self) -> dict[str, Any]:
        """JSON values, labelled."""
        return {"covered_by_guarantee": False, **fields_to_json(self)}


def closeness(synthetic: Corpus, other: Corpus) -> Closeness:
    """Compare a synthetic corpus with one that may be private; for the operator's eyes."""
    ours, theirs = set(_phrases(synthetic.texts, _OVERLAP)), set(_phrases(other.texts, _OVERLAP))
    both = len(ours & theirs)
    read = {tuple(_WORDS.findall(text)) for text in other.texts}
    return Closeness(
        phrases_found=both / max(1, len(ours)),
        phrases_covered=both / max(1, len(theirs)),
        equal_texts=sum(tuple(_WORDS.findall(text)) in read for text in synthetic.texts),
    )


def _phrases(texts: Iterable[str], length: int) -> Iterator[tuple[str, ...]]:
    for text in texts:
        words = _WORDS.findall(text)
        yield from (tuple(words[place : place + length]) for place in range(len(words) - length + 1))


def _distinct(texts: Iterable[str], length: int) -> float:
    """Distinct n-grams over all n-grams; 0 where texts are too short for any."""
    counts = Counter(_phrases(texts, length))
    return len(counts) / max(1, counts.total())
