"""The settings of `reticent bound`: DP-SGD, redacted training and private prediction by their parameters alone."""

import math
import re
from pathlib import Path

from reticent.core.errors import ConfigError
from reticent.core.extras import require
from reticent.core.guarantee import Neighbours
from reticent.core.ranges import COUNT, EPOCHS, EPSILON, NOISE_MULTIPLIER, ORDER, SHARE, STEPS, Range
from reticent.runs.settings.declaration import Settings, flag_of, option
from reticent.runs.settings.shared import AddedOrReplaced, Shown

# A secret is described in words: "16 digits", "4 letters", "9 hex digits", "1 of 5000".
_ALPHABETS = {
    "digit": 10,
    "letter": 26,
    "hex digit": 16,
    "letter or digit": 36,
    "character": 95,
    "bit": 2,
    "byte": 256,
}
_COUNTED = re.compile(r"(\d+)\s+(" + "|".join(sorted(_ALPHABETS, key=len, reverse=True)) + r")s?")
_CHOSEN = re.compile(r"1 of (\d[\d,_]*)")


def bits_of(description: str) -> float:
    """log2 of the number of equally likely secrets that the words describe."""
    words = " ".join(description.lower().split())
    if counted := _COUNTED.fullmatch(words):
        return int(counted[1]) * math.log2(_ALPHABETS[counted[2]])
    if chosen := _CHOSEN.fullmatch(words):
        return math.log2(int(re.sub("[,_]", "", chosen[1])))
    kinds = ", ".join(f"{kind}s" for kind in _ALPHABETS)
    raise ConfigError(
        "cannot tell how many bits this secret has", found=repr(description), expected=f"N {kinds}, or 1 of M"
    )


def parse_bits(listed: str) -> list[float]:
    """Comma-separated numbers of bits."""
    try:
        bits = [float(part) for part in listed.split(",") if part.strip()]
    except ValueError:
        raise ConfigError(
            "--secret-bits is a list of numbers", found=repr(listed), expected="20,53.15,60"
        ) from None
    if not bits or not all(0.0 < b <= 1e4 for b in bits):
        raise ConfigError("a secret has between 0 and 10,000 bits", found=repr(listed))
    return bits


class RunBoundSettings(Shown):
    """What is asked of `reticent bound RUN`."""

    run: Path = option(
        "Run directory, model folder, guarantee.json or the datasheet of a synthetic corpus.",
        positional=True,
        metavar="RUN",
    )


class _Delta(Settings):
    delta: float = option("δ at which ε is reported. Choose it well below 1 / number of records.", default=1e-5)

    def require_delta(self, *, zero: bool = False) -> None:
        """Refuse a δ of 1 or more, which promises nothing, and 0 where it has no ε."""
        if not (0.0 <= self.delta < 1.0 if zero else 0.0 < self.delta < 1.0):
            raise ConfigError(
                "--delta is a probability",
                found=self.delta,
                expected="0 to below 1" if zero else "above 0, below 1",
            )


class _NoisySteps(_Delta):
    """DP-SGD by its noise, sampling rate and steps."""

    noise_multiplier: float | None = option(
        "Noise standard deviation, as a multiple of the clip norm.", default=None, within=NOISE_MULTIPLIER
    )
    sampling_rate: float | None = option("Probability that a record is in a batch.", default=None)
    steps: int | None = option("Number of noisy steps.", default=None, within=STEPS, metavar="N")


