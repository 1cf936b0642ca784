"""What redacted training is worth by built-in policies alone: beside DP-SGD, and scrubbing before DP-SGD.

    python -m bench redaction
    python bench/redaction.py [--text customersim|newsgroups ...] [--epsilon E ...] [--seeds N] [--records N]
                              [--model FOLDER] [--lora-rank N] [--methods NAME ...]

Records are lines of the text. Every method has the same recipe and the same ε at δ = 1e-5, for replacing a record
or, with redacted training, for a secret that `union` misses and `conservative` catches. A seed draws the lines, the
start and the batches; noise comes from the system. Perplexity is that of held-out lines, all tokens, and of the
tokens outside what `union` finds there. A ratio is that of one seed's perplexities, its geometric mean over seeds
beside it. Held-out lines keep their secrets.

CustomerSim and newsgroups are looked for in `data/` of RETICENT_SHARED, or of the folder `shared` beside the
checkout, and the model (stories260k) in its `models/`.
"""

import argparse
import json
import math
import os
import random
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import reticent  # noqa: E402

FILES = {"customersim": "customersim.train.jsonl", "newsgroups": "newsgroups.jsonl"}
HELD_OUT = 400
RECIPE = {"epochs": 4, "batch": 128, "learning_rate": 3e-3, "max_length": 64}
DELTA = 1e-5
METHODS = ("dp-sgd", "scrub", "crt", "crt, made-up values")


def shared() -> Path:
    return Path(os.environ.get("RETICENT_SHARED", ROOT.parent / "shared"))


def lines_of(text: str, seed: int, count: int) -> list[str]:
    """Lines of more than three words in random order; of planted numbers none."""
    found = []
    with (shared() / "data" / FILES[text]).open(encoding="utf8") as file:
        for row in map(json.loads, file):
            if "canary" not in row["id"]:
                found += [line.strip() for line in row["text"].split("\n") if len(line.split()) > 3]
    random.Random(seed).shuffle(found)
    return found[:count]


def write_lines(lines: list[str], path: Path) -> Path:
    rows = [json.dumps({"id": f"line-{place}", "text": line}) for place, line in enumerate(lines)]
    path.write_text("\n".join(rows) + "\n", encoding="utf8")
    return path


def trained(method: str, data: Path, holdout: Path, out: Path, asked: argparse.Namespace, *, epsilon, seed):
    """One run of a method at this ε, measured on the held-out lines."""
    options = RECIPE | {
        "model": asked.model or shared() / "models" / "stories260k",
        "target_epsilon": epsilon,
        "delta": DELTA,
        "seed": seed,
        "holdout": str(holdout),
        "holdout_policy": "union",
        "lora_rank": asked.lora_rank,
    }
    if method.startswith("crt"):
        policies = {"policy": "union", "conservative_policy": "conservative", "conservative_miss_rate": 0.0}
        fill = {"fill_masks": True} if "made-up" in method else {}
        return reticent.train(data, method="crt", out=out, **options, **policies, **fill)
    if method == "scrub":
        clean = out.with_suffix(".jsonl")
        reticent.scrub(data, out=clean, policy="union")
        data = clean
    return reticent.train(data, method="dp-sgd", out=out, neighbours="replace", average_tail=0.0, **options)


def main() -> bool:
    """Print a row for each text, ε, seed and method, then the ratios; whether a limit was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--epsilon", nargs="+", type=float, default=[8.0, 2.0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--records", type=int, default=1500)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--lora-rank", type=int, default=0)
    asked = parser.parse_args()
    rows: dict[tuple[str, float, str], list[tuple[float, float]]] = {}
    for text in asked.text:
        for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
            lines = lines_of(text, seed, asked.records + HELD_OUT)
            for epsilon in asked.epsilon:
                with tempfile.TemporaryDirectory() as folder:
                    data = write_lines(lines[HELD_OUT:], Path(folder) / "train.jsonl")
                    holdout = write_lines(lines[:HELD_OUT], Path(folder) / "held-out.jsonl")
                    for place, method in enumerate(asked.methods):
                        out = Path(folder) / f"run-{place}"
                        run = trained(method, data, holdout, out, asked, epsilon=epsilon, seed=seed)
                        seen = run.evaluation
                        pair = seen.perplexity, seen.outside.perplexity
                        rows.setdefault((text, epsilon, method), []).append(pair)
                        told = f"all tokens {pair[0]:7.2f}, outside secrets {pair[1]:7.2f}"
                        print(f"{text} ε = {epsilon:g} seed {seed}: {method:20s} {told}{routed(run)}", flush=True)
    return summary(rows)


def routed(run) -> str:
    """How redaction divided the lines."""
    counts = run.redaction
    return "" if counts is None else f" ({counts['private']:,} private, {counts['noisy_share']:.0%} of words noisy)"


def summary(rows) -> bool:
    """Ratios of redacted training over the others, seed by seed; whether one is above its limit."""
    missed = False
    for text, epsilon, method in rows:
        if not method.startswith("crt"):
            continue
        for rival, place, limit in (("scrub", 0, 1.1), ("scrub", 1, None), ("dp-sgd", 0, None), ("dp-sgd", 1, 1.0)):
            if (text, epsilon, rival) not in rows:
                continue
            pairs = zip(rows[text, epsilon, method], rows[text, epsilon, rival], strict=True)
            ratios = [ours[place] / theirs[place] for ours, theirs in pairs]
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            missed |= limit is not None and mean > limit
            where = ("all tokens", "outside secrets")[place]
            each = ", ".join(f"{ratio:.3f}" for ratio in ratios)
            said = "" if limit is None else f" (limit {limit})"
            print(f"{text} ε = {epsilon:g}, {method} / {rival}, {where}: {mean:.3f} [{each}]{said}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
