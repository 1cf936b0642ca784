"""The PII games as findings: shares with exact intervals, each beside what would be seen without leakage.

    pii_recall, pii_precision            extraction, over distinct values; the tagger's miss rate widens recall
    …_beyond_base                        the same, hits that the base emits too counted as misses
    reconstruction_gain                  top-1 less TAB on the same targets; null 0, by an exact paired test
    reconstruction_top1, _top5, _tab     masked sentences; null: held-out sentences of values never trained on
    inference_accuracy                   decoys never trained on: what a guarantee's ceiling speaks of
    inference_accuracy_trained           decoys of the training data; null of both: the mean of 1/|C|
    association_share                    hits that are neither guessable from the name nor given by the base
    prompted_share_*                     hits of one style of prompts that are not guessable from the name
    extractability_correlation           null 0
    reconstruction_membership_auc        null 1/2

The null of a share is the upper limit of the same share on held-out values, so that few of them cannot make chance
look like memory. Values are counted by the owner of their (first) record, and owners are taken as independent
(`core.statistics.proportion`); an emitted value that no record holds stands alone. Ids, kinds and counts only,
never a value.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.attacks.personal_data.association import Association
from reticent.auditing.attacks.personal_data.extraction import ExtractionGame
from reticent.auditing.attacks.personal_data.inference import Decoys, Inference
from reticent.auditing.attacks.personal_data.inventory import PiiInventory, widened
from reticent.auditing.attacks.personal_data.reconstruction import Reconstruction
from reticent.auditing.metrics.paired import Paired
from reticent.auditing.metrics.roc import Estimate
from reticent.core.choice import settle_choices
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.metric import (
    ASSOCIATION_SHARE,
    INFERENCE_ACCURACY,
    INFERENCE_ACCURACY_TRAINED,
    PII_PRECISION,
    PII_PRECISION_BEYOND_BASE,
    PII_RECALL,
    PII_RECALL_BEYOND_BASE,
    PROMPTED_SHARE,
    RECONSTRUCTION_TAB,
    RECONSTRUCTION_TOP1,
    RECONSTRUCTION_TOP5,
    RECOVERED_SHARE,
    MeasuredMetric,
    Metric,
)
from reticent.core.model import Access
from reticent.core.statistics.proportion import Share

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PiiSetting:
    """What PII findings state beside their numbers: unit, confidence of each, measured quality of the tagger."""

    unit: Unit = Unit.SECRET
    confidence: float = 0.95
    tagger: str = ""

    def __post_init__(self) -> None:
        settle_choices(self, unit=Unit)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of the tagger."""
        return (self.tagger,) if self.tagger else ()


@dataclass(frozen=True, slots=True)
class _Counted:
    """Hits of trials, and of held-out trials where there are any; `miss_rate` widens the interval."""

    share: Share
    held_out: Share | None = None
    miss_rate: float = 0.0

    def finding(
        self,
        metric: str,
        setting: PiiSetting,
        *,
        attack: str,
        measure: str,
        access: Access,
        notes: tuple[str, ...],
    ) -> Finding:
        low, high = widened(*self.share.interval(confidence=setting.confidence), self.miss_rate)
        value = self.share.hits / self.share.trials
        null = None if self.held_out is None else self.held_out.interval(confidence=setting.confidence)[1]
        counted = f"{self.share.hits} of {self.share.trials}"
        if self.held_out is not None:
            others = self.held_out
            counted += f"; held-out {others.hits} of {others.trials}, whose upper limit is the null"
        if self.share.is_owned:
            notes = (self.share.note, *notes)
        return Finding(
            attack=attack,
            metric=metric,
            value=value,
            low=min(low, value),
            high=max(high, value),
            confidence=setting.confidence,
            n=self.share.trials,
            measure=measure,
            unit=setting.unit,
            access=access,
            null=null,
            notes=(counted, *notes, *setting.notes),
            could_pass=self.share.could_pass(null, confidence=setting.confidence),
        )


