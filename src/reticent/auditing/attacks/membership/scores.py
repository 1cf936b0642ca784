"""Membership scores of one model, alone or beside its base; ℓ: mean loss per token, in nats.

    loss         −ℓ(x)                                                   Yeom et al. 2018
    calibrated   ℓ_ref(x) − ℓ(x)                                         Watson et al. 2022; Carlini et al. 2021
    zlib         −ℓ(x) / bytes of zlib(x)                                Carlini et al. 2021
    lower-case   ℓ(lower(x)) / ℓ(x)                                      Carlini et al. 2021
    min-k        mean of the k % least log-probabilities                 Shi et al. 2024
    min-k++      the same of (log p(x_t) − μ_t)/σ_t                      Zhang et al. 2025
    wbc          mean over window sizes w ∈ {2, 3, 4, 6, 9, 13, 18, 25, 32, 40} of the share of sliding windows of w
                 tokens whose reference loss exceeds the target's        Chen et al. 2026
    ez           over the positions where the model's likeliest token is wrong ("error zone"):
                 Σ max(d, 0) / Σ max(−d, 0), d_t = log p(x_t) − log p_ref(x_t)

μ_t and σ_t are mean and deviation of log p(z) over z drawn from the model's own distribution at t. The least k %
are ⌊kT⌋ tokens, at least one (published code takes the mean of none for short texts).

Edges: lower-case is +∞ at ℓ(x) = 0, and 1 (no information) where nothing is upper-case. A position whose
distribution has no spread and whose token is certain counts +∞ in min-k++: 0/0 would be neutral for the surest of
all. WBC: sizes longer than the text are left out, and a text shorter than all of them is one window; an equal
window counts half. EZ is reported through x ↦ x/(1 + x), that is Σ₊/(Σ₊ + Σ₋) in [0, 1] and 1/2 where both are 0:
the same order, and finite. Published code scores texts without a wrong position as non-members, though they are the
best memorised; here they rank above all others, by their likelihood: 1 + the geometric mean of their tokens'
probabilities.

A score is one number per target, **higher = more likely a member**, and knows no metric and no label. Two rules
hold for all of them, since published code broke both:

- The most memorised text scores highest: no edge case (loss 0, no wrong prediction, no variance) sends it to the
  bottom.
- A text without tokens gives nothing to go by: −∞, ranked last. It stays in every denominator.

Metrics are in `membership.findings`, ε lower bounds in `one_run` and `one_run_curve`.
"""

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from reticent.auditing.attacks.membership.target_scores import TargetScores
from reticent.core.arrays import Floats
from reticent.core.errors import AccessError, InternalError
from reticent.core.model import Access

WINDOW_SIZES = (2, 3, 4, 6, 9, 13, 18, 25, 32, 40)
_NO_SPREAD = 1e-7  # a deviation below is rounding: of a uniform distribution, or of a certain one


@runtime_checkable
class MembershipScore(Protocol):
    """Scores targets; higher means more likely a member."""

    @property
    def name(self) -> str:
        """Short name for tables."""
        ...

    @property
    def access(self) -> Access:
        """What the adversary must see of the model."""
        ...

    @property
    def needs_reference(self) -> bool:
        """Whether it compares with a reference model."""
        ...

    @property
    def needs_distributions(self) -> bool:
        """Whether it needs whole next-token distributions, not only those of the text's own tokens."""
        ...

    def score(self, targets: TargetScores) -> Floats:
        """One score per target, [n]; never NaN."""
        ...


class LogProbScore:
    """What a score has unless it says otherwise: it sees log-probabilities of the text's own tokens, no more."""

    __slots__ = ()
    access: ClassVar[Access] = Access.LOGPROBS
    needs_reference: ClassVar[bool] = False
    needs_distributions: ClassVar[bool] = False


def why_not(attack: MembershipScore, targets: TargetScores) -> str:
    """Why the attack cannot run on these targets, for a plan; empty where it can."""
    if attack.access > targets.target.access:
        return f"needs {attack.access.name.lower()} access, the model grants {targets.target.access.name.lower()}"
    if attack.needs_reference and targets.reference is None:
        return "needs a reference model"
    return ""


def membership_scores(attack: MembershipScore, targets: TargetScores) -> Floats:
    """The attack's scores [n], checked: one per target, no NaN."""
    if reason := why_not(attack, targets):
        raise AccessError(f"the attack '{attack.name}' cannot run here: it {reason}")
    scores = np.asarray(attack.score(targets), dtype=np.float64)
    if scores.shape != (len(targets),) or np.isnan(scores).any():
        raise InternalError(f"the attack '{attack.name}' must give one number per target")
    return scores


