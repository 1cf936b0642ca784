"""Who may ask: keys in a file, hashed at rest, each with a quota of tokens; operators' keys see the ledger.

A key is 32 bytes of the system's generator, so that one pass of a plain hash protects it: nobody can try 2^256
keys. The key itself is shown once, when it is made. The file is readable by its owner alone, or it is refused.
Quotas are rationing: the budget is one for all keys, since keys may belong to one adversary.

A running server reads the file again when it changes; a file that became unreadable admits nobody.
"""

import hashlib
import hmac
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from reticent.core.document import MALFORMED, JsonObject, called, check_schema, read_document, write_document
from reticent.core.errors import ConfigError

SCHEMA_VERSION: Final = 1
PREFIX: Final = "sk-reticent-"
_NAME_LENGTH: Final = 64


@dataclass(frozen=True, slots=True)
class Key(JsonObject):
    """One key, by its hash. `quota` is how many tokens it may draw in all, None without limit."""

    name: str
    digest: str
    quota: int | None = None
    is_operator: bool = field(default=False, metadata=called("operator"))


def digest_of(key: str) -> str:
    """How a key stands in the file."""
    return hashlib.blake2b(key.encode("utf8", "replace"), digest_size=32, person=b"reticent key").hexdigest()


class KeyFile:
    """The keys of a server."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int] | None = None
        self._keys: dict[str, Key] = {}
        self.read()

    @property
    def keys(self) -> tuple[Key, ...]:
        """All keys, as they stand in the file."""
        return tuple(self._keys.values())

    def read(self) -> None:
        """Read the file where it changed; ConfigError where it is not private or not a key file."""
        try:
            status = self.path.stat()
        except OSError:
            self._keys, self._stamp = {}, None
            raise ConfigError(
                f"{self.path}: no such key file", hint=f"reticent keys add NAME --file {self.path}"
            ) from None
        stamp = (status.st_mtime_ns, status.st_ino)
        if stamp == self._stamp and not status.st_mode & 0o077:
            return
        self._keys, self._stamp = {}, None  # nobody is admitted by a file that cannot be read
        if status.st_mode & 0o077:
            raise ConfigError(
                f"{self.path}: others can read the key file",
                found=f"mode {stat.S_IMODE(status.st_mode):o}",
                expected="mode 600",
                hint=f"chmod 600 {self.path}",
            )
        self._keys = {key.digest: key for key in _keys(self.path)}
        self._stamp = stamp

    def find(self, key: str) -> Key | None:
        """The entry of a key that a client sent."""
        self.read()
        digest = digest_of(key)
        found = self._keys.get(digest)
        return found if found is not None and hmac.compare_digest(found.digest, digest) else None


def add_key(path: Path, name: str, *, quota: int | None = None, is_operator: bool = False) -> str:
    """A new key, its hash in the file; the file is made where there is none. The key, which is shown only here."""
    keys = KeyFile(path).keys if path.exists() else ()
    if not 0 < len(name) <= _NAME_LENGTH or not name.isprintable():
        raise ConfigError("a key's name is up to 64 printable characters", found=f"{len(name)} characters")
    if any(key.name == name for key in keys):
        raise ConfigError(f"{path}: there is a key of this name", hint="choose another name, or remove it first")
    if quota is not None and quota < 1:
        raise ConfigError("a quota is at least one token", found=quota)
    key = PREFIX + secrets.token_urlsafe(32)
    _write(path, [*keys, Key(name, digest_of(key), quota, is_operator)])
    return key


def remove_key(path: Path, name: str) -> None:
    """Take a key out of the file: a running server stops admitting it."""
    keys = KeyFile(path).keys
    left = [key for key in keys if key.name != name]
    if len(left) == len(keys):
        raise ConfigError(f"{path}: no key of this name", hint=f"reticent keys list --file {path}")
    _write(path, left)


def _write(path: Path, keys: list[Key]) -> None:
    document = {"schema_version": SCHEMA_VERSION, "keys": [key.to_json() for key in keys]}
    write_document(path, document, mode=0o600)


def _keys(path: Path) -> list[Key]:
    document = read_document(path)
    check_schema(document, SCHEMA_VERSION, kind="key file")
    try:
        return [
            Key(str(entry["name"]), str(entry["digest"]), entry["quota"], bool(entry["operator"]))
            for entry in document["keys"]
        ]
    except MALFORMED:
        raise ConfigError(f"{path}: not a key file", hint="make one with: reticent keys add") from None
