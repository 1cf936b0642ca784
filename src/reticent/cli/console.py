"""What the command line shows: tables for people, one JSON document for programs, progress on stderr.

With `--json`, stdout holds one JSON document and nothing else; everything meant for a person goes to stderr.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

Item = TypeVar("Item")


class Output:
    """Where a command's result goes: `document` for programs or `show` for people, never both on stdout."""

    def __init__(self, *, as_json: bool, is_silent: bool = False) -> None:
        """`is_silent` for a process that another one speaks for."""
        self.as_json = as_json
        self._is_silent = is_silent
        self._people = Console(file=sys.stderr if as_json else sys.stdout, highlight=False, quiet=is_silent)
        self._progress = Console(file=sys.stderr, highlight=False, quiet=is_silent)

    def show(self, *lines: object) -> None:
        """Lines or tables for a person; silent when the output is for a program."""
        if not self.as_json:
            for line in lines:
                self._people.print(line, markup=False) if isinstance(line, str) else self._people.print(line)

    def document(self, value: dict[str, Any]) -> None:
        """The one JSON document of this run; silent when the output is for a person."""
        if self.as_json and not self._is_silent:
            is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
            text = json.dumps(value, indent=2, ensure_ascii=not is_unicode, allow_nan=False)
            sys.stdout.write(text + "\n")

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """A progress display on stderr; nothing where stderr is not a terminal."""
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        hidden = not self._progress.is_terminal
        with Progress(*columns, console=self._progress, transient=True, disable=hidden) as bars:
            yield bars

    def track(self, items: Iterable[Item], description: str, total: int | None = None) -> Iterator[Item]:
        """The items, with a progress bar while they are consumed."""
        with self.progress() as bars:
            task = bars.add_task(description, total=total, status="")
            for item in items:
                yield item
                bars.advance(task)


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> Table:
    """A plain table: the first column left, numbers right."""
    drawn = Table(
        title=title, title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False
    )
    for index, column in enumerate(columns):
        drawn.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
    for row in rows:
        drawn.add_row(*(str(cell) for cell in row))
    return drawn
