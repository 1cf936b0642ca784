"""The settings of `reticent keys`."""

from pathlib import Path

from reticent.runs.settings.declaration import Settings, option
from reticent.runs.settings.shared import Shown


class _KeyFile(Settings):
    file: Path = option("Key file. Created if missing.", default=Path("keys.json"), metavar="FILE")


class AddKeySettings(_KeyFile, Shown):
    """What is asked of `reticent keys add`."""

    name: str = option("Name of the key's owner.", positional=True, metavar="NAME")
    quota: int | None = option(
        "Total number of tokens that the key may draw: rationing, not privacy.",
        default=None,
        metavar="N",
    )
    operator: bool = option("Make a key for the operator's page and `reticent ledger`.", default=False)


class ListKeysSettings(_KeyFile, Shown):
    """What is asked of `reticent keys list`."""


class RemoveKeySettings(_KeyFile):
    """What is asked of `reticent keys remove`."""

    name: str = option("Name of the key's owner.", positional=True, metavar="NAME")
