"""What a private run proves of each of its records by itself (`accounting.individual`).

    RUN/individual.json    by id: ε of the record, how many records have its text, ε of the text with all of them

The file is the operator's (mode 0600): each number follows from the record that it is about.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from reticent.core.document import (
    MALFORMED,
    check_schema,
    number_from_json,
    number_to_json,
    read_document,
    write_document,
)
from reticent.core.errors import ConfigError

SCHEMA_VERSION: Final = 1
FILE: Final = "individual.json"
STATEMENT: Final = (
    "Where epsilon is below that of everyone: with chance 1 - delta over the training, all that it released is at "
    "most e^epsilon times as likely with the record as without it, and the reverse. Elsewhere: (epsilon, delta)-"
    "differential privacy. Depends on the record: private."
)


@dataclass(frozen=True, slots=True)
class IndividualBound:
    """ε of a record, and of its text with all `copies` of it."""

    epsilon: float
    copies: int
    of_text: float

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0.0 and self.of_text >= 0.0 and self.copies >= 1):
            raise ValueError("a bound is at least 0, of at least one record")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IndividualBounds:
    """The bounds of a run's records by id, at `delta`; `epsilon` holds for every record."""

    delta: float
    epsilon: float
    records: dict[str, IndividualBound]

    def __post_init__(self) -> None:
        if not 0.0 < self.delta < 1.0:
            raise ValueError("delta is in (0, 1)")

    def __repr__(self) -> str:
        return f"IndividualBounds({len(self.records)} records)"

    @property
    def fingerprint(self) -> str:
        """Of all bounds."""
        return hashlib.blake2b(json.dumps(self._document(), sort_keys=True).encode(), digest_size=16).hexdigest()

    def quantiles(self, *shares: float) -> list[float]:
        """The ε that these shares of the records do not pass."""
        values = np.array([each.epsilon for each in self.records.values()])
        return [float(np.quantile(values, share, method="higher")) for share in shares]

    def write(self, folder: Path) -> None:
        """The file, readable by its owner alone."""
        write_document(folder / FILE, self._document(), mode=0o600)

    @classmethod
    def read(cls, folder: Path) -> "IndividualBounds | None":
        """What `write` wrote; None where there is nothing."""
        if not (folder / FILE).is_file():
            return None
        document: dict[str, Any] = read_document(folder / FILE)
        check_schema(document, SCHEMA_VERSION, kind="bounds of single records")
        try:
            records = {
                str(name): IndividualBound(number_from_json(epsilon), int(copies), number_from_json(of_text))
                for name, (epsilon, copies, of_text) in document["records"].items()
            }
            return cls(number_from_json(document["delta"]), number_from_json(document["epsilon"]), records)
        except MALFORMED:
            raise ConfigError(
                f"{folder / FILE}: not the bounds of single records", hint="restore the file, or remove it"
            ) from None

    def _document(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "statement": STATEMENT,
            "delta": self.delta,
            "epsilon": self.epsilon,
            "records": {
                name: [number_to_json(each.epsilon), each.copies, number_to_json(each.of_text)]
                for name, each in self.records.items()
            },
        }
