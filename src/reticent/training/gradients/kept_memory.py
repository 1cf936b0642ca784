"""Freed memory that stays with the process while private gradients are made, instead of going back and forth.

The C library of Linux (glibc) gives memory back to the system when more than some 128 KB at the end of its heap are
free, and maps new pages for every block of more than 32 MB. A private step frees and needs again some hundred
megabytes, and a new page costs far more than what is written to it: 41 MB took 27 ms to fill in new pages and 3 ms
in old ones, on a virtual machine. So larger blocks come from the heap, and up to 64 MB stay free at its end. More
would cost memory: what the heap keeps has no other use while a block is made that is too large for it (the logits
of a vocabulary of 32,000 tokens), and raised the peak of such a model by an eighth.

Speed alone depends on it. Under another C library nothing is done.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Final

_TRIM_THRESHOLD: Final = -1  # free memory at the end of the heap above which it is given back
_MMAP_THRESHOLD: Final = -3  # blocks above this have pages of their own, which are given back when they are freed
_MOST_KEPT: Final = 64 << 20  # free at the end of the heap
_LARGEST_KEPT: Final = 128 << 20  # a greater block that is kept finds no other use, and would only raise the peak
_USUAL: Final = 32 << 20  # where glibc's own thresholds end up in a process that frees large blocks
_holders = 0


def keep_freed_memory() -> None:
    """From here on freed memory stays with the process, until as many calls of `give_back` as of this one."""
    global _holders
    _holders += 1
    if _holders == 1:
        _set(_LARGEST_KEPT, _MOST_KEPT)


def give_back() -> None:
    """One holder fewer; after the last one free memory goes back to the system, now and in future."""
    global _holders
    if not _holders:
        raise ValueError("no memory is kept")
    _holders -= 1
    if not _holders and _set(_USUAL, 2 * _USUAL):
        ctypes.CDLL(None).malloc_trim(0)


def _set(mmap_threshold: int, trim_threshold: int) -> bool:
    """Both thresholds of glibc; whether they are what was asked for. False under another C library."""
    mallopt = _mallopt()
    if mallopt is None:
        return False
    done = [mallopt(_MMAP_THRESHOLD, mmap_threshold), mallopt(_TRIM_THRESHOLD, trim_threshold)]
    return all(done)


def _mallopt() -> Callable[[int, int], int] | None:
    if sys.platform != "linux" or "CS_GNU_LIBC_VERSION" not in os.confstr_names:
        return None
    try:
        is_glibc = (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except OSError:  # musl knows the name and has no value
        return None
    return ctypes.CDLL(None).mallopt if is_glibc else None
