"""What membership attacks see of their targets, computed once and shared by all of them.

Per text: token log-probabilities of the target model and of a reference (the base model, say), of the lower-cased
text, and per position what the whole next-token distribution says. Each is computed at its first use.

Counting, the same for every attack: T tokens have T log-probabilities, the first one conditioned on the start
token; the start token is never scored and no end token is appended. A text longer than the context is cut to what
fits (`truncated` counts them). Log-probabilities are kept within [log of the least positive float64, 0]: of two
models that call a token impossible, neither is preferred, and no difference is NaN.

Does not store model outputs on disk; the caller keys caches by the fingerprints of models and corpus.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from reticent.core.arrays import Floats
from reticent.core.errors import AccessError, ModelError
from reticent.core.model import LanguageModel, Tokens

LEAST_LOG_PROB = float(np.log(np.nextafter(0.0, 1.0)))  # −744.4
_CONTEXTS_AT_ONCE = 32


@runtime_checkable
class PositionModel(Protocol):
    """A model that gives the distributions at all positions of a sequence in one forward."""

    def position_log_probs(self, sequence: Tokens) -> Floats:
        """log p(· | start, x_<t) for every position t, as [T, V]."""
        ...


@dataclass(frozen=True, slots=True)
class Positions:
    """The next-token distributions along one text, as far as attacks need them; each [T]."""

    top: Floats  # log-probability of the likeliest token
    mean: Floats  # E log p(z), z drawn from the distribution itself
    deviation: Floats  # standard deviation of log p(z)


class TargetScores:
    """The targets of a membership attack with the evidence on them, each piece computed once."""

    def __init__(
        self, texts: Sequence[str], target: LanguageModel, *, reference: LanguageModel | None = None
    ) -> None:
        self.texts = tuple(texts)
        self.target = target
        self.reference = reference
        if not self.texts:
            raise ValueError("membership inference needs at least one target")

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        against = "" if self.reference is None else f" against {self.reference.name}"
        return f"TargetScores({len(self)} texts, {self.target.name}{against})"

    @cached_property
    def tokens(self) -> list[list[int]]:
        """The target model's tokens of each text, cut to the shorter of the two contexts."""
        room = _room([model for model in (self.target, self.reference) if model is not None])
        return [tokens[:room] for tokens in self._encoded]

    @cached_property
    def truncated(self) -> int:
        """Number of texts that were longer than the context."""
        return sum(len(whole) > len(kept) for whole, kept in zip(self._encoded, self.tokens, strict=True))

    @cached_property
    def log_probs(self) -> list[Floats]:
        """Token log-probabilities of each text under the target model."""
        return scored(self.target, self.tokens)

    @cached_property
    def reference_log_probs(self) -> list[Floats]:
        """Token log-probabilities of the same tokens under the reference, which must have the same tokenizer."""
        reference = self._needed_reference()
        if reference.encode(self.texts) != self._encoded:
            raise ModelError(
                f"the reference '{reference.name}' and '{self.target.name}' split the targets differently",
                expected="one tokenizer for both, so that losses can be compared token by token",
                hint="use the model's own base as the reference",
            )
        return scored(reference, self.tokens)

    @cached_property
    def differences(self) -> list[Floats]:
        """log p_target − log p_reference of every token."""
        return [mine - other for mine, other in zip(self.log_probs, self.reference_log_probs, strict=True)]

    @cached_property
    def lower_case_log_probs(self) -> list[Floats]:
        """Token log-probabilities of each lower-cased text; the very arrays of the text where nothing changes."""
        lowered = [text.lower() for text in self.texts]
        room = _room([self.target])
        changed = [index for index, text in enumerate(lowered) if text != self.texts[index]]
        result = list(self.log_probs)
        encoded = self.target.encode([lowered[index] for index in changed])
        for index, values in zip(changed, scored(self.target, [row[:room] for row in encoded]), strict=True):
            result[index] = values
        return result

    @cached_property
    def positions(self) -> list[Positions]:
        """Summaries of the target model's full distributions along each text."""
        return [_positions(self.target, tokens) for tokens in self.tokens]

    @cached_property
    def _encoded(self) -> list[list[int]]:
        return [list(tokens) for tokens in self.target.encode(self.texts)]

    def _needed_reference(self) -> LanguageModel:
        if self.reference is None:
            raise AccessError(
                "this attack compares the model with a reference, and there is none",
                hint="give the base model that was fine-tuned",
            )
        return self.reference


def scored(model: LanguageModel, sequences: Sequence[Tokens]) -> list[Floats]:
    """Token log-probabilities of each sequence, kept finite; an empty sequence has none and is not sent."""
    result: list[Floats] = [np.empty(0) for _ in sequences]
    filled = [index for index, sequence in enumerate(sequences) if len(sequence) > 0]
    for index, values in zip(filled, model.token_log_probs([sequences[i] for i in filled]), strict=True):
        if len(values) != len(sequences[index]) or np.isnan(values).any():
            raise ModelError(f"'{model.name}' gave no log-probability for some token of target {index}")
        result[index] = np.clip(np.asarray(values, dtype=np.float64), LEAST_LOG_PROB, 0.0)
    return result


def _room(models: Iterable[LanguageModel]) -> int | None:
    """Tokens that fit every model beside its start token; None without limit."""
    limits = [model.context_length - 1 for model in models if model.context_length is not None]
    return min(limits, default=None)


def _positions(model: LanguageModel, tokens: list[int]) -> Positions:
    """Summaries of one text. Without `position_log_probs` every prefix is a context of its own, which is slow."""
    if isinstance(model, PositionModel):
        pieces = [_summary(model.position_log_probs(tokens))] if tokens else []
    else:
        contexts = [tokens[:place] for place in range(len(tokens))]
        starts = range(0, len(contexts), _CONTEXTS_AT_ONCE)
        pieces = [_summary(model.next_token_log_probs(contexts[s : s + _CONTEXTS_AT_ONCE])) for s in starts]
    return Positions(*(np.concatenate(pieces, axis=1) if pieces else np.empty((3, 0))))


def _summary(rows: Floats) -> Floats:
    """Top log-probability, mean and deviation of log p under each row of log-pmfs [T, V], as [3, T]."""
    log_probs = np.maximum(rows, LEAST_LOG_PROB)  # an impossible token weighs nothing
    weights = np.exp(rows)
    mean = (weights * log_probs).sum(axis=1)
    spread = (weights * (log_probs - mean[:, None]) ** 2).sum(axis=1)
    return np.stack([np.minimum(rows.max(axis=1), 0.0), mean, np.sqrt(spread)])
