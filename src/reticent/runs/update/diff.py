"""`reticent diff` as a call: snapshots compared, written to a run directory."""

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reticent.core.model import LanguageModel
from reticent.models.huggingface.loading import load_model
from reticent.runs.audit.subject import find_model
from reticent.runs.experiment_log import opened_log
from reticent.runs.update.run import (
    FIGURE,
    DiffSettings,
    Known,
    UpdateStep,
    compare_snapshots,
    diff_to_json,
    start_diff,
    write_diff,
)
from reticent.runs.update.settings import UpdateSettings


@dataclass(frozen=True, slots=True)
class Diff:
    """What every update reveals, and where it is written."""

    steps: Sequence[UpdateStep]
    search: DiffSettings
    path: Path
    reveals: bool
    has_figure: bool

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        return diff_to_json(self.steps, settings=self.search, reveal=self.reveals) | {"run": str(self.path)}


def diff(settings: UpdateSettings) -> Diff:
    """Compare snapshots in order of time and write what each update reveals."""
    settings.look_around()
    update, untouched = (
        None if path is None else settings.corpus(path).load() for path in (settings.data, settings.untouched)
    )
    known = Known(update=update, untouched=untouched, nulls=_opened(settings.null))
    search = settings.comparison()
    steps = compare_snapshots(list(_opened(settings.snapshots)), search, known=known)
    run = start_diff(settings.out, settings=search, config=settings.recorded(), known=known)
    write_diff(run, steps, settings=search, reveal=settings.reveal)
    with opened_log(settings.log_place, settings.out.name) as log:
        for number, step in enumerate(steps):
            log.found(step.findings, step=number)
    return Diff(steps, search, settings.out, settings.reveal, has_figure=_draw(steps, settings.out))


def _opened(names: Sequence[str]) -> Iterator[LanguageModel]:
    """The models of these names, each loaded when it is asked for."""
    for name in names:
        yield load_model(find_model(name).source, name=name)


def _draw(steps: Sequence[UpdateStep], out: Path) -> bool:
    """Draw the figure of the first update; False where matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        return False
    from reticent.runs.update.figure import draw_prefix_scores

    draw_prefix_scores(steps[0].phrases, out / FIGURE)
    return True
