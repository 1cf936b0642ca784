"""Membership inference: which texts were in the training data?"""

import math
from collections import Counter
from dataclasses import replace
from typing import ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.attack import Lines, Measurement, PlannedAttack, planned_model, skip
from reticent.auditing.attacks.membership.findings import (
    MembershipSetting,
    ScoredTargets,
    epsilon_finding,
    few_targets,
    gaussian_mu_finding,
)
from reticent.auditing.attacks.membership.scores import (
    CalibratedScore,
    ErrorZoneScore,
    LossScore,
    LowerCaseScore,
    MembershipScore,
    MinKPlusPlusScore,
    MinKScore,
    WindowScore,
    ZlibScore,
    run_attacks,
)
from reticent.auditing.attacks.membership.target_scores import PositionModel, TargetScores
from reticent.auditing.metrics.one_run import one_run_epsilon
from reticent.auditing.metrics.one_run_curve import one_run_epsilon_by_curve, one_run_gaussian_mu
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import Subject, gives_distributions
from reticent.auditing.targets import count_targets, membership_targets
from reticent.core.arrays import Floats
from reticent.core.finding import Finding
from reticent.core.guarantee import Neighbours, Unit
from reticent.core.metric import AUC, EPSILON_LOWER_BOUND_AT_DELTA, GAUSSIAN_MU_LOWER_BOUND, TPR_AT_FPR

DELTA: Final = 1e-5  # of an ε lower bound where no guarantee names one
_UNLIKELY_COINS: Final = 1e-6  # chance of such a split by coins of records, below which nobody threw them
ONE_RUN_BOUNDS: Final = 3  # by counting, by the curve of (ε, δ), by the Gaussian curve: each has its share
_COMPARED_TEXTS: Final = 64  # of either side, on which two tokenizers are compared


class Coins(Protocol):
    """Targets that were each trained on or left out by a fair coin."""

    @property
    def is_member(self) -> NDArray[np.bool_]:
        """The coins [n]."""
        ...


class MembershipInference:
    """Every score that can be computed here, against the control that voids them all."""

    name: ClassVar[str] = "membership"

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:
        """A line for the scores that can be computed, and lines for those that cannot."""
        needs = "log-probabilities"
        if subject.scoring_model is None:
            return (skip(self.name, needs, "the model returns text only"),)
        members, others = count_targets(subject, sizes.records)
        if min(members, others) < 2:
            return (skip(self.name, needs, "fewer than two members or non-members with unique texts"),)
        attacks, skipped = membership_attacks(subject)
        passes = 2 + any(one.needs_reference for one in attacks) + any(one.needs_distributions for one in attacks)
        metrics = [AUC.name, *map(TPR_AT_FPR.at, settings.rates)]
        sides = membership_targets(subject, settings, sizes.records).sides(settings)
        lines = [*skipped, *few_targets(self.name, subject, settings, sides=sides, scores=len(attacks))]
        if reason := why_no_one_run(subject, settings):
            lines.append(skip("membership: ε lower bound", "inclusion by coin", reason))
        else:
            metrics += [EPSILON_LOWER_BOUND_AT_DELTA.at(one_run_delta(subject)), GAUSSIAN_MU_LOWER_BOUND.name]
        if subject.guarantee is not None and subject.guarantee.unit is Unit.OWNER and subject.splits_owners:
            reason = "an owner has both training and held-out records; split by owner"
            lines.append(skip("membership: owners", "owners on one side", reason))
        first = PlannedAttack(
            name=self.name,
            needs=needs,
            n=members + others,
            forward_tokens=round((members + others) * mean * passes),
            metrics=tuple(metrics),
        )
        return (first, *lines)

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:
        """Findings of every score; the scores themselves by record id."""
        scored, seen = score_targets(subject, settings, sizes=sizes)
        by_coin = not why_no_one_run(subject, settings)
        findings = list(scored.findings(subject, settings, more=ONE_RUN_BOUNDS if by_coin else 0))
        if by_coin:
            confidence = findings[0].confidence  # they all have the same
            findings += one_run_findings(
                subject, settings, scored.targets, scores=scored.scores, confidence=confidence
            )
        document = scored.to_json() | {"truncated": seen.truncated}
        return Measurement(tuple(findings), {"membership.json": document})


