"""Checkpoints: whole or not there, never pickled, the last two kept.

    checkpoints/step-00000120/
    ├── weights.safetensors      trainable parameters by name
    ├── optimiser.safetensors    the optimiser's state by parameter
    ├── noise.safetensors        noise of the last steps that the next ones are correlated with, for its owner alone
    └── state.json               schema version, step, the source's state (ledger position), digests of both files

A checkpoint is written into a folder of another name, synced, and renamed: after a crash it is complete or it does
not count. Each file's digest is checked before use, so that a damaged disk is an error and not another model.
What is stored of a private run are weights that were released by charged steps, and post-processing of them. The
noise is no such thing: who reads it can take it off the weights. So its owner alone may read it, it stands in the
newest checkpoint alone, and it is gone when the run has ended.

A checkpoint is tied to its ledger by the receipt of the last charge, kept in the one and looked for in the other.
One that is newer than its ledger means that the ledger was rolled back or belongs to another run: steps that it
does not hold would be released twice. What was charged after the checkpoint stays spent.

One process at a time trains a run: `Checkpoints.locked` says so.
"""

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from safetensors.torch import load_file, save
from torch import Tensor

from reticent.core.document import check_schema, read_document, sync, write_atomically, write_document
from reticent.core.errors import ConfigError, LedgerError, UsageError
from reticent.core.ledger import Ledger, Receipt
from reticent.training.optimiser import Learner

SCHEMA_VERSION: Final = 1
KEPT: Final = 2
_NAME: Final = re.compile(r"step-(\d{8})")
_UNFINISHED: Final = ".unfinished-"
_WEIGHTS, _OPTIMISER, _STATE = "weights.safetensors", "optimiser.safetensors", "state.json"
_NOISE: Final = "noise.safetensors"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint on disk."""

    path: Path
    step: int
    source: dict[str, Any]
    digests: dict[str, str]

    def restore(self, learner: Learner) -> None:
        """Put weights and optimiser state into the learner, after checking that the files are what was written."""
        learner.restore(self._tensors(_WEIGHTS), self._tensors(_OPTIMISER))

    def with_noise(self) -> "Checkpoint":
        """The same with the noise of the last steps in its source's state, where there is any."""
        if not (self.path / _NOISE).exists():
            return self
        return replace(self, source=self.source | self._tensors(_NOISE))

    def _tensors(self, name: str) -> dict[str, Tensor]:
        path = self.path / name
        if not path.is_file() or _digest(path.read_bytes()) != self.digests.get(name):
            raise ConfigError(
                f"{path}: not what was written",
                found="a damaged or missing file",
                hint=f"remove {self.path} to go on from the checkpoint before it",
            )
        return load_file(path)


class Learnt(Protocol):
    """What a checkpoint keeps: a `Learner`, or what was taken of one."""

    def weights(self) -> dict[str, Tensor]:
        """The trainable parameters by name."""
        ...

    def optimiser_state(self) -> dict[str, Tensor]:
        """The optimiser's state as named tensors."""
        ...


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run: a second process that wants to train it is refused at once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UsageError(
                    f"{self.folder}: another process is training this run", hint="wait for it, or stop it first"
                ) from None
            yield
        finally:
            os.close(descriptor)  # and with it the lock

    def agree(self, is_due: bool) -> bool:
        """Whether a checkpoint is written now: one process alone decides by its own clock."""
        return is_due

    def save(self, learner: Learnt, *, step: int, source: Mapping[str, Any]) -> Path:
        """Write a checkpoint, whole or not at all, then remove those that are no longer needed."""
        final = self.folder / f"step-{step:08d}"
        if final.exists():  # nothing was learnt since
            return final
        unfinished = self.folder / f"{_UNFINISHED}{step:08d}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        digests = {}
        for name, tensors in ((_WEIGHTS, learner.weights()), (_OPTIMISER, learner.optimiser_state())):
            content = save(tensors)
            digests[name] = _digest(content)
            write_atomically(unfinished / name, content)
        noise = {name: value for name, value in source.items() if isinstance(value, Tensor)}
        if noise:
            content = save(noise)
            digests[_NOISE] = _digest(content)
            write_atomically(unfinished / _NOISE, content, mode=0o600)
        told = {name: value for name, value in source.items() if name not in noise}
        document = {"schema_version": SCHEMA_VERSION, "step": step, "source": told, "digests": digests}
        write_document(unfinished / _STATE, document)
        unfinished.rename(final)
        sync(self.folder)
        self._prune()
        return final

    def latest(self) -> Checkpoint | None:
        """The newest complete checkpoint; unfinished ones are ignored."""
        complete = self._complete()
        if not complete:
            return None
        document = read_document(complete[-1] / _STATE)
        check_schema(document, SCHEMA_VERSION, kind="checkpoint")
        return Checkpoint(complete[-1], document["step"], document["source"], document["digests"]).with_noise()

    def _complete(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if _NAME.fullmatch(path.name) and path.is_dir())

    def _prune(self) -> None:
        for old in self._complete()[:-KEPT]:
            # Renamed first: a crash in the middle of a removal must not leave half a checkpoint under its name.
            doomed = old.rename(old.with_name(_UNFINISHED + old.name))
            shutil.rmtree(doomed, ignore_errors=True)
        for older in self._complete()[:-1]:
            (older / _NOISE).unlink(missing_ok=True)
        for left in self.folder.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left, ignore_errors=True)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def receipt_state(receipt: Receipt | None) -> dict[str, Any]:
    """The ledger's place at the last step, as JSON values for a checkpoint."""
    return {"receipt": None if receipt is None else {"sequence": receipt.sequence, "digest": receipt.digest}}


def restored_receipt(state: dict[str, Any], ledger: Ledger) -> Receipt | None:
    """The receipt that a checkpoint holds, None where nothing was charged before it.

    Guarantee: refused unless this very charge stands in the ledger.
    """
    if state["receipt"] is None:
        return None
    receipt = Receipt(int(state["receipt"]["sequence"]), str(state["receipt"]["digest"]))
    if not ledger.holds(receipt):
        raise LedgerError(
            "the checkpoint is newer than its ledger, which was rolled back or belongs to another run",
            found=f"a checkpoint after charge {receipt.sequence}, which is not in the ledger",
            hint="restore the ledger from where it was; steps it does not hold would be released twice",
        )
    return receipt
