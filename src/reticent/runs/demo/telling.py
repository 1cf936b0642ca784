"""The story itself: plant → train four ways → attack each → compare with what was proved → one page.

DIR/  train.jsonl  holdout.jsonl  utility.jsonl  canaries.json (what was planted, in clear)
      undefended/  dp-sgd/  crt/  submix/       runs of `reticent train`
      audit-NAME/  update-NAME/                 runs of `reticent audit` and `reticent diff`
      report.html  report.md
"""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from reticent.core.document import write_atomically
from reticent.data.reading.corpus_file import open_corpus
from reticent.engine.work import EngineSettings, Piece, open_engine, run_pieces
from reticent.models.embedded import EMBEDDED
from reticent.reporting.formats.markdown import render_markdown
from reticent.reporting.formats.page import render_page
from reticent.reporting.report import RunReport, Utility
from reticent.runs.demo.chapters import CHAPTERS, CRT, DP_SGD, PARTS, Chapter, tell_chapter
from reticent.runs.demo.corpora import write_corpora
from reticent.runs.demo.scale import EPSILON, SMALL_EPSILON, TARGETS, TRAIN, Recipes
from reticent.runs.demo.settings import DemoSettings
from reticent.runs.demo.story import PUBLIC, UNDEFENDED, Story, Told
from reticent.runs.directory import PAGE
from reticent.runs.report.reading import read_report, record_ids
from reticent.runs.report.texts import read_facts

TOTAL: Final = PARTS * len(CHAPTERS)  # that `Watch` hears when everything is trained and attacked
_WORKERS: Final = 2
_SUBMIX: Final = tuple(f"submix-f-{epsilon:g}" for epsilon in (SMALL_EPSILON, EPSILON))
_SHOWN: Final = {
    UNDEFENDED: "undefended",
    DP_SGD: "DP-SGD",
    CRT: "CRT",
    **{f"submix-f-{epsilon:g}": f"SubMix-F (ε\u00a0=\u00a0{epsilon:g})" for epsilon in (SMALL_EPSILON, EPSILON)},
    PUBLIC: "public",
}
_TOLD: Final = (PUBLIC, UNDEFENDED, DP_SGD, CRT, *_SUBMIX)

Watch = Callable[[int, str], None]  # hears how much is done, of TOTAL, and what that is


def tell(settings: DemoSettings, *, watch: Watch) -> Story:
    """Tell the story: write the corpora, train, attack, and write the report."""
    folder = settings.folder
    watch(0, "writing dialogues")
    corpora = write_corpora(folder, seed=settings.seed, scale=settings.sizes)
    recipes = Recipes(folder, settings.model or EMBEDDED, settings.sizes, seed=settings.seed)
    chapters = [Chapter(name, recipes, corpora) for name in CHAPTERS]
    models = _told(chapters, watch)
    watch(TOTAL, "writing the report")
    page = _write_report(folder, models)
    return Story(tuple(models[name] for name in _TOLD), corpora.canaries[0].bits, folder, page)


def _told(chapters: list[Chapter], watch: Watch) -> dict[str, Told]:
    """What the chapters found, by model; as many at once as there are cores, two at most."""
    models: dict[str, Told] = {}

    def land(_: str, told: tuple[Told, ...]) -> None:
        models.update({one.name: one for one in told})

    def observe(done: int) -> bool:
        watch(done, f"done: {', '.join(models)}" if models else "training and attacking")
        return True

    engine = EngineSettings(workers=min(_WORKERS, os.cpu_count() or 1), tries=1)
    with open_engine(engine) as opened:
        pieces = (Piece(chapter.name, chapter) for chapter in chapters)
        run_pieces(pieces, tell_chapter, engine=opened, land=land, observe=observe)
    return models


def _write_report(folder: Path, models: dict[str, Told]) -> Path:
    """The page of all audits side by side, each with what its update reveals; no text and no secret in it."""
    audits = [folder / f"audit-{name}" for name in _SHOWN]
    updates = [folder / f"update-{name}" for name in (UNDEFENDED, DP_SGD)]
    facts = read_facts(open_corpus(folder / TARGETS), "patterns", ids=record_ids(audits))
    diffs = {run.name.removeprefix("update-"): run for run in read_report(updates, facts=facts).runs}
    found = read_report(audits, facts=facts)
    runs = [_shown(run, diffs, models) for run in found.runs]
    page = folder / PAGE
    found = replace(found, runs=tuple(runs))
    write_atomically(page, render_page(found).encode("utf8"), mode=0o600)
    write_atomically(page.with_suffix(".md"), render_markdown(found).encode("utf8"), mode=0o600)
    return page


def _shown(run: RunReport, diffs: dict[str, RunReport], models: dict[str, Told]) -> RunReport:
    """An audit under the name of its model, with the findings of its update, and a perplexity if it has none."""
    name = run.name.removeprefix("audit-")
    if (diff := diffs.get(name)) is not None:
        absent = {key: why for key, why in run.absent.items() if key != "update" or not diff.update}
        run = replace(run, findings=(*run.findings, *diff.findings), update=diff.update, absent=absent)
    if not run.utility:
        found = models[name].perplexity
        useful = Utility(name="held-out perplexity", value=found.value, low=found.low, high=found.high, n=0)
        run = replace(run, utility=(useful,))
    # The public model was trained on none of it, and the others on more than the messages that are attacked.
    return replace(run, name=_SHOWN[name], corpus="" if name == PUBLIC else TRAIN)
