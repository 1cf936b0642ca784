"""The formats a corpus may have, how one is recognised, and the rows each one gives.

| Format  | A row is                                                     | Its "line" in errors |
|---------|--------------------------------------------------------------|----------------------|
| jsonl   | one JSON object a line; blank lines are skipped              | line                 |
| csv/tsv | one record of RFC 4180, the first line names the columns;    | first line of the row|
|         | a CSV may have semicolons instead of commas                  |                      |
| text    | one non-empty line; blank lines separate and are not records | line                 |
| folder  | one .txt file, anywhere below; its id is its relative path   | in that file         |
| parquet | one row                                                      | row, from 1          |
| dataset | one row of a directory that `Dataset.save_to_disk` wrote     | row, from 1          |

Rows are raw: what they must hold is `reading`'s business. Everything is streamed.
"""

import csv
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from reticent.core.errors import DataError
from reticent.data.reading.chats import MESSAGES
from reticent.data.reading.compression import LONGEST_LINE, decode, open_bytes, plain_suffix, read_lines, unreadable


class Format(StrEnum):
    """How the records of a corpus are stored."""

    JSONL = "jsonl"
    CSV = "csv"
    TSV = "tsv"
    TEXT = "text"
    FOLDER = "folder"
    PARQUET = "parquet"
    DATASET = "dataset"


@dataclass(frozen=True, slots=True)
class Fields:
    """Names, or paths such as "meta.user", of the fields that hold a record's text, id, owner and sensitive spans.

    A row without `text` may have `messages` in its place, a chat.
    Without a field of the default name, ids are made from line numbers, each record is its own owner, and no span
    is known. A name other than the default was asked for, so the field must be there.
    """

    text: str = "text"
    id: str = "id"
    owner: str = "owner"
    spans: str = "spans"

    def __post_init__(self) -> None:
        names = [self.text, self.id, self.owner, self.spans]
        if not all(names) or len({self.text, self.id, self.spans}) != 3 or self.owner in (self.text, self.spans):
            raise ValueError("text, id and spans need three different field names; owner may equal id alone")

    def text_of(self, row: "Row") -> str:
        """The field that holds the text of a row: that of the messages where it has no other."""
        is_chat = self.text == "text" and "text" not in row.values and MESSAGES in row.values
        return MESSAGES if is_chat else self.text


@dataclass(frozen=True, slots=True)
class Row:
    """What one place of a file holds, by field name; `repr` would show text, so there is none."""

    path: Path
    line: int
    values: Mapping[str, object]

    def __repr__(self) -> str:
        return f"Row({self.path}:{self.line})"

    def get(self, field: str) -> object:
        """The value of a field by its name, or by its path through nested objects; None where it is not there."""
        values, rest = self.values, field
        while rest not in values:
            first, _, rest = rest.partition(".")
            inner = values.get(first)
            if not rest or not isinstance(inner, Mapping):
                return None
            values = inner
        return values[rest]


_SUFFIXES = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".json": Format.JSONL,
    ".csv": Format.CSV,
    ".tsv": Format.TSV,
    ".txt": Format.TEXT,
    ".text": Format.TEXT,
    ".parquet": Format.PARQUET,
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,39}")
_COLUMN = re.compile(r"[^\W\d][\w .-]{0,39}")  # of a spreadsheet: any script, and blanks


def recognise(path: Path) -> Format:
    """The format of a path that exists, from its suffix or, for a directory, from what lies in it."""
    if not path.exists():
        raise DataError("no such file or directory", path=path)
    if path.is_dir():
        if (path / "dataset_dict.json").is_file():
            raise DataError(
                "a saved dataset with several splits",
                path=path,
                hint="give the directory of one split, such as its subdirectory 'train'",
            )
        return Format.DATASET if (path / "state.json").is_file() else Format.FOLDER
    if not path.is_file():
        raise DataError(
            "neither a regular file nor a directory", path=path, hint="write the records to a file first"
        )
    suffix = plain_suffix(path)
    if suffix not in _SUFFIXES:
        known = ", ".join(_SUFFIXES)
        raise DataError(
            "unknown format",
            path=path,
            found=f"suffix {suffix!r}",
            expected=f"one of {known}, optionally followed by .gz, .bz2, .xz, .zst or .lz4, or a directory",
            hint="name the format with --format: " + ", ".join(Format),
        )
    return _SUFFIXES[suffix]


def read_rows(path: Path, stored: Format, *, fields: Fields, whole: bool = False) -> Iterator[Row]:
    """The rows of a corpus in stored order; of tables only the columns that `fields` names, unless `whole`."""
    if not path.exists():
        raise DataError("no such file or directory", path=path)
    wants_directory = stored in (Format.FOLDER, Format.DATASET)
    if path.is_dir() != wants_directory:
        kind = "a directory" if wants_directory else "a file"
        raise DataError(f"the format {stored} needs {kind}", path=path)
    readers: dict[Format, Callable[[], Iterator[Row]]] = {
        Format.JSONL: lambda: _read_jsonl(path),
        Format.CSV: lambda: _read_csv(path, ","),
        Format.TSV: lambda: _read_csv(path, "\t"),
        Format.TEXT: lambda: _read_text(path, fields),
        Format.FOLDER: lambda: _read_folder(path, fields),
        Format.PARQUET: lambda: _read_tables(path, stored, None if whole else fields),
        Format.DATASET: lambda: _read_tables(path, stored, None if whole else fields),
    }
    return readers[stored]()


