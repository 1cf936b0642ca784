"""Records and rows to files, streamed: what is written and read again is identical.

JSONL, CSV, TSV, Parquet and plain text by the suffix, compressed by a second one. A path without a suffix becomes a
directory of rows that `datasets.load_from_disk` reads. The file appears under its name only when the last row is in
it; an error on the way leaves nothing. An existing file is refused unless `overwrite` is set.

A record is a row of four fields; spans are objects with start, end, type and, where known, identifier. Nested
values are JSON in a cell of CSV. A table keeps the types of the table that it was made from, where one is given;
else they are those that all rows agree on, so that the rows are spooled to a file first.
"""

import csv
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from reticent.core.corpus import Record, Span
from reticent.core.errors import DataError
from reticent.data.reading.compression import SUFFIXES, create_bytes, is_compressed, plain_suffix

_WRITABLE = (".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".parquet")
_FIELDS = ("id", "owner", "text", "spans")  # of a record
_ROWS = 1024

Rows = Iterable[tuple[str, Mapping[str, Any]]]  # each as its text, for plain text, and its values


def write_corpus(records: Iterable[Record], path: Path | str, *, overwrite: bool = False) -> int:
    """Write the records to `path` and return their number. Plain text keeps the texts alone."""
    place, count = Path(path), 0

    def rows() -> Rows:
        nonlocal count
        for count, one in enumerate(records, start=1):  # noqa: B007  the number of the last one is what is returned
            spans = [span_to_json(span) for span in one.spans]
            yield one.text, dict(zip(_FIELDS, (one.id, one.owner, one.text, spans), strict=True))

    schema = _record_schema() if writable_suffix(place) == ".parquet" else None
    write_rows(rows(), place, columns=_FIELDS, schema=schema, overwrite=overwrite)
    return count


def write_rows(
    rows: Rows, path: Path, *, columns: Sequence[str], schema: Any = None, overwrite: bool = False
) -> None:
    """Write rows; `columns` are those of CSV."""
    suffix = plain_suffix(path)
    if suffix == "":
        _write_dataset((values for _, values in rows), path, schema)
        return
    writable_suffix(path)
    with replaced(path, overwrite=overwrite) as file:
        if suffix == ".parquet":
            _write_parquet((values for _, values in rows), file, schema, path)
            return
        stream = create_bytes(file, path.suffix)
        for line in _lines(rows, suffix, columns=columns, path=path):
            stream.write(line)
        if stream is not file:
            stream.close()


def writable_suffix(place: Path) -> str:
    """The suffix that tells the format of a file to write, if it is one that can be written."""
    suffix = plain_suffix(place)
    if suffix not in _WRITABLE or (suffix == ".parquet" and is_compressed(place)):
        raise DataError(
            "cannot write this format",
            path=place,
            found=f"suffix {suffix!r}",
            expected=f"one of {', '.join(_WRITABLE)}, the first five optionally with {', '.join(sorted(SUFFIXES))}",
        )
    return suffix


@contextmanager
def replaced(path: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """A new file, of mode 0600, that takes the place of `path` when the block ends well; else nothing is left."""
    if path.exists() and not overwrite:
        raise DataError("already exists", path=path, hint="choose another name, or remove it first")
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as problem:
        raise DataError("cannot be written", path=path, found=(problem.strerror or "").lower()) from None
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            if not file.closed:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def span_to_json(span: Span) -> dict[str, Any]:
    """A span as corpora store it."""
    document: dict[str, Any] = {"start": span.start, "end": span.end, "type": span.kind}
    if span.identifier:
        document["identifier"] = span.identifier
    return document


def _lines(rows: Rows, suffix: str, *, columns: Sequence[str], path: Path) -> Iterator[bytes]:
    """One line a row (CSV: a header before them)."""
    if suffix in (".csv", ".tsv"):
        yield _csv_line(list(columns), suffix)
    for number, (text, values) in enumerate(rows, start=1):
        what = ""
        try:
            if suffix == ".txt":
                if "\n" in text or "\r" in text or not text.strip():
                    what = "a text is empty or has line breaks, which a plain text file cannot hold"
                line = f"{text}\n".encode()
            elif suffix in (".csv", ".tsv"):
                line = _csv_line([_cell(values.get(name)) for name in columns], suffix)
            else:
                line = _json(values)
        except UnicodeEncodeError:
            what = what or "a text holds half a surrogate pair: it is not Unicode"
        if what:
            raise DataError(what, path=path, hint=f"record number {number}; JSONL holds any Unicode text") from None
        yield line


def _csv_line(cells: list[str], suffix: str) -> bytes:
    """One line of CSV or TSV."""
    buffer = io.StringIO()
    # Everything quoted: a lone carriage return in a text must not end the row.
    csv.writer(buffer, delimiter="\t" if suffix == ".tsv" else ",", quoting=csv.QUOTE_ALL).writerow(cells)
    return buffer.getvalue().encode()


def _record_schema() -> Any:
    """The types of a record's fields in a table."""
    import pyarrow

    text, whole = pyarrow.large_string(), pyarrow.int64()
    span = [("start", whole), ("end", whole), ("type", pyarrow.string()), ("identifier", pyarrow.string())]
    types = (text, text, text, pyarrow.list_(pyarrow.struct(span)))
    return pyarrow.schema(list(zip(_FIELDS, types, strict=True)))


def _json(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False, default=str).encode() + b"\n"


def _cell(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)


def _write_parquet(rows: Iterable[Mapping[str, Any]], file: BinaryIO, schema: Any, path: Path) -> None:
    from pyarrow import parquet

    tables, agreed = _tables(rows, schema, path)
    with parquet.ParquetWriter(file, agreed) as writer:
        for table in tables:
            writer.write_table(table)


def _write_dataset(rows: Iterable[Mapping[str, Any]], path: Path, schema: Any) -> None:
    import pyarrow

    if path.exists():
        raise DataError("already exists", path=path, hint="choose another name, or remove it first")
    name = "data-00000-of-00001.arrow"
    with tempfile.TemporaryDirectory(dir=path.absolute().parent, prefix=f".{path.name}.") as folder:
        made = Path(folder) / "saved"
        made.mkdir(mode=0o700)
        tables, agreed = _tables(rows, schema, path)
        with pyarrow.OSFile(str(made / name), "wb") as sink, pyarrow.ipc.new_stream(sink, agreed) as writer:
            for table in tables:
                writer.write_table(table)
        state: dict[str, object] = {"_data_files": [{"filename": name}], "_fingerprint": "scrubbed"}
        state |= dict.fromkeys(("_format_columns", "_format_type", "_split"))
        state |= {"_format_kwargs": {}, "_output_all_columns": False}
        (made / "state.json").write_text(json.dumps(state), encoding="utf8")
        (made / "dataset_info.json").write_text("{}", encoding="utf8")
        shutil.move(made, path)


def _tables(rows: Iterable[Mapping[str, Any]], schema: Any, path: Path) -> tuple[Iterator[Any], Any]:
    """The rows as Arrow tables of some thousand, and the schema of all."""
    import pyarrow

    if schema is not None:
        return (pyarrow.Table.from_pylist(batch, schema=schema) for batch in _batches(rows)), schema
    spool = tempfile.TemporaryFile()  # noqa: SIM115  closed when the tables are written
    agreed = pyarrow.schema([])
    try:
        for batch in _batches(rows):
            spool.writelines(map(_json, batch))
            found = pyarrow.Table.from_pylist(json.loads(json.dumps(batch, default=str))).schema
            agreed = pyarrow.unify_schemas([agreed, found], promote_options="permissive")
    except pyarrow.ArrowException:  # its message quotes values
        raise DataError(
            "a field holds values of different types, which a table cannot hold", path=path, hint="write JSONL"
        ) from None
    spool.seek(0)
    return (pyarrow.Table.from_pylist(batch, schema=agreed) for batch in _batches(map(json.loads, spool))), agreed


def _batches(rows: Iterable[Mapping[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    remaining = iter(rows)
    while batch := list(islice(remaining, _ROWS)):
        yield [dict(row) for row in batch]


def retyped(schema: Any, is_id: Any) -> Any:
    """A table's schema with strings in place of the numbers that become pseudonyms, and without its metadata."""
    import pyarrow

    def change(kind: Any, path: str) -> Any:
        if pyarrow.types.is_struct(kind):
            return pyarrow.struct([one.with_type(change(one.type, f"{path}.{one.name}")) for one in kind])
        if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
            return pyarrow.list_(change(kind.value_type, path))
        if pyarrow.types.is_dictionary(kind):
            return change(kind.value_type, path)
        return pyarrow.string() if pyarrow.types.is_integer(kind) and is_id(path) else kind

    return pyarrow.schema([one.with_type(change(one.type, one.name)).remove_metadata() for one in schema])
