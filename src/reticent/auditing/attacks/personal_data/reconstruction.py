"""The reconstruction game: a masked training sentence and no candidates; what stood there?

Adversary: log-probabilities and the sentence around the value (Lukas et al. 2023, game 2). Candidates are
gathered from the model itself and ranked by how likely they are in their place, prefix and suffix
(`personal_data.scoring`):

    prefix     draw continuations of the prefix, tag them, take the values of the kind
    infilling  the same after a prompt that shows the whole masked sentence before its prefix
    shared     values drawn after the prefixes of other targets of the kind, the most frequent first
    pool       values of the kind that the extraction game emitted, the most frequent first

Where the other values of the text are masked too, they are recollected first (after recollect and rank, Meng
et al. 2025): the model fills the masks before the target one after the other, greedily, and goes on from there.

The rival is TAB: the first value of the kind in the greedy continuation of the prefix. It reads neither the
suffix nor the ranking. A truth that was never gathered is a miss and stays in the denominator.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.attacks.personal_data.contexts import MASK, MaskedSpan
from reticent.auditing.attacks.personal_data.extraction import EmittedValues
from reticent.auditing.attacks.personal_data.inventory import value_of
from reticent.auditing.attacks.personal_data.scoring import CandidateScorer
from reticent.core.corpus import Policy
from reticent.core.model import TextModel
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.core.statistics.proportion import Share

Ints = NDArray[np.int64]
INFILLING: Final = "{prefix}" + MASK + "{suffix}\n{prefix}"
_PROMPTS: Final = 64  # asked in one call
_GREEDY: Final = Sampling(max_tokens=16, temperature=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateSources:
    """How many candidates the reconstruction game draws from each source, and keeps of `shared` and `pool`."""

    prefix: int = 32
    infilling: int = 0
    shared: int = 0
    pool: int = 128
    sampling: Sampling = field(default_factory=lambda: Sampling(max_tokens=16, top_k=40))

    def __post_init__(self) -> None:
        if (
            min(self.prefix, self.infilling, self.shared, self.pool) < 0
            or self.prefix + self.infilling + self.pool == 0
        ):
            raise ValueError("a reconstruction needs at least one source of candidates")


def gather_candidates(
    model: TextModel,
    tagger: Policy,
    targets: Sequence[MaskedSpan],
    *,
    sources: CandidateSources,
    randomness: Randomness,
    emitted: EmittedValues | None = None,
) -> list[tuple[str, ...]]:
    """Gather distinct candidates for every target, in order of first appearance; a target may have none."""
    gathered: list[dict[str, None]] = [{} for _ in targets]
    drawn_values: dict[str, Counter[str]] = {target.secret.kind: Counter() for target in targets}
    for draws, template in ((sources.prefix, "{prefix}"), (sources.infilling, INFILLING)):
        if draws:
            prompts = [
                template.replace("{suffix}", t.suffix).replace("{prefix}", t.prefix).rstrip() for t in targets
            ]
            answers = continued(model, prompts, sources.sampling, count=draws, randomness=randomness)
            for found, target, prompt, drawn in zip(gathered, targets, prompts, answers, strict=True):
                for values in values_after(tagger, prompt, drawn, kind=target.secret.kind):
                    found.update(dict.fromkeys(values))
                    drawn_values[target.secret.kind].update(values)
    shared = {kind: [value for value, _ in each.most_common(sources.shared)] for kind, each in drawn_values.items()}
    pools = {} if emitted is None or not sources.pool else _pools(emitted, sources.pool)
    for found, target in zip(gathered, targets, strict=True):
        found.update(dict.fromkeys((*shared[target.secret.kind], *pools.get(target.secret.kind, ()))))
    return [tuple(found) for found in gathered]


def recollected(
    model: TextModel, tagger: Policy, targets: Sequence[MaskedSpan], *, rounds: int = 8
) -> tuple[MaskedSpan, ...]:
    """The targets with masks before them filled, from left to right, by the value that a greedy answer begins with.

    A mask whose answer begins with no value stays, and so do all after the first `rounds`.
    """
    pieces = [target.prefix.split(MASK) for target in targets]
    filled = [each[0] for each in pieces]
    for number in range(1, max(map(len, pieces), default=0)):
        open_ones = [place for place, each in enumerate(pieces) if len(each) > number]
        said: dict[int, str] = {}
        if number <= rounds:
            prompts = [filled[place].rstrip() for place in open_ones]
            answers = continued(model, prompts, _GREEDY, count=1, randomness=Randomness.seeded(0))
            for place, prompt, drawn in zip(open_ones, prompts, answers, strict=True):
                (values,) = values_after(tagger, prompt, drawn, kind=None)
                if values and " ".join(drawn[0].split()).startswith(values[0]):
                    said[place] = values[0]
        for place in open_ones:
            filled[place] += said.get(place, MASK) + pieces[place][number]
    return tuple(replace(target, prefix=text) for target, text in zip(targets, filled, strict=True))


def continued(
    model: TextModel, prompts: Sequence[str], sampling: Sampling, *, count: int, randomness: Randomness
) -> list[list[str]]:
    """`count` continuations of every prompt, so many prompts at a time."""
    answers: list[list[str]] = []
    for first in range(0, len(prompts), _PROMPTS):
        batch = prompts[first : first + _PROMPTS]
        answers += model.complete(batch, sampling, count=count, randomness=randomness)
    return answers


def values_after(tagger: Policy, prompt: str, continuations: Sequence[str], *, kind: str | None) -> list[list[str]]:
    """Values of the kind (None: of any) that begin within each continuation, in order; tagged with the prompt."""
    values = []
    texts = [f"{prompt}{continuation}" for continuation in continuations]
    for text, spans in zip(texts, tagger.find(texts), strict=True):
        inside = [s for s in spans if s.start >= len(prompt) and (kind is None or s.kind == kind)]
        values.append([value_of(text[s.start : s.end], s.kind).reveal() for s in inside])
    return values


def _pools(emitted: EmittedValues, most: int) -> Mapping[str, tuple[str, ...]]:
    """The most frequently emitted values of every kind."""
    ordered = sorted(emitted.values, key=lambda value: -emitted.values[value].count)
    kinds = {value.kind for value in ordered}
    return {kind: tuple(v.reveal() for v in ordered if v.kind == kind)[:most] for kind in kinds}


@dataclass(frozen=True, slots=True, eq=False)
class Reconstruction:
    """Rank of the truth among each target's candidates [n], 1 the best, 0 where it was not among them."""

    ids: tuple[str, ...]
    owners: tuple[str, ...]
    kinds: tuple[str, ...]
    ranks: Ints
    candidates: Ints  # [n] how many there were

    def hits(self, top: int) -> NDArray[np.bool_]:
        """Which truths [n] are among the `top` best ranked candidates."""
        return (self.ranks >= 1) & (self.ranks <= top)

    def share(self, top: int) -> Share:
        """Truths among the `top` best ranked candidates, counted by the owners of their records."""
        return Share.of(self.hits(top).tolist(), self.owners)

    @property
    def gathered(self) -> int:
        """Targets whose truth was among the candidates at all: the most that any ranking can reach."""
        return int((self.ranks >= 1).sum())


