"""A ledger of a corpus: every release that was made of it, by any run, and what they prove together.

    reticent train … --corpus-ledger mails.ledger      writes a line before the run trains
    reticent ledger corpus mails.ledger                what was released, and the sum

Whoever sees two models of one text knows more than either promises. Every line of a ledger counts as the same text,
also where a corpus has grown: that can only overstate. Lines are linked by digests, written under a lock and synced
before anything is trained; a line that is cut off or edited is refused. What is not entered here is not counted.
Whole lines that are removed at the end are not missed: the guarantee of all releases assumes that none was.
"""

import datetime
import fcntl
import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from reticent.accounting.curve import leaves
from reticent.accounting.derivation import composed
from reticent.accounting.guarantees import guarantee_of
from reticent.core.document import MALFORMED, as_json, check_schema
from reticent.core.errors import LedgerError
from reticent.core.event import Composed, Event, Round
from reticent.core.guarantee import Guarantee, Neighbours, Notion, Unit
from reticent.core.printing.numbers import counted
from reticent.runs.proofs.ancestry import Ancestor
from reticent.runs.proofs.certificates import stated

SCHEMA_VERSION: Final = 1
_ROOT: Final = "reticent corpus ledger"


@dataclass(frozen=True, slots=True)
class Entry:
    """One release of the corpus: when, by which run, and what it proves by itself (None: it was made plainly).

    `training` tells trainings of one name apart (`ancestry.Ancestor.identity`).
    """

    time: str
    run: str
    guarantee: Guarantee | None
    training: str | None = None


class CorpusLedger:
    """The ledger in a file; made with its first entry."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self) -> tuple[Entry, ...]:
        """Every release so far; LedgerError where a line was edited or lost."""
        if not self.path.exists():
            return ()
        return tuple(entry for entry, _ in self._lines(self.path.read_bytes()))

    def unlisted(self, earlier: Iterable[Ancestor]) -> tuple[Entry, ...]:
        """Those of the trainings behind a starting model, on the same text, that are not entered here."""
        listed = {entry.training for entry in self.entries()} - {None}
        return tuple(
            Entry("", run.name, run.guarantee, run.identity) for run in earlier if run.identity not in listed
        )

    def enter(self, run: str, guarantee: Guarantee | None, *, training: str | None = None) -> tuple[Entry, ...]:
        """Add a release, durably, and return all of them; call it before anything is released."""
        with self._locked() as file:
            lines = list(self._lines(file.read()))
            time = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            entry = Entry(time, run, guarantee, training)
            content = {
                "schema_version": SCHEMA_VERSION,
                "time": entry.time,
                "run": entry.run,
                "training": entry.training,
                "guarantee": as_json(guarantee),
                "before": lines[-1][1] if lines else _digest(_ROOT),
            }
            text = json.dumps(content, ensure_ascii=False, allow_nan=False)
            file.write((json.dumps({"entry": content, "digest": _digest(text)}) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
        return (*(known for known, _ in lines), entry)

    @contextmanager
    def _locked(self) -> Iterator[Any]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LedgerError(f"{self.path}: the corpus ledger cannot be written", found=error.strerror) from None
        with os.fdopen(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed, or its holder dies
            yield file

    def _lines(self, content: bytes) -> Iterator[tuple[Entry, str]]:
        before = _digest(_ROOT)
        if content and not content.endswith(b"\n"):
            raise LedgerError(f"{self.path}: the last line is cut off", hint="restore the file from a copy")
        for number, line in enumerate(content.splitlines(), start=1):
            try:
                document = json.loads(line)
                entry, digest = document["entry"], document["digest"]
                is_whole = _digest(json.dumps(entry, ensure_ascii=False, allow_nan=False)) == digest
                if not is_whole or entry["before"] != before:
                    raise ValueError("edited")
                check_schema(entry, SCHEMA_VERSION, kind="corpus ledger")
                time, run, proved = str(entry["time"]), str(entry["run"]), entry["guarantee"]
            except MALFORMED:
                raise LedgerError(
                    f"{self.path}:{number}: this line was edited, or one before it is missing",
                    hint="restore the file from a copy: releases that it does not list would not be counted",
                ) from None
            where = f"{self.path}:{number}"
            guarantee = None if proved is None else stated(proved, where=where)
            yield Entry(time, run, guarantee, entry.get("training")), digest
            before = digest


def all_together(entries: tuple[Entry, ...], guarantee: Guarantee) -> Guarantee:
    """What every release of a corpus proves together, for the unit and δ of `guarantee`.

    Guarantee: the events of all trainings composed and priced as one, and ε and δ of private answers added to it
    (`composed`); all for replacing one where any of them speaks of that. ε = ∞ where one was made plainly, protects
    another unit or gives another kind of promise: then nothing is proved of them together. The same where
    several protect parts: a part of one ensemble is no part of another, whose split is its own.
    """
    count = f"{counted(len(entries), 'release')} of this corpus" + (" together" if len(entries) > 1 else "")
    proved = [entry.guarantee for entry in entries if entry.guarantee is not None]
    if len(proved) < len(entries) or not all(_adds_up(each, guarantee) for each in proved):
        return _nothing(guarantee, f"{count}: one was made plainly, or protects something else")
    if len(entries) > 1 and guarantee.unit is Unit.PART:
        return _nothing(
            guarantee, f"{count}: ensembles are split differently, so that their parts are not the same"
        )
    is_replaced = any(each.neighbours is not Neighbours.ADD_REMOVE for each in proved)
    neighbours = Neighbours.REPLACE if is_replaced else Neighbours.ADD_REMOVE
    trainings = [each.basis.event for each in proved if each.basis is not None and _is_training(each.basis.event)]
    answers = tuple(each for each in proved if each.basis is not None and not _is_training(each.basis.event))
    if any(each.neighbours is not neighbours for each in answers):
        return _nothing(guarantee, f"{count}: answers of an ensemble were priced for other neighbours")
    if trainings:
        event = Composed(tuple(trainings))
        whole = guarantee_of(event, delta=guarantee.delta, unit=guarantee.unit, neighbours=neighbours)
    else:
        whole, *others = answers
        answers = tuple(others)
    rests_on = dict.fromkeys(line for each in proved for line in each.assumes)
    return replace(
        composed(whole, answers),
        mechanism="all releases of this corpus",
        covers=f"{count}, against whoever sees {'them all' if len(entries) > 1 else 'it'}",
        assumes=(
            *rests_on,
            "every release of this corpus is listed in its ledger, and no last line was removed from it",
        ),
    )


def _nothing(guarantee: Guarantee, why: str) -> Guarantee:
    """Releases of which nothing is proved together."""
    return Guarantee(
        mechanism="all releases of this corpus",
        notion=guarantee.notion,
        unit=guarantee.unit,
        neighbours=guarantee.neighbours,
        epsilon=math.inf,
        covers=why,
    )


def _adds_up(entry: Guarantee, guarantee: Guarantee) -> bool:
    """Whether a release speaks of the same unit in the same terms."""
    is_dp = entry.notion is guarantee.notion is Notion.DIFFERENTIAL_PRIVACY and entry.order is None
    return is_dp and entry.unit is guarantee.unit and entry.basis is not None and not entry.basis.earlier


def _is_training(event: Event) -> bool:
    """Whether an event can be priced for any neighbours, as noisy sums can."""
    return all(isinstance(leaf, Round) for leaf, _ in leaves(event))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf8", errors="surrogatepass"), digest_size=32).hexdigest()
