"""Both snapshots along growing beginnings: the one before reads only where it must, and what is cut is bounded.

Two facts bound the score of phrases of n tokens that begin with i tokens of score x:

    DS of every one of them               ≤  x + (n − i)                     p' − p ≤ 1 for a token
    DS of those that go on with t         ≤  x + p'(t | …) + (n − i − 1)     p' − p ≤ p'

The second needs the snapshot *after* alone. So that one reads a beginning first, and the one before reads it only
where the bound passes the worst child kept so far. The greatest bound of all that was cut, for whatever reason, is
the **ceiling**: no phrase that is not returned scores above it. Of a first token only the likeliest successors are
compared: the others have p' ≤ 1/65 and are cut with that bound. `search_bounded` decides how wide to go.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.attacks.update.branches import Branches, branches_of
from reticent.auditing.attacks.update.score import LEAST_PROBABILITY, Snapshots
from reticent.auditing.attacks.update.search import BestPhrases
from reticent.core.arrays import Floats
from reticent.core.model import Tokens

Ints = NDArray[np.int64]

_SUCCESSORS: Final = 64  # of a first token


@dataclass(frozen=True, slots=True)
class Level:
    """Beginnings of one length: tokens [m, i], scores [m], and their parents in either snapshot's generation."""

    tokens: Ints
    scores: Floats
    before: Ints
    after: Ints

    def __len__(self) -> int:
        return len(self.scores)


