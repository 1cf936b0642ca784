"""Re-identification of scrubbed text: who wrote it, by what the scrubbing left?

An adversary knows some texts of every person as they were, and sees other texts of the same people scrubbed. Of
each owner with several records, half are what is known, half are targets. A target is linked to the owner whose
known texts are most like it: cosine of TF-IDF vectors (Spärck Jones 1972) of words and pairs of neighbouring
words, so that rare phrases, dates and places that were left weigh most. A link is right only if the owner is
the single best.

    share     targets that are linked to their owner, with its interval, over owners
    null      the same share if targets were handed to owners by chance, over permutations of the owners;
              p = (1 + #{hits* ≥ hits}) / (1 + permutations) is exact

With a language model, the owners that are most alike by TF-IDF are ranked again by how likely the model finds the
target after their known texts: what goes together without a word in common links too.

An adversary with a better model, or with other knowledge, may link more: this is a lower bound.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from reticent.core.arrays import Floats
from reticent.core.document import JsonObject
from reticent.core.model import LanguageModel
from reticent.core.randomness import Randomness
from reticent.data.measurement import Rate

if TYPE_CHECKING:
    from scipy.sparse import csr_array

PERMUTATIONS = 999
_SHORTLIST = 10  # owners that a language model ranks for each target
_LONGEST = 2048  # tokens of known text and target together
_WORD = re.compile(r"\w+")
_MASK = re.compile(r"<[A-Z0-9_]+>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Linkage(JsonObject):
    """How many scrubbed targets were linked to their owner, and what chance would give."""

    linked: Rate
    null: float
    p_value: float
    owners: int

    @property
    def beats_null(self) -> bool:
        """Whether more was linked than by chance."""
        return self.p_value <= 1.0 - self.linked.confidence


def link(
    owners: Sequence[str],
    clear: Sequence[str],
    scrubbed: Sequence[str],
    *,
    randomness: Randomness,
    model: LanguageModel | None = None,
) -> Linkage | None:
    """Link scrubbed texts to owners by their other texts in clear, with `model` where one is given; None where no
    two owners have two each."""
    generator = randomness.generator()
    places: dict[str, list[int]] = {}
    for place in generator.permutation(len(owners)).tolist():
        places.setdefault(owners[place], []).append(place)
    several = {owner: found for owner, found in sorted(places.items()) if len(found) > 1}
    if len(several) < 2:
        return None
    known = [" \n ".join(clear[n] for n in found[: len(found) // 2]) for found in several.values()]
    targets = [(who, n) for who, found in enumerate(several.values()) for n in found[len(found) // 2 :]]
    left = [_MASK.sub(" ", scrubbed[n]) for _, n in targets]
    table = _vectors([*known, *left])
    likeness = (table[len(known) :] @ table[: len(known)].T).toarray()  # [targets, owners]
    if model is not None:
        likeness = _ranked_again(likeness, known, left, model)
    best = likeness.argmax(axis=1)
    is_single = (likeness >= likeness.max(axis=1, keepdims=True)).sum(axis=1) == 1
    truth = np.array([who for who, _ in targets])
    hits = (best == truth) & is_single
    by_chance = []
    for _ in range(PERMUTATIONS):
        order = generator.permutation(len(known))
        by_chance.append(int(((order[best] == truth) & is_single).sum()))
    counts = Counter(truth.tolist())
    right = Counter(truth[hits].tolist())
    names = list(several)
    by_owner = {names[who]: (right[who], trials) for who, trials in counts.items()}
    return Linkage(
        linked=Rate(int(hits.sum()), len(truth), by_owner=by_owner),
        null=float(np.mean(by_chance)) / len(truth),
        p_value=(1 + sum(one >= int(hits.sum()) for one in by_chance)) / (1 + PERMUTATIONS),
        owners=len(known),
    )


def _ranked_again(likeness: Floats, known: Sequence[str], targets: Sequence[str], model: LanguageModel) -> Floats:
    """Log-likelihood of each target after the known texts of the owners most like it, −∞ for others.

    Both are cut where the model's context ends: of what is known the last part is read, of a target the first.
    """
    room = min(model.context_length or _LONGEST, _LONGEST) - 1  # the start token takes one
    prompts = model.encode([f"{text}\n" for text in known])
    scores = np.full(likeness.shape, -np.inf)
    for row, tokens in enumerate(model.encode(targets)):
        target = tokens[: room // 2]
        for owner in np.argsort(-likeness[row], kind="stable")[:_SHORTLIST].tolist():
            prompt = prompts[owner][-(room - len(target)) :]
            scores[row, owner] = model.continuation_log_probs(prompt, [target])[0].sum()
    return scores


def _vectors(texts: Sequence[str]) -> "csr_array":
    """TF-IDF vectors of length one of words and pairs of words, [texts, terms]."""
    from scipy.sparse import csr_array  # deferred: keeps the command line quick to start

    terms: dict[str, int] = {}
    rows, columns, values = [], [], []
    for row, text in enumerate(texts):
        words = _WORD.findall(text.lower())
        for term, count in Counter([*words, *(f"{a} {b}" for a, b in pairwise(words))]).items():
            rows.append(row)
            columns.append(terms.setdefault(term, len(terms)))
            values.append(1.0 + np.log(count))
    table = csr_array((values, (rows, columns)), shape=(len(texts), max(1, len(terms))), dtype=np.float64)
    held = np.bincount(columns, minlength=table.shape[1])
    weighted = table.multiply(np.log((1.0 + len(texts)) / (1.0 + held))).tocsr()
    lengths = np.sqrt(weighted.multiply(weighted).sum(axis=1))
    return csr_array(weighted.multiply((1.0 / np.where(lengths > 0.0, lengths, 1.0))[:, None]))
