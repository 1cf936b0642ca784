"""Rows of tokens that a model is reading: what was read stays in the model's own cache.

`advance` reads more columns and gives their logits, `select` picks or repeats rows, `copy` forks. Every row stands
at the same column and nothing is padded on the left, so the model's default position ids are right: the p-th token
read has position p. The cache is whatever the model returns: keys and values, sliding windows, or recurrent
states. Where a model returns none, or one whose rows cannot be picked, the tokens are kept and read again: slower,
same numbers.
"""

import copy
import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch


def accepted_arguments(module: torch.nn.Module) -> frozenset[str]:
    """Names of the arguments that a module's forward declares."""
    forward = module.forward
    # What belongs to a class is read once: that takes as long as a layer of a small model. A function of one module
    # alone is not kept, as it may keep the module.
    if inspect.ismethod(forward):
        return _of_method(forward.__func__)
    return frozenset(inspect.signature(forward).parameters)


@lru_cache(maxsize=256)
def _of_method(function: Callable[..., Any]) -> frozenset[str]:
    _, *arguments = inspect.signature(function).parameters  # less the module itself
    return frozenset(arguments)


class Stream:
    """One batch of rows in the course of being read. Call within `torch.inference_mode`."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self._accepted = accepted_arguments(module)
        self._cache: Any = None
        self._read: torch.Tensor | None = None  # [n, p] tokens, kept only where there is no usable cache
        self.columns = 0

    def advance(
        self, tokens: torch.Tensor, *, keep: torch.Tensor | None = None, is_last: bool = False
    ) -> torch.Tensor:
        """Logits [n, t, V] after each of the next tokens [n, t], or [n, k, V] at the k columns `keep` of them.

        `is_last` says that nothing will be read after this, so that no cache need be made.
        """
        read_again = 0 if self._read is None else self._read.shape[1]
        inputs = tokens if self._read is None else torch.cat([self._read, tokens], dim=1)
        arguments: dict[str, Any] = {"input_ids": inputs}
        if "use_cache" in self._accepted:
            arguments["use_cache"] = self._cache is not None or not is_last
        if self._cache is not None:
            arguments["past_key_values"] = self._cache
        if keep is not None and "logits_to_keep" in self._accepted:
            arguments["logits_to_keep"] = keep + read_again
        output = self.module(**arguments)
        logits: torch.Tensor = output.logits
        self.columns += tokens.shape[1]
        if not is_last:
            self._remember(getattr(output, "past_key_values", None), inputs)
        if keep is not None and logits.shape[1] == keep.shape[0] and "logits_to_keep" in self._accepted:
            return logits
        logits = logits[:, read_again:]
        return logits if keep is None else logits[:, keep]

    def branch(self, tokens: torch.Tensor, *, positions: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
        """Logits [n, t, V] after tokens [n, t] at `positions` that see only what `visible` [n, 1, t, p + t] says.

        What was read before must be in the model's cache, and nothing can be read after this.
        """
        dtype = next(self.module.parameters()).dtype
        mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
        mask.masked_fill_(~visible, torch.finfo(dtype).min)
        output = self.module(
            input_ids=tokens,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
        )
        logits: torch.Tensor = output.logits
        return logits

    def _remember(self, cache: Any, inputs: torch.Tensor) -> None:
        """Keep the cache, or the tokens themselves where the cache is none that `select` understands."""
        if "past_key_values" in self._accepted and hasattr(cache, "reorder_cache"):
            self._cache = cache
        else:
            self._read = inputs

    def select(self, rows: torch.Tensor) -> None:
        """Make the batch consist of these of its rows [m], in this order; a row may be named many times."""
        if self._read is not None:
            self._read = self._read[rows]
        elif self._cache is not None:
            self._cache.reorder_cache(rows)

    @property
    def held(self) -> tuple[Any, torch.Tensor | None]:
        """What is kept of the tokens read so far: the model's cache, or the tokens; for measuring its size."""
        return self._cache, self._read

    def copy(self) -> "Stream":
        """A stream at the same place that advances by itself: this one's cache is never written through it."""
        other = Stream.__new__(Stream)
        other.module, other._accepted, other.columns = self.module, self._accepted, self.columns
        other._cache = copy.deepcopy(self._cache)
        other._read = self._read
        return other
