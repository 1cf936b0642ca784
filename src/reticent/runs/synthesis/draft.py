"""Texts as they are drawn, on disk before the next: `OUT.draft`, which a killed call goes on from.

    first line    {"schema_version": 1, "request": digest of what was asked for}
    then          {"text": …, "tokens": …, "is_whole": …}     one a text, empty ones too, synced in batches

Readable by its owner alone, and removed when the corpus stands. A call that asks for something else is refused, and
so is a second one while the first is at work. What a crash left of the last line is dropped: of an ensemble's text
the tokens stay charged.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

from reticent.core.document import MALFORMED, require_writable
from reticent.core.errors import ConfigError, DataError
from reticent.runs.synthesis.sources import Drawn

SCHEMA_VERSION: Final = 1


def draft_path(out: Path) -> Path:
    """Where the draft of a corpus lies."""
    return out.with_name(f"{out.name}.draft")


class Draft:
    """The open draft of one call; `texts` are those of earlier calls and of this one."""

    def __init__(self, file: BinaryIO, path: Path, texts: list[Drawn]) -> None:
        self._file, self._path, self.texts = file, path, texts

    @classmethod
    def open(cls, path: Path, request: Sequence[Any]) -> Self:
        """A new draft, or the one that the same request left."""
        require_writable(path)
        if not path.parent.is_dir():
            raise DataError("cannot be written", path=path, found="no such folder")
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(file, path, _read(file, path, _digest(request)))
        except BlockingIOError:
            file.close()
            raise ConfigError(f"{path}: another call is writing this corpus", hint="wait for it") from None
        except BaseException:
            file.close()
            raise

    def add(self, drawn: Sequence[Drawn]) -> None:
        """Keep texts; they are on disk when this returns."""
        _append(self._file, [asdict(each) for each in drawn])
        self.texts.extend(drawn)

    def remove(self) -> None:
        """The corpus stands, or there is none."""
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def _digest(request: Sequence[Any]) -> str:
    return hashlib.blake2b(json.dumps(request, sort_keys=True).encode(), digest_size=16).hexdigest()


def _append(file: BinaryIO, rows: Sequence[dict[str, Any]]) -> None:
    file.write("".join(json.dumps(row) + "\n" for row in rows).encode("ascii"))
    file.flush()
    os.fsync(file.fileno())


def _read(file: BinaryIO, path: Path, request: str) -> list[Drawn]:
    """The texts of an earlier call, the file cut after the last whole line; a new file gets its first line."""
    content = file.read()
    whole = content[: content.rfind(b"\n") + 1]
    file.seek(len(whole))
    file.truncate()
    if not whole:
        _append(file, [{"schema_version": SCHEMA_VERSION, "request": request}])
        return []
    try:
        first, *rows = [json.loads(line) for line in whole.splitlines()]
        is_same = (first["schema_version"], first["request"]) == (SCHEMA_VERSION, request)
        texts = [Drawn(str(row["text"]), int(row["tokens"]), bool(row["is_whole"])) for row in rows]
    except MALFORMED as error:
        raise ConfigError(
            f"{path}: not a draft", found=type(error).__name__, hint="remove it to begin anew"
        ) from None
    if not is_same:
        raise ConfigError(
            f"{path}: an unfinished corpus of another call",
            found="another run, count, sampling or prompts",
            hint="repeat that call to go on, choose another --out, or remove the draft to begin anew",
        )
    return texts
