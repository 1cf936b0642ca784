"""Edited files through every file reader, for as long as asked: no traceback, no hang, no flood of memory.

    python -m bench.fuzzing [--minutes 60] [--seed 0] [--only NAME]

The minutes are those of the processor, so that a busy machine fuzzes as much as a quiet one. Prints a line for each
new fault with the file that caused it, and the count of attempts by target. Ends with code 1 where there was a
fault.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.hostile_files import SLOW, Target, attempt, mutated, targets

SECONDS = 2.0  # of work that an edited file may cost beyond what the good one does


def _work(target: Target) -> float:
    """Seconds of work for the good file, at the second reading: the first one imports and compiles."""
    target.read()
    begun = time.process_time()
    target.read()
    return time.process_time() - begun


def main() -> int:
    """Fuzz until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="targets whose name contains this")
    parser.add_argument("--keep", type=Path, default=Path("build/crashes"), help="where faulty files are kept")
    asked = parser.parse_args()
    draw, tried, faults = random.Random(asked.seed), Counter[str](), Counter[str]()
    asked.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="reticent-fuzzing-") as folder:
        chosen = [target for target in targets(Path(folder)) if asked.only in target.name]
        usual = {target.name: _work(target) for target in chosen}
        end = time.process_time() + 60.0 * asked.minutes
        while time.process_time() < end:
            target = draw.choice(chosen)
            content = mutated(target.file.read_bytes(), draw)
            (asked.keep / "last").write_bytes(content)  # what ended the process, where a library aborts it
            most = SECONDS + 2 * usual[target.name]
            fault = attempt(target, content, seconds=most)
            if fault is not None and fault.startswith(SLOW):  # a machine that stood still does so once
                fault = attempt(target, content, seconds=most)
            tried[target.name] += 1
            if fault:
                what = f"{target.name}: {fault.splitlines()[-1][:200]}"
                faults[what] += 1
                if faults[what] == 1:
                    (asked.keep / f"{len(faults):03d}-{target.file.name}").write_bytes(content)
                    print(f"{len(faults):03d} {what}", flush=True)
    print(f"{sum(tried.values()):,} attempts: {dict(tried.most_common())}")
    print(f"{sum(faults.values()):,} faults of {len(faults)} kinds")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
