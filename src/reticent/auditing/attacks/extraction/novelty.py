"""How much of a generated text is new: the share of its n-grams that no training record holds (RAVEN).

    novelty_n = n-grams of the texts that occur in no training record / n-grams of the texts,     n = 1 … 10

(McCoy et al. 2023.) It is compared with the same share for **held-out text**: people repeat phrases too.
Generated text that is much less novel than held-out text is copied; for small n, where all fluent text is alike,
it says little.

N-grams are of words by default and never cross texts. The index is exact: the n-grams of the corpus are numbered,
an n-gram being the pair (number of its first n − 1 words, last word), and looked up by binary search; no hash, no
false positives. It keeps 8 bytes a distinct n-gram and n. Repeated n-grams count each time.

Intervals are Student's over texts or their owners, since the n-grams of one text are not independent; approximate
where texts differ in a skewed way.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.metrics.intervals import Ratio
from reticent.core.arrays import Floats
from reticent.core.corpus import Record

LONGEST: Final = 10
_WORD: Final = re.compile(r"\w+|[^\w\s]")

Ints = NDArray[np.int64]


def words(text: str) -> list[str]:
    """Words and single marks, as they are written; white space is dropped."""
    return _WORD.findall(text)


@dataclass(frozen=True, slots=True, eq=False)
class Novelty:
    """N-grams of each text and how many of them are new, both [texts, sizes]; column j holds n = j + 1."""

    novel: Ints
    total: Ints

    @property
    def longest(self) -> int:
        """Greatest n."""
        return int(self.total.shape[1])

    def share(self, n: int) -> float:
        """Share of n-grams that are new; an error where the texts have none."""
        novel, total = self.counts(n).sum(axis=0)
        if total == 0:
            raise ValueError(f"the texts have no {n}-gram")
        return float(novel / total)

    def counts(self, n: int) -> Floats:
        """(new, all) n-grams of the texts that have any, [texts, 2]."""
        if not 1 <= n <= self.longest:
            raise ValueError(f"n must be in 1 … {self.longest}, found {n}")
        both = np.stack([self.novel[:, n - 1], self.total[:, n - 1]], axis=1).astype(np.float64)
        return np.asarray(both[both[:, 1] > 0])

    def ratio(self, n: int, owners: Sequence[str] | None = None) -> Ratio:
        """The share with what texts, or their owners, differ by."""
        return Ratio.of(self.novel[:, n - 1], self.total[:, n - 1], owners=owners)


def novelty_gap(
    generated: Novelty,
    held_out: Novelty,
    n: int,
    *,
    confidence: float = 0.95,
    owners: Sequence[str] | None = None,
) -> tuple[float, float, float]:
    """How much less novel generated text is than held-out text, with its interval: (gap, low, high).

    `owners` are those of the held-out texts; generated texts are independent draws.
    """
    gap = held_out.share(n) - generated.share(n)
    low, high = held_out.ratio(n, owners).minus(generated.ratio(n)).interval(confidence=confidence)
    return gap, max(-1.0, min(gap, low)), min(1.0, max(gap, high))


class NGramIndex:
    """Every n-gram of a corpus up to `longest` words, numbered. Its `repr` shows sizes alone."""

    def __init__(self, records: Iterable[Record], *, longest: int = LONGEST) -> None:
        """Read the records once, as a stream."""
        if longest < 1:
            raise ValueError("n-grams have at least one word")
        self.longest = longest
        self._numbers: dict[str, int] = {}
        spelled = [
            np.array([self._numbers.setdefault(word, len(self._numbers)) for word in words(record.text)], np.int32)
            for record in records
        ]
        if not spelled:
            raise ValueError("no record, no index")
        self._keys = self._number(spelled)

    def __repr__(self) -> str:
        return f"NGramIndex({len(self._numbers)} words, n ≤ {self.longest})"

    @property
    def memory(self) -> int:
        """Bytes of the numbered n-grams."""
        return sum(keys.nbytes for keys in self._keys)

    def novelty(self, texts: Sequence[str]) -> Novelty:
        """New and all n-grams of each text, for every n up to `longest`."""
        spelled = [np.array([self._numbers.get(word, -1) for word in words(text)], np.int32) for text in texts]
        last, left, text = _laid_out(spelled)
        prefixes = last.astype(np.int64)  # [words]: number of the n-gram that begins here, −1 if it is new
        novel = np.zeros((len(texts), self.longest), dtype=np.int64)
        total = np.zeros_like(novel)
        for n in range(1, self.longest + 1):
            here = np.flatnonzero(left >= n)
            if n > 1:
                prefixes[here] = _look_up(self._keys[n - 2], prefixes[here], last[here + n - 1])
            total[:, n - 1] = np.bincount(text[here], minlength=len(texts))
            novel[:, n - 1] = np.bincount(text[here[prefixes[here] < 0]], minlength=len(texts))
        return Novelty(novel, total)

    def _number(self, spelled: list[NDArray[np.int32]]) -> list[Ints]:
        """Sorted keys (number of the first n − 1 words, last word) of the n-grams, for n = 2 … longest."""
        last, left, _ = _laid_out(spelled)
        prefixes = last.astype(np.int64)
        keys = []
        for n in range(2, self.longest + 1):
            here = np.flatnonzero(left >= n)
            found, numbers = np.unique(_key(prefixes[here], last[here + n - 1]), return_inverse=True)
            prefixes[here] = numbers
            keys.append(found)
        return keys


def _laid_out(spelled: Sequence[NDArray[np.int32]]) -> tuple[NDArray[np.int32], Ints, Ints]:
    """Words of all texts end to end; how many words each text has from there on; which text it is. All [words]."""
    lengths = np.array([len(row) for row in spelled], dtype=np.int64)
    flat = np.concatenate([np.empty(0, np.int32), *spelled])
    text = np.repeat(np.arange(len(spelled)), lengths)
    left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(flat))
    return flat, left, text


def _key(prefixes: Ints, last: NDArray[np.int32]) -> Ints:
    """One number for a pair; both are below 2^31."""
    return prefixes << 32 | last.astype(np.int64)


def _look_up(keys: Ints, prefixes: Ints, last: NDArray[np.int32]) -> Ints:
    """Numbers of the n-grams, −1 where the prefix, the last word or the pair is new."""
    if len(keys) == 0:
        return np.full(len(prefixes), -1, dtype=np.int64)
    wanted = _key(prefixes, last)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    is_known = (prefixes >= 0) & (last >= 0) & (keys[place] == wanted)
    return np.where(is_known, place, -1)
