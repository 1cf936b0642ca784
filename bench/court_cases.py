"""The games about personal data on real court cases: a small story model, four defences, the built-in policy.

    python -m bench.court_cases --results FOLDER [--minutes N] [--defences NAME ...] [--candidates N ...] [--seed N]
                                [--model FOLDER] [--epochs N]

Training text is every paragraph of 60 cases of TAB (Pilán et al. 2022) that names a person by its hand-made labels,
held-out text that of the other cases. The labels are then dropped: what is scrubbed, asked for and tagged is what
`--policy union` finds. All is done by `reticent.train`, `reticent.scrub` and `reticent.audit`.

Decoys of the inference game are values of held-out text. The court cases have too few of them for 500 candidates,
so that game takes those of pii-sentences.jsonl as well, whose names look different: the model that training started
from plays every game too and says what a candidate's looks alone give away.

Each game is a line of FOLDER/games.jsonl. Games that are there are not played again, and none begins after so many
minutes: call it until nothing is missing. TAB is read from `data/` of RETICENT_SHARED, or of the folder `shared`
beside the checkout, and the model (stories15m) from its `models/`. Noise comes from the system, not from the seed.

The paper's figures for GPT-2-Large on ECHR (Lukas et al. 2023, Table VI): extraction precision and recall 30 and
23 %, reconstruction 18 %, inference among 100 candidates 70 %, undefended; 3, 3, 1 and 8 % with DP at ε = 8; 0, 0,
0 and 1 % scrubbed. Among 500 candidates undefended: 50 %. Ends with 1 if a game is missing.
"""

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

import reticent  # noqa: E402
from bench.labelled_text import shared_folder  # noqa: E402
from reticent.models.huggingface.loading import load_model  # noqa: E402
from reticent.runs.policies import policy_named  # noqa: E402
from reticent.training.batches import encode_texts  # noqa: E402
from reticent.training.evaluation import evaluate, outside_secrets  # noqa: E402

CASES = 60  # to train on, of 113
POLICY, SHORTEST = "union", 24
EPSILON, DELTA = 8.0, 1e-5
PUBLIC, PLAIN, DP, SCRUBBED, BOTH = "not trained", "none", "DP", "scrubbed", "DP and scrubbed"
DEFENCES = (PUBLIC, PLAIN, SCRUBBED, DP, BOTH)
RECIPES: dict[bool, dict[str, Any]] = {  # by whether training is private
    False: {"method": "sgd", "batch": 8, "learning_rate": 1e-3},
    True: {"method": "dp-sgd", "batch": 64, "learning_rate": 2e-3, "target_epsilon": EPSILON, "delta": DELTA},
}
COLUMNS = {
    "precision": "pii_precision",
    "recall": "pii_recall",
    "TAB": "reconstruction_tab",
    "top-1": "reconstruction_top1",
    "gain": "reconstruction_gain",
    "inference": "inference_accuracy",
}
GAMES = "games.jsonl"


def rows_of(name: str) -> list[dict[str, Any]]:
    lines = (shared_folder() / "data" / name).read_text(encoding="utf8").splitlines()
    return [json.loads(line) for line in lines]


def naming(cases: list[dict[str, Any]]) -> Iterator[dict[str, str]]:
    """The paragraphs of these cases that name a person, without their labels."""
    for case in cases:
        start = 0
        for number, text in enumerate(case["text"].split("\n\n")):
            end = start + len(text)
            persons = [
                span
                for span in case["spans"]
                if span["type"] == "PERSON" and start <= span["start"] and span["end"] <= end
            ]
            if persons and len(text) >= SHORTEST:
                yield {"id": f"{case['id']}/{number}", "owner": case["owner"], "text": text}
            start = end + 2


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf8")
    return path


def texts(folder: Path, seed: int) -> dict[str, Path]:
    """The files of a seed: what is trained on, what is held out, and held-out text with more names."""
    cases = rows_of("tab.jsonl")
    random.Random(seed).shuffle(cases)
    owners = {case["owner"] for case in cases[:CASES]}
    train = list(naming(cases[:CASES]))
    others = list(naming([case for case in cases[CASES:] if case["owner"] not in owners]))
    more = [
        {"id": f"sentence-{row['id']}", "owner": f"sentence-{row['id']}", "text": row["text"]}
        for row in rows_of("pii-sentences.jsonl")
        if any(span["type"] == "PERSON" for span in row["spans"])
    ]
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "train": write(folder / "train.jsonl", train),
        "held out": write(folder / "held-out.jsonl", others),
        "more": write(folder / "more-names.jsonl", others + more),
    }


def public(asked: argparse.Namespace) -> Path:
    """The model that training starts from."""
    return Path(asked.model) if Path(asked.model).is_dir() else shared_folder() / "models" / asked.model


