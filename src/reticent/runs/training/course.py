"""What each method makes of a corpus: its plan, what it proves, what it trains on, and the source of its gradients.

    sgd, dp-sgd    the corpus as it is; dp-sgd perhaps after steps on public text (`training.methods.public_first`)
    crt            redacted and routed by --policy and --conservative-policy (`methods.redaction`)
    selective      cut into runs by --policy (`training.methods.selective`), for the LSTM alone

What is trained on follows from corpus and policies, so a resumed run makes it again; `fingerprint` names it,
and a run whose policies would give something else now is refused: its ledger has paid for other records.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from torch import nn

from reticent.accounting.guarantees import guarantee_of_owner
from reticent.core.corpus import Corpus, Policy
from reticent.core.errors import ConfigError
from reticent.core.evidence.canary_trace import CanaryKey, TraceFile
from reticent.core.guarantee import Guarantee
from reticent.core.ledger import Budget, Ledger
from reticent.core.randomness import Randomness
from reticent.models.huggingface.model import HuggingFaceModel
from reticent.training.batches import Units, encode_texts
from reticent.training.distributed.ranked import RankedGradients, RankedLedger
from reticent.training.gradients.canaries import GradientCanaries
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.levels import LevelFile
from reticent.training.gradients.record_loss import TokenBatch
from reticent.training.gradients.source import Computation, GradientSource, PlainGradients, PrivateGradients
from reticent.training.methods.mask_token import with_mask_token
from reticent.training.methods.public_first import PublicFirst, PublicFirstGradients, public_rate_of
from reticent.training.methods.redacted import encode_private
from reticent.training.methods.redaction import RedactedCorpus
from reticent.training.methods.selective import SelectivePlan, runs_of
from reticent.training.methods.selective_steps import SelectiveGradients
from reticent.training.plans.plan import MEASURE, DpSgd, PlainPlan
from reticent.training.plans.redacted import RedactedPlan
from reticent.training.plans.sampler import BandedSampler

_CHECKED = 2  # records on which per-record gradients are checked before the weights are sharded
AnyPlan = PlainPlan | DpSgd | RedactedPlan | SelectivePlan


@dataclass(frozen=True, slots=True)
class Proof:
    """What a run proves: the headline (None: nothing), and statements of the same run by name that go with it."""

    headline: Guarantee | None
    other_guarantees: dict[str, Guarantee] = field(default_factory=dict)

    def budget(self, steps: int) -> Budget | None:
        """What the run's ledger may spend, where there is anything to spend."""
        return None if self.headline is None else Budget(MEASURE, float(steps), self.headline)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What gradients are made with. Plain training has no ledger; `shards` spreads the weights over the ranks."""

    ledger: Ledger | None
    randomness: Randomness
    computation: Computation
    shards: bool = False
    folder: Path | None = None  # with the key of gradient canaries, where the plan has any


@dataclass(frozen=True, slots=True)
class Encoded:
    """The model and the encoded text of a run; `source` makes its gradients."""

    model: HuggingFaceModel
    shortened: int
    source: Callable[[Means], GradientSource]


class Course(Protocol):
    """A method applied to a corpus."""

    @property
    def plan(self) -> AnyPlan:
        """What will be done."""
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

    plan: PlainPlan | DpSgd
    corpus: Corpus
    tuned: int | None = None  # runs on average, of which this one is kept if it is the best
    public: PublicSteps | None = None  # before the steps of a private plan

    @property
    def fingerprint(self) -> str:
        """That of public text and its steps where there are any: a run that is resumed takes the same."""
        public = self.public
        return "" if public is None else _digest([public.corpus.fingerprint, json.dumps(public.plan.to_json())])

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
        plan = self.plan
        if isinstance(plan, PlainPlan):
            units = Units(texts)
            return Encoded(
                model,
                texts.shortened,
                lambda means: PlainGradients(model.module, units, plan, computation=means.computation),
            )
        _refuse_layers(model, plan.clip_norm)
        private = Units(texts, plan.unit, texts_per_unit=plan.texts_per_unit)
        if self.public is not None:
            shortened, source = _public_first(model, self.public, private, plan, max_length=max_length)
            return Encoded(model, texts.shortened + shortened, source)
        return Encoded(model, texts.shortened, lambda means: _private(model, private, plan, means))

    def meter(self, proof: Proof) -> Callable[[GradientSource], float | None]:
        """ε of the steps charged so far."""
        if not isinstance(self.plan, DpSgd) or proof.headline is None:
            return lambda _: None
        whole = proof.headline.epsilon
        if self.tuned is not None:
            return lambda _: whole  # of the kept run: what a step of one of them costs is no promise
        spending = self.plan.spending(whole)
        return lambda source: spending.epsilon(_charged(source))


@dataclass(frozen=True, slots=True)
class RedactedCourse:
    """crt: the public part, then the private one; with a seed, made-up values stand in the place of masks."""

    plan: RedactedPlan
    routed: RedactedCorpus
    fill_seed: int | None = None
    public_rate: float | None = None  # by the size of the model where none was given

    @property
    def charged_steps(self) -> int:
        """The steps of the private part."""
        return self.plan.private.steps

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the public and the private part, and of the kinds of masks where they are read."""
        routed = self.routed
        return _digest([routed.public.fingerprint, routed.private.fingerprint, *map(" ".join, routed.kinds)])

    def proof(self, *, is_seeded: bool = False) -> Proof:
        """The worst case as the headline, never without the other three."""
        found = self.plan.confidentiality(is_seeded=is_seeded)
        others = {"missed": found.missed, "group": found.group, "bayesian": found.bayesian}
        return Proof(found.worst_case, others)

    def encode(self, model: HuggingFaceModel, *, max_length: int | None) -> Encoded:
        """Both parts, and the mask as one token of the model where it is read."""
        if self.fill_seed is None:
            model = with_mask_token(model)
        _refuse_layers(model, self.plan.private.clip_norm)
        private = encode_private(model, self.routed, max_length=max_length, fill_seed=self.fill_seed)
        public = encode_texts(model, self.routed.public, max_length=max_length)

        def source(means: Means) -> GradientSource:
            noisy = _private(model, Units(private), self.plan.private, means)
            if self.plan.public is None:
                return PublicFirstGradients(self.plan, None, noisy)
            units = Units(public)
            plain = PlainGradients(model.module, units, self.plan.public, computation=means.computation)
            rate = self.public_rate or public_rate_of(model.module)
            return PublicFirstGradients(self.plan, plain, noisy, public_units=units, public_rate=rate)

        return Encoded(model, private.shortened + public.shortened, source)

    def meter(self, proof: Proof) -> Callable[[GradientSource], float | None]:
        """ε so far of a secret that the policy misses and the conservative one finds."""
        spending = self.plan.private.spending(proof.other_guarantees["missed"].epsilon)

        def epsilon(source: GradientSource) -> float | None:
            return spending.epsilon(source.private_position) if isinstance(source, PublicFirstGradients) else None

        return epsilon


