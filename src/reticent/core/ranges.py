"""The allowed ranges of a run's numbers, declared once for flags, files and plans.

Outside of these, accountants and models compute with infinities, or for years; each range covers anything that
someone could mean. A number that means nothing for other reasons (a δ above 1 / records, a batch larger than the
corpus) is refused where the reason is known.
"""

import math
from dataclasses import dataclass
from typing import Final

from reticent.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Range:
    """A range of numbers from `low` to `high`, both allowed; what is not a number never is."""

    low: float
    high: float

    def require(self, name: str, value: float, *, hint: str | None = None) -> None:
        """Refuse a value outside."""
        if math.isnan(value) or not self.low <= value <= self.high:
            raise ConfigError(f"{name} is out of range", found=value, expected=str(self), hint=hint)

    def __str__(self) -> str:
        return f"{_written(self.low)} to {_written(self.high)}"


def _written(value: float) -> str:
    if 1 <= abs(value) < 1e6 and value == round(value):
        return f"{value:,.0f}"
    short = f"{value:g}"
    return short if float(short) == value else repr(value)  # 1.000001 is not 1


NOISE_MULTIPLIER: Final = Range(0.05, 1e4)
NORM: Final = Range(1e-9, 1e9)  # of clipping: its square and the noise on it stay within float32
LEARNING_RATE: Final = Range(1e-12, 1e3)
EPOCHS: Final = Range(1e-9, 1e9)
STEPS: Final = Range(1, 10**9)
SEED: Final = Range(0, 2**63 - 1)  # what every generator takes
RANK: Final = Range(0, 2**16)  # of LoRA layers
LENGTH: Final = Range(1, 2**31 - 1)  # tokens, or records held at once
PROCESSES: Final = Range(1, 1024)
EPSILON: Final = Range(1e-9, 1e6)
ORDER: Final = Range(1.0 + 1e-6, 1e6)
QUERIES: Final = Range(1, 10**12)
SHARE: Final = Range(0.0, 1.0)
QUANTILE: Final = Range(0.01, 0.99)
COUNT: Final = Range(1, 2**63 - 1)
PORT: Final = Range(1, 65535)
TEMPERATURE: Final = Range(1e-3, 1e3)
