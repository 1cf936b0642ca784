"""Corpora: scan, scrub and deduplicate a generated one; memory at two sizes, speed beside Presidio and datasketch.

    python -m bench corpora                        4 and 40 MB
    RETICENT_BENCH_MB=1000 python -m bench corpora 100 and 1000 MB
    RETICENT_BENCH_WORKERS=2 ...                   verbs with two workers

Each verb runs as a user would run it, in a process of its own. Its memory is the most that the process and all its
workers held together, looked at twenty times a second; its time is the processor time of all of them, so that other
work on the machine does not count. Peers work on the same texts in turns, on one core by processor time: Presidio
with the same patterns, datasketch's MinHash (128 permutations, the same shingles of eight bytes) beside our
signatures, and text-dedup's where it is installed, which has fewer shingles to hash. Records are generated
dialogues, one in ten an exact and one in ten a near copy of an earlier one; the corpus is written as a stream.
"""

import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from bench.policies import presidio_patterns
from reticent.core.randomness import Randomness
from reticent.data.duplicates.near import SHINGLE, signatures
from reticent.data.generators.dialogues import generate_dialogues
from reticent.data.policies.shapes.patterns import PatternPolicy

MEGABYTES = int(os.environ.get("RETICENT_BENCH_MB", "40"))
ROUNDS = 3
TEXTS = 300
WORKERS = int(os.environ.get("RETICENT_BENCH_WORKERS", "1"))
TEXT_DEDUP = "text-dedup, its shingles of five words"
_LOOK = 0.05  # seconds between two looks at memory


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a verb and its workers: processor seconds, most resident megabytes, and seconds by the clock."""

    seconds: float
    megabytes: float
    clock: float


def write_generated(path: Path, megabytes: float) -> int:
    """A corpus of that size; every text that is not a copy is made different by its number."""
    texts = [record.text for record in generate_dialogues(2000, randomness=Randomness.seeded(4))]
    size = number = 0
    with path.open("w", encoding="utf8") as file:
        while size < megabytes * 1e6:
            original, kind = number, number % 10
            if number >= 20 and kind < 2:
                original = number - 10 - kind  # one of a kind that is no copy itself
                original -= original % 10 - 5
            text = f"Case {original} of {original * 7919 % 10007}: {_varied(texts, original)}"
            text += " Thank you." if kind == 1 else ""
            row = {"id": f"r{number}", "owner": f"o{number % 5000}", "text": text}
            size += file.write(json.dumps(row) + "\n")
            number += 1
    return number


def _varied(texts: list[str], number: int) -> str:
    """Halves of two dialogues: four million different ones."""
    one, other = texts[number % len(texts)], texts[number * 31 // 7 % len(texts)]
    return one[: len(one) // 2] + other[len(other) // 2 :]


def run_verb(*arguments: object) -> Cost:
    """What one verb costs."""
    command = [sys.executable, "-m", "reticent.cli.main", *map(str, arguments), "--json"]
    if WORKERS > 1:
        command += ["--workers", str(WORKERS)]
    before, start, peak = _children(), time.perf_counter(), 0
    with tempfile.TemporaryFile() as said:
        verb = psutil.Popen(command, stdout=said, stderr=said, env=os.environ | {"OMP_NUM_THREADS": "1"})
        while verb.poll() is None:
            peak = max(peak, _resident(verb))
            time.sleep(_LOOK)
        if verb.returncode:
            said.seek(0)
            raise RuntimeError(f"{arguments[0]} ended with {verb.returncode}: {said.read()[-500:]!r}")
    return Cost(_children() - before, peak / 1e6, time.perf_counter() - start)


def _children() -> float:
    """Processor seconds of all processes that ended, and of those that they waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _resident(verb: psutil.Process) -> int:
    """Bytes that a process and its descendants hold; what they share counts for each."""
    total = 0
    try:
        family = [verb, *verb.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for process in family:
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def verbs(folder: Path, megabytes: float, console: Console) -> dict[str, Cost]:
    """Every verb on a corpus of one size."""
    corpus = folder / f"{megabytes:g}.jsonl"
    records = write_generated(corpus, megabytes)
    console.print(f"{megabytes:g} MB: {records:,} records, {WORKERS} worker(s)")
    patterns = ("--policy", "patterns")
    asked: dict[str, tuple[object, ...]] = {
        "scan": ("scan", corpus, *patterns),
        "scrub": ("scrub", corpus, "--out", folder / "scrubbed.jsonl", *patterns),
        "dedup": ("dedup", corpus, "--out", folder / "exact.jsonl"),
        "dedup --near 0.8": ("dedup", corpus, "--out", folder / "near.jsonl", "--near", 0.8),
        "scrub to Parquet": ("scrub", corpus, "--out", folder / "scrubbed.parquet", *patterns),
    }
    measured = {}
    for verb, arguments in asked.items():
        cost = measured[verb] = run_verb(*arguments)
        told = f"{cost.seconds:.0f} s of processors, {cost.clock:.0f} s by the clock, {cost.megabytes:.0f} MB"
        console.print(f"  {verb}: {told}")
    for path in folder.iterdir():
        path.unlink()
    return measured


def datasketch_signatures(texts: list[str]) -> list[object]:
    """MinHash objects of the same shingles."""
    from datasketch import MinHash

    made = []
    for text in texts:
        data = " ".join(text.casefold().split()).encode().ljust(SHINGLE, b"\0")
        sketch = MinHash(num_perm=128, seed=1)
        sketch.update_batch([data[place : place + SHINGLE] for place in range(len(data) - SHINGLE + 1)])
        made.append(sketch)
    return made


def text_dedup_signatures(texts: list[str]) -> list[object] | None:
    """Signatures of text-dedup, as its command computes them, of its own shingles of five words; None without it.

    It wants packages that this project does not (Spark, a data set library), so it is not in the lock.
    """
    try:
        from text_dedup import minhash
    except ImportError:
        return None
    largest, prime = np.uint32((1 << 32) - 1), np.uint64((1 << 61) - 1)  # its default, 64 bits
    draw = np.random.RandomState(42).randint
    settings = {
        "num_perm": 128,
        "ngram_size": 5,
        "min_length": 5,
        "hashranges": [(start, start + 8) for start in range(0, 128, 8)],
        "permutations": tuple(draw(low, prime, 128, dtype=np.uint64) for low in (1, 0)),
        "hash_func": minhash.sha1_hash,
        "dtype": np.uint64,
        "max_hash": largest,
        "modulo_prime": prime,
    }
    return [minhash.embed_func(text, number, **settings) for number, text in enumerate(texts)]


def peers() -> dict[str, float]:
    """Megabytes a second on one core, by processor time; medians, turns alternate."""
    texts = [record.text for record in generate_dialogues(TEXTS, randomness=Randomness.seeded(9))]
    size = sum(len(text.encode()) for text in texts) / 1e6
    policy, rival = PatternPolicy(), presidio_patterns()
    contenders: dict[str, Callable[[], object]] = {
        "patterns": lambda: policy.find(texts),
        "presidio-analyzer, the same patterns": lambda: [rival(text) for text in texts],
        "signatures": lambda: signatures(texts),
        "datasketch MinHash, the same shingles": lambda: datasketch_signatures(texts),
    }
    if text_dedup_signatures(texts[:1]) is not None:
        contenders[TEXT_DEDUP] = lambda: text_dedup_signatures(texts)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, work in contenders.items():
            start = time.process_time()
            work()
            seconds[name].append(time.process_time() - start)
    return {name: size / statistics.median(times) for name, times in seconds.items()}


def main() -> None:
    """Print both tables."""
    console = Console()
    small = MEGABYTES / 10
    with tempfile.TemporaryDirectory(prefix="reticent-bench-") as name:
        less, whole = (verbs(Path(name), size, console) for size in (small, MEGABYTES))
    drawn = Table(title=f"Streamed verbs, {WORKERS} worker(s), processor time", box=None)
    for column in ("verb", f"MB/s at {MEGABYTES} MB", f"peak MB at {small:g}", f"at {MEGABYTES}"):
        drawn.add_column(column, justify="left" if column == "verb" else "right")
    for verb, cost in whole.items():
        speed = f"{MEGABYTES / cost.seconds:.1f}"
        drawn.add_row(verb, speed, f"{less[verb].megabytes:.0f}", f"{cost.megabytes:.0f}")
    console.print(drawn)
    speeds = peers()
    beside = Table(title="One core, processor time", box=None)
    for column in ("", "MB/s", "ratio"):
        beside.add_column(column, justify="left" if not column else "right")
    for ours, *rivals in (
        ("patterns", "presidio-analyzer, the same patterns"),
        ("signatures", "datasketch MinHash, the same shingles", TEXT_DEDUP),
    ):
        beside.add_row(ours, f"{speeds[ours]:.2f}", "")
        for rival in rivals:
            if rival in speeds:
                beside.add_row(f"  {rival}", f"{speeds[rival]:.2f}", f"{speeds[rival] / speeds[ours]:.3f}×")
            else:
                beside.add_row(f"  {rival}", "–", "not installed")
    console.print(beside)


if __name__ == "__main__":
    main()
