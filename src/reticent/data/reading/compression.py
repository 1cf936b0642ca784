"""Byte streams in and out of compressed files, and UTF-8 lines with their numbers and byte offsets.

The last suffix decides: .gz, .bz2 and .xz through the standard library, .zst and .lz4 through pyarrow. Lines end
with a line feed and nothing else (JSON strings may hold U+2028). A line is at most `LONGEST_LINE` bytes, so that a
file without line ends cannot fill the memory. Offsets count bytes of the decompressed stream.
"""

import bz2
import gzip
import io
import itertools
import lzma
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, cast

from reticent.core.errors import DataError

SUFFIXES = frozenset({".gz", ".bz2", ".xz", ".zst", ".lz4"})
LONGEST_LINE = 64 * 2**20
_PYARROW_CODECS = {".zst": "zstd", ".lz4": "lz4"}


def plain_suffix(path: Path) -> str:
    """The suffix that tells the format: ".jsonl" of "a.jsonl.gz", in lower case."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in SUFFIXES:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def is_compressed(path: Path) -> bool:
    """Whether the last suffix names a compression."""
    return path.suffix.lower() in SUFFIXES


def open_bytes(path: Path) -> AbstractContextManager[BinaryIO]:
    """The file's bytes, decompressed as its last suffix says."""
    try:
        match path.suffix.lower():
            case ".gz":
                stream: object = gzip.GzipFile(path, "rb")
            case ".bz2":
                stream = bz2.BZ2File(path, "rb")
            case ".xz":
                stream = lzma.LZMAFile(path, "rb")  # noqa: SIM115  the caller closes it
            case ".zst" | ".lz4" as suffix:
                import pyarrow  # deferred: costs a tenth of a second

                source = pyarrow.OSFile(str(path), "rb")
                stream = io.BufferedReader(pyarrow.CompressedInputStream(source, _PYARROW_CODECS[suffix]))
            case _:
                stream = path.open("rb")
    except OSError as problem:
        raise unreadable(path, problem) from None
    return cast("AbstractContextManager[BinaryIO]", stream)


def create_bytes(file: BinaryIO, suffix: str) -> BinaryIO:
    """A stream that writes into `file` what it is given, compressed as `suffix` says; close it before `file`."""
    match suffix.lower():
        case ".gz":
            # No name and no time in the header: equal corpora make equal files.
            return cast(BinaryIO, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0))
        case ".bz2":
            return cast(BinaryIO, bz2.BZ2File(file, "wb"))
        case ".xz":
            return cast(BinaryIO, lzma.LZMAFile(file, "wb"))
        case ".zst" | ".lz4" as known:
            import pyarrow

            sink = pyarrow.PythonFile(file, mode="w")
            return cast(BinaryIO, pyarrow.CompressedOutputStream(sink, _PYARROW_CODECS[known]))
        case _:
            return file


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Number (from 1) and text, line end included, of each line; a byte order mark is dropped."""
    with open_bytes(path) as stream:
        offset = 0
        for number in itertools.count(1):
            try:
                raw = stream.readline(LONGEST_LINE + 1)
            except (EOFError, OSError, zlib.error, lzma.LZMAError) as problem:
                raise unreadable(path, problem, line=number) from None
            if not raw:
                return
            if len(raw) > LONGEST_LINE:
                what = f"the line is longer than {LONGEST_LINE} bytes"
                raise DataError(what, path=path, line=number, hint="write one record a line")
            text = decode(raw, path=path, line=number, offset=offset)
            offset += len(raw)
            yield number, text.removeprefix("\ufeff") if number == 1 else text


def decode(raw: bytes, *, path: Path, line: int, offset: int) -> str:
    """Strict UTF-8. `line` and `offset` say where `raw` starts, and the error where the bad byte is."""
    try:
        return raw.decode("utf8")
    except UnicodeDecodeError as problem:
        raise DataError(
            "not UTF-8",
            path=path,
            line=line + raw[: problem.start].count(b"\n"),
            found=f"a bad byte at offset {offset + problem.start}",
            hint="convert the file, for example with: iconv -f latin1 -t utf8",
        ) from None


def unreadable(path: Path, problem: Exception, *, line: int | None = None) -> DataError:
    """The error of a file that cannot be opened, or that breaks off. Says the system's reason, never contents."""
    if isinstance(problem, OSError) and problem.errno is not None and problem.strerror is not None:
        return DataError("cannot be read", path=path, line=line, found=problem.strerror.lower())
    if is_compressed(path):
        return DataError(
            "cannot be decompressed: the file is truncated or damaged, or its suffix is wrong",
            path=path,
            line=line,
            hint="make or copy the file again",
        )
    return DataError("cannot be read", path=path, line=line, found=type(problem).__name__)
