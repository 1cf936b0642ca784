"""Scaling: two workers beside one, for ensemble training and for audit shards, as ratios taken in one run.

    python -m bench scaling

Workers are started and have loaded everything before the clock runs: a start costs seconds once, whatever the work.
Turns alternate, medians over rounds. Where other work shares the processors, two workers get no more time than one
and the ratio says so; the load is printed beside it.
"""

import os
import statistics
import time

import torch
from rich.console import Console
from rich.table import Table

from reticent.app.audit.shards import score_shard
from reticent.app.engine import EngineName, EngineSettings, Piece, Told, gather, open_engine
from reticent.app.ensemble_pieces import MemberTask, member_task, train_piece
from reticent.core.corpus import Corpus, Record
from reticent.core.randomness import Randomness
from reticent.data.generators.dialogues import generate_dialogues
from reticent.models.embedded import embedded_model_path
from reticent.models.loading import load_model
from reticent.training.ensemble import MemberRecipe, Share
from reticent.training.gradient_source import Computation
from reticent.training.loop import Schedule
from reticent.training.optimiser import OptimiserSettings
from reticent.training.starting_model import Start

ROUNDS = 3
MEMBERS = 8
SHARDS = 8
TRAINED, SCORED = 96, 200  # most tokens of a text


def warm(_: int, told: Told) -> int:
    """Load what a piece of work needs; slow enough that every worker gets one."""
    load_model(embedded_model_path())
    time.sleep(2)
    told(1)
    return torch.get_num_threads()


def member_tasks(records: list[Record]) -> list[MemberTask]:
    """Members of equal size on the embedded model."""
    recipe = MemberRecipe(
        epochs=1.0,
        batch=8,
        optimiser=OptimiserSettings(),
        schedule=Schedule(),
        computation=Computation(token_budget=2048),
        max_length=TRAINED,
    )
    size = len(records) // MEMBERS
    start = Start(source=str(embedded_model_path()), lora_rank=4)
    shares = [Share(part, None, Corpus(records[part * size : (part + 1) * size])) for part in range(MEMBERS)]
    return [member_task(share, start=start, recipe=recipe, seed=1) for share in shares]


def shards(rows: list[list[int]], fingerprint: str) -> list[Piece]:
    """Shards of as many texts each."""
    identity = (str(embedded_model_path()), fingerprint)
    count = len(rows) // SHARDS
    return [Piece(f"shard-{n}", (identity, rows[n * count : (n + 1) * count])) for n in range(SHARDS)]


def main() -> None:
    """Print seconds by one and two workers, and their ratio."""
    torch.set_num_threads(1)
    records = list(generate_dialogues(512, randomness=Randomness.seeded(4)))
    members = [Piece(task.share.name, task) for task in member_tasks(records)]
    model = load_model(embedded_model_path())
    rows = [row[:SCORED] for row in model.encode([record.text for record in records])]
    scored = shards(rows, model.fingerprint)
    tokens = {"ensemble members": sum(min(len(row), TRAINED) for row in rows), "audit shards": sum(map(len, rows))}
    work = {"ensemble members": (members, train_piece), "audit shards": (scored, score_shard)}
    seconds: dict[tuple[str, int], list[float]] = {(name, count): [] for name in work for count in (1, 2)}
    engines = {count: open_engine(EngineSettings(name=EngineName.LOCAL, workers=count)) for count in (1, 2)}
    with engines[1] as one, engines[2] as two:
        for count, engine in ((1, one), (2, two)):
            assert gather([Piece(str(n), n) for n in range(count)], warm, engine=engine) == [1] * count
        for _ in range(ROUNDS):
            for name, (pieces, task) in work.items():
                for count, engine in ((1, one), (2, two)):
                    start = time.perf_counter()
                    gather(pieces, task, engine=engine)
                    seconds[name, count].append(time.perf_counter() - start)
    drawn = Table(title=f"Two workers beside one; load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores", box=None)
    for column in ("work", "one, s", "two, s", "speed-up", "tokens/s of one"):
        drawn.add_column(column, justify="left" if column == "work" else "right")
    for name in work:
        alone, both = (statistics.median(seconds[name, count]) for count in (1, 2))
        drawn.add_row(name, f"{alone:.1f}", f"{both:.1f}", f"{alone / both:.2f}×", f"{tokens[name] / alone:,.0f}")
    Console().print(drawn)


if __name__ == "__main__":
    main()
