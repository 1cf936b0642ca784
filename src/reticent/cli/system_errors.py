"""Faults of the machine in words: a full disk, a folder that nobody may write to, too little memory.

Python and SQLite say them by a code; safetensors and torch only in the text of their errors, of which the code, or
that it is about memory, is read and nothing is shown. What is no fault of the machine is a bug of ours.
"""

import errno
import os
import re
import sqlite3
from typing import Final

from reticent.core.errors import UsageError

_ROOM: Final = "free some space, or choose a location with more room"
_RIGHT: Final = "choose a location that you can write to, or change its permissions"
_HINTS: Final = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: _ROOM,
    errno.EACCES: _RIGHT,
    errno.EPERM: _RIGHT,
    errno.EROFS: _RIGHT,
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "part of the path is a file: check the path",
    errno.EISDIR: "name a file, not a folder",
    errno.EEXIST: "choose another name, or remove it first",
    errno.ENOTEMPTY: "choose another name, or remove it first",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "close other programs: the system has run out of file handles",
    errno.EIO: "the disk is damaged or was removed: choose another location",
    errno.EADDRINUSE: "choose another port",
    errno.ECONNREFUSED: "check the address, and that a server is listening there",
    errno.ETIMEDOUT: "check the address and the connection",
}
# Codes of a call that made no sense: nothing that whoever runs it can mend.
_OURS: Final = {errno.EBADF, errno.EFAULT, errno.EINVAL, errno.ENOTTY, errno.ESPIPE}
_SQLITE: Final = {
    sqlite3.SQLITE_FULL: ("no space is left", _ROOM),
    sqlite3.SQLITE_IOERR: ("the disk refused to read or write", _ROOM),
    sqlite3.SQLITE_READONLY: ("it cannot be written", _RIGHT),
    sqlite3.SQLITE_PERM: ("it cannot be written", _RIGHT),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", _RIGHT),
    sqlite3.SQLITE_BUSY: ("another process is using it", "wait for that process, or stop it first"),
    sqlite3.SQLITE_LOCKED: ("another process is using it", "wait for that process, or stop it first"),
}
_SYSTEM_CODE: Final = re.compile(r"\(os error (\d+)\)")  # as Rust writes it
_MEMORY: Final = re.compile(r"can't allocate memory|not enough memory|out of memory", re.IGNORECASE)
_TORCH_WRITER: Final = "PytorchStreamWriter failed writing"


def system_error(error: BaseException) -> UsageError | None:
    """What the machine refused and what to do about it; None for an error of another kind."""
    if isinstance(error, MemoryError):
        return _too_little_memory()
    if isinstance(error, OSError):
        return _refused(error)
    if isinstance(error, sqlite3.Error):
        return _database(error)
    if found := _SYSTEM_CODE.search(str(error)):
        return _refused(OSError(int(found[1]), errno.errorcode.get(int(found[1]), "")))
    if isinstance(error, RuntimeError) and _TORCH_WRITER in str(error):
        return _refused(OSError(errno.ENOSPC, ""))
    if isinstance(error, RuntimeError) and _MEMORY.search(str(error)):
        return _too_little_memory()
    return None


def _refused(error: OSError) -> UsageError | None:
    """A call that the operating system refused."""
    if error.errno is None:
        reason = getattr(error, "reason", None)  # of urllib's errors
        return _refused(reason) if isinstance(reason, OSError) else None
    if error.errno in _OURS:
        return None
    place = error.filename2 or error.filename
    where = "" if place is None or isinstance(place, int) else f"{os.fsdecode(place)}: "
    hint = _HINTS.get(error.errno, "try again, or choose another location")
    return UsageError(f"{where}{os.strerror(error.errno).lower()}", hint=hint)


def _database(error: sqlite3.Error) -> UsageError | None:
    code = getattr(error, "sqlite_errorcode", None)
    found = None if code is None else _SQLITE.get(code & 0xFF)  # the rest is detail
    return None if found is None else UsageError(f"a database of this run: {found[0]}", hint=found[1])


def _too_little_memory() -> UsageError:
    return UsageError(
        "there is not enough memory for this",
        hint="ask for less at once (a shorter text, a smaller batch or model), or use a larger machine",
    )
