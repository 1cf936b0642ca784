"""What all our JSON documents have in common: a schema version, values by their types, and atomic writing.

A class is written by the fields that it declares, and read by their types: `JsonObject` and `fields_from_json`. A
document is replaced whole or not at all: after a crash a reader finds the old one or the new one.
"""

import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from enum import Enum, IntEnum
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Final, TypeVar, get_args, get_origin, get_type_hints

from reticent.core.errors import ConfigError

Kind = TypeVar("Kind", bound="JsonObject")
# The types that JSON holds as they are. A whole number stays one among floats: what is read is written as it was.
_HELD_AS: Final = {str: (str,), bool: (bool,), int: (int,), float: (float, int), dict: (dict,)}
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


class JsonObject:
    """A dataclass that JSON holds as an object: its schema version if it has one, then its fields in their order.

    The metadata of a field says what else is true of it: `called`, `UNWRITTEN`, `UNLESS_DEFAULT`, `ADDED_LATER`.
    """

    __slots__ = ()
    schema_version: ClassVar[int | None] = None

    def to_json(self) -> dict[str, Any]:
        """A JSON document: its schema version, if it has one, and its fields."""
        return fields_to_json(self)


_KEY, _MAY_LACK, _IF_SET = "key in JSON", "may be missing in JSON", "written if set"
UNWRITTEN: Final = {_KEY: None}
ADDED_LATER: Final = {_MAY_LACK: True}  # documents that were written before have no such field
UNLESS_DEFAULT: Final = {_MAY_LACK: True, _IF_SET: True}  # so that what does not use it reads as it always did


def called(name: str) -> dict[str, Any]:
    """The metadata of a field that has another name in JSON."""
    return {_KEY: name}


def as_json(value: Any) -> Any:
    """What JSON holds of a value: enums by value, infinities as words, paths as text, objects by their `to_json`.

    Anything else is refused (TypeError), dataclasses too: no record or secret gets into a file by being part of it.
    """
    match value:
        case IntEnum():
            return value.name.lower()
        case Enum():
            return value.value
        case float():
            return number_to_json(value)
        case None | int() | str():
            return value
        case tuple() | list():
            return [as_json(each) for each in value]
        case Mapping():
            return object_to_json(value)
        case Path():
            return str(value)
    if not hasattr(value, "to_json"):
        raise TypeError(f"JSON holds no {type(value).__name__}")
    return value.to_json()


def object_to_json(values: Mapping[Any, Any]) -> dict[str, Any]:
    """The values by name, each `as_json`."""
    return {as_json(key): as_json(each) for key, each in values.items()}


def fields_to_json(value: Any, /, **given: Any) -> dict[str, Any]:
    """The fields of a `JsonObject`; what is `given` stands in place of the field of that name, or comes last."""
    document = {} if value.schema_version is None else {"schema_version": value.schema_version}
    for each in fields(value):
        key, held = each.metadata.get(_KEY, each.name), getattr(value, each.name)
        if key is not None and not (_IF_SET in each.metadata and held == each.default):
            document[key] = given.get(key, held)
    return object_to_json(document | given)


def fields_from_json(kind: type[Kind], document: Mapping[str, Any], *, ignores_others: bool = False) -> Kind:
    """The dataclass whose fields `fields_to_json` wrote; KeyError, TypeError or ValueError if they do not fit.

    `ignores_others` is for documents that hold more than the fields.
    """
    known: Any = kind  # the type checker does not see a dataclass in it
    wanted = {each.metadata.get(_KEY, each.name): each for each in fields(known)}
    others = document.keys() - wanted.keys() - {"schema_version"}
    if others and not ignores_others:
        raise TypeError(f"{', '.join(sorted(others))}: no such field")
    types = _types_of(known)
    made: Kind = known(
        **{
            each.name: _from_json(types[each.name], document[key])
            for key, each in wanted.items()
            if key is not None and (key in document or _MAY_LACK not in each.metadata)
        }
    )
    return made


@cache
def _types_of(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _from_json(kind: Any, value: Any) -> Any:
    """The value of a type that `as_json` wrote; what is of another type raises."""
    parts = get_args(kind)
    if NoneType in parts:
        (held,) = (part for part in parts if part is not NoneType)
        return None if value is None else _from_json(held, value)
    if get_origin(kind) is tuple and isinstance(value, list):
        of_each = [parts[0]] * len(value) if parts[-1] is Ellipsis else parts
        return tuple(_from_json(part, each) for part, each in zip(of_each, value, strict=True))
    if hasattr(kind, "from_json") and isinstance(value, dict):
        return kind.from_json(value)
    if isinstance(kind, type) and issubclass(kind, JsonObject) and isinstance(value, dict):
        return fields_from_json(kind, value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind[value.upper()] if issubclass(kind, IntEnum) else kind(value)
    if kind is float and value in ("inf", "-inf"):
        return number_from_json(value)
    if type(value) not in _HELD_AS.get(get_origin(kind) or kind, ()):
        raise TypeError(f"{type(value).__name__} in place of {kind}")
    return value


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
