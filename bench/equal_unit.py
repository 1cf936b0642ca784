"""Private answers and private training at an equal unit: one owner replaced, the same (ε, δ), the same text.

    python -m bench.equal_unit --results FOLDER [--minutes N] [--text NAME ...] [--epsilon E ...] [--seeds N]

Texts: `dialogues`, 2,000 generated ones of some 700 owners, the embedded model; `customersim` and `newsgroups`,
400 texts of 48 tokens, each an owner of its own, stories15m with LoRA. All is done by `reticent.train` and
`reticent.evaluate`, DP-SGD with the settings that `reticent plan` chooses (on the two latter texts 4 of its 12
epochs). δ = 1e-5 in all. Lines of the table:

- the public model, as it is and calibrated on other public text of the same kind;
- PMixED, clipped differences and SubMix-F over the calibrated model, for 64 and for 1,024 answers;
- SubMix-F before: order 4 (at ε = 2, where that proves nothing, today's), λ ≤ 0.5, not calibrated, at today's pace;
- DP-SGD for any number of answers, whose model is all that is released;
- hybrid: a DP-SGD model at 3/4 of ε and half of δ, parts trained from it, SubMix-F at what is left;
- the non-private ensemble.

A second table, of the dialogues alone, has SubMix-F for one part in place of one owner, and how far it goes from
the public model to the non-private ensemble in log-perplexity: from the public model as it is, and calibrated.

A seed draws the texts, the split and the training; noise comes from the system. 64 answers are read 48 times from
other texts (by stories15m eight times), 1,024 answers three times (once). Means over seeds are geometric, intervals
Student's over seeds.

Each measurement is a line of FOLDER/measured.jsonl; models are kept beside it. What is there is not made again, and
nothing begins after so many minutes: call it until nothing is missing. Texts are looked for in `data/` of
RETICENT_SHARED, or of the folder `shared` beside the checkout, and stories15m in its `models/`. Ends with 1 if a
measurement is missing, or if SubMix-F for a part realises less than 60 % of the gap at ε = 8 on dialogues.
"""

import argparse
import json
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from scipy import stats  # noqa: E402

import reticent  # noqa: E402
from bench.kept import Kept  # noqa: E402
from bench.labelled_text import shared_folder  # noqa: E402
from reticent.core.randomness import Randomness  # noqa: E402
from reticent.data.generators import generate_dialogues  # noqa: E402
from reticent.prediction.evaluation import realised_share  # noqa: E402

DELTA, BASE_SHARE = 1e-5, 0.75
ANSWERS = (64, 1024)
LEAST_SHARE = 0.6
BEFORE_LIMIT, BEFORE_ORDER = 0.5, 4.0
RIVALS = "pmixed,clipped-differences,submix-f"
MEASURED = "measured.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What is trained on a text, and how."""

    model: str
    parts: int
    repeats: dict[int, int]  # how often so many answers are read
    max_length: int
    member: dict[str, Any]
    private: dict[str, Any]


SMALL = {"lora_rank": 8, "epochs": 3.0, "batch": 4, "learning_rate": 3e-3}
LORA = {"lora_rank": 8, "merge": True, "epochs": 4.0}
FEW = {64: 8, 1024: 1}
RECIPES = {
    "dialogues": Recipe(
        model="embedded",
        parts=64,
        repeats={64: 48, 1024: 3},
        max_length=96,
        member=SMALL | {"batch": 8, "epochs": 6.0},
        private={},
    ),
    "customersim": Recipe(model="stories15m", parts=16, repeats=FEW, max_length=48, member=SMALL, private=LORA),
    "newsgroups": Recipe(model="stories15m", parts=16, repeats=FEW, max_length=48, member=SMALL, private=LORA),
}


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """What is measured: all lines of one ensemble at one ε for so many answers, and the unit they protect."""

    text: str
    seed: int
    epsilon: float
    unit: str
    answers: int


