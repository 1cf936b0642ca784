"""Which text canaries show most of a proved ε through the finished model alone?

Every design, as records, and the best one as owners of several records each. A corpus of generated dialogues is
planted by `plant --audit`, the embedded model is trained on it with DP-SGD at a target ε (all units in every step,
SGD), and `audit --canaries` guesses the coins from log-probabilities. Noted is the highest of its
bounds, which hold together at 95 %, and the perplexity of held-out text before and after training. Coins, noise and
canaries come from the system's generator; the seed draws the corpus.

    python -m bench.canary_designs --results FILE [--minutes 7] [--canaries 1500] [--seeds 3] [--designs new-token]
                                   [--copies 1] [--rule sgd]

Each run is a line of FILE. Runs that are there are not repeated, and none begins after so many minutes. The designs
after the first have one seed. Ends with 1 if the best design shows less than ε = 1.0 of a proved 4 in the mean.
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from reticent.auditing.attacks.one_run.coins import CoinAttack
from reticent.core.corpus import Corpus
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.randomness import Randomness
from reticent.data.canaries import CanaryOwner
from reticent.data.coin_canaries import DesignName
from reticent.data.generators import generate_dialogues
from reticent.data.reading.corpus_file import open_corpus
from reticent.data.writing import write_corpus
from reticent.models.huggingface.loading import load_model
from reticent.runs.audit.audit import audit
from reticent.runs.audit.settings import AuditSettings
from reticent.runs.corpus.plant import PlantSettings, plant
from reticent.runs.training.run import train
from reticent.runs.training.settings import DataSection, Method, ModelSection, TrainingSection, TrainSettings
from reticent.training.update_rules import Rule

RECORDS, HELD_OUT, LENGTH, STEPS, DELTA, EPSILON = 100, 100, 8, 2, 1e-5, 4.0
LEAST = 1.0
RATES = {Rule.SGD: 0.5, Rule.ADAMW: 2e-3}


def measured(folder: Path, design: DesignName, arguments: argparse.Namespace) -> tuple[list[Finding], float, float]:
    """The bounds of one run, and the perplexity of held-out text before and after it."""
    planted, key, grown = folder / "planted.jsonl", folder / "key.json", folder / "grown"
    length = 2 * LENGTH if design is DesignName.CORPUS_STYLE else LENGTH  # short ones are soon alike
    is_owned, is_new = arguments.copies > 1, design is DesignName.NEW_TOKEN
    done = plant(
        PlantSettings(
            file=folder / "train.jsonl",
            out=planted,
            key=key,
            audit=arguments.canaries,
            design=design,
            length=length,
            copies=arguments.copies,
            owner=CanaryOwner.CANARY if is_owned else CanaryOwner.COPY,
            grown_model=grown if is_new else None,
        )
    )
    base = str(grown) if is_new else "embedded"
    units = done.records if not is_owned else len({record.owner for record in open_corpus(planted).load()})
    train(
        TrainSettings(
            data=DataSection(file=str(planted), holdout=str(folder / "held-out.jsonl"), max_length=length),
            model=ModelSection(source=base),
            training=TrainingSection(
                method=Method.DP_SGD,
                unit=Unit.OWNER if is_owned else Unit.RECORD,
                texts_per_owner=arguments.copies if is_owned else None,
                epochs=float(STEPS),
                batch=units,
                optimiser=arguments.rule,
                learning_rate=RATES[arguments.rule],
                target_epsilon=EPSILON,
                delta=DELTA,
            ),
            out=folder / "run",
        )
    )
    found = audit(
        AuditSettings(
            model=str(folder / "run"),
            train=planted,
            holdout=folder / "held-out.jsonl",
            canaries=key,
            attacks=CoinAttack.name,
            no_cache=True,
            out=folder / "audit",
        )
    ).findings
    start, model = load_model(base), load_model(folder / "run" / "model")
    held_out = open_corpus(folder / "held-out.jsonl").load()
    rows = [row[:length] for row in start.encode(held_out.texts)]
    before = float(np.exp(-np.mean(np.concatenate(start.token_log_probs(rows)))))
    after = float(np.exp(-np.mean(np.concatenate(model.token_log_probs(rows)))))
    return [one for one in found if one.metric.startswith("epsilon")], before, after


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a design and what it found."""

    design: str
    copies: int
    canaries: int
    rule: str
    seed: int
    epsilon: float
    by: str
    before: float
    after: float

    @property
    def group(self) -> tuple[str, int, int, str]:
        """What runs of several seeds have in common."""
        return self.design, self.copies, self.canaries, self.rule


def run_of(design: DesignName, seed: int, asked: argparse.Namespace) -> Run:
    """Plant, train and audit once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        records = list(generate_dialogues(RECORDS + HELD_OUT, randomness=Randomness.seeded(seed)))
        write_corpus(Corpus(records[:RECORDS]), folder / "train.jsonl")
        write_corpus(Corpus(records[RECORDS:]), folder / "held-out.jsonl")
        found, before, after = measured(folder, design, asked)
    by = max(found, key=lambda one: one.low)
    rule = asked.rule.value
    return Run(design.value, asked.copies, asked.canaries, rule, seed, by.low, by.attack, before, after)


def read(path: Path) -> list[Run]:
    """The runs of a file of results."""
    lines = path.read_text(encoding="utf8").splitlines() if path.is_file() else []
    return [Run(**json.loads(line)) for line in lines]


def show(runs: list[Run]) -> float:
    """Print a line for each design; the highest mean."""
    means = {}
    for group in dict.fromkeys(run.group for run in runs):
        mine = [run for run in runs if run.group == group]
        found = [run.epsilon for run in mine]
        design, copies, canaries, rule = group
        means[group] = float(np.mean(found))
        before, after = np.mean([run.before for run in mine]), np.mean([run.after for run in mine])
        print(
            f"{design}, {'records' if copies == 1 else f'owners of {copies}'}, {canaries} canaries, {rule}, "
            f"{len(mine)} seeds: ε at least {means[group]:.2f} ({min(found):.2f} to {max(found):.2f}) of a proved "
            f"{EPSILON:g}; perplexity {before:.1f} → {after:.1f}"
        )
    return max(means.values(), default=0.0)


def main() -> int:
    """Run what is missing while there is time and print the table; 1 where the limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=7.0)
    parser.add_argument("--canaries", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--rule", type=Rule, default=Rule.SGD)
    parser.add_argument("--designs", type=DesignName, nargs="+", default=sorted(DesignName, key=_best_first))
    asked = parser.parse_args()
    until = time.monotonic() + 60.0 * asked.minutes
    for place, design in enumerate(asked.designs):
        group = (design.value, asked.copies, asked.canaries, asked.rule.value)
        for seed in range(asked.seeds if place == 0 else 1):
            is_there = any(run.group == group and run.seed == seed for run in read(asked.results))
            if is_there or time.monotonic() > until:
                continue
            run = run_of(design, seed, asked)
            with asked.results.open("a", encoding="utf8") as file:
                file.write(json.dumps(asdict(run)) + "\n")
            print(run, flush=True)
    return int(show(read(asked.results)) < LEAST)


def _best_first(design: DesignName) -> bool:
    return design is not DesignName.NEW_TOKEN


if __name__ == "__main__":
    sys.exit(main())
