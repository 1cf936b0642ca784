"""An option is declared once, as a field of its verb's settings class.

    class DedupSettings(CorpusOptions, EngineOptions, Shown):
        file: Path = option("Corpus to deduplicate. It is not changed.", positional=True)
        near: float | None = option("Also drop near duplicates of at least this similarity.", within=SHARE)

From the declaration come the flag and its help (`cli.flags`, docs/cli.md), the key of the TOML file, the commented
file of `reticent init` (`runs.settings.starter`), the check of type and range, and the error for an option that
does not belong to the chosen method. A field whose type is another `Settings` class is a table of the TOML file;
the fields of the table are flags of the verb as well. Settings classes import no torch.
"""

import types
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from reticent.core.choice import word_of
from reticent.core.ranges import Range


class Settings(BaseModel):
    """Options that belong together: immutable, strict, and without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def of(cls, **options: Any) -> Self:
        """The settings that these options describe, by the names of their flags (`learning_rate=1e-3`), checked.

        An option that is None was not given. `config` names a TOML file; the options override it.
        """
        return cls._checked(options, by_flag=False)

    @classmethod
    def of_flags(cls, **options: Any) -> Self:
        """The same from a command line, whose user knows the flags of the options."""
        return cls._checked(options, by_flag=True)

    @classmethod
    def _checked(cls, options: dict[str, Any], *, by_flag: bool) -> Self:
        """What both ways share, and what a verb that refuses more overrides."""
        from reticent.runs.settings.file import settings_from

        settings = settings_from(cls, options, by_flag=by_flag)
        settings.check()
        return settings

    def check(self) -> None:
        """Refuse options that contradict each other, before any work is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What a field says of itself beside its type, default and range."""

    help: str
    flag: str | None = None  # derived from the field's name unless given
    metavar: str | None = None
    panel: str | None = None
    methods: frozenset[str] = frozenset()  # empty: it belongs to every method
    shown: str | None = None  # the default in words, where the field's own default does not say it
    positional: bool = False
    in_file: bool = True  # whether the TOML file of a run may set it
    environment: str | None = None
    hidden: bool = False
    range: Range | None = None
    listed: bool = False  # several values with commas between them; a list from Python
    last: bool = False  # help lists it after the options of the verb itself


def option(
    help: str,
    *,
    default: Any = ...,
    within: Range | None = None,
    methods: Collection[str] = (),
    in_file: bool = True,
    limits: dict[str, float] | None = None,
    **declared: Any,
) -> Any:
    """Declare an option: a field of a settings class; `declared` as in `Option`. Without a default it is required.

    `within` is a range with both ends allowed; `limits` are pydantic's own (`gt`, `lt`, …), for half-open ranges.
    """
    bounds: dict[str, Any] = dict(limits or {})
    if within is not None:
        bounds |= {"ge": within.low, "le": within.high}
        if not (isinstance(within.low, int) and isinstance(within.high, int)):
            bounds["allow_inf_nan"] = False
    about = Option(help=help, methods=frozenset(methods), in_file=in_file, range=within, **declared)
    # What the file may not set is no part of the record of a run either.
    return Field(default, description=help, exclude=not in_file, json_schema_extra={"option": about}, **bounds)  # type: ignore[dict-item]


@dataclass(frozen=True, slots=True)
class Declared:
    """An option with its place: the tables above it and its key."""

    path: tuple[str, ...]
    option: Option
    field: FieldInfo

    @property
    def key(self) -> str:
        """Its name in the TOML file."""
        return self.path[-1]

    @property
    def flag(self) -> str:
        """Its name on the command line, such as --learning-rate; a positional argument has no dashes."""
        return self.option.flag or flag_of(self.key).removeprefix("--" if self.option.positional else "")

    @property
    def keyword(self) -> str:
        """Its name as a keyword of `Settings.of`."""
        return self.flag.lstrip("-").replace("-", "_")

    @property
    def default(self) -> str | None:
        """Its default as it is typed, or in words; None where there is nothing to say."""
        value = None if self.field.is_required() else self.field.default
        if self.option.shown is not None or value is None or value is False or value == ():
            return self.option.shown
        return spelled(value)

    @property
    def type(self) -> Any:
        """The type of its value when it is given: without None, and without what pydantic is told of it."""
        kind: Any = self.field.annotation
        if get_origin(kind) in (Union, types.UnionType):
            left = [each for each in get_args(kind) if each is not type(None)]
            kind = left[0] if len(left) == 1 else kind
        return get_args(kind)[0] if get_origin(kind) is Annotated else kind

    @property
    def choices(self) -> tuple[str, ...]:
        """The words it may be, where these are few."""
        if get_origin(self.type) is Literal:
            return tuple(spelled(member) for member in get_args(self.type))
        if isinstance(self.type, type) and issubclass(self.type, Enum):
            return tuple(spelled(member) for member in self.type)
        return ()

    def value_in(self, settings: BaseModel) -> Any:
        """Its value in a settings object."""
        value: Any = settings
        for name in self.path:
            value = getattr(value, name)
        return value


def declared_in(settings: type[BaseModel]) -> Iterator[Declared]:
    """Every option of a settings class, those of its tables in their place."""
    for name, field in settings.model_fields.items():
        table = table_type(field)
        if table is not None:
            for each in declared_in(table):
                yield replace(each, path=(name, *each.path))
        elif isinstance(field.json_schema_extra, dict) and "option" in field.json_schema_extra:
            about: Any = field.json_schema_extra["option"]
            yield Declared((name,), about, field)


def table_type(field: FieldInfo) -> type[BaseModel] | None:
    """The settings class of a field that is a table, or of the tables in a field that is a list of them."""
    kinds = (field.annotation, *get_args(field.annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def misplaced(settings: BaseModel, method: str) -> list[str]:
    """The flags that were given and do not belong to a method."""
    return [
        each.flag
        for each in declared_in(type(settings))
        if each.option.methods
        and method not in each.option.methods
        and each.value_in(settings) != each.field.default
    ]


def flag_of(keyword: str) -> str:
    """The flag of a keyword, unless its option declares another: --learning-rate of learning_rate."""
    return "--" + keyword.replace("_", "-")


def spelled(value: Any) -> str:
    """A value as it is typed."""
    if isinstance(value, Enum):
        return word_of(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
