"""What a forward and its backward leave behind: the inputs of layers, then the gradients of their outputs.

The tape turns weight gradients off inside autograd (`requires_grad` of every parameter is False while it is
attached), so the backward computes gradients of activations only. A layer's output starts the graph where nothing
before it did: with frozen embeddings the backward ends at the first trainable layer.

A parameter is settled, its norms taken and what is no longer needed let go, as soon as every use of it that the
forward made has come back. That keeps the peak near that of plain training. With `recomputes` blocks keep their
input alone and the backward is made twice, first for norms and then for sums (`recomputation`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from reticent.core.errors import InternalError, ModelError
from reticent.training.gradients.contribution import GramCache, ParameterGradient
from reticent.training.gradients.layer_rules import Rule, refuse_mixing, rule_for
from reticent.training.gradients.recomputation import BlockCall, Recomputation, Use, changed_in_place
from reticent.training.gradients.rounding_bound import MOST_ENTRIES


def is_attached(module: nn.Module) -> bool:
    """Whether a tape holds the module now: its hooks are on some layer."""
    return any(hook.__module__ == __name__ for layer in module.modules() for hook in _hooks(layer))


def _hooks(layer: nn.Module) -> list[Callable[..., None]]:
    return [hook for hook in layer._forward_hooks.values() if hasattr(hook, "__module__")]


class Tape:
    """Hooks on every layer of `module` that owns a trainable parameter."""

    def __init__(self, module: nn.Module, *, recomputes: bool = False, is_bounded: bool = False) -> None:
        refuse_mixing(module)
        self._is_bounded = is_bounded
        self.module = module
        self.parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
        if not self.parameters and is_attached(module):
            raise ModelError(
                "another private step is attached to this model, so nothing in it is trainable for now",
                hint="leave the with block of that step, or close() it, first",
            )
        if not self.parameters:
            raise ModelError("the model has no trainable parameter", hint="unfreeze some or add LoRA layers")
        largest = max(parameter.numel() for parameter in self.parameters.values())
        if is_bounded and largest > MOST_ENTRIES:
            raise ModelError(
                "a parameter is too large for the rounding of its gradient to be bounded",
                found=f"{largest:,} entries",
                expected=f"at most {MOST_ENTRIES:,}",
                hint="train adapters (LoRA), or let rounding be tested (--rounding tested)",
            )
        names = {id(p): name for name, p in self.parameters.items()}
        # By layer and place: where parameters are sharded, the tensor that a forward reads is another object.
        self._owners = {
            layer: {place: names[id(p)] for place, p in layer._parameters.items() if id(p) in names}
            for layer in module.modules()
        }
        layers = [
            (name, layer, rule_for(name, layer)) for name, layer in module.named_modules() if self._owners[layer]
        ]
        self._handles: list[RemovableHandle] = []
        self._listening = True
        self._rows: int | None = None  # rows of the running backward, None between backwards
        self._records, self._rows_per_record = 0, 1
        self._recomputation = Recomputation(module) if recomputes else None
        self.reset()
        for parameter in self.parameters.values():
            parameter.requires_grad_(False)
        for name, layer, rule in layers:
            hook = self._forward_hook(name, rule)
            self._handles.append(layer.register_forward_hook(hook, with_kwargs=True))

    def detach(self) -> None:
        """Take the hooks off and make the parameters trainable again."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._recomputation is not None:
            self._recomputation.detach()
        self.reset()
        for parameter in self.parameters.values():
            parameter.requires_grad_(True)

    def reset(self) -> None:
        """Forget everything that was saved."""
        if self._recomputation is not None:
            self._recomputation.calls = []
        self._starts: list[Tensor] = []  # outputs at which a graph starts
        self._expected: dict[str, int] = {}
        self._open: dict[str, ParameterGradient] = {}
        self._settled: dict[str, ParameterGradient] = {}
        self._seen: dict[str, int] = {}
        self._done: set[str] = set()
        self._grams = GramCache(self._is_bounded)
        self._latest: BlockCall | None = None  # whose activations the Gram blocks are
        self._squares: Tensor | None = None  # [B]
        self._rows = None
        self._losses: Tensor | None = None  # [B], where there is a second backward
        self._factors: Tensor | None = None  # [B], in a second backward
        self._sums: dict[str, Tensor] = {}

    @contextmanager
    def plain(self) -> Iterator[None]:
        """Inside, the model is an ordinary one: no hooks, ordinary gradients."""
        self._listening = False
        for parameter in self.parameters.values():
            parameter.requires_grad_(True)
        try:
            yield
        finally:
            self._listening = True
            for parameter in self.parameters.values():
                parameter.requires_grad_(False)

    def backward(self, losses: Tensor, *, rows_per_record: int) -> Tensor:
        """Squared gradient norms [B] of one loss per record [B], in float64."""
        if not losses.requires_grad:
            raise ModelError(
                "the losses do not depend on any trainable layer of this model",
                hint="compute them from this model, under its engine and with gradients enabled",
            )
        self._records = len(losses)
        self._losses = losses if self._recomputation is not None else None
        self._rows_per_record = rows_per_record
        self._go_back(losses, rows_per_record)
        if self._squares is None:
            raise ModelError("no trainable layer of this model was reached by the losses")
        return self._squares.expand(self._records)

    def _go_back(self, losses: Tensor, rows_per_record: int) -> None:
        """One backward; whatever is still open afterwards has come back less often than it was used."""
        self._rows = len(losses) * rows_per_record
        self._seen, self._done, self._latest = {}, set(), None
        is_kept = self._losses is not None and self._factors is None  # for a second backward
        torch.autograd.grad(losses.sum(), self._starts, allow_unused=True, retain_graph=is_kept)
        if self._recomputation is not None:
            self._recomputation.end_backward()
        with exact_products(losses.device):
            for name in list(self._open):
                self._settle(name)
        self._rows = None

    def clipped_sums(self, factors: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Σ_b c_b G_b of each parameter that took part, letting go of what it was made from."""
        self._grams = GramCache(self._is_bounded)
        if self._losses is not None:
            self._factors = factors
            self._go_back(self._losses, self._rows_per_record)
            while self._sums:
                yield self._sums.popitem()
            return
        with exact_products(factors.device):
            while self._settled:
                name, gradient = self._settled.popitem()
                yield name, gradient.clipped_sum(factors)

    def _forward_hook(self, name: str, rule: Rule) -> Callable[..., None]:
        def after_forward(
            layer: nn.Module, args: tuple[object, ...], kwargs: dict[str, object], output: object
        ) -> None:
            if not self._listening or not torch.is_grad_enabled():
                return
            given = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
            if len(given) != 1 or not isinstance(output, Tensor):
                raise ModelError(f"layer '{name}' was not called with one tensor and one result")
            self._watch(name, layer, rule, given[0].detach(), output)

        return after_forward

    def _watch(self, name: str, layer: nn.Module, rule: Rule, x: Tensor, output: Tensor) -> None:
        """Wait for the gradient of a layer's output, and in a block for its input to be computed again."""
        call = None if self._recomputation is None else self._recomputation.current
        if call is not None and call.is_again:
            output.requires_grad_()  # as the first time, so that autograd saves the same tensors
            call.same_use(name).read(x)
            return
        if not output.requires_grad:
            output.requires_grad_()
            self._starts.append(output)
        for owner in self._owners[layer].values():
            self._expected[owner] = self._expected.get(owner, 0) + 1
        if call is not None:
            use = Use(name, partial(self._record_in, call, name, layer, rule))
            call.uses.append(use)
            output.register_hook(use.come_back)  # type: ignore[no-untyped-call]
            return
        version = x._version

        def after_backward(gradient: Tensor) -> None:
            if x._version != version:
                raise changed_in_place(name)
            self._record(name, layer, rule, x, gradient.detach())

        output.register_hook(after_backward)  # type: ignore[no-untyped-call]

    def _record_in(
        self, call: BlockCall, name: str, layer: nn.Module, rule: Rule, x: Tensor, gradient: Tensor
    ) -> None:
        """Book a layer of a block; what was kept of another block is let go."""
        if call is not self._latest:
            self._grams, self._latest = GramCache(self._is_bounded), call
        self._record(name, layer, rule, x, gradient)

    def _record(self, name: str, layer: nn.Module, rule: Rule, x: Tensor, gradient: Tensor) -> None:
        """Book a layer's contributions; called by autograd."""
        if self._rows is None:
            raise ModelError(
                "a backward pass ran outside of the per-record engine",
                hint="give the batch to the engine instead of calling backward() yourself",
            )
        if x.shape[0] != self._rows or gradient.shape[0] != self._rows:
            raise ModelError(
                f"layer '{name}' does not keep one row per record",
                found=f"{x.shape[0]} rows",
                expected=f"{self._rows}",
                hint="give position ids a row per record; a layer that reshapes tokens into rows is not supported",
            )
        with exact_products(gradient.device):
            folded = self._fold(x), self._fold(gradient)
            places = {id(p): place for place, p in layer._parameters.items()}
            for parameter, contribution in rule(layer, *folded):
                owner = self._owners[layer].get(places[id(parameter)])
                if owner is None:
                    continue  # frozen
                if owner in self._done:
                    raise InternalError(f"parameter '{owner}' came back more often than it was used")
                fresh = ParameterGradient(parameter.shape, is_bounded=self._is_bounded)
                self._open.setdefault(owner, fresh).add(contribution)
                self._seen[owner] = self._seen.get(owner, 0) + 1
                if self._seen[owner] == self._expected.get(owner):
                    self._settle(owner)

    def _fold(self, x: Tensor) -> Tensor:
        """[R, ...] as [B, R/B, ...]: the rows of a record are further positions of it."""
        return x if len(x) == self._records else x.reshape(self._records, -1, *x.shape[1:])

    def _settle(self, name: str) -> None:
        gradient = self._open.pop(name)
        self._done.add(name)
        gradient.arrange()
        if self._factors is not None:
            self._sums[name] = gradient.clipped_sum(self._factors)
            return
        squares = gradient.squared_norms(self._grams)
        self._squares = squares if self._squares is None else self._squares + squares
        if self._losses is None:  # else it is made anew, with the factors
            self._settled[name] = gradient


@contextmanager
def exact_products(device: torch.device) -> Iterator[None]:
    """Full float32 products inside, whatever the model computes in: norms bound a release."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