class Descent:
    """From first tokens down to whole phrases of `length` tokens, level by level."""

    def __init__(self, pair: Snapshots, length: int, *, prefix: Tokens, entries: int) -> None:
        self._before, self._after = (_Side(branches_of(model, prefix)) for model in (pair.before, pair.after))
        self._impossible = np.array(sorted(pair.special_tokens), dtype=np.int64)
        self._length = length
        self._most_rows = max(1, entries // pair.before.vocabulary_size)
        self.scores: Floats = self._after.first() - self._before.first()  # [V], of one token
        self.scores[self._impossible] = -np.inf
        self.ceiling = -np.inf

    @property
    def forward_tokens(self) -> int:
        """Tokens read by both snapshots."""
        return self._before.forward_tokens + self._after.forward_tokens

    def open(self, first: Ints, *, width: int) -> "Opening":
        """First tokens (ascending), read by the snapshot after."""
        return Opening(self, first, width=width)

    def grow(self, level: Level, *, width: int, floor: float) -> Level:
        """The best `width` children of the beginnings; those that cannot lead above `floor` are cut."""
        left = self._length - level.tokens.shape[1] - 1
        growth = _Growth(BestPhrases(width), floor - left)
        order = np.argsort(-level.scores, kind="stable")
        for begin in range(0, len(order), self._most_rows):
            rows = order[begin : begin + self._most_rows]
            new, places = self.read_after(level.after[rows], level.tokens[rows, -1], left=left)
            bounds = level.scores[rows] + new.max(axis=1)
            # The better half first: the worst child kept rises before the rest is asked for.
            for part in np.array_split(np.arange(len(rows)), 2):
                wanted = part[growth.wants(bounds[part])]
                if len(wanted):
                    both = rows[wanted]
                    old, others = self.read_before(level.before[both], level.tokens[both, -1], left=left)
                    children = level.scores[both, None] + new[wanted] - old
                    growth.add(children, _Read(both, others, places[wanted]))
        return self.move(level, growth, left=left)

    def move(self, level: Level, growth: "_Growth", *, left: int) -> Level:
        """Go to the children that were kept, and note the bound of all others."""
        parents, tokens, scores = growth.best.kept()
        self.note(growth.highest_cut() + left)
        if left and len(scores):
            self._before.advance()
            self._after.advance()
        read = growth.read()
        grown = np.column_stack([level.tokens[read.rows[parents]], tokens])
        return Level(grown, scores, read.before[parents], read.after[parents])

    def narrow(self, level: Level, width: int, *, floor: float) -> Level:
        """The best `width` beginnings that can still lead above `floor`."""
        left = self._length - level.tokens.shape[1]
        order = np.argsort(-level.scores, kind="stable")
        kept = np.sort(order[:width][level.scores[order[:width]] + left > floor])
        cut = np.setdiff1d(order, kept)
        self.note(float(level.scores[cut].max(initial=-np.inf)) + left)
        return Level(level.tokens[kept], level.scores[kept], level.before[kept], level.after[kept])

    def note(self, bound: float) -> None:
        """Nothing that was cut here scores above the bound."""
        self.ceiling = max(self.ceiling, bound)

    def read_after(self, parents: Ints, tokens: Ints, *, left: int) -> tuple[Floats, Ints]:
        """Probabilities [n, V] after the update, −∞ for tokens that are no part of a phrase, and places [n]."""
        found, places = self._after.read(parents, tokens, keep=left > 0)
        found[:, self._impossible] = -np.inf
        return found, places

    def read_before(self, parents: Ints, tokens: Ints, *, left: int) -> tuple[Floats, Ints]:
        """Probabilities [n, V] before the update, and places [n]."""
        return self._before.read(parents, tokens, keep=left > 0)

    @property
    def length(self) -> int:
        """Tokens of a whole phrase."""
        return self._length

    @property
    def most_rows(self) -> int:
        """Rows of one block."""
        return self._most_rows


class Opening:
    """First tokens that the snapshot after has read, and their likeliest successors; the one before follows."""

    def __init__(self, descent: Descent, first: Ints, *, width: int) -> None:
        self._descent, self._first = descent, first
        self._scores = descent.scores[first]  # [m]
        self._left = descent.length - 2
        self._growth = _Growth(BestPhrases(width), -np.inf)
        count = min(_SUCCESSORS, len(descent.scores))
        self._ids = np.empty((len(first), count), dtype=np.int64)
        self._likely = np.empty((len(first), count))
        rest = np.zeros(len(first))  # [m]: no other successor is likelier
        total = np.zeros(len(descent.scores))  # [V]
        for begin in range(0, len(first), descent.most_rows):
            rows = slice(begin, min(begin + descent.most_rows, len(first)))
            after, _ = descent.read_after(np.zeros_like(first[rows]), first[rows], left=self._left)
            ids = np.argpartition(-after, count - 1, axis=1)[:, :count]
            self._ids[rows], self._likely[rows] = ids, np.take_along_axis(after, ids, axis=1)
            total += np.maximum(after, 0.0).sum(axis=0)
            if count < after.shape[1]:
                rest[rows] = self._likely[rows].min(axis=1)
        self.bounds = self._scores + self._likely.max(axis=1)  # [m]: of pairs that begin so
        self.promise = self._promise(total / len(first))
        self._is_read = np.zeros(len(first), dtype=bool)
        if count < len(descent.scores):
            descent.note(float((self._scores + rest).max()) + self._left)

    def _promise(self, mean: Floats) -> Floats:
        """How unlike the mean [V] of all rows the likely successors of a row are: [m], a hint and no bound.

        A rare word after a first token says more of an update than a frequent one that is just as likely.
        """
        likely = np.maximum(self._likely, LEAST_PROBABILITY)
        return np.asarray((likely * np.log(likely / np.maximum(mean[self._ids], LEAST_PROBABILITY))).max(axis=1))

    @property
    def threshold(self) -> float:
        """A pair that does not pass it is not kept."""
        return self._growth.best.threshold

    def compare(self, rows: Ints) -> None:
        """Let the snapshot before read these rows as well, and offer their pairs."""
        for begin in range(0, len(rows), self._descent.most_rows):
            block = rows[begin : begin + self._descent.most_rows]
            old, places = self._descent.read_before(np.zeros_like(block), self._first[block], left=self._left)
            pairs = np.full_like(old, -np.inf)
            likely = self._likely[block] - np.take_along_axis(old, self._ids[block], axis=1)
            np.put_along_axis(pairs, self._ids[block], self._scores[block, None] + likely, axis=1)
            self._growth.add(pairs, _Read(block, places, block))  # the snapshot after read all, in this order
            self._is_read[block] = True

    def best_beginnings(self, count: int) -> Ints:
        """First tokens of the best pairs compared so far, `count` at most, ascending."""
        parents, _, scores = self._growth.best.kept()
        firsts = self._first[self._growth.read().rows[parents[np.argsort(-scores, kind="stable")]]]
        _, places = np.unique(firsts, return_index=True)
        return np.sort(firsts[np.sort(places)[:count]])

    def close(self) -> Level:
        """The pairs that were kept."""
        self._descent.note(float(self.bounds[~self._is_read].max(initial=-np.inf)) + self._left)
        return self._descent.move(
            Level(self._first[:, None], self._scores, self._first, self._first), self._growth, left=self._left
        )


class _Side:
    """One snapshot's branches, read in any order."""

    def __init__(self, branches: Branches) -> None:
        self._branches = branches
        self._count = 0

    @property
    def forward_tokens(self) -> int:
        """Tokens read so far."""
        return self._branches.forward_tokens

    def first(self) -> Floats:
        """Probabilities [V] of the first token."""
        return np.asarray(np.exp(self._branches.first()))

    def read(self, parents: Ints, tokens: Ints, *, keep: bool) -> tuple[Floats, Ints]:
        """Probabilities [n, V] after rows of the current generation, and the rows' places [n] in the next one."""
        order = np.argsort(parents, kind="stable")
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        found = np.exp(self._branches.read(parents[order], tokens[order], keep=keep))
        places = self._count + back
        self._count += len(order)
        return found[back], places

    def advance(self) -> None:
        """What was read is the current generation."""
        self._branches.advance()
        self._count = 0


@dataclass(frozen=True, slots=True)
class _Read:
    """Rows that both snapshots read, and their places in what either read."""

    rows: Ints
    before: Ints
    after: Ints


class _Growth:
    """Children of one level as they are found, the rows they come from, and the bound of those left behind."""

    def __init__(self, best: BestPhrases, floor: float) -> None:
        self.best = best
        self._floor = floor
        self._read: list[_Read] = []
        self._count = 0
        self._skipped = -np.inf
        self._highest = -np.inf

    def wants(self, bounds: Floats) -> NDArray[np.bool_]:
        """Which rows the snapshot before must read, by bounds [b] on their children."""
        wanted: NDArray[np.bool_] = bounds > max(self._floor, self.best.threshold)
        self._skipped = max(self._skipped, float(bounds[~wanted].max(initial=-np.inf)))
        return wanted

    def add(self, children: Floats, read: _Read) -> None:
        """Scores [b, V] of the children of these rows."""
        self._highest = max(self._highest, float(children.max(initial=-np.inf)))
        self.best.offer(children, first_parent=self._count, floor=self._floor)
        self._read.append(read)
        self._count += len(read.rows)

    def highest_cut(self) -> float:
        """No child that is not kept scores above this."""
        kept = len(self.best.kept()[2])
        dropped = self.best.threshold if self.best.offered > kept else -np.inf
        return max(self._skipped, min(self._highest, max(dropped, self._floor)))

    def read(self) -> _Read:
        """All rows that both snapshots read, in the order of reading."""
        if not self._read:
            nothing = np.empty(0, dtype=np.int64)
            return _Read(nothing, nothing, nothing)
        rows, before, after = zip(*((one.rows, one.before, one.after) for one in self._read), strict=True)
        return _Read(np.concatenate(rows), np.concatenate(before), np.concatenate(after))
