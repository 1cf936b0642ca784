"""The settings of `reticent serve`, `keys` and `ledger`.

For `serve`, flags override `[prediction]` and `[limits]` of a strict TOML file. A seed anywhere in it
is an error of its own: released tokens come from the system's generator.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field

from reticent.core.errors import ConfigError
from reticent.core.ranges import PORT, PROCESSES, Range
from reticent.runs.ensemble.settings import LedgerOptions, PredictionOptions
from reticent.runs.settings.declaration import Settings, option
from reticent.runs.settings.file import read_toml
from reticent.runs.settings.shared import Shown
from reticent.server.limits import Limits

if TYPE_CHECKING:
    from reticent.server.launching import Serving


class ServeSettings(LedgerOptions, Shown):
    """Everything that `reticent serve` can be asked for."""

    run: Path = option(
        "Run directory of `train`: an ensemble, or a private model.", positional=True, metavar="RUN", in_file=False
    )
    prediction: PredictionOptions = Field(default_factory=PredictionOptions)
    limits: Limits = Field(default_factory=Limits)
    join: bool = option(
        "Use the ledger at --ledger from this machine for the first time.", default=False, in_file=False
    )
    config: Path | None = option(
        "TOML file with [prediction] and [limits]. Flags override it.", default=None, metavar="FILE", in_file=False
    )
    name: str | None = option(
        "Model name that clients ask for.", default=None, metavar="NAME", shown="name of the run", in_file=False
    )
    host: str = option(
        "Address to listen on. Any address except loopback needs --keys.", default="127.0.0.1", in_file=False
    )
    port: int = option("Port to listen on.", default=8000, within=Range(0, int(PORT.high)), in_file=False)
    workers: int = option(
        "Number of server processes; they share port and ledger.",
        default=1,
        within=PROCESSES,
        metavar="N",
        in_file=False,
    )
    keys: Path | None = option("Key file of `reticent keys add`.", default=None, metavar="FILE", in_file=False)
    operator_port: int | None = option(
        "Port of the operator's page, on the loopback address.", default=None, within=PORT, in_file=False
    )
    tls_cert: Path | None = option("TLS certificate chain (PEM).", default=None, metavar="FILE", in_file=False)
    tls_key: Path | None = option("TLS private key (PEM).", default=None, metavar="FILE", in_file=False)
    memfree: Path | None = option(
        "Training corpus: a private model never completes an n-gram of it (MemFree).",
        default=None,
        metavar="FILE",
        in_file=False,
    )
    memfree_length: int = option(
        "Length n of these n-grams, in tokens.", default=8, within=Range(2, 2**31 - 1), metavar="N", in_file=False
    )
    seed: int | None = option("Refused: see the error.", default=None, hidden=True, in_file=False)
    dry_run: bool = option("Print the guarantee that answers would have, and stop.", default=False, in_file=False)

    @classmethod
    def _checked(cls, options: dict[str, Any], *, by_flag: bool) -> Self:
        """The settings that options and file describe; a seed in either is refused."""
        path = options.get("config")
        _refuse_seed({} if path is None else read_toml(Path(path)), options)
        return super()._checked(options, by_flag=by_flag)

    def serving(self) -> "Serving":
        """What a server is started with; an ensemble's own settings are read from its run."""
        from reticent.runs.ledger_place import LedgerPlace
        from reticent.server.backends.backend import settings_for
        from reticent.server.launching import Serving

        return Serving(
            run=self.run,
            name=self.name or self.run.resolve().name,
            settings=settings_for(self.run, self.prediction.asked()),
            limits=self.limits,
            ledger=LedgerPlace(self.ledger, joins=self.join),
            host=self.host,
            port=self.port,
            workers=self.workers,
            keys=self.keys,
            operator_port=self.operator_port,
            tls_certificate=self.tls_cert,
            tls_key=self.tls_key,
            memfree=self.memfree,
            memfree_length=self.memfree_length,
        )


def _refuse_seed(*tables: dict[str, Any]) -> None:
    for table in tables:
        if table.get("seed") is not None:
            raise ConfigError(
                "a seed makes released tokens predictable, so a server takes none",
                found="seed",
                hint="leave it out: tokens come from the system's generator",
            )
        _refuse_seed(*(below for below in table.values() if isinstance(below, dict)))


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
    operator: bool = option("Create a key for the operator's page and `reticent ledger`.", default=False)


class ListKeysSettings(_KeyFile, Shown):
    """What is asked of `reticent keys list`."""


class RemoveKeySettings(_KeyFile):
    """What is asked of `reticent keys remove`."""

    name: str = option("Name of the key's owner.", positional=True, metavar="NAME")


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