def rows_of(text: str, seed: int) -> dict[str, list[dict[str, str]]]:
    """Training, held-out and public text of a seed; no owner has text in two of them."""
    if text == "dialogues":
        every = generate_dialogues(2_400, randomness=Randomness.seeded(seed).child("texts"))
        rows = [{"id": one.id, "owner": one.owner or one.id, "text": one.text} for one in every]
        public = generate_dialogues(25, randomness=Randomness.seeded(10_000 + seed).child("public"))
        others = [{"id": f"p-{one.id}", "owner": f"p-{one.owner}", "text": one.text} for one in public]
        owners = sorted({row["owner"] for row in rows})
        random.Random(seed).shuffle(owners)
        chosen = set(owners[: len(owners) // 6])
        return {
            "train": [row for row in rows if row["owner"] not in chosen][:2_000],
            "held-out": [row for row in rows if row["owner"] in chosen],
            "public": others,
        }
    file = {"customersim": "customersim.train.jsonl", "newsgroups": "newsgroups.jsonl"}[text]
    with (shared_folder() / "data" / file).open(encoding="utf8") as lines:
        found = [row for row in map(json.loads, lines) if "canary" not in row["id"] and row["text"].strip()]
    random.Random(seed).shuffle(found)
    rows = [{"id": row["id"], "owner": row["id"], "text": row["text"].strip()} for row in found]
    return {"train": rows[:400], "held-out": rows[400:600], "public": rows[600:625]}


def files_of(text: str, seed: int, folder: Path) -> dict[str, Path]:
    """The texts of a seed as files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, rows in rows_of(text, seed).items():
        files[name] = folder / f"{name}.jsonl"
        content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        files[name].write_text(content, encoding="utf8")
    return files


def trained(out: Path, data: Path, *, model: str | Path, **options: Any) -> Path:
    """The run in this folder, made once; one that was cut off is put aside and made anew."""
    if not (out / "finished").is_file():
        if out.exists():
            out.rename(out.with_name(f"{out.name}-cut-{time.time_ns()}"))
        reticent.train(data, model=model, out=out, **options)
        (out / "finished").touch()
    return out


class World:
    """The texts and models of one text and seed."""

    def __init__(self, text: str, seed: int, results: Path) -> None:
        self.recipe, self.seed = RECIPES[text], seed
        self.folder = results / f"{text}-{seed}"
        self.files = files_of(text, seed, self.folder)
        place = shared_folder() / "models" / self.recipe.model
        self.model: str | Path = place if place.is_dir() else self.recipe.model

    def ensemble(self, name: str = "ensemble", model: str | Path | None = None) -> Path:
        """Parts of the owners, each with its adapter, from the public model or from a given one."""
        recipe, start = self.recipe, self.model if model is None else model
        how = {
            "method": "submix",
            "workers": 1,
            "parts": recipe.parts,
            "max_length": recipe.max_length,
            "seed": self.seed,
        }
        return trained(self.folder / name, self.files["train"], model=start, **how, **recipe.member)

    def private(self, epsilon: float, delta: float) -> Path:
        """A DP-SGD model for one owner replaced."""
        how: dict[str, Any] = {"method": "dp-sgd", "unit": "owner", "neighbours": "replace", "seed": self.seed}
        how |= {"max_length": self.recipe.max_length, "target_epsilon": epsilon, "delta": delta}
        name = f"dp-sgd-{epsilon:g}-{delta:g}"
        return trained(self.folder / name, self.files["train"], model=self.model, **how, **self.recipe.private)

    def hybrid(self, epsilon: float) -> Path:
        """Parts that start from a DP-SGD model, which has its share of ε and half of δ."""
        base = self.private(BASE_SHARE * epsilon, DELTA / 2)
        return self.ensemble(f"hybrid-{epsilon:g}", base / "model")

    def measure(self, cell: Cell) -> dict[str, float]:
        """The perplexity of every line."""
        common: dict[str, Any] = {
            "data": self.files["held-out"],
            "max_length": self.recipe.max_length,
            "queries": cell.answers,
            "repeats": self.recipe.repeats[cell.answers],
            "unit": cell.unit,
            "seed": self.seed,
        }
        at = {"epsilon": f"{cell.epsilon:g}", "delta": DELTA}
        calibrated = {"public": self.files["public"]}
        by_owner = cell.unit == "owner"
        rival = {"dp_sgd": self.private(cell.epsilon, DELTA)} if by_owner else {}
        after = reticent.evaluate(self.ensemble(), mechanisms=RIVALS, **common, **at, **calibrated, **rival)
        earlier_order = {"order": BEFORE_ORDER} if cell.epsilon >= BEFORE_ORDER else {}  # below, it proves nothing
        before = reticent.evaluate(
            self.ensemble(), mechanisms="submix-f", weight_limit=BEFORE_LIMIT, **common, **at, **earlier_order
        )
        found = {line.mechanism.value: line.spread.value for line in after.lines}
        found["calibrated"] = found.pop("public")
        earlier = {line.mechanism.value: line.spread.value for line in before.lines}
        found |= {"public": earlier["public"], "before": earlier["submix-f"]}
        if by_owner:
            left = {"epsilon": f"{(1 - BASE_SHARE) * cell.epsilon:g}", "delta": DELTA / 2}
            mixed = reticent.evaluate(
                self.hybrid(cell.epsilon), mechanisms="submix-f", **common, **left, **calibrated
            )
            found["hybrid"] = next(line.spread.value for line in mixed.lines if line.mechanism.value == "submix-f")
        return found


def measure(cell: Cell, results: Path) -> dict[str, float]:
    return World(cell.text, cell.seed, results).measure(cell)


def cells(asked: argparse.Namespace) -> Iterator[Cell]:
    for seed in range(1, asked.seeds + 1):
        for text in asked.text:
            for epsilon in asked.epsilon:
                for answers in ANSWERS:
                    yield Cell(text, seed, epsilon, "owner", answers)
                if text == "dialogues":
                    yield Cell(text, seed, epsilon, "part", max(ANSWERS))


def interval(values: list[float]) -> str:
    """The geometric mean with Student's interval over seeds."""
    logs = [math.log(value) for value in values]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return f"{math.exp(mean):.2f}"
    half = stats.t.ppf(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.exp(mean):.2f} ({math.exp(mean - half):.2f} to {math.exp(mean + half):.2f})"


LINES = {
    "public": "public model",
    "calibrated": "public model, calibrated",
    "clipped-differences": "clipped differences",
    "pmixed": "PMixED",
    "before": "SubMix-F before",
    "submix-f": "SubMix-F",
    "hybrid": "hybrid",
    "dp-sgd": "DP-SGD",
    "non-private": "non-private ensemble",
}


def show(measured: dict[Cell, dict[str, float]]) -> list[float]:
    """Both tables, in Markdown; the shares that have a limit."""
    groups: dict[tuple[str, float, str, int], list[dict[str, float]]] = {}
    for cell in sorted(measured):
        groups.setdefault((cell.text, cell.epsilon, cell.unit, cell.answers), []).append(measured[cell])
    limited: list[float] = []
    for (text, epsilon, unit, answers), seen in groups.items():
        print(f"\n{text}, ε = {epsilon:g}, one {unit}, {answers:,} answers, {len(seen)} seeds\n")
        print("| | perplexity | of the gap | of the calibrated model's gap |\n|---|---|---|---|")
        for line, name in LINES.items():
            if line in seen[0]:
                shares = [
                    [realised_share(one[start], one[line], one["non-private"]) or 0.0 for one in seen]
                    for start in ("public", "calibrated")
                ]
                whole, rest = (f"{100 * statistics.fmean(some):.1f} %" for some in shares)
                print(f"| {name} | {interval([one[line] for one in seen])} | {whole} | {rest} |")
                if (text, epsilon, unit, line) == ("dialogues", 8.0, "part", "submix-f"):
                    limited += [statistics.fmean(some) for some in shares]
    return limited


def main(arguments: list[str] | None = None) -> bool:
    """Measure what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path("equal-unit"))
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--text", nargs="+", choices=list(RECIPES), default=list(RECIPES))
    parser.add_argument("--epsilon", nargs="+", type=float, default=[8.0, 2.0])
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    kept: Kept[Cell, dict[str, float]] = Kept(asked.results / MEASURED, asked.minutes, Cell)
    wanted = list(cells(asked))
    for cell in wanted:
        kept.ensure(cell, partial(measure, cell, asked.results))
    measured = kept.of(wanted)
    limited = show(measured)
    return len(measured) < len(wanted) or not limited or min(limited) < LEAST_SHARE


if __name__ == "__main__":
    sys.exit(main())
