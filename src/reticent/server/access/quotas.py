"""How many tokens each key has drawn: rationing, shared by all worker processes, kept over restarts.

A request reserves the most it may draw and gives back what it did not, so that concurrent requests cannot pass a
quota together; a crash leaves the reservation spent. This is not the ledger: losing the file loses a ration, never
privacy, so it is not synced.
"""

import sqlite3
import threading
from pathlib import Path

from reticent.core.errors import ConfigError
from reticent.server.access.keys import Key
from reticent.server.refusal import over_quota


class Quotas:
    """Counts in an SQLite file, or in memory where there are no keys."""

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.Lock()
        if path is not None and not path.exists():
            path.touch(mode=0o600)
        try:
            self._database = sqlite3.connect(
                ":memory:" if path is None else path, isolation_level=None, timeout=10.0, check_same_thread=False
            )
            self._database.execute("PRAGMA synchronous=OFF")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS drawn (key TEXT PRIMARY KEY, tokens INTEGER NOT NULL)"
            )
        except sqlite3.Error as error:
            raise ConfigError(f"{path}: the counts of quotas cannot be used", found=type(error).__name__) from None

    def reserve(self, key: Key, tokens: int) -> None:
        """Count `tokens` for a key; Refusal where they would pass its quota."""
        with self._lock:
            self._database.execute("INSERT OR IGNORE INTO drawn VALUES (?, 0)", (key.digest,))
            limit = 2**62 if key.quota is None else key.quota
            changed = self._database.execute(
                "UPDATE drawn SET tokens = tokens + ? WHERE key = ? AND tokens + ? <= ?",
                (tokens, key.digest, tokens, limit),
            )
            if changed.rowcount != 1:
                raise over_quota()

    def give_back(self, key: Key, tokens: int) -> None:
        """What was reserved and not drawn."""
        with self._lock:
            self._database.execute(
                "UPDATE drawn SET tokens = MAX(0, tokens - ?) WHERE key = ?", (tokens, key.digest)
            )

    def drawn(self) -> dict[str, int]:
        """Tokens drawn or reserved, by the key's digest: for the operator."""
        with self._lock:
            return {str(key): int(tokens) for key, tokens in self._database.execute("SELECT * FROM drawn")}

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def usage_path(keys: Path) -> Path:
    """Where the counts of a key file stand."""
    return keys.with_name(keys.name + ".usage")
