"""`reticent plant`: a corpus with canaries, and the key file that names them."""

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli.console import Output
from reticent.cli.options import (
    AsJson,
    CorpusFormat,
    IdField,
    OwnerField,
    Seed,
    SkipEmpty,
    TextField,
    randomness_of,
)
from reticent.data.canaries import CanaryOwner
from reticent.runs.corpora import corpus_at

_MOST_PLANTED = 10_000_000


def plant(
    file: Annotated[Path, typer.Argument(help="Corpus to plant in; it is not changed.")],
    out: Annotated[Path, typer.Option("--out", help="Where to write the planted corpus.", metavar="FILE")],
    key: Annotated[
        Path, typer.Option("--key", help="Where to write the key file, which holds the secrets.", metavar="FILE")
    ],
    template: Annotated[
        str, typer.Option("--template", help="Text of a canary, {} being its secret.")
    ] = "My ID is: {}",
    digits: Annotated[
        int, typer.Option("--digits", help="Digits of a secret; b = 3.32 bits each.", min=1, max=60)
    ] = 6,
    count: Annotated[int, typer.Option("--count", help="How many different canaries.", min=1)] = 10,
    copies: Annotated[int, typer.Option("--copies", help="How often each is planted.", min=1)] = 20,
    owner: Annotated[
        CanaryOwner, typer.Option("--owner", help="Whether each copy or each canary has an owner of its own.")
    ] = CanaryOwner.COPY,
    seed: Seed = None,
    text_field: TextField = "text",
    id_field: IdField = "id",
    owner_field: OwnerField = "owner",
    format: CorpusFormat = None,
    skip_empty: SkipEmpty = False,
    as_json: AsJson = False,
) -> None:
    """Write a corpus with canaries and the key file that names them. Nobody else may read the key file."""
    from reticent.core.errors import ConfigError, DataError
    from reticent.core.secret import CodeSpace
    from reticent.data.canaries import make_canaries, plant_stream, write_key
    from reticent.data.writing import write_corpus

    output = Output(as_json=as_json)
    if count * copies > _MOST_PLANTED:
        raise ConfigError(
            "too many canaries", found=f"{count * copies:,} copies in all", expected=f"at most {_MOST_PLANTED:,}"
        )
    randomness = randomness_of(seed)
    canaries = make_canaries(template, CodeSpace(digits), count=count, copies=copies, randomness=randomness)
    corpus = corpus_at(file, text=text_field, id=id_field, owner=owner_field, format=format, skip_empty=skip_empty)
    for target in (out, key):
        if target.exists():
            raise DataError("already exists", path=target, hint="choose another name, or remove it first")
    # The whole corpus is read, and so checked, before anything is written.
    size = sum(1 for _ in output.track(corpus, "checking"))
    stream = plant_stream(
        output.track(corpus, "planting", size), canaries, size=size, randomness=randomness, owner=owner
    )
    written = write_corpus(stream, out)
    try:
        write_key(canaries, key)
    except BaseException:
        out.unlink(missing_ok=True)  # a planted corpus without its key is of no use
        raise
    bits = canaries[0].bits
    output.document(
        {
            "schema_version": 1,
            "records": written,
            "planted": count * copies,
            "canaries": count,
            "copies": copies,
            "bits": bits,
            "corpus": str(out),
            "key": str(key),
            "randomness": randomness.kind,
        }
    )
    output.show(
        f"Planted {count} canaries {copies} times each among {size:,} records: {written:,} records in {out}.",
        f"Each secret has {bits:.2f} bits. The secrets stand in {key}: keep it from whoever trains or attacks.",
        f"The secrets and their places were drawn from {'the system' if seed is None else f'seed {seed}'}.",
    )
