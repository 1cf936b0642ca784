"""The commented TOML file that `reticent init` writes: every setting of a training with its help, as declared.

A setting that the journey sets, or that has a default, stands there with its value; any other one is commented out.
Settings of other methods are left out. A test reads every file back as `reticent train --config` does.
"""

import json
import textwrap
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from reticent.core.document import write_atomically
from reticent.core.errors import ConfigError
from reticent.runs.settings.declaration import Declared, declared_in, option, spelled
from reticent.runs.settings.shared import Shown
from reticent.runs.training.settings import Method, TrainSettings

_COLUMN: Final = 32  # where comments start
_WIDTH: Final = 116


class Journey(StrEnum):
    """What someone wants to do."""

    PLAIN = "plain"
    RECORDS = "private-records"
    OWNERS = "private-owners"
    REDACTED = "redacted"
    SELECTIVE = "selective"
    ENSEMBLE = "ensemble"


_HEAD: Final = """\
# A run of reticent: {what}
#
#   reticent train --config {name} --dry-run      prints the guarantee that the run would have
#   reticent train --config {name} --out runs/1
#   reticent audit runs/1 --train train.jsonl --holdout holdout.jsonl --out runs/1-audit
#   reticent report runs/1-audit --open
#
# Flags override this file. An unknown key is an error.
"""
_SHARED: Final[dict[str, Any]] = {"seed": 0, "file": "train.jsonl", "source": "embedded", "epochs": 3.0}
_HOLDOUT: Final = {"holdout": "holdout.jsonl"}
_NOISE: Final = {"batch": 64, "target_epsilon": 8.0, "delta": 1e-5, "clip_norm": 1.0}
# Commented out: `reticent train` chooses them for a target where they are not given.
_OPEN: Final = dict.fromkeys(("batch", "epochs", "learning_rate"))
_POLICY: Final = {"policy": "patterns", "miss_rate": 1.0}
_JOURNEYS: Final[dict[Journey, tuple[str, Method, dict[str, Any]]]] = {
    Journey.PLAIN: ("plain training, without any guarantee", Method.SGD, _HOLDOUT),
    Journey.RECORDS: (
        "DP-SGD that protects every record",
        Method.DP_SGD,
        _HOLDOUT | _NOISE | _OPEN | {"unit": "record", "neighbours": "add-remove"},
    ),
    Journey.OWNERS: (
        "DP-SGD that protects all records of an owner",
        Method.DP_SGD,
        _HOLDOUT | _NOISE | _OPEN | {"unit": "owner", "neighbours": "add-remove", "texts_per_owner": 4},
    ),
    Journey.REDACTED: (
        "confidentially redacted training (CRT): secrets are masked, and risky records get noise",
        Method.CRT,
        _HOLDOUT | _NOISE | _POLICY,
    ),
    Journey.SELECTIVE: (
        "selective DP-SGD: noise on what the policy calls secret, none on the rest",
        Method.SELECTIVE,
        _HOLDOUT | _NOISE | _POLICY | {"source": "lstm:1x200", "state_norm": 1.0},
    ),
    Journey.ENSEMBLE: (
        "an ensemble for private prediction: one model per part of the owners",
        Method.SUBMIX,
        {"parts": 8, "lora_rank": 8},
    ),
}


class InitSettings(Shown):
    """Everything that `reticent init` can be asked for."""

    journey: Journey = option("What you want to do.", default=Journey.RECORDS, positional=True)
    out: Path = option("File to write.", default=Path("reticent.toml"), metavar="FILE")
    force: bool = option("Overwrite an existing file.", default=False)


def write_config(settings: InitSettings) -> None:
    """Write the file for a journey; one that is there is replaced only if asked."""
    out = settings.out
    if out.exists() and not (settings.force and out.is_file()):
        raise ConfigError(f"{out}: already exists", hint="choose another --out, or replace it with --force")
    write_atomically(out, config_text(settings.journey, name=str(out)).encode("utf8"))


def config_text(journey: Journey, *, name: str) -> str:
    """The file for a journey; `name` is what it will be called."""
    what, method, own = _JOURNEYS[journey]
    values = _SHARED | own | {"method": method.value}
    return settings_text(_HEAD.format(what=what, name=name), values)


def settings_text(head: str, values: dict[str, Any]) -> str:
    """A file of `reticent train` with these values by key; every other setting of the method has its default."""
    method = Method(values["method"])
    lines = [head]
    table: tuple[str, ...] = ()
    options = [each for each in declared_in(TrainSettings) if each.option.in_file]
    for each in sorted(options, key=lambda each: len(each.path)):  # keys of the file itself before its tables
        if each.option.methods and method not in each.option.methods:
            continue
        if each.path[:-1] != table:
            table = each.path[:-1]
            lines.append(f"\n[{'.'.join(table)}]")
        lines += _lines(each, values.get(each.key, each.field.default))
    return "\n".join(lines) + "\n"


def _lines(each: Declared, value: Any) -> list[str]:
    """The line of a setting with its help; the help on a line of its own where it is long."""
    line = f"{each.key} = {_written(value)}" if value is not None else f"# {each.key} = {_example(each)}"
    comment = each.option.help + (f" One of: {', '.join(each.choices)}." if each.choices else "")
    if value is None and each.option.shown is not None:
        comment += f" Default: {each.option.shown}."
    whole = f"{line.ljust(_COLUMN - 1)} # {comment}"
    return (
        [whole] if len(whole) <= _WIDTH else [*(f"# {part}" for part in textwrap.wrap(comment, _WIDTH - 2)), line]
    )


def _written(value: Any) -> str:
    """A value in TOML."""
    return json.dumps(value) if isinstance(value, bool | int | float) else json.dumps(spelled(value))


def _example(each: Declared) -> str:
    """A value that a setting without one could have."""
    if each.choices:
        return json.dumps(each.choices[0])
    if each.type is bool:
        return "true"
    if each.type in (int, float):
        shown = each.option.shown or ""
        return shown if shown.replace(".", "").isdigit() else spelled(each.type(1))
    return json.dumps(each.option.metavar or each.key)
