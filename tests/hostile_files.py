"""Files that somebody edited, put through the command line's own readers.

Each `Target` is a good file, in a folder that was made once, and the verb or function that reads it. A mutation
changes bytes anywhere, or a value anywhere in a JSON document. Whatever comes of it, the reader must end with an
answer or one line: no traceback, no hang, no memory beyond `MEMORY`.
"""

import contextlib
import io
import json
import random
import re
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reticent.cli.main import BUG
from reticent.cli.main import run as command_line
from reticent.core.errors import UsageError
from reticent.core.evidence.canary_trace import KEY as CANARY_KEY
from reticent.core.evidence.canary_trace import TRACE as CANARY_TRACE
from reticent.core.evidence.canary_trace import CanaryTrace
from reticent.core.evidence.individual import FILE as INDIVIDUAL
from reticent.core.evidence.individual import IndividualBounds

MEMORY = 1 << 30  # bytes that one reading may add
PATIENCE = 120.0  # seconds of the clock
SLOW = "more than"
IDLE = 0.0005  # of the clock's time: a reader that works less than that waits
VALUES: list[Any] = [
    None,
    True,
    0,
    -5,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "word",
    "\x1b[2J",
    [],
    {},
    [[]],
]
VALUES += ["x" * 100_000, [0] * 10_000, 2**63, 1 << 40, "../../etc/passwd", "\ud800", "=1+1", 0.1]
PIECES = [
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"[" * 5000,
    b'{"a":' * 3000,
    b"9" * 5000,
    b"-1",
    b"NaN",
    b"1e999",
    b'"',
]
PIECES += [b"\n", b"\r", b",", b"\t", b"\xed\xa0\x80", b"\x1b]0;x\x07", b"{{", b"../", b"%s", b"\xf0\x9f\x92\xa9"]


class Hang(BaseException):
    """A reading took longer than it may; no reader can swallow it."""


@dataclass(frozen=True)
class Target:
    """A good file and what reads it."""

    name: str
    file: Path
    read: Callable[[], object]
    times: int = 2  # attempts of the default test; fewer where a reading takes long


def verb(*arguments: object) -> Callable[[], int]:
    """A verb of the command line, in this process; AssertionError where it ends as a bug of ours."""

    def run() -> int:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = command_line([str(each) for each in arguments])
        assert code != BUG, said.getvalue()[-3000:]
        assert "Traceback" not in said.getvalue()
        return code

    return run


def function(read: Callable[[], object]) -> Callable[[], object]:
    """A reader of the library: a `UsageError` is an answer, anything else is a fault."""

    def run() -> object:
        try:
            return read()
        except UsageError as error:
            if "\n" in str(error):
                raise ValueError("an error of several lines") from None
            return None

    return run


def mutated(content: bytes, draw: random.Random) -> bytes:
    """The content with one or a few changes."""
    if draw.random() < 0.5:
        with contextlib.suppress(ValueError, RecursionError):
            return _edited(json.loads(content), draw)
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8))):
        start = draw.randrange(len(data) + 1)
        end = min(len(data), start + draw.choice((1, 1, 4, 64, 4096)))
        how = draw.randrange(6)
        if how == 0:
            data[start:end] = bytes(draw.randrange(256) for _ in range(end - start))
        elif how == 1:
            del data[start:end]
        elif how == 2:
            data[start:start] = data[start:end]
        elif how == 3:
            data[start:start] = draw.choice(PIECES)
        elif how == 4 and start < len(data):
            data[start] ^= 1 << draw.randrange(8)
        else:
            del data[start if draw.random() < 0.3 else end :]
    return bytes(data)


