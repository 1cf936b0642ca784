"""The public model calibrated on public text: a temperature, and two caches of the text so far.

    r'(y) = (1 − a − b) · softmax(log r / T)(y) + a · recent(y) + b · repeated(y)

`recent` is the share of token y among the latest tokens of the text, each weighted 0.98 less than the one after it;
`repeated` the share of y among the tokens that followed the text's last token before. Where a cache has nothing to
say its weight stays with the model. T, a and b have the least mean loss on public text, over a grid that holds
(1, 0, 0), so that the calibrated model is at least as good there.

A public model that is sure of the wrong token makes every part expensive: a charge grows with (h_i − r)²/r. A
calibrated one is cheaper to correct, and better by itself.

**Nothing of the proof changes.** r' is a function of the public model, the transcript and three public numbers, and
row 0 is replaced before anything is shaped, mixed or charged: a part that is removed, spent or broken answers as
r'. The numbers must come from public text (`runs.ensemble.public_text` refuses text that the parts have seen):
whoever fits them on private text leaks by them.

Reference: Guo et al. 2017, "On calibration of modern neural networks"; Grave et al. 2017, "Improving neural
language models with a continuous cache".
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reticent.core.arrays import Floats
from reticent.core.document import JsonObject
from reticent.core.ensemble import Ensemble, MassStreams, PatientStreams, Streams
from reticent.core.errors import ConfigError
from reticent.core.model import LanguageModel, Tokens
from reticent.core.ranges import TEMPERATURE

DECAY: Final = 0.98  # of a token's weight in the recent cache, a token
WINDOW: Final = 512  # the latest tokens that the caches look at
LEAST_TOKENS: Final = 256  # of public text
MOST_TOKENS: Final = 4096
TEMPERATURES: Final = tuple(float(1.05**step) for step in range(-14, 29))  # 0.51 to 3.9, 1 among them
_ROWS: Final = 8  # of a vocabulary each, that stay in the processor's cache
WEIGHTS: Final = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)

LookUp = Callable[[Tokens], Floats]
Cache = Callable[[Tokens, int], Floats | None]  # a text and V: a pmf [V], or nothing to say


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(JsonObject):
    """The three public numbers, and the fingerprint of the public text that they were fitted on."""

    temperature: float
    recent: float = 0.0
    repeated: float = 0.0
    corpus: str = ""

    def __post_init__(self) -> None:
        TEMPERATURE.require("the temperature of the public model", self.temperature)
        if not (self.recent >= 0.0 and self.repeated >= 0.0 and self.recent + self.repeated < 1.0):
            raise ConfigError("the weights of the caches must be at least 0 and below 1 together")

    @property
    def assumption(self) -> str:
        """What a guarantee of answers from a calibrated model rests on."""
        return (
            "the text that the public model was calibrated on is public: no equal text, and where both name owners"
            " no owner, is shared with the parts; near copies and parts of texts were not looked for"
        )

    def pmf(self, log_pmf: Floats, context: Tokens) -> Floats:
        """The calibrated pmf [V] after `context`, from the public model's log-pmf [V], up to a constant.

        Guarantee: a function of its arguments and of public numbers alone.
        """
        logits = np.asarray(log_pmf, dtype=np.float64) / self.temperature
        found = np.exp(logits - logits.max())
        found /= found.sum()
        caches = ((self.recent, recent_pmf), (self.repeated, repeated_pmf))
        said = [(weight, cache(context, len(found))) for weight, cache in caches if weight]
        heard = [(weight, pmf) for weight, pmf in said if pmf is not None]
        if heard:
            found *= 1.0 - sum(weight for weight, _ in heard)
            for weight, pmf in heard:
                found += weight * pmf
        return np.asarray(found)

    def log_pmf(self, log_pmf: Floats, context: Tokens) -> Floats:
        """Its logarithm, −inf where it is 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.pmf(log_pmf, context)))


