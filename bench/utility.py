"""What private training is worth: held-out loss with the old defaults, with today's, and without each ingredient.

    python -m bench utility
    python bench/utility.py [--text customersim|newsgroups|generated ...] [--model embedded|lora|full ...]
                            [--records N] [--length N] [--per-owner K] [--epsilon E ...] [--seeds N]
                            [--only NAME ...] [--results FILE] [--minutes M]

A **cell** is one training run: a recipe for one text, model, ε and seed. What was measured stands in the file of
--results, one line a cell, and is not measured again: what is known is kept with the documentation
(`docs/results/utility.jsonl`; after a change of what training computes, begin another file). After --minutes M no
further cell is begun, and the same command, given again, goes on; --minutes 0 prints what there is. The most
telling rows come first.

Texts are cut to `--length` tokens, held-out ones too. A row is the mean over seeds of the loss, in nats a
token, on the same held-out texts; a seed draws samples and noise. **Excess** is the loss above the undefended
model of the same text. "of old" is the row's excess as a share of that of the old defaults with the same seed,
with an interval at 95 % over seeds (Student's t). The undefended model is the best of 1, 4 and 12 epochs of
plain training, at the rates of `PLAIN_RATES` (adapters need a higher one, 15 million weights a lower one;
adapters with and without one of the output layer), or that one with a learned temperature, by the first seed;
it is measured with every seed. "Old defaults, same compute" takes as many epochs as the choice, of which the
old defaults took one. "Tuned" is DP-SGD with Poisson samples instead of random allocation and without a
temperature or an adapter of the output layer, the best of six batches and rates by the very held-out loss that
is printed, which favours it; it takes the passes that the choice takes for a small ε, and in two more rows
those of the choice itself. All are measured with the first seed, the best of each with every seed. Its tuning
is not priced there. In "tuned, price of tuning included" the best of those six has the noise that the best of
six runs on average needs for the target (`train --tune 6`); in "output layer adapted" it has an adapter there,
as the choice has. "Public text first" is the choice after one epoch of WikiText-2 (the beginnings of 1,500
paragraphs), trained on plainly: `--public-text`. "Undefended, public text first" is plain training after the
same epoch, beside which that row should be seen.

With --per-owner K, K texts in a row belong to an owner, whom private training protects: an owner's texts are
clipped together.

CustomerSim and newsgroups are looked for in `data/` of RETICENT_SHARED, or of the folder `shared` beside the
checkout, and stories15m (`lora`: rank 8; `full`) in `models/`. The constants of `training.plans.choice` were chosen
on these texts with seeds 10 and 11; the table has others.
"""

import argparse
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from bench.kept import Kept  # noqa: E402
from bench.labelled_text import shared_folder  # noqa: E402
from reticent.core.corpus import Corpus, Record  # noqa: E402
from reticent.core.guarantee import Unit  # noqa: E402
from reticent.core.randomness import Randomness  # noqa: E402
from reticent.data.generators import generate_dialogues  # noqa: E402
from reticent.ledger.durable import SqliteLedger  # noqa: E402
from reticent.training.batches import TokenTexts, Units, encode_texts  # noqa: E402
from reticent.training.checkpoint import Checkpoints  # noqa: E402
from reticent.training.evaluation import evaluate_model  # noqa: E402
from reticent.training.gradients.source import (  # noqa: E402
    TRAINING_ACCOUNT,
    Computation,
    GradientSource,
    PlainGradients,
    PrivateGradients,
)
from reticent.training.loop import CheckpointSchedule, train_learner  # noqa: E402
from reticent.training.methods.public_first import PublicFirstGradients  # noqa: E402
from reticent.training.optimiser import Learner, OptimiserSettings  # noqa: E402
from reticent.training.plans.choice import ModelSize, choose  # noqa: E402
from reticent.training.plans.plan import DpSgd, PlainPlan  # noqa: E402
from reticent.training.plans.sampler import SamplerName  # noqa: E402
from reticent.training.starting_model import ModelStart, load_for_training  # noqa: E402
from reticent.training.update_rules import Rule  # noqa: E402

