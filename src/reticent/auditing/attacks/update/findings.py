"""What a comparison of two snapshots measured, as findings.

    largest_differential_score  of all phrases of n tokens. The beam's best is a lower end; the upper one is n (DS ≤
                                n), or the ceiling of a search with a bound: the best itself where that is proved
    exposed_records             share of the update's records with a window above the null; void where too few
                                nulls can tell
    bits_gained_per_token       mean over the update's records; null: the upper limit of untouched records' mean
    update_auc                  telling the update's records from untouched ones by bits gained per token

Records and phrases are judged by null snapshots (`update.null`): one test for all windows of the update's
records, one for all phrases of a search. They are taken in this order, both at the full level: phrases are judged
only where a record lies above its null, so that without any trace of the update both together raise an alarm no
more often than the level says. With too few null snapshots the largest score has no null and cannot be said to lie
above it.

All verdicts of a comparison hold together (Bonferroni, weighted): where untouched text is compared as well, the
null snapshots have four fifths of the error, since their p-value cannot fall below 1/(1 + m), and bits and area a
tenth each. Nothing here says that an update gives nothing away.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.attacks.update.matching import RecordGains
from reticent.auditing.attacks.update.null import NullTest
from reticent.auditing.attacks.update.score import PhraseScore, UpdateScore
from reticent.auditing.metrics.intervals import APPROXIMATE, Ratio
from reticent.auditing.metrics.roc import Owners, auc_interval
from reticent.core.arrays import Floats
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.metric import (
    BITS_GAINED_PER_TOKEN,
    EXPOSED_RECORDS,
    LARGEST_DIFFERENTIAL_SCORE,
    LARGEST_RELATIVE_SCORE,
    UPDATE_AUC,
    Metric,
)
from reticent.core.model import Access
from reticent.core.statistics.proportion import Share

ATTACK: Final = "differential score"
CONFIDENCE: Final = 0.95  # of all verdicts of a comparison together
_PHRASES_SHARE: Final = 0.8  # of the error, where records are judged beside phrases
_RECORDS_SHARE: Final = 0.1  # each of the two findings on records
_FEWEST: Final = 2  # records on either side of an AUC


def phrase_level(*, judges_records: bool) -> float:
    """The level at which phrases are judged, so that all verdicts of a comparison hold together."""
    return (1.0 - CONFIDENCE) * (_PHRASES_SHARE if judges_records else 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPhrase:
    """A phrase that a search returned, with everything known about it. `repr` shows no token."""

    scores: PhraseScore
    group: int
    least_rank: int  # a lower bound on its differential rank
    p_value: float | None  # None without any null snapshot
    is_above_null: bool | None  # None where the null snapshots are too few for a verdict
    holders: tuple[str, ...] | None  # ids of the update's records that hold it; None where they were not given
    is_untouched: bool | None  # whether untouched text holds it as well
    is_proved: bool = False  # whether its rank is exact: no phrase that was not found scores higher

    def __repr__(self) -> str:
        return f"FoundPhrase({self.scores!r})"

    @property
    def is_exposed(self) -> bool:
        """Whether it is shown to be text of the update: above the null, in the update, in no untouched text."""
        return self.is_above_null is True and bool(self.holders) and not self.is_untouched


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What findings are made of."""

    phrases: Sequence[PhraseScore]  # best first
    searched: int  # phrases that the search compared
    score: UpdateScore
    length: int
    test: NullTest  # of phrases
    record_test: NullTest  # of the excess of windows inside the update's records
    excess: Floats | None = None  # of the update's records: [n]
    update: RecordGains | None = None
    untouched: RecordGains | None = None
    ceiling: float = float("inf")  # no phrase that was not found scores above

    @property
    def judges_phrases(self) -> bool:
        """Whether phrases are judged: records come first, where there are any."""
        return self.test.decides and (self.update is None or bool(self.exposed.any()))

    @property
    def exposed(self) -> NDArray[np.bool_]:
        """Which of the update's records have a window above the null: [n]."""
        limit = self.record_test.limit
        if self.excess is None or limit is None:
            return np.zeros(0 if self.excess is None else len(self.excess), dtype=bool)
        return np.asarray(self.excess > limit)

    @property
    def phrase_confidence(self) -> float:
        """Confidence of what is said of phrases."""
        return 1.0 - self.test.level

    @property
    def record_confidence(self) -> float:
        """Confidence of each finding on records."""
        return 1.0 - (1.0 - CONFIDENCE) * (1.0 if self.untouched is None else _RECORDS_SHARE)


def update_findings(evidence: Evidence) -> list[Finding]:
    """All findings that the evidence allows."""
    found = [_largest(evidence)]
    if evidence.update is not None and len(evidence.update.ids) > 0:
        found.append(_exposed(evidence, evidence.update))
        found.append(_gained(evidence, evidence.update))
        if evidence.untouched is not None and min(len(evidence.untouched.ids), len(evidence.update.ids)) >= _FEWEST:
            found.append(_told_apart(evidence, evidence.update, evidence.untouched))
    return found


