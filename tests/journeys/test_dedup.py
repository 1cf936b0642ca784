"""Deduplication through the command line: exact, near, Parquet in and out, refusals."""

import json

import pyarrow.parquet as pq

from reticent.cli import main as cli
from reticent.data.reading.corpus_file import open_corpus
from reticent.data.writing import write_corpus


def rows():
    """Forty texts; twelve of them again, and eight with one word more."""
    texts = [
        " ".join(
            f"{word}{(number * (place + 3)) % 97}" for place, word in enumerate(["order", "parcel", "call"] * 15)
        )
        for number in range(1, 41)
    ]
    made = [*texts, *texts[:12], *(f"{text} please" for text in texts[20:28])]
    return [{"id": f"r{number}", "owner": f"o{number % 7}", "text": text} for number, text in enumerate(made)]


def run(capsys, *arguments):
    code = cli.run(["dedup", "--json", *map(str, arguments)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


def test_exact_repeats_go_and_alike_ones_only_where_asked(tmp_path, capsys):
    source = tmp_path / "corpus.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    exact = run(capsys, source, "--out", tmp_path / "exact.jsonl")
    assert (exact["records"], exact["kept"], exact["repeated"], exact["nearly_repeated"]) == (60, 48, 12, 0)
    near = run(capsys, source, "--out", tmp_path / "near.parquet", "--near", 0.8)
    assert (near["kept"], near["repeated"], near["nearly_repeated"]) == (40, 12, 8)
    assert [record.id for record in open_corpus(tmp_path / "near.parquet")] == [f"r{n}" for n in range(40)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.jsonl", "exact.jsonl", "near.parquet"]


def test_parquet_comes_in_and_two_workers_find_the_same(tmp_path, capsys):
    source = tmp_path / "corpus.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    write_corpus(open_corpus(source), tmp_path / "corpus.parquet")
    assert pq.read_metadata(tmp_path / "corpus.parquet").num_rows == 60
    alone = run(capsys, tmp_path / "corpus.parquet", "--out", tmp_path / "alone.jsonl", "--near", 0.8)
    both = run(capsys, source, "--out", tmp_path / "both.jsonl", "--near", 0.8, "--workers", 2)
    assert alone["kept"] == both["kept"] == 40
    assert (tmp_path / "alone.jsonl").read_bytes() == (tmp_path / "both.jsonl").read_bytes()


def test_what_cannot_be_done_is_refused_before_anything_is_read(tmp_path, capsys):
    source = tmp_path / "corpus.jsonl"
    source.write_text(json.dumps(rows()[0]) + "\n")
    assert cli.run(["dedup", str(source), "--out", str(source)]) == 2
    assert "is the corpus itself" in capsys.readouterr().err
    assert cli.run(["dedup", str(source), "--out", str(tmp_path / "x.jsonl"), "--near", "1.2"]) == 2
    assert "--near" in capsys.readouterr().err
    assert not (tmp_path / "x.jsonl").exists()
