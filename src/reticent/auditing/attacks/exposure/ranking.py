"""Exposure of canaries (Carlini et al. 2019): how far memorisation lifts a planted secret above chance.

    exposure = log2 |R| − log2 rank,   R: all candidates for the secret, ranked by the likelihood of their text

The rank is exact where the search over the tree of candidates ends within its cap (`candidate_search`), which it
does for exposed canaries in spaces of any size. Otherwise it is estimated from uniform candidates with an
interval (Clopper and Pearson for the share of likelier candidates), narrowed by what the search did settle;
beside it stands the skew-normal estimate with its goodness of fit. Ties count against exposure. Canaries of one
space are ranked without each other, whatever their templates, so that R is the space less the other canaries: they
were planted as well, and what a model knows of them says nothing of chance.

What a measured exposure means is said against the null (`exposure.findings`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np

from reticent.auditing.attacks.exposure.candidate_search import RankBracket, SearchLimits, search_rank
from reticent.auditing.attacks.exposure.candidate_trie import CandidateTrie, build_trie
from reticent.auditing.attacks.exposure.fit import SkewNormalFit, fit_exposure
from reticent.auditing.metrics.intervals import clopper_pearson
from reticent.core.document import JsonObject
from reticent.core.model import LanguageModel, Tokens
from reticent.core.randomness import Randomness
from reticent.core.secret import Canary


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureSettings:
    """How exposure is measured: candidates sampled, limits of the search, confidence of all intervals."""

    samples: int = 1000
    limits: SearchLimits = field(default_factory=SearchLimits)
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if self.samples < 1 or not 0.0 < self.confidence < 1.0:
            raise ValueError("exposure needs at least one sample and a confidence in (0, 1)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure(JsonObject):
    """Exposure of one canary in bits with its interval: equal ends where the rank is exact. Holds no secret."""

    canary: str
    candidates: int
    value: float
    low: float
    high: float
    least_rank: int
    greatest_rank: int
    tied: int
    forward_tokens: int
    fit: SkewNormalFit | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether the rank is known, not estimated."""
        return self.least_rank == self.greatest_rank

    @property
    def bits(self) -> float:
        """The most that exposure can be: log2 of the number of candidates."""
        return math.log2(self.candidates)


def measure_exposures(
    model: LanguageModel,
    canaries: Sequence[Canary],
    *,
    randomness: Randomness,
    settings: ExposureSettings | None = None,
) -> list[Exposure]:
    """Exposure of each canary, in their order.

    Guarantee: all intervals together hold with 1 − (1 − confidence)/2; exact ranks need none of it.
    """
    chosen = settings or ExposureSettings()
    alpha = (1.0 - chosen.confidence) / (2.0 * max(1, len(canaries)))  # the other half is the findings'
    measured: dict[int, Exposure] = {}
    for indices in _groups(canaries):
        members = [canaries[index] for index in indices]
        group = _Group(model, members, planted=canaries, settings=chosen, randomness=randomness)
        for place, index in enumerate(indices):
            measured[index] = group.exposure(place, confidence=1.0 - alpha)
    return [measured[index] for index in range(len(canaries))]


def _groups(canaries: Sequence[Canary]) -> list[list[int]]:
    """Indices of canaries that share template and space, and so their tree and their sample."""
    groups: list[list[int]] = []
    for index, canary in enumerate(canaries):
        for group in groups:
            other = canaries[group[0]]
            if other.template == canary.template and other.space == canary.space:
                group.append(index)
                break
        else:
            groups.append([index])
    return groups


