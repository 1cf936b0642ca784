"""The configuration of a server: `[prediction]` and `[limits]` of a strict TOML file, flags over it.

A seed anywhere in it is an error of its own: released tokens come from the system's generator.
"""

from pathlib import Path
from typing import Any

from pydantic import Field

from reticent.core.errors import ConfigError
from reticent.core.guarantee import Unit
from reticent.prediction.budgets import Kind
from reticent.runs.settings.declaration import Settings
from reticent.runs.settings.file import override, read_toml, validate
from reticent.server.limits import Limits


class PredictionSection(Settings):
    """How an ensemble answers; fixed by its first use."""

    mechanism: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    horizon: int | None = None
    unit: str | None = None
    order: float | None = None
    weight_limit: float | None = None


class LimitsSection(Settings):
    """Public limits; see `limits.Limits`."""

    batch: int | None = None
    capacity: int | None = None
    choices: int | None = None
    max_tokens: int | None = None
    prompt_tokens: int | None = None
    timeout: float | None = None
    least_temperature: float | None = None
    most_temperature: float | None = None
    least_top_p: float | None = None
    body_bytes: int | None = None

    def checked(self) -> Limits:
        """The limits, those that are not named as usual."""
        return Limits(**{name: value for name, value in self.model_dump().items() if value is not None})


class ServingConfig(Settings):
    """A server's file."""

    prediction: PredictionSection = Field(default_factory=PredictionSection)
    limits: LimitsSection = Field(default_factory=LimitsSection)

    def asked(self) -> dict[str, Any]:
        """What is asked of the ensemble, None where nothing is."""
        values = self.prediction.model_dump()
        mechanism, unit = values["mechanism"], values["unit"]
        if mechanism is not None and mechanism not in list(Kind):
            raise ConfigError("no such mechanism", found=mechanism, expected=", ".join(Kind))
        if unit is not None and unit not in ("part", "owner"):
            raise ConfigError("no such unit", found=unit, expected="part or owner")
        kinds = {
            "mechanism": None if mechanism is None else Kind(mechanism),
            "unit": None if unit is None else Unit(unit),
        }
        return values | kinds


def serving_config(path: Path | None, flags: dict[str, Any]) -> ServingConfig:
    """The file, where there is one, with every flag that was given in its place."""
    tables = override({} if path is None else read_toml(path), flags)
    for where in (tables, *(table for table in tables.values() if isinstance(table, dict))):
        if where.get("seed") is not None:
            raise ConfigError(
                "a seed makes released tokens predictable, so a server takes none",
                found="seed",
                hint="leave it out: tokens come from the system's generator",
            )
    return validate(ServingConfig, tables, where="command line" if path is None else str(path))