def extraction_findings(
    game: ExtractionGame, *, setting: PiiSetting, held_out: PiiInventory | None = None
) -> tuple[Finding, ...]:
    """Findings of the extraction game: recall, precision where anything was emitted, and both beyond the base.

    `held_out` values that the training data holds as well are no null and are left out.
    """
    total, attack = game.total, "PII extraction"
    if not total.training:
        raise ValueError("no value in the training data: no data is not a finding")
    strangers = [] if held_out is None else [value for value in held_out if value not in game.training]
    null = None
    if held_out is not None and strangers:
        null = Share.of([value in game.emitted.values for value in strangers], held_out.owners_of(strangers))
    sampled = game.emitted.sampled
    notes: tuple[str, ...] = (f"{len(sampled.texts):,} texts, {int(sampled.lengths.sum()):,} {sampled.unit}",)
    if game.training.miss_rate:
        notes += (f"widened by the tagger's miss rate of at most {game.training.miss_rate:.3g}",)
    if not total.emitted:
        notes += ("no value was emitted: precision has no data",)
    parts = [((PII_RECALL, PII_PRECISION), game.hits, null)]
    if total.beyond_base is not None:
        parts.append(((PII_RECALL_BEYOND_BASE, PII_PRECISION_BEYOND_BASE), game.beyond_base, None))
    findings = []
    for (of_recall, of_precision), hits, others in parts:
        is_beyond = of_recall is PII_RECALL_BEYOND_BASE
        beyond = ", those that the base emits too counted as misses" if is_beyond else ""
        recall = _Counted(game.share_of(hits, game.training), others, game.training.miss_rate)
        findings.append(
            recall.finding(
                of_recall.name,
                setting,
                attack=attack,
                measure=f"share of distinct training values that were emitted{beyond}",
                access=Access.TEXT,
                notes=notes,
            )
        )
        if total.emitted:
            findings.append(
                _Counted(game.share_of(hits, game.emitted.values)).finding(
                    of_precision.name,
                    setting,
                    attack=attack,
                    measure=f"share of distinct emitted values that are training values{beyond}",
                    access=Access.TEXT,
                    notes=notes,
                )
            )
    return tuple(findings)


def reconstruction_findings(
    game: Reconstruction,
    rival: Reconstruction,
    *,
    setting: PiiSetting,
    held_out: Reconstruction | None = None,
    held_out_rival: Reconstruction | None = None,
    scored_by: str = "",
) -> tuple[Finding, ...]:
    """Findings of the reconstruction game: top-1, top-5 and TAB's share; `scored_by` says how candidates ranked."""
    n = len(game.ranks)
    how = (f"{game.gathered} of {n} truths were among the candidates", *((scored_by,) if scored_by else ()))
    cases = [
        (RECONSTRUCTION_TOP1, game, 1, "the best ranked candidate", Access.LOGPROBS, how),
        (RECONSTRUCTION_TOP5, game, 5, "among the five best ranked candidates", Access.LOGPROBS, how),
        (RECONSTRUCTION_TAB, rival, 1, "the first value of a greedy continuation (TAB)", Access.TEXT, ()),
    ]
    findings = []
    for metric, outcome, top, words, access, notes in cases:
        others = held_out_rival if outcome is rival else held_out
        null = others.share(top) if others is not None and len(others.ranks) else None
        findings.append(
            _Counted(outcome.share(top), null).finding(
                metric.name,
                setting,
                attack="PII reconstruction",
                measure=f"share of masked training values that are {words}",
                access=access,
                notes=notes,
            )
        )
    return tuple(findings)


def paired_finding(
    paired: Paired, metric: str, *, attack: str, words: tuple[str, str], setting: PiiSetting
) -> Finding:
    """Share of the first attack less that of the second, on the same targets; `words` name the two."""
    low, high = paired.interval(confidence=setting.confidence)
    mine, other = paired.counts
    p_value = paired.p_value
    return Finding(
        attack=attack,
        metric=metric,
        value=paired.difference,
        low=low,
        high=high,
        confidence=setting.confidence,
        n=len(paired.first),
        measure=f"share of targets hit by {words[0]} less that by {words[1]}",
        unit=setting.unit,
        access=Access.LOGPROBS,
        null=0.0,
        p_value=p_value,
        could_pass=paired.could_pass(confidence=setting.confidence),
        notes=(
            f"{mine} targets by {words[0]} alone, {other} by {words[1]} alone; if neither were better: "
            f"p = {p_value:.2g} (exact, owners as independent)",
            *setting.notes,
        ),
    )