def score_targets(
    subject: Subject, settings: AttackSettings, *, sizes: Sizes
) -> tuple[ScoredTargets, TargetScores]:
    """Every score that can be computed here of both sides, and what they were computed from."""
    targets = membership_targets(subject, settings, sizes.records)
    attacks, _ = membership_attacks(subject)
    needs_base = any(one.needs_reference for one in attacks)
    seen = TargetScores(targets.texts, planned_model(subject), reference=subject.base if needs_base else None)
    access = {one.name: one.access for one in attacks}
    scores = run_attacks(attacks, seen)
    return ScoredTargets.of(subject, settings, targets=targets, scores=scores, access=access), seen


def membership_attacks(subject: Subject) -> tuple[tuple[MembershipScore, ...], Lines]:
    """The scores that can be computed here, and lines for those that cannot."""
    alone: tuple[MembershipScore, ...] = (LossScore(), ZlibScore(), LowerCaseScore(), MinKScore())
    compared: tuple[MembershipScore, ...] = (CalibratedScore(), WindowScore())
    whole: tuple[MembershipScore, ...] = (MinKPlusPlusScore(),)
    skipped = []
    if reason := why_no_comparison(subject):
        skipped.append(skip("membership: calibrated, wbc, ez", "a base that splits text alike", reason))
        compared = ()
    else:
        whole = (*whole, ErrorZoneScore())
    if not isinstance(subject.model, PositionModel):
        names = ", ".join(attack.name for attack in whole)
        reason = "a server scores given text but returns no distributions"
        if gives_distributions(subject.model):
            reason = "the model gives distributions one position at a time: a forward for every token"
        skipped.append(skip(f"membership: {names}", "distributions at all positions", reason))
        whole = ()
    return (*alone, *compared, *whole), tuple(skipped)


def why_no_comparison(subject: Subject) -> str:
    """Why losses cannot be compared with a base token by token; empty where they can."""
    model, base = subject.scoring_model, subject.base
    if model is None or base is None:
        return "no base model; give it with --base"
    sides = (subject.training[:_COMPARED_TEXTS], subject.held_out[:_COMPARED_TEXTS])
    texts = [record.text for side in sides for record in side]
    return "" if model.encode(texts) == base.encode(texts) else "the base has a different tokenizer"


def why_no_one_run(subject: Subject, settings: AttackSettings) -> str:
    """Why no ε lower bound can be given from this one model; empty where one can."""
    if not settings.by_coin:
        return "each record must have been trained on or held out by its own fair coin; confirm it with --by-coin"
    if subject.guarantee is not None and subject.guarantee.neighbours is not Neighbours.ADD_REMOVE:
        return "the guarantee is about replaced units, the bound about added or removed ones"
    if looks_like_coins_of_owners(subject):
        return (
            "no owner has records on both sides: coins were flipped per owner, and the bound needs one per record"
        )
    return ""


def looks_like_coins_of_owners(subject: Subject) -> bool:
    """Whether fair coins for every record would hardly ever have left every owner on one side.

    The bound rests on the coins alone: scores of one owner may depend on each other in any way, but a coin that
    many records share is one coin. n records of an owner fall on one side with chance 2^(1 − n).
    """
    sizes = Counter(record.owner for side in (subject.training, subject.held_out) for record in side)
    if subject.splits_owners:
        return False
    return sum(1 - size for size in sizes.values()) * math.log(2.0) < math.log(_UNLIKELY_COINS)


def one_run_delta(subject: Subject) -> float:
    """The δ at which ε is bounded from below: the guarantee's, so that the two can be compared."""
    return subject.guarantee.delta if subject.guarantee is not None else DELTA


def one_run_findings(
    subject: Subject,
    settings: AttackSettings,
    targets: Coins,
    *,
    scores: dict[str, Floats],
    confidence: float,
) -> list[Finding]:
    """The one-run bounds, each at `confidence`, from the score that is best by its design: no score chose it."""
    name = "calibrated" if "calibrated" in scores else "loss"
    values, coins, delta = scores[name], targets.is_member, one_run_delta(subject)
    source = settings.randomness("one run")  # orders equal scores
    # Fair coins need no control: whatever words say of a record, they say nothing of its coin.
    counted = MembershipSetting(attack=f"one run, {name}", confidence=confidence)
    curve = replace(counted, attack=f"one run by curve, {name}")
    by_count = one_run_epsilon(values, coins, delta=delta, confidence=confidence, randomness=source)
    by_curve = one_run_epsilon_by_curve(values, coins, delta=delta, confidence=confidence, randomness=source)
    mu = one_run_gaussian_mu(values, coins, confidence=confidence, randomness=source)
    return [
        epsilon_finding(by_count, setting=counted),
        epsilon_finding(by_curve, setting=curve),
        gaussian_mu_finding(mu, n=len(coins), setting=curve),
    ]
