"""What is written and read again is identical; what fails leaves nothing behind."""

import stat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reticent.core.corpus import Corpus, Record, Span
from reticent.core.errors import DataError
from reticent.data.reading.corpus_file import open_corpus
from reticent.data.writing import write_corpus

COMPRESSED = [f".jsonl{suffix}" for suffix in ("", ".gz", ".bz2", ".xz", ".zst", ".lz4")]
SUFFIXES = [*COMPRESSED, ".ndjson", ".csv", ".csv.gz", ".tsv", ".parquet"]
characters = st.characters(exclude_categories=["Cs"])
names = st.text(characters, min_size=1).filter(str.strip)


@st.composite
def records(draw) -> Record:
    text = draw(names)
    edges = st.tuples(st.integers(0, len(text) - 1), st.integers(1, len(text))).filter(lambda e: e[0] < e[1])
    kinds = st.sampled_from(["NAME", "phone"])
    identifiers = st.sampled_from(["", "direct", "quasi", "none"])
    spans = st.builds(lambda e, k, i: Span(*e, k, i), edges, kinds, identifiers)
    return Record(draw(names), text, owner=draw(names), spans=tuple(sorted(draw(st.lists(spans, max_size=3)))))


corpora = st.lists(records(), min_size=1, max_size=4, unique_by=lambda r: r.id).map(Corpus)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(corpus=corpora)
def test_written_then_read_is_the_identity(suffix, corpus, tmp_path):
    path = tmp_path / f"c{suffix}"
    assert write_corpus(corpus, path, overwrite=True) == len(corpus)
    assert open_corpus(path).load() == corpus
    assert open_corpus(path).fingerprint() == corpus.fingerprint


def test_plain_text_keeps_the_texts(tmp_path):
    write_corpus([Record("a", "one"), Record("b", " two")], tmp_path / "c.txt")
    assert (tmp_path / "c.txt").read_bytes() == b"one\n two\n"


def test_text_with_line_breaks_does_not_fit_a_plain_text_file_and_nothing_is_left(tmp_path):
    with pytest.raises(DataError, match="line breaks") as caught:
        write_corpus([Record("a", "one"), Record("b", "private\nthing")], tmp_path / "c.txt")
    assert "private" not in f"{caught.value} {caught.value.hint}"
    assert caught.value.__suppress_context__
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".jsonl.gz"])
def test_half_a_surrogate_is_an_error_without_the_text(suffix, tmp_path):
    with pytest.raises(DataError, match="surrogate") as caught:
        write_corpus([Record("a", "private \ud800")], tmp_path / f"c{suffix}")
    assert "private" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_error_while_reading_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "c.jsonl"
    write_corpus([Record("a", "old")], path)

    def broken():
        yield Record("a", "new")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_corpus(broken(), path, overwrite=True)
    assert open_corpus(path).load().texts == ["old"]
    assert [p.name for p in tmp_path.iterdir()] == ["c.jsonl"]


def test_existing_file_is_refused_unless_asked(tmp_path):
    path = tmp_path / "c.jsonl"
    write_corpus([Record("a", "old")], path)
    with pytest.raises(DataError, match="already exists"):
        write_corpus([Record("a", "new")], path)
    assert write_corpus([Record("a", "new")], path, overwrite=True) == 1


def test_equal_corpora_make_equal_compressed_files_for_their_owner_alone(tmp_path):
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write_corpus([Record("a", "text")], tmp_path / name)
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()
    assert stat.S_IMODE((tmp_path / "a.jsonl.gz").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["c.docx", "c", "c.parquet.gz"])
def test_unknown_format_is_refused(name, tmp_path):
    with pytest.raises(DataError, match="cannot write"):
        write_corpus([Record("a", "x")], tmp_path / name)


def test_missing_directory_is_an_error(tmp_path):
    with pytest.raises(DataError, match="cannot be written"):
        write_corpus([Record("a", "x")], tmp_path / "none" / "c.jsonl")
