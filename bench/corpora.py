"""Corpora: scan, scrub and deduplicate a generated one; memory at two sizes, speed beside Presidio and datasketch.

    python -m bench corpora                        20 and 40 MB
    RETICENT_BENCH_MB=1000 python -m bench corpora 500 and 1000 MB

Each verb runs in a process of its own, whose peak memory is taken from the operating system. Peers work on the same
texts in turns, on one core by processor time: Presidio with the same patterns, datasketch's MinHash (128
permutations, the same shingles of eight bytes) beside our signatures. Records are generated dialogues, one in ten
an exact and one in ten a near copy of an earlier one.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.policies import presidio_patterns
from reticent.core.randomness import Randomness
from reticent.data.generators.dialogues import generate_dialogues
from reticent.data.near_duplicates import SHINGLE, signatures
from reticent.data.patterns import PatternPolicy

MEGABYTES = int(os.environ.get("RETICENT_BENCH_MB", "40"))
ROUNDS = 3
TEXTS = 300
_PEAK = "import resource,sys\nfrom reticent.app import cli\ncode = cli.run(sys.argv[1:])\n"
_TOLD = (
    "used = resource.getrusage(resource.RUSAGE_SELF)\n"
    "print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)\nsys.exit(code)"
)


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


def run_verb(*arguments: object) -> tuple[float, float]:
    """Processor seconds and peak megabytes of one verb in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _PEAK + _TOLD, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    seconds, peak = done.stderr.split()[-2:]
    return float(seconds), int(peak) / 1000


def verbs(folder: Path, megabytes: float) -> dict[str, tuple[float, float]]:
    """Every verb on a corpus of one size."""
    corpus = folder / f"{megabytes:g}.jsonl"
    write_generated(corpus, megabytes)
    measured = {
        "scan": run_verb("scan", corpus, "--policy", "patterns", "--json"),
        "scrub": run_verb("scrub", corpus, "--out", folder / "scrubbed.jsonl", "--policy", "patterns", "--json"),
        "scrub to Parquet": run_verb(
            "scrub", corpus, "--out", folder / "scrubbed.parquet", "--policy", "patterns", "--json"
        ),
        "dedup": run_verb("dedup", corpus, "--out", folder / "exact.jsonl", "--json"),
        "dedup --near 0.8": run_verb("dedup", corpus, "--out", folder / "near.jsonl", "--near", 0.8, "--json"),
    }
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
    with tempfile.TemporaryDirectory(prefix="reticent-bench-") as name:
        half = verbs(Path(name), MEGABYTES / 2)
        whole = verbs(Path(name), MEGABYTES)
    drawn = Table(title="Streamed verbs, one process, processor time", box=None)
    for column in ("verb", f"MB/s at {MEGABYTES} MB", f"peak MB at {MEGABYTES / 2:g}", f"at {MEGABYTES}"):
        drawn.add_column(column, justify="left" if column == "verb" else "right")
    for verb, (seconds, peak) in whole.items():
        drawn.add_row(verb, f"{MEGABYTES / seconds:.1f}", f"{half[verb][1]:.0f}", f"{peak:.0f}")
    console.print(drawn)
    speeds = peers()
    beside = Table(title="One core, processor time", box=None)
    for column in ("", "MB/s", "ratio"):
        beside.add_column(column, justify="left" if not column else "right")
    for ours, theirs in (
        ("patterns", "presidio-analyzer, the same patterns"),
        ("signatures", "datasketch MinHash, the same shingles"),
    ):
        beside.add_row(ours, f"{speeds[ours]:.2f}", f"{speeds[ours] / speeds[theirs]:.1f}×")
        beside.add_row(theirs, f"{speeds[theirs]:.2f}", "")
    console.print(beside)


if __name__ == "__main__":
    main()
