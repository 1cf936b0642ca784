"""Canaries planted into a corpus, with the key file that names them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from reticent.core.errors import ConfigError, DataError
from reticent.core.ranges import COUNT, Range
from reticent.core.secret import CodeSpace
from reticent.data.canaries import CanaryOwner, make_canaries, plant_stream, write_key
from reticent.data.writing import write_corpus
from reticent.runs.settings.declaration import option
from reticent.runs.settings.shared import CorpusOptions, Seeded, Shown
from reticent.runs.tracking import Track, untracked

SCHEMA_VERSION: Final = 1
_MOST_PLANTED: Final = 10_000_000


class PlantSettings(CorpusOptions, Seeded, Shown):
    """Everything that `reticent plant` can be asked for."""

    file: Path = option("Corpus to plant canaries in. It is not changed.", positional=True, metavar="FILE")
    out: Path = option("Planted corpus to write.", metavar="FILE")
    key: Path = option("Key file to write. It holds the secrets.", metavar="FILE")
    template: str = option("Text of a canary, with {} for its secret.", default="My ID is: {}")
    digits: int = option("Digits of a secret: 3.32 bits each.", default=6, within=Range(1, 60), metavar="N")
    count: int = option("Number of distinct canaries.", default=10, within=COUNT, metavar="N")
    copies: int = option("Copies of each canary.", default=20, within=COUNT, metavar="N")
    owner: CanaryOwner = option("Give every copy, or every canary, an owner of its own.", default=CanaryOwner.COPY)

    def check(self) -> None:
        """Refuse more canaries than any corpus could hold."""
        if self.count * self.copies > _MOST_PLANTED:
            found = f"{self.count * self.copies:,} copies in all"
            raise ConfigError("too many canaries", found=found, expected=f"at most {_MOST_PLANTED:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """What was planted where."""

    size: int  # records before
    records: int  # records after
    canaries: int
    copies: int
    bits: float
    corpus: Path
    key: Path
    randomness: str

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        return {
            "schema_version": SCHEMA_VERSION,
            "records": self.records,
            "planted": self.canaries * self.copies,
            "canaries": self.canaries,
            "copies": self.copies,
            "bits": self.bits,
            "corpus": str(self.corpus),
            "key": str(self.key),
            "randomness": self.randomness,
        }


def plant(settings: PlantSettings, *, track: Track = untracked) -> Planted:
    """Write a corpus with canaries and the key file that names them, which its owner alone can read."""
    randomness = settings.randomness
    space, count, copies = CodeSpace(settings.digits), settings.count, settings.copies
    canaries = make_canaries(settings.template, space, count=count, copies=copies, randomness=randomness)
    corpus = settings.corpus(settings.file)
    for target in (settings.out, settings.key):
        if target.exists():
            raise DataError("already exists", path=target, hint="choose another name, or remove it first")
    # The whole corpus is read, and so checked, before anything is written.
    size = sum(1 for _ in track(corpus, "checking"))
    records = track(corpus, "planting", size)
    stream = plant_stream(records, canaries, size=size, randomness=randomness, owner=settings.owner)
    written = write_corpus(stream, settings.out)
    try:
        write_key(canaries, settings.key)
    except BaseException:
        settings.out.unlink(missing_ok=True)  # a planted corpus without its key is of no use
        raise
    return Planted(
        size=size,
        records=written,
        canaries=count,
        copies=copies,
        bits=canaries[0].bits,
        corpus=settings.out,
        key=settings.key,
        randomness=randomness.kind,
    )
