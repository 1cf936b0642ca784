"""What the command line shows: tables for people, one JSON document for programs, progress on stderr.

With `--json`, stdout holds one JSON document and nothing else; everything meant for a person goes to stderr.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from reticent.core.document import as_json
from reticent.core.printing.safe_text import for_json, for_terminal, on_one_line

Item = TypeVar("Item")
_SECONDS_A_LINE: Final = 10.0


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
                self._people.print(Text(for_terminal(line)) if isinstance(line, str) else line)

    def document(self, value: object) -> None:
        """The one JSON document of this run; silent when the output is for a person."""
        if self.as_json and not self._is_silent:
            is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
            text = json.dumps(as_json(value), indent=2, ensure_ascii=not is_unicode, allow_nan=False)
            sys.stdout.write(for_json(text) + "\n")

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """A progress display on stderr: bars on a terminal, elsewhere a plain line now and then, for people."""
        columns = (
            SpinnerColumn(),
            PlainColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            PlainColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        if not self._progress.is_terminal:
            yield PlainProgress(self._progress, is_silent=self.as_json)
            return
        with Progress(*columns, console=self._progress, transient=True) as bars:
            yield bars

    def track(self, items: Iterable[Item], description: str, total: int | None = None) -> Iterator[Item]:
        """The items, with a progress bar while they are consumed."""
        with self.progress() as bars:
            task = bars.add_task(description, total=total, status="")
            for item in items:
                yield item
                bars.advance(task)


class PlainProgress(Progress):
    """Progress for logs: a line at most every ten seconds, none twice, none of work that is done before."""

    def __init__(
        self, console: Console, *, is_silent: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(console=console, disable=True)
        self._clock = clock
        self._next = math.inf if is_silent else clock() + _SECONDS_A_LINE
        self._said: dict[TaskID, str] = {}

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """As `Progress.update`."""
        super().update(task_id, **changes)
        self._say(task_id)

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """As `Progress.advance`."""
        super().advance(task_id, advance)
        self._say(task_id)

    def _say(self, task_id: TaskID) -> None:
        if self._clock() < self._next:
            return
        task = self._tasks[task_id]
        done = f"{task.completed:,.0f}" + ("" if task.total is None else f" of {task.total:,.0f}")
        words = f"{task.description}: {done}  {task.fields.get('status', '')}".strip()
        if self._said.get(task_id) == words:
            return
        self._next, self._said[task_id] = self._clock() + _SECONDS_A_LINE, words
        self.console.print(Text(on_one_line(words)), soft_wrap=True)


class PlainColumn(TextColumn):
    """A column whose text means itself: names of files and labels are no markup."""

    def render(self, task: Task) -> Text:
        """The text of one task."""
        return Text(on_one_line(self.text_format.format(task=task)))


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> Table:
    """A plain table: the first column left, numbers right."""
    heading = Text(on_one_line(title), style="bold") if title else None
    drawn = Table(title=heading, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for index, column in enumerate(columns):
        drawn.add_column(Text(on_one_line(column)), justify="left" if index == 0 else "right", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(on_one_line(str(cell))) for cell in row))
    return drawn
