"""The least noise whose *ceiling* meets a risk that people understand: no ε has to be chosen.

    tpr 0.05@0.01      no membership test finds more than 5 % of members at 1 % false alarms
    bits 10:20         of a secret of 20 bits at most 10 leak
    advantage 0.1      true-positive minus false-positive rate of any membership test is at most 0.1

The ceiling is taken from the whole privacy profile of the event, not from one (ε, δ), and so asks for less noise
than the ε that would promise the same. ε is stated beside it, always.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from reticent.accounting.bounds.ceiling import ceiling
from reticent.accounting.bounds.leakage import leakage_of_guarantee
from reticent.accounting.calibration import round_up
from reticent.accounting.guarantees import guarantee_of
from reticent.accounting.pld import privacy_profile
from reticent.core.errors import ConfigError, InternalError, TargetOutOfReach
from reticent.core.event import Event
from reticent.core.guarantee import Guarantee, Neighbours, Notion, Unit
from reticent.core.metric import ADVANTAGE, TPR_AT_FPR, shown_value, words_of
from reticent.core.printing.numbers import Scale, at_most, shown
from reticent.core.ranges import NOISE_MULTIPLIER

_SUCH_RATE = "0.05@0.01 (5 % found at 1 % false positives)"
_PRECISION = 2e-3  # relative, of the noise multiplier


@dataclass(frozen=True, slots=True)
class RiskTarget:
    """What an attack may reach at most: a metric of membership, or bits that leak of a secret of `secret_bits`."""

    metric: str
    limit: float
    secret_bits: float | None = None

    @classmethod
    def true_positive_rate(cls, text: str) -> "RiskTarget":
        """From "0.05@0.01": at most 5 % of members are found at 1 % false alarms."""
        rate, at_sign, false_alarms = text.partition("@")
        if not at_sign:
            raise ConfigError(
                "--target-tpr takes TPR@FPR, and the @ with the false-positive rate is missing",
                found=text,
                expected=f"such as {_SUCH_RATE}",
            )
        limit, at = _share(rate, "--target-tpr", text), _share(false_alarms, "--target-tpr", text)
        if limit <= at:
            raise ConfigError(
                "a true-positive rate at or below the false-positive rate is what guessing gives",
                found=text,
                expected="such as 0.05@0.01",
            )
        return cls(TPR_AT_FPR.at(at), limit)

    @classmethod
    def leaked_bits(cls, text: str) -> "RiskTarget":
        """From "10:20": at most 10 bits of a secret of 20 leak."""
        leaked, _, secret = text.partition(":")
        try:
            limit, bits = float(leaked), float(secret)
        except ValueError:
            limit = bits = math.nan
        if not 0.0 < limit < bits < math.inf:
            raise ConfigError(
                "--target-bits takes LEAKED:SECRET, and fewer bits may leak than the secret has",
                found=text,
                expected="such as 10:20",
            )
        return cls("", limit, bits)

    @classmethod
    def advantage(cls, limit: float) -> "RiskTarget":
        """True-positive minus false-positive rate of any membership test."""
        return cls(ADVANTAGE.name, _share(str(limit), "--target-advantage", str(limit)))

    @classmethod
    def of(cls, *, tpr: str | None, bits: str | None, advantage: float | None) -> "RiskTarget | None":
        """The risk that one of these options names; None where none was given."""
        if tpr is not None:
            return cls.true_positive_rate(tpr)
        if bits is not None:
            return cls.leaked_bits(bits)
        return None if advantage is None else cls.advantage(advantage)

    @property
    def name(self) -> str:
        """What is limited, in words."""
        if self.secret_bits is None:
            return words_of(self.metric)
        return f"what leaks of a secret of {shown(self.secret_bits, Scale.BITS)}"

    def shown(self, value: float) -> str:
        """A value of what is limited with its unit, rounded up."""
        if self.secret_bits is None:
            return shown_value(self.metric, value, side="up")
        return f"{at_most(value)}\u00a0bits"

    def ceiling(self, guarantee: Guarantee) -> float:
        """What the guarantee allows of the metric.

        Guarantee: no attack between neighbouring worlds has a higher expected value; ∞ where nothing is known.
        """
        if self.secret_bits is not None:
            return leakage_of_guarantee(guarantee, self.secret_bits).least
        found = ceiling(self.metric, guarantee)
        return math.inf if found is None else found


def noise_for_risk(
    target: RiskTarget,
    event: Callable[[float], Event],
    *,
    delta: float,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> float:
    """The least noise multiplier, rounded up to four digits, of which the event's ceiling meets the target.

    Guarantee: the ceiling of what `event` of the returned noise proves is at most the target's limit.
    """

    def meets(noise: float) -> bool:
        return target.ceiling(_by_profile(event(noise), delta, neighbours)) <= target.limit

    low, high = math.log(0.3), math.log(1.0)
    while not meets(math.exp(high)):
        low, high = high, high + math.log(2.0)
        if math.exp(high) > NOISE_MULTIPLIER.high:
            reached = target.ceiling(_by_profile(event(NOISE_MULTIPLIER.high), delta, neighbours))
            if reached <= target.limit:
                high = math.log(NOISE_MULTIPLIER.high)
                break
            raise TargetOutOfReach(
                "no noise is proved to reach the target",
                found=f"{target.name}: at most {target.shown(reached)} at noise multiplier "
                f"{NOISE_MULTIPLIER.high:g}",
                expected=f"at most {target.shown(target.limit)}",
                hint="raise the limit, or take fewer steps or Poisson samples",
            )
    floor = math.log(NOISE_MULTIPLIER.low)
    while low > floor and meets(math.exp(low)):
        low, high = max(low - math.log(2.0), floor), low
    if low == floor and meets(math.exp(low)):  # the least noise of all is enough
        high = low
    while high - low > _PRECISION:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if meets(math.exp(middle)) else (middle, high)
    noise = round_up(math.exp(high))
    proved = guarantee_of(event(noise), delta=delta, unit=Unit.RECORD, neighbours=neighbours)
    if target.ceiling(proved) > target.limit:
        raise InternalError(f"calibration found a ceiling of {target.ceiling(proved):g}, above {target.limit:g}")
    return noise


def _by_profile(event: Event, delta: float, neighbours: Neighbours) -> Guarantee:
    """What the loss distribution alone proves: enough for the search, and never more than is proved."""
    profile = privacy_profile(event, neighbours)
    return Guarantee(
        mechanism="",
        notion=Notion.DIFFERENTIAL_PRIVACY,
        unit=Unit.RECORD,
        neighbours=neighbours,
        epsilon=profile.epsilon(delta),
        delta=delta,
        covers="",
        profile=profile.points(),
    )


def _share(text: str, flag: str, given: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value < 1.0:
        such = _SUCH_RATE if "tpr" in flag else "0.1"
        raise ConfigError(f"{flag} takes shares above 0 and below 1", found=given, expected=f"such as {such}")
    return value
