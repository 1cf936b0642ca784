"""`reticent init`: a commented configuration to start from."""

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli.console import Output
from reticent.cli.options import AsJson
from reticent.runs.settings.starter import Journey


def init(
    journey: Annotated[Journey, typer.Argument(help="What you want to do.")] = Journey.RECORDS,
    out: Annotated[Path, typer.Option("--out", help="File to write.", metavar="FILE")] = Path("reticent.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented TOML file for a journey; edit it, then pass it to `reticent train --config`."""
    from reticent.core.document import write_atomically
    from reticent.core.errors import ConfigError
    from reticent.runs.settings.starter import config_text

    output = Output(as_json=as_json)
    if out.exists() and not (force and out.is_file()):
        raise ConfigError(
            f"{out}: there is something here", hint="choose another --out, or replace it with --force"
        )
    write_atomically(out, config_text(journey, name=str(out)).encode("utf8"))
    output.document({"schema_version": 1, "journey": journey.value, "config": str(out)})
    output.show(f"Written to {out}. Next: reticent train --config {out} --dry-run")