def _edited(document: Any, draw: random.Random) -> bytes:
    """The document with another value, one value less or one more, somewhere."""
    places = list(_places(document))
    if not places:
        return json.dumps(draw.choice(VALUES)).encode("utf8", "surrogatepass")
    holder, key = draw.choice(places)
    how = draw.randrange(4)
    if how == 0 and isinstance(holder, dict):
        del holder[key]
    elif how == 1 and isinstance(holder, dict):
        holder[draw.choice(("", "schema_version", "x", "__class__", key + " "))] = draw.choice(VALUES)
    elif how == 2:
        other, place = draw.choice(places)
        holder[key] = json.loads(json.dumps(other[place]))
    else:
        holder[key] = draw.choice(VALUES)
    return json.dumps(document, ensure_ascii=draw.random() < 0.7).encode("utf8", "surrogatepass")


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(document, dict | list):
        for key, value in list(document.items() if isinstance(document, dict) else enumerate(document)):
            yield document, key
            yield from _places(value)


@contextlib.contextmanager
def changed(target: Target, content: bytes) -> Iterator[None]:
    """The file with other content, and its own again afterwards, whatever the reader did beside it."""
    kept = target.file.with_name(target.file.name + ".kept")
    shutil.copy2(target.file, kept)
    try:
        target.file.write_bytes(content)
        yield
    finally:
        shutil.move(kept, target.file)


def attempt(target: Target, content: bytes, *, seconds: float, patience: float = PATIENCE) -> str | None:
    """What went wrong when the target's reader met this content; None where nothing did.

    `seconds` are of work, so that a busy machine makes no fault; who hardly works in `patience` seconds waits.
    """

    before = _peak(anew=True)
    worked = time.process_time()

    def stop(number: int, _: object) -> None:
        nonlocal worked
        done = time.process_time() - worked
        worked += done
        if number == signal.SIGPROF or done < IDLE * patience:  # a busy machine lets a reader work slowly
            raise Hang

    timers = {signal.SIGPROF: (signal.ITIMER_PROF, seconds), signal.SIGALRM: (signal.ITIMER_REAL, patience)}
    previous = {number: signal.signal(number, stop) for number in timers}
    try:
        with changed(target, content):
            try:
                for timer, most in timers.values():
                    signal.setitimer(timer, most, most)
                target.read()
            finally:
                for timer, _ in timers.values():
                    signal.setitimer(timer, 0.0)
    except Hang:
        return f"{SLOW} {seconds:g} s of work, or {patience:g} s of waiting"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    grown = _peak() - before
    return f"{grown >> 20} MiB of memory" if grown > MEMORY else None


def _peak(*, anew: bool = False) -> int:
    """The largest size of this process so far, in bytes; since now, where the system can forget what was before."""
    with contextlib.suppress(OSError):
        if anew:
            Path("/proc/self/clear_refs").write_text("5")
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        if found is not None:
            return 1024 * int(found[1])
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def targets(folder: Path) -> list[Target]:
    """Every file that reticent reads, each with its reader, made in a folder."""
    return [*_corpora(folder), *_settings(folder), *_models(folder), *_runs(folder)]


def _corpora(folder: Path) -> Iterator[Target]:
    from reticent.data.reading.corpus_file import open_corpus
    from tests.data.reading.test_reading import FORMATS

    for name, make in FORMATS.items():
        (folder / name).mkdir(parents=True)
        place = make(folder / name)
        files = sorted(each for each in place.rglob("*") if each.is_file()) if place.is_dir() else [place]
        for file in files:
            yield Target(f"{name}: {file.name}", file, function(lambda place=place: list(open_corpus(place))))


