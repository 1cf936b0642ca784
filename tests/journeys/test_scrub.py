"""Scrub and scan end to end: every artefact is searched for every known secret."""

import json

import pytest

from reticent.core.randomness import Randomness
from reticent.data.generators.cases import generate_cases
from reticent.data.generators.labels import secrets_of
from reticent.data.writing import write_corpus
from tests.journeys.commands import reticent


@pytest.fixture(scope="module")
def cases():
    return generate_cases(25, randomness=Randomness.seeded(5))


@pytest.fixture
def work(tmp_path, cases):
    write_corpus(cases, tmp_path / "cases.jsonl")
    secrets = sorted({secret.reveal() for secret in secrets_of(cases)})
    (tmp_path / "secrets.txt").write_text("".join(f"LISTED\t{secret}\n" for secret in secrets))
    (tmp_path / "out").mkdir()
    return tmp_path


def leaks(cases, folder, *outputs: str) -> set[str]:
    """Secrets of the corpus that stand in any file of `folder` or in any output."""
    seen = [path.read_bytes() for path in folder.rglob("*") if path.is_file()] + [o.encode() for o in outputs]
    return {s.reveal() for s in secrets_of(cases) if any(s.reveal().encode() in one for one in seen)}


@pytest.mark.parametrize("how", ["mask", "type", "fake"])
def test_no_secret_is_in_anything_that_scrub_writes(how, work, cases):
    out = work / "out"
    policy = f"union+dictionary:{work / 'secrets.txt'}"
    arguments = ["--policy", policy, "--replace", how, "--offsets", out / "offsets.jsonl"]
    if how == "fake":
        arguments += ["--key", out / "key"]
    done = reticent("scrub", work / "cases.jsonl", "--out", out / "clean.jsonl", *arguments)
    assert done.returncode == 0, done.stderr
    assert "Replacements differ from the mentions that `reticent scan` counts" in " ".join(done.stdout.split())
    lines = [json.loads(line) for line in (out / "clean.jsonl").read_text().splitlines()]
    if how != "fake":  # the key is drawn anew, so a made-up date may by chance be a date that stood elsewhere
        assert leaks(cases, out, done.stdout, done.stderr) == set()
    assert len({line["id"] for line in lines}) == len(cases)
    assert {line["id"] for line in lines}.isdisjoint(record.id for record in cases)
    moves = [json.loads(line) for line in (out / "offsets.jsonl").read_text().splitlines()]
    # Every other character is the original's, through the offsets.
    for record, line, move in zip(cases, lines, moves, strict=True):
        position = place = 0
        replaced: set[int] = set()
        for new_start, new_end, start, end, _ in move["replacements"]:
            assert line["text"][place:new_start] == record.text[position:start]
            assert line["text"][new_start:new_end] != record.text[start:end]
            replaced.update(range(start, end))
            place, position = new_end, end
        assert line["text"][place:] == record.text[position:]
        # No character of a secret stays where it was.
        assert replaced.issuperset(n for span in record.spans for n in range(span.start, span.end))
    if how == "mask":
        again = reticent("scrub", out / "clean.jsonl", "--out", out / "again.jsonl", "--policy", policy)
        assert again.returncode == 0, again.stderr
        assert [json.loads(x)["text"] for x in (out / "again.jsonl").read_text().splitlines()] == [
            line["text"] for line in lines
        ]


def test_leak_check_sees_a_secret_in_a_file(work, cases):
    (work / "out" / "oops.txt").write_text(f"x {next(iter(secrets_of(cases))).reveal()} y")
    assert len(leaks(cases, work / "out")) >= 1


def test_same_key_gives_the_same_fakes(work):
    texts = []
    for name in ("a.jsonl", "b.jsonl"):
        how = ["--replace", "fake", "--key", work / "key", "--json"]
        done = reticent("scrub", work / "cases.jsonl", "--out", work / name, *how)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["replaced"]["PERSON"] > 0
        texts.append((work / name).read_bytes())
    assert texts[0] == texts[1]
    assert (work / "key").stat().st_mode & 0o077 == 0


def test_a_key_that_is_made_because_none_was_there_is_said_to_be_new(work):
    words = ["scrub", work / "cases.jsonl", "--key", work / "key", "--policy", "patterns"]
    first = reticent(*words, "--out", work / "a.jsonl")
    assert "key: a new key was made, since there was none." in " ".join(first.stdout.split())
    assert "new key" not in reticent(*words, "--out", work / "b.jsonl").stdout


def test_what_is_no_key_is_refused_in_plain_words(work):
    (work / "cases.jsonl").write_bytes("Zoë".encode("latin1"))
    done = reticent("scrub", work / "secrets.txt", "--key", work / "cases.jsonl", "--out", work / "a.jsonl")
    assert done.returncode == 2
    assert "not a key; expected 32 to 128 hexadecimal digits in its first line" in done.stderr


@pytest.mark.parametrize("verb", ["scrub", "dedup", "plant"])
def test_nobody_is_told_to_remove_the_corpus(verb, work):
    key = ["--key", work / "key"] if verb == "plant" else []
    done = reticent(verb, work / "cases.jsonl", "--out", work / "cases.jsonl", *key)
    assert done.returncode == 2
    assert "is the corpus itself" in done.stderr
    assert "remove it" not in done.stderr


def test_no_secret_is_in_anything_that_scan_writes(work, cases):
    out = work / "out"
    done = reticent(
        "scan", work / "cases.jsonl", "--labels", "--policy", "union", "--compare", "patterns",
        "--compare", "patterns+capitals", "--cache", out / "cache.db", "--out", out / "run",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Policies compared" in done.stdout
    assert leaks(cases, out, done.stdout, done.stderr) == set()
    document = json.loads((out / "run" / "scan.json").read_text())
    assert [m["policy"] for m in document["compared"]] == ["patterns", "patterns + capitals"]
    again = reticent(
        "scan", work / "cases.jsonl", "--labels", "--policy", "union", "--cache", out / "cache.db", "--json"
    )
    assert json.loads(again.stdout)["measurement"] == document["measurement"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["scrub", "FILE", "--out", "FILE"],
        ["scrub", "FILE", "--out", "o.jsonl", "--offsets", "FILE"],
        ["scrub", "FILE", "--out", "o.jsonl", "--offsets", "o.jsonl"],
        ["scrub", "FILE", "--out", "o.jsonl", "--key", "o.jsonl"],
        ["plant", "FILE", "--out", "o.jsonl", "--key", "o.jsonl"],
        ["scrub", "FILE", "--out", "o.docx"],
        ["scrub", "FILE", "--out", "o.jsonl", "--replace", "blank"],
        ["scrub", "FILE", "--out", "o.jsonl", "--keep-ids", "--key", "k"],
        ["scrub", "FILE", "--out", "o.jsonl", "--policy", "nonsense"],
        ["scrub", "absent.jsonl", "--out", "o.jsonl"],
        ["scan", "FILE", "--compare", "union"],
    ],
    ids=" ".join,
)
def test_wrong_calls_are_exit_code_2_and_nothing_is_written(arguments, work):
    before = (work / "cases.jsonl").read_bytes()
    done = reticent(*[work / "cases.jsonl" if a == "FILE" else a for a in arguments], cwd=work / "out")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert list((work / "out").iterdir()) == []
    assert (work / "cases.jsonl").read_bytes() == before
