"""What a method makes of a corpus: its plan, what it proves, what it trains on, and the source of its gradients.

    sgd, dp-sgd       the corpus as it is (here); dp-sgd perhaps after steps on public text (`methods.public_first`)
    crt, selective    what their policies make of it (`runs.training.redacting`)

What is trained on beside the corpus, or made of it, is read again by a resumed run; `fingerprint` names it, and a
run that would train on something else now is refused: its ledger has paid for other records.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from torch import nn

from reticent.accounting.guarantees import guarantee_of_owner
from reticent.auditing.attacks.one_run.draws import draws_of
from reticent.core.corpus import Corpus
from reticent.core.errors import ConfigError
from reticent.core.evidence.canary_trace import CanaryKey, TraceFile
from reticent.core.guarantee import Guarantee
from reticent.core.ledger import Ledger
from reticent.core.randomness import Randomness
from reticent.models.huggingface.model import HuggingFaceModel
from reticent.runs.training.settings import PUBLIC_EPOCHS, REDACTING, TrainSettings
from reticent.training.batches import Units, encode_texts
from reticent.training.distributed.ranked import RankedGradients, RankedLedger
from reticent.training.gradients.canaries import GradientCanaries, require_room
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.levels import LevelFile
from reticent.training.gradients.record_loss import TokenBatch
from reticent.training.gradients.source import Computation, GradientSource, PlainGradients, PrivateGradients
from reticent.training.methods.public_first import PublicFirstGradients, public_rate_of
from reticent.training.plans.choice import PUBLIC_BATCH
from reticent.training.plans.plan import DpSgd, PlainPlan, plan_from_json

if TYPE_CHECKING:
    from reticent.training.methods.selective import SelectivePlan
    from reticent.training.plans.redacted import RedactedPlan

_CHECKED = 2  # records on which per-record gradients are checked before the weights are sharded


@dataclass(frozen=True, slots=True)
class Proof:
    """What a run proves: the headline (None: nothing), and statements of the same run by name that go with it."""

    headline: Guarantee | None
    other_guarantees: dict[str, Guarantee] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What gradients are made with. Plain training has no ledger; `shards` spreads the weights over the ranks."""

    ledger: Ledger | None
    randomness: Randomness
    computation: Computation
    shards: bool
    folder: Path  # of the run, with what gradient canaries and records' own levels leave there


@dataclass(frozen=True, slots=True)
class Encoded:
    """The model and the encoded text of a run; `source` makes its gradients."""

    model: HuggingFaceModel
    shortened: int
    source: Callable[[Means], GradientSource]


class Course(Protocol):
    """A method applied to a corpus."""

    @property
    def plan(self) -> "PlainPlan | DpSgd | RedactedPlan | SelectivePlan":
        """What will be done."""
        ...

    @property
    def redaction(self) -> dict[str, Any] | None:
        """What redaction did to the corpus, in counts; None for methods that redact nothing."""
        ...

    @property
    def charged_steps(self) -> int:
        """Steps that the ledger is charged for."""
        ...

    @property
    def fingerprint(self) -> str:
        """Fingerprint of what is trained on where it is not the corpus itself, else empty."""
        ...

    def proof(self, *, is_seeded: bool = False) -> Proof:
        """What the run proves."""
        ...

    def encode(self, model: HuggingFaceModel, *, max_length: int | None) -> Encoded:
        """Encode the text; whatever is wrong with model or text shows here, before anything is written."""
        ...

    def meter(self, proof: Proof) -> Callable[[GradientSource], float | None]:
        """ε so far, for the operator's screen."""
        ...


@dataclass(frozen=True, slots=True)
class PublicSteps:
    """Steps on public text before the private ones: they cost nothing, and make the model that those start from."""

    corpus: Corpus
    plan: PlainPlan
    rate: float | None = None  # learning rate; None: by the size of the model


@dataclass(frozen=True, slots=True)
class WholeCourse:
    """sgd and dp-sgd: the corpus as it is."""

    redaction: ClassVar[None] = None

    plan: PlainPlan | DpSgd
    corpus: Corpus
    tuned: int | None = None  # runs on average, of which this one is kept if it is the best
    public: PublicSteps | None = None  # before the steps of a private plan

    @property
    def fingerprint(self) -> str:
        """That of public text and its steps where there are any: a run that is resumed takes the same."""
        public = self.public
        return "" if public is None else digest([public.corpus.fingerprint, json.dumps(public.plan.to_json())])

    @property
    def charged_steps(self) -> int:
        """Every step of a private plan."""
        return self.plan.steps

    def proof(self, *, is_seeded: bool = False) -> Proof:
        """The plan's guarantee, if it has one, and what follows for owners of several records."""
        if not isinstance(self.plan, DpSgd):
            return Proof(None)
        if self.tuned is not None:
            return Proof(self.plan.tuned_guarantee(self.tuned, is_seeded=is_seeded))
        headline = self.plan.guarantee(is_seeded=is_seeded)
        owner = guarantee_of_owner(headline, self.corpus.most_records)
        return Proof(headline, {} if owner is None else {"owner": owner})

    def encode(self, model: HuggingFaceModel, *, max_length: int | None) -> Encoded:
        """The units of the plan."""
        texts = encode_texts(model, self.corpus, max_length=max_length)
        plan, public = self.plan, self.public
        if isinstance(plan, PlainPlan):
            every = Units(texts)
            return Encoded(
                model,
                texts.shortened,
                lambda means: PlainGradients(model.module, every, plan, computation=means.computation),
            )
        refuse_layers(model)
        units = Units(texts, plan.unit, texts_per_unit=plan.texts_per_unit)
        if public is None:
            return Encoded(model, texts.shortened, lambda means: private_gradients(model, units, plan, means))
        first = encode_texts(model, public.corpus, max_length=max_length)

        def source(means: Means) -> GradientSource:
            plain = PlainGradients(model.module, Units(first), public.plan, computation=means.computation)
            rate = public.rate or public_rate_of(model.module)
            return PublicFirstGradients(plain, private_gradients(model, units, plan, means), public_rate=rate)

        return Encoded(model, texts.shortened + first.shortened, source)

    def meter(self, proof: Proof) -> Callable[[GradientSource], float | None]:
        """ε of the steps charged so far."""
        if not isinstance(self.plan, DpSgd) or proof.headline is None:
            return lambda _: None
        whole = proof.headline.epsilon
        if self.tuned is not None:
            return lambda _: whole  # of the kept run: what a step of one of them costs is no promise
        spending = self.plan.spending(whole)
        return lambda source: spending.epsilon(charged(source))


