"""What redacted training is worth by built-in policies alone: beside DP-SGD, and scrubbing before DP-SGD.

    python -m bench.redaction --results FOLDER [--minutes N] [--text customersim|newsgroups ...] [--epsilon E ...]
                              [--seeds N] [--records N] [--model FOLDER] [--lora-rank N] [--methods NAME ...]

Each run is a line of FOLDER/runs.jsonl. Runs that are there are not made again, and none begins after so many
minutes: call it until nothing is missing. `python -m bench redaction` keeps nothing.

Records are lines of the text. Every private method has the same recipe, without averaging, and the same ε at
δ = 1e-5: for replacing a record or, with redacted training, for a secret that `union` misses and `conservative`
catches. A seed draws the lines, the start and the batches; noise comes from the system. Perplexity is that of
held-out lines, which keep their secrets: all tokens, and the tokens outside what `union` finds there. A ratio is
that of one seed's perplexities, its geometric mean over seeds beside it.

Ten numbers of six digits are planted four times each: five as "My ID is 123456.", which `union` finds, and five as
"box 123456 came late", which it misses and `conservative` catches. Printed is their exposure, mean and largest; by
chance 1.44 on average, and the largest of five is below 6.6 in 95 of 100.

CustomerSim and newsgroups are looked for in `data/` of RETICENT_SHARED, or of the folder `shared` beside the
checkout, and the model (stories260k) in its `models/`. Ends with 1 if a run is missing, or if the perplexity of
redacted training is above 1.1 times that of DP-SGD on scrubbed text, or above DP-SGD's outside secrets.
"""

import argparse
import json
import math
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

import reticent  # noqa: E402
from bench.kept import Kept  # noqa: E402
from bench.labelled_text import shared_folder  # noqa: E402
from reticent.auditing.attacks.exposure.candidate_search import SearchLimits  # noqa: E402
from reticent.auditing.attacks.exposure.ranking import ExposureSettings, measure_exposures  # noqa: E402
from reticent.core.corpus import Corpus, Record  # noqa: E402
from reticent.core.randomness import Randomness  # noqa: E402
from reticent.core.secret import Canary, CodeSpace  # noqa: E402
from reticent.data.canaries import make_canaries, plant_canaries  # noqa: E402
from reticent.data.writing import write_corpus  # noqa: E402
from reticent.models.huggingface.loading import load_model  # noqa: E402

FILES = {"customersim": "customersim.train.jsonl", "newsgroups": "newsgroups.jsonl"}
HELD_OUT = 400
RECIPE: dict[str, Any] = {"epochs": 4, "batch": 128, "learning_rate": 3e-3, "average_tail": 0.0, "max_length": 64}
DELTA = 1e-5
PLAIN, MASKS, KINDS = "plain", "crt", "crt, made-up values"
METHODS = (PLAIN, "dp-sgd", "scrub", "scrub, made-up values", MASKS, KINDS)
FOUND, MISSED = "My ID is {}.", "box {} came late"
CANARIES, COPIES = 5, 4
EXPOSURE = ExposureSettings(samples=1000, limits=SearchLimits(max_tokens=20_000))
LIMITS = (("scrub", "all", 1.1), ("dp-sgd", "all", None), ("dp-sgd", "outside", 1.0))
RUNS = "runs.jsonl"


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """What is run."""

    model: str
    text: str
    records: int
    seed: int
    epsilon: float | None  # None for plain training
    method: str


def lines_of(text: str, seed: int, count: int) -> list[str]:
    """Lines of more than three words in random order; of planted numbers none."""
    found = []
    with (shared_folder() / "data" / FILES[text]).open(encoding="utf8") as file:
        for row in map(json.loads, file):
            if "canary" not in row["id"]:
                found += [line.strip() for line in row["text"].split("\n") if len(line.split()) > 3]
    random.Random(seed).shuffle(found)
    return found[:count]


def canaries_of(seed: int) -> dict[str, tuple[Canary, ...]]:
    """The planted numbers, by what becomes of them."""
    made = {}
    for name, template in (("found", FOUND), ("missed", MISSED)):
        source = Randomness.seeded(seed).child(name)
        some = make_canaries(template, CodeSpace(6), count=CANARIES, copies=COPIES, randomness=source)
        made[name] = tuple(replace(canary, name=f"{name}-{canary.name}") for canary in some)
    return made


def run(cell: Cell, folder: Path, lora_rank: int) -> dict[str, Any]:
    """One run of a method and what came of it."""
    lines = lines_of(cell.text, cell.seed, cell.records + HELD_OUT)
    planted = canaries_of(cell.seed)
    records = Corpus(Record(f"line-{place}", line) for place, line in enumerate(lines))
    every = plant_canaries(
        records[HELD_OUT:], (*planted["found"], *planted["missed"]), randomness=Randomness.seeded(cell.seed)
    )
    data, holdout = folder / "train.jsonl", folder / "held-out.jsonl"
    write_corpus(every, data)
    write_corpus(records[:HELD_OUT], holdout)
    began = time.process_time()
    trained = train(cell, data, holdout, folder, lora_rank)
    seconds = time.process_time() - began
    model = load_model(folder / "run" / "model")
    bits = {
        name: [
            each.value
            for each in measure_exposures(model, some, randomness=Randomness.seeded(1), settings=EXPOSURE)
        ]
        for name, some in planted.items()
    }
    counts = trained.redaction
    return {
        "all": trained.evaluation.perplexity,
        "outside": trained.evaluation.outside.perplexity,
        "exposure": bits,
        "private": None if counts is None else counts["private"] / counts["records"],
        "masked": None if counts is None else counts["masked"] / counts["records"],
        "noisy": None if counts is None else counts["noisy_share"],
        "seconds": round(seconds),
    }


