"""Sampling from a model with its cache: many continuations at a time, one token a step.

The law is `Sampling.transform` (temper, top-k, top-p, renormalise), repeated here in torch for many rows that
may stand at different positions of a temperature schedule; a test holds the two together. A token is drawn by
inverting the float64 cumulative sum with one 52-bit uniform of the caller's `Randomness`, so that released tokens
come from the system's generator and never from torch's.

Ragged prompts need no padding: a batch starts at its shortest prompt, and a row whose prompt goes on is fed its own
tokens until the prompt ends. So position ids and recurrent states are those of the row read alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from reticent.core.arrays import Floats
from reticent.core.sampling import Sampling
from reticent.models.huggingface.scoring import exact_log_softmax
from reticent.models.huggingface.stream import Stream

_SPREAD: Final = 32  # most columns by which prompts of one batch may differ: each costs a step of one column
_MOST_ROWS: Final = 256


def transform(log_probs: torch.Tensor, sampling: Sampling, positions: Sequence[int]) -> torch.Tensor:
    """`Sampling.transform` of each row of log-pmfs [n, V] (float64) at that row's own position.

    Guarantee: equals `Sampling.transform` row by row, ties resolved by token id included.
    """
    values = [sampling.temperature_at(position) for position in positions]
    temperature = torch.tensor(values, dtype=torch.float64, device=log_probs.device)[:, None]  # [n, 1]
    is_greedy = temperature == 0.0
    rows = torch.log_softmax(log_probs / torch.where(is_greedy, 1.0, temperature), dim=-1)
    if sampling.top_k is not None and sampling.top_k < rows.shape[-1]:
        order = rows.sort(dim=-1, descending=True, stable=True).indices
        rows = torch.log_softmax(rows.scatter(-1, order[:, sampling.top_k :], -torch.inf), dim=-1)
    if sampling.top_p is not None and sampling.top_p < 1.0:
        ordered, order = rows.sort(dim=-1, descending=True, stable=True)
        mass = ordered.exp()
        is_kept = (mass.cumsum(dim=-1) - mass) < sampling.top_p  # [n, V], the likeliest always
        cut = torch.where(is_kept, ordered, -torch.inf)
        rows = torch.log_softmax(torch.empty_like(rows).scatter(-1, order, cut), dim=-1)
    if any(value == 0.0 for value in values):
        winner = log_probs.argmax(dim=-1, keepdim=True)
        greedy = torch.full_like(log_probs, -torch.inf).scatter(-1, winner, 0.0)
        rows = torch.where(is_greedy, greedy, rows)
    return rows


def draw(log_pmfs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """One token [n] from each row of log-pmfs [n, V], by inverse transform of uniforms [n]; all float64.

    Guarantee: a token of probability 0 is never drawn.
    """
    cumulative = log_pmfs.exp().cumsum(dim=-1)  # [n, V]
    total = cumulative[:, -1:]
    found = torch.searchsorted(cumulative, uniforms[:, None] * total, right=True)
    last = (cumulative < total).sum(
        dim=-1, keepdim=True
    )  # the last token that has mass, if u·total rounds up to it
    return torch.minimum(found, last)[:, 0]


@dataclass(frozen=True, slots=True)
class Row:
    """One continuation to be sampled: its prompt (start token in front) and which prompt and copy it is."""

    prompt: tuple[int, ...]
    prompt_index: int


def plan_batches(rows: Sequence[Row], *, token_budget: int, max_tokens: int) -> list[list[Row]]:
    """Rows in batches of like length, shortest first, so many at once as fit the budget when fully grown."""
    batches: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: len(row.prompt)):  # stable: equal prompts stay side by side
        size = len(row.prompt) + max_tokens
        current = batches[-1] if batches else None
        if (
            current is None
            or len(current) >= _MOST_ROWS
            or (len(current) + 1) * size > token_budget
            or len(row.prompt) - len(current[0].prompt) > _SPREAD
        ):
            batches.append([row])
        else:
            current.append(row)
    return batches


@dataclass(slots=True)
class _Growing:
    """A row of a batch while it is sampled: its draws, one a position, and what was sampled so far."""

    row: Row
    uniforms: Floats
    tokens: list[int]
    is_done: bool = False


def sample_batch(
    stream: Stream, rows: Sequence[Row], sampling: Sampling, *, end_token: int | None, uniforms: Floats
) -> list[list[int]]:
    """A continuation of each row, cut before the end token; `uniforms` is [n, max_tokens]."""
    growing = [_Growing(row, u, []) for row, u in zip(rows, uniforms, strict=True)]
    column, logits = _read_prompts(stream, rows)
    active = list(growing)  # the rows of the stream, in its order
    while True:
        column_tokens = _next_column(active, logits, sampling, column=column, end_token=end_token)
        going_on = [place for place, state in enumerate(active) if not state.is_done]
        if not going_on:
            return [state.tokens for state in growing]
        if len(going_on) <= len(active) // 2:  # finished rows are read on until there are many to drop
            kept = torch.tensor(going_on, device=logits.device)
            stream.select(kept)
            column_tokens = column_tokens[kept]
            active = [active[place] for place in going_on]
        logits = stream.advance(column_tokens[:, None], keep=_last_column(1, logits.device))[:, -1]
        column += 1


def _read_prompts(stream: Stream, rows: Sequence[Row]) -> tuple[int, torch.Tensor]:
    """Read what all prompts have columns for, equal beginnings once; logits [n, V] after it, and its width."""
    width = min(len(row.prompt) for row in rows)
    beginnings = {row.prompt[:width]: None for row in rows}
    place = {beginning: index for index, beginning in enumerate(beginnings)}
    device = next(stream.module.parameters()).device
    tokens = torch.tensor(list(beginnings), dtype=torch.long, device=device)
    logits = stream.advance(tokens, keep=_last_column(width, device))[:, -1]
    chosen = torch.tensor([place[row.prompt[:width]] for row in rows], device=device)
    stream.select(chosen)
    return width, logits[chosen]


def _last_column(width: int, device: torch.device) -> torch.Tensor:
    return torch.tensor([width - 1], device=device)


def _next_column(
    active: Sequence[_Growing], logits: torch.Tensor, sampling: Sampling, *, column: int, end_token: int | None
) -> torch.Tensor:
    """Every row's token at `column`: its prompt's where the prompt goes on, else one drawn by `logits` [n, V]."""
    tokens = [state.row.prompt[column] if column < len(state.row.prompt) else 0 for state in active]
    drawing = [place for place, state in enumerate(active) if column >= len(state.row.prompt) and not state.is_done]
    if drawing:
        states = [active[place] for place in drawing]
        positions = [len(state.tokens) for state in states]
        chosen = logits if len(drawing) == len(active) else logits[torch.tensor(drawing, device=logits.device)]
        pmfs = transform(exact_log_softmax(chosen), sampling, positions)
        uniforms = [state.uniforms[position] for state, position in zip(states, positions, strict=True)]
        drawn = draw(pmfs, torch.tensor(np.array(uniforms), dtype=torch.float64, device=pmfs.device)).tolist()
        for place, state, token in zip(drawing, states, drawn, strict=True):
            tokens[place] = token
            if token == end_token:
                state.is_done = True
            else:
                state.tokens.append(token)
                state.is_done = len(state.tokens) == sampling.max_tokens
    return torch.tensor(tokens, dtype=torch.long, device=logits.device)
