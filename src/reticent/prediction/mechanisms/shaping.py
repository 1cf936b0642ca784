"""Temperature and truncation inside the accounting: every component is tempered, the public model sets the support.

Temperature is not post-processing: no token exists yet when it is applied. So each component's log-probabilities,
the public ones too, are divided by the temperature and normalised before anything is mixed or charged. The support
of top-k and top-p is that of the tempered public model, for all components; truncating the mixture itself would
make divergences infinite. Tokens whose public chance is below e^−600 are cut as well, by the public model alone, so
that ratios stay within float64. Greedy decoding is refused: it has no finite charge.

Rows come as log-pmfs in float64, or as `Masses`: what a model's softmax gives in the model's own precision, so that
no logarithm is taken to be undone. Either way what is mixed, charged and drawn from is one float64 array.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from reticent.accounting.mixing.loops import PartRows, row_totals
from reticent.core.arrays import Floats
from reticent.core.errors import ConfigError
from reticent.core.ranges import TEMPERATURE
from reticent.core.sampling import Sampling

_LEAST_MASS = 1e-30  # of a row: with less, of single precision, its chances would be noise
_FLOOR = -600.0  # nats below the likeliest token: no token with that chance is ever drawn


@dataclass(frozen=True, slots=True, eq=False)
class Masses:
    """Rows [..., V] that are pmfs up to a factor each, in the precision of the model that gave them."""

    values: NDArray[np.floating] = field(repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """As of the array."""
        return self.values.shape

    @property
    def ndim(self) -> int:
        """As of the array."""
        return self.values.ndim

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: int | slice | tuple[slice, ...]) -> "Masses":
        return Masses(self.values[place])


Rows = Floats | Masses  # a look-up as log-pmfs, or as masses


@dataclass(frozen=True, slots=True, eq=False)
class Shaped:
    """Float64 pmfs on a support: `public` [..., S] and the private `rows`; `support` [..., S] holds token ids.

    It is None for all ids. `...` is nothing for one text, or n for texts with as many tokens to choose from.
    """

    public: Floats
    rows: PartRows
    support: NDArray[np.int64] | None
    size: int

    @property
    def private(self) -> Floats:
        """The private rows [..., rows, S]."""
        pmfs = self.rows.pmfs()
        return pmfs if self.public.ndim == 2 else np.asarray(pmfs[0])

    def spread(self, pmf: Floats) -> Floats:
        """A pmf on the support [..., S] as one over the vocabulary [..., V]."""
        if self.support is None:
            return pmf
        whole = np.zeros((*pmf.shape[:-1], self.size))
        np.put_along_axis(whole, self.support, pmf, axis=-1)
        return whole

    def text(self, number: int) -> "Shaped":
        """One of n texts."""
        support = None if self.support is None else self.support[number]
        return Shaped(self.public[number], self.rows.text(number), support, self.size)


@dataclass(frozen=True, slots=True)
class Shaping:
    """How every component is shaped before mixing."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if self.temperature == 0.0:
            raise ConfigError(
                "greedy decoding has no finite charge", found="temperature 0", hint="choose a temperature above 0"
            )
        TEMPERATURE.require("the temperature", self.temperature)
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError("top_k must be at least 1", found=self.top_k)
        if self.top_p is not None and not 0.0 < self.top_p <= 1.0:
            raise ConfigError("top_p must be in (0, 1]", found=self.top_p)

    @property
    def is_plain(self) -> bool:
        """Whether rows stay as they are."""
        return self.temperature == 1.0 and self.top_k is None and self.top_p in (None, 1.0)

    def shape(self, rows: Rows) -> Shaped:
        """Pmfs of a look-up [1 + rows, V], tempered, on the public model's support, normalised in float64."""
        if isinstance(rows, Masses):
            if self.is_plain:
                (shaped,) = _normalised(rows.values[None])
                return shaped.text(0)
            with np.errstate(divide="ignore"):
                rows = np.log(np.asarray(rows.values, dtype=np.float64))
        logits = np.asarray(rows, dtype=np.float64)
        if logits.ndim != 2 or np.isnan(logits[0]).any():
            raise ValueError("a look-up is a [rows, V] array whose public row is made of numbers")
        # A part whose model computes nonsense answers as the public model: an error here would tell of that part.
        top = logits.max(axis=1, keepdims=True)
        broken = ~(top[:, 0] < np.inf)  # [rows]: NaN, or more than all of the mass
        if broken.any():
            logits = np.where(broken[:, None], logits[0], logits)
        if self.temperature != 1.0:
            logits = logits / self.temperature
        support = self._support(logits[0])
        if support is not None:
            logits = logits[:, support]
        # Models give float32 accuracy: their rows sum to 1 within 1e-7 only, which a centred charge must not see.
        if support is not None or self.temperature != 1.0 or broken.any():
            top = logits.max(axis=1, keepdims=True)
        empty = np.isneginf(top[:, 0])  # a private row without mass on the public support
        pmfs = logits - np.where(np.isneginf(top), 0.0, top)
        np.exp(pmfs, out=pmfs)
        if empty.any():
            pmfs[empty] = pmfs[0]
        pmfs /= pmfs.sum(axis=1, keepdims=True)
        return Shaped(pmfs[0], PartRows.of(pmfs[1:]), support, int(rows.shape[1]))

    def _support(self, public: Floats) -> NDArray[np.int64] | None:
        """Token ids of the support, None where it is the whole vocabulary."""
        kept = public > public.max() + _FLOOR
        if self.top_k is not None or self.top_p not in (None, 1.0):
            truncation = Sampling(top_k=self.top_k, top_p=self.top_p)  # temperature was applied already
            kept &= np.isfinite(truncation.transform(public, 0))
        return None if kept.all() else np.flatnonzero(kept)


