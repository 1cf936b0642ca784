"""Every format reads the same records; every bad input is an error with file and line, and without text."""

import bz2
import gzip
import json
import lzma
import os
from pathlib import Path

import pytest

from reticent.core.corpus import Corpus, Record, Span
from reticent.core.errors import DataError
from reticent.data.duplicates import digest_counts
from reticent.data.reading import compression
from reticent.data.reading.corpus_file import open_corpus
from reticent.data.reading.formats import Fields, Format

PRIVATE = "Zebedee Quixote"  # stands in every bad input below, and must be in no message
RECORDS = [
    Record("a", f"first: {PRIVATE}, ünï\u2028code", owner="o1", spans=(Span(7, 22, "NAME", "direct"),)),
    Record("b", 'second\nwith, a "quote"\tand tab', owner="o1"),
    Record("c", "third", owner="o2", spans=(Span(0, 5, "WORD"),)),
]


def rows() -> list[dict]:
    names = {True: "identifier"}
    return [
        {
            "id": r.id,
            "owner": r.owner,
            "text": r.text,
            "spans": [
                {
                    "start": s.start,
                    "end": s.end,
                    "type": s.kind,
                    **({names[True]: s.identifier} if s.identifier else {}),
                }
                for s in r.spans
            ],
        }
        for r in RECORDS
    ]


def jsonl(entries: list) -> bytes:
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries).encode()


def save(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def zstd(content: bytes, codec: str = "zstd") -> bytes:
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, codec) as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


def csv_bytes(delimiter: str) -> bytes:
    import csv
    import io

    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter)
    writer.writerow(["text", "id", "owner", "spans", "other"])
    for row in rows():
        writer.writerow([row["text"], row["id"], row["owner"], json.dumps(row["spans"]), "x"])
    return buffer.getvalue().encode()


def parquet(path: Path, entries: list) -> Path:
    import pyarrow
    from pyarrow import parquet as pq

    pq.write_table(pyarrow.Table.from_pylist(entries), path, row_group_size=2)
    return path


def dataset(path: Path, entries: list) -> Path:
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_list(entries).save_to_disk(str(path), num_shards=2)
    return path


