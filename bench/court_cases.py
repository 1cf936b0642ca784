"""The games about personal data on real court cases: a small story model, four defences, the built-in policy.

    python -m bench.court_cases --results FOLDER [--minutes N] [--defences NAME ...] [--candidates N ...] [--seed N]
                                [--model FOLDER] [--epochs N] [--rates PLAIN PRIVATE]

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
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

import reticent  # noqa: E402
from bench.kept import Kept  # noqa: E402
from bench.labelled_text import shared_folder  # noqa: E402
from reticent.models.huggingface.loading import load_model  # noqa: E402
from reticent.runs.policies.by_name import policy_named  # noqa: E402
from reticent.training.batches import encode_texts  # noqa: E402
from reticent.training.evaluation import evaluate_model, outside_secrets  # noqa: E402

CASES = 60  # to train on, of 113
POLICY, SHORTEST = "union", 24
EPSILON, DELTA = 8.0, 1e-5
PUBLIC, PLAIN, DP, SCRUBBED, BOTH = "not trained", "none", "DP", "scrubbed", "DP and scrubbed"
DEFENCES = (PUBLIC, PLAIN, SCRUBBED, DP, BOTH)
PRIVATE = (DP, BOTH)
RECIPES: dict[bool, dict[str, Any]] = {  # by whether training is private
    False: {"method": "sgd", "batch": 8},
    True: {"method": "dp-sgd", "batch": 64, "target_epsilon": EPSILON, "delta": DELTA},
}
RATES = (1e-3, 2e-3)  # of stories15m, plain and private; a larger model wants less
COLUMNS = {
    "precision": "pii_precision",
    "recall": "pii_recall",
    "TAB": "reconstruction_tab",
    "top-1": "reconstruction_top1",
    "gain": "reconstruction_gain",
    "inference": "inference_accuracy",
}
GAMES = "games.jsonl"


@dataclass(frozen=True, slots=True)
class Game:
    """One model, and how it is attacked."""

    defence: str
    candidates: int
    seed: int
    model: str
    epochs: int
    rate: float
    targets: int
    texts: int
    draws: int

    @property
    def start(self) -> Path:
        """The model that training starts from."""
        return Path(self.model) if Path(self.model).is_dir() else shared_folder() / "models" / self.model


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


def trained(game: Game, files: dict[str, Path], folder: Path) -> Path:
    """The model of a defence; made once."""
    out = folder / game.defence.replace(" ", "-")
    if game.defence == PUBLIC:
        return game.start
    if not (out / "model" / "config.json").is_file():
        data = files["train"]
        if game.defence in (SCRUBBED, BOTH):
            data = folder / "clean.jsonl"
            if not data.exists():
                reticent.scrub(files["train"], out=data, policy=POLICY)
        reticent.train(
            data,
            model=game.start,
            out=out,
            epochs=game.epochs,
            seed=game.seed,
            learning_rate=game.rate,
            **RECIPES[game.defence in PRIVATE],
        )
    return out


def play(game: Game, results: Path) -> dict[str, Any]:
    """One audit of one model, and its perplexities on held-out text as it is and masked."""
    folder = results / f"{Path(game.model).name}-{game.epochs}-seed-{game.seed}"
    files = texts(folder, game.seed)
    model = trained(game, files, folder)
    holdout = files["held out" if game.candidates <= 100 else "more"]
    audit = reticent.audit(
        model,
        train=files["train"],
        holdout=holdout,
        out=folder / f"audit-{game.defence.replace(' ', '-')}-{game.candidates}",
        **({} if game.defence == PUBLIC else {"base": game.start}),
        attacks="pii",
        policy=POLICY,
        records=game.targets,
        candidates=game.candidates,
        texts=game.texts,
        draws=game.draws,
        seed=game.seed,
        no_cache=True,
    )
    whole, outside = perplexities(model, files["held out"])
    found = {
        one.metric: {"value": one.value, "low": one.low, "high": one.high, "n": one.n, "null": one.null}
        for one in audit.findings
        if one.metric in COLUMNS.values()
    }
    return {"findings": found, "perplexity": whole, "outside": outside}


def perplexities(model: Path, holdout: Path) -> tuple[float, float]:
    """Of held-out text: of all tokens, and of those outside what the policy finds there."""
    loaded = load_model(model if (model / "config.json").is_file() else model / "model")
    records = reticent.open_corpus(holdout).load()
    encoded = encode_texts(loaded, records)
    places, found = loaded.token_places(records.texts), policy_named(POLICY).find(records.texts)
    seen = evaluate_model(loaded.module, encoded, outside=outside_secrets(encoded, places, found))
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
    parser.add_argument("--rates", nargs=2, type=float, default=RATES, metavar=("PLAIN", "PRIVATE"))
    parser.add_argument("--targets", type=int, default=200)
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--draws", type=int, default=16)
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    kept: Kept[Game, dict[str, Any]] = Kept(asked.results / GAMES, asked.minutes, Game)
    how = (asked.targets, asked.texts, asked.draws)
    wanted = [
        Game(defence, size, asked.seed, asked.model, asked.epochs, asked.rates[defence in PRIVATE], *how)
        for size in asked.candidates
        for defence in asked.defences
    ]
    for game in wanted:
        kept.ensure(game, partial(play, game, asked.results))
    played = kept.of(wanted)
    show(played)
    return len(played) < len(wanted)


def show(played: dict[Game, dict[str, Any]]) -> None:
    """A table: shares with their 95 % intervals, and the chance of a guess beside inference."""
    print(f"{'|C|':>4} {'defence':<16}{'ppl':>8}{'outside':>9}" + "".join(f"  {name:<32}" for name in COLUMNS))
    for game, seen in played.items():
        cells = ""
        for metric in COLUMNS.values():
            one = seen["findings"].get(metric)
            shown = "–"
            if one is not None:
                shown = f"{one['value']:.3f} [{one['low']:.3f} … {one['high']:.3f}] n={one['n']}"
            cells += f"  {shown:<32}"
        print(f"{game.candidates:>4} {game.defence:<16}{seen['perplexity']:>8.2f}{seen['outside']:>9.2f}{cells}")


if __name__ == "__main__":
    sys.exit(main())
