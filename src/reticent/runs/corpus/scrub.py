"""A corpus with sensitive spans replaced by masks, types or consistent fakes."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from reticent.core.document import object_to_json
from reticent.core.errors import ConfigError, DataError
from reticent.data.reading.formats import Format
from reticent.data.redaction.scrubbing import Replace
from reticent.runs.corpus.places import require_apart, require_free
from reticent.runs.corpus.scan import FindingSpans
from reticent.runs.policies.by_name import DEFAULT_POLICY, POLICY_HELP, policy_named
from reticent.runs.progress import Track, untracked
from reticent.runs.settings.declaration import option
from reticent.runs.settings.shared import CorpusOptions, EngineOptions, PatternOptions, Shown

if TYPE_CHECKING:
    from reticent.core.model import LanguageModel
    from reticent.data.reading.corpus_file import CorpusFile
    from reticent.data.redaction.linkage import Linkage
    from reticent.data.redaction.rows import ScrubbedRow, Treatment
    from reticent.data.redaction.scrubbing import ScrubTally

_LINKED: Final = 5_000  # records among which owners are looked for


class ScrubSettings(FindingSpans, PatternOptions, CorpusOptions, EngineOptions, Shown):
    """Everything that `reticent scrub` can be asked for."""

    file: Path = option("Corpus to scrub. It is not changed.", positional=True, metavar="FILE")
    out: Path = option("Scrubbed corpus to write.", metavar="FILE")
    policy: str = option(
        f"Policy that finds sensitive spans: {POLICY_HELP}", default=DEFAULT_POLICY, metavar="NAME"
    )
    replace: Replace = option("Replace each span with a mask, its type, or a made-up value.", default=Replace.MASK)
    key: Path | None = option(
        "Key file: the same key gives the same pseudonyms and made-up values, and texts that were already scrubbed "
        "under it are left as they are. Created if missing.",
        default=None,
        metavar="FILE",
    )
    keep: tuple[str, ...] = option(
        "Path of a field to leave unchanged, such as meta.category. Repeatable.", default=(), metavar="PATH"
    )
    ids: tuple[str, ...] = option(
        "Path of another field that holds an id or account; it is replaced with a pseudonym. Repeatable.",
        default=(),
        flag="--id",
        metavar="PATH",
    )
    keep_ids: bool = option("Leave ids and owners unchanged.", default=False)
    linkage: bool = option(
        "Also measure how many scrubbed records can be linked to their owner by their remaining text, given "
        "other records of that owner.",
        default=False,
    )
    linkage_model: str | None = option(
        "Model that ranks the owners for --linkage by the likelihood of a record after their other records: a "
        "directory or a hub id. Without one, words in common decide.",
        default=None,
        metavar="MODEL",
    )
    offsets: Path | None = option(
        "JSONL file to write scrubbed and original offsets to.", default=None, metavar="FILE"
    )

    def check(self) -> None:
        """Refuse a key for what needs none."""
        if self.key is not None and self.keep_ids and self.replace is not Replace.FAKE:
            raise ConfigError("--key is for pseudonyms and fakes", hint="leave out --key or --keep-ids")
        if self.linkage_model is not None and not self.linkage:
            raise ConfigError("--linkage-model is for --linkage", hint="add --linkage, or leave it out")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubResult:
    """What was replaced, counted by type; no value is kept."""

    tally: "ScrubTally"
    policy: str
    replace: Replace
    corpus: Path
    linkage: "Linkage | None" = None
    new_key: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        about = {"policy": self.policy, "replace": self.replace, "corpus": self.corpus}
        found = {} if self.linkage is None else {"linkage": self.linkage}
        return object_to_json(self.tally.to_json() | about | found)


def scrub(settings: ScrubSettings, *, track: Track = untracked) -> ScrubResult:
    """Write the corpus with its sensitive spans replaced and all of its fields kept."""
    from reticent.data.policies.span_cache import SpanCache
    from reticent.data.redaction.rows import RowScrubber, Treatment
    from reticent.data.redaction.scrub_key import ScrubKey
    from reticent.data.redaction.scrubbing import Scrubber
    from reticent.data.writing import replaced, write_rows
    from reticent.engine.policy import policies_in

    out, offsets, cache = settings.out, settings.offsets, settings.cache
    corpus = settings.corpus(settings.file)
    chosen = policy_named(settings.policy_with_patterns(settings.policy))
    model = _model(settings.linkage_model)
    require_apart(out, offsets, settings.key, names="--out, --offsets and --key")
    require_free(out, offsets, corpus=settings.file)
    # The whole corpus is read, and so checked, before anything is written.
    columns: dict[str, None] = {}
    size = 0
    for row, _ in track(corpus.rows(whole=True), "checking"):
        columns |= dict.fromkeys(row.values)
        size += 1
    new_key = None if settings.key is None or settings.key.exists() else settings.key
    key = ScrubKey() if settings.key is None else ScrubKey.read(settings.key)
    treatment = Treatment(
        fields=corpus.fields, keep=frozenset(settings.keep), ids=frozenset(settings.ids), keep_ids=settings.keep_ids
    )
    with ExitStack() as stack:
        side = None if offsets is None else stack.enter_context(replaced(offsets, overwrite=False))
        asked = settings.engine_settings
        (finder,) = stack.enter_context(policies_in(asked, [chosen], processes=settings.processes))
        if cache is not None:
            finder = stack.enter_context(closing(SpanCache(finder, cache)))
        fakes = key.fakes if settings.replace is Replace.FAKE else None
        scrubber = Scrubber(finder, replace=settings.replace, fakes=fakes)
        rows = track(corpus.rows(whole=True), "scrubbing", size)
        stream = RowScrubber(scrubber, key, treatment=treatment).scrub(rows)
        kept: list[str] = []
        if settings.linkage:
            stream = _copied(stream, kept)
        write_rows(_written(stream, side), out, columns=list(columns), schema=_schema(corpus, treatment))
    if settings.key is not None:
        key.save(settings.key)
    return ScrubResult(
        tally=scrubber.tally,
        policy=chosen.name,
        replace=settings.replace,
        corpus=out,
        linkage=_linkage(corpus, kept, model) if settings.linkage else None,
        new_key=new_key,
    )


def _written(stream: "Iterator[ScrubbedRow]", side: BinaryIO | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """The scrubbed rows; their offsets go to `side` on the way."""
    for scrubbed in stream:
        if side is not None:
            side.write(json.dumps(scrubbed.offsets_to_json(), ensure_ascii=False).encode() + b"\n")
        yield scrubbed.redaction.text, scrubbed.values


def _copied(stream: "Iterator[ScrubbedRow]", kept: list[str]) -> "Iterator[ScrubbedRow]":
    """The scrubbed rows; the texts of the first go to `kept`."""
    for scrubbed in stream:
        if len(kept) < _LINKED:
            kept.append(scrubbed.redaction.text)
        yield scrubbed


def _model(source: str | None) -> "LanguageModel | None":
    """The model that links; it is loaded before anything is written."""
    if source is None:
        return None
    from reticent.models.huggingface.loading import load_model  # loads torch
    from reticent.runs.audit.subject import find_model

    return load_model(find_model(source).source, name=source)


def _linkage(corpus: "CorpusFile", scrubbed: list[str], model: "LanguageModel | None") -> "Linkage | None":
    """How many of the scrubbed texts are linked to their owners; the records are read once more."""
    from reticent.core.randomness import Randomness
    from reticent.data.redaction.linkage import link

    records = list(islice(corpus, len(scrubbed)))
    found = link(
        [record.owner for record in records],
        [record.text for record in records],
        scrubbed,
        randomness=Randomness.seeded(0).child("linkage"),
        model=model,
    )
    if found is None:
        hint = "name the field that holds the owner with --owner-field"
        raise DataError("--linkage needs two owners with two records each", path=corpus.path, hint=hint)
    return found


def _schema(corpus: "CorpusFile", treatment: "Treatment") -> Any:
    """The types of the table that is read; None where it is none."""
    if corpus.format not in (Format.PARQUET, Format.DATASET):
        return None
    from reticent.data.reading.tables import table_schema
    from reticent.data.writing import retyped

    return retyped(table_schema(corpus.path), treatment.is_id)
