"""The phrases with the highest differential scores, found by a beam that knows what it left out.

    1   the snapshot after reads every first token; the one before the more promising, while their bounds allow
    2   a narrow beam from the best pairs finds whole phrases: the `top`-th best score is a floor
    3   every length keeps as many beginnings as the tokens allow, those that cannot lead above the floor cut

The greatest bound of all that was cut is the ceiling (`update.descent`): what was found above it is
**proved** to be the best of all |T|^n phrases. By default the search reads a tenth of what the naive beam reads
(|T| phrases at every step, each read whole) from four tokens on, whatever the models are; more make it wider.

For an exposed phrase (a score above n − 2) nearly everything is cut after the second token. For a weak one no bound
helps: then this is a beam of constant width, and says that it proved nothing. The relative score has no bound.

Reference: Zanella-Béguelin et al. 2020, section 2.4, for the beam; the bounds are elementary.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.attacks.update.descent import Descent, Level
from reticent.auditing.attacks.update.score import Snapshots, UpdateScore
from reticent.auditing.attacks.update.search import TIE, Beam, BeamSettings, search_phrases
from reticent.core.arrays import Floats

Ints = NDArray[np.int64]

_DIVE: Final = 8  # phrases of the narrow beam that finds a floor
_KEPT: Final = 8  # |T| divided by this are returned
_FEWEST: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedSettings:
    """How a search goes: `top` phrases are to be proved, `most_tokens` read (None: a tenth of the naive beam's).

    Every first token is read and a few phrases kept however few tokens are allowed; phrases of two tokens are all
    compared. `entries` bounds the numbers of one block: rows × vocabulary.
    """

    length: int = 5
    top: int = 10
    prefix: tuple[int, ...] = ()
    most_tokens: int | None = None
    entries: int = 2**22

    def __post_init__(self) -> None:
        if min(self.length, self.top, self.entries, self.most_tokens or 1) < 1:
            raise ValueError("length, top, tokens and entries of a search are positive")

    def token_limit(self, vocabulary: int) -> int:
        """Tokens that the search plans with."""
        if self.most_tokens is not None:
            return self.most_tokens
        # Below four tokens a tenth is less than one reading of the first tokens.
        return max(naive_tokens(self.length, vocabulary) // 10, 7 * vocabulary // 4)

    def first_tokens(self, vocabulary: int) -> int:
        """How many first tokens the snapshot before may read, so that enough is left for later lengths."""
        levels = self.length - 2
        if levels == 0:
            return vocabulary
        later = 2 * levels * vocabulary // (8 if levels > 2 else 16)
        left = self.token_limit(vocabulary) - vocabulary - later
        return min(vocabulary, max(left, -(-vocabulary // 2)))

    def width_for(self, tokens: int, levels: int) -> int:
        """Beginnings to read at each of so many levels, twice each."""
        return max(_FEWEST, self.top, tokens // max(1, 2 * levels))


def naive_tokens(length: int, vocabulary: int) -> int:
    """What both snapshots read in a beam of |T| phrases at every step, each read whole for its extensions."""
    return 2 * (1 + vocabulary * (length * (length + 1) // 2 - 1))


def search_bounded(pair: Snapshots, settings: BoundedSettings) -> Beam:
    """The best phrases that were found, and the ceiling of all others.

    Guarantee: no phrase of this length after the prefix, start and end tokens left out, that is not returned has a
    differential score above `ceiling`, up to the rounding of the models' own arithmetic.
    """
    pair.check_room(len(settings.prefix) + settings.length)
    main = Descent(pair, settings.length, prefix=settings.prefix, entries=settings.entries)
    first = np.flatnonzero(np.isfinite(main.scores))
    found = _Found(settings.length)
    spent = 0
    if settings.length == 1:
        found.add(first[:, None], main.scores[first])
    else:
        spent = _search(pair, settings, main, found, first=first)
    return found.beam(main.forward_tokens + spent, ceiling=main.ceiling)


def find_phrases(pair: Snapshots, settings: BeamSettings, *, top: int = 10) -> Beam:
    """The search that the settings ask for.

    Where the one with a bound proves fewer than `top` phrases, the paper's beam is run as well: its early steps are
    wider, which finds phrases that an update hardly moved. The ceiling stays the first one's.
    """
    if not settings.is_bounded:
        return search_phrases(pair, settings)
    chosen = BoundedSettings(length=settings.length, top=top, prefix=settings.prefix, entries=settings.entries)
    bounded = search_bounded(pair, chosen)
    if bounded.proved >= top:
        return bounded
    beam = search_phrases(pair, replace(settings, is_bounded=False))
    found = _Found(settings.length)
    found.add(bounded.tokens, bounded.scores)
    found.add(beam.tokens, beam.scores)
    return found.beam(bounded.forward_tokens + beam.forward_tokens, ceiling=bounded.ceiling)


def _search(pair: Snapshots, settings: BoundedSettings, main: Descent, found: "_Found", *, first: Ints) -> int:
    """Find phrases of two tokens or more; what was read beside the main descent is returned."""
    limit, levels = settings.token_limit(len(first)), settings.length - 2
    kept = max(settings.top, len(first) // _KEPT)
    width = settings.width_for(limit - len(first), levels) if levels else kept
    opening = main.open(first, width=width)
    order = np.argsort(-opening.promise, kind="stable")
    quota = settings.first_tokens(len(first))
    opening.compare(order[: -(-quota // 2)])
    spent = 0
    if levels:
        dive = Descent(pair, settings.length, prefix=settings.prefix, entries=settings.entries)
        _dive(dive, opening.best_beginnings(_DIVE), found, width=max(_DIVE, settings.top))
        spent = dive.forward_tokens
    floor = found.score_at(settings.top) - 2.0 * TIE
    rest = order[-(-quota // 2) : quota]
    opening.compare(rest[opening.bounds[rest] > max(opening.threshold, floor - levels)])
    level = opening.close()
    for depth in range(2, settings.length):
        left = settings.length - depth
        room = limit - spent - main.forward_tokens
        level = main.narrow(level, settings.width_for(room, left), floor=floor)
        wide = settings.width_for(room - 2 * len(level), left - 1) if left > 1 else kept
        level = main.grow(level, width=wide, floor=floor)
    found.add(level.tokens, level.scores)
    return spent


def _dive(descent: Descent, first: Ints, found: "_Found", *, width: int) -> None:
    """A narrow beam from a few first tokens."""
    opening = descent.open(first, width=_DIVE)
    opening.compare(np.arange(len(first)))
    level: Level = opening.close()
    for depth in range(3, descent.length + 1):
        level = descent.grow(level, width=_DIVE if depth < descent.length else width, floor=-np.inf)
    found.add(level.tokens, level.scores)


class _Found:
    """Whole phrases, best first, no two alike."""

    def __init__(self, length: int) -> None:
        self._tokens: Ints = np.empty((0, length), dtype=np.int64)
        self._scores: Floats = np.empty(0)

    def add(self, tokens: Ints, scores: Floats) -> None:
        """Put phrases [m, n] with scores [m] beside the others."""
        distinct, first = np.unique(np.concatenate([self._tokens, tokens]), axis=0, return_index=True)
        scores = np.concatenate([self._scores, scores])[first]
        order = np.lexsort((*distinct.T[::-1], -scores))
        self._tokens, self._scores = distinct[order], scores[order]

    def score_at(self, place: int) -> float:
        """The score of the phrase at a place, the first being 1; where there are fewer, nothing is too low."""
        return float(self._scores[place - 1]) if len(self._scores) >= place else -np.inf

    def beam(self, forward_tokens: int, *, ceiling: float) -> Beam:
        """All of them."""
        groups = np.zeros(len(self._scores), dtype=np.int64)
        return Beam(self._tokens, self._scores, groups, UpdateScore.ABSOLUTE, forward_tokens, ceiling=ceiling)
