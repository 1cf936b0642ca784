"""Membership scores that compare the model with its base token by token, d_t = log p(x_t) − log p_ref(x_t).

    WBC   mean over window sizes w ∈ {2, 3, 4, 6, 9, 13, 18, 25, 32, 40} of the share of sliding windows of w tokens
          whose reference loss exceeds the target's, that is Σ d > 0               Chen et al. 2026
    EZ    over the positions where the model's likeliest token is wrong ("error zone"):
          Σ max(d, 0) / Σ max(−d, 0)

WBC: sizes longer than the text are left out, and a text shorter than all of them is one window; an equal window
counts half. EZ is reported through x ↦ x/(1 + x), that is Σ₊/(Σ₊ + Σ₋) in [0, 1] and 1/2 where both are 0: the
same order, and finite. Published code scores texts without a wrong position as non-members, though they are the
best memorised; here they rank above all others, by their likelihood: 1 + the geometric mean of their tokens'
probabilities.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from reticent.auditing.attacks.membership.attack import LogProbScore, text_by_text
from reticent.auditing.attacks.membership.target_scores import TargetScores
from reticent.core.model import Floats

WINDOW_SIZES = (2, 3, 4, 6, 9, 13, 18, 25, 32, 40)


@dataclass(frozen=True, slots=True)
class WindowComparison(LogProbScore):
    """Share of windows, over many sizes, that the model knows better than its base (WBC)."""

    sizes: tuple[int, ...] = WINDOW_SIZES
    name: ClassVar[str] = "wbc"
    needs_reference: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise ValueError("windows need sizes of at least one token")

    def score(self, targets: TargetScores) -> Floats:
        """Mean share of windows won, in [0, 1]."""
        return text_by_text(targets, lambda i: windows_won(targets.differences[i], self.sizes))


def windows_won(differences: Floats, sizes: tuple[int, ...]) -> float:
    """Mean over window sizes of the share of windows of `differences` [T] with a positive sum."""
    fitting = [size for size in sizes if size <= len(differences)] or [len(differences)]
    total = np.concatenate([[0.0], np.cumsum(differences)])  # [T + 1]
    shares = []
    for size in fitting:
        sums = total[size:] - total[:-size]  # [T − size + 1]
        shares.append(float(((sums > 0.0) + 0.5 * (sums == 0.0)).mean()))
    return float(np.mean(shares))


@dataclass(frozen=True, slots=True)
class ErrorZone(LogProbScore):
    """What the model gained over its base where its own best guess is wrong (EZ)."""

    name: ClassVar[str] = "ez"
    needs_reference: ClassVar[bool] = True
    needs_distributions: ClassVar[bool] = True

    def score(self, targets: TargetScores) -> Floats:
        """In [0, 1] where a likeliest token is wrong, in [1, 2] where none is."""

        def gain(index: int) -> float:
            log_probs = targets.log_probs[index]
            # A token as likely as the likeliest is not wrong; the margin is float32's, for models that score in it.
            is_wrong = log_probs < targets.positions[index].top - 1e-5
            if not is_wrong.any():
                return 1.0 + math.exp(float(log_probs.mean()))
            inside = targets.differences[index][is_wrong]
            gained, lost = float(np.maximum(inside, 0.0).sum()), float(np.maximum(-inside, 0.0).sum())
            return gained / (gained + lost) if gained + lost > 0.0 else 0.5

        return text_by_text(targets, gain)
