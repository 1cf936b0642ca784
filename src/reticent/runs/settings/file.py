"""One strict TOML file per run. An unknown key is an error that suggests the nearest one; flags override the file.

Never YAML (`delta: 1e-5` is a string there), never code, never pickle.
"""

import json
import tomllib
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from reticent.core.choice import advice, meant, word_of
from reticent.core.errors import ConfigError
from reticent.runs.settings.declaration import Declared, Settings, declared_in, spelled, table_type

_COMMAND_LINE: Final = "the command line"
_CALL: Final = "a call"  # from Python
_OUT_OF_RANGE: Final = ("greater_than_equal", "less_than_equal", "finite_number")
AnySettings = TypeVar("AnySettings", bound=Settings)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; a file that is not TOML is an error that names the line."""
    try:
        return tomllib.loads(path.read_text(encoding="utf8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: not TOML: nested too deeply") from None


def override(tables: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """`tables` with every flag that was given (is not None) in its place; tables are merged, not replaced."""
    merged = dict(tables)
    for key, value in flags.items():
        if isinstance(value, dict):
            below = merged.get(key, {})
            merged[key] = override(below if isinstance(below, dict) else {}, value)
        elif value is not None:
            merged[key] = value
    return merged


def settings_from(kind: type[AnySettings], options: dict[str, Any], *, by_flag: bool) -> AnySettings:
    """The settings that options and, where `config` is among them, a TOML file describe; see `Settings.of`.

    Where something is wrong, an option is named by its flag or, called from Python, by its keyword.
    """
    known = {each.keyword: each for each in declared_in(kind)}
    for name in options:
        if name not in known:
            raise ConfigError(f"unknown option '{name}'{advice(name, sorted(known))}")
    path = options.get("config")
    tables = {} if path is None else read_toml(Path(path))
    for each in known.values():
        if not each.option.in_file and each.key in tables and len(each.path) == 1:
            given_as = each.flag if by_flag else f"{each.keyword}=…"
            raise ConfigError(f"{path}: '{each.key}' is not for the file", hint=f"give {given_as}")
    flags: dict[str, Any] = {}
    for name, each in known.items():  # every table is there, so that what is missing is named by its key
        *above, last = each.path
        place = flags
        for table in above:
            place = place.setdefault(table, {})
        place[last] = _with_commas(options.get(name)) if each.option.listed else options.get(name)
    called = _COMMAND_LINE if by_flag else _CALL
    return validate(kind, override(tables, flags), where=called if path is None else str(path))


def _with_commas(value: Any) -> Any:
    """What stands between commas on a command line: a list of it, or one number, from Python."""
    if value is None or isinstance(value, str):
        return value
    return ",".join(_typed(each) for each in (value if isinstance(value, list | tuple) else [value]))


def _typed(value: Any) -> str:
    return word_of(value) if isinstance(value, Enum) else str(value)


def validate(kind: type[AnySettings], tables: dict[str, Any], *, where: str) -> AnySettings:
    """The settings that `tables` describe, or one error with all that is wrong.

    They are read as JSON: strict about numbers, and a word stands for a member of an enum or a path.
    """
    try:
        return kind.model_validate_json(json.dumps(tables, default=spelled))
    except ValidationError as error:
        known = {each.path: each for each in declared_in(kind)}
        problems = "; ".join(_problem(kind, details, known, where=where) for details in error.errors())  # type: ignore[arg-type]
        raise ConfigError(problems if where == _CALL else f"{where}: {problems}") from None


def _problem(
    kind: type[BaseModel], details: dict[str, Any], known: dict[tuple[str, ...], Declared], *, where: str
) -> str:
    """One fault in words, and what to do. An option is named by its full key, or as it was given: flag, keyword."""
    *parents, last = [str(part) for part in details["loc"]] or ["configuration"]
    name = ".".join([*parents, last])
    if details["type"] == "extra_forbidden":
        return f"unknown key '{name}'{advice(last, _known_keys(kind, parents))}"
    option = known.get((*parents, last))
    if where == _CALL and option is not None:
        return f"{option.keyword}{_fault(details, option)}"
    if where == _COMMAND_LINE and option is not None and details["type"] == "missing":
        return f"{option.flag} is missing" + (f": one of {', '.join(option.choices)}" if option.choices else "")
    shown = f"'{name}'" if option is None or parents else option.flag
    if details["type"] == "missing":
        return f"{shown} is missing" + (f" ({option.flag})" if option is not None and parents else "")
    if where == _COMMAND_LINE and option is not None:
        shown = option.flag
    return f"{shown}{_fault(details, option)}"


def _fault(details: dict[str, Any], option: Declared | None) -> str:
    """What is wrong with an option, after its name."""
    if details["type"] == "missing":
        return " is missing"
    if details["type"] in _OUT_OF_RANGE and option is not None and option.option.range is not None:
        return f" is out of range: found {details['input']}, expected {option.option.range}"
    if details["type"] in ("enum", "literal_error") and option is not None:
        near = meant(str(details["input"]), option.choices)
        return f": should be one of {', '.join(option.choices)}" + (f"; {near}" if near else "")
    return f": {details['msg'][0].lower()}{details['msg'][1:]}"


def _known_keys(kind: type[BaseModel], parents: list[str]) -> list[str]:
    """The keys of a table, following nested tables by name."""
    current = kind
    for parent in parents:
        field = current.model_fields.get(parent)
        current = (None if field is None else table_type(field)) or current
    return sorted(current.model_fields)
