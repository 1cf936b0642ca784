"""Rows of Parquet files and of saved Hugging Face datasets, at most a thousand at a time, by pyarrow alone.

A directory written by `Dataset.save_to_disk` holds `state.json`, which lists Arrow stream files in order. Only the
columns that were asked for are decoded. Messages of pyarrow may quote values, so none is passed on.

A record is at most `LONGEST_LINE` bytes, as in every other format. Both formats can hold gigabytes in kilobytes: a
dictionary of one long value that every row refers to, or pages that compress a thousandfold. So the sizes that a
Parquet file states of its row groups are looked at before anything is decoded, dictionaries stay dictionaries, and
rows that may be long are made one at a time. Saved datasets are mapped into memory; compressed ones, which nobody's
`save_to_disk` writes, are refused.
"""

import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from reticent.core.document import MALFORMED
from reticent.core.errors import DataError
from reticent.data.reading.compression import LONGEST_LINE, is_compressed
from reticent.data.reading.parquet_footer import BadFooter, column_chunks

_ROWS = 1024
_MOST_RATIO = 1000  # of decoded to stored bytes, beyond which a large column is a bomb and no text


def read_parquet(path: Path, names: Sequence[str] | None) -> Iterator[tuple[int, dict[str, object]]]:
    """Row number, from 1, and values by column, of all of them if none is named.

    Columns not asked for are there with the value None.
    """
    import pyarrow
    from pyarrow import parquet

    if is_compressed(path):
        raise DataError("a compressed Parquet file", path=path, hint="decompress it: Parquet compresses by itself")
    try:
        with parquet.ParquetFile(path) as file:
            columns = file.schema_arrow.names
            wanted = [name for name in columns if names is None or name in names]
            rows = _rows_at_once(path, wanted)
        texts = [name for name in wanted if _is_text(file.schema_arrow.field(name).type)]
        with parquet.ParquetFile(path, read_dictionary=texts, pre_buffer=False) as file:
            batches = file.iter_batches(rows, columns=wanted)
            yield from enumerate(_rows(batches, columns, path=path), 1)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError, BadFooter):
        raise _damaged(path) from None


def read_dataset(path: Path, names: Sequence[str] | None) -> Iterator[tuple[int, dict[str, object]]]:
    """Row number, from 1 over all files, and values by column."""
    import pyarrow

    start = 1
    for file in _dataset_files(path):
        try:
            with pyarrow.memory_map(str(file)) as source:
                _require_uncompressed(source, file)
                source.seek(0)
                with pyarrow.ipc.open_stream(source) as stream:
                    columns = stream.schema.names
                    wanted = [name for name in columns if names is None or name in names]
                    batches = (
                        batch.slice(first, _ROWS).select(wanted)
                        for batch in map(_checked, stream)
                        for first in range(0, batch.num_rows, _ROWS)
                    )
                    for number, values in enumerate(_rows(batches, columns, path=file), start):
                        yield number, values
                        start = number + 1
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError, struct.error):
            raise _damaged(file) from None


def _checked(batch: Any) -> Any:
    """The batch, once every offset in it lies within its buffers; Arrow would follow others out of its memory."""
    batch.validate(full=True)
    return batch


def table_schema(path: Path) -> Any:
    """The Arrow schema of a Parquet file, or of a saved dataset."""
    import pyarrow
    from pyarrow import parquet

    try:
        if not path.is_dir():
            with parquet.ParquetFile(path) as file:
                return file.schema_arrow
        with pyarrow.memory_map(str(_dataset_files(path)[0])) as source, pyarrow.ipc.open_stream(source) as stream:
            return stream.schema
    except (pyarrow.ArrowException, OSError):
        raise _damaged(path) from None


def _dataset_files(path: Path) -> list[Path]:
    """The Arrow files that `state.json` lists, in order."""
    state_path = path / "state.json"
    try:
        state: Any = json.loads(state_path.read_bytes())
        names = [entry["filename"] for entry in state["_data_files"]]
    except (OSError, *MALFORMED):
        raise DataError(
            "not the state of a saved dataset", path=state_path, hint="save it again with Dataset.save_to_disk"
        ) from None
    if state.get("_indices_files"):
        raise DataError(
            "a saved dataset with an index of its own",
            path=path,
            hint="save it again after Dataset.flatten_indices()",
        )
    if not all(isinstance(name, str) and _is_plain(name) for name in names):
        raise DataError("names a file outside the saved dataset", path=state_path)
    return [path / name for name in names]


