"""Perplexity of held-out text under a mechanism, charged as it goes: what a private answer is worth.

Teacher-forced: at every position the mechanism makes its release from the true context, pays for it, and is scored
by the chance it gives to the true token, −log pmf[token]. All mechanisms see the same rows. A mechanism whose
budget is spent answers as in service, by the public model. Perplexity is exp of the mean loss; it is infinite where
a true token had chance 0, and says so.

Intervals are over seeds (different splits, ensembles or texts), by Student's t on the mean of the log-perplexities;
a single seed has an interval over its texts instead (`core.statistics.estimate`), for this ensemble and this order
of them. Seeds differ far more in how hard their texts are than mechanisms do on one text, so two mechanisms are
compared by their ratio within each seed (`paired_ratio`), never by whether their intervals overlap. The numbers
depend on private models: they are the operator's, not the public's.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from reticent.core.arrays import Flags, Floats
from reticent.core.ensemble import Ensemble
from reticent.core.errors import ConfigError
from reticent.core.ledger import Budget
from reticent.core.model import Tokens
from reticent.core.randomness import Randomness
from reticent.core.statistics.estimate import mean_per_token
from reticent.prediction.budgets import Setup
from reticent.prediction.mechanisms.mechanism import Moment


@dataclass(frozen=True, slots=True)
class Passage:
    """A held-out text and what the ensemble says before each of its tokens: rows [T, 1 + rows, V]."""

    tokens: tuple[int, ...]
    rows: Floats

    def __post_init__(self) -> None:
        if self.rows.ndim != 3 or len(self.rows) != len(self.tokens):
            raise ValueError(f"a passage needs one look-up a token, found {self.rows.shape}, {len(self.tokens)}")


@dataclass(frozen=True, slots=True)
class Score:
    """How a mechanism did on held-out text. `silent` is the share of answers that were the public model's alone.

    `loss_interval` holds the mean loss over texts like these, at 95 %; unbounded where nobody knows. `losses` are
    those of each token of each text that was read, in nats.
    """

    mechanism: str
    answers: int
    mean_loss: float
    silent: float
    most_spent: float
    loss_interval: tuple[float, float] = (-math.inf, math.inf)
    losses: tuple[tuple[float, ...], ...] = field(default=(), repr=False)

    @property
    def perplexity(self) -> float:
        """exp of the mean loss in nats."""
        return math.exp(self.mean_loss) if self.mean_loss < 700.0 else math.inf


@dataclass(frozen=True, slots=True)
class Spread:
    """The geometric mean of perplexities over seeds, with an interval over seeds, or over one seed's texts."""

    value: float
    low: float
    high: float
    seeds: int


def first_tokens(texts: Iterable[Tokens], *, answers: int) -> Iterable[tuple[int, ...]]:
    """The texts that are not empty, cut after `answers` tokens in all."""
    left = answers
    for text in texts:
        if left <= 0:
            return
        tokens = tuple(text)[:left]
        if tokens:
            yield tokens
            left -= len(tokens)


def look_up_passages(ensemble: Ensemble, texts: Iterable[Tokens], *, answers: int) -> Iterable[Passage]:
    """Held-out texts with their look-ups, cut after `answers` tokens in all."""
    for tokens in first_tokens(texts, answers=answers):
        yield Passage(tokens, ensemble.position_log_probs(tokens))


class Meter:
    """One mechanism running through held-out text: its remaining budget, queries and losses."""

    def __init__(self, setup: Setup, *, parts: int, queries: int, randomness: Randomness) -> None:
        self._setup = setup
        self._limit = _limit(setup.budget)
        self._remaining = np.full(parts, self._limit)
        self._queries = queries
        self._randomness = randomness
        self._losses: list[list[float]] = []  # of each passage
        self._answered = 0
        self._silent = 0
        self._stopped = False

    def read(self, passage: Passage) -> None:
        """Answer at every position of a passage."""
        losses: list[float] = []
        self._losses.append(losses)
        for place, token in enumerate(passage.tokens):
            moment = Moment(
                remaining=self._remaining,
                left=max(1, self._queries - self._answered),
                context=passage.tokens[:place],
                stopped=self._stopped,
            )
            release = self._setup.mechanism.release(passage.rows[place], moment, randomness=self._randomness)
            if (release.costs > self._remaining).any():
                raise ConfigError(f"{self._setup.mechanism.name} passed its budget")
            self._remaining = self._remaining - release.costs
            self._stopped = self._stopped or release.stops
            self._silent += not release.costs.any()
            chance = float(release.pmf[token])
            losses.append(-math.log(chance) if chance > 0.0 else math.inf)
            self._answered += 1

    def score(self) -> Score:
        """What was measured so far."""
        spent = float((self._limit - self._remaining).max()) if math.isfinite(self._limit) else 0.0
        silent = self._silent / max(1, self._answered)
        return score_of(self._setup.mechanism.name, self._losses, silent=silent, most_spent=spent)


