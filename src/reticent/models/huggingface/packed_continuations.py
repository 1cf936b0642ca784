"""Many short continuations of one prefix in one row: a trie of their tokens that attends along its own branches.

    prefix ── a ── b          row after the prefix:  a  b  c  d
         │    └── c           b, c and a see the prefix and a; d sees the prefix and itself
         └─── d               each stands at the position that its depth gives it

A token that several continuations begin with is computed once, nothing is padded, and the keys and values of the
prefix are kept once instead of once a continuation. The last token of a continuation is scored and never read.

Packing pays where continuations are short beside their prefix, or begin alike (`pays`): attention in the row grows
with the square of its length. Not every model takes a mask of ours: recurrent ones have none, and a sliding window
is not in it. So a model is tried once on a small case against rows of its own, and packed only where the two agree
(`can_pack`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from reticent.core.arrays import Floats
from reticent.core.errors import ReticentError
from reticent.core.model import Tokens, common_length
from reticent.models.huggingface.scoring import finite, target_log_probs
from reticent.models.huggingface.stream import Stream, accepted_arguments

_ROOT: Final = -1
_TOLERANCE: Final = 1e-4
_WORTH: Final = 8  # cached columns that cost as much to copy as one token costs to compute in a long row
_NEEDED: Final = frozenset({"attention_mask", "position_ids", "past_key_values"})


@dataclass(frozen=True, slots=True)
class Trie:
    """Tokens to read, parents first, and for every continuation the node that stands before each of its tokens.

    `parents` [N] index into the nodes, −1 for the prefix; `depths` [N] count from 0; `before` holds one list a
    continuation.
    """

    tokens: list[int]
    parents: list[int]
    depths: list[int]
    before: list[list[int]]


def build_trie(continuations: Sequence[Tokens]) -> Trie:
    """The trie of all tokens but the last of each continuation."""
    trie = Trie([], [], [], [])
    children: dict[tuple[int, int], int] = {}
    for continuation in continuations:
        node, path = _ROOT, [_ROOT]
        for token in continuation[:-1]:
            found = children.get((node, token))
            if found is None:
                found = children[node, token] = len(trie.tokens)
                trie.tokens.append(int(token))
                trie.parents.append(node)
                trie.depths.append(0 if node == _ROOT else trie.depths[node] + 1)
            node = found
            path.append(node)
        trie.before.append(path[: len(continuation)])
    return trie


def visible(trie: Trie) -> torch.Tensor:
    """[N, N] booleans: each node sees itself and its ancestors."""
    sees = torch.eye(len(trie.tokens), dtype=torch.bool)
    for node, parent in enumerate(trie.parents):
        if parent != _ROOT:
            sees[node] |= sees[parent]
    return sees


def groups(continuations: Sequence[Tokens], most: int) -> Iterator[list[int]]:
    """Indices of continuations whose tries have about `most` nodes at most, alike ones together."""
    order = sorted(range(len(continuations)), key=lambda index: tuple(continuations[index]))
    group: list[int] = []
    nodes = 0
    last: Tokens = ()
    for index in order:
        continuation = continuations[index]
        shared = common_length(last, continuation[:-1])
        fresh = max(0, len(continuation) - 1 - shared)
        if group and nodes + fresh > most:
            yield group
            group, nodes, fresh = [], 0, max(0, len(continuation) - 1)
        group.append(index)
        nodes += fresh
        last = continuation[:-1]
    if group:
        yield group


def packed_scores(stream: Stream, first: torch.Tensor, continuations: Sequence[Tokens]) -> list[Floats]:
    """log p of every token of every continuation of the prefix that `stream` has read, from one row.

    `first` [V] are the logits after the prefix. The stream itself stays where it is.
    """
    trie = build_trie(continuations)
    device = first.device
    rows = first[None]  # [1 + N, V]: the prefix, then every node
    if trie.tokens:
        prefix = stream.columns
        depths = torch.tensor([trie.depths], device=device)
        sees = torch.cat([torch.ones(len(trie.tokens), prefix, dtype=torch.bool), visible(trie)], dim=1)
        logits = stream.copy().branch(
            torch.tensor([trie.tokens], device=device),
            positions=prefix + depths,
            visible=sees.to(device)[None, None],  # [1, 1, N, prefix + N]
        )
        rows = torch.cat([rows, logits[0]])
    places = torch.tensor([node + 1 for path in trie.before for node in path], device=device)
    wanted = torch.tensor([int(token) for row in continuations for token in row], device=device)
    scores = finite(_chosen(rows, places, wanted).cpu().double().numpy())
    ends = np.cumsum([len(row) for row in continuations])
    return [part.copy() for part in np.split(scores, ends[:-1])]


def pays(continuations: Sequence[Tokens], prefix: int) -> bool:
    """Whether one row beats a row for each, by a measured rule of thumb: copies of the prefix cost, too."""
    nodes = len({tuple(row[:length]) for row in continuations for length in range(1, len(row))})
    return _WORTH * nodes <= prefix * len(continuations)


@torch.inference_mode()
def can_pack(module: torch.nn.Module, vocabulary_size: int) -> bool:
    """Whether the model gives the same numbers packed as by rows of its own, on a small case."""
    if not accepted_arguments(module) >= _NEEDED:
        return False
    window = getattr(_text_config(module), "sliding_window", None)
    if window is not None:
        return False  # a trie longer than the window would see too much
    device = next(module.parameters()).device
    span = max(1, min(vocabulary_size, 11))
    prefix = torch.arange(5, device=device)[None] % span
    continuations = [[1 % span, 2 % span, 3 % span], [1 % span, 2 % span, 4 % span, 5 % span], [6 % span, 7 % span]]
    try:
        stream = Stream(module)
        first = stream.advance(prefix)[0, -1]
        if stream.held[0] is None:
            return False
        packed = packed_scores(stream, first, continuations)
        plain = [_plain(module, prefix, continuation) for continuation in continuations]
    except (TypeError, ValueError, RuntimeError, IndexError, ReticentError):
        return False
    return all(np.abs(one - other).max() < _TOLERANCE for one, other in zip(packed, plain, strict=True))


def _plain(module: torch.nn.Module, prefix: torch.Tensor, continuation: Sequence[int]) -> Floats:
    """The same scores from one whole row."""
    rest = torch.tensor([continuation], device=prefix.device)
    logits = Stream(module).advance(torch.cat([prefix, rest], dim=1), is_last=True)
    scores = target_log_probs(logits[:, prefix.shape[1] - 1 : -1], rest)[0]
    result: Floats = scores.cpu().double().numpy()
    return result


def _chosen(logits: torch.Tensor, places: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """log-softmax of `logits` [r, V] at tokens `wanted` [n], each after row `places` [n] of them."""
    precision = torch.float64 if logits.dtype == torch.float64 else torch.float32
    rows = logits.to(precision)
    return rows[places, wanted] - torch.logsumexp(rows, dim=-1)[places]


def _text_config(module: torch.nn.Module) -> Any:
    config: Any = getattr(module, "config", None)
    return config.get_text_config() if hasattr(config, "get_text_config") else config
