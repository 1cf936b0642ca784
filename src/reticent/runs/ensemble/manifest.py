"""What an ensemble on disk consists of: `ensemble.json`, one `member.json` a model, and the split's key.

    RUN/  (readable by its owner alone, as everything in it)
    ├── run.json        the configuration, and the notice that nothing here may be published
    ├── ensemble.json   parts, halves, base and its fingerprint, the key's id, every member once it is trained
    ├── split.key       the key by which owners were split; needed to resume, never to predict
    ├── ledger.db       what predictions have spent, bound to the ensemble's fingerprint
    └── members/part-00/   model/ (an adapter or a whole model), and member.json, written last

Counts of owners and fingerprints of shares are private as the texts are.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from reticent.core.document import (
    JsonObject,
    check_schema,
    fields_from_json,
    fields_to_json,
    read_document,
    write_document,
)
from reticent.core.errors import ConfigError, ModelError
from reticent.core.evidence.certificate import GUARANTEE, model_digest
from reticent.runs.directory import MANIFEST

SCHEMA_VERSION: Final = 1
MEMBER: Final = "member.json"
KEY: Final = "split.key"
MEMBERS: Final = "members"
NOTICE: Final = (
    "The members of this ensemble were trained without noise and hold their owners' text. Never publish this folder"
    " or any file in it. What is protected is what `reticent predict` and `reticent serve` release from it, within"
    " the budget of its ledger."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRecord(JsonObject):
    """One trained model: whose records it saw, in counts and fingerprints, and the digest of its weights."""

    schema_version: ClassVar = SCHEMA_VERSION
    name: str
    part: int
    half: int | None
    owners: int
    records: int
    corpus: str
    weights: str
    steps: int

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "MemberRecord":
        """The record that `to_json` wrote."""
        check_schema(document, SCHEMA_VERSION, kind="member of an ensemble")
        return fields_from_json(cls, document)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(JsonObject):
    """An ensemble: how it was split, what it stands on, and its members, all of them once training is finished."""

    parts: int
    halves: bool
    unit: str  # whose records stay together: "owner", or "record" where the corpus names no owners
    base: str
    base_fingerprint: str
    lora_rank: int
    adapter_layers: int
    key_id: str
    is_seeded: bool
    seed: int
    device: str
    corpus: str
    members: tuple[MemberRecord, ...] = ()

    @property
    def part_names(self) -> tuple[str, ...]:
        """Names of the parts: the accounts of the ledger."""
        return tuple(f"part-{part:02d}" for part in range(self.parts))

    @property
    def is_complete(self) -> bool:
        """Whether every member is trained."""
        return len(self.members) == self.parts * (2 if self.halves else 1)

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version and the notice."""
        return {"schema_version": SCHEMA_VERSION, "notice": NOTICE, **fields_to_json(self)}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Manifest":
        """The manifest that `to_json` wrote."""
        check_schema(document, SCHEMA_VERSION, kind="ensemble")
        return fields_from_json(cls, {name: value for name, value in document.items() if name != "notice"})

    @classmethod
    def read(cls, run: Path) -> "Manifest":
        """The manifest of a run; anything else is an error that says what was expected."""
        if not (run / MANIFEST).is_file():
            hint = "make one with: reticent train --method submix"
            if (run / "model" / GUARANTEE).is_file():
                hint = (
                    f"the weights carry the guarantee: sample from {run / 'model'} as you like, or `reticent serve`"
                )
            raise ConfigError(f"{run}: not an ensemble", expected=f"a run directory with {MANIFEST}", hint=hint)
        return cls.from_json(read_document(run / MANIFEST))

    def write(self, run: Path) -> None:
        """Replace the manifest of a run."""
        write_document(run / MANIFEST, self.to_json(), mode=0o600)


def member_folder(run: Path, name: str) -> Path:
    """Where a member stands."""
    return run / MEMBERS / name


def finished_member(run: Path, name: str) -> MemberRecord | None:
    """A member that is trained and whose weights are what was written, else None where it is not trained yet."""
    folder = member_folder(run, name)
    if not (folder / MEMBER).is_file():
        return None
    record = MemberRecord.from_json(read_document(folder / MEMBER))
    if record.name != name or model_digest(folder / "model") != record.weights:
        raise ModelError(
            f"{folder}: not the weights that were written",
            found="a damaged or replaced file",
            hint=f"remove {folder} and resume: the member is trained again",
        )
    return record