FORMATS = {
    "jsonl": lambda d: save(d / "c.jsonl", jsonl(rows())),
    "bom and blank lines": lambda d: save(d / "c.jsonl", b"\xef\xbb\xbf" + jsonl(rows()).replace(b"\n", b"\r\n\n")),
    "gz": lambda d: save(d / "c.jsonl.gz", gzip.compress(jsonl(rows()))),
    "bz2": lambda d: save(d / "c.jsonl.bz2", bz2.compress(jsonl(rows()))),
    "xz": lambda d: save(d / "c.jsonl.xz", lzma.compress(jsonl(rows()))),
    "zst": lambda d: save(d / "c.jsonl.zst", zstd(jsonl(rows()))),
    "lz4": lambda d: save(d / "c.jsonl.lz4", zstd(jsonl(rows()), "lz4")),
    "csv": lambda d: save(d / "c.csv", csv_bytes(",")),
    "tsv.gz": lambda d: save(d / "c.tsv.gz", gzip.compress(csv_bytes("\t"))),
    "parquet": lambda d: parquet(d / "c.parquet", rows()),
    "dataset": lambda d: dataset(d / "saved", rows()),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_records_again_and_again(name, tmp_path):
    corpus = open_corpus(FORMATS[name](tmp_path))
    assert list(corpus) == RECORDS
    assert corpus.load() == Corpus(RECORDS)
    assert corpus.fingerprint() == Corpus(RECORDS).fingerprint
    assert corpus.count() == 3
    assert corpus.present() == {"text", "id", "owner", "spans"}


def test_plain_text_is_one_record_for_each_line_that_is_not_blank(tmp_path):
    corpus = open_corpus(save(tmp_path / "c.txt", b"one\r\n\n  \n two \nthree")).load()
    assert [(r.id, r.owner, r.text) for r in corpus] == [
        ("line 1", "line 1", "one"),
        ("line 4", "line 4", " two "),
        ("line 5", "line 5", "three"),
    ]


def test_folder_of_texts_is_one_record_a_file_in_order_of_names(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / ".hidden").mkdir()
    save(tmp_path / "b.txt", b"second\nfile")
    save(tmp_path / "a.txt.gz", gzip.compress(b"first"))
    save(tmp_path / "sub" / "c.txt", b"third")
    save(tmp_path / "other.md", b"not read")
    save(tmp_path / ".hidden" / "x.txt", b"not read")
    corpus = open_corpus(tmp_path)
    assert corpus.format is Format.FOLDER
    assert [(r.id, r.text) for r in corpus] == [
        ("a.txt.gz", "first"),
        ("b.txt", "second\nfile"),
        ("sub/c.txt", "third"),
    ]


def test_records_without_id_and_owner_are_named_by_line_and_own_themselves(tmp_path):
    corpus = open_corpus(save(tmp_path / "c.jsonl", b'{"text": "x"}\n\n{"text": "x"}\n'))
    assert [(r.id, r.owner) for r in corpus] == [("line 1", "line 1"), ("line 3", "line 3")]
    assert corpus.present() == {"text"}


def test_named_fields_are_used_and_numbers_serve_as_names(tmp_path):
    entry = {"body": "hello", "number": 7, "who": "me", "text": "not this"}
    fields = Fields(text="body", id="number", owner="who")
    assert list(open_corpus(save(tmp_path / "c.jsonl", jsonl([entry])), fields)) == [
        Record("7", "hello", owner="me")
    ]
    by_id = Fields(text="body", id="number", owner="number")
    assert next(iter(open_corpus(tmp_path / "c.jsonl", by_id))).owner == "7"


def test_format_may_be_given_where_the_suffix_says_nothing(tmp_path):
    path = save(tmp_path / "corpus.data", jsonl(rows()))
    assert open_corpus(path, format="jsonl").count() == 3


def test_empty_texts_are_left_out_only_where_that_was_asked_for(tmp_path):
    path = save(tmp_path / "c.jsonl", jsonl([{"text": " "}, {"text": "x"}, {"text": None}, {"text": "y"}]))
    assert [r.id for r in open_corpus(path, skip_empty=True)] == ["line 2", "line 4"]
    assert failure(lambda: open_corpus(path).count()).line_number == 1
    save(path, jsonl([{"text": "x"}, {"body": "y"}]))
    assert "missing" in str(failure(lambda: open_corpus(path, skip_empty=True).count()))
    save(path, jsonl([{"text": ""}]))
    assert "no records" in str(failure(lambda: open_corpus(path, skip_empty=True).count()))


def test_reading_is_streamed(tmp_path):
    path = save(tmp_path / "c.jsonl", b'{"text": "good"}\n' * 2 + b"bad\n")
    records = iter(open_corpus(path))
    assert [next(records).id, next(records).id] == ["line 1", "line 2"]
    with pytest.raises(DataError):
        next(records)


GOOD = {"id": "a", "owner": "o", "text": PRIVATE}
BARE = {"text": PRIVATE}
ANY = -1  # how far a truncated stream can be read depends on the decompressor


def bad_span(**changes) -> bytes:
    span = {"start": 0, "end": 3, "type": "NAME"} | changes
    return jsonl([GOOD | {"spans": []}, GOOD | {"id": "b", "spans": [span]}])


# name -> (file name, content, line that the error must name, words it must hold)
BAD = {
    "bad JSON": ("c.jsonl", jsonl([GOOD]) + f'{{"text": "{PRIVATE}", oops'.encode(), 2, "not valid JSON"),
    "bad escape": ("c.jsonl", f'{{"text": "{PRIVATE} \\x"}}'.encode(), 1, "column"),
    "huge number": ("c.jsonl", b'{"text": ' + b"1" * 5000 + b"}", 1, "number too long"),
    "too deep": ("c.jsonl", b"{" + b'"a":{' * 100000, 1, "not valid JSON"),
    "array": ("c.json", json.dumps([GOOD]).encode(), 1, "array"),
    "not an object": ("c.jsonl", jsonl([GOOD, PRIVATE]), 2, "a string"),
    "missing text": ("c.jsonl", jsonl([{"id": "a", "body": PRIVATE}]), 1, "id, body"),
    "key that is text": ("c.jsonl", jsonl([{PRIVATE: 1, "id": "a"}]), 1, "1 not shown"),
    "null text": ("c.jsonl", jsonl([GOOD, GOOD | {"id": "b", "text": None}]), 2, "empty"),
    "wrong type of text": ("c.jsonl", jsonl([GOOD | {"text": [PRIVATE]}]), 1, "a list"),
    "wrong type of id": ("c.jsonl", jsonl([GOOD | {"id": True}]), 1, "true or false"),
    "several owners": ("c.jsonl", jsonl([GOOD | {"owner": [PRIVATE, "b"]}]), 1, "a record has one owner"),
    "wrong type of owner": ("c.jsonl", jsonl([GOOD | {"owner": {"n": PRIVATE}}]), 1, "an object"),
    "blank id": ("c.jsonl", jsonl([GOOD | {"id": " "}]), 1, "empty"),
    "half a surrogate": ("c.jsonl", b'{"text": "Zebedee Quixote \\ud800"}', 1, "surrogate"),
    "not UTF-8": (
        "c.jsonl",
        jsonl([GOOD]) + f'{{"text": "{PRIVATE} ü"}}'.encode("latin1"),
        2,
        f"offset {len(jsonl([GOOD])) + 26}",
    ),
    "not UTF-8 text": ("c.txt", b"ok\n" + f"{PRIVATE} ü".encode("latin1"), 2, "offset 19"),
    "empty text": ("c.jsonl", jsonl([GOOD, GOOD | {"id": "b", "text": " \n"}]), 2, "empty"),
    "duplicate id": ("c.jsonl", jsonl([GOOD, GOOD | {"id": "b"}, GOOD]), 3, "line 1"),
    "id in some": ("c.jsonl", jsonl([GOOD, {"owner": "o", "text": PRIVATE}]), 2, "in some records"),
    "owner in some": ("c.jsonl", jsonl([{"id": "a", "text": "x"}, GOOD | {"id": "b"}]), 2, "in some records"),
    "empty file": ("c.jsonl", b"", None, "no records"),
    "empty text file": ("c.txt", b"\n \n", None, "no records"),
    "only a header": ("c.csv", b"id,text\n", None, "no records"),
    "unknown format": ("c.docx", PRIVATE.encode(), None, "unknown format"),
    "truncated gzip": ("c.jsonl.gz", gzip.compress(jsonl([BARE] * 1000))[:-20], ANY, "truncated"),
    "no gzip": ("c.jsonl.gz", jsonl([GOOD]), 1, "decompress"),
    "damaged gzip": ("c.txt.gz", gzip.compress(os.urandom(300).hex().encode())[:40] + b"\0" * 300, 1, "decompress"),
    "truncated bzip2": ("c.jsonl.bz2", bz2.compress(jsonl([BARE] * 9))[:-9], ANY, "truncated"),
    "truncated xz": ("c.jsonl.xz", lzma.compress(jsonl([BARE] * 9))[:-20], ANY, "truncated"),
    "truncated zstd": ("c.jsonl.zst", zstd(jsonl([BARE] * 9))[:-4], ANY, "truncated"),
    "no zstd": ("c.jsonl.zst", jsonl([GOOD]), 1, "truncated or damaged"),
    "csv without the column": ("c.csv", f"id,body\na,{PRIVATE}\n".encode(), 2, "id, body"),
    "csv without header": ("c.csv", f"{PRIVATE},5551234\n{PRIVATE},1\n".encode(), 1, "does not name the columns"),
    "another field": ("t.csv", f"body\n{PRIVATE}\n".encode(), 2, "with --text-field"),
    "a blank text": ("b.csv", b"text,id\n ,1\n", 2, "with --skip-empty"),
    "csv with one name twice": ("c.csv", f"text,text\n{PRIVATE},1\n".encode(), 1, "two columns"),
    "csv short row": ("c.csv", f'id,text\na,"{PRIVATE}\n"\n{PRIVATE}\n'.encode(), 4, "1 fields"),
    "csv long row": ("c.csv", f"id,text\na,{PRIVATE},more\n".encode(), 2, "3 fields"),
    "csv open quote": ("c.csv", f'id,text\na,"{PRIVATE}\n'.encode(), 2, "quotes"),
    "csv bad quote": ("c.csv", f'id,text\na,"{PRIVATE}"x\n'.encode(), 2, "not valid CSV"),
    "csv empty text": ("c.csv", b"id,text\nZebedee Quixote,\n", 2, "empty"),
    "csv bad spans": ("c.csv", f"text,spans\n{PRIVATE},oops\n".encode(), 2, "'spans' is not valid JSON"),
    "no parquet": ("c.parquet", PRIVATE.encode(), None, "truncated or damaged"),
    "compressed parquet": ("c.parquet.gz", PRIVATE.encode(), None, "decompress it"),
    "span out of range": ("c.jsonl", bad_span(end=16), 2, "[0, 16)"),
    "span backwards": ("c.jsonl", bad_span(start=3), 2, "out of range"),
    "span without end": ("c.jsonl", bad_span(end=None), 2, "lacks a part"),
    "span with text": ("c.jsonl", bad_span(start=PRIVATE), 2, "wrong type"),
    "span of unknown class": ("c.jsonl", bad_span(identifier=PRIVATE), 2, "identifier class"),
    "span not an object": ("c.jsonl", jsonl([GOOD | {"spans": [PRIVATE]}]), 1, "a string"),
    "spans not a list": ("c.jsonl", jsonl([GOOD | {"spans": 7}]), 1, "a number"),
}


def failure(read) -> DataError:
    with pytest.raises(DataError) as caught:
        read()
    return caught.value


def check_quiet(error: DataError) -> None:
    """Neither message, hint, arguments nor causes may hold the text."""
    said = f"{error} {error.hint} {error.args} {error.found} {error!r}"
    for word in PRIVATE.split():
        assert word not in said
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    assert "\n" not in str(error)


@pytest.mark.parametrize("name", BAD)
def test_bad_input_names_file_and_line_and_never_shows_the_text(name, tmp_path):
    file, content, line, words = BAD[name]
    path = save(tmp_path / file, content)
    error = failure(lambda: open_corpus(path).count())
    assert error.path == path
    assert error.line_number == line or (line == ANY and error.line_number is not None)
    assert words in f"{error} {error.hint}"
    check_quiet(error)


def test_missing_file_is_named(tmp_path):
    assert "no such file" in str(failure(lambda: open_corpus(tmp_path / "none.jsonl")))


def test_file_that_vanishes_or_is_forbidden_is_an_error(tmp_path):
    path = save(tmp_path / "c.jsonl", jsonl([GOOD]))
    corpus = open_corpus(path)
    path.unlink()
    check_quiet(failure(corpus.count))
    if os.geteuid() != 0:
        save(path, jsonl([GOOD])).chmod(0)
        assert "permission denied" in str(failure(corpus.count))


def test_directory_without_texts_is_an_error(tmp_path):
    assert "no texts" in str(failure(lambda: open_corpus(tmp_path).count()))


def test_bad_file_of_a_folder_is_named_with_its_line(tmp_path):
    save(tmp_path / "a.txt", b"fine")
    bad = save(tmp_path / "b.txt", f"{PRIVATE}\nü".encode("latin1"))
    error = failure(lambda: open_corpus(tmp_path).count())
    assert (error.path, error.line_number) == (bad, 2)
    check_quiet(error)
    save(bad, b" \n")
    assert failure(lambda: open_corpus(tmp_path).count()).path == bad


def test_fifo_is_refused_since_it_cannot_be_read_twice(tmp_path):
    os.mkfifo(tmp_path / "c.jsonl")
    assert "regular file" in str(failure(lambda: open_corpus(tmp_path / "c.jsonl")))


def test_saved_dataset_with_several_splits_asks_for_one(tmp_path):
    datasets = pytest.importorskip("datasets")
    one = datasets.Dataset.from_list(rows())
    datasets.DatasetDict({"train": one, "test": one}).save_to_disk(str(tmp_path / "saved"))
    assert "splits" in str(failure(lambda: open_corpus(tmp_path / "saved")))
    assert open_corpus(tmp_path / "saved" / "train").count() == 3


def test_damaged_dataset_is_an_error_without_text(tmp_path):
    path = dataset(tmp_path / "saved", rows())
    shard = sorted(path.glob("*.arrow"))[0]
    shard.write_bytes(shard.read_bytes()[:-300])
    check_quiet(failure(lambda: open_corpus(path).count()))
    (path / "state.json").write_text("{")
    assert "state" in str(failure(lambda: open_corpus(path).count()))


@pytest.mark.parametrize("name", ["\ud800", "shard\0.arrow", "../shard.arrow", "..", "", 7])
def test_file_names_of_a_dataset_that_are_no_plain_names_are_refused(tmp_path, name):
    path = dataset(tmp_path / "saved", rows())
    (path / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
    assert "outside the saved dataset" in str(failure(lambda: open_corpus(path).count()))


def test_offsets_that_lead_out_of_a_dataset_are_refused_before_they_are_followed(tmp_path):
    """Unchecked, pyarrow reads memory that is not its own: a negative length at best, a dead process else."""
    path = dataset(tmp_path / "saved", rows())
    shard = sorted(path.glob("*.arrow"))[0]
    content, refused = shard.read_bytes(), 0
    for place in range(len(content) // 2 // 4 * 4, len(content) - 4, 4):  # behind the schema
        shard.write_bytes(content[:place] + b"\xff\xff\xff\x7f" + content[place + 4 :])
        try:
            list(open_corpus(path))
        except DataError:
            refused += 1
    assert refused > 50


def test_unknown_format_name_lists_the_known_ones(tmp_path):
    assert "parquet" in str(failure(lambda: open_corpus(tmp_path, format="xml")))
    assert "needs a file" in str(failure(lambda: open_corpus(tmp_path, format="csv").count()))


def test_field_that_was_asked_for_must_be_there(tmp_path):
    path = save(tmp_path / "c.jsonl", jsonl([GOOD]))
    error = failure(lambda: open_corpus(path, Fields(owner="user")).count())
    assert "'user' is missing" in str(error)
    assert "id, owner, text" in str(error)


def test_parquet_rows_are_checked_like_lines(tmp_path):
    path = parquet(tmp_path / "c.parquet", [GOOD, GOOD | {"id": "b"}, GOOD])
    error = failure(lambda: open_corpus(path).count())
    assert error.line_number == 3
    assert "line 1" in str(error)


def test_long_csv_field_is_read_and_one_past_the_limit_is_an_error(tmp_path, monkeypatch):
    import csv

    path = save(tmp_path / "c.csv", b"text\n" + b"x " * 100_000 + b"\n")
    assert len(next(iter(open_corpus(path))).text) == 200_000
    old = csv.field_size_limit()
    monkeypatch.setattr("reticent.data.reading.formats.LONGEST_LINE", 1000)
    csv.field_size_limit(1000)
    try:
        error = failure(lambda: open_corpus(path).count())
    finally:
        csv.field_size_limit(old)
    assert "too large" in str(error)
    assert error.line_number == 2


def test_line_without_end_cannot_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(compression, "LONGEST_LINE", 100)
    path = save(tmp_path / "c.jsonl", jsonl([GOOD]) + b"x" * 200)
    error = failure(lambda: open_corpus(path).count())
    assert "longer than 100 bytes" in str(error)
    assert error.line_number == 2


def test_ids_that_only_share_their_digest_are_not_duplicates(tmp_path, monkeypatch):
    monkeypatch.setattr(digest_counts, "_digest", lambda identity: 0)
    path = save(tmp_path / "c.jsonl", jsonl([GOOD, GOOD | {"id": "b"}, GOOD | {"id": "c"}]))
    assert open_corpus(path).count() == 3
    save(path, jsonl([GOOD, GOOD | {"id": "b"}, GOOD | {"id": "b"}]))
    assert "line 2" in str(failure(lambda: open_corpus(path).count()))


def test_fields_must_differ():
    with pytest.raises(ValueError):
        Fields(text="a", id="a")


def test_nothing_but_the_id_and_place_is_in_a_repr(tmp_path):
    path = save(tmp_path / "c.jsonl", jsonl([GOOD]))
    corpus = open_corpus(path)
    for shown in (repr(corpus), repr(next(iter(corpus))), repr(next(corpus._rows()))):
        assert PRIVATE not in shown


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("customersim.train.jsonl", 10010),
        ("customersim.valid.jsonl", 1000),
        ("customersim.test.jsonl", 1000),
        ("tab.jsonl", 113),
        ("pii-sentences.jsonl", 1500),
        ("newsgroups.jsonl", 1938),  # of 1939, one of which is empty
        ("wikitext-2.valid.txt", 2461),
        ("wikitext-2.test.txt", 2891),
    ],
)
def test_shared_corpora_load(shared, name, count):
    fields = Fields(owner="group") if name.startswith("newsgroups") else Fields()
    corpus = open_corpus(shared / "data" / name, fields, skip_empty=name.startswith("newsgroups")).load()
    assert len(corpus) == count
    if name.startswith("newsgroups"):
        assert set(corpus.owners) == {"rec.sport.hockey", "talk.politics.mideast"}


def test_labels_of_the_benchmark_keep_kind_and_identifier_class(shared):
    case = next(iter(open_corpus(shared / "data" / "tab.jsonl")))
    assert {span.identifier for span in case.spans} == {"direct", "quasi", "none"}
    codes = [case.text[s.start : s.end] for s in case.spans if s.kind == "CODE" and s.identifier == "direct"]
    assert codes == ["18403/91"]


def test_a_csv_may_have_semicolons_and_names_of_columns_in_any_script(tmp_path):
    content = "Absender;Text der Nachricht;Größe\n" + 'ann;"eins; zwei, drei";1\n' + "bob;vier;2\n"
    path = save(tmp_path / "mails.csv", content.encode())
    corpus = open_corpus(path, Fields(text="Text der Nachricht", owner="Absender")).load()
    assert [(record.owner, record.text) for record in corpus] == [("ann", "eins; zwei, drei"), ("bob", "vier")]


def test_a_comma_in_the_first_line_decides_for_commas(tmp_path):
    path = save(tmp_path / "mixed.csv", b"id,text\n1,a;b\n")
    assert open_corpus(path).load()[0].text == "a;b"
