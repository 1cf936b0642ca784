"""One LSTM layer made of two `nn.Linear`, so that whatever knows `nn.Linear` knows the layer.

Hochreiter and Schmidhuber (1997) with a forget gate, as `torch.nn.LSTM` writes it, gates in the order i, f, g, o:

    a_t = W_ih x_t + b_ih + W_hh h_{t-1} + b_hh        i, f, o = σ(a_t), g = tanh(a_t)
    c_t = f ∘ c_{t-1} + i ∘ g                           h_t = o ∘ tanh(c_t)

`input.weight` is W_ih [4H, E] and `hidden.weight` is W_hh [4H, H]: the layout of `weight_ih_l0` and `weight_hh_l0`.

Three ways to compute the same numbers, chosen by what can be seen:

- **fused**: torch's kernel, where nobody listens to the two modules and only the last state is wanted;
- **linear form**: where a hook listens, or rows end at different steps. Each of the two modules is called *once*
  on [B, T, ·] and back-propagation through time happens in `_Scan`, which hands the full gradient of the
  pre-activations δ_t = ∂L/∂a_t to both. So the usual per-record rule for a linear module, Σ_t δ_t ⊗ input_t, is
  exact for both weights, and a hook finds the [B, T, ·] tensors it needs in one call;
- **stepwise**: where a module was replaced by something else than `nn.Linear` (a LoRA layer).

It knows no padding but a row's length, no dropout, no direction but forward; no second derivatives in linear form.
Under autocast it stays in the precision of its weights: many processors have no half-precision kernel for it.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class LSTMLayer(nn.Module):
    """An LSTM over whole sequences that starts from a given state and returns the state at each row's end."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.input = nn.Linear(input_size, 4 * hidden_size)
        self.hidden = nn.Linear(hidden_size, 4 * hidden_size)

    def forward(
        self, x: Tensor, hidden: Tensor, cell: Tensor, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs [B, T, H], and h [B, H] and c [B, H] after `lengths` [B] steps of each row (None: after all).

        x is [B, T, E]; `hidden` and `cell` are the state [B, H] to start from. A row of length 0 keeps its state.
        """
        with torch.autocast(x.device.type, enabled=False):
            dtype = next(self.hidden.parameters()).dtype  # an adapter may wrap the layer
            x, hidden, cell = (value.to(dtype) for value in (x, hidden, cell))
            return self._whole(x, hidden, cell, lengths)

    def _whole(
        self, x: Tensor, hidden: Tensor, cell: Tensor, lengths: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        plain = type(self.input) is nn.Linear and type(self.hidden) is nn.Linear
        if plain and lengths is None and not (_is_heard(self.input) or _is_heard(self.hidden)):
            return self._fused(x, hidden, cell)
        outputs, cells = self._linear_form(x, hidden, cell) if plain else self._stepwise(x, hidden, cell)
        if lengths is None:
            return outputs, outputs[:, -1], cells[:, -1]
        return outputs, _at_end(outputs, lengths, before=hidden), _at_end(cells, lengths, before=cell)

    def _fused(self, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Torch's own kernel: outputs [B, T, H], last h [B, H], last c [B, H]."""
        weights = [self.input.weight, self.hidden.weight, self.input.bias, self.hidden.bias]
        state = (hidden.unsqueeze(0).contiguous(), cell.unsqueeze(0).contiguous())  # [1, B, H]
        outputs, last_hidden, last_cell = torch.lstm(x, state, weights, True, 1, 0.0, False, False, True)
        return outputs, last_hidden[0], last_cell[0]

    def _linear_form(self, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs and cells [B, T, H] with one call of each module and the recurrence in `_Scan`."""
        with torch.no_grad():
            outputs, _, _ = self._fused(x, hidden, cell)
            before = torch.cat([hidden.unsqueeze(1), outputs[:, :-1]], dim=1)  # h_{t-1} [B, T, H]
        # `before` is a constant here: what it owes to earlier steps, `_Scan` sends back through W_hh itself.
        activations = self.input(x) + self.hidden(before)  # a [B, T, 4H]
        scan: Any = _Scan.apply
        outputs, cells = scan(activations, self.hidden.weight.detach(), hidden, cell)
        return outputs, cells

    def _stepwise(self, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs and cells [B, T, H], the recurrent module called at every step."""
        projected = self.input(x)  # [B, T, 4H]
        outputs, cells = [], []
        for step in range(x.shape[1]):
            i, f, g, o = (projected[:, step] + self.hidden(hidden)).chunk(4, dim=-1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            outputs.append(hidden)
            cells.append(cell)
        return torch.stack(outputs, dim=1), torch.stack(cells, dim=1)


def _is_heard(module: nn.Module) -> bool:
    """Whether a hook waits for this module to be called."""
    return any(getattr(module, name) for name in _HOOKS)


def _at_end(values: Tensor, lengths: Tensor, *, before: Tensor) -> Tensor:
    """Row b of `values` [B, T, H] at step lengths[b] - 1, or of `before` [B, H] where the row is empty."""
    index = (lengths - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, values.shape[-1])  # [B, 1, H]
    ends = values.gather(1, index).squeeze(1)
    return torch.where(lengths.view(-1, 1) > 0, ends, before)


class _Scan(torch.autograd.Function):
    """From all pre-activations to outputs and cells; backwards, through time.

    Forward: a [B, T, 4H] already holds W_hh h_{t-1}, so only the elementwise recurrence of c is left.
    Backward: with D_t = ∂L/∂h_t + W_hhᵀ δ_{t+1} and C_t = ∂L/∂c_t + C_{t+1} f_{t+1} + D_t o_t (1 - tanh² c_t),

        δ_t = (C_t g i(1-i),  C_t c_{t-1} f(1-f),  C_t i (1-g²),  D_t tanh(c_t) o(1-o)).
    """

    @staticmethod
    def forward(ctx: Any, activations: Tensor, weight: Tensor, hidden: Tensor, cell: Tensor) -> Any:
        """Outputs and cells, both [B, T, H], from activations [B, T, 4H], W_hh [4H, H] and the state [B, H]."""
        size = hidden.shape[-1]
        gates = activations.sigmoid()
        gates[..., 2 * size : 3 * size] = activations[..., 2 * size : 3 * size].tanh()
        i, f, g, o = gates.chunk(4, dim=-1)
        written = i * g
        cells = torch.empty_like(written)
        current = cell
        for step in range(activations.shape[1]):
            current = torch.addcmul(written[:, step], f[:, step], current)
            cells[:, step] = current
        squashed = cells.tanh()
        ctx.save_for_backward(gates, cells, squashed, weight, cell)
        return o * squashed, cells

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_cells: Tensor) -> Any:
        """∂L/∂a [B, T, 4H], nothing for the weight (its module has its own), and ∂L/∂(initial h, c) [B, H]."""
        gates, cells, squashed, weight, cell = ctx.saved_tensors
        i, f, g, o = gates.chunk(4, dim=-1)
        before = torch.cat([cell.unsqueeze(1), cells[:, :-1]], dim=1)  # c_{t-1}
        by_cell = torch.stack([g * i * (1 - i), before * f * (1 - f), i * (1 - g * g)], dim=2)  # [B, T, 3, H]
        by_hidden = squashed * o * (1 - o)
        cell_by_hidden = o * (1 - squashed * squashed)
        delta = torch.empty_like(gates)
        parts = delta.view(*by_hidden.shape[:2], 4, -1)  # the same memory, gate by gate
        d_hidden, d_cell = torch.zeros_like(cell), torch.zeros_like(cell)
        for step in range(gates.shape[1] - 1, -1, -1):
            d_hidden = d_hidden + d_outputs[:, step]
            d_cell = torch.addcmul(d_cell + d_cells[:, step], d_hidden, cell_by_hidden[:, step])
            torch.mul(by_cell[:, step], d_cell.unsqueeze(1), out=parts[:, step, :3])
            torch.mul(by_hidden[:, step], d_hidden, out=parts[:, step, 3])
            d_hidden = delta[:, step] @ weight
            d_cell = d_cell * f[:, step]
        return delta, None, d_hidden, d_cell
