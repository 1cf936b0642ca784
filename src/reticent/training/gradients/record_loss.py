"""A batch of records as token ids, and one loss per record.

A row is conditioned on the model's start token, as everywhere (`core.model`): it reads `start, x_0 … x_{n-2}` and
is scored on `x_0 … x_{n-1}`, so n tokens have n losses. Rows are padded on the right; under causal attention, or in
a recurrent model, nothing that is scored ever reads a padded position, and padded positions have no loss: padding
contributes exactly nothing, without an attention mask.

The model's own `.loss` is never used: it is a mean over the tokens of the *batch*, so a record's gradient, and with
it what clipping bounds, would depend on how long the other records are. Position ids have a row per record, or
position embeddings would have no per-record gradient.

Where one unit of protection owns several texts, it owns `rows_per_record` consecutive rows, filled up with empty
ones; its loss is taken over all of them. Longer texts are not cut here: that is the caller's decision.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import Tensor, nn

from reticent.core.model import Tokens
from reticent.models.huggingface.stream import accepted_arguments
from reticent.training.gradients.cross_entropy import cross_entropy

IGNORED: Final = -100
Reduction = Literal["sum", "mean"]


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Inputs and targets [R, T] of R = records × rows_per_record rows; targets are IGNORED at padding.

    `limits` [B] are norms that gradients are clipped to, where every record has its own.
    """

    inputs: Tensor
    targets: Tensor
    rows_per_record: int = 1
    limits: Tensor | None = None

    def __post_init__(self) -> None:
        if self.inputs.dim() != 2 or self.inputs.shape != self.targets.shape:
            raise ValueError("inputs and targets must both be [rows, tokens]")
        if self.rows_per_record < 1 or self.inputs.shape[0] % self.rows_per_record:
            raise ValueError("the rows must be a multiple of rows_per_record")
        if self.limits is not None and self.limits.shape != (len(self),):
            raise ValueError("a limit belongs to each record")

    def __repr__(self) -> str:
        return f"TokenBatch({len(self)} records, {self.inputs.shape[1]} tokens wide)"

    def __len__(self) -> int:
        return int(self.inputs.shape[0]) // self.rows_per_record

    @classmethod
    def of(cls, records: Sequence[Tokens], start_token: int, *, device: str = "cpu") -> "TokenBatch":
        """One row per record, padded on the right to the longest."""
        return cls.of_groups([[record] for record in records], start_token, device=device)

    @classmethod
    def of_groups(
        cls,
        groups: Sequence[Sequence[Tokens]],
        start_token: int,
        *,
        shape: tuple[int, int] = (1, 1),
        device: str = "cpu",
    ) -> "TokenBatch":
        """As many rows per unit as the largest unit has texts; smaller units get empty rows.

        `shape` is the least number of rows per unit and of tokens per row.
        """
        rows = max(shape[0], max((len(group) for group in groups), default=1))
        width = max(shape[1], max((len(text) for group in groups for text in group), default=1))
        inputs = torch.zeros(len(groups) * rows, width, dtype=torch.long)
        targets = torch.full_like(inputs, IGNORED)
        inputs[:, 0] = start_token
        for unit, group in enumerate(groups):
            for place, text in enumerate(group):
                tokens = torch.as_tensor(text, dtype=torch.long)  # [n]
                row = unit * rows + place
                inputs[row, 1 : len(tokens)] = tokens[:-1]
                targets[row, : len(tokens)] = tokens
        return cls(inputs.to(device), targets.to(device), rows_per_record=rows)

    @property
    def tokens(self) -> Tensor:
        """Scored tokens of each record [B]."""
        scored = (self.targets != IGNORED).sum(1)  # [R]
        return scored.view(len(self), self.rows_per_record).sum(1)

    def select(self, records: Sequence[int], *, width: int | None = None) -> "TokenBatch":
        """The batch of these records alone, in this order, as wide as the longest of them unless told."""
        rows = self._rows_of(records)
        inputs, targets = self.inputs[rows], self.targets[rows]
        width = width or _longest(targets)
        limits = None if self.limits is None else self.limits[list(records)]
        return TokenBatch(inputs[:, :width], targets[:, :width], self.rows_per_record, limits)

    def _rows_of(self, records: Sequence[int]) -> list[int]:
        return [record * self.rows_per_record + k for record in records for k in range(self.rows_per_record)]

    def split(self, records: int) -> "list[TokenBatch]":
        """Micro-batches of at most so many records each, as wide as this one; none for an empty batch.

        The width stays, since a record's rounding depends on it.
        """
        width = self.inputs.shape[1]
        return [
            self.select(range(start, min(start + records, len(self))), width=width)
            for start in range(0, len(self), records)
        ]


def _longest(targets: Tensor) -> int:
    """Scored tokens of the longest row [R, T], at least 1."""
    return max(1, int((targets != IGNORED).sum(1).max())) if len(targets) else 1


def token_losses(module: nn.Module, batch: TokenBatch, *, divisors: Tensor | None = None) -> Tensor:
    """Negative log-likelihood of every target [R, T], at least in float32; 0 at padding.

    Each is divided by its row's divisor [R], if there are any: cheaper here than afterwards.
    """
    rows, width = batch.inputs.shape
    arguments: dict[str, object] = {}
    if _accepts(module, "position_ids"):
        positions = torch.arange(width, device=batch.inputs.device)
        arguments["position_ids"] = positions.repeat(rows, 1)  # a row per record
    if _accepts(module, "use_cache"):
        arguments["use_cache"] = False
    output = module(input_ids=batch.inputs, **arguments)
    logits = output if isinstance(output, Tensor) else output.logits  # [R, T, V]
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    weights = None if divisors is None else divisors.to(logits).reciprocal().repeat_interleave(width)  # [R · T]
    losses = cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignored=IGNORED, weights=weights)
    return losses.view(rows, width)


def record_losses(module: nn.Module, batch: TokenBatch, *, reduction: Reduction = "mean") -> Tensor:
    """One loss per record [B]: the sum, or the mean over the record's *own* tokens.

    Guarantee: entry b depends on record b alone, so that clipping its gradient bounds all that the record does.
    """
    if reduction not in ("sum", "mean"):
        raise ValueError(f"reduction is 'sum' or 'mean', found {reduction!r}")
    if not len(batch):
        return torch.zeros(0, device=batch.inputs.device)
    divisors = None
    if reduction == "mean":
        divisors = batch.tokens.clamp_min(1).repeat_interleave(batch.rows_per_record)  # [R]
    return token_losses(module, batch, divisors=divisors).view(len(batch), -1).sum(1)


def _accepts(module: nn.Module, argument: str) -> bool:
    """Whether the model, or the model inside an adapter, names this argument of its forward."""
    inner = getattr(module, "get_base_model", None)
    inside = inner() if callable(inner) else module
    return argument in accepted_arguments(inside)
