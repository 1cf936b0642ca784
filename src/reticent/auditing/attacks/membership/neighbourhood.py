"""Membership by neighbourhood: how much more likely a text is than near copies of it (Mattern et al. 2023).

    score(x) = mean over neighbours x' of ℓ(x') − ℓ(x),   ℓ the mean loss per token

A neighbour has `swaps` tokens exchanged, each for one that the reference model proposes at that place: drawn from
its next-token distribution after the original prefix, the original token left out. Without a reference the model
itself proposes. Neighbours are sequences of tokens, scored as such and never decoded.

Mattern et al. propose by a masked language model, which sees both sides; a causal one sees the left side only, so
our neighbours fit their right context less well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from reticent.auditing.attack import Lines, Measurement, PlannedAttack, planned_model, skip
from reticent.auditing.attacks.membership.attack import why_no_comparison
from reticent.auditing.attacks.membership.findings import ScoredTargets, few_targets
from reticent.auditing.attacks.membership.scores import LogProbScore, run_attacks, text_by_text
from reticent.auditing.attacks.membership.target_scores import TargetScores, scored
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import Subject, gives_distributions
from reticent.auditing.targets import count_targets, membership_targets
from reticent.core.arrays import Floats
from reticent.core.metric import AUC, TPR_AT_FPR
from reticent.core.model import LanguageModel, Tokens
from reticent.core.randomness import Randomness

_TEXTS_AT_ONCE = 16  # their proposals are whole next-token distributions


@dataclass(frozen=True, slots=True)
class Neighbourhood(LogProbScore):
    """Likelihood against that of `count` neighbours with `swaps` exchanged tokens each; repeatable by `seed`."""

    count: int = 10
    swaps: int = 1
    seed: int = 0
    name: ClassVar[str] = "neighbourhood"
    needs_distributions: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.count < 1 or self.swaps < 1:
            raise ValueError("a neighbourhood needs at least one neighbour with at least one swap")

    def score(self, targets: TargetScores) -> Floats:
        """Mean loss of the neighbours minus the loss of the text."""
        proposer = targets.target if targets.reference is None else targets.reference
        root = Randomness.seeded(self.seed)
        told = [index for index, tokens in enumerate(targets.tokens) if tokens]
        losses = np.zeros(len(targets))
        for start in range(0, len(told), _TEXTS_AT_ONCE):
            block = told[start : start + _TEXTS_AT_ONCE]
            texts = [targets.tokens[index] for index in block]
            around = self.neighbours(texts, proposer, [root.child(str(index)).generator() for index in block])
            scores = scored(targets.target, [copy for copies in around for copy in copies])
            means = np.array([-float(values.mean()) for values in scores])  # [texts · count]
            losses[block] = means.reshape(len(block), self.count).mean(axis=1)
        return text_by_text(targets, lambda i: float(losses[i] + targets.log_probs[i].mean()))

    def neighbours(
        self, texts: Sequence[Tokens], proposer: LanguageModel, generators: Sequence[np.random.Generator]
    ) -> list[list[list[int]]]:
        """`count` copies of each sequence, each with its own places exchanged, by the text's own generator."""
        chosen = [
            [
                generator.choice(len(tokens), size=min(self.swaps, len(tokens)), replace=False)
                for _ in range(self.count)
            ]
            for tokens, generator in zip(texts, generators, strict=True)
        ]
        where = sorted({(i, int(place)) for i, rows in enumerate(chosen) for row in rows for place in row})
        log_probs = proposer.next_token_log_probs([texts[i][:place] for i, place in where])
        proposals = dict(zip(where, log_probs, strict=True))
        result = []
        for i, (tokens, generator) in enumerate(zip(texts, generators, strict=True)):
            copies = [list(tokens) for _ in chosen[i]]
            for copy, row in zip(copies, chosen[i], strict=True):
                for place in map(int, row):
                    copy[place] = _other_token(proposals[i, place], tokens[place], proposer, generator)
            result.append(copies)
        return result


def _other_token(log_probs: Floats, token: int, proposer: LanguageModel, generator: np.random.Generator) -> int:
    """A token drawn from the proposal [V] without the original, start and end; any other where none is left."""
    barred = [token, proposer.start_token, *([] if proposer.end_token is None else [proposer.end_token])]
    weights = np.exp(log_probs)
    weights[barred] = 0.0
    if weights.sum() <= 0.0:
        weights = np.ones(len(log_probs))
        weights[barred] = 0.0
    if weights.sum() <= 0.0:  # a vocabulary without any other token
        return token
    return int(generator.choice(len(weights), p=weights / weights.sum()))


_COPIES: Final = 10  # neighbours of each text


class NeighbourhoodAttack:
    """The score of Mattern et al.; the base proposes what is exchanged where it splits text alike."""

    name: ClassVar[str] = "neighbourhood"

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:
        """One line: each text read once for itself, for each neighbour, and half of it for each proposal."""
        needs = "whole next-token distributions"
        if subject.scoring_model is None:
            return (skip(self.name, needs, "the model returns text only"),)
        if not gives_distributions(subject.model) and why_no_comparison(subject):
            return (skip(self.name, needs, "a server gives none; name a base with its tokenizer by --base"),)
        members, others = count_targets(subject, sizes.records)
        if min(members, others) < 2:
            return (skip(self.name, needs, "fewer than two members or non-members with unique texts"),)
        line = PlannedAttack(
            name=self.name,
            needs=needs,
            n=members + others,
            forward_tokens=round((members + others) * mean * (1 + 1.5 * _COPIES)),
            metrics=(AUC.name, *map(TPR_AT_FPR.at, settings.rates)),
        )
        sides = membership_targets(subject, settings, sizes.records).sides(settings)
        return (line, *few_targets(self.name, subject, settings, sides=sides, scores=1))

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:
        """Findings of the one score."""
        targets = membership_targets(subject, settings, sizes.records)
        proposer = None if why_no_comparison(subject) else subject.base
        score = Neighbourhood(count=_COPIES, seed=settings.seed)
        scores = run_attacks([score], TargetScores(targets.texts, planned_model(subject), reference=proposer))
        scored = ScoredTargets.of(
            subject, settings, targets=targets, scores=scores, access={score.name: score.access}
        )
        findings = tuple(scored.findings(subject, settings))
        return Measurement(findings, {"neighbourhood.json": scored.to_json()})
