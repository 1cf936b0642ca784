"""Blocks of a model whose activations are computed again in the backward instead of being kept (Chen et al. 2016).

A block keeps its input alone; when its gradient comes, its forward runs once more and the layers inside are seen a
second time. For per-record gradients that alone saves little: book-keeping holds every layer's input and output
gradient until the clip factors are known. So the tape goes back twice over one forward: for the norms, letting go
of each layer as it is settled, then, with the factors, for the clipped sum (ghost clipping: Li et al. 2022). Both
read the same numbers in the same order: norms and sums are bit for bit those without recomputation.

    layers' inputs and output gradients in memory:   of all layers → of one block, and the input of every block

Blocks are what transformers itself marks for this (`GradientCheckpointingLayer`). Its own switch is not used: it
does nothing in evaluation mode, in which private steps are taken.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, is_grad_enabled, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from reticent.core.errors import ModelError


class Use:
    """One use of a layer inside a block, booked when both its input, computed again, and its gradient are there."""

    def __init__(self, layer: str, book: Callable[[Tensor, Tensor], None]) -> None:
        self.layer = layer
        self._book = book
        self.forget()

    def forget(self) -> None:
        """Be ready for another backward."""
        self._x: Tensor | None = None
        self._version = 0
        self._gradient: Tensor | None = None

    @property
    def lacks_input(self) -> bool:
        """Whether a gradient came back and the input never did: its contribution would be lost."""
        return self._gradient is not None

    def read(self, x: Tensor) -> None:
        """The second forward gives the input."""
        self._x, self._version = x, x._version
        self._settle()

    def come_back(self, gradient: Tensor) -> None:
        """The backward gives the gradient."""
        self._gradient = gradient.detach()
        self._settle()

    def _settle(self) -> None:
        x, gradient = self._x, self._gradient
        if x is None or gradient is None:
            return
        if x._version != self._version:
            raise changed_in_place(self.layer)
        self.forget()
        self._book(x, gradient)


class BlockCall:
    """One call of one block: the uses of layers in their order, and where a second forward is among them."""

    def __init__(self) -> None:
        self.uses: list[Use] = []
        self.is_again = False
        self._place = self._runs = 0

    def begin(self) -> None:
        """The block's forward starts: for the first time, or again."""
        self.is_again, self._place = self._runs > 0, 0
        self._runs += 1

    def same_use(self, layer: str) -> Use:
        """In a second forward: the use that the first one had at this place."""
        if self._place >= len(self.uses) or self.uses[self._place].layer != layer:
            raise ModelError(
                f"layer '{layer}' was not called in the same order when its block was computed again",
                hint="train this model without recomputing activations",
            )
        self._place += 1
        return self.uses[self._place - 1]


def changed_in_place(layer: str) -> ModelError:
    """The refusal of a layer whose input is not what it read any more."""
    return ModelError(
        f"the input of layer '{layer}' was changed in place after the layer read it",
        hint="write x = x + y instead of x += y in the model's forward",
    )


class Recomputation:
    """Attaches to the blocks of `module` until `detach`.

    `current` is the call of a block that is running, `calls` are all since they were last cleared.
    """

    def __init__(self, module: nn.Module) -> None:
        self._blocks = [block for block in module.modules() if isinstance(block, GradientCheckpointingLayer)]
        if not self._blocks:
            raise ModelError(
                "this model has no blocks whose activations could be computed again",
                found=type(module).__name__,
                expected="a model of transformers, made of blocks",
                hint="leave activation checkpointing off; smaller micro-batches (token_budget) save memory as well",
            )
        self.current: BlockCall | None = None
        self.calls: list[BlockCall] = []
        for block in self._blocks:
            block.forward = partial(self._run, block.forward)

    def detach(self) -> None:
        """Give the blocks their own forward back."""
        for block in self._blocks:
            vars(block).pop("forward", None)
        self._blocks = []

    def end_backward(self) -> None:
        """Make ready for another backward; a gradient whose layer was not computed again is refused, never lost."""
        for call in self.calls:
            for use in call.uses:
                if use.lacks_input:
                    raise ModelError(
                        f"the block of layer '{use.layer}' was not computed again in the backward",
                        hint="train this model without recomputing activations",
                    )
                use.forget()

    def _run(self, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not is_grad_enabled():
            return forward(*args, **kwargs)
        call = BlockCall()
        self.calls.append(call)

        def once(*args: Any, **kwargs: Any) -> Any:
            before, self.current = self.current, call
            call.begin()
            try:
                return forward(*args, **kwargs)
            finally:
                self.current = before

        # Not stopped early: the last layer's input is needed, though autograd itself has all it saved by then.
        return checkpoint(once, *args, use_reentrant=False, early_stop=False, **kwargs)
