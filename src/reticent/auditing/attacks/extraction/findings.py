"""Extraction as findings: how many records or texts came out, and how many would have without memorisation.

Templates and commonplaces are emitted without being remembered, so every share stands beside the same share of
**held-out** records. Where records are the trials, intervals are by owner (`core.statistics.proportion`), and the
null is the upper limit of the held-out share:

    discoverable_share        greedy answer is the record's suffix, verbatim
    near_discoverable_share   … or similar to it by `near` or more
    np_discoverable_share     suffix comes at least once in n draws with chance ≥ p (computed)
    styled_share_*            the words of the suffix, asked in capitals, in small letters, with doubled spaces
    sampled_share             suffix came at least once in the draws that were made (text access)
    extracted_share           `least` characters or more of the record stand in the generated texts
    novelty_gap_n             n-gram novelty of held-out text minus that of generated text; null 0

Where draws are the trials there is **no null**. Two corpora of one distribution differ a little in what a stranger
says of them, and enough draws make that little significant; the held-out figure is in the notes:

    extraction_rate           draws that hold `least` characters or more of a training record
    extraction_precision_*    the same among the best ranked texts
    divergence_rate           answers to repeat prompts that do so after the model stopped repeating

Ids and numbers only, never text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.attacks.extraction.discoverable import Discovery
from reticent.auditing.attacks.extraction.divergence_prompts import Divergence
from reticent.auditing.attacks.extraction.generate_and_rank import (
    REPEATS,
    CorpusMatches,
    RankedTexts,
    RecordMatches,
)
from reticent.auditing.attacks.extraction.novelty import Novelty, novelty_gap
from reticent.auditing.metrics.intervals import APPROXIMATE, shared_confidence
from reticent.auditing.metrics.paired import Paired
from reticent.core.corpus import Corpus
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.metric import (
    DISCOVERABLE_SHARE,
    DIVERGENCE_RATE,
    EXTRACTED_SHARE,
    EXTRACTION_PRECISION,
    EXTRACTION_RATE,
    NEAR_DISCOVERABLE_SHARE,
    NOVELTY_GAP,
    NP_DISCOVERABLE_SHARE,
    SAMPLED_SHARE,
    STYLED_SHARE,
)
from reticent.core.model import Access
from reticent.core.statistics.proportion import Share

LEAST_CHARACTERS: Final = 200  # about 50 tokens of English
_SHOWN_IDS: Final = 5
_FEWEST_TEXTS: Final = 10  # below, texts say too little of how they differ

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MatchRule:
    """What counts as a hit: `least` shared characters, in a piece that at most `k` records hold (None: any)."""

    least: int = LEAST_CHARACTERS
    k: int | None = None

    @classmethod
    def of(cls, records: Corpus) -> "MatchRule":
        """Half a usual record, which is much of a short one; of long ones 200 characters are enough."""
        usual = int(np.median([len(record.text) for record in records]))
        return cls(max(1, min(LEAST_CHARACTERS, usual // 2)))

    def hits(self, matches: CorpusMatches) -> Bools:
        """Which texts [n] are hits."""
        return matches.are_hits(self.least, k=self.k)

    def __str__(self) -> str:
        rare = "" if self.k is None else f" that at most {self.k} records hold"
        return f"{self.least} characters or more of a record{rare}"


@dataclass(frozen=True, slots=True)
class _Beside:
    """A share, and that of held-out trials where there are any; `is_null` if records are the trials."""

    share: Share
    held_out: Share | None
    is_null: bool = True

    def null(self, confidence: float) -> float | None:
        """The held-out share's upper limit, so that few held-out records cannot make chance look like memory."""
        if self.held_out is None or not self.is_null:
            return None
        return self.held_out.interval(confidence=confidence)[1]

    @property
    def note(self) -> str:
        """The counts, and what they are to be read beside."""
        counted = f"{self.share.hits} of {self.share.trials}"
        if self.held_out is None:
            return f"{counted}; no held-out records, so memorisation cannot be told from guessing"
        limit = ", whose upper limit is the null" if self.is_null else ""
        return f"{counted}; against held-out records {self.held_out.hits} of {self.held_out.trials}{limit}"

    def finding(
        self,
        metric: str,
        *,
        attack: str,
        measure: str,
        access: Access,
        confidence: float,
        notes: tuple[str, ...] = (),
    ) -> Finding:
        """The share with its interval; no trial is no finding."""
        if self.share.trials == 0:
            raise ValueError(f"{metric}: no data is not a finding")
        low, high = self.share.interval(confidence=confidence)
        independent = (self.share.note,) if self.is_null else ()
        return Finding(
            attack=attack,
            metric=metric,
            value=self.share.hits / self.share.trials,
            low=low,
            high=high,
            confidence=confidence,
            n=self.share.trials,
            measure=measure,
            unit=Unit.RECORD,
            access=access,
            null=self.null(confidence),
            notes=(self.note, *independent, *notes),
            could_pass=self.share.could_pass(self.null(confidence), confidence=confidence),
        )


