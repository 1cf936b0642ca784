"""From settings and a corpus to a `Course`: policies by name, miss rates measured or given, plans.

A miss rate is measured on labelled records (`--labelled FILE`) or given; one that is neither is taken as 1. What
both policies miss is trained on plainly, so that rate is never guessed: measured, given, or an error.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from reticent.core.corpus import Corpus, Policy
from reticent.core.errors import ConfigError, DataError
from reticent.data.writing import replaced
from reticent.runs.policies.by_name import policy_named
from reticent.runs.settings.shared import with_patterns
from reticent.runs.training.course import Course, PublicSteps, RedactedCourse, SelectiveCourse, WholeCourse
from reticent.runs.training.settings import PUBLIC_EPOCHS, Fill, Method, Precision, TrainSettings
from reticent.training.methods.redaction import MissRates, RedactedCorpus, measure_misses, redact_and_route
from reticent.training.methods.selective import KIND as SELECTIVE
from reticent.training.methods.selective import SelectivePlan, most_sensitive_runs, runs_of
from reticent.training.methods.selective_steps import recurrent
from reticent.training.plans.plan import PlainPlan, plan_from_json
from reticent.training.plans.redacted import (
    GROUP,
    PUBLIC_BATCH,
    PolicyFacts,
    RedactedPlan,
    RedactedSettings,
    plan_redacted,
)
from reticent.training.plans.redacted import KIND as REDACTED
from reticent.training.starting_model import load_for_training


def plan_course(settings: TrainSettings, corpus: Corpus, *, seed: int) -> Course:
    """What the settings ask for on this corpus."""
    if settings.training.method is Method.CRT:
        return _redacted(settings, corpus, seed)
    if settings.training.method is Method.SELECTIVE:
        return _selective(settings, corpus, seed)
    records, owners = len(corpus), len(corpus.owners)
    plan = settings.training.plan(records=records, owners=owners, seed=seed)
    return WholeCourse(plan, corpus, tuned=settings.training.tune, public=_public_steps(settings, seed))


def course_again(settings: TrainSettings, corpus: Corpus, document: dict[str, Any], *, seed: int) -> Course:
    """The course of a run that was started before, from its plan (`document`), its seed, and what is read now."""
    kind = document["kind"]
    if kind == REDACTED:
        routed = _routed(settings, corpus, *_policies(settings))
        return _redacted_course(settings, RedactedPlan.from_json(document), routed)
    if kind == SELECTIVE:
        return SelectiveCourse(SelectivePlan.from_json(document), corpus, _policies(settings)[0])
    public = _public_steps(settings, seed)
    return WholeCourse(plan_from_json(document), corpus, tuned=settings.training.tune, public=public)


def _public_steps(settings: TrainSettings, seed: int) -> PublicSteps | None:
    """The steps on public text that come before private ones, where a file with some was named."""
    asked, public = settings.training, settings.public_corpus()
    if public is None:
        return None
    batch = min(asked.public_batch or PUBLIC_BATCH, len(public))
    epochs = PUBLIC_EPOCHS if asked.public_epochs is None else asked.public_epochs
    plan = PlainPlan(units=len(public), batch=batch, epochs=epochs, seed=seed)
    return PublicSteps(public, plan, asked.public_learning_rate)


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
    model = load_for_training(settings.model.start(), seed=seed)
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
