"""The command line: one verb a module of `reticent.cli`, errors as advice, exit codes that mean something.

    0  nothing failed          1  a limit was exceeded, a requirement not met, or a guarantee refuted
    2  the caller must fix something          3  budget exhausted          70  a bug of ours

A verb's module is imported when the verb is called, and heavy libraries inside the verb, so that every answer comes
soon and `--help` never imports torch.
"""

import io
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
import typer.core

from reticent import __version__
from reticent.cli.flags import VerbCommand
from reticent.cli.system_errors import system_error
from reticent.core.errors import BudgetExhausted, ReticentError, UsageError
from reticent.core.extras import optional_imports
from reticent.core.printing.safe_text import on_one_line

NOTHING_FAILED = 0
USAGE = 2
EXHAUSTED = 3
BUG = 70

# Recent versions of typer carry their own copy of click, whose exceptions have no public name.
_ClickException: type[Exception] = typer.BadParameter.mro()[2]

# What typer's parser says of a word that is no number, and what we say.
_UNREAD = {
    "Input should be a valid integer, unable to parse string as an integer": (
        "not a whole number; expected digits alone, such as 1000 (no commas, no units)"
    ),
    "Input should be a valid number, unable to parse string as a number": (
        "not a number; expected one such as 1000, 0.5 or 1e-5 (no commas, no units)"
    ),
}

# In the order of the help. The verb X is the name `X` of the module `reticent.cli.X`: a function, or a group.
VERBS = (
    *("demo", "scan", "scrub", "dedup", "plant", "plan", "train", "synthesize", "predict", "evaluate", "serve"),
    *("audit", "diff", "report", "init", "ledger", "keys", "bound"),
)


class _Commands(Mapping[str, Any]):
    """The commands by name, each made when it is first asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in VERBS:
            raise KeyError(name)
        if name not in self._made:
            verb = getattr(import_module(f"reticent.cli.{name}"), name)
            alone = typer.Typer(rich_markup_mode=None)
            if isinstance(verb, typer.Typer):
                alone.add_typer(verb, name=name)
            else:
                alone.command(name, cls=VerbCommand)(verb)
            self._made[name] = typer.main.get_group(alone).commands[name]
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


_COMMANDS = _Commands()


class _Verbs(typer.core.TyperGroup):
    """All verbs."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _COMMANDS  # type: ignore[assignment]


app = typer.Typer(
    name="reticent",
    cls=_Verbs,
    help="Measure, limit and prove what a language model reveals about its training text.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,  # its tracebacks print local variables, which may be corpus text
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"reticent {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Measure, limit and prove what a language model reveals about its training text."""


def main(arguments: list[str] | None = None) -> None:
    """Entry point: run the verb and exit with its code."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None, program: typer.Typer | None = None) -> int:
    """Run a command line, by default that of reticent, and return its exit code; an error is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that has no ε shows a question mark for it
            stream.reconfigure(errors="replace")
    try:
        name = "reticent" if program is None else program.info.name
        with optional_imports("this"):
            outcome = (program or app)(args=arguments, standalone_mode=False, prog_name=name)
        sys.stdout.flush()  # what cannot be written is said now, not when Python has gone
    except UsageError as error:
        return _complain(str(error), error.hint, USAGE)
    except BudgetExhausted as error:
        return _complain(str(error), None, EXHAUSTED)
    except ReticentError as error:
        return _complain(str(error), None, BUG)
    except _ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(str(error))
            return USAGE
        context = getattr(error, "ctx", None)
        asked = "reticent" if context is None else context.command_path
        return _complain(_described(error), f"{asked} --help", USAGE)
    except (typer.Abort, KeyboardInterrupt):
        return _complain("interrupted", None, 130)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not an error of ours, nor worth a message.
        _drop_output()
        return NOTHING_FAILED
    except Exception as error:
        refused = system_error(error)
        if refused is not None:
            try:
                sys.stdout.flush()
            except OSError:
                _drop_output()  # or Python fails once more at its end, with a code and words of its own
            return _complain(str(refused), refused.hint, USAGE)
        traceback.print_tb(error.__traceback__)  # where, but not the message: it may quote corpus text
        return _complain(
            f"this is a bug in reticent ({type(error).__name__})", "please report the lines above", BUG
        )
    return outcome if isinstance(outcome, int) else NOTHING_FAILED


def _drop_output() -> None:
    """What is still to be written goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(what: str, hint: str | None, code: int) -> int:
    """One line on stderr, with a hint where there is one."""
    flat = " ".join(what.split()) + (f" (hint: {hint})" if hint else "")
    typer.echo(f"error: {on_one_line(flat)}", err=True)
    return code


def _described(error: Exception) -> str:
    """What click says of a wrong call, with the option it is about."""
    described = getattr(error, "format_message", None)
    said = (str(described()) if callable(described) else str(error)).replace(": Value error, ", ": ")
    for unread, expected in _UNREAD.items():
        said = said.replace(unread, expected)
    return said