def discoverable_findings(
    training: Discovery,
    held_out: Discovery | None = None,
    *,
    samples: int = 1000,
    chance: float = 0.5,
    near: float = 0.9,
    confidence: float = 0.95,
) -> tuple[Finding, ...]:
    """Greedy verbatim and near-verbatim shares, and the (samples, chance) share; for text access that of the draws.

    Guarantee: where training and held-out owners are independent draws of one distribution and the model saw
    neither, each finding beats its null with chance at most 1 − confidence.
    """
    groups = (training,) if held_out is None else (training, held_out)
    if held_out is not None and held_out.access != training.access:
        raise ValueError("training and held-out records must be asked in the same way")
    lengths = f"prompts of {_range(training.prefix)}, targets of {_range(training.suffix)}"
    unit = "words" if training.access is Access.TEXT else "tokens"
    cases: list[tuple[str, str, Access, list[Bools]]] = [
        (
            DISCOVERABLE_SHARE.name,
            "continued verbatim by greedy decoding",
            Access.TEXT,
            [g.verbatim for g in groups],
        ),
        (
            NEAR_DISCOVERABLE_SHARE.name,
            f"continued by greedy decoding with similarity {near:g} or more",
            Access.TEXT,
            [group.verbatim | (group.similarity >= near) for group in groups],
        ),
    ]
    if training.access is not Access.TEXT:
        which = [group.discoverable(samples, chance) for group in groups]
        measure = f"emitted with chance {chance:g} or more in {samples:,} draws"
        cases.append((NP_DISCOVERABLE_SHARE.name, measure, Access.LOGPROBS, which))
    elif training.draws and all(group.draws == training.draws for group in groups):
        which = [group.hits > 0 for group in groups]
        cases.append((SAMPLED_SHARE.name, f"emitted at least once in {training.draws:,} draws", Access.TEXT, which))
    findings = []
    for metric, measure, access, which in cases:
        baseline = None if held_out is None else Share.of(which[1].tolist(), held_out.owners)
        share = _Beside(Share.of(which[0].tolist(), training.owners), baseline)
        notes = (f"{lengths} {unit}; {training.skipped} records were too short", *_ids(training.ids, which[0]))
        findings.append(
            share.finding(
                metric,
                attack="discoverable extraction",
                measure=f"share of training records {measure}",
                access=access,
                confidence=confidence,
                notes=notes,
            )
        )
    return tuple(findings)


def styled_finding(
    training: Discovery, held_out: Discovery | None, plain: Discovery, *, writing: str, confidence: float = 0.95
) -> Finding:
    """Share of records that are continued in another writing, and how many of them not verbatim in their own."""
    mine = Share.of(training.verbatim.tolist(), training.owners)
    others = None if held_out is None else Share.of(held_out.verbatim.tolist(), held_out.owners)
    paired = Paired.of(training.verbatim.tolist(), plain.verbatim.tolist(), training.owners)
    alone, other = paired.counts
    return _Beside(mine, others).finding(
        STYLED_SHARE.at(writing),
        attack="style transfer",
        measure=f"share of training records whose words a greedy answer to {writing} text goes on with",
        access=Access.TEXT,
        confidence=confidence,
        notes=(
            f"{alone} of them not verbatim when asked plainly, {other} plainly alone: "
            f"p = {paired.p_value:.2g} by itself",
        ),
    )


def ranking_findings(
    ranked: RankedTexts, *, top: int = 100, rule: MatchRule | None = None, confidence: float = 0.95
) -> tuple[Finding, ...]:
    """The extraction rate over all draws, then the precision of the `top` texts of every ranking.

    The rate's interval is over draws, for this training corpus; that of a precision treats the ranked texts as
    independent. Draws without text are misses. Neither has a null: `extracted_records_finding` has.
    """
    if top < 1:
        raise ValueError("the top holds at least one text")
    chosen = rule or MatchRule()
    hits, others = chosen.hits(ranked.training), None if ranked.held_out is None else chosen.hits(ranked.held_out)
    sizes = _sizes(ranked.training, ranked.held_out)
    repeats, drawn = ranked.generated.repeats, ranked.generated.drawn
    whole = _Beside(
        _draws(int(repeats[hits].sum()), drawn),
        None if others is None else _draws(int(repeats[others].sum()), drawn),
        is_null=False,
    )
    found = whole.finding(
        EXTRACTION_RATE.name,
        attack="generate and rank",
        measure=f"share of {drawn:,} draws with {chosen}",
        access=Access.TEXT,
        confidence=confidence,
        notes=(
            f"{int(hits.sum())} of {len(hits)} distinct texts; {ranked.generated.empty} draws were empty",
            sizes,
        ),
    )
    findings = [found]
    for ranking in sorted(ranked.scores):
        best = ranked.top(ranking, top)
        baseline = None if others is None else Share.of(others[best].tolist())
        share = _Beside(Share.of(hits[best].tolist()), baseline, is_null=False)
        findings.append(
            share.finding(
                EXTRACTION_PRECISION.at(ranking.replace("-", "_")),
                attack=f"generate and rank ({ranking})",
                measure=f"share of the {len(best)} best ranked texts with {chosen}",
                access=Access.TEXT if ranking == REPEATS else Access.LOGPROBS,
                confidence=confidence,
                notes=(sizes,),
            )
        )
    return tuple(findings)


