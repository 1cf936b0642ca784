"""DP-SGD, DP-SGD on scrubbed text and redacted training, tried on public text: which is best, and how good.

Each is trained on public text with the batch, the steps and the noise on a gradient that it would have on the
corpus at the same ε, and measured on lines that were held out. So the public text need not be as large as the
corpus; it should be like it, secrets included. Where it has fewer records than a batch, batch and noise shrink
together. Redacted training is priced for the share of private records that the policies leave of the public text.
Beside them stand the model without any training, and DP-SGD with the steps and the noise that ten times as many
records would have. The text does not grow with them, so more people would bring more than that shows.

Noise is that of Poisson samples throughout. The private corpus is not read.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from reticent.core.corpus import Corpus
from reticent.core.document import JsonObject
from reticent.core.errors import DataError
from reticent.core.guarantee import Neighbours
from reticent.core.printing.numbers import shown
from reticent.core.randomness import Randomness
from reticent.data.redaction.masking import redact_records
from reticent.data.writing import write_corpus
from reticent.models.huggingface.loading import load_model
from reticent.runs.policies.by_name import policy_named
from reticent.runs.progress import Track
from reticent.runs.training import run
from reticent.runs.training.settings import (
    DataSection,
    Fill,
    Method,
    ModelSection,
    TrainingSection,
    TrainSettings,
)
from reticent.training.batches import encode_texts
from reticent.training.evaluation import Evaluation, evaluate_model
from reticent.training.methods.redaction import redact_and_route
from reticent.training.plans.choice import Choice, choose
from reticent.training.plans.plan import DpSgd

SCRUBBED: Final = "dp-sgd on scrubbed text"
UNTRAINED: Final = "no training"
MORE: Final = "dp-sgd and the noise of ten times as many records"
HELD_OUT: Final = 0.2  # of the public text
_LEAST_RECORDS: Final = 20
_CLEARLY: Final = 0.95  # of the other's perplexity: what is worth a weaker promise


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared(JsonObject):
    """What a method came to on public text."""

    method: str
    perplexity: float
    interval: tuple[float, float]  # of the perplexity at 95 %, over held-out texts; not over other seeds
    texts: int
    outside: float | None  # the same outside secrets; None where the policy found none, or the model says no places


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicText:
    """Public text and the policies that read it."""

    file: str
    policy: str
    conservative_policy: str


def compare_on(
    public: PublicText,
    plan: DpSgd,
    model: ModelSection,
    *,
    choice: Choice,
    track: Track,
    larger: DpSgd | None = None,
) -> tuple[Compared, ...]:
    """The methods, the one with the lowest perplexity first; `plan` is DP-SGD's for the corpus.

    `larger` is that for ten times as many units. Redacted training is left out where the policies find nothing in
    the public text.
    """
    corpus = DataSection(file=public.file).load()
    if len(corpus) < _LEAST_RECORDS:
        raise DataError(
            "too few records to train on and to hold out",
            path=public.file,
            found=len(corpus),
            expected=f"at least {_LEAST_RECORDS}",
        )
    order = [corpus[int(place)] for place in Randomness.seeded(0).permutation(len(corpus))]
    count = round(HELD_OUT * len(order))
    kept = Corpus(order[count:])
    with tempfile.TemporaryDirectory(prefix="reticent-") as name:
        folder = Path(name)
        write_corpus(Corpus(order[:count]), folder / "held-out.jsonl")
        write_corpus(kept, folder / "all.jsonl")
        write_corpus(redact_records(kept, policy_named(public.policy)), folder / "scrubbed.jsonl")
        bench = _Bench(folder, public, plan, model, choice, records=len(kept))
        asked = {Method.DP_SGD.value: bench.dp_sgd("all.jsonl"), SCRUBBED: bench.dp_sgd("scrubbed.jsonl")}
        if share := _private_share(kept, public):
            asked[Method.CRT.value] = bench.redacted(share)
        if larger is not None:
            asked[MORE] = bench.dp_sgd("all.jsonl", larger)
        found = [bench.measure(name, *each) for name, each in track(asked.items(), "Comparing", len(asked))]
        found.append(bench.untrained())
    return tuple(sorted(found, key=lambda each: each.perplexity))


def advice_on(found: tuple[Compared, ...]) -> str:
    """Which method to take, in a sentence or two."""
    by_name = {each.method: each.perplexity for each in found}
    whole, scrubbed = by_name[Method.DP_SGD.value], by_name[SCRUBBED]
    if Method.CRT.value not in by_name:
        return "The policies find nothing in this text, so redacted training would protect nothing: take dp-sgd."
    if by_name[Method.CRT.value] < _CLEARLY * min(whole, scrubbed):
        return (
            "On this text redacted training predicts clearly best: take --method crt if only the secrets that the"
            " policies find or catch must be protected. To protect whole records, or who was in the corpus, take"
            " dp-sgd."
        )
    if scrubbed < _CLEARLY * whole:
        return "On this text scrubbing before DP-SGD predicts clearly best, and protects no less: take it."
    return "On this text DP-SGD predicts best or nearly so, and it protects whole records: take dp-sgd."


def expectation(found: tuple[Compared, ...]) -> str:
    """How well DP-SGD is expected to do, with an interval, and what ten times as many records would change."""
    by_name = {each.method: each for each in found}
    expected, before = by_name[Method.DP_SGD.value], by_name[UNTRAINED]
    said = (
        f"Expected on text like this: perplexity {_with_interval(expected)}, and {_with_interval(before)} untrained"
    )
    if MORE in by_name:
        said += f"; with the noise and steps of ten times as many records {_with_interval(by_name[MORE])}"
    low, high = expected.interval
    if low <= before.perplexity <= high:
        said += ". The untrained model lies within the interval: private training may not make it better"
    elif before.perplexity < low:
        said += ". Private training makes the model worse here"
    return (
        f"{said}. 95 % intervals over {expected.texts:,} held-out texts of the public text, one run each: other "
        "text and other seeds give other numbers. What training on the public text first adds is not in them."
    )


def _with_interval(one: Compared) -> str:
    low, high = one.interval
    return f"{shown(one.perplexity)} ({shown(low, side='down')} to {shown(high, side='up')})"


def _private_share(corpus: Corpus, public: PublicText) -> float:
    """The share of records that redacted training would train with noise."""
    policy, conservative = policy_named(public.policy), policy_named(public.conservative_policy)
    routed = redact_and_route(corpus, policy, conservative=conservative)
    return len(routed.private) / len(corpus)


@dataclass(frozen=True, slots=True)
class _Bench:
    """Runs on public text that have the batch, steps and noise of a plan for another number of records."""

    folder: Path
    public: PublicText
    plan: DpSgd
    model: ModelSection
    choice: Choice
    records: int

    def dp_sgd(self, file: str, plan: DpSgd | None = None) -> tuple[str, TrainingSection]:
        """DP-SGD on a file, at the noise of the plan, or of another one."""
        return file, TrainingSection(method=Method.DP_SGD, **self._steps(plan or self.plan))

    def redacted(self, share: float) -> tuple[str, TrainingSection]:
        """Redacted training, at the noise that this share of the corpus would have."""
        units = self.plan.sampler.units
        choice = choose(units, size=self.model.size(), is_redacted=True)
        private = DpSgd.for_target(
            epsilon=self.plan.guarantee().epsilon,
            delta=self.plan.delta,
            units=max(1, round(share * units)),
            batch=max(1, round(share * choice.batch)),
            epochs=min(choice.epochs, self.choice.epochs),
            clip_norm=self.plan.clip_norm,
            neighbours=Neighbours.REPLACE,
        )
        policies: dict[str, Any] = {
            "policy": self.public.policy,
            "conservative_policy": self.public.conservative_policy,
            "conservative_miss_rate": 0.0,  # whatever it is: nothing is promised of public text
            "fill_masks": Fill.KIND,
        }
        steps = self._steps(private, whole=choice.batch) | {"learning_rate": choice.learning_rate}
        return "all.jsonl", TrainingSection(method=Method.CRT, **steps, **policies)

    def _steps(self, plan: DpSgd, *, whole: int | None = None) -> dict[str, Any]:
        """A plan's steps on fewer records; `whole` is the batch of all records if the plan is for some of them."""
        planned = plan.sampler.batch if whole is None else whole
        batch = min(planned, self.records)
        return {
            "batch": batch,
            "epochs": plan.steps * batch / self.records,
            "learning_rate": self.choice.learning_rate,
            "clip_norm": plan.clip_norm,
            "delta": plan.delta,
            "noise_multiplier": plan.noise_multiplier * batch / planned,
        }

    def measure(self, name: str, file: str, section: TrainingSection) -> Compared:
        """Train as asked and measure on what was held out."""
        settings = TrainSettings(data=self._data(file), model=self.model, training=section, seed=0)
        done = run.train(settings.into(self.folder / name.replace(" ", "-")))
        assert done.evaluation is not None
        return _compared(name, done.evaluation)

    def untrained(self) -> Compared:
        """The model as it is, measured on what was held out."""
        data = self._data("held-out.jsonl")
        model = load_model(self.model.source, device=self.model.device, dtype="float32")
        held_out = data.held_out()
        assert held_out is not None  # `_data` names it
        texts = encode_texts(model, held_out, max_length=data.max_length)
        return _compared(UNTRAINED, evaluate_model(model.module, texts))

    def _data(self, file: str) -> DataSection:
        return DataSection(
            file=str(self.folder / file),
            holdout=str(self.folder / "held-out.jsonl"),
            holdout_policy=self.public.policy,
        )


def _compared(name: str, found: Evaluation) -> Compared:
    return Compared(
        method=name,
        perplexity=found.perplexity,
        interval=found.perplexity_interval,
        texts=found.texts,
        outside=None if found.outside is None else found.outside.perplexity,
    )
