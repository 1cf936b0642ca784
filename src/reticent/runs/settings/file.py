"""One strict TOML file per run. An unknown key is an error that suggests the nearest one; flags override the file.

Never YAML (`delta: 1e-5` is a string there), never code, never pickle.
"""

import difflib
import json
import tomllib
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from reticent.core.errors import ConfigError
from reticent.runs.settings.declaration import Declared, Settings, declared_in, spelled, table_type

_COMMAND_LINE: Final = "the command line"
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


def settings_from(kind: type[AnySettings], options: dict[str, Any]) -> AnySettings:
    """The settings that options and, where `config` is among them, a TOML file describe; see `Settings.of`."""
    known = {each.keyword: each for each in declared_in(kind)}
    for name in options:
        if name not in known:
            raise ConfigError(f"unknown option '{name}'{_advice(name, sorted(known))}")
    path = options.get("config")
    tables = {} if path is None else read_toml(Path(path))
    for each in known.values():
        if not each.option.in_file and each.key in tables and len(each.path) == 1:
            raise ConfigError(f"{path}: '{each.key}' is not for the file", hint=f"give {each.flag}")
    flags: dict[str, Any] = {}
    for name, each in known.items():  # every table is there, so that what is missing is named by its key
        *above, last = each.path
        place = flags
        for table in above:
            place = place.setdefault(table, {})
        place[last] = options.get(name)
    return validate(kind, override(tables, flags), where=_COMMAND_LINE if path is None else str(path))


def validate(kind: type[AnySettings], tables: dict[str, Any], *, where: str) -> AnySettings:
    """The settings that `tables` describe, or one error with all that is wrong.

    They are read as JSON: strict about numbers, and a word stands for a member of an enum or a path.
    """
    try:
        return kind.model_validate_json(json.dumps(tables, default=spelled))
    except ValidationError as error:
        known = {each.path: each for each in declared_in(kind)}
        by_flag = where == _COMMAND_LINE
        problems = [_problem(kind, details, known, by_flag=by_flag) for details in error.errors()]  # type: ignore[arg-type]
        raise ConfigError(f"{where}: {'; '.join(problems)}") from None


def _problem(
    kind: type[BaseModel], details: dict[str, Any], known: dict[tuple[str, ...], Declared], *, by_flag: bool
) -> str:
    """One fault in words, and what to do. An option is named by its full key, or by its flag where it was one."""
    *parents, last = [str(part) for part in details["loc"]] or ["configuration"]
    name = ".".join([*parents, last])
    if details["type"] == "extra_forbidden":
        return f"unknown key '{name}'{_advice(last, _known_keys(kind, parents))}"
    option = known.get((*parents, last))
    shown = f"'{name}'" if option is None or parents else option.flag
    if details["type"] == "missing":
        return f"{shown} is missing" + (f" ({option.flag})" if option is not None and parents else "")
    if by_flag and option is not None:
        shown = option.flag
    if details["type"] in _OUT_OF_RANGE and option is not None and option.option.range is not None:
        return f"{shown} is out of range: found {details['input']}, expected {option.option.range}"
    if details["type"] in ("enum", "literal_error") and option is not None:
        return f"{shown}: should be one of {', '.join(option.choices)}"
    return f"{shown}: {details['msg'][0].lower()}{details['msg'][1:]}"


def _advice(name: str, known: list[str]) -> str:
    """The nearest of the known names, or all of them."""
    near = difflib.get_close_matches(name, known, n=1)
    return f", did you mean '{near[0]}'?" if near else f"; known: {', '.join(known)}"


def _known_keys(kind: type[BaseModel], parents: list[str]) -> list[str]:
    """The keys of a table, following nested tables by name."""
    current = kind
    for parent in parents:
        field = current.model_fields.get(parent)
        current = (None if field is None else table_type(field)) or current
    return sorted(current.model_fields)