def rank_candidates(
    scorer: CandidateScorer, targets: Sequence[MaskedSpan], candidates: Sequence[Sequence[str]]
) -> Reconstruction:
    """Rank the candidates of every target; a candidate that ties with the truth counts as better."""
    ranks = []
    for target, each, scores in zip(targets, candidates, scorer.scores(targets, candidates), strict=True):
        truth = target.secret.reveal()
        ranks.append(int((scores >= scores[list(each).index(truth)]).sum()) if truth in each else 0)
    return Reconstruction(
        tuple(target.record for target in targets),
        tuple(target.owner for target in targets),
        tuple(target.secret.kind for target in targets),
        np.array(ranks, dtype=np.int64),
        np.array([len(each) for each in candidates], dtype=np.int64),
    )


def continue_greedily(model: TextModel, tagger: Policy, targets: Sequence[MaskedSpan]) -> Reconstruction:
    """The TAB attack: the first value of the kind in the greedy continuation; rank 1 where it is the truth."""
    prompts = [target.prefix.rstrip() for target in targets]
    answers = continued(model, prompts, _GREEDY, count=1, randomness=Randomness.seeded(0))
    ranks, found = [], []
    for target, prompt, drawn in zip(targets, prompts, answers, strict=True):
        (values,) = values_after(tagger, prompt, drawn, kind=target.secret.kind)
        ranks.append(int(values[:1] == [target.secret.reveal()]))
        found.append(len(values[:1]))
    return Reconstruction(
        tuple(target.record for target in targets),
        tuple(target.owner for target in targets),
        tuple(target.secret.kind for target in targets),
        np.array(ranks, dtype=np.int64),
        np.array(found, dtype=np.int64),
    )
