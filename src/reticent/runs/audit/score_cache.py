"""Measurements kept on disk between audits, so that a second run is fast and never stale.

An entry is found by everything that decides its content: the fingerprints of the model, its base and the corpora,
the canaries, the attack with its seed, sizes and other parameters, and the version of the code. Change one and it
is another entry. Published code forgot the model in this key, and a second model got the first one's scores.

The key is hashed under a random key that never leaves the cache: a plain hash that includes a six-digit canary
would let whoever reads a file name try all 10^6. Entries hold numbers and ids; only their owner may read them.

A cached score decides gates, so the folder is not trusted: it and its key must belong to this user and be closed to
others, and every entry carries a code under that key (a keyed hash of its name and content). An entry that someone
else wrote, edited or moved is computed again, as a damaged one is. Nothing is ever removed here.
"""

import hashlib
import hmac
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from reticent import __version__
from reticent.core.document import read_document, write_document
from reticent.core.errors import ConfigError
from reticent.core.secret import Canary, CodeSpace

SCHEMA_VERSION: Final = 2  # of what attacks measure: intervals by owner, ranks of the risk map
_KEY: Final = "key"
_KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ScoreKey:
    """All that decides a measurement. `model` and `base` are fingerprints, `corpora` name → fingerprint."""

    attack: str
    model: str
    base: str | None
    corpora: Mapping[str, str]
    canaries: Sequence[Canary] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def material(self) -> bytes:
        """The key in one canonical form. Holds canary secrets: hash it under a key, never write it."""
        parts = {
            "schema_version": SCHEMA_VERSION,
            "version": __version__,
            "attack": self.attack,
            "model": self.model,
            "base": self.base,
            "corpora": dict(self.corpora),
            "canaries": [_canary_parts(canary) for canary in self.canaries],
            "parameters": dict(self.parameters),
        }
        return json.dumps(parts, sort_keys=True, ensure_ascii=True, allow_nan=False).encode()


def _canary_parts(canary: Canary) -> list[Any]:
    """A canary with its space; a listed space by all its candidates."""
    space = canary.space
    described = [space.length, space.alphabet] if isinstance(space, CodeSpace) else list(space)
    return [canary.name, canary.template, canary.secret.kind, canary.secret.reveal(), described, canary.copies]


class ScoreCache:
    """A folder of measurements. `hits` and `misses` count what this object was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hits = 0
        self.misses = 0
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _require_own(folder, 0o022)
            self._secret = _secret_of(folder / _KEY)
        except OSError as problem:
            raise ConfigError(
                f"{folder}: cannot store the score cache",
                found=(problem.strerror or type(problem).__name__).lower(),
                hint="name another folder with --cache, or use --no-cache",
            ) from None

    def measured(self, key: ScoreKey, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The JSON document stored under the key, or what `measure` gives, which is then stored."""
        name = self.name(key)
        stored = self._read(name)
        if stored is not None:
            self.hits += 1
            return stored
        self.misses += 1
        content = measure()
        document = {
            "schema_version": SCHEMA_VERSION,
            "name": name,
            "content": content,
            "code": self._code(name, content),
        }
        write_document(self._place(name), document, mode=0o600)
        return content

    def has(self, key: ScoreKey) -> bool:
        """Whether a readable entry is there."""
        return self._read(self.name(key)) is not None

    def name(self, key: ScoreKey) -> str:
        """Name of the key's entry: a keyed hash."""
        return hashlib.blake2b(key.material(), key=self._secret, digest_size=20).hexdigest()

    def _place(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _read(self, name: str) -> dict[str, Any] | None:
        """A stored document; None where there is none, or none that can be trusted."""
        try:
            document = read_document(self._place(name))
        except ConfigError:
            return None
        content = document.get("content")
        # An entry names itself: one that was renamed or copied into another's place is not taken.
        is_own = document.get("schema_version") == SCHEMA_VERSION and document.get("name") == name
        if not is_own or not isinstance(content, dict):
            return None
        found = str(document.get("code")).encode("utf8", "replace")
        return content if hmac.compare_digest(found, self._code(name, content).encode()) else None

    def _code(self, name: str, content: dict[str, Any]) -> str:
        """What only an owner of the key can write under an entry."""
        plain = json.loads(json.dumps(content))  # as a reader finds it: keys are texts, tuples lists
        text = json.dumps([name, plain], sort_keys=True)
        return hashlib.blake2b(
            text.encode(), key=self._secret, digest_size=32, person=b"reticent score"
        ).hexdigest()


def default_folder() -> Path:
    """The user's cache folder (XDG_CACHE_HOME, else ~/.cache)."""
    above = os.environ.get("XDG_CACHE_HOME")
    return (Path(above) if above else Path.home() / ".cache") / "reticent" / "scores"


def _secret_of(path: Path) -> bytes:
    """The cache's own key, drawn once. It appears whole, and processes that draw at the same time agree on one."""
    if not path.exists():
        handle, drawn = tempfile.mkstemp(dir=path.parent, prefix=".key.")  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
            with suppress(FileExistsError):
                os.link(drawn, path)
        finally:
            Path(drawn).unlink(missing_ok=True)
    _require_own(path, 0o077)
    found = path.read_bytes()
    if len(found) != _KEY_BYTES:
        raise ConfigError(f"{path}: not a key of this cache", hint="remove the folder; it holds nothing but scores")
    return found


def _require_own(path: Path, others: int) -> None:
    """Refuse a folder or key of another user, or with rights for others."""
    status = path.lstat() if path.is_symlink() else path.stat()
    if status.st_uid != os.getuid() or status.st_mode & others:
        raise ConfigError(
            f"{path}: other users could write scores here",
            found=f"owner {status.st_uid}, mode {stat.S_IMODE(status.st_mode):o}",
            expected=f"owner {os.getuid()}, mode {0o700 & ~others if path.is_dir() else 0o600:o}",
            hint="name a folder of your own with --cache, or use --no-cache",
        )
