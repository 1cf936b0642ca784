"""Options of private prediction: the budget of an ensemble, `predict` and `evaluate`.

**Query budget** (`--queries`): the number of tokens that one (ε, δ) is spread over.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reticent.core.errors import ConfigError
from reticent.core.guarantee import Unit
from reticent.core.ranges import EPSILON, QUERIES, Range
from reticent.runs.settings.declaration import Settings, option
from reticent.runs.settings.shared import CorpusOptions, Seeded, Shown

if TYPE_CHECKING:
    pass

PRIVACY = "Privacy (fixed by the first use of an ensemble)"
_LENGTH = Range(1, 1_000_000)


class PredictionOptions(Settings):
    """What is asked of an ensemble; the first use fixes it, and later uses may leave it out."""

    mechanism: str | None = option(
        "Prediction mechanism: submix-f, submix, submix-per-part, pmixed, clipped-differences, "
        "subsample-and-aggregate, gnmax or public.",
        default=None,
        panel=PRIVACY,
        metavar="NAME",
        shown="submix-f",
    )
    epsilon: float | None = option("ε of all answers together.", default=None, panel=PRIVACY)
    delta: float | None = option("δ of all answers together.", default=None, panel=PRIVACY)
    queries: int | None = option(
        "Query budget: the number of tokens that ε is spread over.",
        default=None,
        panel=PRIVACY,
        metavar="N",
        shown="1024",
    )
    unit: Literal[Unit.PART, Unit.OWNER] | None = option(
        "Unit of privacy: a part, or one owner in it.", default=None, panel=PRIVACY, shown="part"
    )
    order: float | None = option("Rényi order of the accounting.", default=None, panel=PRIVACY)
    weight_limit: float | None = option(
        "Maximum mixing weight of a part (λmax, submix-f).", default=None, panel=PRIVACY
    )
    public: Path | None = option(
        "Public corpus of the same kind of text, to calibrate the public model on.",
        default=None,
        panel=PRIVACY,
        metavar="FILE",
    )
    until: str | None = option(
        "Last day of use. If fewer tokens than --queries are drawn by then, each gets more of ε (submix-f).",
        default=None,
        panel=PRIVACY,
        metavar="DATE",
    )

    def asked(self) -> dict[str, Any]:
        """What is asked of the ensemble, None where nothing is."""
        from reticent.prediction.budgets import SERVED, MechanismName

        if self.mechanism is not None and self.mechanism not in list(MechanismName):
            raise ConfigError("no such mechanism", found=self.mechanism, expected=", ".join(SERVED))
        values = {name: getattr(self, name) for name in PredictionOptions.model_fields}
        return values | {"mechanism": None if self.mechanism is None else MechanismName(self.mechanism)}


class LedgerOptions(Settings):
    """Where charges are written."""

    ledger: str | None = option(
        "postgresql://… address of a ledger that servers share.",
        default=None,
        metavar="ADDRESS",
        environment="RETICENT_LEDGER",
        shown="ledger.db in the run",
        in_file=False,
    )


class PredictSettings(PredictionOptions, LedgerOptions, Shown):
    """Everything that `reticent predict` can be asked for."""

    run: Path = option("Run directory of `train --method submix`.", positional=True, metavar="RUN")
    prompt: str | None = option("Text to continue. '-' reads it from standard input.", default=None, metavar="TEXT")
    max_tokens: int = option("Maximum number of tokens to generate.", default=64, within=_LENGTH, metavar="N")
    temperature: float = option("Sampling temperature. It is part of the accounting.", default=1.0)
    top_k: int | None = option("Sample from the k likeliest tokens of the public model.", default=None, metavar="K")
    top_p: float | None = option(
        "Sample from the likeliest tokens of the public model with this total probability.",
        default=None,
        metavar="P",
    )
    replay: bool = option("Keep answers, and repeat the same answer to the same request at no cost.", default=False)
    refuse: bool = option(
        "Refuse, with exit code 3, once the query budget is used up. Otherwise answers go on within what is left "
        "of ε, and after that come from the public model alone.",
        default=False,
    )

    def check(self) -> None:
        """Refuse an empty request."""
        if self.prompt is None:
            raise ConfigError("--prompt is missing", hint="--prompt TEXT, or --prompt - to read standard input")


class EvaluateSettings(CorpusOptions, Seeded, Shown):
    """Everything that `reticent evaluate` can be asked for."""

    run: Path = option("Run directory of `train --method submix`.", positional=True, metavar="RUN")
    data: Path = option("Held-out corpus.", metavar="FILE")
    mechanisms: str = option(
        "Mechanisms to compare, comma-separated, or all. gnmax-counted prices GNMax by its actual votes; "
        "confident-gnmax checks first whether the parts agree, and is among all from 100 parts on.",
        default="all",
        metavar="NAMES",
        listed=True,
    )
    epsilon: str = option("ε, or several, comma-separated.", default="8", metavar="LIST", listed=True)
    delta: float = option("δ of every mechanism that has one.", default=1e-5)
    queries: int = option(
        "Query budget: the number of tokens that ε is spread over.", default=1024, within=QUERIES, metavar="N"
    )
    repeats: int = option(
        "Number of random orders of the held-out text; intervals are over them.",
        default=3,
        within=Range(1, 1000),
        metavar="N",
    )
    compare_settings: bool = option(
        "Compare orders and weight limits of submix-f instead, on a public ensemble and public text.", default=False
    )
    unit: Literal[Unit.PART, Unit.OWNER] = option("Unit of privacy: a part, or one owner in it.", default=Unit.PART)
    order: float | None = option("Rényi order of the accounting.", default=None)
    weight_limit: float | None = option("Maximum mixing weight of a part (λmax, submix-f).", default=None)
    temperature: float = option("Temperature of every component. It is part of the accounting.", default=1.0)
    public: Path | None = option(
        "Public corpus of the same kind of text, to calibrate the public model on.",
        default=None,
        metavar="FILE",
        shown="as the ensemble answers",
    )
    dp_sgd: Path | None = option(
        "Run directory of `train --method dp-sgd`, to compare on the same text.", default=None, metavar="RUN"
    )
    samples: int = option(
        "Also show N answers of each mechanism, side by side. The non-private ones may repeat private text.",
        default=0,
        within=Range(0, 1000),
        metavar="N",
    )
    prompt: tuple[str, ...] = option(
        "Prompt of the answers that --samples shows. Repeatable.", default=(), metavar="TEXT", shown="an empty text"
    )
    max_tokens: int = option(
        "Maximum number of tokens of an answer that --samples shows.", default=48, within=_LENGTH, metavar="N"
    )
    judge: str | None = option(
        "Model that reads the answers of --samples: their perplexity by it, beside the held-out text's.",
        default=None,
        metavar="MODEL",
    )
    expect: tuple[str, ...] = option(
        "Regular expression that the first line of a good answer has, to count such answers of --samples. Once for "
        "all prompts, or once for each.",
        default=(),
        metavar="PATTERN",
    )
    train: Path | None = option("Training corpus, which MemFree needs.", default=None, metavar="FILE")
    policy: str | None = option(
        "Policy that finds secrets in --data, to report perplexity outside them as well.",
        default=None,
        metavar="NAME",
    )
    max_length: int = option("Truncate texts to N tokens.", default=128, within=_LENGTH, metavar="N")
    out: Path | None = option("File to write the JSON document to.", default=None, metavar="FILE")

    def check(self) -> None:
        """Refuse options that have nothing to act on."""
        if self.prompt and not self.samples:
            raise ConfigError(
                "--prompt belongs to --samples", hint="--samples 3 shows three answers to each prompt"
            )
        if (self.judge is not None or self.expect) and not self.samples:
            raise ConfigError(
                "--judge and --expect look at the answers of --samples", hint="--samples 20 draws twenty answers"
            )
        _ = self.expected
        if self.compare_settings and (self.samples or self.dp_sgd is not None or self.policy is not None):
            raise ConfigError(
                "--samples, --dp-sgd and --policy compare mechanisms", hint="leave out --compare-settings"
            )
        if self.dp_sgd is not None and self.temperature != 1.0:
            raise ConfigError("--dp-sgd is compared at temperature 1", found=self.temperature)

    @property
    def expected(self) -> dict[str, str]:
        """What is expected after each prompt; nothing where nobody said."""
        prompts = tuple(dict.fromkeys(self.prompt)) or ("",)
        if len(self.expect) not in (0, 1, len(prompts)):
            raise ConfigError(
                "--expect is given once, or once for each --prompt",
                found=f"{len(self.expect)} times",
                expected=f"1 or {len(prompts)}",
            )
        for pattern in self.expect:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ConfigError("--expect is no regular expression", found=pattern, hint=str(error)) from None
        patterns = self.expect * len(prompts) if len(self.expect) == 1 else self.expect
        return dict(zip(prompts, patterns, strict=False))

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The ε to compare at."""
        try:
            found = tuple(dict.fromkeys(float(part) for part in self.epsilon.split(",")))
        except ValueError:
            found = ()
        if not found or not all(EPSILON.low <= value <= EPSILON.high for value in found):
            expected = f"8, or 2,8: each {EPSILON}"
            raise ConfigError("--epsilon needs positive numbers", found=self.epsilon, expected=expected)
        return found