def shape_together(
    rows: Rows, shapings: Sequence[Shaping], *, at_once: Callable[[int], int] | None = None
) -> Iterator[Shaped]:
    """Pmfs of n texts, in order, from look-ups [n, 1 + rows, V], each shaped in its own way.

    Neighbours with as many tokens to choose from, S, come as one `Shaped` of at most `at_once(S)` texts; without
    it every text comes alone.
    """
    if len(rows) != len(shapings):
        raise ValueError(f"{len(rows)} look-ups and {len(shapings)} ways to shape them")
    most = at_once or (lambda _: 1)
    if isinstance(rows, Masses) and all(shaping.is_plain for shaping in shapings):
        several = most(rows.shape[-1])
        for start in range(0, len(rows), several):
            yield from _normalised(rows.values[start : start + several])
        return
    singles = [shaping.shape(rows[place]) for place, shaping in enumerate(shapings)]
    for size, group in groupby(singles, key=lambda each: each.public.shape[-1]):
        texts, several = list(group), most(size)
        for start in range(0, len(texts), several):
            yield _joined(texts[start : start + several])


def _joined(texts: Sequence[Shaped]) -> Shaped:
    """Texts of one size as one."""
    supports = [each.support for each in texts if each.support is not None]
    return Shaped(
        np.stack([each.public for each in texts]),
        PartRows.of(np.stack([each.private for each in texts])),
        np.stack(supports) if supports else None,
        texts[0].size,
    )


def _normalised(masses: NDArray[np.floating]) -> Iterator[Shaped]:
    """Float64 pmfs of masses [n, 1 + rows, V], on the tokens that the public model gives any mass.

    All texts at once, or one by one where the public model gives some tokens none.
    """
    public = masses[:, 0]
    least, top = public.min(axis=1), public.max(axis=1)  # [n]
    if not ((least > -np.inf) & (least <= top) & (top < np.inf)).all():
        raise ValueError("a look-up is a [rows, V] array whose public row is made of numbers")
    floor = top * math.exp(_FLOOR)
    if (least > floor).all():
        yield Shaped(*_as_pmfs(masses), None, masses.shape[-1])
        return
    for text, own in zip(masses, floor, strict=True):
        support = np.flatnonzero(text[0] > own)
        is_whole = len(support) == masses.shape[-1]
        yield Shaped(*_as_pmfs(text[None, :, support]), None if is_whole else support[None], masses.shape[-1])


def _as_pmfs(masses: NDArray[np.floating]) -> tuple[Floats, PartRows]:
    """The public pmfs [n, S] and the private rows of masses [n, 1 + rows, S]."""
    masses = np.ascontiguousarray(masses)
    totals = row_totals(masses)  # [n, 1 + rows]
    if not _LEAST_MASS < totals.min() <= totals.max() < np.inf:
        # A broken part, as above; or none that counts on the public support.
        text, row = np.nonzero(~((totals > _LEAST_MASS) & (totals < np.inf)))
        masses = masses.copy()
        masses[text, row], totals[text, row] = masses[text, 0], totals[text, 0]
    scale = 1.0 / totals
    return masses[:, 0] * scale[:, :1], PartRows(masses, np.ascontiguousarray(scale[:, 1:]), first=1)
