"""The inference game: a masked sentence and |C| candidates, one of them the truth; which is it?

Adversary: log-probabilities, the sentence around the value, and the candidates (Lukas et al. 2023, game 3). A
guess without the model is right with chance 1/|C|: the null. Decoys are of the truth's kind and, as far as there
are any, of its token length, or length alone would tell. They are drawn from

    trained   other values of the training data: the model knows all candidates, so only the sentence can tell
    unseen    values that the training data does not hold: knowing that a value was trained on is enough

What follows the value is read after the likeliest candidates alone (`SHORTLIST`, see `personal_data.scoring`).
Candidates stand in random order and the first best one is the guess, so that ties are broken by chance and a model
that cannot tell scores 1/|C|. Targets without enough decoys are left out before anything is scored, and counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.attacks.personal_data.contexts import MaskedSpan
from reticent.auditing.attacks.personal_data.inventory import PiiInventory
from reticent.auditing.attacks.personal_data.scoring import CandidateScorer
from reticent.core.choice import settle_choices
from reticent.core.model import LanguageModel
from reticent.core.randomness import Randomness
from reticent.core.secret import Secret

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SHORTLIST: Final = 10  # as many guesses are right as if it were read after all of them, at a third of the cost


class Decoys(StrEnum):
    """Where false candidates come from."""

    TRAINED = "trained"
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True, repr=False)
class CandidateSet:
    """The candidates of a target in random order, the place of the truth, and how many decoys match its length."""

    candidates: tuple[str, ...]
    truth: int
    matched: int

    def __repr__(self) -> str:
        return f"CandidateSet({len(self.candidates)} candidates)"


@dataclass(frozen=True, slots=True)
class CandidateDraw:
    """Targets of the inference game with enough decoys, their sets of candidates, and how many had too few."""

    targets: tuple[MaskedSpan, ...]
    sets: tuple[CandidateSet, ...]
    left_out: int
    decoys: Decoys

    def __post_init__(self) -> None:
        settle_choices(self, decoys=Decoys)

    @property
    def matched_share(self) -> float:
        """Share of the decoys that have the truth's token length."""
        total = sum(len(each.candidates) - 1 for each in self.sets)
        return sum(each.matched for each in self.sets) / total if total else 0.0


def draw_candidates(
    targets: Sequence[MaskedSpan],
    pool: PiiInventory,
    *,
    training: PiiInventory,
    size: int,
    lengths: Callable[[Sequence[str]], Sequence[int]],
    randomness: Randomness,
) -> CandidateDraw:
    """`size` candidates for each target, decoys from `pool`: the training data's own values, or others.

    A pool other than `training` loses every value that the training data holds. A decoy never stands in the
    target's own record, where it would be a right answer of a kind. `lengths` gives the number of tokens of texts.
    """
    if size < 2:
        raise ValueError("inference needs at least two candidates")
    is_trained = pool is training
    usable = [value for value in pool if is_trained or value not in training]
    measured = dict(zip(usable, lengths([f" {value.reveal()}" for value in usable]), strict=True))
    by_kind: dict[str, list[Secret]] = {}
    for value in usable:
        by_kind.setdefault(value.kind, []).append(value)
    held = _values_by_record(training)
    kept, sets = list[MaskedSpan](), list[CandidateSet]()
    own_lengths = lengths([f" {target.secret.reveal()}" for target in targets])
    for target, own in zip(targets, own_lengths, strict=True):
        excluded = held.get(target.record, frozenset()) | {target.secret}
        others = [value for value in by_kind.get(target.secret.kind, ()) if value not in excluded]
        if len(others) >= size - 1:
            kept.append(target)
            away = np.array([abs(measured[value] - own) for value in others])
            sets.append(_draw(target.secret, others, away, size=size, randomness=randomness))
    decoys = Decoys.TRAINED if is_trained else Decoys.UNSEEN
    return CandidateDraw(tuple(kept), tuple(sets), len(targets) - len(kept), decoys)


def _draw(
    truth: Secret, others: Sequence[Secret], away: Ints, *, size: int, randomness: Randomness
) -> CandidateSet:
    """The decoys nearest in length, chosen by chance among equals, and the truth, in random order."""
    shuffled = randomness.permutation(len(others))
    chosen = shuffled[np.argsort(away[shuffled], kind="stable")][: size - 1]
    candidates = [truth.reveal(), *(others[int(place)].reveal() for place in chosen)]
    order = randomness.permutation(size)
    return CandidateSet(
        tuple(candidates[int(place)] for place in order),
        int(np.flatnonzero(order == 0)[0]),
        int((away[chosen] == 0).sum()),
    )


def _values_by_record(training: PiiInventory) -> dict[str, frozenset[Secret]]:
    held: dict[str, set[Secret]] = {}
    for value, mentions in training.mentions.items():
        for mention in mentions:
            held.setdefault(training.records[mention.place].id, set()).add(value)
    return {record: frozenset(values) for record, values in held.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Inference:
    """Whether each guess was right [n], among how many candidates [n], after how many tokens of prefix [n]."""

    ids: tuple[str, ...]
    owners: tuple[str, ...]
    kinds: tuple[str, ...]
    right: Bools
    sizes: Ints
    context: Ints
    decoys: Decoys
    left_out: int
    matched_share: float

    @property
    def base_rate(self) -> float:
        """Chance of a guess without the model, averaged over targets."""
        return float((1.0 / self.sizes).mean())

    def by_context(self, edges: Sequence[int] = (0, 8, 16, 32, 64)) -> tuple[tuple[str, int, int], ...]:
        """(range of prefix tokens, right, targets) for every range; an empty one is a row too."""
        rows = []
        for low, high in zip(edges, [*edges[1:], None], strict=True):
            inside = (self.context >= low) & (self.context < (np.inf if high is None else high))
            name = f"{low} or more" if high is None else f"{low} to {high - 1}"
            rows.append((name, int(self.right[inside].sum()), int(inside.sum())))
        return tuple(rows)

    def by_kind(self) -> tuple[tuple[str, int, int], ...]:
        """(kind, right, targets) for every kind of target."""
        names = np.array(self.kinds)
        return tuple(
            (kind, int(self.right[names == kind].sum()), int((names == kind).sum()))
            for kind in sorted(set(self.kinds))
        )


def infer_values(scorer: CandidateScorer, draw: CandidateDraw) -> Inference:
    """Play the inference game: the best scored candidate of every target is the guess."""
    scores = replace(scorer, shortlist=scorer.shortlist or SHORTLIST).scores(
        draw.targets, [each.candidates for each in draw.sets]
    )
    right = [int(np.argmax(row)) == each.truth for row, each in zip(scores, draw.sets, strict=True)]
    return Inference(
        tuple(target.record for target in draw.targets),
        tuple(target.owner for target in draw.targets),
        tuple(target.secret.kind for target in draw.targets),
        np.array(right, dtype=np.bool_),
        np.array([len(each.candidates) for each in draw.sets], dtype=np.int64),
        np.array([len(row) for row in scorer.model.encode([t.prefix for t in draw.targets])], dtype=np.int64),
        draw.decoys,
        draw.left_out,
        draw.matched_share,
    )


def token_counter(model: LanguageModel) -> Callable[[Sequence[str]], list[int]]:
    """A function that counts the tokens of texts under a model's tokenizer."""
    return lambda texts: [len(row) for row in model.encode(list(texts))]
