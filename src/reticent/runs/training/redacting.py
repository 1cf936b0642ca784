"""What `crt` and `selective` make of a corpus: policies by name, miss rates measured or given, plans, and courses.

    crt            redacted and routed by --policy and --conservative-policy (`training.methods.redaction`)
    selective      cut into runs by --policy (`training.methods.selective`), for the LSTM alone

A miss rate is measured on labelled records (`--labelled FILE`) or given; one that is neither is taken as 1. What
both policies miss is trained on plainly, so that rate is never guessed: measured, given, or an error.

What is trained on follows from corpus and policies, so a resumed run makes it again; `fingerprint` names it,
and a run whose policies would give something else now is refused: its ledger has paid for other records.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from reticent.core.corpus import Corpus, Policy
from reticent.core.errors import ConfigError, DataError
from reticent.data.writing import replaced
from reticent.models.huggingface.model import HuggingFaceModel
from reticent.runs.policies.by_name import policy_named
from reticent.runs.settings.shared import with_patterns
from reticent.runs.training.course import (
    Course,
    Encoded,
    Means,
    Proof,
    charged,
    digest,
    private_gradients,
    refuse_layers,
)
from reticent.runs.training.settings import Fill, Method, Precision, TrainSettings
from reticent.training.batches import Units, encode_texts
from reticent.training.gradients.source import GradientSource, PlainGradients
from reticent.training.methods.mask_token import with_mask_token
from reticent.training.methods.public_first import PublicFirstGradients, public_rate_of
from reticent.training.methods.redacted import encode_private
from reticent.training.methods.redaction import MissRates, RedactedCorpus, measure_misses, redact_and_route
from reticent.training.methods.selective import SelectivePlan, most_sensitive_runs, runs_of
from reticent.training.methods.selective_steps import SelectiveGradients, recurrent
from reticent.training.plans.choice import PUBLIC_BATCH
from reticent.training.plans.redacted import (
    GROUP,
    PolicyFacts,
    RedactedPlan,
    RedactedSettings,
    plan_redacted,
)
from reticent.training.starting_model import load_for_training


def plan_redacting(settings: TrainSettings, corpus: Corpus, *, seed: int) -> Course:
    """What the settings ask for on this corpus."""
    plan = _redacted if settings.training.method is Method.CRT else _selective
    return plan(settings, corpus, seed)


def resume_redacting(settings: TrainSettings, corpus: Corpus, document: dict[str, Any]) -> Course:
    """The course of a run that was started before, from its plan (`document`) and what the policies find now."""
    policy, conservative = _policies(settings)
    if settings.training.method is Method.SELECTIVE:
        return SelectiveCourse(SelectivePlan.from_json(document), corpus, policy)
    routed = _routed(settings, corpus, policy, conservative)
    return _redacted_course(settings, RedactedPlan.from_json(document), routed)


@dataclass(frozen=True, slots=True)
class RedactedCourse:
    """crt: the public part, then the private one; with a seed, made-up values stand in the place of masks."""

    plan: RedactedPlan
    routed: RedactedCorpus
    fill_seed: int | None = None
    public_rate: float | None = None  # by the size of the model where none was given

    @property
    def redaction(self) -> dict[str, Any]:
        """What redaction did to the corpus, in counts."""
        return self.routed.counts.to_json()

    @property
    def charged_steps(self) -> int:
        """The steps of the private part."""
        return self.plan.private.steps

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the public and the private part, and of the kinds of masks where they are read."""
        routed = self.routed
        return digest([routed.public.fingerprint, routed.private.fingerprint, *map(" ".join, routed.kinds)])

    def proof(self, *, is_seeded: bool = False) -> Proof:
        """The worst case as the headline, never without the other three."""
        found = self.plan.confidentiality(is_seeded=is_seeded)
        others = {"missed": found.missed, "group": found.group, "bayesian": found.bayesian}
        return Proof(found.worst_case, others)

    def encode(self, model: HuggingFaceModel, *, max_length: int | None) -> Encoded:
        """Both parts, and the mask as one token of the model where it is read."""
        if self.fill_seed is None:
            model = with_mask_token(model)
        refuse_layers(model)
        private = encode_private(model, self.routed, max_length=max_length, fill_seed=self.fill_seed)
        public = encode_texts(model, self.routed.public, max_length=max_length)

        def source(means: Means) -> GradientSource:
            noisy = private_gradients(model, Units(private), self.plan.private, means)
            plain = None
            if self.plan.public is not None:
                plain = PlainGradients(model.module, Units(public), self.plan.public, computation=means.computation)
            rate = self.public_rate or public_rate_of(model.module)
            count = self.plan.public_per_step
            return PublicFirstGradients(plain, noisy, public_rate=rate, public_per_step=count)

        return Encoded(model, private.shortened + public.shortened, source)

    def meter(self, proof: Proof) -> Callable[[GradientSource], float | None]:
        """ε so far of a secret that the policy misses and the conservative one finds."""
        spending = self.plan.private.spending(proof.other_guarantees["missed"].epsilon)
        return lambda source: spending.epsilon(charged(source))


@dataclass(frozen=True, slots=True)
class SelectiveCourse:
    """selective: other runs plainly, sensitive ones with noise."""

    redaction: ClassVar[None] = None

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
        return digest(" ".join(f"{span.start}-{span.end}" for span in spans) for spans in found)

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


