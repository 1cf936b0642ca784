"""What is asked of attacks: which, sizes, confidence, time."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from reticent.auditing.attacks.personal_data.contexts import OtherValues
from reticent.auditing.metrics.intervals import shared_confidence
from reticent.core.errors import ConfigError
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling

RATES: Final = (0.01, 0.001)  # false-positive rates at which membership is measured


def _nobody(_: int) -> None:
    """No observer is attached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much each attack looks at; records are of either side."""

    records: int = 1000
    extraction_records: int = 200
    candidates: int = 1000  # sampled where a rank is not found by search
    search_tokens: int = 200_000  # of the search for one canary's rank
    answers: int = 200  # asked for planted codes
    texts: int = 256  # generated without a prompt
    choices: int = 100  # |C| of the inference game
    draws: int = 16  # answers to each prompt for personal data

    def smaller(self) -> "Sizes":
        """A step down: half of what is spent on each target; where nothing is left to spare, half of the targets.

        Targets are what an interval is as narrow as, so they go last; nothing shrinks so far that nothing can be
        said.
        """
        spared = replace(self, **{name: _half(getattr(self, name), least) for name, least in _SPENT.items()})
        if spared != self:
            return spared
        return replace(self, **{name: _half(getattr(self, name), least) for name, least in _TARGETS.items()})


# The least of each: what is spent on a target, and targets.
_SPENT: Final = {"candidates": 50, "search_tokens": 5_000, "answers": 20, "texts": 32, "choices": 20, "draws": 4}
_TARGETS: Final = {"records": 20, "extraction_records": 10}


def _half(size: int, least: int) -> int:
    """Half of it, but no less than the least, and never more than it was."""
    return min(size, max(least, size // 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackSettings:
    """What is asked of attacks. `by_coin` states that each target was trained on or held out by its own fair coin.

    `attacks` names them; None stands for all that are not opt-in. `reveal` asks for texts and secrets. `told` hears
    of tokens of work that no model of the subject does, such as training shadows.

    `confidence` holds for all intervals of an audit together: every one of the `shares` attacks that run has an
    equal share of the error. Whoever plans counts them before anything is measured (`plan.share_error`).
    """

    attacks: tuple[str, ...] | None = None
    sizes: Sizes = field(default_factory=Sizes)
    samples: int = 1_000_000  # that the lazy attacker draws
    sampler: Sampling = field(default_factory=Sampling)  # by which they are drawn: temperature or schedule, top-k
    chance: float = 0.5  # of being among them, from which on a text counts as emitted
    rates: tuple[float, ...] = RATES
    budget: float | None = None
    seed: int = 0
    confidence: float = 0.95
    shares: int | None = None  # attacks among which the error is split; None until the plan counted them
    by_coin: bool = False
    shadow_models: int = 8
    policy: str = "patterns"  # tags text in the PII games
    chat: bool = False  # whether prompts are a user's messages
    others: OtherValues = OtherValues.KNOWN  # values around the target of a PII game
    reveal: bool = False
    engine: Any = field(default=None, compare=False)  # where the caller has pieces computed; decides no number
    told: Callable[[int], None] = field(default=_nobody, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.shadow_models < 2 or self.shadow_models % 2:
            raise ConfigError("shadow models come in pairs", found=self.shadow_models, expected="an even number")
        if self.samples < 1:
            raise ConfigError("the lazy attacker draws at least one sample", found=self.samples)
        if not 0.0 < self.chance <= 1.0:
            raise ConfigError("a chance lies in (0, 1]", found=self.chance)

    def randomness(self, name: str) -> Randomness:
        """The source of a named piece of work: the same for every attack of one seed."""
        return Randomness.seeded(self.seed).child(name)

    @property
    def attack_confidence(self) -> float:
        """Confidence of all intervals of one attack together."""
        return shared_confidence(self.confidence, 1 if self.shares is None else self.shares)


def parse_budget(text: str) -> float:
    """Seconds of `90s`, `10m` or `2h`."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = text[:-1], text[-1:]
    try:
        seconds = float(number) * units[unit]
    except (KeyError, ValueError):
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0.0):
        raise ConfigError("a budget is a time", found=repr(text), expected="a number with s, m or h, such as 10m")
    return seconds
