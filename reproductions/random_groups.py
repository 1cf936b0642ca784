"""Membership of groups of records drawn at random, beside that of owners."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from reticent import UsageError
from reticent.auditing import GroupScores, Pooling, pooled_scores, score_owners
from reticent.core import Randomness


def score_random_groups(
    scores: ArrayLike,
    is_member: ArrayLike,
    *,
    size: int,
    randomness: Randomness,
    pooling: Pooling = Pooling.MEAN,
    owners: Sequence[str] | None = None,
) -> GroupScores:
    """Disjoint random groups of `size` records, all members or all not; what does not fill a group is left over.

    With `owners` no two groups share one, so that groups are as independent as owners are: records of an owner come
    one after the other, and those that its group has no room for are left over. An owner on both sides is refused.
    """
    labels = np.asarray(is_member, dtype=np.bool_)
    if owners is not None:
        score_owners(scores, labels, owners=owners)  # refuses owners on both sides
    groups: list[list[int]] = []
    for name, side in (("members", labels), ("non-members", ~labels)):
        places = np.flatnonzero(side)
        if not 1 <= size <= len(places):
            raise UsageError(
                f"too few {name} for one group", found=f"{len(places)} records", expected=f"at least {size}"
            )
        shuffled = places[randomness.child(name).permutation(len(places))]
        if owners is None:
            groups += [shuffled[s : s + size].tolist() for s in range(0, len(places) - size + 1, size)]
        else:
            groups += _groups_of_owners(shuffled.tolist(), owners, size)
    if not all(any(bool(labels[group[0]]) is side for group in groups) for side in (True, False)):
        raise UsageError(
            "too few owners for one group of members and one of others", expected=f"{size} records each"
        )
    return pooled_scores(scores, labels, groups, pooling=pooling)


def _groups_of_owners(places: list[int], owners: Sequence[str], size: int) -> list[list[int]]:
    """Groups of `size` places filled owner by owner; an owner that fills a group is in no other."""
    rows: dict[str, list[int]] = {}
    for place in places:
        rows.setdefault(owners[place], []).append(place)
    groups: list[list[int]] = [[]]
    for mine in rows.values():
        groups[-1] += mine[: size - len(groups[-1])]
        if len(groups[-1]) == size:
            groups.append([])
    return groups[:-1]
