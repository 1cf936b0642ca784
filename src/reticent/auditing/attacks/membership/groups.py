"""Membership of owners and of groups: one score from the scores of several records.

An owner is in the training data with all records or with none; an owner with records on both sides has no answer
and is refused. Groups of a fixed size, all members or all not, follow the CRT paper's group attack (appendix A.4:
2,000 groups of 20, classified by the sum of their scores, which orders groups of one size as the mean does).

A record without tokens says nothing of its group and is left out of the mean, unless the group has no other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.auditing.metrics.roc import labelled
from reticent.core.arrays import Floats
from reticent.core.choice import member_of
from reticent.core.errors import UsageError


class Pooling(StrEnum):
    """How a group's score comes from its records': the mean, or the most exposed record alone."""

    MEAN = "mean"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class GroupScores:
    """Scores [g] and labels [g] of groups, with the number of records in each [g] and how many were left over."""

    scores: Floats
    is_member: NDArray[np.bool_]
    sizes: NDArray[np.int64]
    left_over: int = 0


def score_owners(
    scores: ArrayLike, is_member: ArrayLike, *, owners: Sequence[str], pooling: Pooling = Pooling.MEAN
) -> GroupScores:
    """One score per owner, in order of first appearance."""
    values, labels = labelled(scores, is_member)
    if len(owners) != len(values):
        raise ValueError(f"expected {len(values)} owners, found {len(owners)}")
    rows: dict[str, list[int]] = {}
    for index, owner in enumerate(owners):
        rows.setdefault(owner, []).append(index)
    mixed = sum(0 < labels[indices].sum() < len(indices) for indices in rows.values())
    if mixed:
        raise UsageError(
            "owners stand on both sides of the membership question",
            found=f"{mixed} of {len(rows)} owners with members and non-members",
            hint="split members and non-members by owner",
        )
    return pooled_scores(values, labels, list(rows.values()), pooling=pooling)


def pooled_scores(
    scores: ArrayLike, is_member: ArrayLike, groups: Sequence[Sequence[int]], *, pooling: Pooling = Pooling.MEAN
) -> GroupScores:
    """One score per group of records: `groups` holds their places in `scores` [n], each of one class."""
    pooling = member_of(Pooling, pooling, name="pooling")
    values, labels = labelled(scores, is_member)
    pooled = []
    for indices in groups:
        inside = values[list(indices)]
        told = inside[~np.isneginf(inside)]
        if len(told) == 0:
            pooled.append(-np.inf)
        else:
            pooled.append(float(told.mean() if pooling is Pooling.MEAN else told.max()))
    return GroupScores(
        scores=np.array(pooled),
        is_member=np.array([bool(labels[indices[0]]) for indices in groups]),
        sizes=np.array([len(indices) for indices in groups], dtype=np.int64),
        left_over=len(values) - sum(len(indices) for indices in groups),
    )
