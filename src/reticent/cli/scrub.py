"""`reticent scrub`: a corpus with sensitive spans replaced, and a count of what was replaced."""

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reticent.cli.console import Output, table
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
from reticent.core.ranges import PROCESSES
from reticent.runs.corpora import corpus_at
from reticent.runs.policies import POLICY_HELP

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from reticent.core.corpus import Record
    from reticent.data.redaction.fakes import Fakes
    from reticent.data.redaction.scrubbing import Scrubbed, ScrubTally

_KEY_BYTES = 32


def scrub(
    file: Annotated[Path, typer.Argument(help="Corpus to scrub; it is not changed.")],
    out: Annotated[Path, typer.Option("--out", help="Where to write the scrubbed corpus.", metavar="FILE")],
    policy: Annotated[str, typer.Option("--policy", help=POLICY_HELP)] = "union",
    replace: Annotated[
        str, typer.Option("--replace", help="What stands in a span's place: mask, type or fake.", metavar="HOW")
    ] = "mask",
    key: Annotated[
        Path | None,
        typer.Option("--key", help="Key of the fakes, made if absent: the same fakes again.", metavar="FILE"),
    ] = None,
    offsets: Annotated[
        Path | None,
        typer.Option("--offsets", help="Where to write scrubbed and original offsets (JSONL).", metavar="FILE"),
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", help="Processes that look for spans.", min=1, max=int(PROCESSES.high))
    ] = 1,
    cache: Annotated[
        Path | None,
        typer.Option(
            "--cache", help="File that keeps offsets of findings: a run that was stopped goes on.", metavar="FILE"
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
    """Replace sensitive spans by masks, types or consistent fakes. Values are counted by type, never shown."""
    from reticent.core.errors import ConfigError
    from reticent.data.policies.span_cache import SpanCache
    from reticent.data.redaction.scrubbing import Replace, Scrubber
    from reticent.data.writing import replaced, write_corpus
    from reticent.engine.policy import policies_in
    from reticent.runs.policies import policy_named

    output = Output(as_json=as_json)
    if replace not in set(Replace):
        raise ConfigError("unknown --replace", found=repr(replace), expected=", ".join(Replace))
    how = Replace(replace)
    if key is not None and how is not Replace.FAKE:
        raise ConfigError("--key belongs to fakes", hint="add --replace fake, or leave out --key")
    corpus = corpus_at(file, text=text_field, id=id_field, owner=owner_field, format=format, skip_empty=skip_empty)
    chosen = policy_named(policy)
    _refuse_taken(file, [target for target in (out, offsets) if target is not None])
    # The whole corpus is read, and so checked, before anything is written.
    size = sum(1 for _ in output.track(corpus, "checking"))
    fakes = _fakes(key) if how is Replace.FAKE else None
    with ExitStack() as stack:
        side = None if offsets is None else stack.enter_context(replaced(offsets, overwrite=False))
        asked = engine_of(engine, workers, ray_address)
        (finder,) = stack.enter_context(policies_in(asked, [chosen], processes=processes))
        if cache is not None:
            finder = stack.enter_context(closing(SpanCache(finder, cache)))
        scrubber = Scrubber(finder, replace=how, fakes=fakes)
        stream = scrubber.scrub(output.track(corpus, "scrubbing", size))
        write_corpus(_texts(stream, side), out)
    result = scrubber.tally.to_json() | {"policy": chosen.name, "replace": str(how), "corpus": str(out)}
    output.document(result)
    output.show(*_lines(scrubber.tally, out, policy=chosen.name))


def _texts(stream: "Iterator[Scrubbed]", side: "BinaryIO | None") -> "Iterator[Record]":
    """The scrubbed records; their offsets go to `side` on the way."""
    import json

    for scrubbed in stream:
        if side is not None:
            side.write(json.dumps(scrubbed.offsets_to_json(), ensure_ascii=False).encode() + b"\n")
        yield scrubbed.record


def _refuse_taken(file: Path, targets: list[Path]) -> None:
    from reticent.core.errors import DataError

    if len({target.absolute() for target in targets}) < len(targets):
        raise DataError("named twice", path=targets[0], hint="--out and --offsets are two files")
    for target in targets:
        if target.exists():
            same = file.exists() and target.samefile(file)
            what = "is the corpus itself" if same else "already exists"
            raise DataError(what, path=target, hint="choose another name, or remove it first")


def _fakes(key: Path | None) -> "Fakes":
    """Fakes under the key in a file, or under one of this run alone."""
    import secrets

    from reticent.core.document import write_atomically
    from reticent.core.errors import DataError
    from reticent.data.redaction.fakes import Fakes

    if key is None:
        return Fakes(secrets.token_bytes(_KEY_BYTES))
    if not key.exists():
        write_atomically(key, secrets.token_hex(_KEY_BYTES).encode() + b"\n", mode=0o600)
    try:
        return Fakes(bytes.fromhex(key.read_text(encoding="ascii").strip()))
    except (OSError, ValueError) as problem:
        raise DataError(
            "not a key", path=key, found=type(problem).__name__, expected="32 to 128 hexadecimal digits"
        ) from None


def _lines(tally: "ScrubTally", out: Path, *, policy: str) -> list[object]:
    """What was replaced, for a person."""
    share = tally.hidden / tally.characters if tally.characters else 0.0
    lines: list[object] = [
        f"{out}: {tally.records:,} records, {tally.changed:,} of them changed by the policy '{policy}'.",
        f"{tally.hidden:,} of {tally.characters:,} characters ({share:.1%}) were replaced.",
    ]
    if tally.by_kind:
        rows = [(kind, f"{count:,}") for kind, count in sorted(tally.by_kind.items())]
        lines += ["", table("Replaced", ["type", "spans"], rows)]
    return [*lines, "", "What the policy missed is still there; measure it with `reticent scan --labels`."]
