"""How likely each candidate is in its place: the score by which reconstruction and inference rank.

    span        log p(c | prefix)
    in context  log p(c · suffix | prefix): what follows is evidence too
    sentence    mean log p of all tokens of prefix · c · suffix (the paper's perplexity): the rival

Less the same under the base model where there is one, which takes out what is merely a frequent name or a fitting
word. The prefix is the same for all candidates of a place and says nothing of them: in the sentence's mean it
only dilutes, and candidates of more tokens pass for likelier. Sums of log-probabilities do neither.

Calibration pays where the base knows some candidates to be likelier than others. Where it knows nothing of any, its
score is noise that long and odd candidates gain from; the plain likelihood (`base` None) ranks better there.

Every candidate is encoded within its whole text, as training saw it; the tokens that the texts of a place share
with their prefix are computed once (`continuation_log_probs`) and the candidates of a place in one batch.
Prefixes that do not fit the model lose their beginnings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from reticent.auditing.pii_contexts import MaskedSpan
from reticent.core.model import Floats, LanguageModel, Tokens


class Scoring(StrEnum):
    """What is scored of a text with a candidate in its place."""

    SPAN = "span"
    IN_CONTEXT = "in context"
    SENTENCE = "sentence"


@dataclass(frozen=True, slots=True)
class CandidateScorer:
    """Scores candidates by a model, calibrated by its base where one is given."""

    model: LanguageModel
    base: LanguageModel | None = None
    scoring: Scoring = Scoring.IN_CONTEXT

    def scores(self, targets: Sequence[MaskedSpan], candidates: Sequence[Sequence[str]]) -> list[Floats]:
        """One score a candidate of every target, higher = likelier the truth."""
        if len(targets) != len(candidates):
            raise ValueError("every target needs its candidates, none included")
        return [self.score(target, each) for target, each in zip(targets, candidates, strict=True)]

    def score(self, target: MaskedSpan, candidates: Sequence[str]) -> Floats:
        """Scores [m] of the candidates of one target."""
        own = log_likelihoods(self.model, target, candidates, scoring=self.scoring)
        if self.base is None:
            return own
        return own - log_likelihoods(self.base, target, candidates, scoring=self.scoring)


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
    if scoring is Scoring.SENTENCE:
        rows = model.token_log_probs([fitting(model, whole) for whole in wholes])
        return np.array([float(row.mean()) if len(row) else 0.0 for row in rows])
    shared = min(_shared(opening, whole) for whole in wholes)
    rest = [whole[shared:] for whole in wholes]
    longest = max(len(row) for row in rest)
    rows = model.continuation_log_probs(fitting(model, opening[:shared], room=longest), rest)
    return np.array([float(row.sum()) for row in rows])


def fitting(model: LanguageModel, tokens: Tokens, *, room: int = 0) -> list[int]:
    """The last tokens that fit the model's context with `room` more."""
    if model.context_length is None:
        return list(tokens)
    most = max(0, model.context_length - 1 - room)
    return list(tokens[max(0, len(tokens) - most) :])


def _shared(first: Tokens, second: Tokens) -> int:
    """Number of tokens that the two begin with in common."""
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count
