"""What private training is worth: held-out loss with the old defaults, with today's, and without each ingredient.

    python -m bench utility
    python bench/utility.py [--text customersim|newsgroups|generated ...] [--records N] [--length N]
                            [--epsilon E ...] [--seeds N] [--only NAME ...]

Texts are cut to `--length` tokens, held-out ones too. A row is the mean over seeds of the loss, in nats a token, on
the same held-out texts; a seed draws samples and noise. **Excess** is the loss above the undefended model of the
same text. "of old" is the row's excess as a share of that of the old defaults with the same seed, with an interval
at 95 % over seeds (Student's t). The undefended model is the better of one and four epochs of plain training. "Old
defaults, same compute" takes as many epochs as the choice: the old defaults took a quarter of them.

CustomerSim and newsgroups are looked for in `data/` of RETICENT_SHARED, or of the folder `shared` beside the
checkout. The constants of `training.plans.choice` were first tried on 300 dialogues of CustomerSim with one seed;
newsgroups had no part in choosing them.
"""

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from reticent.core.corpus import Corpus, Record  # noqa: E402
from reticent.core.ledger import Budget  # noqa: E402
from reticent.core.randomness import Randomness  # noqa: E402
from reticent.data.generators import generate_dialogues  # noqa: E402
from reticent.ledger.durable import SqliteLedger  # noqa: E402
from reticent.training.batches import TokenTexts, Units, encode_texts  # noqa: E402
from reticent.training.checkpoint import Checkpoints  # noqa: E402
from reticent.training.evaluation import evaluate  # noqa: E402
from reticent.training.gradients.source import (  # noqa: E402
    ACCOUNT,
    Computation,
    GradientSource,
    PlainGradients,
    PrivateGradients,
)
from reticent.training.loop import Schedule, train  # noqa: E402
from reticent.training.optimiser import Learner, OptimiserSettings  # noqa: E402
from reticent.training.plans.choice import choose  # noqa: E402
from reticent.training.plans.plan import DpSgd, PlainPlan  # noqa: E402
from reticent.training.plans.sampler import SamplerName  # noqa: E402
from reticent.training.starting_model import Start, starting_model  # noqa: E402
from reticent.training.update_rules import Rule  # noqa: E402

