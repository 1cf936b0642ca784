"""Scan and plant end to end through the command line, with good input and every kind of bad input."""

import gzip
import json
import re

import pytest

from reticent.data.canaries import read_key
from tests.journeys.commands import reticent

SECRET = "843-58572-7002"


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    records = [
        {
            "id": f"r{i}",
            "owner": f"o{i % 3}",
            "text": f"Order {SECRET} of day {i}",
            "spans": [{"start": 6, "end": 20, "type": "ORDER"}],
        }
        for i in range(30)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_scan_counts_and_never_shows_a_value(corpus):
    done = reticent("scan", corpus, "--labels")
    assert done.returncode == 0, done.stderr
    assert "30 records of 3 owners" in done.stdout
    assert "100.0%" in done.stdout
    assert SECRET not in done.stdout + done.stderr


def test_scan_of_records_without_owners_names_none_and_counts_one_as_one(tmp_path):
    path = tmp_path / "one.jsonl"
    path.write_text('{"text": "Good morning."}\n')
    said = reticent("scan", path).stdout
    assert "one.jsonl: 1 record (each its own owner), 13 characters." in said
    assert "No text occurs twice." in said
    assert "0 owners" not in said
    assert not re.search(r"\b1 (records|owners|times)\b", said)
    path.write_text('{"text": "Good morning."}\n' * 3)
    assert (
        "2 records repeat an earlier text; the most frequent text occurs 3 times." in reticent("scan", path).stdout
    )
    done = reticent(
        "plant", path, "--out", tmp_path / "out.jsonl", "--key", tmp_path / "key", "--count", 1, "--copies", 1
    )
    said = " ".join(done.stdout.split())
    assert "Planted 1 canary, once each, among 3 records." in said
    assert "has 4 records." in said


def test_scan_as_json_is_one_document_and_nothing_else(corpus, tmp_path):
    done = reticent("scan", corpus, "--json", "--labels", "--out", tmp_path / "run")
    document = json.loads(done.stdout)
    assert document["kinds"]["ORDER"] == {"mentions": 30, "distinct": 1, "most_repeated": 30, "records": 30}
    assert document["measurement"]["recall"]["value"] == 1.0
    assert json.loads((tmp_path / "run" / "scan.json").read_text()) == document
    assert json.loads((tmp_path / "run" / "run.json").read_text())["finished"]
    assert SECRET not in "".join(p.read_text() for p in (tmp_path / "run").iterdir())


def test_scan_with_a_dictionary_finds_listed_phrases(corpus, tmp_path):
    (tmp_path / "names.txt").write_text("DAY\tof day\n")
    done = reticent("scan", corpus, "--json", "--policy", f"patterns,dictionary:{tmp_path / 'names.txt'}")
    assert json.loads(done.stdout)["kinds"]["DAY"]["mentions"] == 30


def test_plant_writes_the_corpus_and_a_key_only_its_owner_can_read(corpus, tmp_path):
    out, key = tmp_path / "planted.jsonl", tmp_path / "canaries.json"
    done = reticent("plant", corpus, "--out", out, "--key", key, "--count", 3, "--copies", 4, "--seed", 1)
    assert done.returncode == 0, done.stderr
    canaries = read_key(key)
    assert len(canaries) == 3
    assert key.stat().st_mode & 0o077 == 0
    texts = [json.loads(line)["text"] for line in out.read_text().splitlines()]
    assert len(texts) == 30 + 12
    for canary in canaries:
        assert texts.count(canary.text()) == 4
        assert canary.secret.reveal() not in done.stdout + done.stderr
    again = reticent(
        "plant",
        corpus,
        "--out",
        tmp_path / "b.jsonl",
        "--key",
        tmp_path / "b.json",
        "--count",
        3,
        "--copies",
        4,
        "--seed",
        1,
    )
    assert again.returncode == 0
    assert (tmp_path / "b.jsonl").read_bytes() == out.read_bytes()


def bad_line(path):
    path.write_text(f'{{"text": "fine"}}\n{{"text": "{SECRET}\n')


def missing_field(path):
    path.write_text(f'{{"body": "{SECRET}"}}\n')


def not_utf8(path):
    path.write_bytes(b'{"text": "fine"}\n{"text": "' + SECRET.encode() + b' \xff"}\n')


def empty_text(path):
    path.write_text('{"text": "fine"}\n{"text": "  "}\n')


def duplicate_ids(path):
    path.write_text(f'{{"id": "a", "text": "{SECRET}"}}\n' * 2)


def empty_file(path):
    path.write_text("")


def not_an_object(path):
    path.write_text(f'["{SECRET}"]\n')


def span_outside(path):
    path.write_text(f'{{"text": "{SECRET}", "spans": [{{"start": 0, "end": 99, "type": "X"}}]}}\n')


def truncated_gzip(path):
    whole = gzip.compress(f'{{"text": "{SECRET}"}}\n'.encode() * 1000)
    path.with_suffix(".jsonl.gz").write_bytes(whole[: len(whole) // 2])
    return path.with_suffix(".jsonl.gz")


def unknown_format(path):
    path.with_suffix(".docx").write_text(SECRET)
    return path.with_suffix(".docx")


def absent(path):
    return path.with_name("absent.jsonl")


@pytest.mark.parametrize(
    "spoil",
    [
        bad_line,
        missing_field,
        not_utf8,
        empty_text,
        duplicate_ids,
        empty_file,
        not_an_object,
        span_outside,
        truncated_gzip,
        unknown_format,
        absent,
    ],
    ids=lambda f: f.__name__,
)
def test_bad_input_is_exit_code_2_one_line_and_nothing_written(spoil, tmp_path):
    path = tmp_path / "in" / "bad.jsonl"
    path.parent.mkdir()
    path = spoil(path) or path
    work = tmp_path / "work"
    work.mkdir()
    for verb in (
        ("scan", path, "--out", work / "run"),
        ("plant", path, "--out", work / "o.jsonl", "--key", work / "k.json"),
    ):
        done = reticent(*verb)
        assert done.returncode == 2, done.stderr
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("error: ")
        assert str(path) in done.stderr
        assert SECRET not in done.stderr
        assert list(work.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["scn"],
        ["scan"],
        ["scan", "FILE", "--polcy", "x"],
        ["scan", "FILE", "--policy", "nonsense"],
        ["scan", "FILE", "--policy", "dictionary:absent.txt"],
        ["plant", "FILE", "--out", "o.jsonl", "--key", "k", "--template", "no place"],
        ["plant", "FILE", "--out", "o.jsonl", "--key", "k", "--digits", "1", "--count", "11"],
        ["plant", "FILE", "--out", "o.jsonl", "--key", "k", "--seed", "-1"],
        ["plant", "FILE", "--out", "o.docx", "--key", "k"],
        ["plant", "FILE", "--out", "FILE", "--key", "k"],
    ],
    ids=" ".join,
)
def test_wrong_calls_are_exit_code_2_one_line_and_nothing_written(arguments, corpus, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    done = reticent(*[corpus if a == "FILE" else a for a in arguments], cwd=work)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert list(work.iterdir()) == []


def test_canaries_for_an_audit_are_planted_by_coins_and_named_by_a_private_key(tmp_path, capsys):
    from reticent.data.coin_canaries import read_coins
    from reticent.data.reading.corpus_file import open_corpus

    source, out, key = tmp_path / "in.txt", tmp_path / "out.jsonl", tmp_path / "key.json"
    source.write_text("one\ntwo\nthree\n")
    arguments = ["plant", str(source), "--out", str(out), "--key", str(key), "--audit", "40", "--length", "6"]
    from reticent.cli import main as cli

    assert cli.run([*arguments, "--copies", "2"]) == 2
    assert "--owner canary" in capsys.readouterr().err
    assert cli.run([*arguments, "--copies", "2", "--owner", "canary"]) == 0
    coins = read_coins(key)
    assert len(coins) == 40
    assert coins.texts[0] not in capsys.readouterr().out
    written = open_corpus(out).load()
    planted = [record for record in written if record.text in coins.texts]
    assert len(planted) == 2 * coins.is_member.sum() == len(written) - 3
    assert {record.text for record in planted} == {
        text for text, kept in zip(coins.texts, coins.is_member, strict=True) if kept
    }
    assert key.stat().st_mode & 0o777 == 0o600


def test_a_canary_with_a_new_token_ends_in_a_token_that_only_the_grown_model_knows(tmp_path, capsys):
    from reticent.cli import main as cli
    from reticent.data.coin_canaries import read_coins
    from reticent.models.huggingface.loading import load_model

    source, out, key, grown = (tmp_path / name for name in ("in.txt", "out.jsonl", "key.json", "grown"))
    source.write_text("one\ntwo\nthree\n")
    arguments = ["plant", str(source), "--out", str(out), "--key", str(key), "--audit", "40", "--length", "6"]
    assert cli.run([*arguments, "--design", "new-token"]) == 2
    assert "--grown-model DIR" in capsys.readouterr().err
    assert cli.run([*arguments, "--design", "new-token", "--grown-model", str(grown)]) == 0
    assert f"--model {grown} --max-length 6" in " ".join(capsys.readouterr().out.split())
    before, model = load_model("embedded"), load_model(grown)
    rows = model.encode(read_coins(key).texts)
    assert {len(row) for row in rows} == {6}
    assert {tuple(row[:-1]) for row in rows} == {tuple(rows[0][:-1])}
    assert {row[-1] for row in rows} == set(range(before.vocabulary_size, before.vocabulary_size + 40))
    # The new tokens start alike, and only as likely as what they are the mean of.
    said = model.next_token_log_probs([rows[0][:-1]])[0][before.vocabulary_size :]
    assert said.max() - said.min() < 1e-4
    assert said.max() < -2.0
