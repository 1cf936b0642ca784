"""`reticent demo`: the story in one command, offline."""

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reticent.app.console import Output, table
from reticent.app.demo.extent import Extent
from reticent.app.options import AsJson
from reticent.core.errors import ConfigError

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from reticent.app.demo.scale import Scale
    from reticent.app.demo.story import Story, Told
    from reticent.app.demo.telling import Watch

_PAGE = Path("reticent-demo")


def demo(
    out: Annotated[
        Path, typer.Option("--out", help="Folder for corpora, models, findings and the report.", metavar="DIR")
    ] = _PAGE,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", help="Your public model instead of the embedded one: a directory or hub id.", metavar="MODEL"
        ),
    ] = None,
    scale: Annotated[
        Extent, typer.Option("--scale", help="quick (a minute), normal (minutes), large (an hour).")
    ] = Extent.NORMAL,
    seed: Annotated[int, typer.Option("--seed", help="Seed of corpus and shuffling.", metavar="N", min=0)] = 7,
    as_json: AsJson = False,
) -> int:
    """The story on generated dialogues: secrets planted, trained on four ways, asked for, and bounded.

    Exit code 1 if a finding refutes a guarantee.
    """
    output = Output(as_json=as_json)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out}: not an empty directory", hint="choose another --out, or remove it yourself")
    return 0
