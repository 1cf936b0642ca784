"""The command line that a run was started with, written again from its recorded configuration."""

import shlex
from enum import Enum
from pathlib import Path
from typing import Any, get_args

from pydantic_core import to_jsonable_python

from reticent.runs.settings.declaration import Declared, Settings, declared_in, spelled


def command_of(information: dict[str, Any], out: Path) -> str:
    """`reticent VERB …` as recorded; options at their default are left out."""
    config, command = information.get("config", {}), str(information["command"])
    first, then = (list(map(str, config.get("snapshots", [])[part])) for part in (slice(2), slice(2, None)))
    words = ["reticent", command, *first]
    kind, recorded = _settings_of(command), list(config)
    options = [] if kind is None else [each for each in declared_in(kind) if each.path[0] in recorded]
    options.sort(key=lambda each: (not each.option.positional, each.key != "method", recorded.index(each.path[0])))
    for each in options:
        if each.key not in ("seed", "out", "config"):
            words += _words(each, config)
    words += [word for snapshot in then for word in ("--then", snapshot)]
    if information.get("seed") is not None:
        words += ["--seed", str(information["seed"])]
    return shlex.join([*words, "--out", str(out)])


def _settings_of(command: str) -> type[Settings] | None:
    """The options of a verb that leaves a run directory."""
    from reticent.runs.audit.settings import AuditSettings
    from reticent.runs.corpus.scan import ScanSettings
    from reticent.runs.training.settings import TrainSettings
    from reticent.runs.update.settings import DiffSettings

    known: dict[str, type[Settings]] = {"audit": AuditSettings, "diff": DiffSettings, "scan": ScanSettings}
    return (known | {"train": TrainSettings}).get(command)


def _words(each: Declared, config: dict[str, Any]) -> list[str]:
    """What an option adds to the command; nothing where it was not given or has its default."""
    value: Any = config
    for key in each.path:
        value = value.get(key) if isinstance(value, dict) else None
    default = None if each.field.is_required() else to_jsonable_python(each.field.default)
    if value is None or value is False or value in (default, []):
        return []
    if each.option.positional:
        return [str(value)]
    if value is True:
        return [each.flag]
    if isinstance(value, list) and each.type is str:
        return [each.flag, ",".join(map(str, value))]
    values = value if isinstance(value, list) else [value]
    return [word for one in values for word in (each.flag, _word(each, one))]


def _word(each: Declared, value: Any) -> str:
    """A value as it is typed; of an enum by the word of its member."""
    members = get_args(each.type) or (
        each.type if isinstance(each.type, type) and issubclass(each.type, Enum) else ()
    )
    named = [one for one in members if isinstance(one, Enum) and one.value == value]
    return spelled(named[0] if named else value)
