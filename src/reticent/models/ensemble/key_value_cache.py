"""Keys and values of many texts and many rows in buffers that are allocated ahead and never moved token by token.

A text has a slot; a layer's buffers are [slots, rows, heads, capacity, size]. Layers below the first adapter have
one row, which all rows share. Writing a token touches its own columns alone, and reading a single text, or texts in
neighbouring slots, is a view, which attention reads where it is: slots stand outermost.

When buffers are full, columns double. In the processor's memory a slot that no text has had takes none, as the
system hands pages out when they are written; so slots are reserved far ahead, by `_AHEAD` bytes or as many again,
and nobody waits while gigabytes are copied. Elsewhere slots grow by a quarter, so that memory stays within a
quarter of what the texts need (`server.scheduling.scheduler` admits texts by that).

What another text left in a slot is hidden by a mask, which multiplies it by 0 and so leaves NaN as it is. It is
therefore overwritten with zeros, but only where a longer text beside it makes it part of the product: to clear
whole slots took as long as several tokens.
"""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

_COLUMNS = 64  # capacity at first
_AHEAD = 2 * 2**30  # bytes


class KeyValueCache:
    """The buffers of every layer; `rows[l]` is how many rows layer l computes."""

    def __init__(self, rows: Sequence[int], heads: int, size: int, *, like: Tensor) -> None:
        self._rows, self._heads, self._size, self._like = tuple(rows), heads, size, like
        self.slots = 0
        self.capacity = _COLUMNS
        self._used = 0  # slots that texts have had
        # By slot: columns before `_own` are those of its text, or zero; columns from `_written` on are zero.
        self._own: defaultdict[int, int] = defaultdict(int)
        self._written: defaultdict[int, int] = defaultdict(int)
        self._keys = [self._new(count) for count in self._rows]
        self._values = [self._new(count) for count in self._rows]

    @property
    def _is_lazy(self) -> bool:
        """Whether memory is taken when it is written, not when it is reserved."""
        return self._like.device.type == "cpu"

    @property
    def column_bytes(self) -> int:
        """Bytes of one column of one slot, all layers and rows."""
        return 2 * sum(self._rows) * self._heads * self._size * self._like.element_size()

    def reserve(self, *, slots: int, columns: int) -> None:
        """Make room for so many texts of so many tokens."""
        used, self._used = self._used, max(self._used, slots)
        if slots <= self.slots and columns <= self.capacity:
            return
        while self.capacity < columns:
            self.capacity *= 2
        if self._is_lazy:
            ahead = _AHEAD // (self.capacity * self.column_bytes)
            self.slots = max(slots, ahead, 2 * used)
        elif self.slots < slots:
            self.slots = max(slots, self.slots + self.slots // 4)
        for buffers in (self._keys, self._values):
            for layer, old in enumerate(buffers):
                new = self._new(self._rows[layer])
                new[:used, :, :, : old.shape[3]] = old[:used]
                buffers[layer] = new

    def begin(self, slot: int, *, keeps: int) -> None:
        """Another text has the slot from now on, and of what is there the first columns."""
        self._own[slot] = keeps

    def uncover(self, slots: Sequence[int], *, ends: Sequence[int]) -> None:
        """Before texts are read together up to these columns: left-overs that the longest one makes visible go."""
        length = max(ends)
        for slot, end in zip(slots, ends, strict=True):
            own, seen = max(self._own[slot], end), min(length, self._written[slot])
            if own < seen:
                for buffer in (*self._keys, *self._values):
                    buffer[slot, :, :, own:seen] = 0.0
            self._own[slot] = max(own, seen)
            self._written[slot] = max(self._written[slot], end)

    def extend(
        self, layer: int, keys: Tensor, values: Tensor, *, slots: Sequence[int], starts: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Write keys and values [R, n, H, t, D] from column `starts[i]` on; all there is, as [n, R, H, L, D].

        L is the end of the longest text: shorter ones must be masked by whoever attends.
        """
        keep, have, columns = self._keys[layer], self._values[layer], keys.shape[3]
        if len(slots) == 1:
            keep[slots[0], :, :, starts[0] : starts[0] + columns] = keys[:, 0]
            have[slots[0], :, :, starts[0] : starts[0] + columns] = values[:, 0]
        else:
            own = torch.tensor(slots, device=keep.device)[:, None]  # [n, 1]
            places = torch.tensor(starts, device=keep.device)[:, None] + torch.arange(columns, device=keep.device)
            keep[own, :, :, places] = keys.permute(1, 3, 0, 2, 4)  # [n, t, R, H, D]
            have[own, :, :, places] = values.permute(1, 3, 0, 2, 4)
        length = max(starts) + columns
        return self._read(keep, slots, length), self._read(have, slots, length)

    def copy(self, source: int, target: int, *, start: int, end: int) -> None:
        """Columns of one slot to another: a beginning that two texts share is read once."""
        for buffer in (*self._keys, *self._values):
            buffer[target, :, :, start:end] = buffer[source, :, :, start:end]
        self._own[target] = max(self._own[target], end)
        self._written[target] = max(self._written[target], end)

    def swap(self, first: int, second: int, *, columns: int) -> None:
        """Exchange the first columns of two slots."""
        for buffer in (*self._keys, *self._values):
            kept = buffer[first, :, :, :columns].clone()
            buffer[first, :, :, :columns] = buffer[second, :, :, :columns]
            buffer[second, :, :, :columns] = kept
        self._own[first], self._own[second] = (min(self._own[each], columns) for each in (second, first))
        self._written[first] = self._written[second] = max(self._written[first], self._written[second])

    def _read(self, buffer: Tensor, slots: Sequence[int], length: int) -> Tensor:
        first = slots[0]
        if list(slots) == list(range(first, first + len(slots))):
            return buffer[first : first + len(slots), :, :, :length]
        return buffer[:, :, :, :length].index_select(0, torch.tensor(slots, device=buffer.device))

    def _new(self, rows: int) -> Tensor:
        shape = (self.slots, rows, self._heads, self.capacity, self._size)
        if not (self._is_lazy and self.slots):
            return self._like.new_zeros(shape)
        pages = np.zeros(math.prod(shape) * self._like.element_size(), dtype=np.uint8)  # torch would write them
        return torch.from_numpy(pages).view(self._like.dtype).view(shape)
