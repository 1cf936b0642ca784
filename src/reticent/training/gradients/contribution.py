"""What one parameter owes to one batch: its per-record gradients in factored form, their norms, their clipped sum.

A parameter's per-record gradient is the sum of what each of its uses contributes, and there are three kinds:

    Outer   G_b = Σ_t l_bt ⊗ r_bt             linear maps: output gradient ⊗ activation
    Rows    G_b = Σ_t onehot(x_bt) ⊗ r_bt     embeddings
    Dense   G_b, written out                  biases, norms

Uses of the same kind join along t, so a layer that is called twice is exact at no new cost. Outer and Rows on one
parameter are a tied embedding, whose squared norm has the cross term 2 Σ_ts l_s[x_t] (r_s · e_t).

‖Σ_t l_t ⊗ r_t‖² = Σ_ts (l_t·l_s)(r_t·r_s) needs no G_b (ghost norm: Goodfellow 2015, Li et al. 2022); the saved
tensors serve again for the clipped sum (book-keeping: Bu et al. 2023). Writing G_b out costs memory traffic, and
saves the later product. `is_written_out` chooses by cost.

Where it `is_bounded`, all of this is float64 and the squared norm is an upper bound of the true one
(`rounding_bound` has the proof): κ A_b² is added, where A_b = Σ_t ‖l_bt‖‖r_bt‖ is what would be the norm if nothing
cancelled. So a record whose terms cancel to almost nothing, where round-off is all that is left, is scaled down.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from reticent.training.gradients.clipping import NonFiniteGradient
from reticent.training.gradients.products import BLOCKS, gram_blocks, record_products, summed_products
from reticent.training.gradients.rounding_bound import CANCELLATION, MOST_POSITIONS

# Prices in multiply-add flops, fitted to one core of a current server (86 Gflop/s single precision, 0.65 ns to
# write, square and weigh one entry): a per-record gradient that stays in memory costs this much an entry,
_ENTRY = 60.0
# and this much more where the buffer is so large that the allocator maps new pages for it at every step.
_FRESH_ENTRY = 180.0
_FRESH_BYTES = 32 << 20
# Records are counted as a full micro-batch of this many positions, however many there are: the choice rounds a norm
# differently, so it must not depend on who else was drawn.
_POSITIONS = 4096
# Written-out gradients may hold at most so many times the entries of the two factors they replace: with 3 a step of
# stories15m took 3 % more memory, and with 1 one of the GPT-2 shape 5 % more time.
_MEMORY = 1.625


@dataclass(frozen=True, slots=True)
class Outer:
    """Σ_t left_t ⊗ right_t for a parameter [p, q], with left [B, T, p] and right [B, T, q]."""

    left: Tensor
    right: Tensor


@dataclass(frozen=True, slots=True)
class Rows:
    """Σ_t onehot(ids_t) ⊗ values_t for a parameter [V, q], with ids [B, T] and values [B, T, q]."""

    ids: Tensor
    values: Tensor


@dataclass(frozen=True, slots=True)
class Dense:
    """Per-record gradients [B, *shape]."""

    gradients: Tensor


Contribution = Outer | Rows | Dense


def is_written_out(length: int, *, p: int, q: int) -> bool:
    """Whether per-record gradients [B, p, q] are cheaper than a ghost norm over T positions, within memory.

    Guarantee: a function of the record's own shape, never of the batch that it is in.
    """
    entries, batch = float(p * q), max(1, _POSITIONS // length)
    entry = _ENTRY + (_FRESH_ENTRY if 4 * batch * entries > _FRESH_BYTES else 0.0)
    ghost = 2.0 * length * length * (p + q) * (BLOCKS + 1) / (2 * BLOCKS)
    return entry * entries < ghost and entries <= _MEMORY * length * (p + q)


@dataclass(slots=True)
class GramCache:
    """Gram blocks of activations that several layers read (query, key and value; gate and up), for one backward."""

    is_bounded: bool = False
    # The tensor is kept beside its blocks, so that its address cannot be given to another one meanwhile.
    kept: dict[tuple[object, ...], tuple[Tensor, list[Tensor]]] = field(default_factory=dict)

    def blocks(self, x: Tensor) -> list[Tensor]:
        """x xᵀ of x [B, T, d] as row blocks that end at their diagonal block."""
        key = (x.data_ptr(), x.shape, x.stride(), x.dtype)
        if key not in self.kept:
            self.kept[key] = (x, gram_blocks(x.double() if self.is_bounded else wide(x)))
        return self.kept[key][1]


def wide(x: Tensor) -> Tensor:
    """At least float32: half precision in a norm would bound the wrong number."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _row_norms(x: Tensor) -> Tensor:
    """‖x‖ over the last axis, in float64."""
    norms: Tensor = torch.linalg.vector_norm(x, dim=-1, dtype=torch.float64)
    return norms


