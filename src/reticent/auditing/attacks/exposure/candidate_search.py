"""The exact rank of a canary among all candidates, by branch and bound over their tree of tokens.

    rank = 1 + #{other candidates whose whole text, suffix included, is at least as likely}

A text only gets less likely as it grows, so no extension of a prefix that is already less likely than the whole
canary can be likelier than it: that branch is cut, with all candidates below. What remains is a few thousand
prefixes of 10^6 or 10^9 candidates where the canary is exposed, and nearly all of them where it is not; hence a
cap on tokens, after which the rank is bracketed: candidates found likelier from below, candidates not cut from
above.

The order is deepest first, in batches, so that memory is bounded by batch × branching × depth and likelier
candidates are found early. **Ties rank before the canary** (against exposure): equal within `tie_tolerance`,
since two routes through a float32 model differ in the last digits. An impossible canary ranks last. Candidates
that were planted as well (`excluded`) are not counted: ten memorised canaries of one template would else push
each other down to rank 10.

Reference: Carlini et al. 2019, section 4.2, who search shortest paths to the best candidate; this is its converse.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reticent.auditing.attacks.exposure.candidate_trie import CandidateTrie, Node
from reticent.core.arrays import Floats
from reticent.core.model import LanguageModel, Tokens

Waiting = tuple[float, Node]  # log-probability of the path, and the node


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """How far a search may go: tokens read by the model in all, nodes a batch, entries of distributions at once."""

    max_tokens: int = 500_000
    batch: int = 1024
    most_entries: int = 2**22
    tie_tolerance: float = 1e-4

    def __post_init__(self) -> None:
        if min(self.max_tokens, self.batch, self.most_entries) < 1 or not self.tie_tolerance >= 0.0:
            raise ValueError("limits of a search are positive")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBracket:
    """What a search found among `size` candidates: others that are likelier, tied, and not settled by the cap."""

    size: int
    likelier: int
    tied: int
    unsettled: int
    forward_tokens: int

    @property
    def is_exact(self) -> bool:
        """Whether every candidate was settled."""
        return self.unsettled == 0

    @property
    def least(self) -> int:
        """Rank with ties before the canary, if no unsettled candidate is likelier."""
        return 1 + self.likelier + self.tied

    @property
    def greatest(self) -> int:
        """Rank with ties before the canary, if every unsettled candidate is likelier."""
        return self.least + self.unsettled


def search_rank(
    model: LanguageModel,
    trie: CandidateTrie,
    *,
    target: Tokens,
    excluded: Sequence[Tokens] = (),
    limits: SearchLimits | None = None,
) -> RankBracket:
    """The rank of the candidate with the tokens `target`, shared ones included, among all that are not `excluded`.

    Guarantee: where `is_exact`, the rank is that of scoring every candidate; else it lies in [least, greatest].
    """
    start = len(trie.shared)
    if any(tuple(tokens[:start]) != trie.shared for tokens in (target, *excluded)):
        raise ValueError("the target or an excluded sequence is no candidate of this tree")
    search = _Search(model, trie, tuple(target[start:]), limits or SearchLimits())
    search.leave_out({tuple(tokens[start:]) for tokens in excluded})
    return search.run()


class _Search:
    """One search: what waits, what was counted, what was read."""

    def __init__(
        self, model: LanguageModel, trie: CandidateTrie, target: tuple[int, ...], limits: SearchLimits
    ) -> None:
        self._model = model
        self._trie = trie
        self._target = target
        self._limits = limits
        self._forward_tokens = 0
        self._likelier = 0
        self._at_target = 0  # candidates with the target's very tokens, itself included
        self._tied = 0
        self._open: list[Waiting] = []  # a stack, the deepest last
        self._chains: list[Waiting] = []  # one way remains: scored in one pass
        self._excluded: set[tuple[int, ...]] = set()
        # A server may score what it is given and tell no distribution: then every branch is scored.
        self._has_distributions = bool(getattr(model, "gives_distributions", True))

    def leave_out(self, excluded: set[tuple[int, ...]]) -> None:
        """Do not count one candidate of each of these, the target's own tokens excepted."""
        self._excluded = excluded - {self._target}

    def run(self) -> RankBracket:
        (own,) = self._score([self._target])
        size = self._trie.size - len(self._excluded)
        if np.isneginf(own):
            return RankBracket(
                size=size, likelier=0, tied=size - 1, unsettled=0, forward_tokens=self._forward_tokens
            )
        self._own = own
        self._place(0.0, Node((), 0, self._trie.size))
        while (self._open or self._chains) and self._forward_tokens < self._limits.max_tokens:
            if len(self._chains) >= self._limits.batch or not self._open:
                self._settle_chains()
            else:
                self._expand()
        waiting = sum(node.weight for _, node in (*self._open, *self._chains))
        is_found = self._at_target > 0
        if not is_found and waiting == 0:
            raise ValueError("the target is no candidate of this tree")
        return RankBracket(
            size=size,
            likelier=self._likelier,
            tied=self._tied + self._at_target - is_found,
            unsettled=min(waiting - (not is_found), size - 1 - self._likelier - self._tied),
            forward_tokens=self._forward_tokens,
        )

    def _place(self, log_prob: float, node: Node) -> None:
        """Cut the node, count it, or let it wait."""
        if log_prob < self._own - self._limits.tie_tolerance and node.path != self._target[: len(node.path)]:
            return
        rest = self._trie.remainder(node)
        if rest is None:
            self._open.append((log_prob, node))
        elif rest:
            self._chains.append((log_prob, node))
        else:
            self._count(log_prob, node.path, node.weight)

    def _count(self, log_prob: float, tokens: tuple[int, ...], weight: int) -> None:
        """Count complete candidates. The target is known by its tokens, whatever the last digits of its score."""
        weight -= tokens in self._excluded
        if tokens == self._target:
            self._at_target += weight
        elif log_prob > self._own + self._limits.tie_tolerance:
            self._likelier += weight
        elif log_prob >= self._own - self._limits.tie_tolerance:
            self._tied += weight

    def _settle_chains(self) -> None:
        """Score complete candidates of which one way remains."""
        batch, self._chains = self._chains[: self._limits.batch], self._chains[self._limits.batch :]
        wholes = [(*node.path, *(self._trie.remainder(node) or ())) for _, node in batch]
        for log_prob, whole, (_, node) in zip(self._score(wholes), wholes, batch, strict=True):
            self._count(log_prob, whole, node.weight)

    def _expand(self) -> None:
        """Take the deepest nodes and place their branches."""
        rows = self._limits.batch
        if self._has_distributions:
            rows = max(1, min(rows, self._limits.most_entries // self._model.vocabulary_size))
        batch, self._open = self._open[-rows:], self._open[:-rows]
        branches = [self._trie.children(node) for _, node in batch]
        steps = self._step_log_probs([node.path for _, node in batch], branches)
        reached: list[Waiting] = []
        for (log_prob, node), children, step in zip(batch, branches, steps, strict=True):
            ended = node.weight - sum(child.weight for child in children)
            if ended:  # a candidate may be the beginning of another one
                self._count(log_prob, node.path, ended)
            reached += [(log_prob + float(more), child) for child, more in zip(children, step, strict=True)]
        for log_prob, child in sorted(reached, key=lambda item: (len(item[1].path), item[0])):
            self._place(log_prob, child)
        self._open.sort(key=lambda item: len(item[1].path))  # stable, nearly sorted

    def _step_log_probs(self, paths: Sequence[tuple[int, ...]], branches: Sequence[Sequence[Node]]) -> list[Floats]:
        """log p of each branch's last token, by whichever of the two calls reads fewer tokens."""
        shared = self._trie.shared
        anew = sum(1 + len(shared) + len(path) for path in paths)
        continued = (
            1 + len(shared) + sum(len(path) * len(nodes) for path, nodes in zip(paths, branches, strict=True))
        )
        if continued < anew or not self._has_distributions:
            flat = [child.path for nodes in branches for child in nodes]
            self._forward_tokens += continued
            last = np.array([row[-1] for row in self._model.continuation_log_probs(shared, flat)])
            return list(np.split(last, np.cumsum([len(nodes) for nodes in branches])[:-1]))
        self._forward_tokens += anew
        rows = self._model.next_token_log_probs([(*shared, *path) for path in paths])  # [n, V]
        return [row[[child.path[-1] for child in nodes]] for row, nodes in zip(rows, branches, strict=True)]

    def _score(self, continuations: Sequence[tuple[int, ...]]) -> list[float]:
        """log p of whole continuations of the shared tokens."""
        shared = self._trie.shared
        self._forward_tokens += 1 + len(shared) + sum(max(0, len(row) - 1) for row in continuations)
        return [float(row.sum()) for row in self._model.continuation_log_probs(shared, continuations)]
