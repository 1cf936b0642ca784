"""Tables that are kilobytes on disk and gigabytes in memory: refused, or read a record at a time."""

import itertools
import json
import resource

import pyarrow as pa
import pytest
from pyarrow import parquet

from reticent.core.errors import DataError
from reticent.data.reading import tables

LIMIT = 2**20  # the tests' own limit, in place of 64 MB


@pytest.fixture(autouse=True)
def small_limit(monkeypatch):
    monkeypatch.setattr(tables, "LONGEST_LINE", LIMIT)


def saved_dataset(folder, table, **options):
    folder.mkdir()
    with (
        pa.OSFile(str(folder / "data.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema, **options) as out,
    ):
        out.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))
    return folder


def texts_of(path, *, read=tables.read_parquet):
    return [values["text"] for _, values in read(path, ("text",))]


@pytest.mark.parametrize("dictionary", [True, False])
def test_a_long_record_is_refused_before_it_is_a_python_string(tmp_path, dictionary):
    table = pa.table({"text": ["short"] * 50 + ["x" * (LIMIT + 1)]})
    parquet.write_table(table, tmp_path / "a.parquet", use_dictionary=dictionary, compression="none")
    with pytest.raises(DataError, match=r"51.*longer than"):
        texts_of(tmp_path / "a.parquet")
    if dictionary:
        table = table.set_column(0, "text", table["text"].combine_chunks().dictionary_encode())
    with pytest.raises(DataError, match=r"51.*longer than"):
        texts_of(saved_dataset(tmp_path / "d", table), read=tables.read_dataset)


def test_one_long_value_in_every_row_is_made_a_row_at_a_time(tmp_path):
    one = "y" * (LIMIT - 10)
    indices = pa.array([0] * 3000, pa.int32())
    table = pa.table({"text": pa.DictionaryArray.from_arrays(indices, [one])})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    folder = saved_dataset(tmp_path / "d", table)
    for path, read in ((tmp_path / "a.parquet", tables.read_parquet), (folder, tables.read_dataset)):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rows = read(path, ("text",))
        assert all(values["text"] == one for _, values in itertools.islice(rows, 200))
        rows.close()
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KB; 200 rows are 200 MB


def test_pages_that_compress_a_thousandfold_are_refused_by_their_stated_size(tmp_path):
    table = pa.table({"text": ["z" * (LIMIT // 2)] * 64})
    parquet.write_table(table, tmp_path / "a.parquet", use_dictionary=False, compression="zstd")
    with pytest.raises(DataError, match="fill the memory"):
        texts_of(tmp_path / "a.parquet")


def test_a_column_that_nobody_asked_for_may_be_large(tmp_path):
    table = pa.table({"text": ["a", "b"], "blob": ["z" * (2 * LIMIT)] * 2})
    parquet.write_table(table, tmp_path / "a.parquet", use_dictionary=False, compression="zstd")
    assert texts_of(tmp_path / "a.parquet") == ["a", "b"]


def test_a_compressed_stream_is_refused_and_a_plain_one_is_read(tmp_path):
    table = pa.table({"text": ["a", None, "é" * 3]})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pytest.raises(DataError, match="compressed buffers"):
        texts_of(saved_dataset(tmp_path / "z", table, options=options), read=tables.read_dataset)
    encoded = table.set_column(0, "text", table["text"].combine_chunks().dictionary_encode())
    with pytest.raises(DataError, match="compressed buffers"):
        texts_of(saved_dataset(tmp_path / "zd", encoded, options=options), read=tables.read_dataset)
    assert texts_of(saved_dataset(tmp_path / "p", table), read=tables.read_dataset) == ["a", None, "ééé"]


@pytest.mark.parametrize("name", ["../data.arrow", "/etc/passwd", "..", 7])
def test_a_saved_dataset_names_its_own_files_alone(tmp_path, name):
    folder = saved_dataset(tmp_path / "d", pa.table({"text": ["a"]}))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
    with pytest.raises(DataError):
        texts_of(folder, read=tables.read_dataset)


@pytest.mark.parametrize("rows", [0, 1, 5000])
def test_ordinary_tables_are_read_as_before(tmp_path, rows):
    texts = [None if place % 7 == 3 else f"text {place}" * (place % 5) for place in range(rows)]
    table = pa.table({"text": pa.array(texts, pa.string()), "spans": [[{"start": 0, "end": 1}]] * rows})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=700)
    assert texts_of(tmp_path / "a.parquet") == texts
    assert texts_of(saved_dataset(tmp_path / "d", table), read=tables.read_dataset) == texts