def trained(defence: str, files: dict[str, Path], folder: Path, asked: argparse.Namespace) -> Path:
    """The model of a defence; made once."""
    model = public(asked)
    out = folder / defence.replace(" ", "-")
    if defence == PUBLIC:
        return model
    if not (out / "model" / "config.json").is_file():
        data = files["train"]
        if defence in (SCRUBBED, BOTH):
            data = folder / "clean.jsonl"
            if not data.exists():
                reticent.scrub(files["train"], out=data, policy=POLICY)
        recipe = RECIPES[defence in (DP, BOTH)]
        reticent.train(data, model=model, out=out, epochs=asked.epochs, seed=asked.seed, **recipe)
    return out


def play(defence: str, candidates: int, folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """One audit of one model, and its perplexities on held-out text as it is and masked."""
    files = texts(folder, asked.seed)
    model = trained(defence, files, folder, asked)
    holdout = files["held out" if candidates <= 100 else "more"]
    began = time.process_time()
    audit = reticent.audit(
        model,
        train=files["train"],
        holdout=holdout,
        out=folder / f"audit-{defence.replace(' ', '-')}-{candidates}",
        **({} if defence == PUBLIC else {"base": public(asked)}),
        attacks="pii",
        policy=POLICY,
        records=asked.targets,
        candidates=candidates,
        texts=asked.texts,
        draws=asked.draws,
        seed=asked.seed,
        no_cache=True,
    )
    whole, outside = perplexities(model, files["held out"])
    found = {
        one.metric: {"value": one.value, "low": one.low, "high": one.high, "n": one.n, "null": one.null}
        for one in audit.findings
        if one.metric in COLUMNS.values()
    }
    return {
        "findings": found,
        "perplexity": whole,
        "outside": outside,
        "seconds": round(time.process_time() - began),
    }


def perplexities(model: Path, holdout: Path) -> tuple[float, float]:
    """Of held-out text: of all tokens, and of those outside what the policy finds there."""
    loaded = load_model(model if (model / "config.json").is_file() else model / "model")
    records = reticent.open_corpus(holdout).load()
    encoded = encode_texts(loaded, records)
    places, found = loaded.token_places(records.texts), policy_named(POLICY).find(records.texts)
    seen = evaluate(loaded.module, encoded, outside=outside_secrets(encoded, places, found))
    return seen.perplexity, seen.outside.perplexity


def main(arguments: list[str] | None = None) -> bool:
    """Play what is missing, then print a line for each defence and number of candidates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--defences", nargs="+", choices=DEFENCES, default=list(DEFENCES))
    parser.add_argument("--candidates", nargs="+", type=int, default=[100, 500])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default="stories15m")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--targets", type=int, default=200)
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--draws", type=int, default=16)
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    file = asked.results / GAMES
    played = {}
    if file.exists():
        lines = map(json.loads, file.read_text(encoding="utf8").splitlines())
        played = {(row["defence"], row["candidates"]): row["seen"] for row in lines if row["seed"] == asked.seed}
    wanted = [(defence, size) for size in asked.candidates for defence in asked.defences]
    end = time.monotonic() + 60 * asked.minutes
    for defence, size in wanted:
        if (defence, size) in played or time.monotonic() > end:
            continue
        seen = play(defence, size, asked.results / f"seed-{asked.seed}", asked)
        played[defence, size] = seen
        row = {"defence": defence, "candidates": size, "seed": asked.seed, "seen": seen}
        with file.open("a", encoding="utf8") as lines:
            lines.write(json.dumps(row) + "\n")
    show({key: played[key] for key in wanted if key in played})
    missing = [key for key in wanted if key not in played]
    print(f"{len(missing)} of {len(wanted)} games are missing." if missing else "All games were played.")
    return bool(missing)


def show(played: dict[tuple[str, int], dict[str, Any]]) -> None:
    """A table: shares with their 95 % intervals, and the chance of a guess beside inference."""
    print(f"{'|C|':>4} {'defence':<16}{'ppl':>8}{'outside':>9}" + "".join(f"  {name:<32}" for name in COLUMNS))
    for (defence, size), seen in played.items():
        cells = ""
        for metric in COLUMNS.values():
            one = seen["findings"].get(metric)
            shown = "–"
            if one is not None:
                shown = f"{one['value']:.3f} [{one['low']:.3f} … {one['high']:.3f}] n={one['n']}"
            cells += f"  {shown:<32}"
        print(f"{size:>4} {defence:<16}{seen['perplexity']:>8.2f}{seen['outside']:>9.2f}{cells}")


if __name__ == "__main__":
    sys.exit(main())
