"""Scores of a served model kept on disk as they arrive: a long audit that was cut off asks for the rest alone.

    model = JournalledModel(RemoteModel(url, name), Path("scores.db"))

A large model takes hours to score a million sequences, and connections break. Sequences are asked in blocks, each
block's answers are written durably before the next is asked, and what is known is never asked again. Answers
are found by a keyed digest of the model's fingerprint and the tokens; the key lies in the same file, which only its
owner may read. The file holds log-probabilities, no text: but whoever has it can test guesses at whole sequences.

The fingerprint of a server is weak (see `remote`): if someone swaps the weights behind an address, old answers and
new ones are mixed. Use a file for one audit, and remove it afterwards.
"""

import hashlib
import os
import secrets
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from reticent.core.arrays import Floats
from reticent.core.errors import ModelError
from reticent.core.model import LanguageModel, Tokens

BLOCK: Final = 256  # sequences whose answers are written at once
_KEY_BYTES: Final = 32


class JournalledModel:
    """`model`, with `token_log_probs` that outlive an interruption. `asked` and `known` count sequences."""

    def __init__(self, model: LanguageModel, path: Path, *, block: int = BLOCK) -> None:
        self._model = model
        self._block = block
        self._entries, self._key = _opened(path)
        self.asked = self.known = 0

    def __repr__(self) -> str:
        return f"JournalledModel({self._model.name})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._model, name)

    def close(self) -> None:
        """Close the file."""
        self._entries.close()

    def token_log_probs(self, sequences: Sequence[Tokens]) -> list[Floats]:
        """As the model's; each sequence is asked for once, whatever happens in between."""
        material = self._model.fingerprint.encode()
        digests = [self._digest(material, sequence) for sequence in sequences]
        found = {digest: row for digest in set(digests) if (row := self._look_up(digest)) is not None}
        self.known += sum(digest in found for digest in digests)
        new = {d: s for d, s in zip(digests, sequences, strict=True) if d not in found}
        order = list(new)
        for start in range(0, len(order), self._block):
            block = order[start : start + self._block]
            rows = self._model.token_log_probs([new[digest] for digest in block])
            self.asked += len(block)
            with self._entries:
                self._entries.executemany(
                    "INSERT OR REPLACE INTO scores VALUES (?, ?)",
                    [(digest, row.astype("<f8").tobytes()) for digest, row in zip(block, rows, strict=True)],
                )
            found |= dict(zip(block, rows, strict=True))
        return [found[digest] for digest in digests]

    def _digest(self, material: bytes, sequence: Tokens) -> bytes:
        content = material + b"\0" + np.asarray(sequence, dtype="<i8").tobytes()
        return hashlib.blake2b(content, key=self._key, digest_size=20).digest()

    def _look_up(self, digest: bytes) -> Floats | None:
        row = self._entries.execute("SELECT scores FROM scores WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else np.frombuffer(row[0], dtype="<f8").astype(np.float64)


def _opened(path: Path) -> tuple[sqlite3.Connection, bytes]:
    """The file's connection and its key; both are made where there is none."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        entries = sqlite3.connect(path, timeout=60)
        with entries:
            entries.execute("CREATE TABLE IF NOT EXISTS scores (digest BLOB PRIMARY KEY, scores BLOB NOT NULL)")
            entries.execute("CREATE TABLE IF NOT EXISTS key (one INTEGER PRIMARY KEY CHECK (one = 1), key BLOB)")
            entries.execute("INSERT OR IGNORE INTO key VALUES (1, ?)", (secrets.token_bytes(_KEY_BYTES),))
        row: Any = entries.execute("SELECT key FROM key").fetchone()
    except (OSError, sqlite3.Error) as problem:
        raise ModelError(f"{path}: cannot store scores", found=type(problem).__name__) from None
    return entries, bytes(row[0])