def _finding(
    metric: Metric,
    values: tuple[float, float, float],
    *,
    confidence: float,
    n: int,
    null: float | None,
    void: str = "",
    notes: tuple[str, ...] = (),
) -> Finding:
    """A finding of this attack; `values` are value, low and high."""
    return Finding(
        attack=ATTACK,
        metric=metric.name,
        value=values[0],
        low=values[1],
        high=values[2],
        confidence=confidence,
        n=n,
        measure="two snapshots compared",
        unit=Unit.RECORD,
        access=Access.LOGPROBS,
        null=null,
        void=void,
        notes=notes,
    )


def why_no_verdict(test: NullTest) -> str:
    """Why nothing is said to lie above the null; empty where it can be."""
    if test.decides:
        return ""
    return (
        f"too few null snapshots for a verdict at {1.0 - test.level:.0%}: "
        f"{len(test.nulls)} given, at least {test.needed} needed"
    )


def _largest(evidence: Evidence) -> Finding:
    best = max(one.by(evidence.score) for one in evidence.phrases)
    most = evidence.score.most_per_token * evidence.length
    metric = LARGEST_DIFFERENTIAL_SCORE
    if evidence.score is UpdateScore.RELATIVE:
        metric = LARGEST_RELATIVE_SCORE
    notes = ["a beam's best is a lower bound on the largest score of all phrases"]
    if evidence.ceiling <= best:
        notes = ["proved: no phrase of this length scores higher"]
    test, scale = evidence.test, evidence.untouched
    if evidence.judges_phrases:
        notes.append(f"p = {test.p_value(best):.3g} by {len(test.nulls)} null snapshots, one test for all phrases")
    else:
        notes.append(f"no verdict: {why_no_verdict(test) or 'no record of the update lies above its null'}")
    if scale is not None and len(scale.ids) > 0:
        highest = float(scale.highest.max())
        notes.append(f"phrases of untouched text score at most {highest:.3g}: a scale, no null")
    return _finding(
        metric,
        (best, best, max(best, min(most, evidence.ceiling))),
        confidence=evidence.phrase_confidence,
        n=evidence.searched,
        null=test.limit if evidence.judges_phrases else None,
        notes=tuple(notes),
    )


def _exposed(evidence: Evidence, update: RecordGains) -> Finding:
    void, confidence = why_no_verdict(evidence.record_test), evidence.phrase_confidence
    share = Share.of(evidence.exposed.tolist(), update.owners)
    low, high = (0.0, 1.0) if void else share.interval(confidence=confidence)
    values = (share.hits / len(update.ids), low, high)
    return _finding(
        EXPOSED_RECORDS,
        values,
        confidence=confidence,
        n=len(update.ids),
        null=0.0,
        void=void,
        notes=(share.note,),
    )


def _gained(evidence: Evidence, update: RecordGains) -> Finding:
    mean = float(update.per_token.mean())
    low, high = _mean_interval(evidence, update)
    null: float | None = None
    notes: tuple[str, ...] = (APPROXIMATE,)
    if evidence.untouched is not None and len(set(evidence.untouched.owners)) >= _FEWEST:
        # The upper limit, so that few untouched records cannot make chance look like memory.
        null = _mean_interval(evidence, evidence.untouched)[1]
        untouched = float(evidence.untouched.per_token.mean())
        notes = (*notes, f"untouched records: {untouched:.3g}; the null is the upper limit of their mean")
    values = (mean, low, high)
    confidence, n = evidence.record_confidence, len(update.ids)
    return _finding(BITS_GAINED_PER_TOKEN, values, confidence=confidence, n=n, null=null, notes=notes)


def _mean_interval(evidence: Evidence, gains: RecordGains) -> tuple[float, float]:
    """Interval of the mean bits per token; one owner says nothing of the others."""
    return Ratio.of(gains.per_token, owners=gains.owners).interval(confidence=evidence.record_confidence)


def _told_apart(evidence: Evidence, update: RecordGains, untouched: RecordGains) -> Finding:
    confidence = evidence.record_confidence
    n = len(update.ids) + len(untouched.ids)
    owners = Owners.of([*update.owners, *untouched.owners], np.arange(n) < len(update.ids))
    area = auc_interval(update.per_token, untouched.per_token, confidence=confidence, owners=owners)
    independent = "records" if owners is None else f"{owners.count} owners"
    notes = (
        "text of another kind than the update's is told apart by its kind as well",
        f"{independent} are taken as independent",
    )
    values = (area.value, area.low, area.high)
    return _finding(UPDATE_AUC, values, confidence=confidence, n=n, null=0.5, notes=notes)
