"""How likely each candidate is in its place: the score by which reconstruction and inference rank.

    span        log p(c | prefix)
    in context  log p(c · suffix | prefix): what follows is evidence too
    sentence    mean log p of all tokens of prefix · c · suffix (the paper's perplexity): the rival

The prefix is the same for all candidates of a place and says nothing of them: in the sentence's mean it only
dilutes, and candidates of more tokens pass for likelier. Sums of log-probabilities do neither.

A name that is likely everywhere is no evidence here. Two calibrations take that out:

    base        less the same score under another model
    elsewhere   less w · log mean_k p(c | prefix_k) under the model itself, over places k of other text

The second one asks how much more this place calls for the candidate than any place does. With w = 1 it compares
candidates that are all real (inference); a candidate that the model garbled itself is unlikely everywhere and gains
most from it, so that candidates drawn from the model need a smaller w. On generated case law, of 0.3, 0.5, 0.7 and
1, 0.3 served both games best. There a base, even one that had read other cases, helped only while the model had
hardly learnt, and later ranked worse than none.

Every candidate is encoded within its whole text, as training saw it; the tokens that the texts of a place share
with their prefix are computed once (`continuation_log_probs`) and the candidates of a place in one batch.
Prefixes that do not fit the model lose their beginnings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from reticent.auditing.pii_contexts import MaskedSpan
from reticent.core.model import Floats, LanguageModel, Tokens, common_length


class Scoring(StrEnum):
    """What is scored of a text with a candidate in its place."""

    SPAN = "span"
    IN_CONTEXT = "in context"
    SENTENCE = "sentence"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Places of text that was not trained on, whose candidates are compared with; each kind has its own."""

    places: tuple[MaskedSpan, ...]
    weight: float = 0.3

    def log_means(self, model: LanguageModel, candidates: Sequence[str], *, kind: str) -> Floats:
        """log mean_k p(c | prefix_k) [m] over the places of the kind, in nats; 0 where there is none."""
        rows = [
            log_likelihoods(model, place, candidates, scoring=Scoring.SPAN)
            for place in self.places
            if place.secret.kind == kind
        ]  # [k][m]
        if not rows:
            return np.zeros(len(candidates))
        return np.asarray(np.logaddexp.reduce(rows, axis=0) - np.log(len(rows)), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class CandidateScorer:
    """Scores candidates by a model, calibrated by another one or by other places where they are given."""

    model: LanguageModel
    base: LanguageModel | None = None
    scoring: Scoring = Scoring.IN_CONTEXT
    elsewhere: Elsewhere | None = None

    def scores(self, targets: Sequence[MaskedSpan], candidates: Sequence[Sequence[str]]) -> list[Floats]:
        """One score a candidate of every target, higher = likelier the truth."""
        if len(targets) != len(candidates):
            raise ValueError("every target needs its candidates, none included")
        scored = [self._own(target, each) for target, each in zip(targets, candidates, strict=True)]
        if self.elsewhere is None:
            return scored
        known = self._log_means(targets, candidates, self.elsewhere)
        return [
            row - self.elsewhere.weight * np.array([known[target.secret.kind, one] for one in each])
            for row, target, each in zip(scored, targets, candidates, strict=True)
        ]

    def score(self, target: MaskedSpan, candidates: Sequence[str]) -> Floats:
        """Scores [m] of the candidates of one target."""
        return self.scores([target], [candidates])[0]

    def _own(self, target: MaskedSpan, candidates: Sequence[str]) -> Floats:
        own = log_likelihoods(self.model, target, candidates, scoring=self.scoring)
        if self.base is None:
            return own
        return own - log_likelihoods(self.base, target, candidates, scoring=self.scoring)

    def _log_means(
        self, targets: Sequence[MaskedSpan], candidates: Sequence[Sequence[str]], elsewhere: Elsewhere
    ) -> dict[tuple[str, str], float]:
        """Of every kind and candidate how likely it is elsewhere, each computed once."""
        distinct: dict[str, dict[str, None]] = {}
        for target, each in zip(targets, candidates, strict=True):
            distinct.setdefault(target.secret.kind, {}).update(dict.fromkeys(each))
        return {
            (kind, one): float(value)
            for kind, values in distinct.items()
            for one, value in zip(values, elsewhere.log_means(self.model, list(values), kind=kind), strict=True)
        }


def log_likelihoods(
    model: LanguageModel, target: MaskedSpan, candidates: Sequence[str], *, scoring: Scoring
) -> Floats:
    """Log-likelihood [m] of each candidate in the target's place, in nats; for sentences the mean a token."""
    if not candidates:
        return np.empty(0)
    suffix = "" if scoring is Scoring.SPAN else target.suffix
    # The blank before a value belongs to its first token in most vocabularies, so the prefix ends before it.
    opening, *wholes = model.encode(
        [target.prefix.rstrip(), *(f"{target.prefix}{candidate}{suffix}" for candidate in candidates)]
    )
    shared = min(common_length(opening, whole) for whole in wholes)
    rest = [whole[shared:] for whole in wholes]
    longest = max(len(row) for row in rest)
    before = fitting(model, opening[:shared], room=longest)
    sums = np.array([float(row.sum()) for row in model.continuation_log_probs(before, rest)])
    if scoring is not Scoring.SENTENCE:
        return sums
    prefix = float(model.token_log_probs([before])[0].sum()) if before else 0.0
    return np.array([(one + prefix) / max(1, len(before) + len(row)) for one, row in zip(sums, rest, strict=True)])


def fitting(model: LanguageModel, tokens: Tokens, *, room: int = 0) -> list[int]:
    """The last tokens that fit the model's context with `room` more."""
    if model.context_length is None:
        return list(tokens)
    most = max(0, model.context_length - 1 - room)
    return list(tokens[max(0, len(tokens) - most) :])
