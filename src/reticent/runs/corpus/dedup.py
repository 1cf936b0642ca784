"""A corpus without texts that repeat, exactly or nearly, an earlier one."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from reticent.core.document import JsonObject, fields_to_json
from reticent.core.errors import ConfigError, DataError
from reticent.data.duplicates.near import Sign, Signatures, near_repeats, signatures
from reticent.data.duplicates.repeats import Marks, repeated_texts, unmarked
from reticent.engine.work import Engine, Piece, Told, gather, open_engine
from reticent.runs.corpus.places import require_free
from reticent.runs.progress import Track, untracked
from reticent.runs.settings.declaration import option
from reticent.runs.settings.shared import CorpusOptions, EngineOptions, Shown

if TYPE_CHECKING:
    from reticent.data.reading.corpus_file import CorpusFile

_AHEAD: Final = 8  # batches for each worker between two moments at which all wait for the last


class DedupSettings(CorpusOptions, EngineOptions, Shown):
    """Everything that `reticent dedup` can be asked for."""

    file: Path = option("Corpus to deduplicate. It is not changed.", positional=True, metavar="FILE")
    out: Path = option("Deduplicated corpus to write.", metavar="FILE")
    near: float | None = option(
        "Also drop near duplicates: texts whose similarity to an earlier text is at least this, such as 0.8.",
        default=None,
        metavar="SHARE",
    )

    def check(self) -> None:
        """Refuse a similarity that is none."""
        if self.near is not None and not 0.0 < self.near <= 1.0:
            expected = "a number above 0, at most 1"
            raise ConfigError("--near is a share of shingles", found=self.near, expected=expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicated(JsonObject):
    """How many records were kept, and why the others were dropped."""

    schema_version: ClassVar = 1
    corpus: Path
    records: int
    kept: int
    repeated: int
    near: float | None

    @property
    def nearly_repeated(self) -> int:
        """Records that were dropped though no earlier text equals theirs."""
        return self.records - self.kept - self.repeated

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        return fields_to_json(self, nearly_repeated=self.nearly_repeated)


def dedup(settings: DedupSettings, *, track: Track = untracked) -> Deduplicated:
    """Write the corpus with the first of equal texts; with `near`, of similar ones too."""
    from reticent.data.writing import write_corpus

    out = settings.out
    require_free(out, corpus=settings.file)
    if not out.parent.is_dir():
        raise DataError("no such folder", path=out.parent)
    corpus = settings.corpus(settings.file)
    # Digests and signatures stand beside the result, where there is room for a corpus, readable by nobody else.
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder:
        marks, exact = _marks(corpus, Path(folder), settings=settings, track=track)
    kept = write_corpus(unmarked(track(corpus, "writing", len(marks)), marks), out)
    return Deduplicated(corpus=out, records=len(marks), kept=kept, repeated=exact, near=settings.near)


def _marks(corpus: "CorpusFile", folder: Path, *, settings: DedupSettings, track: Track) -> tuple[Marks, int]:
    """Which records go, and how many of them are exact repeats."""
    marks = repeated_texts(track(corpus, "reading"), folder)
    exact, engine = int(marks.sum()), settings.engine_settings
    if settings.near is not None:
        with ExitStack() as stack:
            opened = None if engine is None else stack.enter_context(open_engine(engine))
            left = unmarked(track(corpus, "comparing", len(marks)), marks)
            alike = near_repeats(left, folder, threshold=settings.near, sign=signed_by(opened))
        marks[~marks] = alike  # [records that were left]
    return marks, exact


def signed_by(engine: Engine | None) -> Sign:
    """What `near_repeats` computes signatures by: this process, or the engine."""
    if engine is None:
        return lambda batches: map(signatures, batches)
    chosen = engine

    def sign(batches: Iterator[list[str]]) -> Iterable[Signatures]:
        while block := list(islice(batches, _AHEAD * chosen.workers)):
            pieces = [Piece(f"texts-{number}", batch) for number, batch in enumerate(block)]
            yield from gather(pieces, sign_piece, engine=chosen)

    return sign


def sign_piece(texts: list[str], told: Told) -> Signatures:
    """In a worker: the signatures of one batch."""
    found = signatures(texts)
    told(len(texts))
    return found
