"""The command line that a run was started with, written again from its recorded configuration."""

import shlex
from pathlib import Path
from typing import Any, Final

_POSITIONS: Final = ("model", "file")
_UNSAID: Final = ("snapshots", "prefix_given")  # said in their place; private


def command_of(information: dict[str, Any], out: Path) -> str:
    """`reticent VERB …` as recorded; options at their default are left out where that is known."""
    config, command = information.get("config", {}), str(information["command"])
    words = ["reticent", command]
    if command == "train":
        words += _training_words(config)
    else:
        words += _plain_words(config)
    if information.get("seed") is not None:
        words += ["--seed", str(information["seed"])]
    return shlex.join([*words, "--out", str(out)])


def _training_words(config: dict[str, Any]) -> list[str]:
    """Every value that differs from its default, as a flag."""
    from reticent.runs.settings.declaration import declared_in
    from reticent.runs.training.settings import TrainSettings

    words: list[str] = []
    for each in sorted(declared_in(TrainSettings), key=lambda each: each.key != "method"):
        table, *keys = each.path
        value = config.get(table, {}).get(keys[0]) if keys else None
        if value is not None and value != each.field.default:
            words += [each.flag] if value is True else [each.flag, _word(value)]
    return words


def _plain_words(config: dict[str, Any]) -> list[str]:
    """The model or file first, then a flag for every value that was given."""
    words = [str(config[key]) for key in _POSITIONS if config.get(key) is not None]
    words += [str(each) for each in config.get("snapshots", [])]
    for key, value in config.items():
        if key in (*_POSITIONS, *_UNSAID) or value is None or value is False or value == []:
            continue
        flag = "--" + key.replace("_", "-")
        if value is True:
            words.append(flag)
        elif key == "attacks":
            words += [flag, ",".join(str(each) for each in value)]
        elif isinstance(value, list):
            words += [word for each in value for word in (flag, _word(each))]
        else:
            words += [flag, _word(value)]
    return words


def _word(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
