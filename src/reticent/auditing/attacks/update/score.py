"""What two snapshots of a model say of a phrase: the differential score and its relatives.

    DS(t_1 … t_n)  = Σ_i  p'(t_i | t_<i) − p(t_i | t_<i)                      between −n and n
    DS~(t_1 … t_n) = Σ_i (p'(t_i | t_<i) − p(t_i | t_<i)) / max(p(t_i | t_<i), 1e-5)     at least −n
    bits           = Σ_i  log2 p'(t_i | t_<i) − log2 p(t_i | t_<i)            what an update taught about a text

p is the snapshot before the update and p' the one after. A phrase stands at the start of a text, or after a given
prefix whose own tokens are not scored. Which text was *removed* is the same question with the roles swapped.

The paper's DS~ divides by p itself. A subword model gives most of its tokens hardly any probability, and the
paper's score then ranks strings first that rose from next to nothing to almost nothing. The floor of 1e-5 leaves
words that a model of some thousand words can say as they are.

Reference: Zanella-Béguelin et al. 2020, definitions 1 and 2. A score is no probability and proves no membership: it
is read against null snapshots, made without the text in question (`update.null`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

import numpy as np

from reticent.core.arrays import Floats
from reticent.core.choice import member_of
from reticent.core.errors import ModelError
from reticent.core.model import LanguageModel, Tokens

LEAST_PROBABILITY: Final = 1e-300
RELATIVE_FLOOR: Final = 1e-5
_LOG_LEAST: Final = float(np.log(LEAST_PROBABILITY))
_LOG_FLOOR: Final = float(np.log(RELATIVE_FLOOR))
_PROBE: Final = "The 3 probes: we’ve read them all, twice.\n"
_LOG2: Final = float(np.log(2.0))


class UpdateScore(StrEnum):
    """By which score an update's phrases are ordered."""

    ABSOLUTE = "absolute"  # DS
    RELATIVE = "relative"  # DS~

    def increments(self, before: Floats, after: Floats) -> Floats:
        """What each token adds to the score, from its log-probabilities before and after (equal shapes)."""
        difference: Floats = np.exp(after) - np.exp(before)
        if self is UpdateScore.ABSOLUTE:
            return difference
        return np.asarray(difference / np.exp(np.maximum(before, _LOG_FLOOR)))

    @property
    def most_per_token(self) -> float:
        """The most that one token can add."""
        return 1.0 if self is UpdateScore.ABSOLUTE else 1.0 / RELATIVE_FLOOR


@dataclass(frozen=True, slots=True)
class PhraseScore:
    """How much likelier an update made one phrase, by each score. `repr` shows no token: they may be private."""

    tokens: tuple[int, ...]
    increments: tuple[float, ...]  # of DS, one a token: the score by length of the known prefix
    score: float  # DS
    relative: float  # DS~
    bits: float
    context: tuple[int, ...] = ()  # the tokens before it, which are not scored

    def __repr__(self) -> str:
        return f"PhraseScore({len(self.tokens)} tokens, DS {self.score:.3f})"

    def by(self, score: UpdateScore) -> float:
        """DS or DS~."""
        chosen = member_of(UpdateScore, score, name="score")
        return self.score if chosen is UpdateScore.ABSOLUTE else self.relative


class Snapshots:
    """One model before and after an update, on one vocabulary."""

    def __init__(self, before: LanguageModel, after: LanguageModel) -> None:
        self.before = before
        self.after = after
        _check_compatible(before, after)

    def __repr__(self) -> str:
        return f"Snapshots({self.before.name} → {self.after.name})"

    @property
    def is_identical(self) -> bool:
        """Whether nothing was updated: same weights, same tokenizer."""
        return self.before.fingerprint == self.after.fingerprint

    @property
    def special_tokens(self) -> frozenset[int]:
        """Start and end token: no part of a phrase."""
        ends = {self.before.end_token, self.after.end_token, self.before.start_token}
        return frozenset(token for token in ends if token is not None)

    def swapped(self) -> "Snapshots":
        """The roles exchanged: what an update removed."""
        return Snapshots(self.after, self.before)

    def check_room(self, length: int) -> None:
        """Refuse a length, prefix included, that a snapshot cannot read."""
        for model in (self.before, self.after):
            if model.context_length is not None and length + 1 > model.context_length:
                raise ModelError(
                    f"the phrases are too long for the model '{model.name}'",
                    found=f"{length} tokens, prefix included, and the start token",
                    expected=f"at most {model.context_length}",
                    hint="search for shorter phrases or give a shorter prefix",
                )

    def score(self, phrases: Sequence[Tokens], *, prefix: Tokens = ()) -> list[PhraseScore]:
        """The scores of given phrases after a prefix."""
        self.check_room(len(prefix) + max(map(len, phrases), default=0))
        before = self.before.continuation_log_probs(prefix, phrases)
        after = self.after.continuation_log_probs(prefix, phrases)
        return [phrase_score(*each, context=prefix) for each in zip(phrases, before, after, strict=True)]


def phrase_score(tokens: Tokens, before: Floats, after: Floats, *, context: Tokens = ()) -> PhraseScore:
    """The scores of a phrase from its tokens' log-probabilities [n] before and after."""
    increments = UpdateScore.ABSOLUTE.increments(before, after)
    bits = np.maximum(after, _LOG_LEAST) - np.maximum(before, _LOG_LEAST)
    return PhraseScore(
        tokens=tuple(map(int, tokens)),
        increments=tuple(map(float, increments)),
        score=float(increments.sum()),
        relative=float(UpdateScore.RELATIVE.increments(before, after).sum()),
        bits=float(bits.sum()) / _LOG2,
        context=tuple(map(int, context)),
    )


def timeline(models: Sequence[LanguageModel], phrases: Sequence[PhraseScore]) -> Floats:
    """DS of each phrase after its context, at each update between successive snapshots: [len(models) − 1, n]."""
    if len(models) < 2:
        raise ValueError("an update needs two snapshots")
    whole = [[*phrase.context, *phrase.tokens] for phrase in phrases]
    for first, second in pairwise(models):
        Snapshots(first, second).check_room(max(map(len, whole), default=0))
    probabilities = [
        [
            np.exp(row[len(one.context) :]).sum()
            for one, row in zip(phrases, model.token_log_probs(whole), strict=True)
        ]
        for model in models
    ]
    return np.diff(np.array(probabilities), axis=0)


def _check_compatible(before: LanguageModel, after: LanguageModel) -> None:
    """Refuse snapshots whose tokens do not mean the same."""
    hint = "compare snapshots of one model, or retrain the second with the first one's tokenizer"
    if before.vocabulary_size != after.vocabulary_size:
        raise ModelError(
            "the snapshots have different vocabularies",
            found=f"{after.vocabulary_size} tokens after, {before.vocabulary_size} before",
            expected="one vocabulary",
            hint=hint,
        )
    ids = [[token] for token in range(before.vocabulary_size)]
    different = sum(a != b for a, b in zip(before.decode(ids), after.decode(ids), strict=True))
    if different or _encoded(before) != _encoded(after) or before.start_token != after.start_token:
        raise ModelError(
            "the snapshots have different tokenizers",
            found=f"{different} tokens with another text" if different else "texts that are split differently",
            expected="one tokenizer",
            hint=hint,
        )


def _encoded(model: LanguageModel) -> list[list[int]] | None:
    """A fixed text as the model splits it; None where its vocabulary cannot write it."""
    try:
        return model.encode([_PROBE])
    except ModelError:
        return None