def _squares(gradients: Tensor) -> Tensor:
    """Squared norms [B] of [B, ...], in float64."""
    norms: Tensor = torch.linalg.vector_norm(gradients.flatten(1), dim=1)
    return norms.double().square()


class ParameterGradient:
    """Collects the contributions to one parameter [*shape]; then gives squared norms, then the clipped sum.

    `is_bounded`: in float64, and no norm below the true one.
    """

    def __init__(self, shape: torch.Size, *, is_bounded: bool = False) -> None:
        self._shape = shape
        self._is_bounded = is_bounded
        self._reach: Tensor | None = None  # A_b [B]
        self._outer: list[Outer] = []
        self._rows: list[Rows] = []
        self._dense: Tensor | None = None  # [B, *shape]
        self._single: list[Tensor] = []  # [p, q] of each record, where they were written out one by one

    def add(self, contribution: Contribution) -> None:
        """One more use of the parameter by the same records."""
        if isinstance(contribution, Outer):
            self._outer.append(contribution)
        elif isinstance(contribution, Rows):
            self._rows.append(contribution)
        else:
            gradients = self._wide(contribution.gradients)
            self._dense = gradients if self._dense is None else self._dense + gradients

    def arrange(self) -> None:
        """Bring the uses into the form that norms and sums are computed from, when every one has been added."""
        self._join()
        if self._is_bounded:
            self._reach = self._uncancelled()
        if self._outer and (self._dense is not None or self._is_cheaper_dense()):
            self._write_out()
        if self._rows and (self._dense is not None or self._single):
            self._scatter()

    def squared_norms(self, grams: GramCache) -> Tensor:
        """‖G_b‖² [B] in float64. Call once, after `arrange`; keeps only what the sum needs.

        Guarantee: where `is_bounded`, at least ‖G_b‖² of the real numbers, and at least κ A_b².
        """
        squares = self._computed_squares(grams)
        return squares if self._reach is None else squares + CANCELLATION * self._reach.square()

    def _computed_squares(self, grams: GramCache) -> Tensor:
        if self._dense is not None:
            return _squares(self._dense)
        if self._single:
            return torch.stack([torch.linalg.vector_norm(gradient) for gradient in self._single]).double().square()
        total = torch.zeros((), dtype=torch.float64)
        if self._outer:
            total = total + self._ghost(grams)
        if self._rows:
            total = total + (self._cross() if self._outer else 0.0) + self._merge_rows()
        return total.clamp_min(0.0)

    def clipped_sum(self, factors: Tensor) -> Tensor:
        """Σ_b c_b G_b [*shape] for factors c [B], in float32 at least; after `arrange`."""
        if self._dense is not None:
            return (factors.to(self._dense.dtype) @ self._dense.flatten(1)).view(self._shape)
        if self._single:
            return _weighted_sum(self._single, factors)
        if self._outer:
            (outer,) = self._outer
            total = _weighted_product(self._wide(outer.left), self._wide(outer.right), factors)
        else:
            total = torch.zeros(self._shape, dtype=self._wide(self._rows[0].values).dtype, device=factors.device)
        for rows in self._rows:
            values = self._wide(rows.values) * factors.to(self._wide(rows.values).dtype).view(-1, 1, 1)  # [B, T, q]
            total.index_add_(0, rows.ids.flatten(), values.flatten(0, 1))
        return total

    def _wide(self, x: Tensor) -> Tensor:
        return x.double() if self._is_bounded else wide(x)

    def _uncancelled(self) -> Tensor:
        """A_b [B] in float64: the norms of all terms, added up. A record of too many terms is refused."""
        reach = torch.zeros((), dtype=torch.float64)
        positions = 0
        for outer in self._outer:
            norms = _row_norms(outer.left) * _row_norms(outer.right)  # [B, T]
            reach, positions = reach + norms.sum(1), positions + norms.numel()
        for rows in self._rows:
            norms = _row_norms(rows.values)  # [B, T]
            reach, positions = reach + norms.sum(1), positions + norms.numel()
        if self._dense is not None:
            reach = reach + _row_norms(self._dense.flatten(1))
        if positions > MOST_POSITIONS:
            raise NonFiniteGradient(
                "a record is too long for its rounding to be bounded",
                found=f"{positions} positions",
                expected=f"at most {MOST_POSITIONS}",
            )
        return reach

    def _join(self) -> None:
        if len(self._outer) > 1:
            left = torch.cat([use.left for use in self._outer], dim=1)
            self._outer = [Outer(left, torch.cat([use.right for use in self._outer], dim=1))]
        if len(self._rows) > 1:
            ids = torch.cat([use.ids for use in self._rows], dim=1)
            self._rows = [Rows(ids, torch.cat([use.values for use in self._rows], dim=1))]

    def _is_cheaper_dense(self) -> bool:
        _, length, p = self._outer[0].left.shape
        return is_written_out(length, p=p, q=self._outer[0].right.shape[-1])

    def _write_out(self) -> None:
        (outer,) = self._outer
        left, right = self._wide(outer.left), self._wide(outer.right)
        self._outer = []
        if self._dense is None:
            self._single = record_products(left, right) or []
        if not self._single:
            product = torch.bmm(left.transpose(1, 2), right)  # [B, p, q]
            self._dense = product if self._dense is None else self._dense + product

    def _scatter(self) -> None:
        """Add the rows to gradients that are written out."""
        (rows,) = self._rows
        self._rows = []
        if self._dense is None:
            for gradient, ids, values in zip(self._single, rows.ids, self._wide(rows.values), strict=True):
                gradient.index_add_(0, ids, values)
            return
        batch, vocabulary = self._dense.shape[:2]
        offsets = torch.arange(batch, device=rows.ids.device).unsqueeze(1) * vocabulary  # [B, 1]
        flat = self._dense.view(batch * vocabulary, -1)
        flat.index_add_(0, (rows.ids + offsets).flatten(), self._wide(rows.values).flatten(0, 1).to(flat.dtype))

    def _ghost(self, grams: GramCache) -> Tensor:
        """Σ_ts (l_t·l_s)(r_t·r_s) [B]; every block left of the diagonal counts twice."""
        (outer,) = self._outer
        total = torch.zeros((), dtype=torch.float64)
        for left, right in zip(gram_blocks(self._wide(outer.left)), grams.blocks(outer.right), strict=True):
            product = left * right  # [B, rows, columns]
            diagonal = product.shape[2] - product.shape[1]
            total = total + 2.0 * product[:, :, :diagonal].sum((1, 2), dtype=torch.float64)
            total = total + product[:, :, diagonal:].sum((1, 2), dtype=torch.float64)
        return total

    def _cross(self) -> Tensor:
        """2 Σ_ts l_s[x_t] (r_s · e_t) [B]: what a tied embedding's two uses have in common."""
        (outer,), (rows,) = self._outer, self._rows
        heads, length = outer.left.shape[1], rows.ids.shape[1]
        picked = outer.left.gather(2, rows.ids.unsqueeze(1).expand(-1, heads, length))  # l_s[x_t]: [B, S, T]
        inner = torch.bmm(self._wide(outer.right), self._wide(rows.values).transpose(1, 2))  # r_s · e_t: [B, S, T]
        return 2.0 * (self._wide(picked) * inner).sum((1, 2), dtype=torch.float64)

    def _merge_rows(self) -> Tensor:
        """‖Rows‖² [B]: equal tokens of a record add up before they are squared."""
        (rows,) = self._rows
        batch, vocabulary = rows.ids.shape[0], self._shape[0]
        offsets = torch.arange(batch, device=rows.ids.device).unsqueeze(1) * vocabulary
        keys, places = torch.unique(rows.ids + offsets, return_inverse=True)  # [U], [B, T]
        values = self._wide(rows.values)
        merged = values.new_zeros(len(keys), values.shape[-1])
        merged.index_add_(0, places.flatten(), values.flatten(0, 1))
        owners = torch.div(keys, vocabulary, rounding_mode="floor")
        squares = torch.zeros(batch, dtype=torch.float64, device=keys.device)
        return squares.index_add_(0, owners, _squares(merged))


def _weighted_product(left: Tensor, right: Tensor, factors: Tensor) -> Tensor:
    """Σ_b c_b Σ_t l_bt ⊗ r_bt as one product; the factors go to the narrower side, which is copied."""
    weights = factors.view(-1, 1, 1)
    if left.shape[-1] < right.shape[-1]:
        left = left * weights.to(left.dtype)
    else:
        right = right * weights.to(right.dtype)
    return summed_products(left, right)


def _weighted_sum(gradients: list[Tensor], factors: Tensor) -> Tensor:
    """Σ_b c_b G_b of G_b [p, q]."""
    weights: list[float] = factors.tolist()
    total = torch.mul(gradients[0], weights[0])
    for weight, gradient in zip(weights[1:], gradients[1:], strict=True):
        total.add_(gradient, alpha=weight)
    return total.contiguous()