def plan_course(settings: TrainSettings, corpus: Corpus, *, public: Corpus | None, seed: int) -> Course:
    """What the settings ask for on this corpus, after steps on public text where there is some."""
    asked = settings.training
    if asked.method in REDACTING:
        from reticent.runs.training.redacting import plan_redacting  # loads every policy

        return plan_redacting(settings, corpus, seed=seed)
    plan = asked.plan(records=len(corpus), owners=len(corpus.owners), seed=seed)
    return WholeCourse(plan, corpus, tuned=asked.tune, public=_public_steps(settings, public, seed))


def resume_course(
    settings: TrainSettings, corpus: Corpus, document: dict[str, Any], *, public: Corpus | None, seed: int
) -> Course:
    """The course of a run that was started before, from its plan (`document`), its seed, and what is read now."""
    if settings.training.method in REDACTING:
        from reticent.runs.training.redacting import resume_redacting  # loads every policy

        return resume_redacting(settings, corpus, document)
    steps = _public_steps(settings, public, seed)
    return WholeCourse(plan_from_json(document), corpus, tuned=settings.training.tune, public=steps)


def _public_steps(settings: TrainSettings, public: Corpus | None, seed: int) -> PublicSteps | None:
    """The steps on public text that come before private ones, where there is some."""
    if public is None:
        return None
    asked = settings.training
    batch = min(asked.public_batch or PUBLIC_BATCH, len(public))
    epochs = PUBLIC_EPOCHS if asked.public_epochs is None else asked.public_epochs
    plan = PlainPlan(units=len(public), batch=batch, epochs=epochs, seed=seed)
    return PublicSteps(public, plan, asked.public_learning_rate)


def charged(source: GradientSource) -> int:
    """Steps that were charged: public ones are not."""
    return source.private_position if isinstance(source, PublicFirstGradients) else source.position


def refuse_private(module: nn.Module, plan: DpSgd, *, processes: int) -> None:
    """Refuse a plan that cannot be carried out on these weights, or not by several processes."""
    if processes > 1:
        _refuse_several_processes(plan)
    if plan.canaries:
        draws_of(plan.event)  # what is drawn must be known when they are measured
        require_room(module, plan.canaries)


def _refuse_several_processes(plan: DpSgd) -> None:
    """Refuse a plan that only one process can carry out: when the run begins, and where its steps are made."""
    for is_asked, option in ((plan.canaries, "--audit"), (plan.individual, "--individual-accounting")):
        if is_asked:
            raise ConfigError(f"{option} needs a single process", hint="start it without torchrun")
    if plan.sampler.is_correlated:
        raise ConfigError(
            f"{plan.sampler.label} needs a single process",
            hint="start it without torchrun, or --sampler poisson",
        )


def private_gradients(model: HuggingFaceModel, units: Units, plan: DpSgd, means: Means) -> PrivateGradients:
    """The private steps of a plan: in this process or, where the ledger is that of several, in all of them."""
    module, ledger, folder = model.module, means.ledger, means.folder
    if isinstance(ledger, RankedLedger):
        return _ranked(module, units, plan, ledger, means)
    assert ledger is not None
    canaries = None
    if plan.canaries:
        key, trace = CanaryKey.read(folder), TraceFile(folder)
        canaries = GradientCanaries(module, key, clip_norm=plan.clip_norm, observer=trace)
    return PrivateGradients(
        module,
        units,
        plan,
        ledger=ledger,
        randomness=means.randomness,
        computation=means.computation,
        canaries=canaries,
        levels=LevelFile(folder, plan.records) if plan.individual else None,
    )


def _ranked(module: nn.Module, units: Units, plan: DpSgd, ledger: RankedLedger, means: Means) -> RankedGradients:
    """The same in the processes that torchrun started."""
    _refuse_several_processes(plan)
    randomness, computation = means.randomness, means.computation
    if means.shards:
        from reticent.training.distributed.sharded import ShardedGradients, shard  # loads FSDP

        few = [text.tolist() for group in units.texts_at([range(min(_CHECKED, len(units)))]) for text in group]
        device = str(next(module.parameters()).device)
        shard(module, ledger.ranks, TokenBatch.of(few, units.start_token, device=device))
        return ShardedGradients(module, units, plan, ledger=ledger, randomness=randomness, computation=computation)
    return RankedGradients(module, units, plan, ledger=ledger, randomness=randomness, computation=computation)


def refuse_layers(model: HuggingFaceModel) -> None:
    """Refuse, by name, layers whose per-record gradients cannot be taken."""
    with PerRecordGradients(model.module, clip_norm=1.0):
        pass


def digest(parts: Iterable[str]) -> str:
    """A fingerprint of texts, in order."""
    running = hashlib.blake2b(digest_size=16)
    for part in parts:
        running.update(part.encode() + b"\n")
    return running.hexdigest()
