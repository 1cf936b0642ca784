"""`reticent init`: a commented configuration to start from."""

from reticent.cli.console import Output
from reticent.cli.flags import verb
from reticent.runs.settings.starter import InitSettings, write_config


@verb(InitSettings)
def init(settings: InitSettings, output: Output) -> None:
    """Write a commented TOML file for a journey; edit it, then pass it to `reticent train --config`."""
    write_config(settings)
    output.document({"schema_version": 1, "journey": settings.journey.value, "config": str(settings.out)})
    output.show(f"Written to {settings.out}. Next: reticent train --config {settings.out} --dry-run")
