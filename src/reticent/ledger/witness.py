"""The witness: a file beside the ledger that remembers how far the chain had come, and is its write lock.

A chain cannot see by itself that its end was cut off: an older copy of the database is a perfect ledger. The
witness holds sequence and digest of the last charge, written after each commit. A database ahead of it is what a
crash between commit and witness leaves; a database behind it was rolled back. The write is seen by every process at
once and outlives any of them; it is synced to the disk at most once a second and on close, since the charge itself
is already durable: a power failure may leave the witness a second behind, which a crash may do anyway.

Two slots are written in turn, each with a checksum, so a torn write leaves the other one to read. Whoever appends
holds an exclusive `flock` on this file from before the budget is looked at until the witness is written. The kernel
drops the lock when its holder dies.

Needs POSIX and a local file system. Cannot see that ledger and witness were rolled back together: keep the witness
out of whatever restores the database, or keep the receipts that `charge` returned elsewhere and ask `holds`.
"""

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reticent.core.document import sync
from reticent.core.errors import LedgerError
from reticent.core.ledger import Receipt

_SLOT = 128  # bytes; both slots lie in one sector of 512
_LONGEST_PAUSE = 0.002  # seconds between two tries for the lock
_SYNC_INTERVAL = 1.0  # seconds that a power failure may set the witness back


class Witness:
    """The open witness file of one ledger."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._inode = os.fstat(descriptor).st_ino
        self._newest = 0
        self._synced = -_SYNC_INTERVAL

    @classmethod
    def create(cls, path: Path, head: Receipt) -> None:
        """Write a new witness; LedgerError if there is one."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(descriptor, _encode(head) + b" " * _SLOT, 0)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            sync(path.parent)
        except FileExistsError as error:
            raise LedgerError(
                f"{path}: there is a witness, so a ledger was here",
                hint="restore that ledger; remove the witness only if nothing was ever charged to it",
            ) from error
        except OSError as error:
            raise _unwritable(path, error) from error

    @classmethod
    @contextmanager
    def made(cls, path: Path, head: Receipt) -> Iterator[None]:
        """A new witness, removed again where its ledger cannot be made."""
        cls.create(path, head)
        try:
            yield
        except LedgerError:
            path.unlink(missing_ok=True)
            raise

    @classmethod
    def open(cls, path: Path) -> "Witness":
        """The witness of an existing ledger; LedgerError if it is missing, unwritable or unreadable."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise LedgerError(
                f"{path}: the ledger's witness is missing, so a roll-back could not be seen",
                hint="restore the file; if nothing was released since the last row: reticent ledger reanchor RUN",
            ) from error
        except OSError as error:
            raise _unwritable(path, error) from error
        witness = cls(path, descriptor)
        try:
            witness.read()
        except LedgerError:
            witness.close()
            raise
        return witness

    @contextmanager
    def locked(self, timeout: float) -> Iterator[None]:
        """Hold the exclusive lock of all processes that append to this ledger."""
        deadline = time.monotonic() + timeout
        pause = 0.0001
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise LedgerError(
                        f"{self.path}: another process held the ledger's lock for {timeout:g} s",
                        hint="look for a stopped process that has this file open",
                    ) from None
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            except OSError as error:
                raise _unwritable(self.path, error) from error
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def read(self) -> Receipt:
        """The furthest place that was witnessed; LedgerError if neither slot is whole."""
        try:
            content = os.pread(self._descriptor, 2 * _SLOT, 0)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        slots = [(index, _decode(content[index * _SLOT : (index + 1) * _SLOT])) for index in (0, 1)]
        whole = [(index, receipt) for index, receipt in slots if receipt is not None]
        if not whole:
            raise LedgerError(
                f"{self.path}: the ledger's witness is damaged",
                hint="restore the file; if nothing was released since the last row: reticent ledger reanchor RUN",
            )
        self._newest, newest = max(whole, key=lambda slot: slot[1].sequence)
        return newest

    def write(self, head: Receipt) -> None:
        """Move on to `head`, over the older slot. Only under `locked`, and after `read` under the same lock."""
        try:
            os.pwrite(self._descriptor, _encode(head), (1 - self._newest) * _SLOT)
            if time.monotonic() - self._synced >= _SYNC_INTERVAL:
                os.fdatasync(self._descriptor)
                self._synced = time.monotonic()
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def is_in_place(self) -> bool:
        """Whether the path still names the file that is open: a lock on a replaced file excludes nobody."""
        try:
            return self.path.stat().st_ino == self._inode
        except OSError:
            return False

    def close(self) -> None:
        """Sync and close the file; twice is harmless."""
        if self._descriptor >= 0:
            with suppress(OSError):  # what it says is checked on opening, so a failed sync loses nothing more
                os.fdatasync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1  # a number that no later file can get


def _encode(receipt: Receipt) -> bytes:
    text = f"{receipt.sequence:020d} {receipt.digest}".encode("ascii")
    return (text + b" " + _checksum(text)).ljust(_SLOT - 1) + b"\n"


def _decode(slot: bytes) -> Receipt | None:
    fields = slot.split()
    if len(fields) != 3 or _checksum(b" ".join(fields[:2])) != fields[2]:
        return None
    return Receipt(int(fields[0]), fields[1].decode("ascii"))


def _checksum(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=8, person=b"reticent witness").hexdigest().encode("ascii")


def _unwritable(path: Path, error: OSError) -> LedgerError:
    return LedgerError(
        f"{path}: the ledger's witness cannot be used",
        found=error.strerror or type(error).__name__,
        expected="a file that can be read and written",
        hint="nothing may be released until charges are durable again",
    )
