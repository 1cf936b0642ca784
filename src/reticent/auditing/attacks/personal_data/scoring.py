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
with their prefix are computed once (`place_reading`) and the candidates of a place in one batch. Prefixes that do
not fit the model lose their beginnings.

What follows has to be read after each candidate anew, and costs far more than the candidates do. A `shortlist` of m
reads it only after the m candidates that are likeliest by themselves, calibrated alike; the others score −∞. On
generated case law (three models, 336 places, 50 candidates) 10 made every guess that reading it after all of them
made; 5 lost two right guesses of a hundred, and candidates by themselves fifteen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from reticent.auditing.attacks.personal_data.contexts import MaskedSpan
from reticent.auditing.attacks.personal_data.place_reading import Place
from reticent.core.arrays import Floats
from reticent.core.choice import settle_choices
from reticent.core.model import LanguageModel


class CandidateScoring(StrEnum):
    """What is scored of a text with a candidate in its place."""

    SPAN = "span"
    IN_CONTEXT = "in context"
    SENTENCE = "sentence"


@dataclass(frozen=True, slots=True)
class HeldOutPlaces:
    """Places of held-out text by which the scores of candidates are calibrated; each kind has its own."""

    places: tuple[MaskedSpan, ...]
    weight: float = 0.3

    def log_means(self, model: LanguageModel, candidates: Sequence[str], *, kind: str) -> Floats:
        """log mean_k p(c | prefix_k) [m] over the places of the kind, in nats; 0 where there is none."""
        rows = [
            log_likelihoods(model, place, candidates, scoring=CandidateScoring.SPAN)
            for place in self.places
            if place.secret.kind == kind
        ]  # [k][m]
        if not rows:
            return np.zeros(len(candidates))
        return np.asarray(np.logaddexp.reduce(rows, axis=0) - np.log(len(rows)), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class CandidateScorer:
    """Scores candidates by a model, calibrated by another one or by other places where they are given.

    With a `shortlist`, in-context scores of all but so many candidates of a place are −∞.
    """

    model: LanguageModel
    base: LanguageModel | None = None
    scoring: CandidateScoring = CandidateScoring.IN_CONTEXT
    elsewhere: HeldOutPlaces | None = None
    shortlist: int | None = None

    def __post_init__(self) -> None:
        settle_choices(self, scoring=CandidateScoring)

    def scores(self, targets: Sequence[MaskedSpan], candidates: Sequence[Sequence[str]]) -> list[Floats]:
        """One score a candidate of every target, higher = likelier the truth."""
        if len(targets) != len(candidates):
            raise ValueError("every target needs its candidates, none included")
        offsets = self._offsets(targets, candidates)
        return [
            self._place(target, each, less) for target, each, less in zip(targets, candidates, offsets, strict=True)
        ]

    def score(self, target: MaskedSpan, candidates: Sequence[str]) -> Floats:
        """Scores [m] of the candidates of one target."""
        return self.scores([target], [candidates])[0]

    def _place(self, target: MaskedSpan, candidates: Sequence[str], less: Floats) -> Floats:
        """Scores of one target, `less` [m] taken off."""
        if (
            self.shortlist is None
            or self.scoring is not CandidateScoring.IN_CONTEXT
            or len(candidates) <= self.shortlist
        ):
            return self._own(target, candidates) - less
        place = Place(self.model, target)
        alone = less
        if self.base is not None:
            alone = less + log_likelihoods(self.base, target, candidates, scoring=CandidateScoring.SPAN)
        listed = np.argsort(alone - place.sums(candidates), kind="stable")[: self.shortlist]
        chosen = [candidates[index] for index in listed]
        scores = np.full(len(candidates), -np.inf)
        scores[listed] = place.sums(chosen, with_suffix=True) - less[listed]
        if self.base is not None:
            scores[listed] -= log_likelihoods(self.base, target, chosen, scoring=self.scoring)
        return scores

    def _own(self, target: MaskedSpan, candidates: Sequence[str]) -> Floats:
        own = log_likelihoods(self.model, target, candidates, scoring=self.scoring)
        if self.base is None:
            return own
        return own - log_likelihoods(self.base, target, candidates, scoring=self.scoring)

    def _offsets(self, targets: Sequence[MaskedSpan], candidates: Sequence[Sequence[str]]) -> list[Floats]:
        """What is taken off for being likely elsewhere, one [m] a target."""
        if self.elsewhere is None:
            return [np.zeros(len(each)) for each in candidates]
        known = self._log_means(targets, candidates, self.elsewhere)
        weight = self.elsewhere.weight
        return [
            weight * np.array([known[target.secret.kind, one] for one in each], dtype=np.float64)
            for target, each in zip(targets, candidates, strict=True)
        ]

    def _log_means(
        self, targets: Sequence[MaskedSpan], candidates: Sequence[Sequence[str]], elsewhere: HeldOutPlaces
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
    model: LanguageModel, target: MaskedSpan, candidates: Sequence[str], *, scoring: CandidateScoring
) -> Floats:
    """Log-likelihood [m] of each candidate in the target's place, in nats; for sentences the mean a token."""
    if not candidates:
        return np.empty(0)
    place = Place(model, target)
    if scoring is CandidateScoring.SENTENCE:
        return place.means(candidates)
    return place.sums(candidates, with_suffix=scoring is CandidateScoring.IN_CONTEXT)
