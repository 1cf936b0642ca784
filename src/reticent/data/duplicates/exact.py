"""Exact deduplication of texts: of equal texts the first stays.

Run it **after** redaction. In the other order two records that differ in a secret alone ("my ssn is 111", "my ssn
is 222") both stay, become equal when redacted, and the same sentence is trained twice: group confidentiality fails
even with a perfect policy. A Bloom filter would not do: its false positives depend on earlier records, so that a
change of one record drops others.

Equality is that of the exact text, through 256-bit BLAKE2b digests; near duplicates stay.
"""

import hashlib
from collections import Counter


class TextCounter:
    """How often each text was seen, without keeping the texts: one digest each."""

    def __init__(self) -> None:
        self._counts: Counter[bytes] = Counter()

    def add(self, text: str) -> bool:
        """Count one text; whether it is new."""
        digest = hashlib.blake2b(text.encode("utf8", errors="surrogatepass"), digest_size=32).digest()
        self._counts[digest] += 1
        return self._counts[digest] == 1

    @property
    def seen(self) -> int:
        """Texts counted."""
        return self._counts.total()

    @property
    def distinct(self) -> int:
        """Different texts counted."""
        return len(self._counts)

    @property
    def repeated(self) -> int:
        """Texts that had been seen before: what deduplication drops."""
        return self.seen - self.distinct

    @property
    def most(self) -> int:
        """How often the most frequent text was seen; 0 where none was."""
        return max(self._counts.values(), default=0)
