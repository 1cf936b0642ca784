"""Which text canaries show most of a proved ε through the finished model alone?

Every design, as records or with --copies as owners. A corpus of generated dialogues is planted by `plant --audit`,
the embedded model is trained on it with DP-SGD at a target ε (all records in every step, SGD), and the attack of
`audit --canaries` guesses the coins from log-probabilities. Printed is the highest of its bounds, which hold
together at 95 %. Coins, noise and canaries come from the system's generator; the seed draws the corpus.

Ends with 1 if the best design shows less than ε = 1.0 of a proved 4 in the mean.

    python -m bench.canary_designs [--canaries 2000] [--seeds 3] [--designs new-token] [--copies 1] [--rule sgd]
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from reticent.auditing.attacks.one_run.coins import CoinAttack
from reticent.auditing.settings import AuditSettings
from reticent.auditing.subject import make_subject
from reticent.core.corpus import Corpus
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.randomness import Randomness
from reticent.data.canaries import CanaryOwner
from reticent.data.coin_canaries import DesignName, read_coins
from reticent.data.generators import generate_dialogues
from reticent.data.reading.corpus_file import open_corpus
from reticent.data.writing import write_corpus
from reticent.models.huggingface.loading import load_model
from reticent.runs.audit.subject import find_model
from reticent.runs.corpus.plant import PlantSettings, plant
from reticent.runs.training.run import train
from reticent.runs.training.settings import DataSection, Method, ModelSection, TrainingSection, TrainSettings
from reticent.training.update_rules import Rule

RECORDS, HELD_OUT, LENGTH, STEPS, DELTA, EPSILON = 400, 100, 8, 5, 1e-5, 4.0
LEAST = 1.0
RATES = {Rule.SGD: 0.5, Rule.ADAMW: 2e-3}


def measured(folder: Path, design: DesignName, arguments: argparse.Namespace) -> tuple[list[Finding], float, float]:
    """The bounds of one run, and the perplexity of held-out text before and after it."""
    planted, key, grown = folder / "planted.jsonl", folder / "key.json", folder / "grown"
    is_owned, is_new = arguments.copies > 1, design is DesignName.NEW_TOKEN
    done = plant(
        PlantSettings(
            file=folder / "train.jsonl",
            out=planted,
            key=key,
            audit=arguments.canaries,
            design=design,
            length=LENGTH,
            copies=arguments.copies,
            owner=CanaryOwner.CANARY if is_owned else CanaryOwner.COPY,
            grown_model=grown if is_new else None,
        )
    )
    base = str(grown) if is_new else "embedded"
    units = done.records if not is_owned else len({record.owner for record in open_corpus(planted).load()})
    train(
        TrainSettings(
            data=DataSection(file=str(planted), holdout=str(folder / "held-out.jsonl"), max_length=LENGTH),
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
    start, model = load_model(base), load_model(folder / "run" / "model")
    held_out = open_corpus(folder / "held-out.jsonl").load()
    subject = make_subject(
        model,
        start,
        training=open_corpus(planted).load(),
        held_out=held_out,
        coins=read_coins(key),
        place=find_model(str(folder / "run")),
    )
    settings = AuditSettings(seed=0, shares=1)
    found = CoinAttack().run(subject, settings, sizes=settings.sizes).findings
    rows = [row[:LENGTH] for row in start.encode(held_out.texts)]
    before = float(np.exp(-np.mean(np.concatenate(start.token_log_probs(rows)))))
    after = float(np.exp(-np.mean(np.concatenate(model.token_log_probs(rows)))))
    return [one for one in found if one.metric.startswith("epsilon")], before, after


def main() -> int:
    """Print a line a run and the mean of each design; 1 where a limit is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--canaries", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--rule", type=Rule, default=Rule.SGD)
    parser.add_argument("--designs", type=DesignName, nargs="+", default=list(DesignName))
    arguments = parser.parse_args()
    means = {}
    for design in arguments.designs:
        best = []
        for seed in range(arguments.seeds):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                records = list(generate_dialogues(RECORDS + HELD_OUT, randomness=Randomness.seeded(seed)))
                write_corpus(Corpus(records[:RECORDS]), folder / "train.jsonl")
                write_corpus(Corpus(records[RECORDS:]), folder / "held-out.jsonl")
                found, before, after = measured(folder, design, arguments)
            by = max(found, key=lambda one: one.low or 0.0)
            best.append(by.low or 0.0)
            print(
                f"{design.value} × {arguments.copies}, seed {seed}: ε at least {best[-1]:.2f} by {by.attack}; "
                f"perplexity {before:.2f} → {after:.2f}",
                flush=True,
            )
        means[design.value] = float(np.mean(best))
        print(f"{design.value} × {arguments.copies}: mean {means[design.value]:.2f} of a proved {EPSILON:g}")
    return int(max(means.values()) < LEAST)


if __name__ == "__main__":
    sys.exit(main())
