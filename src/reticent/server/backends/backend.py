"""What a server answers from: a predictor within its budget, and what all of its answers together promise.

An ensemble answers through its ledger (`runs.ensemble.prediction`). A model that was trained privately, by DP-SGD
or confidentially redacted training, answers as it is: drawing from it is post-processing, nothing is charged, and
the promise is the one beside its weights (`weights`).

Temperature and top_p of a request become the shaping of the mechanism that its tokens are drawn by, so they stand
inside the accounting.
"""

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

from reticent.core.ensemble import Ensemble
from reticent.core.errors import ConfigError
from reticent.core.guarantee import Guarantee
from reticent.core.model import LanguageModel, Tokens
from reticent.core.printing.numbers import at_most
from reticent.prediction.mechanisms.clipped_differences import ClippedDifferences
from reticent.prediction.mechanisms.mechanism import Layout, Mechanism
from reticent.prediction.mechanisms.shaping import Shaping
from reticent.prediction.predictor import TokenPredictor
from reticent.runs.directory import MANIFEST
from reticent.runs.ensemble.prediction import PredictionSettings, answering, settings_of
from reticent.runs.ledger_place import LedgerPlace
from reticent.runs.settings.declaration import flag_of
from reticent.server.requests.chat import ChatFormat

Reshape = Callable[[Shaping], Mechanism]
"""The mechanism of the budget, shaped as a request asks: with the same measure and price."""

ALONE: Final = "the public model answers alone: nothing is learnt"
_ROUNDING: Final = 1.0 - 1e-12  # more than the products' rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """An open model or ensemble. `guarantee` is None where answers have none: `notes` then say why."""

    name: str
    predictor: TokenPredictor
    mechanism: Reshape
    chat: ChatFormat
    guarantee: Guarantee | None
    notes: tuple[str, ...] = ()
    _reading: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _writing: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _writer: list[LanguageModel] = field(default_factory=list, repr=False)

    @property
    def model(self) -> LanguageModel:
        """The public model: tokenizer, lengths, end token."""
        return self.predictor.ensemble.public

    def encode(self, text: str) -> list[int]:
        """Token ids of a text. Tokenizers are not safe for threads, hence the lock."""
        with self._reading:
            return self.model.encode([text])[0]

    def decode(self, tokens: Tokens) -> str:
        """The text of token ids, by a tokenizer of its own: no stream waits for someone's long prompt."""
        with self._writing:
            if not self._writer:
                self._writer.append(_with_own_tokenizer(self.model))
            return self._writer[0].decode([list(tokens)])[0]


def _with_own_tokenizer(model: LanguageModel) -> LanguageModel:
    """The same model with a copy of its tokenizer, where it has one."""
    tokenizer = getattr(model, "tokenizer", None)
    if tokenizer is None:
        return model
    twin = copy.copy(model)
    cast("Any", twin).tokenizer = copy.deepcopy(tokenizer)
    return twin


def is_ensemble(run: Path) -> bool:
    """Whether a run directory holds an ensemble."""
    return (run / MANIFEST).is_file()


@contextmanager
def open_ensemble(
    run: Path,
    settings: PredictionSettings,
    *,
    name: str,
    ensemble: Ensemble | None = None,
    place: LedgerPlace | None = None,
) -> Iterator[Backend]:
    """An ensemble with its ledger, which is made at the first use and refused where it is not what it was.

    LedgerError: the ledger is missing for a run that has answered before, rolled back, edited or another's.
    """
    with answering(run, settings, ensemble=ensemble, place=place) as opened:
        models = opened.predictor.ensemble
        opened.predictor.rehearse()
        yield Backend(
            name=name,
            predictor=opened.predictor,
            mechanism=reshaping(settings, models),
            chat=ChatFormat(getattr(models.public, "tokenizer", None)),
            guarantee=opened.guarantee,
            notes=() if opened.guarantee is not None else (ALONE,),
        )


def reshaping(settings: PredictionSettings, ensemble: Ensemble) -> Reshape:
    """The mechanism of the settings for any shaping; those that were asked for lately are kept.

    Guarantee: an answer of any shaping costs at most what the budget was calibrated for.
    """
    plain = settings.set_up(Layout(ensemble.rows)).mechanism

    @lru_cache(maxsize=256)
    def mechanism(shaping: Shaping) -> Mechanism:
        if isinstance(plain, ClippedDifferences):
            # Priced by the range 2C/(Bτ), which was calibrated: the clip C follows the temperature τ, nothing else.
            clip = plain.clip * (shaping.temperature / plain.shaping.temperature) * _ROUNDING
            return replace(plain, clip=clip, shaping=shaping)
        return cast("Mechanism", replace(cast("Any", plain), shaping=shaping))

    return mechanism


def settings_for(run: Path, asked: dict[str, Any]) -> PredictionSettings | None:
    """How an ensemble answers, fixed by its first use; None for a model whose weights are protected."""
    if is_ensemble(run):
        return settings_of(run, asked)
    given = sorted(name for name, value in asked.items() if value is not None)
    if given:
        raise ConfigError(
            f"{run}: not an ensemble, so there is no budget to set",
            found=flag_of(given[0]),
            hint="what a trained model promises stands beside its weights; leave the option out",
        )
    return None


def sentences(guarantee: Guarantee | None, notes: tuple[str, ...]) -> list[str]:
    """What is promised, in words."""
    lines = []
    if guarantee is None:
        lines.append("No guarantee.")
    else:
        level = f"ε = {at_most(guarantee.epsilon)}" + (f", δ = {guarantee.delta:g}" if guarantee.delta else "")
        if guarantee.order is not None:
            level += f" at Rényi order {guarantee.order:g}"
        lines.append(
            f"{guarantee.mechanism}: {guarantee.notion.value} with {level} for one {guarantee.unit.value}"
            f" ({guarantee.neighbours.value})."
        )
        lines.append(f"Covers {guarantee.covers}.")
        if guarantee.data_dependent:
            lines.append("It holds for the actual data alone; stopping time, charges and weights are private.")
        if guarantee.assumes:
            lines.append(f"This holds if {'; '.join(guarantee.assumes)}.")
    return [*lines, *(f"Note: {note}." for note in notes)]
