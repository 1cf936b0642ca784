"""Does rounding tie the records of a step together? Measured on made-up records before it is relied on.

In real numbers a record that joins a step moves the clipped sum by its own contribution, at most C. In floating
point it also moves the others: they are padded to another width, or lie in a batch of another shape, where other
kernels run and round their gradients differently: by 0.003 to 0.2 C in bfloat16, most where records are alike, and
by 1e-5 C in float32. The noise has room for ROUNDING_ROOM × C (`plan`). A record may differ between its batch and
alone by so little that a whole step of records, all in one direction, fills a quarter of the room:

    limit = ROUNDING_ROOM / (4 × expected batch)           relative to the clip norm

1. Closely packed batches are used where they are computed in float32 and keep the limit.
2. Else every record is padded by its own length (`batches.own_size_batches`). A shape of batch is used if its
   records are those computed alone: usually to the last bit, since a row of a matrix product needs no other row.
3. Else batches are halved, down to records one by one, which nobody else can round.

Records are made up from a fixed seed, so what is decided follows from public facts and released weights alone. A
few records of each shape are a test and no proof: `assumes` says so. Three quarters of the room are left for the
sums, which are float32 within a micro-batch and float64 over micro-batches, and for a record's own norm.

Where the clip norm follows a count of short gradients (`plans.adaptive_norm`), norms must keep the limit as well,
each relative to itself. Votes of norms beyond 1½ C do not move, so a whole step moves its count by at most
1½ × ROUNDING_ROOM / 4, and the count's noise has room for ½ × ROUNDING_ROOM. Relative to C nothing moves more where
C is greater, so a test holds until C falls below the norm that it was made with.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor, nn

from reticent.training.gradients.clipping import NonFiniteGradient
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.record_loss import TokenBatch

SHARE: Final = 4  # a quarter of the room
_WIDEST: Final = 64  # tokens of the longest made-up record of a closely packed batch


@dataclass(frozen=True, slots=True)
class Readable:
    """What a model reads: token ids below `vocabulary`, at most `longest` of them, after `start_token`."""

    vocabulary: int
    longest: int | None
    start_token: int
    device: str

    @classmethod
    def by(cls, module: nn.Module, start_token: int) -> "Readable":
        """As the module's configuration says."""
        owner: Any = module
        config = owner.config.get_text_config()
        longest = getattr(config, "max_position_embeddings", None)
        device = str(next(module.parameters()).device)
        return cls(int(config.vocab_size), None if longest is None else int(longest), start_token, device)

    def records(self, sizes: Sequence[tuple[int, int]]) -> list[list[list[int]]]:
        """Made-up records of these many texts and tokens each, always the same."""
        source = torch.Generator().manual_seed(0)
        return [torch.randint(self.vocabulary, size, generator=source).tolist() for size in sizes]

    def batch(self, records: Sequence[Sequence[Sequence[int]]]) -> TokenBatch:
        """These records as one batch."""
        return TokenBatch.of_groups(records, self.start_token, device=self.device)


@dataclass(slots=True)
class RoundingTest:
    """What batches of an attached engine do to single records. Ask while the model is in evaluation mode."""

    engine: PerRecordGradients
    readable: Readable
    clip_norm: float
    limit: float
    reads_norms: bool = False  # whether norms by themselves enter what is released
    shapes: dict[tuple[int, int, int], bool] = field(default_factory=dict)

    def allows_close_packing(self) -> bool:
        """Whether records of different lengths, padded to the longest, keep the limit.

        Never in half precision, where some widths round alike by chance and the made-up ones may be among them.
        """
        widest = min(self.readable.longest or _WIDEST, _WIDEST)
        lengths = sorted({max(1, widest * part // 8 - 1) for part in (8, 6, 4, 3, 1)}, reverse=True)
        records = self.readable.records([(1, length) for length in lengths])
        return self.engine.is_full_precision and self._are_alike(records, range(len(records)))

    def allows(self, batch: TokenBatch) -> bool:
        """Whether records in a batch of this shape keep the limit; tried at the first of each shape."""
        count, rows, width = len(batch), batch.rows_per_record, int(batch.inputs.shape[1])
        if (count, rows, width) not in self.shapes:
            records = self.readable.records([(rows, width)] * count)
            places = sorted({0, count // 2, count - 1})
            self.shapes[count, rows, width] = count == 1 or self._are_alike(records, places)
        return self.shapes[count, rows, width]

    def _are_alike(self, records: Sequence[Sequence[Sequence[int]]], places: Sequence[int]) -> bool:
        """Whether the records at these places have the gradient in the batch of all that they have alone."""
        try:
            squares, together = self._tried(records, places)
            singly = [self._tried([records[place]], [0]) for place in places]
        except NonFiniteGradient:
            return False
        mine, alone = squares[list(places)], torch.cat([square for square, _ in singly])
        if torch.equal(mine, alone):
            return True  # norms in float64 follow every bit of a gradient
        most = self.limit * math.sqrt(len(places))  # as independent errors add up, the stricter way
        if self.reads_norms and not float(torch.linalg.vector_norm((mine / alone).sqrt() - 1.0)) <= most:
            return False
        return distance(together, [sums for _, sums in singly]) / self.clip_norm <= most

    def _tried(
        self, records: Sequence[Sequence[Sequence[int]]], places: Sequence[int]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Squared norms of these records in one batch, and the clipped sum of those at these places."""
        return self.engine.try_out(self.readable.batch(records), among=places, clip_norm=self.clip_norm)


def distance(together: dict[str, Tensor], alone: Sequence[dict[str, Tensor]]) -> float:
    """‖S − Σ S_b‖ over all parameters, of a sum and of the sums of its records one by one."""
    square = 0.0
    for name, total in together.items():
        rest = total.double() - sum(each[name].double() for each in alone)
        square += float(rest.square().sum())
    return math.sqrt(square)