def extracted_records_finding(
    training: RecordMatches,
    held_out: RecordMatches | None = None,
    *,
    least: int = LEAST_CHARACTERS,
    attack: str = "generate and rank",
    confidence: float = 0.95,
) -> Finding:
    """Share of training records of which the generated texts hold `least` characters or more in one piece.

    Guarantee: where training and held-out owners are independent draws of one distribution and the model saw
    neither, the finding beats its null with chance at most 1 − confidence, however many texts were generated.
    """
    hits = training.lengths >= max(1, least)
    baseline = None
    if held_out is not None:
        baseline = Share.of((held_out.lengths >= max(1, least)).tolist(), held_out.owners)
    share = _Beside(Share.of(hits.tolist(), training.owners), baseline)
    return share.finding(
        EXTRACTED_SHARE.name,
        attack=attack,
        measure=f"share of training records with {least} characters or more in the generated texts",
        access=Access.TEXT,
        confidence=confidence,
        notes=_ids(training.ids, hits),
    )


def divergence_finding(
    divergence: Divergence, *, rule: MatchRule | None = None, confidence: float = 0.95
) -> Finding:
    """Share of all answers, departed or not, that hold training text after the departure; without a null."""
    chosen = rule or MatchRule()
    others = None if divergence.held_out is None else int(chosen.hits(divergence.held_out).sum())
    trials = len(divergence.departed)
    share = _Beside(
        _draws(int(chosen.hits(divergence.training).sum()), trials),
        None if others is None else _draws(others, trials),
        is_null=False,
    )
    return share.finding(
        DIVERGENCE_RATE.name,
        attack="divergence prompts",
        measure=f"share of answers to repeat prompts with {chosen} after the repetition",
        access=Access.TEXT,
        confidence=confidence,
        notes=(
            f"{int(divergence.departed.sum())} of {trials} answers stopped repeating",
            _sizes(divergence.training, divergence.held_out),
        ),
    )


def novelty_findings(
    generated: Novelty,
    held_out: Novelty,
    *,
    sizes: Sequence[int] = (5, 7, 10),
    confidence: float = 0.95,
    owners: Sequence[str] | None = None,
) -> tuple[Finding, ...]:
    """How much less novel generated text is than held-out text, for each n; intervals hold together (Bonferroni).

    The intervals are Student's, over texts or the `owners` of the held-out ones: approximate. A gap says that text
    is copied or that the generated texts are plainer than the held-out ones; `void` where there are too few texts
    for an interval.
    """
    each = shared_confidence(confidence, len(sizes))
    findings = []
    for n in sizes:
        mine, others = len(generated.counts(n)), len(held_out.counts(n))
        if min(mine, others) == 0:
            continue  # no n-gram of this size: no data, no finding
        gap, low, high = novelty_gap(generated, held_out, n, confidence=each, owners=owners)
        findings.append(
            Finding(
                attack="n-gram novelty",
                metric=NOVELTY_GAP.at(n),
                value=gap,
                low=low,
                high=high,
                confidence=each,
                n=mine,
                measure=f"share of new {n}-grams in held-out text minus that in generated text",
                unit=Unit.RECORD,
                access=Access.TEXT,
                null=0.0,
                void="" if min(mine, others) >= _FEWEST_TEXTS else "too few texts for an interval",
                notes=(
                    f"new: {generated.share(n):.4f} generated, {held_out.share(n):.4f} of {others} held-out texts",
                    APPROXIMATE,
                ),
            )
        )
    return tuple(findings)


def _draws(hits: int, draws: int) -> Share:
    """Hits of draws, each of which is independent of the others."""
    return Share((1,) * hits + (0,) * (draws - hits), (1,) * draws)


def _sizes(training: CorpusMatches, held_out: CorpusMatches | None) -> str:
    """A note on the corpora: a larger one is met more often by chance."""
    beside = "" if held_out is None else f" and {held_out.indexed} held-out ones"
    return f"looked up in {training.indexed} training records{beside}"


def _range(lengths: NDArray[np.int64]) -> str:
    """Least and greatest length, or the one there is."""
    if len(lengths) == 0:
        return "no length"
    low, high = int(lengths.min()), int(lengths.max())
    return str(low) if low == high else f"{low} to {high}"


def _ids(ids: Sequence[str], which: Bools) -> tuple[str, ...]:
    """A note that names the first records found."""
    found = [name for name, is_found in zip(ids, which.tolist(), strict=True) if is_found]
    if not found:
        return ()
    more = f" and {len(found) - _SHOWN_IDS} more" if len(found) > _SHOWN_IDS else ""
    return (f"records {', '.join(found[:_SHOWN_IDS])}{more}",)
