"""Flags from settings: a verb's command line is made from its settings class, so that no flag is written twice.

    @verb(DedupSettings)
    def dedup(settings: DedupSettings, output: Output) -> None:
        \"""Remove duplicates from a corpus.\"""

The command has one parameter for every option of the class. Flags that were not given are None and leave the TOML
file or the default in force. Help lists the options panel by panel.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar, get_origin

import typer
import typer.core

from reticent.cli.console import Output
from reticent.runs.settings.declaration import Declared, Settings, declared_in
from reticent.runs.training.launch import is_follower

AnySettings = TypeVar("AnySettings", bound=Settings)


def verb(
    settings: type[AnySettings], *, instead: Mapping[str, type[Settings]] | None = None
) -> Callable[[Callable[[Any, Output], int | None]], Callable[..., int | None]]:
    """Decorates what a verb does: the command builds the settings from its flags and passes them on.

    `instead` names, by flag, other settings that the command builds where that flag is given.
    """

    def skin(act: Callable[[Any, Output], int | None]) -> Callable[..., int | None]:
        def command(**flags: Any) -> int | None:
            given = {name: value for name, value in flags.items() if value is not None}
            kind = next((other for name, other in (instead or {}).items() if name in given), settings)
            asked = kind.of_flags(**given)
            return act(asked, Output(as_json=getattr(asked, "as_json", False), is_silent=is_follower()))

        command.__name__, command.__doc__ = act.__name__, act.__doc__
        command.__signature__ = signature_of(settings)  # type: ignore[attr-defined]
        command.__annotations__ = {}
        command.settings = settings  # type: ignore[attr-defined]
        return command

    return skin


def signature_of(settings: type[Settings]) -> inspect.Signature:
    """The parameters of a verb's command."""
    has_file = "config" in settings.model_fields  # which may hold what is required
    options = sorted(declared_in(settings), key=lambda each: (not each.option.positional, each.option.last))
    return inspect.Signature(
        [
            _parameter(each, is_required=each.field.is_required() and not (has_file and each.option.in_file))
            for each in options
        ]
    )


def _parameter(each: Declared, *, is_required: bool) -> inspect.Parameter:
    """One flag: its type as typer parses it, and its help with the methods it belongs to and its default."""
    about = each.option
    kind: Any = Literal[each.choices] if each.choices else each.type
    if get_origin(kind) is tuple:  # of words: a flag that may be repeated
        kind = list[kind.__args__[0]]
    methods = f" Only for {', '.join(sorted(about.methods))}." if about.methods else ""
    default = "" if each.default is None else f" [default: {each.default}]"
    shown: Any = {
        "help": f"{about.help}{methods}{default}",
        "metavar": about.metavar,
        "hidden": about.hidden,
        "show_default": False,
        "envvar": about.environment,
        "rich_help_panel": about.panel,
    }
    described = typer.Argument(**shown) if about.positional else typer.Option(each.flag, **shown)
    return inspect.Parameter(
        each.keyword,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if is_required else None,
        annotation=Annotated[kind if is_required else kind | None, described],
    )


class VerbCommand(typer.core.TyperCommand):
    """A command whose help lists its options panel by panel."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options: those of no panel first."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                name = "Arguments" if parameter.param_type_name == "argument" else "Options"
                panels.setdefault(getattr(parameter, "rich_help_panel", None) or name, []).append(record)
        for name in sorted(panels, key=lambda name: name not in ("Arguments", "Options")):
            with formatter.section(name):
                formatter.write_dl(panels[name])
