"""The settings of `reticent ledger`, the operator's view of what was spent."""

from pathlib import Path

from reticent.runs.ensemble.settings import LedgerOptions
from reticent.runs.settings.declaration import option
from reticent.runs.settings.shared import Shown


class _OfRun(LedgerOptions):
    run: str = option("Run directory, or http:// address of an operator's port.", positional=True, metavar="RUN")


class ShowLedgerSettings(_OfRun, Shown):
    """What is asked of `reticent ledger show` and `verify`."""


class ExportLedgerSettings(_OfRun):
    """What is asked of `reticent ledger export`."""

    out: Path | None = option("File to write.", default=None, metavar="FILE", shown="standard output")


class CorpusLedgerSettings(Shown):
    """What is asked of `reticent ledger corpus`."""

    file: Path = option("Corpus ledger, as `train --corpus-ledger` writes it.", positional=True, metavar="FILE")


class ReanchorSettings(LedgerOptions, Shown):
    """What is asked of `reticent ledger reanchor`."""

    run: Path = option("Run directory.", positional=True, metavar="RUN")
    nothing_was_released: bool = option(
        "Confirm that nothing was released after the last row of the ledger.", default=False
    )
