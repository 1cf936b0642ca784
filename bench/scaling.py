"""Scaling: two workers beside one, for ensemble training and for audit shards, as ratios taken in one run.

    python -m bench scaling

Workers are started and have loaded everything before the clock runs; what a start costs is printed apart, since it
is paid once, whatever the work. Turns alternate, medians over rounds.

The ratio by the clock is what two workers give on this machine as it is: where other work shares the processors,
two workers get hardly more of them than one. Hence a second figure that other work does not touch, what is lost to
having two: processor seconds of one worker over those of both together, times two, less what the leading process
takes itself. It is what the clock would show with two processors to themselves, and says where the rest goes.
Ends with 1 where the clock shows less than 1.7 for either, or, with other work on the machine, the second figure.
"""

import os
import statistics
import sys
import time
from dataclasses import dataclass, field

import psutil
import torch
from rich.console import Console
from rich.table import Table

from reticent.core.corpus import Corpus, Record
from reticent.core.randomness import Randomness
from reticent.data.generators.dialogues import generate_dialogues
from reticent.engine.work import Engine, EngineName, EngineSettings, Piece, Told, Work, gather, open_engine
from reticent.models.embedded import embedded_model_path
from reticent.models.huggingface.loading import load_model
from reticent.runs.audit.shards import score_shard
from reticent.runs.ensemble.pieces import MemberTask, member_task, train_piece
from reticent.training.gradients.source import Computation
from reticent.training.loop import CheckpointSchedule
from reticent.training.methods.ensemble import MemberRecipe, MemberShare
from reticent.training.optimiser import OptimiserSettings
from reticent.training.starting_model import ModelStart

ROUNDS = int(os.environ.get("RETICENT_BENCH_ROUNDS", "2"))
MEMBERS = 16
SHARDS = 24
LEAST = 1.7
TRAINED, SCORED = 96, 200  # most tokens of a text


@dataclass(slots=True)
class Times:
    """Of one kind of work: seconds by the clock, processor seconds of the workers and of the leading process."""

    clock: list[float] = field(default_factory=list)
    workers: list[float] = field(default_factory=list)
    leader: list[float] = field(default_factory=list)


def warm(_: int, told: Told) -> int:
    """Load what a piece of work needs; slow enough that every worker gets one."""
    load_model(embedded_model_path())
    time.sleep(2)
    told(1)
    return os.getpid() if torch.get_num_threads() == 1 else 0


def member_tasks(records: list[Record]) -> list[MemberTask]:
    """Members of equal size on the embedded model."""
    recipe = MemberRecipe(
        epochs=1.0,
        batch=8,
        optimiser=OptimiserSettings(),
        schedule=CheckpointSchedule(),
        computation=Computation(token_budget=2048),
        max_length=TRAINED,
    )
    size = len(records) // MEMBERS
    start = ModelStart(source=str(embedded_model_path()), lora_rank=4)
    shares = [MemberShare(part, None, Corpus(records[part * size : (part + 1) * size])) for part in range(MEMBERS)]
    return [member_task(share, start=start, recipe=recipe, seed=1) for share in shares]


def shards(rows: list[list[int]], fingerprint: str) -> list[Piece]:
    """Shards of as many texts each."""
    identity = (str(embedded_model_path()), fingerprint)
    count = len(rows) // SHARDS
    return [Piece(f"shard-{n}", (identity, rows[n * count : (n + 1) * count])) for n in range(SHARDS)]


def started(engine: Engine, count: int) -> tuple[list[psutil.Process], float]:
    """The workers, ready to work, and what the start of one took, the pause left out."""
    start = time.perf_counter()
    processes = gather([Piece(str(n), n) for n in range(count)], warm, engine=engine)
    assert all(processes)  # one thread each
    return [psutil.Process(each) for each in processes], time.perf_counter() - start - 2.0


def used(processes: list[psutil.Process]) -> float:
    """Processor seconds of the processes so far."""
    return float(sum(sum(process.cpu_times()[:2]) for process in processes))


def timed(pieces: list[Piece], task: Work, engine: Engine, *, workers: list[psutil.Process], into: Times) -> None:
    """One turn."""
    before, leader, start = used(workers), time.process_time(), time.perf_counter()
    gather(pieces, task, engine=engine)
    into.clock.append(time.perf_counter() - start)
    into.leader.append(time.process_time() - leader)
    into.workers.append(used(workers) - before)


def main() -> int:
    """Print seconds by one and two workers, and their ratios; 1 where one is too small."""
    torch.set_num_threads(1)
    before = psutil.cpu_percent(interval=1.0) / 100.0 * (os.cpu_count() or 1)  # processors that others use
    records = list(generate_dialogues(1536, randomness=Randomness.seeded(4)))
    members = [Piece(task.share.name, task) for task in member_tasks(records)]
    model = load_model(embedded_model_path())
    scored = list(generate_dialogues(2016, randomness=Randomness.seeded(5)))
    rows = [row[:SCORED] for row in model.encode([record.text for record in scored])]
    trained = sum(min(len(row), TRAINED) for row in model.encode([record.text for record in records]))
    tokens = {"ensemble members": trained, "audit shards": sum(map(len, rows))}
    work = {
        "ensemble members": (members, train_piece),
        "audit shards": (shards(rows, model.fingerprint), score_shard),
    }
    times = {(name, count): Times() for name in work for count in (1, 2)}
    engines = {count: open_engine(EngineSettings(name=EngineName.LOCAL, workers=count)) for count in (1, 2)}
    with engines[1] as one, engines[2] as two:
        alone, start_one = started(one, 1)
        both, start_two = started(two, 2)
        for _ in range(ROUNDS):
            for name, (pieces, task) in work.items():
                timed(pieces, task, one, workers=alone, into=times[name, 1])
                timed(pieces, task, two, workers=both, into=times[name, 2])
    drawn = Table(title=f"Two workers beside one; load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores", box=None)
    for column in ("work", "one, s", "two, s", "speed-up", "by processor time", "leader, s", "tokens/s of one"):
        drawn.add_column(column, justify="left" if column == "work" else "right")
    is_busy = before > 0.5
    missed = []
    for name in work:
        first, second = times[name, 1], times[name, 2]
        serial, parallel = statistics.median(first.clock), statistics.median(second.clock)
        busy = [statistics.median(each.workers) for each in (first, second)]
        leader = statistics.median(second.leader)
        by_processor = busy[0] / (busy[1] / 2 + leader)
        if (by_processor if is_busy else serial / parallel) < LEAST:
            missed.append(name)
        drawn.add_row(
            name,
            f"{serial:.1f}",
            f"{parallel:.1f}",
            f"{serial / parallel:.2f}×",
            f"{by_processor:.2f}×",
            f"{leader:.2f}",
            f"{tokens[name] / busy[0]:,.0f}",
        )
    console = Console(width=120)
    console.print(drawn)
    console.print(f"A start took {start_one:.1f} s for one worker, {start_two:.1f} s for two at once.")
    for name in missed:
        console.print(f"missed: {name}, below {LEAST} ×")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
