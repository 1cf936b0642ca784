"""Memory that one token used is kept for the next.

A token of an ensemble takes some megabytes and frees them again. The GNU C library gives such blocks back to the
system and gets them anew for the next token, zeroed page by page, which costs more than mixing does. Raising two
thresholds of its allocator (mallopt(3): M_TRIM_THRESHOLD, M_MMAP_THRESHOLD) keeps them, for the main heap alone: a
thread's own heap is given back whenever it is empty, so threads, too, take from the main one (M_ARENA_MAX).
Elsewhere this does nothing. It concerns the whole process, and threads that start after it, so applications call
it, early, not the library.
"""

import ctypes
import sys
from typing import Final

_KEPT: Final = 256 * 2**20  # bytes at the top of the heap that are not given back
_LARGEST: Final = 32 * 2**20  # the greatest block that comes from the heap: the library's own limit
_WANTED: Final = ((-1, _KEPT), (-3, _LARGEST), (-8, 1))  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX


def keep_freed_memory() -> bool:
    """Let the C library keep what is freed; whether it was told so."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        adjust = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return False
    return all(adjust(name, value) for name, value in _WANTED)