def _redacted(settings: TrainSettings, corpus: Corpus, seed: int) -> RedactedCourse:
    policy, conservative = _policies(settings)
    asked = settings.training
    assert asked.delta is not None
    redacted = RedactedSettings(
        epochs=asked.epochs,
        batch=asked.batch,
        delta=asked.delta,
        seed=seed,
        clip_norm=1.0 if asked.clip_norm is None else asked.clip_norm,
        public_batch=asked.public_batch or PUBLIC_BATCH,
        target_epsilon=asked.target_epsilon,
        noise_multiplier=asked.noise_multiplier,
    )
    misses = _misses(settings, policy, conservative)
    routed = _routed(settings, corpus, policy, conservative)
    facts = PolicyFacts.of(policy, conservative)
    plan = plan_redacted(redacted, routed, misses=misses, policies=facts, group=asked.group or GROUP)
    plan = replace(plan, shows_kinds=asked.fill_masks is Fill.KIND)
    if asked.write_redacted is not None:
        _write_redacted(routed, Path(asked.write_redacted))
    return _redacted_course(settings, plan, routed)


def _routed(settings: TrainSettings, corpus: Corpus, policy: Policy, conservative: Policy | None) -> RedactedCorpus:
    """The corpus as it is trained on."""
    once = bool(settings.training.drop_duplicates)
    return redact_and_route(corpus, policy, conservative=conservative, drop_duplicates=once)


def _write_redacted(routed: RedactedCorpus, path: Path) -> None:
    """Each record with its part, for the operator's eyes alone (0600): what the policies miss stands in it."""
    with replaced(path, overwrite=False) as file:
        for name, part in (("public", routed.public), ("private", routed.private)):
            for record in part:
                row = {"id": record.id, "part": name, "text": record.text}
                file.write(json.dumps(row, ensure_ascii=False).encode("utf8", errors="surrogatepass") + b"\n")


def _redacted_course(settings: TrainSettings, plan: RedactedPlan, routed: RedactedCorpus) -> RedactedCourse:
    """The course of a plan. The seed of made-up values is the same for every run: a resumed one reads the same."""
    asked = settings.training
    if asked.fill_masks is not Fill.KIND:
        routed = replace(routed, kinds=tuple(() for _ in routed.kinds))
    return RedactedCourse(
        plan,
        routed,
        fill_seed=None if asked.fill_masks is None else 0,
        public_rate=asked.public_learning_rate,
    )


def _selective(settings: TrainSettings, corpus: Corpus, seed: int) -> SelectiveCourse:
    policy, _ = _policies(settings)
    asked = settings.training
    if settings.model.precision is not Precision.FLOAT32:
        raise ConfigError("method 'selective' computes in float32", found=settings.model.precision.value)
    if settings.model.checkpoint_activations:
        raise ConfigError("method 'selective' trains recurrent models, which have no blocks to compute again")
    assert asked.delta is not None
    rate = asked.miss_rate
    if asked.labelled is not None:
        rate = _misses(settings, policy, None).policy
    # How many runs a text has depends on how it is cut into tokens, so the model is needed for the plan.
    model = load_for_training(settings.start(), seed=seed)
    recurrent(model.module)
    texts = runs_of(model, corpus, policy, max_length=settings.data.max_length)
    plan = SelectivePlan(
        units=len(texts),
        batch=min(asked.batch, len(texts)),
        epochs=round(asked.epochs),
        seed=seed,
        sensitive_runs=most_sensitive_runs(texts),
        clip_norm=1.0 if asked.clip_norm is None else asked.clip_norm,
        state_norm=1.0 if asked.state_norm is None else asked.state_norm,
        noise_multiplier=1.0 if asked.noise_multiplier is None else asked.noise_multiplier,
        delta=asked.delta,
        miss_rate=rate,
        is_local=policy.is_local,
    )
    chosen = plan if asked.target_epsilon is None else plan.calibrated(asked.target_epsilon)
    return SelectiveCourse(chosen, corpus, policy)


def _policies(settings: TrainSettings) -> tuple[Policy, Policy | None]:
    """The policy and, where one is named, the conservative policy."""
    asked = settings.training
    conservative = None if asked.conservative_policy is None else policy_named(asked.conservative_policy)
    return policy_named(with_patterns(asked.policy, asked.pattern)), conservative


def _misses(settings: TrainSettings, policy: Policy, conservative: Policy | None) -> MissRates:
    """How often secrets are missed, measured or given."""
    asked, data = settings.training, settings.data
    if asked.labelled is not None:
        labelled = data.corpus(asked.labelled, recognise=True)
        if "spans" not in labelled.present():
            raise DataError("--labelled needs a field 'spans' in every record", path=asked.labelled)
        return measure_misses(labelled, policy, conservative=conservative)
    rate = 1.0 if asked.miss_rate is None else asked.miss_rate
    both = 0.0 if conservative is None else asked.conservative_miss_rate
    assert both is not None  # TrainingSection.check refuses a conservative policy without a rate
    if both > rate:
        raise ConfigError(
            "what both policies miss, the policy misses too",
            found=f"--conservative-miss-rate {both:g} above --miss-rate {rate:g}",
        )
    return MissRates(
        policy=rate,
        both=both,
        origin=condition_of_given_rates(asked.miss_rate, None if conservative is None else both),
    )


def condition_of_given_rates(policy: float | None, both: float | None) -> str:
    """The condition that given rates put on the guarantee; none where the policy is taken to miss everything."""
    rates = [f"the policy misses at most {policy:g} of all secrets"] if policy is not None else []
    rates += [f"both policies miss at most {both:g} of all secrets"] if both is not None else []
    return f"{' and '.join(rates)} (given, not measured)" if rates else ""
