"""What the machine refuses, what is not there, and numbers that nobody means: one sentence and exit code 2."""

import errno
import importlib
import inspect
import itertools
import json
import os
import sqlite3
import subprocess
import sys
import typing
from pathlib import Path

import pytest
import typer

from reticent.cli import main as cli
from reticent.cli.system_errors import system_error
from reticent.core import document
from tests.models.tiny import VOCABULARY_SIZE, tiny_gpt2, tiny_tokenizer
from tests.patience import PATIENCE
from tests.processes import Command

EXTREME = ("0", "-1", "nan", "inf", "-inf", "1e308", "1e-300", str(10**12), str(10**23))


def save(module, folder):
    module.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """A corpus, held-out text, a tiny model and a regular file that no folder can lie below."""
    folder = tmp_path_factory.mktemp("there")
    save(tiny_gpt2(), folder / "model")
    for name, first in (("train", 0), ("held", 500)):
        rows = [{"id": f"r{i}", "owner": f"o{i}", "text": f"order {first + i} is late."} for i in range(24)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "file").write_text("a file")
    return folder


@pytest.fixture(scope="module")
def trained(there, tmp_path_factory):
    """A private model of two steps."""
    run = tmp_path_factory.mktemp("trained") / "run"
    assert (
        cli.run([*training(there, "dp-sgd"), "--noise-multiplier", "1", "--delta", "1e-3", "--out", str(run)]) == 0
    )
    return run


def training(there, method, *extra):
    basic = ["train", "--method", method, "--model", there / "model", "--data", there / "train.jsonl"]
    return [str(each) for each in (*basic, "--batch", 12, *extra)]


@pytest.fixture
def one_line(capsys):
    """Runs the verb: exit code 0, or 2 with one line on stderr; returns the code and what was said."""

    def run(*arguments):
        capsys.readouterr()
        code = cli.run([str(argument) for argument in arguments])
        said = capsys.readouterr().err.strip()
        assert code in (0, 2), f"{arguments}: exit code {code}\n{said}"
        assert code == 0 or (said.startswith("error: ") and len(said.splitlines()) == 1), said
        return code, said

    return run


