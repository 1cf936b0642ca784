"""How a token is drawn from a next-token distribution: temperature, top-k, top-p.

`Sampling.transform` is the one definition. Adapters sample by it, lazy reconstruction computes with it the
exact chance that a text is emitted, and predictors account on what it returns. Greedy decoding is temperature 0.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.core.arrays import Floats
from reticent.core.divergence import log_normalise


@dataclass(frozen=True, slots=True)
class Sampling:
    """How text is sampled from a model.

    `temperature` may be a schedule: one value a position, the last one repeated.

    Order of the steps: temper, then keep the `top_k` likeliest tokens, then the smallest set of likeliest
    tokens that holds `top_p` of the mass; renormalise. Ties at the edge are resolved by token id.
    """

    max_tokens: int = 64
    temperature: float | tuple[float, ...] = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        schedule = self.temperature if isinstance(self.temperature, tuple) else (self.temperature,)
        if not schedule or any(not 0.0 <= t < float("inf") for t in schedule):
            raise ValueError("temperatures must be finite and at least 0")
        if self.max_tokens < 1:
            raise ValueError("max_tokens must be at least 1")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError("top_k must be at least 1")
        if self.top_p is not None and not 0.0 < self.top_p <= 1.0:
            raise ValueError("top_p must be in (0, 1]")

    def temperature_at(self, position: int) -> float:
        """The temperature of the token drawn at `position`, 0 being the first."""
        if isinstance(self.temperature, tuple):
            return self.temperature[min(position, len(self.temperature) - 1)]
        return self.temperature

    @property
    def is_plain(self) -> bool:
        """Whether tokens are drawn from the model's own distribution, unchanged."""
        schedule = self.temperature if isinstance(self.temperature, tuple) else (self.temperature,)
        return all(t == 1.0 for t in schedule) and self.top_k is None and self.top_p in (None, 1.0)

    def transform(self, log_probs: ArrayLike, position: int) -> Floats:
        """Log-pmf [..., V] from which the token at `position` is drawn, given the model's [..., V]."""
        rows = np.asarray(log_probs, dtype=np.float64)
        temperature = self.temperature_at(position)
        if temperature == 0.0:
            winner = rows.argmax(axis=-1)
            greedy = np.full(rows.shape, -np.inf)
            np.put_along_axis(greedy, winner[..., None], 0.0, axis=-1)
            return greedy
        rows = log_normalise(rows / temperature)
        if self.top_k is not None and self.top_k < rows.shape[-1]:
            rows = log_normalise(np.where(_rank(rows) < self.top_k, rows, -np.inf))
        if self.top_p is not None and self.top_p < 1.0:
            rows = log_normalise(np.where(_mass_before(rows) < self.top_p, rows, -np.inf))
        return rows


def _rank(rows: Floats) -> NDArray[np.int64]:
    """Place of each token in its row, the likeliest 0; equal tokens by id."""
    order = np.argsort(-rows, axis=-1, kind="stable")
    ranks = np.empty_like(order)
    places = np.broadcast_to(np.arange(rows.shape[-1]), rows.shape)
    np.put_along_axis(ranks, order, places, axis=-1)
    return ranks


def _mass_before(rows: Floats) -> Floats:
    """Probability of all likelier tokens than each token; the likeliest has 0."""
    order = np.argsort(-rows, axis=-1, kind="stable")
    ordered = np.exp(np.take_along_axis(rows, order, axis=-1))
    before = np.cumsum(ordered, axis=-1) - ordered
    result = np.empty_like(rows)
    np.put_along_axis(result, order, before, axis=-1)
    return result