@dataclass(frozen=True, slots=True)
class SelectiveCourse:
    """selective: other runs plainly, sensitive ones with noise."""

    plan: SelectivePlan
    corpus: Corpus
    policy: Policy

    @property
    def charged_steps(self) -> int:
        """Every step."""
        return self.plan.steps

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the places that the policy marks."""
        found = self.policy.find(self.corpus.texts)
        return _digest(" ".join(f"{span.start}-{span.end}" for span in spans) for spans in found)

    def proof(self, *, is_seeded: bool = False) -> Proof:
        """What holds for any secret as the headline, what holds for marked tokens beside it."""
        return Proof(self.plan.guarantee(is_seeded=is_seeded), {"marked": self.plan.marked(is_seeded=is_seeded)})

    def encode(self, model: HuggingFaceModel, *, max_length: int | None) -> Encoded:
        """The runs of every text."""
        texts = runs_of(model, self.corpus, self.policy, max_length=max_length)

        def source(means: Means) -> GradientSource:
            assert means.ledger is not None
            return SelectiveGradients(
                model.module,
                texts,
                self.plan,
                ledger=means.ledger,
                randomness=means.randomness,
                computation=means.computation,
            )

        return Encoded(model, 0, source)

    def meter(self, proof: Proof) -> Callable[[GradientSource], float | None]:  # noqa: ARG002
        """Nothing: the headline is infinite from the first step on."""
        return lambda _: None


def _public_first(
    model: HuggingFaceModel, public: PublicSteps, private: Units, plan: DpSgd, *, max_length: int | None
) -> tuple[int, Callable[[Means], GradientSource]]:
    """How many public texts were shortened, and the source that reads public text first and private units then."""
    texts = encode_texts(model, public.corpus, max_length=max_length)

    def source(means: Means) -> GradientSource:
        plain = PlainGradients(model.module, Units(texts), public.plan, computation=means.computation)
        noisy = _private(model, private, plan, means)
        rate = public.rate or public_rate_of(model.module)
        phases = PublicFirst(public.plan, plan)
        return PublicFirstGradients(phases, plain, noisy, public_units=Units(texts), public_rate=rate)

    return texts.shortened, source


def _charged(source: GradientSource) -> int:
    """Steps that were charged: public ones are not."""
    return source.private_position if isinstance(source, PublicFirstGradients) else source.position


def _private(model: HuggingFaceModel, units: Units, plan: DpSgd, means: Means) -> PrivateGradients:
    module, ledger = model.module, means.ledger
    randomness, computation = means.randomness, means.computation
    if isinstance(ledger, RankedLedger) and plan.canaries:
        raise ConfigError("--audit needs a single process", hint="start it without torchrun")
    if isinstance(ledger, RankedLedger) and plan.individual:
        raise ConfigError("--individual-accounting needs a single process", hint="start it without torchrun")
    if isinstance(ledger, RankedLedger) and isinstance(plan.sampler, BandedSampler):
        raise ConfigError(
            "correlated noise needs a single process", hint="start it without torchrun, or --sampler poisson"
        )
    if isinstance(ledger, RankedLedger) and means.shards:
        from reticent.training.distributed.sharded import ShardedGradients, shard  # loads FSDP

        few = [text.tolist() for group in units.texts_at([range(min(_CHECKED, len(units)))]) for text in group]
        device = str(next(module.parameters()).device)
        shard(module, ledger.ranks, TokenBatch.of(few, units.start_token, device=device))
        return ShardedGradients(module, units, plan, ledger=ledger, randomness=randomness, computation=computation)
    if isinstance(ledger, RankedLedger):
        return RankedGradients(module, units, plan, ledger=ledger, randomness=randomness, computation=computation)
    assert ledger is not None
    return PrivateGradients(
        module,
        units,
        plan,
        ledger=ledger,
        randomness=randomness,
        computation=computation,
        canaries=_canaries(module, plan, means.folder),
        levels=None if means.folder is None or not plan.individual else LevelFile(means.folder, plan.records),
    )


def _canaries(module: nn.Module, plan: DpSgd, folder: Path | None) -> GradientCanaries | None:
    """The run's canaries, by the key in its folder; what their steps show is appended beside it."""
    if not plan.canaries:
        return None
    assert folder is not None
    key = CanaryKey.read(folder)
    return GradientCanaries(module, key, clip_norm=plan.clip_norm, observer=TraceFile(folder))


def _refuse_layers(model: HuggingFaceModel, clip_norm: float) -> None:
    """Refuse, by name, layers whose per-record gradients cannot be taken."""
    with PerRecordGradients(model.module, clip_norm):
        pass


def _digest(parts: Iterable[str]) -> str:
    running = hashlib.blake2b(digest_size=16)
    for part in parts:
        running.update(part.encode() + b"\n")
    return running.hexdigest()
