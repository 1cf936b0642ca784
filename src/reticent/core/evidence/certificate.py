"""`guarantee.json`: what was proved, and of which files: a guarantee bound to what was released.

    {… the guarantee, its basis with the event …,
     "released": digest of the weights, the settings and the tokenizer beside which it stands,
     "base":     the same of the model that an adapter belongs to, where that is a folder of its own,
     "ledger":   the place and digest of the last charge that paid for them}

A guarantee that is copied beside other weights, or whose ε is edited, is refused by every reader
(`accounting.derivation` derives ε again). The digest says that the files are those that were written; that they
were *made* as the event says is bound by the ledger alone, and only for whoever has it.
"""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from reticent.core.document import as_json, fields_from_json, read_document, write_document
from reticent.core.errors import GuaranteeError
from reticent.core.guarantee import Guarantee
from reticent.core.ledger import Receipt

GUARANTEE: Final = "guarantee.json"
_CONTENT: Final = (".safetensors", ".json", ".model", ".spm", ".tiktoken", ".jinja")
_VOCABULARY: Final = ("vocab.txt", "merges.txt")
_ADAPTER: Final = "adapter_config.json"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A guarantee with what it is bound to; None where nothing was released yet, or nothing was charged."""

    guarantee: Guarantee
    released: str | None = None
    ledger: Receipt | None = None
    base: str | None = None

    def bound_to(self, folder: Path) -> "Certificate":
        """The same, for the weights in a folder."""
        return replace(self, released=model_digest(folder), base=base_digest(folder))

    def write(self, folder: Path) -> None:
        """Write `guarantee.json` into a folder; it may travel with the weights."""
        bound_to = {"released": self.released, "base": self.base, "ledger": as_json(self.ledger)}
        write_document(folder / GUARANTEE, self.guarantee.to_json() | bound_to, mode=0o644)

    @classmethod
    def read(cls, folder: Path) -> "Certificate":
        """What stands in a folder, as it stands: nothing is checked but its form."""
        document = read_document(folder / GUARANTEE)
        paid, released, base = (document.get(key) for key in ("ledger", "released", "base"))
        receipt = None if paid is None else fields_from_json(Receipt, paid, ignores_others=True)
        if not isinstance(released, str | None) or not isinstance(base, str | None):
            raise TypeError("what was released is named by a digest")
        return cls(Guarantee.from_json(document), released, receipt, base)

    def require_weights(self, folder: Path) -> None:
        """Refuse a guarantee that was not written for the files beside it."""
        found = model_digest(folder)
        if self.released is None or self.released != found:
            raise GuaranteeError(
                f"{folder / GUARANTEE}: this guarantee was not written for the weights beside it",
                found=f"files with digest {found}",
                expected="no weights named in it" if self.released is None else self.released,
                hint="restore the folder as training wrote it; a guarantee never carries over to other files",
            )
        if self.base != (under := base_digest(folder)):
            raise GuaranteeError(
                f"{folder / GUARANTEE}: the base model of this adapter is not the one it was trained on",
                found="no such folder" if under is None else f"files with digest {under}",
                expected=self.base or "a model that is not a folder",
                hint="restore that model: the guarantee holds for the adapter on that model and no other",
            )


def model_digest(folder: Path) -> str:
    """Hash of all weights, settings and tokenizer files in a model's folder, by name and content."""
    running = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if (path.suffix in _CONTENT or path.name in _VOCABULARY) and path.name != GUARANTEE:
            running.update(f"{path.name}\n{path.stat().st_size}\n".encode())
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    running.update(block)
    return running.hexdigest()


def base_digest(folder: Path) -> str | None:
    """Hash of the model that an adapter belongs to; None for a whole model, and where the base is no folder."""
    if not (folder / _ADAPTER).is_file():
        return None
    named = read_document(folder / _ADAPTER).get("base_model_name_or_path")
    if not isinstance(named, str) or not named:
        return None
    beside = folder / named  # looked for first, as when the model is loaded
    base = beside if beside.exists() else Path(named).expanduser()
    return model_digest(base) if base.is_dir() else None
