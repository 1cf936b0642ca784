"""Which phrases an update made likelier: beam search for the highest differential scores.

    step 1   every token of the vocabulary is scored after the prefix
    step i   every kept phrase is extended by every token; the best `width_i` phrases of length i are kept

Widths: |T| halved at each step (`width` None: |T|, |T|/2, |T|/4, …), or fixed. With N groups, the tokens of step 1
are split into N parts by their score and each part is searched by itself: phrases with one lucky beginning do not
crowd out all others (Zanella-Béguelin et al. 2020, sections 2.4 and 3.3).

Both snapshots read the same rows in the same blocks through their caches. Extensions are scored block by block, so
memory is a few blocks of `entries` numbers and the kept phrases, whatever |T| is. Equal scores are ordered by the
phrase's tokens, so that results do not depend on the blocks.

A beam is a heuristic: what it finds is there, what it does not find may be there too, and a rank among what it
found is a **lower bound** on the true rank. The reproductions bound that from both sides, and `search_bounded`
is a beam that proves, where it can, that what it found is the best there is.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.attacks.update.branches import branches_of
from reticent.auditing.attacks.update.score import PhraseScore, Snapshots, UpdateScore
from reticent.core.arrays import Floats
from reticent.core.choice import member_of, settle_choices
from reticent.core.model import Tokens

Ints = NDArray[np.int64]
TIE: Final = 1e-6  # two routes through a float32 model differ by less


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamSettings:
    """How a beam search for phrases goes. `entries` bounds the numbers of one block: rows × vocabulary.

    `is_bounded` asks for the search that proves what it can (`update.bounded_search`) in place of the paper's beam.
    """

    length: int = 5
    width: int | None = None
    groups: int = 1
    score: UpdateScore = UpdateScore.ABSOLUTE
    prefix: tuple[int, ...] = ()
    entries: int = 2**22
    is_bounded: bool = False

    def __post_init__(self) -> None:
        settle_choices(self, score=UpdateScore)
        if min(self.length, self.groups, self.entries) < 1 or (self.width is not None and self.width < 1):
            raise ValueError("length, width, groups and entries of a search are positive")
        if self.is_bounded and (self.width is not None or self.groups > 1 or self.score is UpdateScore.RELATIVE):
            raise ValueError("a search with a bound chooses its own width, has no groups and orders by DS")

    def width_at(self, step: int, vocabulary: int) -> int:
        """Phrases that one group keeps after a step, the first being 1."""
        whole = vocabulary >> (step - 1) if self.width is None else self.width
        return max(1, -(-whole // self.groups))


@dataclass(frozen=True, slots=True)
class Beam:
    """What a search kept, best first: tokens [m, length], scores [m], and the group of each [m]."""

    tokens: Ints
    scores: Floats
    groups: Ints
    score: UpdateScore
    forward_tokens: int  # read by both snapshots together
    ceiling: float = np.inf  # no phrase that was not kept scores above; infinite where nothing is known

    def __repr__(self) -> str:
        return f"Beam({len(self.scores)} phrases of {self.tokens.shape[1]} tokens)"

    @property
    def proved(self) -> int:
        """How many of the first phrases are the best of all phrases of their length, in this order."""
        return int((self.scores > self.ceiling + TIE).sum())

    def least_rank(self, score: float, *, leave_out: Iterable[Tokens] = ()) -> int:
        """How many found phrases have a higher score: a lower bound on the differential rank.

        `leave_out` are phrases that do not count, such as other canaries of the same update.
        """
        others = {tuple(phrase) for phrase in leave_out}
        above = self.tokens[self.scores > score].tolist()
        return sum(tuple(row) not in others for row in above)

    def holds(self, phrase: Tokens) -> bool:
        """Whether the search found this very phrase."""
        return any(tuple(row) == tuple(phrase) for row in self.tokens.tolist())

    def best_of_groups(self, count: int) -> Ints:
        """Places of the best `count` phrases of each group, group by group."""
        places = [np.flatnonzero(self.groups == group)[:count] for group in np.unique(self.groups)]
        return np.concatenate(places)


def search_phrases(pair: Snapshots, settings: BeamSettings) -> Beam:
    """Search for what an update made likelier: the phrases of `settings.length` tokens that the beam keeps."""
    pair.check_room(len(settings.prefix) + settings.length)
    walk = PhraseWalk(pair, settings.score, prefix=settings.prefix, entries=settings.entries)
    single = walk.first()
    first, groups = _first_step(single, walk.size, settings)
    scores = single[first]
    walk.move(np.zeros_like(first), first, scores)
    for step in range(2, settings.length + 1):
        best = [BestPhrases(settings.width_at(step, walk.size)) for _ in range(settings.groups)]
        for rows, children in walk.children(keep=step < settings.length):
            for group in range(settings.groups):
                begin, end = np.searchsorted(groups[rows], (group, group + 1))
                if end > begin:
                    best[group].offer(children[begin:end], first_parent=rows.start + int(begin))
        parents, tokens, scores = (np.concatenate(each) for each in zip(*(b.kept() for b in best), strict=True))
        groups = groups[parents]
        walk.move(parents, tokens, scores)
    order = np.lexsort((*walk.tokens.T[::-1], -scores))
    return Beam(walk.tokens[order], scores[order], groups[order], settings.score, walk.forward_tokens)


def score_beam(pair: Snapshots, beam: Beam, places: Ints, *, prefix: Tokens = ()) -> list[PhraseScore]:
    """All scores of the phrases at these places of a beam."""
    return pair.score([tuple(row) for row in beam.tokens[places].tolist()], prefix=prefix)


def _first_step(scores: Floats, size: int, settings: BeamSettings) -> tuple[Ints, Ints]:
    """First tokens that are kept, and their groups: parts of the vocabulary by score, ascending group numbers."""
    order = np.lexsort((np.arange(len(scores)), -scores))[:size]  # impossible tokens stand last
    parts = np.array_split(order, settings.groups)
    kept = [np.sort(part[: settings.width_at(1, size)]) for part in parts]
    numbers = [np.full(len(part), group, dtype=np.int64) for group, part in enumerate(kept)]
    return np.concatenate(kept), np.concatenate(numbers)


class PhraseWalk:
    """Reads growing phrases with both snapshots side by side."""

    def __init__(self, pair: Snapshots, score: UpdateScore, *, prefix: Tokens, entries: int) -> None:
        self._score = member_of(UpdateScore, score, name="score")
        self._sides = (branches_of(pair.before, prefix), branches_of(pair.after, prefix))
        self._impossible = np.array(sorted(pair.special_tokens), dtype=np.int64)
        self.size = pair.before.vocabulary_size - len(self._impossible)  # tokens of which phrases are made: |T|
        self._block = max(1, entries // pair.before.vocabulary_size)
        self.tokens: Ints = np.empty((1, 0), dtype=np.int64)  # [m, depth]
        self.scores: Floats = np.zeros(1)
        self._parents: Ints = np.zeros(1, dtype=np.int64)

    @property
    def forward_tokens(self) -> int:
        """Tokens read by both snapshots."""
        return sum(side.forward_tokens for side in self._sides)

    def first(self) -> Floats:
        """Score [V] of every phrase of one token."""
        before, after = (side.first() for side in self._sides)
        return self._possible(self._score.increments(before, after))

    def move(self, parents: Ints, tokens: Ints, scores: Floats) -> None:
        """Go to the phrases made of current ones (`parents`, ascending) and a token each."""
        self.tokens = np.column_stack([self.tokens[parents], tokens])
        self.scores, self._parents = scores, parents

    def children(self, *, keep: bool) -> Iterator[tuple[slice, Floats]]:
        """Rows of the current phrases in blocks, and the score [n, V] of each extended by every token."""
        for start in range(0, len(self.scores), self._block):
            rows = slice(start, min(start + self._block, len(self.scores)))
            before, after = (
                side.read(self._parents[rows], self.tokens[rows, -1], keep=keep) for side in self._sides
            )
            yield rows, self._possible(self.scores[rows, None] + self._score.increments(before, after))
        if keep:
            for side in self._sides:
                side.advance()

    def _possible(self, scores: Floats) -> Floats:
        """Start and end token are no part of a phrase."""
        scores[..., self._impossible] = -np.inf
        return scores


class BestPhrases:
    """Keeps the `width` best of all phrases offered; of equal ones the first parent's, then the least token."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.offered = 0  # children above the floor of `offer`
        self._parents: list[Ints] = []
        self._tokens: list[Ints] = []
        self._scores: list[Floats] = []
        self._waiting = 0
        self.threshold = -np.inf  # children that do not pass it are not kept

    def offer(self, scores: Floats, *, first_parent: int, floor: float = -np.inf) -> None:
        """Children [n, V] of the parents from `first_parent` on, ascending; only those above `floor` count."""
        self.offered += int((scores > floor).sum())
        rows, tokens = np.nonzero(scores > max(floor, self.threshold))
        values = scores[rows, tokens]
        if len(values) > self.width:
            chosen = _top(values, self.width)
            rows, tokens, values = rows[chosen], tokens[chosen], values[chosen]
        if len(values) == 0:
            return
        self._parents.append(rows + first_parent)
        self._tokens.append(tokens)
        self._scores.append(values)
        self._waiting += len(values)
        if self._waiting > self.width:
            self._shrink()

    def kept(self) -> tuple[Ints, Ints, Floats]:
        """Parents (ascending), tokens and scores of the best."""
        self._shrink()
        if not self._scores:
            nothing = np.empty(0, dtype=np.int64)
            return nothing, nothing, np.empty(0)
        return self._parents[0], self._tokens[0], self._scores[0]

    def _shrink(self) -> None:
        if not self._scores:
            return
        parents, tokens = np.concatenate(self._parents), np.concatenate(self._tokens)
        values: Floats = np.concatenate(self._scores)
        chosen = _top(values, self.width)
        self._parents, self._tokens, self._scores = [parents[chosen]], [tokens[chosen]], [values[chosen]]
        self._waiting = len(chosen)
        if self._waiting == self.width:
            self.threshold = float(values[chosen].min())


def _top(values: Floats, width: int) -> Ints:
    """Places of the `width` greatest values, in their own order; of equal values the first."""
    if len(values) <= width:
        return np.arange(len(values))
    least = np.partition(values, len(values) - width)[len(values) - width]
    above = np.flatnonzero(values > least)
    equal = np.flatnonzero(values == least)[: width - len(above)]
    return np.sort(np.concatenate([above, equal]))
