"""What a comparison of two snapshots measured, as findings.

    largest_differential_score  of all phrases of n tokens. The beam's best is a lower end; the upper one is n (DS ≤
                                n), or the ceiling of a search with a bound: the best itself where that is proved
    exposed_records             share of the update's records that hold a phrase which was found above the null and
                                stands nowhere in untouched text
    bits_gained_per_token       mean over the update's records, beside that of untouched ones
    auc                         telling the update's records from untouched ones by bits gained per token

The null of the first is the highest score without an update (`update_null`); without any null it has none, and
cannot be said to lie above it. Nothing here says that an update gives nothing away.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from reticent.auditing.differential import PhraseScore, Score
from reticent.auditing.intervals import bootstrap, clopper_pearson
from reticent.auditing.roc import auc_interval
from reticent.auditing.update_matching import RecordGains
from reticent.auditing.update_null import Null, highest
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.model import Access
from reticent.core.randomness import Randomness

ATTACK: Final = "differential score"
_FEWEST: Final = 2  # records on either side of an AUC


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPhrase:
    """A phrase that a search returned, with all that is known of it. `repr` shows no token."""

    scores: PhraseScore
    group: int
    least_rank: int  # a lower bound on its differential rank
    is_above_null: bool | None  # None where no null was given
    holders: tuple[str, ...] | None  # ids of the update's records that hold it; None where they were not given
    is_untouched: bool | None  # whether untouched text holds it as well
    is_proved: bool = False  # whether its rank is exact: no phrase that was not found scores higher

    def __repr__(self) -> str:
        return f"FoundPhrase({self.scores!r})"

    @property
    def is_exposed(self) -> bool:
        """Whether it shows text of the update: above every null, in the update, in no untouched text."""
        return self.is_above_null is not False and bool(self.holders) and not self.is_untouched


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What findings are made of."""

    phrases: Sequence[FoundPhrase]
    searched: int  # phrases that the beam kept
    score: Score
    length: int
    nulls: Sequence[Null]
    update: RecordGains | None = None
    untouched: RecordGains | None = None
    ceiling: float = float("inf")  # no phrase that was not found scores above
    confidence: float = 0.95


def update_findings(evidence: Evidence, *, randomness: Randomness) -> list[Finding]:
    """All findings that the evidence allows."""
    found = [_largest(evidence)]
    if evidence.update is not None and len(evidence.update.ids) > 0:
        found.append(_exposed(evidence, evidence.update))
        found.append(_gained(evidence, evidence.update, randomness))
        if evidence.untouched is not None and min(len(evidence.untouched.ids), len(evidence.update.ids)) >= _FEWEST:
            found.append(_told_apart(evidence, evidence.update, evidence.untouched))
    return found


def _finding(
    evidence: Evidence,
    metric: str,
    values: tuple[float, float, float],
    *,
    n: int,
    null: float | None,
    notes: tuple[str, ...] = (),
) -> Finding:
    """A finding of this attack; `values` are value, low and high."""
    return Finding(
        attack=ATTACK,
        metric=metric,
        value=values[0],
        low=values[1],
        high=values[2],
        confidence=evidence.confidence,
        n=n,
        measure="two snapshots compared",
        unit=Unit.RECORD,
        access=Access.LOGPROBS,
        null=null,
        notes=notes,
    )


def _largest(evidence: Evidence) -> Finding:
    best = max(one.scores.by(evidence.score) for one in evidence.phrases)
    most = float(evidence.length) if evidence.score is Score.ABSOLUTE else float("inf")
    name = "largest_differential_score"
    if evidence.score is Score.RELATIVE:
        name = "largest_relative_differential_score"
    null = highest(evidence.nulls) if evidence.nulls else None
    notes = ["a beam's best is a lower bound on the largest score of all phrases"]
    if evidence.ceiling <= best:
        notes = ["proved: no phrase of this length scores higher"]
    notes += [f"null: {one.source}, {one.phrases} phrases" for one in evidence.nulls]
    return _finding(
        evidence,
        name,
        (best, best, max(best, min(most, evidence.ceiling))),
        n=evidence.searched,
        null=null,
        notes=tuple(notes),
    )


def _exposed(evidence: Evidence, update: RecordGains) -> Finding:
    exposed = {holder for one in evidence.phrases if one.is_exposed for holder in one.holders or ()}
    total = len(update.ids)
    low, high = clopper_pearson(len(exposed), total, confidence=evidence.confidence)
    notes = () if evidence.nulls else ("no null was given: drift by chance is not told apart",)
    return _finding(evidence, "exposed_records", (len(exposed) / total, low, high), n=total, null=0.0, notes=notes)


def _gained(evidence: Evidence, update: RecordGains, randomness: Randomness) -> Finding:
    gains = update.per_token
    mean = float(gains.mean())
    low, high = -float("inf"), float("inf")  # one record says nothing of the others
    if len(gains) > 1:
        low, high = bootstrap(
            [gains], lambda x: float(np.mean(x)), randomness=randomness, confidence=evidence.confidence
        )
    null = None if evidence.untouched is None else float(evidence.untouched.per_token.mean())
    values = (mean, min(low, mean), max(high, mean))
    return _finding(evidence, "bits_gained_per_token", values, n=len(gains), null=null)


def _told_apart(evidence: Evidence, update: RecordGains, untouched: RecordGains) -> Finding:
    area = auc_interval(update.per_token, untouched.per_token, confidence=evidence.confidence)
    n = len(update.ids) + len(untouched.ids)
    notes = ("text of another kind than the update's is told apart by its kind as well",)
    return _finding(evidence, "auc", (area.value, area.low, area.high), n=n, null=0.5, notes=notes)
