"""What the footer of a Parquet file states of its columns, read without pyarrow's view of them.

pyarrow makes a column's metadata outside of what catches C++ exceptions: a footer with statistics that do not fit
the column's type ends the whole process. The footer is a Thrift structure in the compact protocol, and of it sizes
and names are all that is needed here. The format's own description: parquet.thrift of apache/parquet-format.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_MAGIC: Final = b"PAR1"
_MOST_BYTES: Final = 2**28  # of a footer
_DEEPEST: Final = 64
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = range(1, 14)
# Numbers of the fields that are read: of the file, a row group, a column chunk, and its metadata.
_ROW_GROUPS, _COLUMNS, _NUM_ROWS, _META_DATA, _PATH, _UNCOMPRESSED, _COMPRESSED = 4, 1, 3, 3, 3, 6, 7


class BadFooter(ValueError):
    """The file does not end as a Parquet file does."""


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """A column in a row group of so many rows: its name at the top of the schema, and its bytes."""

    name: str
    rows: int
    uncompressed: int
    compressed: int


def column_chunks(path: Path) -> Iterator[ColumnChunk]:
    """Every column of every row group, as the footer states them."""
    try:
        for group in _Compact(_footer(path)).structure()[_ROW_GROUPS]:
            rows = _whole(group[_NUM_ROWS])
            for chunk in group[_COLUMNS]:
                about = chunk[_META_DATA]
                name = about[_PATH][0].decode("utf8")
                yield ColumnChunk(name, rows, _whole(about[_UNCOMPRESSED]), _whole(about[_COMPRESSED]))
    except (KeyError, IndexError, TypeError, AttributeError, UnicodeDecodeError, struct.error) as error:
        raise BadFooter(type(error).__name__) from None


def _footer(path: Path) -> bytes:
    """The bytes before the last eight, which are their number and the magic word."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - 8))
        length, magic = struct.unpack("<I4s", file.read(8))
        if magic != _MAGIC or length > min(size - 8, _MOST_BYTES):
            raise BadFooter("no footer, or an encrypted one")
        file.seek(size - 8 - length)
        return file.read(length)


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise BadFooter("a size that is none")
    return value


class _Compact:
    """A reader of Thrift's compact protocol: structures are dictionaries by field number."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def structure(self, depth: int = 0) -> dict[int, Any]:
        """The structure that begins here; of a field that stands twice, the last one."""
        if depth > _DEEPEST:
            raise BadFooter("nested too deep")
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_I16, _I32, _I64):
            return self._integer()
        if kind == _BINARY:
            return self._bytes(self._unsigned())
        if kind == _STRUCT:
            return self.structure(depth + 1)
        if kind in (_LIST, _SET):
            return self._list(depth + 1)
        if kind == _MAP:
            return self._map(depth + 1)
        sizes = {_TRUE: 1, _FALSE: 1, _BYTE: 1, _DOUBLE: 8, _UUID: 16}
        if kind not in sizes:
            raise BadFooter("a value of unknown type")
        return self._bytes(sizes[kind])

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        count = self._counted(self._unsigned() if head >> 4 == 15 else head >> 4)
        return [self._value(head & 15, depth) for _ in range(count)]

    def _map(self, depth: int) -> None:
        """Passed over: nothing that is read here is one."""
        count = self._counted(self._unsigned())
        kinds = self._byte() if count else 0
        for _ in range(count):
            self._value(kinds >> 4, depth)
            self._value(kinds & 15, depth)

    def _counted(self, count: int) -> int:
        """The count, unless there are more than bytes: every value of a list takes one at least."""
        if count > len(self._data) - self._place:
            raise BadFooter("more values than bytes")
        return count

    def _integer(self) -> int:
        """A number in zigzag order."""
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)

    def _unsigned(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise BadFooter("a number of more than 64 bits")
        return value | byte << shift

    def _byte(self) -> int:
        if self._place >= len(self._data):
            raise BadFooter("cut off")
        self._place += 1
        return self._data[self._place - 1]

    def _bytes(self, count: int) -> bytes:
        if count > len(self._data) - self._place:
            raise BadFooter("cut off")
        self._place += count
        return self._data[self._place - count : self._place]