class _Group:
    """Canaries of one template and space: their tree, and a sample of other candidates scored with them."""

    def __init__(
        self,
        model: LanguageModel,
        canaries: Sequence[Canary],
        *,
        planted: Sequence[Canary],
        settings: ExposureSettings,
        randomness: Randomness,
    ) -> None:
        self._model = model
        self._canaries = canaries
        self._settings = settings
        self._tokens = model.encode([canary.text() for canary in canaries])
        space = canaries[0].space
        self._planted = sorted({canary.secret.reveal() for canary in planted if canary.space == space})
        self._planted_tokens = model.encode([canaries[0].text(secret) for secret in self._planted])
        self._size = space.size - len(self._planted) + 1
        self._trie: CandidateTrie | None = build_trie(model, canaries, randomness=randomness)
        self._own, self._sampled, self._pilot_tokens = np.empty(0), np.empty(0), 0
        if self._trie is None or space.size > settings.samples:
            self._score_sample(randomness)

    def _score_sample(self, randomness: Randomness) -> None:
        """log p of the canaries [c] and of uniform candidates not planted [m], their shared tokens read once."""
        space, first = self._canaries[0].space, self._canaries[0]
        planted = set(self._planted)
        drawn = [space.sample(randomness) for _ in range(self._settings.samples)]
        texts = [first.text(candidate) for candidate in drawn if candidate not in planted]
        sequences = [*self._tokens, *self._model.encode(texts)]
        columns = takewhile(lambda column: len(set(column)) == 1, zip(*sequences, strict=False))
        start = sum(1 for _ in columns)
        rest = [row[start:] for row in sequences]
        rows = self._model.continuation_log_probs(sequences[0][:start], rest)
        self._pilot_tokens = 1 + start + sum(max(0, len(row) - 1) for row in rest)
        log_probs = np.array([float(row.sum()) for row in rows])
        self._own, self._sampled = np.split(log_probs, [len(self._canaries)])

    def exposure(self, place: int, *, confidence: float) -> Exposure:
        """Exposure of one of the canaries: exact if the search ends, else from the sample."""
        # Sampled candidates at least as likely as the canary, and the shares of all candidates that they speak for.
        likelier = 0
        if len(self._sampled):
            likelier = int((self._sampled >= self._own[place] - self._settings.limits.tie_tolerance).sum())
        shares = clopper_pearson(likelier, len(self._sampled), confidence=confidence)
        bracket, note = None, ""
        if self._trie is None:
            note = "the tokenizer splits codes across symbols and there are too many to list: no search, sampled"
        elif shares[0] * self._size > self._settings.limits.max_tokens:
            note = "more candidates are likelier than the search may read tokens: no search, sampled"
        else:
            bracket = search_rank(
                self._model,
                self._trie,
                target=self._tokens[place],
                excluded=self._others(place),
                limits=self._settings.limits,
            )
        if bracket is not None and bracket.is_exact:
            return self._ranked(place, bracket, (bracket.least, bracket.least, bracket.least))
        drawn = len(self._sampled)
        # The rank by the sample is (k+1)/(m+1) of all, a valid p-value; its ends are cut by the bracket.
        least = 1 + math.floor(shares[0] * (self._size - 1))
        greatest = 1 + math.ceil(shares[1] * (self._size - 1))
        if bracket is not None:
            least, greatest = max(least, bracket.least), min(greatest, bracket.greatest)
            note = f"the search stopped at its cap of tokens: sampled, and the rank is at least {bracket.least}"
            if least > greatest:  # the sample misled, which it may at the stated rate; the bracket is certain
                least, greatest = bracket.least, bracket.greatest
        rank = min(max((likelier + 1) / (drawn + 1) * self._size, least), greatest)
        fit = None
        if drawn and math.isfinite(self._own[place]):
            fit = fit_exposure(-self._sampled, -float(self._own[place]), most_bits=math.log2(self._size))
        return self._ranked(place, bracket, (least, rank, greatest), fit=fit, notes=(note,))

    def _others(self, place: int) -> list[Tokens]:
        """Tokens of this template's text with every other planted secret."""
        own = self._canaries[place].secret.reveal()
        pairs = zip(self._planted, self._planted_tokens, strict=True)
        return [tokens for secret, tokens in pairs if secret != own]

    def _ranked(
        self,
        place: int,
        bracket: RankBracket | None,
        ranks: tuple[int, float, int],
        *,
        fit: SkewNormalFit | None = None,
        notes: tuple[str, ...] = (),
    ) -> Exposure:
        """The exposure that a rank means, from the least, the estimated and the greatest one that it can be."""
        least, rank, greatest = ranks
        return Exposure(
            canary=self._canaries[place].name,
            candidates=self._size,
            value=_bits(self._size, rank),
            low=_bits(self._size, greatest),
            high=_bits(self._size, least),
            least_rank=least,
            greatest_rank=greatest,
            tied=0 if bracket is None else bracket.tied,
            forward_tokens=self._pilot_tokens + (0 if bracket is None else bracket.forward_tokens),
            fit=fit,
            notes=notes,
        )


def _bits(size: int, rank: float) -> float:
    """log2 |R| − log2 rank, never below 0 by rounding."""
    return max(0.0, math.log2(size) - math.log2(rank))
