"""Rows to files with all of their fields: JSONL, CSV, TSV, plain text, Parquet, or a saved dataset.

Nested values are JSON in a cell of CSV. A table keeps the types of the table that it was made from, where one is
given; else they are those that all rows agree on, so that the rows are spooled to a file first. A path without a
suffix becomes a directory that `datasets.load_from_disk` reads. As everywhere, the file appears under its name only
when the last row is in it, and an existing one is refused.
"""

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from reticent.core.errors import DataError
from reticent.data.reading.compression import create_bytes, plain_suffix
from reticent.data.writing import csv_line, replaced, writable_suffix

_ROWS = 1024


def write_rows(
    rows: Iterable[tuple[str, Mapping[str, Any]]], path: Path, *, columns: Sequence[str], schema: Any = None
) -> None:
    """Write rows, each given as its text (for plain text) and its values; `columns` are those of CSV."""
    suffix = plain_suffix(path)
    if suffix == "":
        _write_dataset((values for _, values in rows), path, schema)
        return
    writable_suffix(path)
    with replaced(path, overwrite=False) as file:
        if suffix == ".parquet":
            _write_parquet((values for _, values in rows), file, schema, path)
            return
        stream = create_bytes(file, path.suffix)
        for line in _lines(rows, suffix, columns=columns, path=path):
            stream.write(line)
        if stream is not file:
            stream.close()


def _lines(
    rows: Iterable[tuple[str, Mapping[str, Any]]], suffix: str, *, columns: Sequence[str], path: Path
) -> Iterator[bytes]:
    if suffix in (".csv", ".tsv"):
        yield csv_line(list(columns), suffix)
    for number, (text, values) in enumerate(rows, start=1):
        if suffix == ".txt":
            if "\n" in text or "\r" in text or not text.strip():
                raise DataError(
                    "a text is empty or has line breaks, which a plain text file cannot hold",
                    path=path,
                    hint=f"record number {number}; JSONL holds any Unicode text",
                )
            yield f"{text}\n".encode()
        elif suffix in (".csv", ".tsv"):
            yield csv_line([_cell(values.get(name)) for name in columns], suffix)
        else:
            yield _json(values)


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