# --- faults of the machine


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "full"), "no space left on device"),
        (OSError(errno.EROFS, "read-only", "/place"), "/place: read-only file system"),
        (PermissionError(errno.EACCES, "no", "/place"), "/place: permission denied"),
        (MemoryError(), "not enough memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 4 bytes"), "not enough memory"),
        (RuntimeError("CUDA out of memory. Tried to allocate"), "not enough memory"),
        (RuntimeError("PytorchStreamWriter failed writing file data/3"), "no space left"),
        (ValueError("Error while serializing: I/O error: No space left (os error 28)"), "no space left"),
    ],
)
def test_what_the_machine_refuses_is_one_sentence_with_exit_code_2(error, words, capsys, monkeypatch):
    def fail(**_):
        raise error

    monkeypatch.setattr(cli, "app", fail)
    assert cli.run(["scan"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert words in said
    assert "(hint: " in said
    assert len(said.splitlines()) == 1


def test_a_full_or_locked_database_is_the_machines_fault(tmp_path):
    connection = sqlite3.connect(tmp_path / "small.db", isolation_level=None)
    connection.execute("PRAGMA page_size = 512")
    connection.execute("PRAGMA max_page_count = 4")
    connection.execute("CREATE TABLE t (x BLOB)")
    with pytest.raises(sqlite3.OperationalError) as full:
        connection.execute("INSERT INTO t VALUES (zeroblob(100000))")
    assert "no space is left" in str(system_error(full.value))
    with pytest.raises(sqlite3.OperationalError) as wrong:
        connection.execute("SELECT nothing")
    assert system_error(wrong.value) is None
    connection.close()


def test_a_mistake_of_ours_is_not_blamed_on_the_machine():
    for error in (RuntimeError("shapes differ"), ValueError("x"), KeyError("y"), OSError("no code")):
        assert system_error(error) is None
    assert system_error(OSError(errno.EBADF, "bad file descriptor")) is None  # the broken twin: every OSError


def test_nothing_can_be_written_below_a_file_and_no_verb_calls_that_its_bug(there, trained, one_line, tmp_path):
    below, corpus = there / "file" / "deep" / "out", there / "train.jsonl"
    audit = ["audit", there / "model", "--train", corpus, "--holdout", there / "held.jsonl", "--no-cache"]
    noisy = ["bound", "dp-sgd", "--noise-multiplier", 1, "--sampling-rate", 0.1, "--steps", 1]
    for arguments in (
        [*training(there, "sgd"), "--out", below],
        [*training(there, "submix", "--parts", 2), "--out", below],
        [*audit, "--out", below],
        ["diff", there / "model", there / "model", "--out", below],
        ["demo", "--scale", "quick", "--out", below],
        ["scan", corpus, "--out", below],
        ["scan", corpus, "--cache", below],
        ["scrub", corpus, "--out", below.with_suffix(".jsonl")],
        ["scrub", corpus, "--out", tmp_path / "a.jsonl", "--offsets", below],
        ["scrub", corpus, "--out", tmp_path / "b.jsonl", "--replace", "fake", "--key", below],
        ["dedup", corpus, "--out", below.with_suffix(".jsonl")],
        ["plant", corpus, "--out", below.with_suffix(".jsonl"), "--key", tmp_path / "key"],
        ["plant", corpus, "--out", tmp_path / "c.jsonl", "--key", below],
        ["init", "--out", below],
        ["keys", "add", "me", "--file", below],
        ["report", trained, "--out", below.with_suffix(".html")],
        ["ledger", "export", trained, "--out", below],
        ["evaluate", trained, "--data", corpus, "--out", below],
        ["synthesize", trained, "--out", below.with_suffix(".jsonl")],
        [*noisy, "--plot", below.with_suffix(".png")],
    ):
        code, said = one_line(*arguments)
        assert code == 2, arguments
        assert "bug" not in said
    assert sorted(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("verb", "limit"),
    [("plant", 500), ("scrub", 500), ("scan", 300), ("sgd", 6000), ("dp-sgd", 300)],
)
def test_a_full_disk_is_said_and_leaves_no_half_of_a_folder(verb, limit, there, tmp_path):
    """A file may grow to so many bytes and no further, as on a disk that is full."""
    corpus, out = str(there / "train.jsonl"), tmp_path / "new" / "out"
    arguments = {
        "plant": ["plant", corpus, "--out", f"{tmp_path}/o.jsonl", "--key", f"{tmp_path}/key"],
        "scrub": ["scrub", corpus, "--out", f"{tmp_path}/o.jsonl"],
        "scan": ["scan", corpus, "--out", str(out)],
        "sgd": [*training(there, "sgd"), "--out", str(out)],
        "dp-sgd": [*training(there, "dp-sgd", "--noise-multiplier", 1, "--delta", "1e-3"), "--out", str(out)],
    }[verb]
    done = Command(*arguments, limit=limit).end(seconds=PATIENCE)
    assert done.returncode == 2, done.stderr
    assert "free some space" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    if verb == "sgd":  # cut off in the middle of a run that was begun: it can be resumed
        assert (out / "run.json").is_file()
    else:
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_no_success(unbuffered):
    script = "from reticent.cli.main import main; main()"
    arguments = ["bound", "extraction", "--order", "2", "--epsilon", "1", "--candidates", "10", "--json"]
    with Path("/dev/full").open("w", encoding="utf8") as full:
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},  # empty: as if it were not there
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "no space left" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_a_terminal_without_greek_letters_is_no_bug(extra):
    script = "from reticent.cli.main import main; main()"
    arguments = ["bound", "extraction", "--order", "2", "--epsilon", "1", "--candidates", "10", *extra]
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    done.stdout.decode("ascii")


# --- folders


def test_folders_that_were_made_for_nothing_go_again(tmp_path, monkeypatch):
    (tmp_path / "old").mkdir()

    def full(_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(document.os, "fsync", full)
    for place in ("old/a/b/file.json", "a/b/c/file.json"):
        with pytest.raises(OSError, match="full"):
            document.write_document(tmp_path / place, {})
    assert [str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*")] == ["old"]


def test_a_verb_that_fails_leaves_no_folder(there, one_line, tmp_path):
    missing, corpus, out = tmp_path / "missing.jsonl", there / "train.jsonl", tmp_path / "new" / "out"
    audit = ["audit", there / "model", "--holdout", there / "held.jsonl", "--no-cache"]
    for arguments in (
        [*audit, "--train", missing],
        [*audit, "--train", corpus, "--attacks", "exposure"],  # there are no canaries
        ["diff", there / "model", tmp_path / "missing"],
        ["diff", there / "model", there / "model", "--data", missing],
        ["scan", missing],
        ["scan", corpus, "--labels"],
        ["demo", "--scale", "quick", "--model", tmp_path / "missing"],
        [*training(there, "sgd"), "--data", missing],
        [*training(there, "sgd"), "--max-length", 5000],
        [*training(there, "sgd"), "--lora-rank", 2, "--adapter-layers", 60],
    ):
        code, said = one_line(*arguments, "--out", out)
        assert code == 2, said
        assert list(tmp_path.iterdir()) == [], arguments


# --- what is not there

BEFORE_TORCH = """
import json, sys
from reticent.cli import main as cli
codes = []
for arguments in json.loads(sys.argv[1]):
    code = cli.run(arguments)
    loaded = [name for name in ("torch", "transformers", "peft") if sys.modules.pop(name, None)]
    codes.append([code, loaded])
print(json.dumps(codes))
"""


def test_a_missing_file_is_said_before_torch_is_loaded(there, tmp_path):
    missing, corpus, model = str(tmp_path / "missing"), str(there / "train.jsonl"), str(there / "model")
    out = ["--out", str(tmp_path / "out")]
    table = [
        [*training(there, "sgd"), *out, "--data", missing],
        [*training(there, "sgd"), *out, "--holdout", missing],
        [*training(there, "sgd"), *out, "--model", missing],
        [*training(there, "submix"), *out, "--data", missing],
        [*training(there, "submix"), *out, "--model", missing],
        [*training(there, "sgd"), "--dry-run", "--data", missing],
        [*training(there, "sgd"), "--out", str(there)],  # holds something
        ["train", "--config", missing, *out],
        ["train", "--resume", missing],
        ["audit", missing, "--train", corpus, "--holdout", corpus, *out],
        ["audit", model, "--train", missing, "--holdout", corpus, *out],
        ["audit", model, "--train", corpus, "--holdout", missing, *out],
        ["audit", model, "--train", corpus, "--holdout", corpus, "--base", missing, *out],
        ["audit", model, "--train", corpus, "--holdout", corpus, "--canaries", missing, *out],
        ["diff", model, missing, *out],
        ["diff", model, model, "--data", missing, *out],
        ["demo", "--model", missing, *out],
        ["predict", missing, "--prompt", "x", "--epsilon", "8", "--delta", "1e-5"],
        ["evaluate", missing, "--data", corpus],
        ["evaluate", str(tmp_path), "--data", missing],
        ["serve", missing, "--epsilon", "8", "--delta", "1e-5"],
        ["report", missing],
        ["scan", missing],
        ["ledger", "show", missing],
    ]
    done = subprocess.run(
        [sys.executable, "-c", BEFORE_TORCH, json.dumps(table)], capture_output=True, encoding="utf8", check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = list(zip(table, json.loads(done.stdout), strict=True))
    assert [(call, code, loaded) for call, (code, loaded) in found if code != 2 or loaded] == []
    said = done.stderr.splitlines()
    assert len(said) == len(table), done.stderr
    assert all(line.startswith("error: ") for line in said)


# --- numbers


def numeric_options(function):
    """The options of a verb that take a number, from its signature."""
    for parameter in inspect.signature(function).parameters.values():
        kind, *notes = typing.get_args(parameter.annotation) or (parameter.annotation,)
        names = [
            name
            for note in notes
            if isinstance(note, typer.models.OptionInfo)
            for name in (note.default, *(note.param_decls or ()))
        ]
        if {int, float} & ({kind} | set(typing.get_args(kind))):
            yield next(name for name in names if isinstance(name, str) and name.startswith("--"))


def verbs():
    for name in cli.VERBS:
        verb = getattr(importlib.import_module(f"reticent.cli.{name}"), name)
        if callable(verb) and not hasattr(verb, "registered_commands"):
            yield (name,), verb
        else:
            yield from (((name, command.name), command.callback) for command in verb.registered_commands)


OPTIONS = {verb: tuple(numeric_options(function)) for verb, function in verbs()}
QUICK = [("plant",), ("dedup",), ("scan",), ("scrub",), ("keys", "add"), ("bound", "extraction"), ("train",)]
SLOW = [("bound", "dp-sgd"), ("bound", "confidentiality"), ("audit",), ("diff",), ("plan",)]
# `predict` and `evaluate` need an ensemble: tests/journeys/test_predict.py. `synthesize` needs a run:
# tests/journeys/test_synthesize.py. `serve` has the settings of `predict`;
# `demo` takes a seed alone.
ELSEWHERE = [("predict",), ("evaluate",), ("synthesize",), ("serve",), ("demo",)]


def test_every_verb_that_takes_a_number_is_in_the_table():
    assert {verb for verb, options in OPTIONS.items() if options} == {*QUICK, *SLOW, *ELSEWHERE}
    assert sum(map(len, OPTIONS.values())) > 60


def tried(verb, there, folder):
    """A call of the verb that works."""
    corpus, model = there / "train.jsonl", there / "model"
    audit = ["audit", model, "--train", corpus, "--holdout", there / "held.jsonl", "--no-cache"]
    return {
        "plant": ["plant", corpus, "--out", folder / "o.jsonl", "--key", folder / "key"],
        "dedup": ["dedup", corpus, "--out", folder / "o.jsonl"],
        "scan": ["scan", corpus],
        "scrub": ["scrub", corpus, "--out", folder / "o.jsonl"],
        "keys add": ["keys", "add", "me", "--file", folder / "keys.json"],
        "bound extraction": ["bound", "extraction", "--order", 2, "--epsilon", 1, "--candidates", 10],
        "bound confidentiality": ["bound", "confidentiality", "--epsilon", 1],
        "bound dp-sgd": ["bound", "dp-sgd", "--noise-multiplier", 1, "--sampling-rate", 0.01, "--steps", 10],
        "plan": ["plan", "--records", 1000, "--model", "embedded", "--target-epsilon", 8],
        "train": [*training(there, "sgd"), "--dry-run"],
        "audit": [*audit, "--attacks", "membership,lazy", "--samples", 10, "--out", folder / "out"],
        "diff": ["diff", model, model, "--length", 2, "--width", 2, "--out", folder / "out"],
    }[" ".join(verb)]


def try_numbers(verb, there, tmp_path, one_line):
    for number, (option, value) in enumerate(itertools.product(OPTIONS[verb], EXTREME)):
        folder = tmp_path / str(number)
        folder.mkdir()
        call = list(tried(verb, there, folder))
        if option in call:
            call[call.index(option) + 1] = value
        else:
            call += [option, value]
        # Thousands of processes are asked for in earnest; whether a machine starts them is its own affair.
        if (option, value) in {("--processes", "1"), ("--workers", "1")}:
            continue
        one_line(*call)


@pytest.mark.parametrize("verb", QUICK, ids=" ".join)
def test_no_number_is_a_bug(verb, there, tmp_path, one_line):
    try_numbers(verb, there, tmp_path, one_line)


@pytest.mark.slow
@pytest.mark.parametrize("verb", SLOW, ids=" ".join)
def test_no_number_of_a_longer_verb_is_a_bug(verb, there, tmp_path, one_line):
    try_numbers(verb, there, tmp_path, one_line)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *itertools.product(["--noise-multiplier", "--clip-norm"], EXTREME),
        *itertools.product(["--delta"], ("0", "-1", "nan", "inf", "1e308", "1")),
        *itertools.product(["--epochs"], ("0", "-1", "nan", "inf", "1e308", str(10**12))),
        ("--learning-rate", "1e308"),
        ("--lora-rank", str(10**12)),
        ("--seed", str(10**23)),
    ],
)
def test_private_training_refuses_numbers_that_nobody_means(option, value, there, one_line, tmp_path):
    out = tmp_path / "out"
    call = training(there, "dp-sgd", "--noise-multiplier", 1, "--delta", "1e-3", "--epochs", 1)
    call += [] if option in call else [option, ""]
    call[call.index(option) + 1] = value
    code, said = one_line(*call, "--out", out)
    assert code == 2, (option, value)
    assert not out.exists()
    assert "memory" not in said  # refused by its range, not by what happens to fit


@pytest.mark.parametrize(
    "flags",
    [
        ("--noise-multiplier", "1", "--sampling-rate", "0.01", "--steps", str(10**12)),
        ("--noise-multiplier", "1e-300", "--sampling-rate", "0.01", "--steps", "10"),
        ("--noise-multiplier", "nan", "--sampling-rate", "0.01", "--steps", "10"),
        ("--target-epsilon", "1e308", "--sampling-rate", "0.01", "--steps", "10"),
        ("--noise-multiplier", "1", "--records", "10", "--batch", "1", "--epochs", "1e308"),
        ("--noise-multiplier", "1", "--records", str(10**23), "--batch", "1", "--epochs", "1"),
    ],
)
def test_bounds_refuse_numbers_that_nobody_means(flags, one_line):
    code, said = one_line("bound", "dp-sgd", *flags)
    assert code == 2
    assert "out of range" in said


def test_mamba_and_others_that_lora_does_not_fit_are_refused_in_words(there, one_line, tmp_path):
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(vocab_size=VOCABULARY_SIZE, hidden_size=16, num_hidden_layers=2, state_size=4)
    mamba = save(MambaForCausalLM(config), tmp_path / "mamba")
    for extra in (
        ("sgd", "--lora-rank", 2),
        ("sgd", "--lora-rank", 2, "--adapter-layers", 1),
        ("submix", "--parts", 2),
    ):
        code, said = one_line(*training(there, *extra), "--model", mamba, "--out", tmp_path / "out")
        assert code == 2
        assert "LoRA layers do not fit this architecture" in said
        assert not (tmp_path / "out").exists()