def _settings(folder: Path) -> Iterator[Target]:
    from reticent.data.canaries import read_key
    from reticent.data.coin_canaries import read_coins
    from reticent.data.policies.shapes.expressions import read_expressions

    corpus = _plain_corpus(folder)
    expressions = folder / "expressions.txt"
    expressions.write_text("# kinds\nCODE\t[A-Z]{2}\\d{4}\nCASE\tcase \\d+/\\d+\n")
    yield Target("expressions", expressions, function(lambda: read_expressions(expressions)))
    keys = folder / "keys.json"
    _must("keys", "add", "ann", "--file", keys, "--quota", 5)
    yield Target("keys", keys, verb("keys", "list", "--file", keys))
    planted = folder / "canaries.json"
    _must("plant", corpus, "--out", folder / "planted.jsonl", "--key", planted, "--count", 2, "--seed", 1)
    yield Target("canaries", planted, function(lambda: read_key(planted)))
    coins = folder / "coins.json"
    _must("plant", corpus, "--out", folder / "audited.jsonl", "--key", coins, "--audit", 20)
    yield Target("coins", coins, function(lambda: read_coins(coins)))
    settings = folder / "train.toml"
    _must("init", "private-records", "--out", settings)
    yield Target(
        "settings",
        settings,
        verb("train", "--config", settings, "--data", corpus, "--holdout", folder / "holdout.jsonl", "--dry-run"),
    )


def _models(folder: Path) -> Iterator[Target]:
    from reticent.models.huggingface.loading import load_model
    from tests.models.tiny import tiny_gpt2, tiny_lora, tiny_tokenizer

    base, adapter = folder / "model", folder / "adapter"
    tiny_gpt2().save_pretrained(base)
    tiny_tokenizer().save_pretrained(base)
    adapted = tiny_lora(tiny_gpt2())
    adapted.peft_config["default"].base_model_name_or_path = str(base)
    adapted.save_pretrained(adapter)
    for place in (base, adapter):
        for file in sorted(place.glob("*.json")) + sorted(place.glob("*.safetensors")):
            yield Target(f"{place.name}: {file.name}", file, function(lambda place=place: load_model(place)))


def _runs(folder: Path) -> Iterator[Target]:
    corpus, run, audit = folder / "corpus.jsonl", folder / "run", folder / "audit"
    words = ("--method", "dp-sgd", "--model", folder / "model", "--data", corpus, "--noise-multiplier", 1)
    words += ("--delta", 1e-3, "--epochs", 1, "--batch", 8, "--max-length", 24, "--clip-norm", 1)
    _must("train", *words, "--audit", 20, "--individual-accounting", "--out", run)
    words = ("--train", corpus, "--holdout", folder / "holdout.jsonl", "--attacks", "membership", "--out", audit)
    _must("audit", run / "model", *words)
    yield from _inside_a_run(run)
    public = [file for file in sorted(run.glob("*.json")) if file.name not in (INDIVIDUAL, CANARY_KEY)]
    for file in public + sorted((run / "model").glob("*.json")):
        yield Target(f"bound: {file.relative_to(run)}", file, verb("bound", run))
    for file in sorted(run.glob("ledger.db*")):
        yield Target(f"ledger: {file.name}", file, verb("ledger", "verify", run))
        yield Target(f"ledger of a report: {file.name}", file, verb("ledger", "show", run), times=1)
    for file in sorted(audit.glob("*.json")):
        yield Target(
            f"report: {file.name}", file, verb("report", audit, run, "--out", folder / "page.html"), times=2
        )


def _inside_a_run(run: Path) -> Iterator[Target]:
    """What a run keeps for its operator alone."""
    from reticent.training.gradients.levels import FILE as LEVELS
    from reticent.training.gradients.levels import LevelFile

    yield Target("single records", run / INDIVIDUAL, function(lambda: IndividualBounds.read(run)))
    yield Target("levels", run / LEVELS, function(lambda: LevelFile(run, 32).read().counts(4).tolist()))
    for name in (CANARY_KEY, CANARY_TRACE):
        yield Target(f"gradient canaries: {name}", run / name, function(lambda: CanaryTrace.read(run)))


def _plain_corpus(folder: Path) -> Path:
    for name, first in (("corpus", 0), ("holdout", 500)):
        rows = [
            {"id": f"r{n}", "owner": f"o{n % 8}", "text": f"order {n * 37} is late."}
            for n in range(first, first + 32)
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "corpus.jsonl"


def _must(*arguments: object) -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        assert command_line([str(each) for each in arguments]) == 0, said.getvalue()
