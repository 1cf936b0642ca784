"""What a policy found, kept on disk by content: a second scan of the same texts only looks them up.

An entry is found by a keyed digest of the policy's fingerprint, the version of the code and the text; it holds
offsets and kinds, never characters. The key lies in the same file, which only its owner may read: whoever has the
file can test guesses at whole texts, as with any fingerprint, but reads nothing from it. A policy without a
fingerprint is refused: two of the same name may differ, and one would get the other's findings.
"""

import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reticent import __version__
from reticent.core.corpus import Policy, Span
from reticent.core.errors import DataError

SCHEMA_VERSION = 1
_KEY_BYTES = 32


def fingerprint_of(policy: Policy) -> str:
    """The policy's `fingerprint`: whatever decides its findings. Policies without one are refused."""
    fingerprint = getattr(policy, "fingerprint", None)
    if not isinstance(fingerprint, str) or not fingerprint:
        raise ValueError(f"the policy '{policy.name}' has no fingerprint, so its findings cannot be kept")
    return fingerprint


class SpanCache:
    """A policy with a memory at `path`. `hits` and `misses` count texts."""

    def __init__(self, policy: Policy, path: Path) -> None:
        self._policy = policy
        self._material = f"{SCHEMA_VERSION}\0{__version__}\0{fingerprint_of(policy)}\0".encode()
        self.name = policy.name
        self.is_local = policy.is_local
        self.reads_context = bool(getattr(policy, "reads_context", False))
        self.fingerprint = fingerprint_of(policy)
        self.hits = self.misses = 0
        self._entries, self._key = _opened(path)

    def __repr__(self) -> str:
        return f"SpanCache({self.name})"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The policy's own."""
        return tuple(getattr(self._policy, "kinds", ()))

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """What the policy finds; only texts that were never seen are given to it, each once."""
        digests = [self._digest(text) for text in texts]
        known = self._look_up(digests)
        new = dict(zip(digests, texts, strict=True))
        asked = {digest: text for digest, text in new.items() if digest not in known}
        self.hits += sum(digest in known for digest in digests)
        self.misses += sum(digest not in known for digest in digests)
        if asked:
            found = dict(zip(asked, self._policy.find(list(asked.values())), strict=True))
            known |= found
            rows = [(digest, _encoded(spans)) for digest, spans in found.items()]
            with self._entries:
                self._entries.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", rows)
        return [known[digest] for digest in digests]

    def close(self) -> None:
        """Close the file."""
        self._entries.close()

    def _digest(self, text: str) -> bytes:
        message = self._material + text.encode("utf8", errors="surrogatepass")
        return hashlib.blake2b(message, key=self._key, digest_size=20).digest()

    def _look_up(self, digests: Sequence[bytes]) -> dict[bytes, tuple[Span, ...]]:
        known = {}
        for digest in set(digests):
            row = self._entries.execute("SELECT spans FROM entries WHERE digest = ?", (digest,)).fetchone()
            if row is not None:
                known[digest] = tuple(Span(*fields) for fields in json.loads(row[0]))
        return known


def _encoded(spans: Sequence[Span]) -> str:
    return json.dumps([[span.start, span.end, span.kind, span.identifier] for span in spans])


def _opened(path: Path) -> tuple[sqlite3.Connection, bytes]:
    """The file's connection and its key; both are made where there is none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        path.chmod(0o600)  # one that was there may have been readable by others
        entries = sqlite3.connect(path, timeout=60)
        with entries:
            entries.execute("CREATE TABLE IF NOT EXISTS entries (digest BLOB PRIMARY KEY, spans TEXT NOT NULL)")
            entries.execute("CREATE TABLE IF NOT EXISTS key (one INTEGER PRIMARY KEY CHECK (one = 1), key BLOB)")
            entries.execute("INSERT OR IGNORE INTO key VALUES (1, ?)", (secrets.token_bytes(_KEY_BYTES),))
        row: Any = entries.execute("SELECT key FROM key").fetchone()
    except (OSError, sqlite3.Error) as problem:
        raise DataError("cannot store the cache of findings", path=path, found=type(problem).__name__) from None
    return entries, bytes(row[0])