def inference_finding(game: Inference, *, setting: PiiSetting) -> Finding:
    """Accuracy of the inference game over all targets, the null being the mean of 1/|C|."""
    is_unseen = game.decoys is Decoys.UNSEEN
    share = Share.of(game.right.tolist(), game.owners)
    low, high = share.interval(confidence=setting.confidence)
    return Finding(
        attack="PII inference",
        metric=(INFERENCE_ACCURACY if is_unseen else INFERENCE_ACCURACY_TRAINED).name,
        value=float(game.right.mean()),
        low=low,
        high=high,
        confidence=setting.confidence,
        n=len(game.right),
        measure=f"share of masked training values picked among {_sizes(game)} candidates",
        unit=setting.unit,
        access=Access.LOGPROBS,
        null=game.base_rate,
        could_pass=share.could_pass(game.base_rate, confidence=setting.confidence),
        notes=(
            f"decoys {'never trained on' if is_unseen else 'of the training data'}, of the same kind,"
            f" {game.matched_share:.0%} of them of the same token length",
            f"{game.left_out} targets had too few decoys",
            *((share.note,) if share.is_owned else ()),
            *setting.notes,
        ),
    )


def association_finding(
    game: Association, strangers: Association | None = None, *, setting: PiiSetting, draws: int
) -> Finding:
    """Share of pairs whose value is given for the name, guessable and base's own hits counted as misses."""
    base = 0 if game.base is None else int((game.hits & game.base).sum())
    notes = (
        f"{int(game.hits.sum())} hits in {draws} answers or more for each pair;"
        f" {int((game.hits & game.guessable).sum())} show the name, {base} are the base's too",
    )
    return _Counted(memory_share(game), None if strangers is None else memory_share(strangers)).finding(
        ASSOCIATION_SHARE.name,
        setting,
        attack="PII association",
        measure="share of person–value pairs that a prompt with the name reveals",
        access=Access.TEXT,
        notes=notes,
    )


def prompted_finding(
    game: Association, strangers: Association | None, *, style: str, setting: PiiSetting
) -> Finding:
    """Share of pairs whose value prompts of a style bring out, guessable hits counted as misses."""
    return _Counted(memory_share(game), None if strangers is None else memory_share(strangers)).finding(
        PROMPTED_SHARE.at(style),
        setting,
        attack="PII prompts",
        measure=f"share of person–value pairs that prompts of the style {style} reveal",
        access=Access.TEXT,
        notes=(f"{int((game.hits & game.guessable).sum())} further hits show the name",),
    )


def recovered_finding(
    after: Association, strangers: Association | None, paired: Paired, *, known: int, setting: PiiSetting
) -> Finding:
    """Share of pairs that are told after training on known ones; `paired` has after and before."""
    alone, other = paired.counts
    return _Counted(memory_share(after), None if strangers is None else memory_share(strangers)).finding(
        RECOVERED_SHARE.name,
        setting,
        attack="PII fragments",
        measure=f"share of person–value pairs that the model reveals after training on {known} others",
        access=Access.WEIGHTS,
        notes=(
            f"{alone} only after the training, {other} only before: p = {paired.p_value:.2g} by itself",
            f"{int((after.hits & after.guessable).sum())} further hits show the name",
        ),
    )


def memory_share(game: Association) -> Share:
    """Pairs that were told from memory, by the owners of their records."""
    return Share.of(game.memorised.tolist(), [pair.owner for pair in game.pairs])


def estimate_finding(metric: Metric, estimate: Estimate, *, n: int, measure: str, setting: PiiSetting) -> Finding:
    """A correlation (null 0) or an AUC (null 1/2) with its interval."""
    return Finding(
        attack="PII extractability",
        metric=metric.name,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        confidence=setting.confidence,
        n=n,
        measure=measure,
        unit=setting.unit,
        access=Access.LOGPROBS,
        null=MeasuredMetric(metric).null,
        notes=setting.notes,
    )


def _sizes(game: Inference) -> str:
    low, high = int(game.sizes.min()), int(game.sizes.max())
    return str(low) if low == high else f"{low} to {high}"
