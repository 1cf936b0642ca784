"""The key of a scrubbed corpus: what makes pseudonyms and fakes the same in every file, and scrubbing idempotent.

A pseudonym is "anon-" and 24 hexadecimal digits, a keyed hash (BLAKE2b) of an id or owner: equal values get equal
pseudonyms, so that owners and references between records stay, and nobody without the key can test a guess. A
pseudonym is left as it is when it is met again.

Fakes look like real values, so that a second run cannot tell them from such. Their key therefore also remembers, as
keyed hashes of 16 bytes, the strings that it has scrubbed: each is left exactly as it is when it is met again. The
file has the key on its first line and a hash on each further one.
"""

import hashlib
import re
import secrets
from pathlib import Path

from reticent.core.document import write_atomically
from reticent.core.errors import DataError
from reticent.data.redaction.fakes import Fakes

_KEY_BYTES = 32
_PSEUDONYM = re.compile("anon-[0-9a-f]{24}")


class ScrubKey:
    """A key of 16 to 64 bytes and the strings that were scrubbed under it."""

    def __init__(self, key: bytes | None = None) -> None:
        """Without a key, one is drawn for this run alone."""
        self._key = secrets.token_bytes(_KEY_BYTES) if key is None else key
        self.fakes = Fakes(self._key)
        self._done: set[str] = set()
        self._new: list[str] = []

    def __repr__(self) -> str:
        return "ScrubKey()"

    @classmethod
    def read(cls, path: Path) -> "ScrubKey":
        """The key in a file; a new one is written if there is no such file."""
        if not path.exists():
            write_atomically(path, secrets.token_hex(_KEY_BYTES).encode() + b"\n", mode=0o600)
        try:
            first, *rest = path.read_text(encoding="ascii").split()
            key = cls(bytes.fromhex(first))
            key._done.update(rest)
        except ValueError:
            raise DataError(
                "not a key",
                path=path,
                expected="32 to 128 hexadecimal digits in its first line",
                hint="name the key of an earlier run, or a file that is not there yet: a new key is then made",
            ) from None
        return key

    def save(self, path: Path) -> None:
        """Append the strings that were scrubbed since the key was read."""
        with path.open("a", encoding="ascii") as file:
            file.writelines(f"{digest}\n" for digest in self._new)
        self._new.clear()

    def pseudonym(self, value: object) -> str:
        """What stands for an id or an owner; a pseudonym stands for itself."""
        text = str(value)
        return text if is_pseudonym(text) else f"anon-{self._digest('pseudonym', text, 12)}"

    def number(self, value: int) -> int:
        """A number of as many digits, that fits wherever `value` fits."""
        digits = len(str(abs(value)))
        drawn = int(self._digest("number", str(value), 16), 16)
        lowest = int("1" + "0" * (digits - 1))
        made = lowest + drawn % lowest
        made += made == abs(value)
        return made if value >= 0 else -made

    def is_done(self, text: str) -> bool:
        """Whether `text` came out of scrubbing under this key."""
        return bool(self._done) and self._digest("done", text, 16) in self._done

    def remember(self, text: str) -> None:
        """`text` came out of scrubbing: leave it as it is from now on, once it is saved."""
        self._new.append(self._digest("done", text, 16))

    def _digest(self, use: str, text: str, size: int) -> str:
        encoded = text.encode("utf8", "surrogatepass")
        return hashlib.blake2b(encoded, key=self._key, digest_size=size, person=use.encode()).hexdigest()


def is_pseudonym(text: str) -> bool:
    """Whether a text is a pseudonym and nothing else."""
    return _PSEUDONYM.fullmatch(text) is not None