def recent_pmf(context: Tokens, size: int) -> Floats | None:
    """Shares of tokens [V] among the latest of a text, later ones weighing more; None for an empty text."""
    latest = np.asarray(context[-WINDOW:], dtype=np.int64)
    if not len(latest):
        return None
    weights = DECAY ** np.arange(len(latest))[::-1]
    return np.asarray(np.bincount(latest, weights, minlength=size) / weights.sum())


def repeated_pmf(context: Tokens, size: int) -> Floats | None:
    """Shares of tokens [V] that followed the text's last token before; None where it is new."""
    latest = np.asarray(context[-WINDOW:], dtype=np.int64)
    places = np.flatnonzero(latest[:-1] == latest[-1]) + 1 if len(latest) else latest
    if not len(places):
        return None
    return np.asarray(np.bincount(latest[places], minlength=size) / len(places))


def fit(look_up: LookUp, texts: Iterable[Tokens], *, corpus: str = "") -> Calibration:
    """The calibration with the least mean loss on public texts, of which at most `MOST_TOKENS` are read.

    `look_up` gives the public model's log-pmfs [T, V] before each of T tokens.
    """
    chances: list[Floats] = []  # [T, temperatures]: of the true token
    recent: list[float] = []  # chance of the true token; NaN where the cache has nothing to say
    repeated: list[float] = []
    left = MOST_TOKENS
    for text in texts:
        tokens = tuple(text)[:left]
        if tokens:
            rows = look_up(tokens)
            chances.append(_tempered(rows, tokens))
            recent += _heard(recent_pmf, tokens, rows.shape[1])
            repeated += _heard(repeated_pmf, tokens, rows.shape[1])
            left -= len(tokens)
    if MOST_TOKENS - left < LEAST_TOKENS:
        raise ConfigError(
            "too little public text to calibrate on",
            found=f"{MOST_TOKENS - left} tokens",
            expected=f"{LEAST_TOKENS} or more",
        )
    return _least_loss(np.concatenate(chances), np.array(recent), np.array(repeated), corpus=corpus)


def _tempered(rows: Floats, tokens: Tokens) -> Floats:
    """The chance of every true token at every temperature [T, temperatures].

    Vocabularies are summed a few rows at a time and in single precision: four times as fast, with an error of 1e-6,
    far below what so few texts tell apart.
    """
    logits = rows - rows.max(axis=1, keepdims=True)
    true = logits[np.arange(len(tokens)), list(tokens)]  # [T]
    single = logits.astype(np.float32)
    scratch = np.empty_like(single[:_ROWS])
    found = np.empty((len(tokens), len(TEMPERATURES)))
    for first in range(0, len(tokens), _ROWS):
        some = slice(first, first + _ROWS)
        masses = scratch[: len(single[some])]  # [rows, V]
        for number, temperature in enumerate(TEMPERATURES):
            np.multiply(single[some], np.float32(1.0 / temperature), out=masses)
            np.exp(masses, out=masses)
            found[some, number] = np.exp(true[some] / temperature) / masses.sum(axis=1, dtype=np.float64)
    return found


def _heard(cache: Cache, tokens: Tokens, size: int) -> list[float]:
    """The chance that a cache gives each true token, NaN where it has nothing to say."""
    said = [cache(tokens[:place], size) for place in range(len(tokens))]
    return [np.nan if pmf is None else float(pmf[token]) for pmf, token in zip(said, tokens, strict=True)]


def _least_loss(chances: Floats, recent: Floats, repeated: Floats, *, corpus: str) -> Calibration:
    best, least = (TEMPERATURES.index(1.0), 0.0, 0.0), np.inf
    for a, b in product(WEIGHTS, WEIGHTS):
        weights = np.where(np.isnan(recent), 0.0, a), np.where(np.isnan(repeated), 0.0, b)  # [T] each
        said = weights[0] * np.nan_to_num(recent) + weights[1] * np.nan_to_num(repeated)
        with np.errstate(divide="ignore"):
            losses = -np.log((1.0 - weights[0] - weights[1])[:, None] * chances + said[:, None]).mean(axis=0)
        place = int(losses.argmin())
        if losses[place] < least:
            best, least = (place, a, b), float(losses[place])
    place, a, b = best
    return Calibration(temperature=TEMPERATURES[place], recent=a, repeated=b, corpus=corpus)