HELD_OUT = 100
COMPUTATION = Computation(token_budget=4096)
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}  # two-sided 95 % quantile, by number of seeds
OLD = "old defaults"
CHOICE = "planner's choice"
TUNED = "tuned DP-SGD"
SAME_PASSES = f"{TUNED}, same passes as the choice"
FAMILIES = {TUNED: f"{TUNED}, batch ", SAME_PASSES: f"{SAME_PASSES}, "}  # rows that are named together
PRICED = f"{TUNED}, price of tuning included"
WITH_HEAD = f"{TUNED}, output layer adapted"
TRIALS = 6  # settings that tuning tries
PUBLIC_FIRST = "public text first"
_AFTER_PUBLIC = "public text, then "
PLAIN_EPOCHS = (1.0, 4.0, 12.0)  # of training without protection
PLAIN_RATES = {"embedded": (1e-3,), "lora": (1e-3, 3e-3), "full": (3e-4,)}
KNOWN = ROOT / "docs" / "results" / "utility.jsonl"
PUBLIC_TEXTS, PUBLIC_BATCH, SHORTEST = 1500, 16, 120  # public texts of at least so many characters


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
    clip_quantile: float | None = None
    rule: Rule = Rule.ADAMW
    learns_temperature: bool = False
    adapts_head: bool = False
    reads_public: bool = False
    trials: float = 1.0  # runs of which this is the best, on average

    def __str__(self) -> str:
        """What is other than the old defaults."""
        old = asdict(Recipe())
        return " ".join(f"{name}={value}" for name, value in asdict(self).items() if value != old[name]) or OLD

    @property
    def settings(self) -> OptimiserSettings:
        """Of the optimiser."""
        return OptimiserSettings(rule=self.rule, learning_rate=self.learning_rate, tail=self.average_tail)


@dataclass(frozen=True, slots=True)
class Text:
    """Encoded text of one corpus, to train on and to measure on."""

    train: TokenTexts
    held_out: TokenTexts
    public: TokenTexts | None = None


