"""Membership inference: was this text in the training data? The protocol of an attack, and how it is run.

An attack gives one score per target, **higher = more likely a member**, and knows no metric and no label. Two rules
hold for all of them, since published code broke both:

- The most memorised text scores highest: no edge case (loss 0, no wrong prediction, no variance) sends it to the
  bottom.
- A text without tokens gives nothing to go by: −∞, ranked last. It stays in every denominator.

Metrics are in `membership.metrics`, ε lower bounds in `one_run` and `one_run_curve`.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from reticent.auditing.attacks.membership.target_scores import TargetScores
from reticent.core.arrays import Floats
from reticent.core.errors import AccessError, InternalError
from reticent.core.model import Access


@runtime_checkable
class MembershipAttack(Protocol):
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


def why_not(attack: MembershipAttack, targets: TargetScores) -> str:
    """Why the attack cannot run on these targets, for a plan; empty where it can."""
    if attack.access > targets.target.access:
        return f"needs {attack.access.name.lower()} access, the model grants {targets.target.access.name.lower()}"
    if attack.needs_reference and targets.reference is None:
        return "needs a reference model"
    return ""


def membership_scores(attack: MembershipAttack, targets: TargetScores) -> Floats:
    """The attack's scores [n], checked: one per target, no NaN."""
    if reason := why_not(attack, targets):
        raise AccessError(f"the attack '{attack.name}' cannot run here: it {reason}")
    scores = np.asarray(attack.score(targets), dtype=np.float64)
    if scores.shape != (len(targets),) or np.isnan(scores).any():
        raise InternalError(f"the attack '{attack.name}' must give one number per target")
    return scores


def run_attacks(attacks: Sequence[MembershipAttack], targets: TargetScores) -> dict[str, Floats]:
    """Scores [n] of every attack that can run here, by name; model outputs are computed once for all."""
    return {attack.name: membership_scores(attack, targets) for attack in attacks if not why_not(attack, targets)}


def text_by_text(targets: TargetScores, score: Callable[[int], float]) -> Floats:
    """Scores [n] from a function of a text's index; −∞ for texts without tokens."""
    return np.array([score(index) if there else -np.inf for index, there in enumerate(targets.has_tokens)])
