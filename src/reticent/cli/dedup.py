"""`reticent dedup`: a corpus without texts that repeat, exactly or nearly, an earlier one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reticent.cli.console import Output
from reticent.cli.options import (
    AsJson,
    CorpusFormat,
    EngineChoice,
    IdField,
    OwnerField,
    RayAddress,
    SkipEmpty,
    TextField,
    Workers,
    engine_of,
)
from reticent.runs.corpora import corpus_at

if TYPE_CHECKING:
    from reticent.data.duplicates.repeats import Marks
    from reticent.data.reading.corpus_file import CorpusFile
    from reticent.engine.work import EngineSettings

SCHEMA_VERSION = 1


def dedup(
    file: Annotated[Path, typer.Argument(help="Corpus to deduplicate; it is not changed.")],
    out: Annotated[Path, typer.Option("--out", help="Where to write what is left.", metavar="FILE")],
    near: Annotated[
        float | None,
        typer.Option(
            "--near",
            help="Also drop texts whose similarity to an earlier one is at least this (0.8, say).",
            metavar="SHARE",
        ),
    ] = None,
    text_field: TextField = "text",
    id_field: IdField = "id",
    owner_field: OwnerField = "owner",
    format: CorpusFormat = None,
    skip_empty: SkipEmpty = False,
    engine: EngineChoice = None,
    workers: Workers = None,
    ray_address: RayAddress = None,
    as_json: AsJson = False,
) -> None:
    """Keep the first of equal texts; with --near, of alike ones too. Scrub before: then equal masks are equal."""
    import tempfile

    from reticent.core.errors import ConfigError, DataError
    from reticent.data.duplicates.repeats import unmarked
    from reticent.data.writing import write_corpus

    output = Output(as_json=as_json)
    if near is not None and not 0.0 < near <= 1.0:
        raise ConfigError("--near is a share of shingles", found=near, expected="a number above 0, at most 1")
    if out.exists():
        raise DataError("already exists", path=out, hint="choose another name, or remove it first")
    if not out.parent.is_dir():
        raise DataError("no such folder", path=out.parent)
    corpus = corpus_at(file, text=text_field, id=id_field, owner=owner_field, format=format, skip_empty=skip_empty)
    asked = engine_of(engine, workers, ray_address)
    # Digests and signatures stand beside the result, where there is room for a corpus, readable by nobody else.
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder:
        marks, exact = _marks(corpus, Path(folder), near=near, engine=asked, output=output)
    kept = write_corpus(unmarked(output.track(corpus, "writing", len(marks)), marks), out)
    dropped = len(marks) - kept
    document = {"schema_version": SCHEMA_VERSION, "corpus": str(out), "records": len(marks), "kept": kept}
    output.document(document | {"repeated": exact, "near": near, "nearly_repeated": dropped - exact})
    lines = [f"{out}: {kept:,} of {len(marks):,} records; {exact:,} repeated an earlier text."]
    if near is not None:
        lines += [
            f"{dropped - exact:,} more were alike to an earlier one (similarity {near:g} or more, estimated).",
            "Which of them stays depends on the others: no confidentiality guarantee survives --near.",
        ]
    output.show(*lines)


def _marks(
    corpus: "CorpusFile", folder: Path, *, near: float | None, engine: "EngineSettings | None", output: Output
) -> "tuple[Marks, int]":
    """Which records go, and how many of them are exact repeats."""
    from contextlib import ExitStack

    from reticent.data.duplicates.near import near_repeats
    from reticent.data.duplicates.repeats import repeated_texts, unmarked
    from reticent.engine.signatures import signed_by
    from reticent.engine.work import open_engine

    marks = repeated_texts(output.track(corpus, "reading"), folder)
    exact = int(marks.sum())
    if near is not None:
        with ExitStack() as stack:
            opened = None if engine is None else stack.enter_context(open_engine(engine))
            left = unmarked(output.track(corpus, "comparing", len(marks)), marks)
            alike = near_repeats(left, folder, threshold=near, sign=signed_by(opened))
        marks[~marks] = alike  # [records that were left]
    return marks, exact
