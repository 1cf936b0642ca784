"""A run leaves a complete record: `run.json` beside the weights, the ledger, findings and report.

    RUN/
    ├── run.json          schema version, command, resolved config, package versions, seed, corpora, times
    ├── ledger.db         durable charges (see reticent.ledger.durable)
    ├── guarantee.json    what was proved           ├── findings.json   what was measured
    ├── report.html, report.md                      └── model/          safetensors, guarantee.json beside them

Secrets and corpus text never stand in any of them unless the operator asked with `--reveal`. run.json holds the
fingerprints of corpora, by which whoever knows all of a corpus but one value could test guesses at it: it is
readable by its owner alone and does not travel with the weights.
"""

import datetime
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from reticent import __version__
from reticent.core.document import folder_at, require_writable, write_document
from reticent.core.errors import ConfigError

# The files of a run directory; guarantee.json is named where it is bound to weights (`core.evidence.certificate`).
RUN: Final = "run.json"
LEDGER: Final = "ledger.db"
FINDINGS: Final = "findings.json"
TRAINING: Final = "training.json"  # of a training run: plan, seed, fingerprints, what else is proved
MANIFEST: Final = "ensemble.json"  # of an ensemble: its parts and members
PREDICTION: Final = "prediction.json"  # of an ensemble: how it answers, fixed by its first use
PAGE: Final = "report.html"

SCHEMA_VERSION = 1
PACKAGES = ("torch", "transformers", "peft", "numpy", "scipy", "tokenizers")


class RunDirectory:
    """A folder that belongs to one run; made empty, or opened again to resume."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def for_new_run(cls, path: Path) -> "RunDirectory":
        """The place of a new run, which `start` makes: a run that fails before leaves nothing.

        A folder that holds anything is refused, so that no run overwrites another, and so is a place where nothing
        can be written.
        """
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            is_training = (path / TRAINING).is_file() or (path / MANIFEST).is_file()
            again = "continue with --resume, " if is_training else ""
            raise ConfigError(
                f"{path}: not an empty directory",
                hint=f"{again}choose another --out, or remove the old run yourself",
            )
        require_writable(path)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """The directory of a run that was started before."""
        if not (path / RUN).is_file():
            raise ConfigError(f"{path}: not a run directory", expected="a folder with run.json")
        return cls(path)

    @property
    def model(self) -> Path:
        """Where the weights stand."""
        return self.path / "model"

    @property
    def ledger(self) -> Path:
        """Where the charges stand."""
        return self.path / LEDGER

    @property
    def findings(self) -> Path:
        """Where what was measured stands."""
        return self.path / FINDINGS

    def start(self, command: str, *, config: dict[str, Any], seed: int | None, corpora: dict[str, str]) -> None:
        """Write run.json: what is about to run, on which corpora (name → fingerprint), with which versions."""
        document = {
            "schema_version": SCHEMA_VERSION,
            "command": command,
            "config": config,
            "seed": seed,
            "corpora": corpora,
            "versions": package_versions(),
            "started": _now(),
            "finished": None,
        }
        write_document(self.path / RUN, document, mode=0o600)

    def finish(self, **results: Any) -> None:
        """Mark the run as finished, with its headline results."""
        document = self.information() | {"finished": _now(), "results": results}
        write_document(self.path / RUN, document, mode=0o600)

    def information(self) -> dict[str, Any]:
        """run.json; an unknown schema version is refused."""
        from reticent.runs.schemas import read_valid  # deferred: pydantic takes a tenth of a second

        return read_valid(self.path / RUN)


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """A folder (0700) to fill, which takes the name `path` when the block ends well; else nothing is left of it."""
    with folder_at(path.parent):
        staging = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            yield staging
            staging.replace(path)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise


def package_versions() -> dict[str, str]:
    """Versions of reticent, Python and every library that could change a number."""
    found = {"reticent": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