def run_attacks(attacks: Sequence[MembershipScore], targets: TargetScores) -> dict[str, Floats]:
    """Scores [n] of every attack that can run here, by name; model outputs are computed once for all."""
    return {attack.name: membership_scores(attack, targets) for attack in attacks if not why_not(attack, targets)}


def text_by_text(targets: TargetScores, score: Callable[[int], float]) -> Floats:
    """Scores [n] from a function of a text's index; −∞ for texts without tokens."""
    return np.array([score(index) if tokens else -np.inf for index, tokens in enumerate(targets.tokens)])


@dataclass(frozen=True, slots=True)
class LossScore(LogProbScore):
    """Membership score: minus the mean loss."""

    name: ClassVar[str] = "loss"

    def score(self, targets: TargetScores) -> Floats:
        """Mean log-probability per token."""
        return text_by_text(targets, lambda i: float(targets.log_probs[i].mean()))


@dataclass(frozen=True, slots=True)
class CalibratedScore(LogProbScore):
    """Membership score: how much lower the loss is than the reference's."""

    name: ClassVar[str] = "calibrated"
    needs_reference: ClassVar[bool] = True

    def score(self, targets: TargetScores) -> Floats:
        """Mean log-probability per token minus the reference's."""
        return text_by_text(targets, lambda i: float(targets.differences[i].mean()))


@dataclass(frozen=True, slots=True)
class ZlibScore(LogProbScore):
    """Membership score: mean loss per byte of the compressed text."""

    name: ClassVar[str] = "zlib"

    def score(self, targets: TargetScores) -> Floats:
        """Mean log-probability over the bytes of the text compressed by zlib (level 6, header included)."""

        def score(index: int) -> float:
            compressed = zlib.compress(targets.texts[index].encode("utf8", errors="surrogatepass"))
            return float(targets.log_probs[index].mean() / len(compressed))

        return text_by_text(targets, score)


@dataclass(frozen=True, slots=True)
class LowerCaseScore(LogProbScore):
    """Membership score: how much the loss grows when the text is lower-cased."""

    name: ClassVar[str] = "lower-case"

    def score(self, targets: TargetScores) -> Floats:
        """Loss of the lower-cased text over the loss of the text."""

        def ratio(index: int) -> float:
            loss = -float(targets.log_probs[index].mean())
            lowered = -float(targets.lower_case_log_probs[index].mean())
            return lowered / loss if loss > 0.0 else math.inf

        return text_by_text(targets, ratio)


@dataclass(frozen=True, slots=True)
class MinKScore(LogProbScore):
    """Membership score: mean of the least likely tokens (Min-K%)."""

    share: float = 0.2
    name: ClassVar[str] = "min-k"

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"the share of tokens must be in (0, 1], found {self.share}")

    def score(self, targets: TargetScores) -> Floats:
        """Mean of the `share` least token log-probabilities."""
        return text_by_text(targets, lambda i: mean_of_least(targets.log_probs[i], self.share))


@dataclass(frozen=True, slots=True)
class MinKPlusPlusScore(MinKScore):
    """Membership score: mean of the tokens least likely by the measure of their own distributions (Min-K%++)."""

    share: float = 0.2
    name: ClassVar[str] = "min-k++"
    needs_distributions: ClassVar[bool] = True

    def score(self, targets: TargetScores) -> Floats:
        """Mean of the `share` least standardised token log-probabilities."""
        return text_by_text(targets, lambda i: mean_of_least(_standardised(targets, i), self.share))


def mean_of_least(values: Floats, share: float) -> float:
    """Mean of the ⌊share · T⌋ least values, at least one."""
    count = max(1, int(share * len(values) + 1e-9))
    return float(np.partition(values, count - 1)[:count].mean())


def _standardised(targets: TargetScores, index: int) -> Floats:
    """(log p(x_t) − μ_t)/σ_t, [T]."""
    log_probs, positions = targets.log_probs[index], targets.positions[index]
    above = log_probs - positions.mean
    with np.errstate(divide="ignore", invalid="ignore"):
        values = above / positions.deviation
    # Without spread all possible tokens are equally likely: the token is one of them (neutral), or impossible.
    flat = positions.deviation < _NO_SPREAD
    values[flat] = np.where(log_probs[flat] < positions.mean[flat] - 1e-6, -np.inf, 0.0)
    values[log_probs == 0.0] = np.inf
    return np.asarray(values)


@dataclass(frozen=True, slots=True)
class WindowScore(LogProbScore):
    """Membership score: share of windows, over many sizes, that the model knows better than its base (WBC)."""

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
class ErrorZoneScore(LogProbScore):
    """Membership score: what the model gained over its base where its own best guess is wrong (EZ)."""

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
