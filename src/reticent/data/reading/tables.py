"""Rows of Parquet files and of saved Hugging Face datasets, a thousand at a time, by pyarrow alone.

A directory written by `Dataset.save_to_disk` holds `state.json`, which lists Arrow stream files in order. Only the
columns that were asked for are decoded. Messages of pyarrow may quote values, so none is passed on.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from reticent.core.errors import DataError
from reticent.data.reading.compression import is_compressed

_ROWS = 1024


def read_parquet(path: Path, names: Sequence[str]) -> Iterator[tuple[int, dict[str, object]]]:
    """Row number, from 1, and values by column. Columns not asked for are there with the value None."""
    import pyarrow
    from pyarrow import parquet

    if is_compressed(path):
        raise DataError("a compressed Parquet file", path=path, hint="decompress it: Parquet compresses by itself")
    try:
        with parquet.ParquetFile(path) as file:
            columns = file.schema_arrow.names
            wanted = [name for name in columns if name in names]
            yield from _number(_rows(file.iter_batches(_ROWS, columns=wanted), columns), start=1)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError):
        raise _damaged(path) from None


def read_dataset(path: Path, names: Sequence[str]) -> Iterator[tuple[int, dict[str, object]]]:
    """Row number, from 1 over all files, and values by column."""
    import pyarrow

    start = 1
    for file in _dataset_files(path):
        try:
            with pyarrow.memory_map(str(file)) as source, pyarrow.ipc.open_stream(source) as stream:
                columns = stream.schema.names
                wanted = [name for name in columns if name in names]
                batches = (
                    batch.slice(first, _ROWS).select(wanted)
                    for batch in stream
                    for first in range(0, batch.num_rows, _ROWS)
                )
                for number, values in _number(_rows(batches, columns), start=start):
                    yield number, values
                    start = number + 1
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError):
            raise _damaged(file) from None


def _dataset_files(path: Path) -> list[Path]:
    """The Arrow files that `state.json` lists, in order."""
    state_path = path / "state.json"
    try:
        state: Any = json.loads(state_path.read_bytes())
        names = [entry["filename"] for entry in state["_data_files"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(
            "not the state of a saved dataset", path=state_path, hint="save it again with Dataset.save_to_disk"
        ) from None
    if state.get("_indices_files"):
        raise DataError(
            "a saved dataset with an index of its own",
            path=path,
            hint="save it again after Dataset.flatten_indices()",
        )
    return [path / name for name in names]


def _rows(batches: Any, columns: Sequence[str]) -> Iterator[dict[str, object]]:
    missing = dict.fromkeys(columns)
    for batch in batches:
        for values in batch.to_pylist():
            yield missing | values


def _number(rows: Iterator[dict[str, object]], *, start: int) -> Iterator[tuple[int, dict[str, object]]]:
    return enumerate(rows, start)


def _damaged(path: Path) -> DataError:
    return DataError(
        "cannot be read as a table: the file is missing, truncated or damaged, or it is another format", path=path
    )
