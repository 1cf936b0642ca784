"""`reticent diff` as a call: snapshots compared, written to a run directory with a figure.

The figure, drawn by matplotlib (extra `plot`), shows how much each token of a phrase gained, by the length of the
prefix that is known. Phrases are named by their number: no text stands in it.
"""

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from reticent.auditing.attacks.update.findings import FoundPhrase
from reticent.core.corpus import Corpus
from reticent.core.errors import ConfigError
from reticent.core.model import LanguageModel
from reticent.models.huggingface.loading import load_model
from reticent.runs.audit.subject import find_model
from reticent.runs.experiment_log import opened_log
from reticent.runs.update.comparing import (
    FIGURE,
    Known,
    PhraseSearch,
    UpdateStep,
    compare_snapshots,
    diff_to_json,
    start_diff,
    write_diff,
)
from reticent.runs.update.settings import DiffSettings

_SHOWN: Final = 8
_COLOURS: Final = ("#0b6e99", "#c2571a", "#4d7c0f", "#7c3aed", "#b91c1c", "#525252", "#0d9488", "#a16207")


@dataclass(frozen=True, slots=True)
class Diff:
    """What every update reveals, and where it is written."""

    steps: Sequence[UpdateStep]
    search: PhraseSearch
    path: Path
    reveals: bool
    has_figure: bool

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        return diff_to_json(self.steps, settings=self.search, reveal=self.reveals) | {"run": str(self.path)}


def diff(settings: DiffSettings) -> Diff:
    """Compare snapshots in order of time and write what each update reveals."""
    settings.check_paths()
    update, untouched = (
        None if path is None else settings.corpus(path).load() for path in (settings.data, settings.untouched)
    )
    if update is not None and untouched is not None:
        _require_untouched(update, untouched, where=settings.untouched)
    known = Known(update=update, untouched=untouched, nulls=_opened(settings.null))
    search = settings.phrase_search()
    steps = compare_snapshots(list(_opened(settings.snapshots)), search, known=known)
    run = start_diff(settings.out, settings=search, config=settings.recorded(), known=known)
    write_diff(run, steps, settings=search, reveal=settings.reveal)
    with opened_log(settings.log_place, settings.out.name) as log:
        for number, step in enumerate(steps):
            log.found(step.findings, step=number)
    return Diff(steps, search, settings.out, settings.reveal, has_figure=_draw(steps, settings.out))


def _require_untouched(update: Corpus, untouched: Corpus, *, where: Path | None) -> None:
    """Refuse text for comparison that the update contains: nothing would tell the two apart."""
    if set(untouched.texts) <= set(update.texts):
        raise ConfigError(
            f"{where}: every text is also in --data, so it is not untouched",
            hint="give text of the same kind that the update did not contain",
        )


def _opened(names: Sequence[str]) -> Iterator[LanguageModel]:
    """The models of these names, each loaded when it is asked for."""
    for name in names:
        yield load_model(find_model(name).source, name=name)


def _draw(steps: Sequence[UpdateStep], out: Path) -> bool:
    """Draw the figure of the first update; False where matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        return False
    draw_prefix_scores(steps[0].phrases, out / FIGURE)
    return True


def draw_prefix_scores(phrases: Sequence[FoundPhrase], path: Path) -> None:
    """Differential score of each token given what stands before it, for the first phrases (the paper's fig. 1)."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    style = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True}
    with plt.rc_context({**style, "grid.alpha": 0.25, "figure.constrained_layout.use": True}):
        figure, axes = plt.subplots(figsize=(6, 4.0))
        for number, (one, colour) in enumerate(zip(phrases[:_SHOWN], _COLOURS, strict=False)):
            known = range(len(one.scores.increments))
            label = f"phrase {number}"
            axes.plot(known, one.scores.increments, marker="o", markersize=3, color=colour, label=label)
        axes.set(
            xlabel="tokens known before it",
            ylabel="differential score of the next token",
            xticks=range(max(len(one.scores.increments) for one in phrases)),
        )
        axes.axhline(0.0, color="0.6", linewidth=0.8)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=4, frameon=False, fontsize=8)
        figure.savefig(path, dpi=160)
        plt.close(figure)