def _is_plain(name: str) -> bool:
    """Whether a name is that of a file beside it: no folder, no NUL, no half of a surrogate."""
    return name.isprintable() and name == Path(name).name and bool(name.strip("."))


def _rows(batches: Any, columns: Sequence[str], *, path: Path) -> Iterator[dict[str, object]]:
    missing = dict.fromkeys(columns)
    number = 0
    for batch in batches:
        if sum(_size(batch.column(name)) for name in batch.schema.names) <= LONGEST_LINE:
            number += batch.num_rows
            yield from (missing | values for values in batch.to_pylist())
            continue
        for row in range(batch.num_rows):
            number += 1
            if sum(_length(batch.column(name), row) for name in batch.schema.names) > LONGEST_LINE:
                raise DataError(
                    f"the record is longer than {LONGEST_LINE} bytes",
                    path=path,
                    line=number,
                    hint="split it, or leave it out",
                )
            yield missing | batch.slice(row, 1).to_pylist()[0]


def _size(column: Any) -> int:
    """Bytes of all values of a column, each counted as often as it stands in a row."""
    import pyarrow
    from pyarrow import compute

    if not (pyarrow.types.is_dictionary(column.type) and _is_text(column.type.value_type)):
        return int(column.nbytes)
    lengths = compute.take(compute.binary_length(column.dictionary), column.indices)
    return int(compute.sum(lengths).as_py() or 0)


def _length(column: Any, row: int) -> int:
    """Bytes of one value, before it is made; of a dictionary's value, not of the whole dictionary."""
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        place: int | None = column.indices[row].as_py()
        return 0 if place is None else _length(column.dictionary, place)
    if not _is_text(column.type):
        return int(column.slice(row, 1).nbytes)
    found = column[row].as_buffer()
    return 0 if found is None else int(found.size)


def _is_text(kind: Any) -> bool:
    import pyarrow

    checks = (pyarrow.types.is_string, pyarrow.types.is_large_string, pyarrow.types.is_binary)
    return any(check(kind) for check in checks)


def _rows_at_once(path: Path, wanted: Sequence[str]) -> int:
    """How many rows may be decoded together, by what the file states of its columns; refuses bombs."""
    most = _ROWS
    for column in column_chunks(path):
        if column.name not in wanted or not column.rows:
            continue
        size = column.uncompressed
        ratio = size / max(1, column.compressed)
        each = size / column.rows
        if each > LONGEST_LINE or (size > LONGEST_LINE and ratio > _MOST_RATIO):
            raise DataError(
                f"the records are longer than {LONGEST_LINE} bytes, or the file is made to fill the memory",
                path=path,
                found=f"{size} bytes in {column.rows} rows, {ratio:.0f} times what is stored",
            )
        # Pages are some thousand rows of equal size, or hide a long one among short ones.
        if size > LONGEST_LINE:
            most = min(most, 1 if ratio > _MOST_RATIO / 20 else max(1, int(LONGEST_LINE / each / 4)))
    return most


def _require_uncompressed(source: Any, path: Path) -> None:
    """Refuse an Arrow stream with compressed buffers: a field of each batch's flatbuffer header says so."""
    from pyarrow import ipc

    for message in ipc.MessageReader.open_stream(source):
        if message.type in ("record batch", "dictionary"):
            header = message.metadata.to_pybytes()
            batch = _child(header, struct.unpack_from("<I", header)[0], 2)
            if message.type == "dictionary":
                batch = _child(header, batch, 1)
            if _slot(header, batch, 3):
                raise DataError(
                    "a saved dataset with compressed buffers", path=path, hint="save it with Dataset.save_to_disk"
                )


def _slot(data: bytes, table: int, number: int) -> int:
    """Where a field of a flatbuffer's table is, 0 where it is not set."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    place = 4 + 2 * number
    offset = (
        struct.unpack_from("<H", data, fields + place)[0]
        if place < struct.unpack_from("<H", data, fields)[0]
        else 0
    )
    return table + offset if offset else 0


def _child(data: bytes, table: int, number: int) -> int:
    """The table that a field refers to."""
    place = _slot(data, table, number)
    if not place:
        raise struct.error
    return int(place + struct.unpack_from("<I", data, place)[0])


def _damaged(path: Path) -> DataError:
    return DataError(
        "cannot be read as a table: the file is missing, truncated or damaged, or it is another format", path=path
    )
