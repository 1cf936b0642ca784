"""Measured beside proved: ε from below by gradient canaries in real DP-SGD runs, and what the canaries cost.

For each model, target ε and seed a model is trained privately twice, with canaries and without: same text, same
plan but for the canaries, same samples of records and same noise from the seed, so that the two differ by the
canaries alone. Coins come from the system's generator. Noted are the ε that the run itself prints (99.9 %), what
the plan's own test, Steinke et al. 2023 and Mahloujifar et al. 2024 find at 95 %, and both held-out perplexities.

    python -m bench.auditing --results FOLDER [--minutes 7] [--models embedded MODEL:RANK] [--text customersim]
                             [--canaries 4000] [--seeds 5] [--first-seed 0] [--epsilons 1 4 8]

Each pair of runs is a line of FOLDER/pairs.jsonl, and its scores and coins are a file beside it, for
`bench.one_run_rivals`. Pairs that are there are not run again, and none begins after so many minutes: call it until
nothing is missing. MODEL:RANK trains LoRA layers of that rank. Text is looked for as in `bench.utility`.

Prints the table. Ends with 1 if a pair is missing, or if any single run is refuted or prints more than was proved,
less than half of it at ε = 4 or 8, or less than a third at 1, or if a mean perplexity is more than 2 % above that
without canaries.
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np

from bench.utility import corpora
from reticent.auditing.attacks.one_run.draws import PoissonDraws
from reticent.core.corpus import Corpus, Record
from reticent.core.document import read_document
from reticent.core.evidence.canary_trace import CanaryTrace
from reticent.core.randomness import Randomness
from reticent.data.writing import write_corpus
from reticent.runs.directory import TRAINING
from reticent.runs.training.measuring import measure_plan
from reticent.runs.training.result import TrainedRun
from reticent.runs.training.run import train
from reticent.runs.training.settings import DataSection, Method, ModelSection, TrainingSection, TrainSettings
from reticent.training.plans.plan import DpSgd, noise_deviation, plan_from_json

RECORDS, BATCH, EPOCHS, LENGTH, DELTA = 400, 40, 2.0, 24, 1e-5
LEAST = {1.0: 1 / 3, 4.0: 1 / 2, 8.0: 1 / 2}  # of the proved ε
DEAREST = 1.02  # perplexity with canaries over that without
PAIRS = "pairs.jsonl"
RATES = {False: 5e-4, True: 2e-3}  # of learning all weights, or LoRA layers


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """What is run."""

    model: str
    epsilon: float
    canaries: int
    seed: int

    @property
    def name(self) -> str:
        """Of the file of its scores."""
        return f"{Path(self.model).name.replace(':', '-lora-')}-{self.epsilon:g}-{self.canaries}-{self.seed}"


@dataclass(frozen=True, slots=True)
class Pair:
    """What a cell's two runs found."""

    cell: Cell
    claimed: float
    measured: float  # as the run prints it, at 99.9 %
    at_95: float
    verdict: str
    by_count: float
    by_curve: float
    with_canaries: float
    without: float
    seconds: tuple[float, float]

    @property
    def cost(self) -> float:
        """Perplexity with canaries over that without."""
        return self.with_canaries / self.without


def trained(folder: Path, cell: Cell, *, canaries: int | None) -> tuple[TrainedRun, float]:
    """A run, and the processor seconds that it took."""
    began = time.process_time()
    source, _, rank = cell.model.partition(":")
    settings = TrainSettings(
        data=DataSection(
            file=str(folder / "train.jsonl"), holdout=str(folder / "held-out.jsonl"), max_length=LENGTH
        ),
        model=ModelSection(source=source, lora_rank=int(rank or 0)),
        training=TrainingSection(
            method=Method.DP_SGD,
            epochs=EPOCHS,
            batch=BATCH,
            learning_rate=RATES[bool(rank)],
            target_epsilon=cell.epsilon,
            delta=DELTA,
            audit=canaries,
        ),
        seed=cell.seed,
        out=folder / f"run-{canaries}",
    )
    result = train(settings, randomness=Randomness.seeded(cell.seed))
    return result, time.process_time() - began