def train(cell: Cell, data: Path, holdout: Path, folder: Path, lora_rank: int):
    """The model of a method, measured on the held-out lines."""
    model: str | Path = cell.model if Path(cell.model).is_dir() else shared_folder() / "models" / cell.model
    measured = {"holdout": str(holdout), "holdout_policy": "union", "lora_rank": lora_rank, "seed": cell.seed}
    plain = {"epochs": 4, "batch": 16, "learning_rate": 1e-3, "max_length": 64, "method": "sgd"}
    private = RECIPE | {"target_epsilon": cell.epsilon, "delta": DELTA}
    out = folder / "run"
    if cell.method == PLAIN:
        return reticent.train(data, model=model, out=out, **plain, **measured)
    if cell.method in (MASKS, KINDS):
        policies = {"policy": "union", "conservative_policy": "conservative", "conservative_miss_rate": 0.0}
        fill = {"fill_masks": "kind"} if cell.method == KINDS else {}
        return reticent.train(data, model=model, method="crt", out=out, **private, **policies, **fill, **measured)
    clean = folder / "clean.jsonl"
    if cell.method != "dp-sgd":
        reticent.scrub(data, out=clean, policy="union", replace="fake" if "made-up" in cell.method else "mask")
    source = data if cell.method == "dp-sgd" else clean
    return reticent.train(
        source, model=model, method="dp-sgd", out=out, neighbours="replace", **private, **measured
    )


def main(arguments: list[str] | None = None) -> bool:
    """Make what is missing, then print a line for each text, ε and method, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--text", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--epsilon", nargs="+", type=float, default=[8.0, 2.0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--records", type=int, default=1500)
    parser.add_argument("--model", default="stories260k")
    parser.add_argument("--lora-rank", type=int, default=0)
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    cells = [
        Cell(asked.model, text, asked.records, seed, None if method == PLAIN else epsilon, method)
        for seed, epsilon, text, method in product(seeds, asked.epsilon, asked.text, asked.methods)
    ]
    file = None if asked.results is None else asked.results / RUNS
    runs: Kept[Cell, dict[str, Any]] = Kept(file, asked.minutes, Cell)
    for cell in cells:
        with tempfile.TemporaryDirectory() as folder:
            runs.ensure(cell, partial(run, cell, Path(folder), asked.lora_rank))
    seen = runs.of(cells)
    return summary(seen) or len(seen) < len(set(cells))


def summary(seen: dict[Cell, dict[str, Any]]) -> bool:
    """Means over seeds and the ratios of redacted training, seed by seed; whether a limit was missed."""
    groups: dict[tuple[str, float | None, str], dict[int, dict[str, Any]]] = {}
    for cell, values in seen.items():
        groups.setdefault((cell.text, cell.epsilon, cell.method), {})[cell.seed] = values
    columns = f"{'text':<12}{'ε':>4} {'method':<22}{'seeds':>5}{'all':>8}{'outside':>9}"
    print(f"{columns}  {'found':<12}{'missed':<12}private")
    for text, epsilon, method in sorted(groups, key=lambda key: (key[0], -(key[1] or 99), METHODS.index(key[2]))):
        rows = list(groups[text, epsilon, method].values())
        whole, outside = (geometric([row[key] for row in rows]) for key in ("all", "outside"))
        bits = {name: [bit for row in rows for bit in row["exposure"][name]] for name in ("found", "missed")}
        exposed = "".join(f"{statistics.fmean(each):5.1f} {max(each):5.1f} " for each in bits.values())
        share = rows[0]["private"]
        routed = "" if share is None else f"{share:.0%}, {rows[0]['noisy']:.0%} of words"
        level = "–" if epsilon is None else f"{epsilon:g}"
        perplexity = f"{whole:>8.2f}{outside:>9.2f}"
        print(f"{text:<12}{level:>4} {method:<22}{len(rows):>5}{perplexity}  {exposed} {routed}")
    missed = False
    for text, epsilon, method in groups:
        if method not in (MASKS, KINDS):
            continue
        for rival, where, limit in LIMITS:
            others = groups.get((text, epsilon, rival), {})
            ours = groups[text, epsilon, method]
            ratios = [ours[seed][where] / others[seed][where] for seed in sorted(ours.keys() & others.keys())]
            if not ratios:
                continue
            mean = geometric(ratios)
            missed |= limit is not None and mean > limit
            each = ", ".join(f"{ratio:.3f}" for ratio in ratios)
            said = "" if limit is None else f" (limit {limit})"
            print(f"{text} ε = {epsilon:g}, {method} / {rival}, {where}: {mean:.3f} [{each}]{said}")
    return missed


def geometric(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


if __name__ == "__main__":
    sys.exit(main())
