"""Chance that is the same in every run: the system's generator and keys, seeded by the name of the test.

The code under test still takes them for the system's own (`Randomness.protects` holds). Processes that a test
starts or forks draw from the real system.
"""

import hashlib
import os
import secrets

import numpy as np
from numpy.typing import NDArray

from reticent.core import randomness

_REAL_WORDS = randomness._SystemBits.words
_REAL_BYTES = secrets.token_bytes


class SameChance:
    """A stream that begins anew for every test and for every fixture that several tests share."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._source = np.random.PCG64DXSM(0)

    def begin(self, name: str) -> None:
        """Start the stream of this name."""
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
        self._source = np.random.PCG64DXSM(int.from_bytes(digest, "big"))

    def install(self) -> None:
        """Put the stream in the place of the system's."""
        randomness._SystemBits.words = lambda bits, count: self._words(bits, count)
        secrets.token_bytes = self._bytes

    @staticmethod
    def remove() -> None:
        """Give the system's own generator back."""
        randomness._SystemBits.words = _REAL_WORDS
        secrets.token_bytes = _REAL_BYTES

    def _words(self, bits: randomness._SystemBits, count: int) -> NDArray[np.uint64]:
        if os.getpid() != self._process:
            return _REAL_WORDS(bits, count)
        return np.asarray(self._source.random_raw(count), dtype=np.uint64)

    def _bytes(self, count: int | None = None) -> bytes:
        if os.getpid() != self._process:
            return _REAL_BYTES(count)
        size = 32 if count is None else count
        return np.asarray(self._source.random_raw((size + 7) // 8), dtype=np.uint64).tobytes()[:size]


SAME_CHANCE = SameChance()