def measured(cell: Cell, text: str, results: Path) -> Pair:
    """Both runs of a cell; its scores and coins are written beside the results."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, texts in zip(("train", "held-out"), corpora(text, RECORDS), strict=True):
            records = Corpus(Record(str(number), one) for number, one in enumerate(texts))
            write_corpus(records, folder / f"{file}.jsonl")
        audited, seconds = trained(folder, cell, canaries=cell.canaries)
        trace, plan = CanaryTrace.read(audited.path), plan_from_json(read_document(audited.path / TRAINING)["plan"])
        plain, without = trained(folder, cell, canaries=None)
    assert isinstance(plan, DpSgd)
    deviation = noise_deviation(plan.noise_multiplier, 1.0)
    scores = PoissonDraws(plan.sampler.rate).log_ratios(trace.projections, deviation)
    usual = measure_plan(trace, plan, confidence=0.95)
    np.savez(results / f"{cell.name}.npz", scores=scores, coins=trace.is_member)
    found = audited.measured
    assert found is not None
    assert audited.evaluation is not None
    assert plain.evaluation is not None
    return Pair(
        cell=cell,
        claimed=found.claimed,
        measured=found.epsilon,
        at_95=usual.epsilon,
        verdict=found.verdict,
        by_count=usual.by_count.epsilon,
        by_curve=usual.by_curve.epsilon,
        with_canaries=audited.evaluation.perplexity,
        without=plain.evaluation.perplexity,
        seconds=(seconds, without),
    )


def read(results: Path) -> list[Pair]:
    """The pairs of a folder of results."""
    path = results / PAIRS
    lines = path.read_text(encoding="utf8").splitlines() if path.is_file() else []
    return [Pair(**{**row, "cell": Cell(**row["cell"])}) for row in map(json.loads, lines)]


def show(pairs: list[Pair]) -> list[str]:
    """Print a line for each model and ε; the limits that are missed."""
    faults = []
    groups = sorted({(pair.cell.model, pair.cell.epsilon, pair.cell.canaries) for pair in pairs})
    for model, epsilon, canaries in groups:
        group = [p for p in pairs if (p.cell.model, p.cell.epsilon, p.cell.canaries) == (model, epsilon, canaries)]
        found, costs = [pair.measured for pair in group], [pair.cost for pair in group]
        at_95 = [pair.at_95 for pair in group]
        name = f"{Path(model).name}, ε = {epsilon:g}"
        by_count, by_curve = np.mean([pair.by_count for pair in group]), np.mean([pair.by_curve for pair in group])
        print(
            f"{name}, {canaries} canaries, {len(group)} seeds: measured {np.mean(found):.2f} ({min(found):.2f} to "
            f"{max(found):.2f}) of {group[0].claimed:.2f}; at 95 % {np.mean(at_95):.2f} ({min(at_95):.2f} to "
            f"{max(at_95):.2f}), {sum(p.at_95 > p.claimed for p in group)} above, Steinke et al. {by_count:.2f}, "
            f"Mahloujifar et al. {by_curve:.2f}; perplexity × {np.mean(costs):.4f} "
            f"({min(costs):.4f} to {max(costs):.4f}) of {np.mean([p.without for p in group]):.2f}"
        )
        if min(found) < LEAST.get(epsilon, 0.0) * epsilon:
            faults.append(f"{name}: only {min(found) / epsilon:.2f} of the proved ε")
        faults += [f"{name}, seed {p.cell.seed}: above the proved ε" for p in group if p.measured > p.claimed]
        if np.mean(costs) > DEAREST:
            faults.append(f"{name}: perplexity × {np.mean(costs):.4f}")
        faults += [f"{name}, seed {p.cell.seed}: {p.verdict}" for p in group if p.verdict != "consistent"]
    return faults


def main() -> int:
    """Run what is missing while there is time, print the table; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=7.0)
    parser.add_argument("--models", nargs="+", default=["embedded"])
    parser.add_argument("--text", default="customersim")
    parser.add_argument("--canaries", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0, 8.0])
    asked = parser.parse_args()
    asked.results.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60.0 * asked.minutes
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    wanted = [
        Cell(model, epsilon, asked.canaries, seed)
        for seed, model, epsilon in product(seeds, asked.models, asked.epsilons)
    ]
    for cell in wanted:
        if time.monotonic() > until or cell in {pair.cell for pair in read(asked.results)}:
            continue
        pair = measured(cell, asked.text, asked.results)
        with (asked.results / PAIRS).open("a", encoding="utf8") as file:
            file.write(json.dumps(asdict(pair), ensure_ascii=False) + "\n")
        print(pair, flush=True)
    pairs = [pair for pair in read(asked.results) if pair.cell in wanted]
    faults = show(pairs) + [f"missing: {cell}" for cell in set(wanted) - {pair.cell for pair in pairs}]
    print(*faults, sep="\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