class DpSgdBoundSettings(_NoisySteps, Shown):
    """What is asked of `reticent bound dp-sgd`."""

    target_epsilon: float | None = option(
        "Find the smallest noise that reaches this ε; replaces --noise-multiplier.", default=None, within=EPSILON
    )
    target_tpr: str | None = option(
        "Find the smallest noise with which no membership test exceeds this true-positive rate at this "
        "false-positive rate.",
        default=None,
        metavar="TPR@FPR",
    )
    target_bits: str | None = option(
        "Find the smallest noise with which at most LEAKED bits leak from a secret of SECRET bits.",
        default=None,
        metavar="LEAKED:SECRET",
    )
    target_advantage: float | None = option(
        "Find the smallest noise with which no membership test exceeds this advantage (TPR − FPR).", default=None
    )
    records: int | None = option(
        "Number of records. With --batch and --epochs, instead of --sampling-rate and --steps.",
        default=None,
        metavar="N",
    )
    batch: int | None = option("Expected number of records in a batch.", default=None, metavar="N")
    epochs: float | None = option("Expected passes over the records.", default=None, within=EPOCHS)
    neighbours: AddedOrReplaced = option(
        "Neighbouring corpora: one record added or removed, or one record replaced.", default=Neighbours.ADD_REMOVE
    )
    secret_bits: str | None = option(
        "Sizes of secrets in bits, comma-separated.", default=None, metavar="LIST", shown="20,40,60", listed=True
    )
    secret: str | None = option(
        'Size of a secret in words: "16 digits", "1 of 5000".', default=None, metavar="SIZE"
    )
    copies: int = option("Number of records that contain the secret.", default=1, within=COUNT, metavar="N")
    plot: Path | None = option("Draw the bounds into a .png, .svg or .pdf file.", default=None, metavar="FILE")

    def check(self) -> None:
        """Refuse a figure that cannot be drawn before minutes are spent on computing it."""
        self.require_delta()
        self.described()
        keys = ("noise_multiplier", "target_epsilon", "target_tpr", "target_bits", "target_advantage")
        given = [flag_of(key) for key in keys if getattr(self, key) is not None]
        if len(given) != 1:
            raise ConfigError(
                f"give one of {', '.join(map(flag_of, keys[:-1]))} and {flag_of(keys[-1])}",
                found=" and ".join(given) or "none of them",
            )
        path = self.plot
        if path is None:
            return
        if path.suffix not in (".png", ".svg", ".pdf"):
            raise ConfigError("--plot draws .png, .svg or .pdf", found=repr(path.suffix))
        if not path.parent.is_dir():
            raise ConfigError(f"{path.parent}: no such directory", hint="create it first")
        require("matplotlib", purpose="--plot")

    @property
    def bits(self) -> list[float]:
        """Sizes of the secrets in bits."""
        listed = [] if self.secret_bits is None else parse_bits(self.secret_bits)
        listed += [] if self.secret is None else [bits_of(self.secret)]
        return listed or [20.0, 40.0, 60.0]

    def described(self) -> tuple[float, int]:
        """Sampling rate and steps, given as such or by records, batch and epochs."""
        direct, derived = (self.sampling_rate, self.steps), (self.records, self.batch, self.epochs)
        if all(v is not None for v in direct) and all(v is None for v in derived):
            assert self.sampling_rate is not None
            assert self.steps is not None
            return self.sampling_rate, self.steps
        if all(v is None for v in direct) and all(v is not None for v in derived):
            assert self.records is not None
            assert self.batch is not None
            assert self.epochs is not None
            if not 1 <= self.batch <= self.records:
                raise ConfigError("--batch must be between 1 and --records", found=self.batch)
            return self.batch / self.records, max(1, round(self.epochs * self.records / self.batch))
        raise ConfigError("give --sampling-rate and --steps, or --records, --batch and --epochs")


class ConfidentialityBoundSettings(_NoisySteps, Shown):
    """What is asked of `reticent bound confidentiality`."""

    epsilon: float | None = option(
        "ε of the private training for replacing one record.", default=None, within=Range(0.0, 1e6)
    )
    miss_rate: float = option("Fraction of secrets that the policy misses (γ).", default=0.1, within=SHARE)
    conservative_miss_rate: float = option(
        "Fraction of secrets that the conservative policy misses too.", default=0.0, within=SHARE
    )
    group: int = option("Number of secrets masked together.", default=10, within=COUNT, metavar="N")

    def check(self) -> None:
        """Refuse rates that contradict each other, and a training that is described twice or by half."""
        if self.conservative_miss_rate > self.miss_rate:
            raise ConfigError("the conservative policy must not miss more than the policy")
        given = [value is not None for value in (self.noise_multiplier, self.sampling_rate, self.steps)]
        if (self.epsilon is not None) == any(given) or (any(given) and not all(given)):
            raise ConfigError(
                "give either --epsilon, or --noise-multiplier with --sampling-rate and --steps",
                hint="ε must be for replacing one record, not for adding or removing one",
            )
        self.require_delta(zero=True)


class ExtractionBoundSettings(_Delta, Shown):
    """What is asked of `reticent bound extraction`."""

    order: float = option("Rényi order of the guarantee.", within=ORDER)
    epsilon: float = option("Rényi ε at that order, for one part.", within=Range(0.0, 1e6))
    candidates: int = option("Number of equally likely secrets.", within=COUNT, metavar="N")
    copies: int = option("Number of parts that contain the secret.", default=1, within=COUNT, metavar="N")

    def check(self) -> None:
        """Refuse a δ that is no chance."""
        self.require_delta()
