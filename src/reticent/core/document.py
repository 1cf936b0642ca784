"""What every JSON document of ours has in common: a schema version, and numbers that JSON itself cannot say."""

import math
from typing import Any

from reticent.core.errors import ConfigError


def check_schema(document: dict[str, Any], version: int, *, kind: str) -> None:
    """Refuse a document of another version than the one this code reads."""
    found = document.get("schema_version")
    if found != version:
        raise ConfigError(
            f"this {kind} has an unknown schema version",
            found=repr(found),
            expected=str(version),
            hint="read it with the version of reticent that wrote it",
        )


def number_to_json(value: float | None) -> float | str | None:
    """JSON has no infinity: write it as the word "inf", which every reader must treat on purpose."""
    if value is None or math.isfinite(value):
        return value
    if math.isnan(value):
        raise ValueError("a document never holds NaN")
    return "inf" if value > 0 else "-inf"


def number_from_json(value: float | str) -> float:
    """The number that `number_to_json` wrote."""
    return float(value)
