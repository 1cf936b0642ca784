"""The footer of a Parquet file: of good ones what pyarrow says, of bad ones a refusal that spares the process."""

import contextlib
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from reticent.core.errors import DataError
from reticent.data.reading.parquet_footer import BadFooter, column_chunks
from reticent.data.reading.tables import read_parquet


def written(path, table, **options):
    parquet.write_table(table, path, **options)
    return path


def by_pyarrow(path):
    metadata = parquet.ParquetFile(path).metadata
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    return [
        (
            column.path_in_schema.partition(".")[0],
            group.num_rows,
            column.total_uncompressed_size,
            column.total_compressed_size,
        )
        for group in groups
        for column in (group.column(place) for place in range(group.num_columns))
    ]


@pytest.mark.parametrize("options", [{}, {"compression": "zstd", "row_group_size": 70}, {"use_dictionary": False}])
def test_sizes_are_those_that_pyarrow_reads(tmp_path, options):
    rows = range(400)
    columns = {
        "text": [f"row {row} " * (row % 30) for row in rows],
        "meta": [{"tags": ["a", "ü"], "score": row / 3} for row in rows],
        "flag": [row % 2 == 0 for row in rows],
        "größe": [None if row % 3 else row for row in rows],
    } | {f"wide-{number}": rows for number in range(20)}
    path = written(tmp_path / "a.parquet", pa.table(columns), **options)
    read = [(chunk.name, chunk.rows, chunk.uncompressed, chunk.compressed) for chunk in column_chunks(path)]
    assert read == by_pyarrow(path)


def test_statistics_that_do_not_fit_their_column_are_refused_and_do_not_end_the_process(tmp_path):
    """pyarrow 26 throws out of `row_group(i).column(j)` here, past everything that would catch it."""
    path = written(tmp_path / "a.parquet", pa.table({"text": pa.array([b"a", b"b"], pa.binary())}))
    element = bytes([0x15, 6 << 1]), bytes([0x15, 2 << 1])  # a column of byte arrays, one of 64-bit numbers
    content = path.read_bytes()
    start = content.index(b"schema")
    place = content.index(element[0], start)
    path.write_bytes(content[:place] + element[1] + content[place + 2 :])
    script = f"""
from pathlib import Path
from reticent.core.errors import DataError
from reticent.data.reading.tables import read_parquet
try:
    print(len(list(read_parquet(Path({str(path)!r}), None))))
except DataError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "refused"), done.stderr


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_no_footer_is_anything_but_read_or_refused(tmp_path_factory, footer):
    path = tmp_path_factory.mktemp("footer") / "a.parquet"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with contextlib.suppress(BadFooter):
        list(column_chunks(path))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PAR1",
        b"PAR1" + b"\x00" * 4 + b"PARE",
        b"PAR1" + b"\xff\xff\xff\x7f" + b"PAR1",
        b"PAR1" + b"\x1c" * 100 + (100).to_bytes(4, "little") + b"PAR1",  # structures within structures
        b"PAR1" + b"\x49\xf5\xff\xff\xff\x7f" + (6).to_bytes(4, "little") + b"PAR1",  # a list of 2^28 row groups
    ],
)
def test_bad_ends_are_refused(tmp_path, content):
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    with pytest.raises(BadFooter):
        list(column_chunks(path))
    with pytest.raises(DataError):
        list(read_parquet(path, None))
