"""Write docs/cli.md from the command line's own help; with --check, fail if the page is not the truth."""

import sys
from pathlib import Path
from typing import Any

import typer

from reticent.cli.main import app

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
WIDTH = 100


def page() -> str:
    """The whole page."""
    root = typer.main.get_command(app)
    parts = ["# Command line\n", "Generated from `--help` by `make docs`; do not edit.\n"]
    parts += [
        f"{'#' * (len(name.split()) + 1)} `{name}`\n\n```text\n{text}\n```\n"
        for name, text in _commands(root, "reticent", root.context_settings["help_option_names"])
    ]
    return "\n".join(parts)


def _commands(command: Any, name: str, help_names: list[str]) -> list[tuple[str, str]]:
    """Every command below `command` with its help, in the order it is listed."""
    shape = {"max_content_width": WIDTH, "terminal_width": WIDTH, "help_option_names": help_names}
    context = command.context_class(command, info_name=name, **shape)
    found = [(name, "\n".join(line.rstrip() for line in command.get_help(context).splitlines()).strip())]
    for child in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, child)
        if not below.hidden:
            found += _commands(below, f"{name} {child}", help_names)
    return found


def main() -> int:
    """Write or check."""
    if "--check" in sys.argv[1:]:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf8") != page():
            sys.stderr.write("docs/cli.md is not what --help says; run: make docs\n")
            return 1
        return 0
    PAGE.write_text(page(), encoding="utf8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
