"""One strict TOML file per run. An unknown key is an error that suggests the nearest one; flags override the file.

Never YAML (`delta: 1e-5` is a string there), never code, never pickle.
"""

import difflib
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reticent.core.errors import ConfigError
from reticent.core.ranges import Range


class Section(BaseModel):
    """A part of the configuration: immutable, strict, and without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def within(range: Range, default: float | None) -> Any:
    """A field for whole or other numbers of a range; what is not a number lies in none."""
    whole = isinstance(range.low, int) and isinstance(range.high, int)
    return Field(default, ge=range.low, le=range.high, allow_inf_nan=None if whole else False)


Config = TypeVar("Config", bound=Section)


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


def validate(config: type[Config], tables: dict[str, Any], *, where: str) -> Config:
    """The configuration that `tables` describe, or one error with all that is wrong."""
    try:
        return config.model_validate(tables)
    except ValidationError as error:
        problems = [_problem(config, details) for details in error.errors()]  # type: ignore[arg-type]
        raise ConfigError(f"{where}: {'; '.join(problems)}") from None


def _problem(config: type[BaseModel], details: dict[str, Any]) -> str:
    """One fault in words: the key's full name and what to do."""
    *parents, last = [str(part) for part in details["loc"]] or ["configuration"]
    name = ".".join([*parents, last])
    if details["type"] == "extra_forbidden":
        known = _known_keys(config, parents)
        near = difflib.get_close_matches(last, known, n=1)
        return f"unknown key '{name}'" + (
            f", did you mean '{near[0]}'?" if near else f"; known: {', '.join(known)}"
        )
    if details["type"] == "missing":
        return f"'{name}' is missing"
    return f"'{name}': {details['msg'][0].lower()}{details['msg'][1:]}"


def _known_keys(config: type[BaseModel], parents: list[str]) -> list[str]:
    """The keys a section has, following nested sections by name."""
    current: Any = config
    for parent in parents:
        if parent.isdigit() or not (isinstance(current, type) and issubclass(current, BaseModel)):
            continue
        field = current.model_fields.get(parent)
        annotation = field.annotation if field is not None else None
        nested = [a for a in (annotation, *getattr(annotation, "__args__", ())) if isinstance(a, type)]
        current = next((a for a in nested if issubclass(a, BaseModel)), current)
    return sorted(current.model_fields)