def recipes(units: int, size: ModelSize, epsilon: float) -> dict[str, Recipe]:
    """The rows of the table: the choice, then the choice with one ingredient as it was."""
    old = Recipe()
    choose_for = partial(choose, units, size=size)
    today = Recipe(**asdict(choose_for(epsilon=epsilon)), learns_temperature=True, adapts_head=size.trains_adapters)
    best = replace(today, sampler=SamplerName.ALLOCATION)
    short = choose_for()  # with the passes of a small ε
    rates = (today.learning_rate, 2 * today.learning_rate)
    tuned = {
        f"{TUNED}, batch {batch}, rate {rate:g}": replace(
            old, epochs=short.epochs, batch=min(batch, units), learning_rate=rate
        )
        for batch in (short.batch, 2 * short.batch, 4 * short.batch)
        for rate in rates
    }
    more = {}
    if best.epochs > short.epochs:
        more = {"  passes of a small ε": replace(best, batch=short.batch, epochs=short.epochs)}
        more |= {
            f"{SAME_PASSES}, rate {rate:g}": replace(old, epochs=best.epochs, batch=best.batch, learning_rate=rate)
            for rate in rates
        }
    return {
        OLD: old,
        CHOICE: best,
        PUBLIC_FIRST: replace(best, reads_public=True),
        "old defaults, same compute": replace(old, epochs=best.epochs),
        **tuned,
        **more,
        **({"  frozen output layer": replace(best, adapts_head=False)} if size.trains_adapters else {}),
        "  fixed temperature": replace(best, learns_temperature=False),
        "  Poisson samples (defaults of train)": today,
        "  correlated noise": replace(best, sampler=SamplerName.BANDED, bands=max(1, min(4, units // best.batch))),
        "  four times the batch": replace(best, batch=min(units, 4 * best.batch)),
        "  a third of the epochs": replace(best, epochs=best.epochs / 3, batch=max(1, best.batch // 3)),
        "  old learning rate": replace(best, learning_rate=old.learning_rate),
        "  average of the last half": replace(best, average_tail=0.5),
        "  twice the epochs": replace(best, epochs=2 * best.epochs),
        "  twice the learning rate": replace(best, learning_rate=2 * best.learning_rate),
        "  clip norm 0.1": replace(best, clip_norm=0.1),
        "  clip norm by a private quantile": replace(best, clip_quantile=0.5),
        "  corrected Adam": replace(best, rule=Rule.CORRECTED_ADAM),
    }


def start_of(model: str, *, learns_temperature: bool = False, adapts_head: bool = False) -> ModelStart:
    """What training starts from."""
    stories = shared_folder() / "models" / "stories15m"
    return ModelStart(
        source="embedded" if model == "embedded" else str(stories),
        lora_rank=8 if model == "lora" else 0,
        lora_head=adapts_head,
        learns_temperature=learns_temperature,
        device="cpu",
    )


def corpora(name: str, count: int) -> tuple[list[str], list[str]]:
    """Texts to train on and held-out ones."""
    if name == "generated":
        made = generate_dialogues(count + HELD_OUT, randomness=Randomness.seeded(4))
        texts = [record.text for record in made]
        return texts[:count], texts[count:]
    files = ("customersim.train", "customersim.valid") if name == "customersim" else ("newsgroups", "newsgroups")
    both = []
    for file in files:
        path = shared_folder() / "data" / f"{file}.jsonl"
        if not path.is_file():
            raise SystemExit(f"there is no {path}: set RETICENT_SHARED, or use --text generated")
        rows = [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]
        both.append([row["text"] for row in rows if "canary" not in row["id"]])
    return both[0][:count], both[1][-HELD_OUT:]


def encoded(name: str, start: ModelStart, *, records: int, length: int, per_owner: int) -> Text:
    """The texts of a corpus as tokens of the model; `per_owner` in a row belong to an owner."""
    model = load_for_training(start, seed=0)
    parts = []
    for texts in corpora(name, records):
        corpus = Corpus(
            Record(str(number), text, owner=f"owner-{number // per_owner}") for number, text in enumerate(texts)
        )
        parts.append(encode_texts(model, corpus, max_length=length))
    public = Corpus(Record(str(number), line) for number, line in enumerate(public_lines()))
    return Text(*parts, encode_texts(model, public, max_length=length) if len(public) else None)


def public_lines() -> list[str]:
    """The first paragraphs of WikiText-2; none where it is not there."""
    path = shared_folder() / "data" / "wikitext-2.valid.txt"
    lines = path.read_text(encoding="utf8").splitlines() if path.is_file() else []
    found = [line.strip() for line in lines if not line.strip().startswith("=")]
    return [line for line in found if len(line) > SHORTEST][:PUBLIC_TEXTS]


def public_plan(text: Text, seed: int) -> PlainPlan:
    """One epoch of the public text."""
    if text.public is None:
        raise SystemExit("there is no WikiText-2: set RETICENT_SHARED, or name other rows with --only")
    return PlainPlan(units=len(text.public), batch=PUBLIC_BATCH, epochs=1.0, seed=seed)


@dataclass(frozen=True, slots=True)
class Plain:
    """Training without any protection."""

    epochs: float
    learning_rate: float
    learns_temperature: bool = False
    adapts_head: bool = False

    def __str__(self) -> str:
        rate = OptimiserSettings().learning_rate
        other = f", rate {self.learning_rate:g}" if self.learning_rate != rate else ""
        other += ", learned temperature" if self.learns_temperature else ""
        return f"plain {self.epochs:g}{other}" + (", adapted output layer" if self.adapts_head else "")


def undefended(model: str) -> list[Plain]:
    """The undefended model is the best of these; the best of them is also tried with a learned temperature."""
    heads = (False, True) if model == "lora" else (False,)
    return [
        Plain(epochs, rate, adapts_head=head)
        for head in heads
        for rate in PLAIN_RATES[model]
        for epochs in PLAIN_EPOCHS
    ]


def plain_loss(text: Text, start: ModelStart, how: Plain, seed: int, *, reads_public: bool = False) -> float:
    """Held-out loss without any protection."""
    plan = PlainPlan(units=len(text.train), batch=16, epochs=how.epochs, seed=seed)
    settings = OptimiserSettings(learning_rate=how.learning_rate)
    start = replace(start, learns_temperature=how.learns_temperature, lora_head=how.adapts_head)
    model = load_for_training(start, seed=seed)
    if reads_public and text.public is not None:
        public = public_plan(text, seed)
        first = PlainGradients(model.module, Units(text.public), public, computation=COMPUTATION)
        with tempfile.TemporaryDirectory() as folder:
            _trained(model.module, first, text, OptimiserSettings(), folder=Path(folder), seed=seed)
    source = PlainGradients(model.module, Units(text.train), plan, computation=COMPUTATION)
    with tempfile.TemporaryDirectory() as folder:
        return _trained(model.module, source, text, settings, folder=Path(folder), seed=seed)


def private_loss(text: Text, start: ModelStart, recipe: Recipe, plan: DpSgd, *, seed: int) -> float:
    """Held-out loss of one private run."""
    model = load_for_training(start, seed=seed)
    settings = replace(recipe.settings, noise_variance=plan.gradient_noise**2)
    with tempfile.TemporaryDirectory() as folder:
        budget = plan.budget(is_seeded=True)
        ledger = SqliteLedger.create(Path(folder) / "ledger.db", budget, accounts=[TRAINING_ACCOUNT])
        source: GradientSource
        source = noisy = PrivateGradients(
            model.module,
            Units(text.train, plan.unit, texts_per_unit=plan.texts_per_unit),
            plan,
            ledger=ledger,
            randomness=Randomness.seeded(seed),
            computation=COMPUTATION,
        )
        if recipe.reads_public:
            assert text.public is not None
            first = public_plan(text, seed)
            plain = PlainGradients(model.module, Units(text.public), first, computation=COMPUTATION)
            source = PublicFirstGradients(plain, noisy)
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
    train_learner(
        learner, source, checkpoints=Checkpoints(folder / "c"), schedule=CheckpointSchedule(seconds=1e9), seed=seed
    )
    return math.log(evaluate_model(module, text.held_out).perplexity)


def interval(values: Sequence[float]) -> str:
    """A mean with its interval at 95 % over seeds."""
    mean = statistics.fmean(values)
    if len(values) not in STUDENT:
        return f"{mean:.0%}"
    half = STUDENT[len(values)] * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:.0%} ± {half:.0%}"


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one text and one model."""

    text: str
    model: str
    asked: argparse.Namespace
    results: Kept[str, float]

    def fill(self) -> None:
        """Measure what is missing."""
        asked, start = self.asked, start_of(self.model)
        text = encoded(self.text, start, records=asked.records, length=asked.length, per_owner=asked.per_owner)
        reads = [False, True] if text.public and (not asked.only or PUBLIC_FIRST in asked.only) else [False]
        for reads_public in reads:
            first = _AFTER_PUBLIC if reads_public else ""
            loss = partial(plain_loss, text, start, reads_public=reads_public)
            for how in undefended(self.model):
                self.results.ensure(self._cell(f"{first}{how}", 0), partial(loss, how=how, seed=0))
            bare = self._best_plain(undefended(self.model), first)
            if bare is not None:
                how = replace(bare, learns_temperature=True)
                self.results.ensure(self._cell(f"{first}{how}", 0), partial(loss, how=how, seed=0))
            best = self._best_of_all(first)
            for seed in range(1, asked.seeds) if best else ():
                self.results.ensure(self._cell(f"{first}{best}", seed), partial(loss, how=best, seed=seed))
        self.results.ensure(
            self._cell("public", 0),
            lambda: math.log(evaluate_model(load_for_training(start, seed=0).module, text.held_out).perplexity),
        )
        for epsilon in asked.epsilon:
            rows = self._rows(epsilon)
            for row, recipe in rows.items():
                self._measure(text, recipe, epsilon, range(1 if row.startswith(TUNED) else asked.seeds))
            best = [self._best_tuned(rows, epsilon, same_passes=same) for same in (False, True)]
            for row in filter(None, best):
                self._measure(text, rows[row], epsilon, range(1, asked.seeds))
            for row, recipe in self._after_tuning(rows, epsilon).items():
                if not asked.only or row in asked.only:
                    self._measure(text, recipe, epsilon, range(asked.seeds))

    def _measure(self, text: Text, recipe: Recipe, epsilon: float, seeds: Iterable[int]) -> None:
        for seed in seeds:
            cell = self._cell(f"{recipe}", seed, epsilon)
            self.results.ensure(cell, partial(self._private, text, recipe, epsilon, seed))

    def _after_tuning(self, rows: Mapping[str, Recipe], epsilon: float) -> dict[str, Recipe]:
        """The best tuned row with noise that pays for the tuning, and with an adapted output layer."""
        best = self._best_tuned(rows, epsilon, same_passes=False)
        if best is None:
            return {}
        adapted = {WITH_HEAD: replace(rows[best], adapts_head=True)} if self.model == "lora" else {}
        return {PRICED: replace(rows[best], trials=TRIALS)} | adapted

    def _best_tuned(self, rows: Mapping[str, Recipe], epsilon: float, *, same_passes: bool) -> str | None:
        """The tuned row with the least loss of the first seed; None where there is none yet."""
        tuned = [row for row in rows if row.startswith(TUNED) and row.startswith(SAME_PASSES) == same_passes]
        seen = {row: self.results.get(self._cell(f"{rows[row]}", 0, epsilon)) for row in tuned}
        there = {row: loss for row, loss in seen.items() if loss is not None}
        return min(there, key=lambda row: there[row], default=None)

    def show(self) -> None:
        """Print what there is."""
        public = self.results.get(self._cell("public", 0))
        floor = self._floor()
        if public is None or floor is None:
            return
        asked = self.asked
        owned = f" of {self._units} owners" if asked.per_owner > 1 else ""
        print(
            f"\n{self.text}, {self.model}: {asked.records} records of up to {asked.length} tokens{owned}; ", end=""
        )
        after = self._floor(_AFTER_PUBLIC)
        beside = "" if after is None else f", undefended, public text first {after:.3f}"
        print(f"public model {public:.3f}, undefended {floor:.3f}{beside}")
        for epsilon in self.asked.epsilon:
            old = self._losses(Recipe(), epsilon)
            print(f"ε = {epsilon:g}, δ = {self.asked.delta:g}{'':<24}seeds    loss  excess   of old")
            rows = self._rows(epsilon)
            for row, recipe in (rows | self._after_tuning(rows, epsilon)).items():
                losses = self._losses(recipe, epsilon)
                if not losses:
                    continue
                mean = statistics.fmean(losses.values())
                shares = [(losses[seed] - floor) / (old[seed] - floor) for seed in losses if seed in old]
                of_old = interval(shares) if shares else "–"
                print(f"{row:<44}{len(losses):>3}{mean:>9.3f}{mean - floor:>8.3f}   {of_old}", flush=True)

    def _private(self, text: Text, recipe: Recipe, epsilon: float, seed: int) -> float:
        units, per_owner = self._units, self.asked.per_owner
        plan = DpSgd.for_target(
            epsilon=epsilon,
            delta=self.asked.delta,
            units=units,
            batch=min(recipe.batch, units),
            epochs=recipe.epochs,
            sampler=recipe.sampler,
            bands=recipe.bands,
            clip_norm=recipe.clip_norm,
            clip_quantile=recipe.clip_quantile,
            unit=Unit.OWNER if per_owner > 1 else Unit.RECORD,
            texts_per_unit=per_owner,
        )
        if recipe.trials > 1.0:
            plan = plan.calibrated_for_tuning(recipe.trials, epsilon=epsilon)
        start = start_of(self.model, learns_temperature=recipe.learns_temperature, adapts_head=recipe.adapts_head)
        return private_loss(text, start, recipe, plan, seed=seed)

    def _best_of_all(self, first: str) -> Plain | None:
        """The undefended model; None where there is none yet."""
        bare = self._best_plain(undefended(self.model), first)
        return None if bare is None else self._best_plain([bare, replace(bare, learns_temperature=True)], first)

    def _best_plain(self, ways: Iterable[Plain], first: str) -> Plain | None:
        """The way of plain training with the least loss of the first seed; None where there is none yet."""
        seen = {how: self.results.get(self._cell(f"{first}{how}", 0)) for how in ways}
        there = {how: loss for how, loss in seen.items() if loss is not None}
        return min(there, key=lambda how: there[how], default=None)

    def _floor(self, first: str = "") -> float | None:
        """The mean loss of the undefended model over the seeds there are; None where there is none yet."""
        best = self._best_of_all(first)
        seen = [self.results.get(self._cell(f"{first}{best}", seed)) for seed in range(self.asked.seeds)]
        return statistics.fmean(found) if (found := [loss for loss in seen if loss is not None]) else None

    def _rows(self, epsilon: float) -> dict[str, Recipe]:
        module = load_for_training(start_of(self.model), seed=0).module
        whole = sum(weight.numel() for weight in module.parameters())
        trained = sum(weight.numel() for weight in module.parameters() if weight.requires_grad)
        size = ModelSize(trained, whole, trains_adapters=self.model == "lora")
        rows = recipes(self._units, size, epsilon)
        only = self.asked.only
        families = tuple(start for name, start in FAMILIES.items() if name in only)
        return {
            row: each
            for row, each in rows.items()
            if not only or row == OLD or row.strip() in only or (families and row.startswith(families))
        }

    @property
    def _units(self) -> int:
        return math.ceil(self.asked.records / self.asked.per_owner)

    def _losses(self, recipe: Recipe, epsilon: float) -> dict[int, float]:
        cells = {seed: self._cell(f"{recipe}", seed, epsilon) for seed in range(self.asked.seeds)}
        found = {seed: self.results.get(cell) for seed, cell in cells.items()}
        return {seed: loss for seed, loss in found.items() if loss is not None}

    def _cell(self, what: str, seed: int, epsilon: float | None = None) -> str:
        per_owner = self.asked.per_owner
        shape = f"{self.asked.records}x{self.asked.length}" + (f", {per_owner} an owner" if per_owner > 1 else "")
        private = f", ε {epsilon:g}, δ {self.asked.delta:g}" if epsilon else ""
        return f"{self.text}, {self.model}, {shape}{private}, {what}, seed {seed}"


def main(arguments: Sequence[str] = ()) -> None:
    """Measure while there is time, then print a table for each text and model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", nargs="+", default=["customersim", "newsgroups"])
    parser.add_argument("--model", nargs="+", choices=["embedded", "lora", "full"], default=["embedded"])
    parser.add_argument("--records", type=int, default=300)
    parser.add_argument("--length", type=int, default=48)
    parser.add_argument("--per-owner", type=int, default=1)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[2.0, 8.0])
    parser.add_argument("--delta", type=float, default=1e-4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[])
    parser.add_argument("--results", type=Path, default=KNOWN)
    parser.add_argument("--minutes", type=float, default=math.inf)
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    results: Kept[str, float] = Kept(asked.results, asked.minutes, str)
    tables = [Table(text, model, asked, results) for model in asked.model for text in asked.text]
    for table in tables:
        table.fill()
    for table in tables:
        table.show()


if __name__ == "__main__":
    main(sys.argv[1:])
