"""Records to files, streamed: what is written and read again is identical.

JSONL, CSV, TSV, Parquet and plain text by the suffix, compressed by a second one. The file appears under its name
only when the last record is in it; an error on the way leaves nothing. An existing file is refused unless
`overwrite` is set. Spans are written as objects with start, end, type and, where known, identifier.
"""

import csv
import io
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from reticent.core.corpus import Record, Span
from reticent.core.errors import DataError
from reticent.data.reading.compression import SUFFIXES, create_bytes, is_compressed, plain_suffix

_WRITABLE = (".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".parquet")
_ROWS = 1024


def write_corpus(records: Iterable[Record], path: Path | str, *, overwrite: bool = False) -> int:
    """Write the records to `path` and return their number. Plain text keeps the texts alone."""
    place = Path(path)
    suffix = writable_suffix(place)
    with replaced(place, overwrite=overwrite) as file:
        if suffix == ".parquet":
            return _write_parquet(records, file)
        stream = create_bytes(file, place.suffix)
        count = 0
        for line in _encoded(records, suffix, place):
            stream.write(line)
            count += 1
        if stream is not file:
            stream.close()
    # A CSV file starts with a header, which is not a record.
    return count - 1 if suffix in (".csv", ".tsv") else count


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


def _encoded(records: Iterable[Record], suffix: str, path: Path) -> Iterator[bytes]:
    """One line a record (CSV: a header before them)."""
    if suffix in (".csv", ".tsv"):
        yield csv_line(["id", "owner", "text", "spans"], suffix)
    for number, record in enumerate(records, start=1):
        try:
            yield _line(record, suffix)
        except UnicodeEncodeError:
            what = "a text holds half a surrogate pair: it is not Unicode"
        except ValueError:
            what = "a text is empty or has line breaks, which a plain text file cannot hold"
        else:
            continue
        raise DataError(what, path=path, hint=f"record number {number}; JSONL holds any Unicode text") from None


def _line(record: Record, suffix: str) -> bytes:
    if suffix == ".txt":
        if "\n" in record.text or "\r" in record.text or not record.text.strip():
            raise ValueError
        return f"{record.text}\n".encode()
    spans = [span_to_json(span) for span in record.spans]
    if suffix in (".csv", ".tsv"):
        return csv_line([record.id, record.owner, record.text, json.dumps(spans, ensure_ascii=False)], suffix)
    document = {"id": record.id, "owner": record.owner, "text": record.text, "spans": spans}
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def csv_line(cells: list[str], suffix: str) -> bytes:
    """One line of CSV or TSV."""
    buffer = io.StringIO()
    # Everything quoted: a lone carriage return in a text must not end the row.
    csv.writer(buffer, delimiter="\t" if suffix == ".tsv" else ",", quoting=csv.QUOTE_ALL).writerow(cells)
    return buffer.getvalue().encode()


def _write_parquet(records: Iterable[Record], file: BinaryIO) -> int:
    import pyarrow
    from pyarrow import parquet

    span = pyarrow.struct(
        [
            ("start", pyarrow.int64()),
            ("end", pyarrow.int64()),
            ("type", pyarrow.string()),
            ("identifier", pyarrow.string()),
        ]
    )
    text = pyarrow.large_string()
    schema = pyarrow.schema([("id", text), ("owner", text), ("text", text), ("spans", pyarrow.list_(span))])
    count = 0
    remaining = iter(records)
    with parquet.ParquetWriter(file, schema) as writer:
        while batch := list(islice(remaining, _ROWS)):
            rows = [
                {"id": r.id, "owner": r.owner, "text": r.text, "spans": [span_to_json(s) for s in r.spans]}
                for r in batch
            ]
            writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
            count += len(batch)
    return count
