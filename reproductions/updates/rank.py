"""How many phrases of the same length an update made likelier than a given one: its differential rank.

    DR(s) = #{ s' ∈ T^|s| : DS(s') > DS(s) }                                        0 is the most exposed

Level by level over all phrases. One token adds at most 1 to DS, so a beginning of i tokens with score x leads to
nothing above x + (n − i): where that does not pass DS(s), the branch is cut with all |T|^(n−i) phrases below. For
an exposed phrase nearly everything is cut after the second token; for two tokens this is full enumeration with the
hopeless first tokens left out. The relative score has no useful bound (1e5 a token) and is enumerated whole.

What the limit on rows leaves unread makes the rank a bracket: phrases found above from below, phrases not cut from
above. Scores that differ by less than `tie_tolerance` are ties and counted apart, since two routes through a
float32 model differ in the last digits; the definition counts strictly higher scores alone.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from reticent.auditing import BestPhrases, PhraseWalk, Snapshots, UpdateScore
from reticent.core import Tokens

MOST_ROWS: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferentialRank:
    """The rank of a phrase among all `size` of its length: exact, or between two numbers."""

    higher: int
    tied: int  # the phrase itself not counted
    unsettled: int
    size: int
    forward_tokens: int

    @property
    def is_exact(self) -> bool:
        """Whether every phrase was scored or cut."""
        return self.unsettled == 0

    @property
    def least(self) -> int:
        """The rank if no unsettled phrase is higher."""
        return self.higher

    @property
    def greatest(self) -> int:
        """The rank if every unsettled phrase is higher."""
        return self.higher + self.unsettled


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSettings:
    """What is counted, and how far. `most_rows` bounds the beginnings that are kept at each length."""

    score: UpdateScore = UpdateScore.ABSOLUTE
    prefix: tuple[int, ...] = ()
    most_rows: int = MOST_ROWS
    entries: int = 2**22
    tie_tolerance: float = 1e-6

    def __post_init__(self) -> None:
        if min(self.most_rows, self.entries) < 1 or not self.tie_tolerance >= 0.0:
            raise ValueError("limits of a search are positive")


def differential_rank(pair: Snapshots, phrase: Tokens, *, settings: RankSettings | None = None) -> DifferentialRank:
    """The rank of a phrase among all phrases of its length, start and end tokens left out.

    Guarantee: where `is_exact`, the number of phrases whose score is higher by more than the tolerance; else that
    number lies in [least, greatest].
    """
    chosen = settings or RankSettings()
    if len(phrase) == 0 or not pair.special_tokens.isdisjoint(phrase):
        raise ValueError("a ranked phrase has tokens, none of them special")
    (own,) = pair.score([phrase], prefix=chosen.prefix)
    return _count(pair, own.by(chosen.score), len(phrase), chosen)


def _count(pair: Snapshots, target: float, length: int, chosen: RankSettings) -> DifferentialRank:
    """Go down the levels, counting at the last one."""
    tolerance = chosen.tie_tolerance * max(1.0, abs(target))
    walk = PhraseWalk(pair, chosen.score, prefix=chosen.prefix, entries=chosen.entries)
    counted = _Count(target + tolerance, target - tolerance)
    unsettled = 0
    for depth in range(1, length + 1):
        left = length - depth
        best = BestPhrases(chosen.most_rows)
        floor = target - tolerance - chosen.score.most_per_token * left if left else -np.inf
        blocks = walk.children(keep=left > 0) if depth > 1 else [(slice(0, 1), walk.first()[None, :])]
        for rows, scores in blocks:
            if left == 0:
                counted.add(scores)
            else:
                best.offer(scores, first_parent=rows.start, floor=floor)
        if left:
            parents, tokens, kept = best.kept()
            unsettled += (best.offered - len(kept)) * walk.size**left
            if len(kept) == 0:  # everything was cut
                break
            walk.move(parents, tokens, kept)
    return DifferentialRank(
        higher=counted.higher,
        tied=max(0, counted.tied - 1),
        unsettled=unsettled,
        size=walk.size**length,
        forward_tokens=walk.forward_tokens,
    )


class _Count:
    """Phrases above the target, and level with it."""

    def __init__(self, above: float, below: float) -> None:
        self._above, self._below = above, below
        self.higher = self.tied = 0

    def add(self, scores: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
        higher = int((scores > self._above).sum())
        self.higher += higher
        self.tied += int((scores >= self._below).sum()) - higher