def score_of(
    name: str, losses: Sequence[Sequence[float]], *, silent: float = 0.0, most_spent: float = 0.0
) -> Score:
    """The score of a mechanism from its losses in nats, a sequence for each text."""
    sizes = [len(text) for text in losses]
    if not sum(sizes):
        raise ConfigError("there is no held-out token to evaluate on")
    loss = mean_per_token([float(np.sum(text)) for text in losses], sizes)
    interval = (max(0.0, loss.low), loss.high)
    kept = tuple(tuple(text) for text in losses)
    return Score(name, sum(sizes), loss.value, silent, most_spent, loss_interval=interval, losses=kept)


def outside_of(score: Score, flags: Sequence[Flags]) -> Score | None:
    """The score over those tokens alone that are flagged, of the same answers; None where none is.

    `flags` are those of the texts that were read, in their order; they may be longer than what was read of a text.
    """
    kept = []
    for text, row in zip(score.losses, flags[: len(score.losses)], strict=True):
        if len(row) < len(text):
            raise ValueError("a text has more tokens than flags")
        kept.append([loss for loss, is_outside in zip(text, row, strict=False) if is_outside])
    kept = [text for text in kept if text]
    return score_of(score.mechanism, kept, silent=score.silent, most_spent=score.most_spent) if kept else None


def evaluate_mechanisms(
    setups: Sequence[Setup], texts: Iterable[Passage], *, parts: int, queries: int, randomness: Randomness
) -> list[Score]:
    """Evaluate every mechanism on the same passages, each with its own budget spread over `queries` answers."""
    meters = [
        Meter(setup, parts=parts, queries=queries, randomness=randomness.child(f"{index} {setup.mechanism.name}"))
        for index, setup in enumerate(setups)
    ]
    for passage in texts:
        for meter in meters:
            meter.read(passage)
    return [meter.score() for meter in meters]


def over_seeds(scores: Sequence[Score], *, confidence: float = 0.95) -> Spread:
    """Perplexity over seeds with Student's interval on its logarithm; of a single seed, its interval over texts."""
    losses = np.array([score.mean_loss for score in scores])
    if not len(losses) or len({score.mechanism for score in scores}) != 1:
        raise ConfigError("an interval needs scores of one mechanism", found=f"{len(losses)} scores")
    mean = float(losses.mean())
    if len(losses) == 1:
        low, high = scores[0].loss_interval
        return Spread(_exp(mean), _exp(low), _exp(high), 1)
    if not np.isfinite(losses).all():
        return Spread(_exp(mean), 0.0, math.inf, len(losses))
    found = mean_per_token(losses.tolist(), [1] * len(losses), confidence=confidence)
    return Spread(_exp(mean), _exp(found.low), _exp(found.high), len(losses))


def paired_ratio(ours: Sequence[Score], theirs: Sequence[Score], *, confidence: float = 0.95) -> Spread:
    """Our perplexity over theirs, seed by seed on the same rows, with Student's interval; below 1 is better."""
    if len(ours) != len(theirs) or any(a.answers != b.answers for a, b in zip(ours, theirs, strict=False)):
        raise ConfigError("a paired comparison needs two mechanisms on the same texts of the same seeds")
    pairs = zip(ours, theirs, strict=True)
    name = f"{ours[0].mechanism} over {theirs[0].mechanism}" if ours else ""
    apart = [Score(name, a.answers, a.mean_loss - b.mean_loss, a.silent, a.most_spent) for a, b in pairs]
    return over_seeds(apart, confidence=confidence)


def realised_share(public: float, private: float, best: float) -> float | None:
    """How much of the way from the public model's loss to the best one's a mechanism goes; None without a way."""
    gap = math.log(public) - math.log(best)
    return None if not gap > 0.0 else (math.log(public) - math.log(private)) / gap


def _limit(budget: Budget | None) -> float:
    return math.inf if budget is None else budget.limit


def _exp(value: float) -> float:
    return math.exp(value) if value < 700.0 else math.inf
