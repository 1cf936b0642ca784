"""Controls of a membership finding: could members be told apart from non-members without the model?

If they were collected differently (dates, sources, templates), an attack's success says nothing about memorisation,
which has voided many published results (Meeus et al. 2024; Das et al. 2024). The control is a naive Bayes
classifier over bags of words and a length class, never shown the model, cross-validated: its AUC over held-out
folds. If words alone separate the two at the stated level, the membership finding is void.

The test is by permutation: labels are exchanged between targets (where owners are given, between those that are
wholly in or out, and within those that are both, since texts of one owner share words), the whole cross-validation
is run again, and p = (1 + #{AUC* ≥ AUC})/(1 + permutations), which is exact. The interval shown beside it is
approximate.

A control that finds nothing does not prove that the two are alike: other features might tell them apart, and so
might more texts. The fewer are attacked, the greater a difference has to be to be found.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.auditing.metrics.roc import Estimate, Owners, auc_interval, auc_of_ranks, labelled, midranks
from reticent.core.arrays import Flags, Floats
from reticent.core.randomness import Randomness

if TYPE_CHECKING:
    from scipy.sparse import csr_array


FOLDS = 5
_WORD = re.compile(r"\w+")
_MOST_WORDS = 20_000
_SMOOTHING = 1.0


@dataclass(frozen=True, slots=True)
class Control:
    """What words alone tell of membership: cross-validated AUC and its permutation p-value."""

    auc: Estimate
    p_value: float
    level: float
    sides: tuple[int, int]  # members and non-members that it read

    @property
    def void(self) -> str:
        """The reason for which membership findings on these targets are void; empty where there is none."""
        if self.p_value > self.level:
            return ""
        members, others = self.sides
        return (
            f"members and non-members differ without the model: their words alone tell them apart "
            f"(AUC {self.auc.value:.3f}, p = {self.p_value:.3g}, {members:,} and {others:,} texts). Fewer "
            "--records would only hide the difference: split one corpus at random into --train and --holdout"
        )


def bag_of_words_control(
    texts: Sequence[str],
    is_member: ArrayLike,
    *,
    randomness: Randomness,
    owners: Sequence[str] | None = None,
    level: float = 0.025,
    permutations: int = 199,
) -> Control:
    """Whether word counts and length tell members from non-members; texts of one owner stay in one fold.

    Guarantee: where membership is exchangeable between owners, the control voids with chance at most `level`.
    """
    _, labels = labelled(np.zeros(len(texts)), is_member)
    units = list(owners) if owners is not None else [str(index) for index in range(len(texts))]
    if len(units) != len(texts):
        raise ValueError(f"expected {len(texts)} owners, found {len(units)}")
    if (1 + permutations) * level < 1.0:
        raise ValueError(f"{permutations} permutations cannot reach a level of {level}")
    place = np.unique(units, return_inverse=True)[1]
    generator = randomness.generator()
    fold = generator.permutation(place.max() + 1)[place] % FOLDS  # [n]; by owner, without looking at labels
    columns = [labels, *islice(_exchanges(labels, place, generator), permutations)]
    scores = _held_out_scores(_counts(texts), np.stack(columns, axis=1), fold)  # [n, 1 + permutations]
    areas = np.array([auc_of_ranks(midranks(scores[:, k]), column) for k, column in enumerate(columns)])
    # A column whose fold lacked a class has no signal there; ties count half, so its area is still comparable.
    p_value = (1 + int((areas[1:] >= areas[0] - 1e-12).sum())) / (1 + permutations)
    whose = Owners.of(units, labels)
    area = auc_interval(scores[labels, 0], scores[~labels, 0], owners=whose)
    return Control(area, p_value, level, (int(labels.sum()), int((~labels).sum())))


def permutation_p_value(
    scores: ArrayLike,
    is_member: ArrayLike,
    *,
    randomness: Randomness,
    permutations: int = 999,
    owners: Sequence[str] | None = None,
) -> float:
    """Chance of an AUC at least as high if membership were assigned by chance: (1 + #)/(1 + permutations).

    Guarantee: at most p with chance at most p, where labels are exchangeable: between records, or, where owners are
    given, between owners that are wholly in or out and between the records of one that is both.
    """
    values, labels = labelled(scores, is_member)
    units = range(len(values)) if owners is None else owners
    if len(units) != len(values):
        raise ValueError(f"expected {len(values)} owners, found {len(units)}")
    place = np.unique(np.asarray(units), return_inverse=True)[1]
    ranks = midranks(values)
    generator = randomness.generator()
    observed = auc_of_ranks(ranks, labels)
    exchanges = islice(_exchanges(labels, place, generator), permutations)
    drawn = [auc_of_ranks(ranks, exchanged) for exchanged in exchanges]
    return (1 + int((np.array(drawn) >= observed - 1e-12).sum())) / (1 + permutations)


def _exchanges(labels: Flags, place: NDArray[np.int64], generator: np.random.Generator) -> Iterator[Flags]:
    """Labels [n] permuted between owners that are wholly in or out, and within those that are both, for ever."""
    sizes = np.bincount(place)
    inside = np.bincount(place, weights=labels.astype(np.float64))
    is_whole = (inside == 0) | (inside == sizes)
    marks = inside > 0
    whole, of_all = marks[is_whole], bool(is_whole.all())
    while True:
        marks[is_whole] = generator.permutation(whole)
        if of_all:
            yield np.asarray(marks[place])
            continue
        exchanged = np.empty_like(labels)
        shuffled = np.lexsort((generator.random(len(labels)), place))  # by owner, in random order within
        exchanged[np.argsort(place, kind="stable")] = labels[shuffled]
        yield np.where(is_whole[place], marks[place], exchanged)


def _counts(texts: Sequence[str]) -> "csr_array":
    """Presence of words that occur in two texts at least, and of a length class, [n, V] sparse."""
    from scipy.sparse import csr_array  # deferred: keeps the command line quick to start

    bags = [{*_WORD.findall(text.lower()), f" length {math.ceil(4 * math.log2(len(text) + 1))}"} for text in texts]
    occurrences = Counter(word for bag in bags for word in sorted(bag))
    kept = [word for word, count in occurrences.most_common(_MOST_WORDS) if count > 1] or [next(iter(occurrences))]
    column = {word: index for index, word in enumerate(kept)}
    indices = [sorted(column[word] for word in bag if word in column) for bag in bags]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in indices])])
    flat = np.array([index for row in indices for index in row], dtype=np.int64)
    return csr_array((np.ones(len(flat)), flat, starts), shape=(len(texts), len(kept)))


def _held_out_scores(counts: "csr_array", labels: Flags, fold: NDArray[np.int64]) -> Floats:
    """Naive Bayes log-odds [n, k] of each text, from the other folds, for each column of labels [n, k]."""
    scores = np.zeros(labels.shape)
    for number in range(FOLDS):
        held = fold == number
        if not held.any() or held.all():
            continue
        rows, marks = counts[~held], labels[~held].astype(np.float64)  # [n', V], [n', k]
        inside, outside = (_log_rates(rows, side) for side in (marks, 1.0 - marks))
        scores[held] = counts[held] @ (inside - outside)
    return scores


def _log_rates(rows: "csr_array", weights: Floats) -> Floats:
    """Smoothed log-frequencies [V, k] of words in the weighted rows [n', V], weights [n', k]."""
    totals = np.asarray(rows.T @ weights) + _SMOOTHING
    return np.asarray(np.log(totals) - np.log(weights.sum(axis=0) + 2.0 * _SMOOTHING))