class CalibratedEnsemble:
    """An ensemble whose row 0 is the calibrated public model; the private rows are as they were.

    Guarantee: row 0 of a look-up is a function of the public model, the text and the calibration.
    """

    def __init__(self, ensemble: Ensemble, calibration: Calibration) -> None:
        self.plain = ensemble
        self.calibration = calibration
        settled = json.dumps(calibration.to_json(), sort_keys=True)
        named = f"{ensemble.fingerprint} calibrated {settled}".encode()
        self.fingerprint = hashlib.blake2b(named, digest_size=32).hexdigest()

    @property
    def public(self) -> LanguageModel:
        """The public model, whose own chances are not calibrated."""
        return self.plain.public

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts."""
        return self.plain.parts

    @property
    def rows(self) -> tuple[int, ...]:
        """The part of each private row."""
        return self.plain.rows

    def streams(self) -> Streams:
        """A fresh set of texts; looked up as masses where the ensemble's can."""
        inner = self.plain.streams()
        if isinstance(inner, MassStreams):
            return CalibratedMassStreams(inner, self.calibration)
        return CalibratedStreams(inner, self.calibration)

    def position_log_probs(self, tokens: Tokens) -> Floats:
        """log-pmfs [T, 1 + rows, V] before each of T tokens."""
        found = self.plain.position_log_probs(tokens).copy()
        for place in range(len(tokens)):
            found[place, 0] = self.calibration.log_pmf(found[place, 0], tokens[:place])
        return found


class CalibratedStreams:
    """Open texts of a calibrated ensemble."""

    def __init__(self, inner: Streams, calibration: Calibration) -> None:
        self._inner = inner
        self._calibration = calibration
        self._texts: dict[int, list[int]] = {}

    @property
    def token_bytes(self) -> int:
        """Bytes of memory that each token of each open text takes; 0 where the ensemble does not say."""
        return int(getattr(self._inner, "token_bytes", 0))

    def open(self, context: Tokens) -> int:
        """A new text that begins with `context`; its handle."""
        handle = self._inner.open(context)
        self._texts[handle] = list(context)
        return handle

    def look_up(self, handles: Sequence[int]) -> Floats:
        """Next-token log-pmfs [n, 1 + rows, V] of the named texts."""
        found = self._inner.look_up(handles).copy()
        for number, handle in enumerate(handles):
            found[number, 0] = self._calibration.log_pmf(found[number, 0], self._texts[handle])
        return found

    def read_ahead(self, handles: Sequence[int], *, most: int) -> list[bool]:
        """Read up to `most` tokens of prompts, the first text's first; which texts are now ready for a look-up."""
        if not isinstance(self._inner, PatientStreams):
            return [True] * len(handles)
        return self._inner.read_ahead(handles, most=most)

    def append(self, handle: int, token: int) -> None:
        """The released token becomes part of the text."""
        self._inner.append(handle, token)
        self._texts[handle].append(token)

    def close(self, handle: int) -> None:
        """Forget a text."""
        self._texts.pop(handle, None)
        self._inner.close(handle)


class CalibratedMassStreams(CalibratedStreams):
    """The same, where look-ups can be had as the model's softmax gives them."""

    _inner: MassStreams

    def look_up_masses(self, handles: Sequence[int]) -> NDArray[np.floating]:
        """Next-token chances [n, 1 + rows, V] up to a factor a row, in the model's precision."""
        found = self._inner.look_up_masses(handles).copy()
        for number, handle in enumerate(handles):
            with np.errstate(divide="ignore"):
                log_pmf = np.log(np.asarray(found[number, 0], dtype=np.float64))
            found[number, 0] = self._calibration.pmf(log_pmf, self._texts[handle])
        return found