HELD_OUT = 100
COMPUTATION = Computation(token_budget=4096)
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}  # two-sided 95 % quantile, by number of seeds
OLD = "old defaults"
CHOICE = "planner's choice"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a private run goes about its steps."""

    batch: int = 32
    epochs: float = 1.0
    learning_rate: float = 1e-3
    average_tail: float = 0.0
    sampler: SamplerName = SamplerName.POISSON
    bands: int | None = None
    clip_norm: float = 1.0
    rule: Rule = Rule.ADAMW

    @property
    def settings(self) -> OptimiserSettings:
        """Of the optimiser."""
        return OptimiserSettings(rule=self.rule, learning_rate=self.learning_rate, tail=self.average_tail)


@dataclass(frozen=True, slots=True)
class Text:
    """Encoded text of one corpus, to train on and to measure on."""

    train: TokenTexts
    held_out: TokenTexts


def recipes(units: int, parameters: int) -> dict[str, Recipe]:
    """The rows of the table: the choice, then the choice with one ingredient as it was."""
    old = Recipe()
    today = Recipe(**asdict(choose(units, parameters=parameters)))
    best = replace(today, sampler=SamplerName.ALLOCATION)
    return {
        OLD: old,
        "old defaults, same compute": replace(old, epochs=best.epochs),
        CHOICE: best,
        "  Poisson samples (defaults of train)": today,
        "  correlated noise": replace(best, sampler=SamplerName.BANDED, bands=max(1, min(4, units // best.batch))),
        "  old batch": replace(best, batch=old.batch),
        "  old epochs": replace(best, epochs=old.epochs),
        "  old learning rate": replace(best, learning_rate=old.learning_rate),
        "  no averaging": replace(best, average_tail=0.0),
        "  twice the epochs": replace(best, epochs=2 * best.epochs),
        "  twice the learning rate": replace(best, learning_rate=2 * best.learning_rate),
        "  twice the batch": replace(best, batch=min(units, 2 * best.batch)),
        "  clip norm 0.1": replace(best, clip_norm=0.1),
        "  corrected Adam": replace(best, rule=Rule.CORRECTED_ADAM),
    }


def corpora(name: str, count: int) -> tuple[list[str], list[str]]:
    """Texts to train on and held-out ones."""
    if name == "generated":
        made = generate_dialogues(count + HELD_OUT, randomness=Randomness.seeded(4))
        texts = [record.text for record in made]
        return texts[:count], texts[count:]
    shared = Path(os.environ.get("RETICENT_SHARED", ROOT.parent / "shared")) / "data"
    files = ("customersim.train", "customersim.valid") if name == "customersim" else ("newsgroups", "newsgroups")
    both = []
    for file in files:
        path = shared / f"{file}.jsonl"
        if not path.is_file():
            raise SystemExit(f"there is no {path}: set RETICENT_SHARED, or use --text generated")
        rows = [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]
        both.append([row["text"] for row in rows if "canary" not in row["id"]])
    return both[0][:count], both[1][-HELD_OUT:]


def encoded(name: str, *, records: int, length: int) -> Text:
    """The texts of a corpus as tokens of the embedded model."""
    model = starting_model(Start(source="embedded", device="cpu"), seed=0)
    parts = []
    for texts in corpora(name, records):
        corpus = Corpus(Record(str(number), text) for number, text in enumerate(texts))
        parts.append(encode_texts(model, corpus, max_length=length))
    return Text(*parts)


def plain_loss(text: Text, epochs: float, seed: int) -> float:
    """Held-out loss without any protection."""
    plan = PlainPlan(units=len(text.train), batch=16, epochs=epochs, seed=seed)
    model = starting_model(Start(source="embedded", device="cpu"), seed=seed)
    source = PlainGradients(model.module, Units(text.train), plan, computation=COMPUTATION)
    with tempfile.TemporaryDirectory() as folder:
        return _trained(model.module, source, text, OptimiserSettings(), folder=Path(folder), seed=seed)


def private_loss(text: Text, recipe: Recipe, plan: DpSgd, *, budget: Budget, seed: int) -> float:
    """Held-out loss of one private run."""
    model = starting_model(Start(source="embedded", device="cpu"), seed=seed)
    settings = replace(recipe.settings, noise_variance=plan.gradient_noise**2)
    with tempfile.TemporaryDirectory() as folder:
        ledger = SqliteLedger.create(Path(folder) / "ledger.db", budget, accounts=[ACCOUNT])
        source = PrivateGradients(
            model.module,
            Units(text.train),
            plan,
            ledger=ledger,
            randomness=Randomness.seeded(seed),
            computation=COMPUTATION,
        )
        return _trained(model.module, source, text, settings, folder=Path(folder), seed=seed)


def _trained(
    module: torch.nn.Module,
    source: GradientSource,
    text: Text,
    settings: OptimiserSettings,
    *,
    folder: Path,
    seed: int,
) -> float:
    learner = Learner(module, settings)
    train(learner, source, checkpoints=Checkpoints(folder / "c"), schedule=Schedule(seconds=1e9), seed=seed)
    return math.log(evaluate(module, text.held_out).perplexity)


def interval(values: Sequence[float]) -> str:
    """A mean with its interval at 95 % over seeds."""
    mean = statistics.fmean(values)
    if len(values) not in STUDENT:
        return f"{mean:.0%}"
    half = STUDENT[len(values)] * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:.0%} ± {half:.0%}"


def table(name: str, asked: argparse.Namespace) -> None:
    """Every row of one text, at every ε."""
    text = encoded(name, records=asked.records, length=asked.length)
    units, seeds = len(text.train), range(asked.seeds)
    model = starting_model(Start(source="embedded", device="cpu"), seed=0)
    untrained = math.log(evaluate(model.module, text.held_out).perplexity)
    floor = min(statistics.fmean(plain_loss(text, epochs, seed) for seed in seeds) for epochs in (1.0, 4.0))
    print(f"\n{name}: {units} records of up to {asked.length} tokens, {asked.seeds} seeds; ", end="")
    print(f"public model {untrained:.3f}, undefended {floor:.3f}", flush=True)
    rows = recipes(units, sum(weight.numel() for weight in model.module.parameters()))
    for epsilon in asked.epsilon:
        old: list[float] = []
        print(f"ε = {epsilon:g}, δ = {asked.delta:g}{'':<28}noise  steps    loss  excess   of old")
        for row, recipe in rows.items():
            if asked.only and row.strip() not in asked.only and row != OLD:
                continue
            plan = DpSgd.for_target(
                epsilon=epsilon,
                delta=asked.delta,
                units=units,
                batch=min(recipe.batch, units),
                epochs=recipe.epochs,
                sampler=recipe.sampler,
                bands=recipe.bands,
                clip_norm=recipe.clip_norm,
            )
            budget = plan.budget(is_seeded=True)
            losses = [private_loss(text, recipe, plan, budget=budget, seed=seed) for seed in seeds]
            excess = [loss - floor for loss in losses]
            old = old or excess
            shares = [one / other for one, other in zip(excess, old, strict=True)]
            print(
                f"{row:<44}{plan.noise_multiplier:>6.3f}{plan.steps:>6}{statistics.fmean(losses):>9.3f}"
                f"{statistics.fmean(excess):>8.3f}   {interval(shares)}",
                flush=True,
            )


def main(arguments: Sequence[str] = ()) -> None:
    """Print a table for each text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", nargs="+", default=["customersim", "newsgroups"])
    parser.add_argument("--records", type=int, default=300)
    parser.add_argument("--length", type=int, default=48)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[2.0, 8.0])
    parser.add_argument("--delta", type=float, default=1e-4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[])
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for name in asked.text:
        table(name, asked)


if __name__ == "__main__":
    main(sys.argv[1:])
