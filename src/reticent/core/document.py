"""What all our JSON documents have in common: a schema version, atomic writing, and infinities.

A document is replaced whole or not at all: after a crash a reader finds the old one or the new one.
"""

import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

from reticent.core.errors import ConfigError

# What taking a document apart raises where somebody edited it: parts missing, of another type, nested too deep.
MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


def check_schema(document: dict[str, Any], version: int, *, kind: str) -> None:
    """Refuse a document of another version than the one this code reads."""
    found = document.get("schema_version")
    if found != version:
        raise ConfigError(
            f"this {kind} has an unknown schema version",
            found=repr(found),
            expected=str(version),
            hint="read it with the version of reticent that wrote it",
        )


def number_to_json(value: float | None) -> float | str | None:
    """JSON has no infinity: write it as the word "inf", which every reader must treat on purpose."""
    if value is None or math.isfinite(value):
        return value
    if math.isnan(value):
        raise ValueError("a document never holds NaN")
    return "inf" if value > 0 else "-inf"


def number_from_json(value: float | str) -> float:
    """The number that `number_to_json` wrote."""
    return float(value)


def fields_to_json(value: Any) -> dict[str, Any]:
    """A dataclass as a JSON object of its fields: enums by value, infinities as words."""
    return {field.name: _to_json(getattr(value, field.name)) for field in fields(value)}


def _to_json(value: Any) -> Any:
    match value:
        case IntEnum():
            return value.name.lower()
        case Enum():
            return value.value
        case float():
            return number_to_json(value)
        case tuple() | list():
            return [_to_json(each) for each in value]
        case Mapping():
            return {key: _to_json(each) for key, each in value.items()}
    if hasattr(value, "to_json"):
        return value.to_json()
    return fields_to_json(value) if is_dataclass(value) else value


def write_atomically(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Replace `path` by `content` so that a crash leaves either the old file or the new one, whole."""
    with folder_at(path.parent):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(mode)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        sync(path.parent)


def append_row(path: Path, row: bytes) -> None:
    """Append a row to a file of rows of one length, readable by its owner alone; on disk when this returns.

    Guarantee: what a crash left of a row is removed first, so that rows begin at multiples of their length.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        whole = os.fstat(descriptor).st_size // len(row) * len(row)
        os.ftruncate(descriptor, whole)
        os.pwrite(descriptor, row, whole)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def folder_at(path: Path) -> Iterator[None]:
    """Make the folder and its parents; if the block fails, those that were made and are empty go again."""
    made = [each for each in (path, *path.parents) if not each.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for folder in made:
            with suppress(OSError):  # not empty, or never made
                folder.rmdir()
        raise


def require_writable(path: Path) -> None:
    """Refuse a file or folder that cannot be made there, before hours are spent on what it would hold."""
    there = next((each for each in (path, *path.parents) if each.exists()), path)
    if there != path and not there.is_dir():
        raise ConfigError(f"{path}: cannot be created, since {there} is a file", hint="choose another location")
    folder = there if there.is_dir() else there.parent
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{path}: cannot be written", found="no permission to write there", hint="choose another location"
        )


def sync(path: Path) -> None:
    """Make a file durable, or the names in a folder: a rename, say."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_document(path: Path, document: dict[str, Any], *, mode: int = 0o600) -> None:
    """Write a JSON document atomically, for its owner's eyes unless `mode` says more; NaN and infinity are refused.

    Findings name records and tell which were trained on. What may travel is the guarantee beside the weights.
    """
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(path, text.encode("utf8"), mode=mode)


def read_document(path: Path) -> dict[str, Any]:
    """Read a JSON object; anything else is a ConfigError that names the file."""
    try:
        document = json.loads(path.read_text(encoding="utf8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, ValueError, RecursionError) as error:  # also a number of more digits than Python reads
        raise ConfigError(f"{path}: not a readable JSON document", found=type(error).__name__) from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: not a JSON object", found=type(document).__name__, expected="an object")
    return document
