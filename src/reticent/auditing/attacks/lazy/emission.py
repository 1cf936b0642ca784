"""Lazy reconstruction: the exact probability that a sampler emits a given text, without sampling.

    log p(x) = Σ_t log q_t(x_t | prompt, x_<t),   q_t: the sampler's distribution at t (`Sampling.transform`)

(Stock et al. 2022, section 5.) Chance to appear at least once in n samples:  1 − (1 − p)^n, computed in log space,
since 1 − (1 − p)^n is 0 in floating point for every p below 1e-16, which is where nearly all records are.

Plain sampling needs one forward over the texts. Temperatures and truncation need whole next-token distributions,
which the protocol gives one position at a time: each position is a batch over all texts that are still possible,
equal contexts once. Under top-k and top-p most texts die within a few tokens, which ends their cost.

What is priced is the model's own tokenisation of the text as the beginning of the output; the same characters may
also come from other tokens, so the chance is a lower bound. `Sampling.max_tokens` is not part of it: whoever
wants a text of T tokens asks for T.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from reticent.core.arrays import Floats
from reticent.core.model import LanguageModel, Tokens
from reticent.core.sampling import Sampling

_MOST_ENTRIES: Final = 2**22  # float64 entries of next-token distributions held at once: 32 MB
_TINY: Final = -37.0  # e^-37 is below float64's precision relative to 1: log(−log1p(−e^x)) = x


def emission_log_prob(
    model: LanguageModel,
    sequences: Sequence[Tokens],
    sampling: Sampling,
    *,
    prompts: Sequence[Tokens] | None = None,
) -> Floats:
    """log-probability [n] that the sampler's next tokens are exactly each sequence, after the start or its prompt.

    −inf only where truncation or the model itself makes a token impossible. Append `model.end_token` to a sequence
    for the chance that the output ends there.
    """
    starts: Sequence[Tokens] = [()] * len(sequences) if prompts is None else prompts
    if len(starts) != len(sequences):
        raise ValueError(f"one prompt a sequence is needed, found {len(starts)} for {len(sequences)}")
    if sampling.is_plain:
        scored = plain_log_probs(model, starts, sequences)
        return np.array([float(values.sum()) for values in scored])
    return _position_by_position(model, starts, sequences, sampling)


def plain_log_probs(model: LanguageModel, starts: Sequence[Tokens], sequences: Sequence[Tokens]) -> list[Floats]:
    """Each token's log-probability; a prompt that several sequences share is read once."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, start in enumerate(starts):
        groups.setdefault(tuple(start), []).append(index)
    scores: list[Floats] = [np.empty(0) for _ in sequences]
    together = []  # without a prompt, or with one of their own: one call, so that batches are full
    for start, indices in groups.items():
        if start and len(indices) > 1:
            found = model.continuation_log_probs(start, [sequences[index] for index in indices])
            for index, values in zip(indices, found, strict=True):
                scores[index] = values
        else:
            together += indices
    found = model.token_log_probs([[*starts[index], *sequences[index]] for index in together])
    for index, values in zip(together, found, strict=True):
        scores[index] = values[len(starts[index]) :]
    return scores


def _position_by_position(
    model: LanguageModel, starts: Sequence[Tokens], sequences: Sequence[Tokens], sampling: Sampling
) -> Floats:
    """The sampler's own distribution at each position, for the sequences that can still be emitted."""
    totals = np.zeros(len(sequences))
    alive = [index for index, sequence in enumerate(sequences) if len(sequence) > 0]
    position = 0
    while alive:
        contexts: dict[tuple[int, ...], list[int]] = {}
        for index in alive:
            contexts.setdefault((*starts[index], *sequences[index][:position]), []).append(index)
        listed = list(contexts)
        rows = max(1, _MOST_ENTRIES // model.vocabulary_size)
        for first in range(0, len(listed), rows):
            piece = listed[first : first + rows]
            drawn_from = sampling.transform(model.next_token_log_probs(piece), position)  # [rows, V]
            for row, context in zip(drawn_from, piece, strict=True):
                for index in contexts[context]:
                    totals[index] += row[sequences[index][position]]
        position += 1
        alive = [index for index in alive if totals[index] > -np.inf and len(sequences[index]) > position]
    return totals


def log_chance_in_samples(log_prob: ArrayLike, samples: float) -> Floats:
    """log of the chance to appear at least once in `samples` independent draws, given log p of one; any shape.

    Guarantee: relative error near machine precision from p = 1 down; never −inf for a finite log p.
    """
    if not samples > 0.0:
        raise ValueError(f"a chance needs a positive number of samples, found {samples}")
    # y = −n log(1 − p) is the expected number of sightings of a Poisson process; the chance is 1 − e^−y.
    log_y = np.log(samples) + _log_rate(log_prob)
    with np.errstate(over="ignore"):
        return np.asarray(np.where(log_y < _TINY, log_y, _log1mexp(-np.exp(log_y))))


def _log_rate(log_prob: ArrayLike) -> Floats:
    """log(−log(1 − p)) from log p."""
    log_p = np.minimum(np.asarray(log_prob, dtype=np.float64), 0.0)  # rounding may leave log p a little above 0
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(log_p < _TINY, log_p, np.log(-_log1mexp(log_p))))


def _log1mexp(x: Floats) -> Floats:
    """log(1 − e^x) for x ≤ 0 without cancellation at either end (Mächler 2012)."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(x > -np.log(2.0), np.log(-np.expm1(x)), np.log1p(-np.exp(x))))


def calibrated_loss(log_prob: ArrayLike, reference_log_prob: ArrayLike) -> Floats:
    """φ = loss(target) − loss(reference) in nats: negative where the target knows a text better than the reference.

    From log-probabilities of the same texts. Where both are impossible there is nothing to compare: an error.
    """
    target = np.asarray(log_prob, dtype=np.float64)
    reference = np.asarray(reference_log_prob, dtype=np.float64)
    if (np.isneginf(target) & np.isneginf(reference)).any():
        raise ValueError("a text is impossible under both models: it has no calibrated loss")
    return np.asarray(reference - target)