def _read_tables(path: Path, stored: Format, fields: Fields | None) -> Iterator[Row]:
    from reticent.data.reading import tables  # deferred: it imports pyarrow

    names = None
    if fields is not None:
        asked = (fields.text, fields.id, fields.owner, fields.spans)
        names = [
            *asked,
            *(name.partition(".")[0] for name in asked),
            *([MESSAGES] if fields.text == "text" else []),
        ]
    read = tables.read_parquet if stored is Format.PARQUET else tables.read_dataset
    for number, values in read(path, names):
        yield Row(path, number, values)


def _read_jsonl(path: Path) -> Iterator[Row]:
    for number, line in read_lines(path):
        if not line.strip():
            continue
        if number == 1 and line.lstrip().startswith("["):
            raise DataError(
                "a JSON array", path=path, line=1, expected="one JSON object a line", hint="convert it: jq -c '.[]'"
            )
        values = parse_json(line, path=path, line=number)
        if not isinstance(values, dict):
            raise DataError(
                "not a JSON object", path=path, line=number, found=type_name(values), expected="an object"
            )
        yield Row(path, number, values)


def parse_json(text: str, *, path: Path, line: int, what: str = "the line") -> object:
    """A JSON value; the parser's own message may quote the text, so it is not passed on."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        where = f"bad JSON at column {problem.colno}"
    except (ValueError, RecursionError):
        where = "a number too long or nesting too deep"
    raise DataError(f"{what} is not valid JSON", path=path, line=line, found=where) from None


def type_name(value: object) -> str:
    """What JSON calls the type of `value`."""
    if value is None:
        return "null"
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), type(value).__name__)


def show_names(names: Mapping[str, object]) -> str:
    """Field names for a message: only those that look like names, since a key or a first line may be text."""
    shown = [name for name in names if _NAME.fullmatch(name)]
    hidden = len(names) - len(shown)
    rest = [f"{hidden} not shown"] if hidden else []
    return "the fields " + ", ".join(shown + rest) if names else "no fields"


def _read_csv(path: Path, delimiter: str) -> Iterator[Row]:
    # The limit is global to the process and 128 KiB by default: shorter than a court case.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    lines = (text for _, text in read_lines(path))
    first = next(lines, "")
    if delimiter == "," and "," not in first and ";" in first:
        delimiter = ";"  # as spreadsheets write it where the comma is the decimal sign
    reader = csv.reader(itertools.chain([first], lines), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:
            too_large = "field limit" in str(problem)
            what = "a field is too large" if too_large else "not valid CSV"
            hint = f"a field holds at most {csv.field_size_limit()} characters" if too_large else "check the quotes"
            raise DataError(what, path=path, line=line, hint=hint) from None
        if not cells:
            continue
        if header is None:
            header = _check_header(cells, path=path)
        elif len(cells) != len(header):
            raise DataError(
                "a row of another length than the header",
                path=path,
                line=line,
                found=f"{len(cells)} fields",
                expected=str(len(header)),
            )
        else:
            # An empty cell is how CSV writes "no value".
            yield Row(path, line, {name: cell or None for name, cell in zip(header, cells, strict=True)})


def _check_header(cells: list[str], *, path: Path) -> list[str]:
    if not all(_COLUMN.fullmatch(cell.strip()) for cell in cells):
        raise DataError(
            "the first line does not name the columns",
            path=path,
            line=1,
            expected="names of letters, digits, blanks, '_', '-' or '.'",
            hint="add a header line",
        )
    names = [cell.strip() for cell in cells]
    if len(set(names)) != len(names):
        raise DataError("two columns have one name", path=path, line=1)
    return names


def _read_text(path: Path, fields: Fields) -> Iterator[Row]:
    for number, line in read_lines(path):
        text = line.rstrip("\r\n")
        if text.strip():
            yield Row(path, number, {fields.text: text})


def _read_folder(path: Path, fields: Fields) -> Iterator[Row]:
    found = False
    for file in sorted(path.rglob("*")):
        relative = file.relative_to(path)
        if (
            any(part.startswith(".") for part in relative.parts)
            or plain_suffix(file) != ".txt"
            or not file.is_file()
        ):
            continue
        found = True
        try:
            with open_bytes(file) as stream:
                raw = stream.read(LONGEST_LINE + 1)
        except (EOFError, OSError) as problem:
            raise unreadable(file, problem) from None
        if len(raw) > LONGEST_LINE:
            raise DataError(f"the text is longer than {LONGEST_LINE} bytes", path=file)
        text = decode(raw, path=file, line=1, offset=0).removeprefix("\ufeff")
        yield Row(file, 1, {fields.text: text, fields.id: relative.as_posix()})
    if not found:
        raise DataError(
            "the directory holds no texts",
            path=path,
            expected=".txt files, or a directory that Dataset.save_to_disk wrote",
        )
