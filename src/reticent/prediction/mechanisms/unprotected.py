"""Answers without a private mechanism: the public model, the non-private ensemble, MemFree.

The public model costs nothing. The ensemble's mean protects nothing. **MemFree** (Ippolito et al. 2022) refuses
every token that would complete an n-gram of the training text; a paraphrase or one changed character passes it, the
refusals themselves tell members from others, and it has **no guarantee**. Its event is `NonPrivate`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from reticent.core.arrays import Floats
from reticent.core.errors import ConfigError
from reticent.core.event import Composed, NonPrivate
from reticent.core.model import Tokens
from reticent.core.randomness import Randomness
from reticent.prediction.mechanisms.mechanism import ANSWERS, Layout, Mechanism, Moment, Release, uniform_costs
from reticent.prediction.mechanisms.shaping import Rows, Shaped, Shaping, shape_together


@dataclass(frozen=True, slots=True)
class PublicModel:
    """Row 0 alone."""

    name: ClassVar[str] = "public"
    measure: ClassVar[str | None] = None
    price: ClassVar[float | None] = 0.0

    layout: Layout
    shaping: Shaping = field(default_factory=Shaping)

    def release(self, rows: Floats, moment: Moment, *, randomness: Randomness) -> Release:  # noqa: ARG002
        """The public model's token."""
        return self._release(self.shaping.shape(rows[:1]))

    def is_like(self, other: Mechanism) -> bool:
        """Whether the other differs in its shaping at most."""
        return isinstance(other, PublicModel) and replace(other, shaping=self.shaping) == self

    def release_together(self, rows: Rows, shapings: Sequence[Shaping], moment: Moment) -> list[Release]:  # noqa: ARG002
        """The public model's token for each of n texts."""
        return [self._release(each.text(0)) for each in shape_together(rows[:, :1], shapings)]

    def _release(self, shaped: Shaped) -> Release:
        return Release(shaped.spread(shaped.public), np.zeros(self.layout.parts), Composed(()))


@dataclass(frozen=True, slots=True)
class NonPrivateEnsemble:
    """The mean of the parts: what could be had without privacy. Protects nothing."""

    name: ClassVar[str] = "non-private"
    measure: ClassVar[str | None] = ANSWERS
    price: ClassVar[float | None] = 1.0

    layout: Layout
    shaping: Shaping = field(default_factory=Shaping)

    def release(self, rows: Floats, moment: Moment, *, randomness: Randomness) -> Release:  # noqa: ARG002
        """A token of the mean of the parts."""
        self.layout.require(rows)
        shaped = self.shaping.shape(rows)
        mean = self.layout.part_pmfs(shaped.private).mean(axis=0)
        return Release(shaped.spread(mean), uniform_costs(self.layout.parts, 1.0), NonPrivate())


class NGramIndex:
    """Which tokens complete an n-gram of a corpus. `repr` shows sizes alone: it holds private text."""

    def __init__(self, texts: Iterable[Tokens], length: int) -> None:
        if length < 2:
            raise ConfigError("an n-gram filter needs n of at least 2", found=length)
        self.length = length
        self._next: dict[tuple[int, ...], set[int]] = {}
        for text in texts:
            for start in range(len(text) - length + 1):
                gram = tuple(text[start : start + length])
                self._next.setdefault(gram[:-1], set()).add(gram[-1])

    def __repr__(self) -> str:
        return f"NGramIndex(n={self.length}, {len(self._next)} prefixes)"

    def blocked(self, context: Tokens) -> list[int]:
        """Tokens that would complete an n-gram of the corpus after `context`."""
        if len(context) < self.length - 1:
            return []
        return sorted(self._next.get(tuple(context[len(context) - self.length + 1 :]), ()))

    def filtered(self, pmf: Floats, context: Tokens) -> Floats | None:
        """A pmf [V] without the tokens that are blocked after `context`, normalised; None where nothing is left."""
        kept = pmf.copy()
        kept[self.blocked(context)] = 0.0
        total = kept.sum()
        return kept / total if total > 0.0 else None


@dataclass(frozen=True, slots=True)
class MemFree:
    """The ensemble's mean without the tokens that would complete an n-gram of the training text."""

    name: ClassVar[str] = "memfree"
    measure: ClassVar[str | None] = ANSWERS
    price: ClassVar[float | None] = 1.0

    layout: Layout
    index: NGramIndex
    shaping: Shaping = field(default_factory=Shaping)

    def release(self, rows: Floats, moment: Moment, *, randomness: Randomness) -> Release:  # noqa: ARG002
        """A token of the filtered mean; without mass left, of the filtered public model, else the public one."""
        self.layout.require(rows)
        shaped = self.shaping.shape(rows)
        public = shaped.spread(shaped.public)
        mean = shaped.spread(self.layout.part_pmfs(shaped.private).mean(axis=0))
        filtered = (self.index.filtered(row, moment.context) for row in (mean, public))
        pmf = next((kept for kept in filtered if kept is not None), public)
        return Release(pmf, uniform_costs(self.layout.parts, 1.0), NonPrivate())
