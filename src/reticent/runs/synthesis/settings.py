"""Options of `synthesize`."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from reticent.core.errors import ConfigError
from reticent.core.ranges import LENGTH, Range
from reticent.data.writing import writable_suffix
from reticent.runs.ensemble.settings import LedgerOptions, PredictionOptions
from reticent.runs.policies.by_name import DEFAULT_POLICY
from reticent.runs.settings.declaration import option
from reticent.runs.settings.shared import CorpusOptions, Shown

if TYPE_CHECKING:
    from reticent.prediction.mechanisms.shaping import Shaping

_SAMPLING: Final = "Sampling"


class SynthesizeSettings(PredictionOptions, LedgerOptions, CorpusOptions, Shown):
    """Everything that `reticent synthesize` can be asked for."""

    run: Path = option(
        "Run directory of `train` with a guarantee: dp-sgd, crt, selective or submix.",
        positional=True,
        metavar="RUN",
    )
    out: Path = option("Corpus to write. Its datasheet is written beside it.", metavar="FILE")
    count: int = option("Number of texts.", default=100, within=Range(1, 100_000_000), metavar="N")
    prompts: Path | None = option(
        "Corpus of public texts to continue, in turn. Text or owners of the training corpus are refused.",
        default=None,
        metavar="FILE",
        shown="texts from their beginning",
    )
    holdout: Path | None = option(
        "Corpus to compare the texts with. What is found is shown to you and is not in the datasheet, since the "
        "guarantee does not cover it.",
        default=None,
        metavar="FILE",
    )
    policy: str = option(
        "Policy that counts sensitive spans for the datasheet, as in `scan`.",
        default=DEFAULT_POLICY,
        metavar="NAME",
    )
    max_tokens: int = option(
        "Maximum number of tokens of a text.", default=128, within=LENGTH, panel=_SAMPLING, metavar="N"
    )
    temperature: float = option(
        "Sampling temperature. For an ensemble it is part of the accounting.", default=1.0, panel=_SAMPLING
    )
    top_k: int | None = option(
        "Sample from the k likeliest tokens (of an ensemble's public model).",
        default=None,
        panel=_SAMPLING,
        metavar="K",
    )
    top_p: float | None = option(
        "Sample from the likeliest tokens (of an ensemble's public model) with this total probability.",
        default=None,
        panel=_SAMPLING,
        metavar="P",
    )

    def check(self) -> None:
        """Refuse a format that cannot hold every text, and sampling that nobody means."""
        if writable_suffix(self.out) == ".txt":
            raise ConfigError(
                f"{self.out}: a plain text file cannot hold texts with line breaks", hint="write JSONL or Parquet"
            )
        _ = self.shaping

    @property
    def shaping(self) -> "Shaping":
        """Temperature and truncation."""
        from reticent.prediction.mechanisms.shaping import Shaping  # deferred: `--help` needs none of it

        return Shaping(self.temperature, self.top_k, self.top_p)
