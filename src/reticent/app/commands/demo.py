"""`reticent demo`: the story in one command, offline."""

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reticent.app.console import Output, table
from reticent.app.options import AsJson
from reticent.app.rounding import at_least, at_most
from reticent.core.errors import ConfigError

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from reticent.app.demo import Row, Story
    from reticent.app.training_run import Observer


def demo(
    out: Annotated[
        Path | None, typer.Option("--out", help="Keep corpora, models and ledger here.", metavar="DIR")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of corpus and shuffling.", metavar="N", min=0)] = 7,
    quick: Annotated[bool, typer.Option("--quick", help="A smaller story, for a first look.")] = False,
    as_json: AsJson = False,
) -> int:
    """The story on generated dialogues and the embedded model: secrets planted, trained on, asked for, bounded."""
    from reticent.app.demo import Scale, tell

    output = Output(as_json=as_json)
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out}: not an empty directory", hint="choose another --out")
    folder = Path(tempfile.mkdtemp(prefix="reticent-demo-")) if out is None else out
    scale = Scale(dialogues=120, held_out=40, canaries=4, copies=8, epochs=2.0, batch=12) if quick else Scale()
    output.show(
        f"{scale.canaries} customers mention a secret number in {scale.copies} of "
        f"{scale.dialogues + scale.canaries * scale.copies} dialogues. A public model is trained on them, without "
        "defence and with DP-SGD that protects customers; then each model is asked for the numbers.",
        "",
    )
    try:
        with output.progress() as bars:
            story = tell(folder, seed=seed, scale=scale, observer=lambda name: _observer(bars, name))
        output.document(story.to_json())
        output.show(*_lines(story, kept=out is not None))
    finally:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
    return int(any(row.is_refuted for row in story.rows))


def _observer(bars: "Bars", name: str) -> "Observer":
    """A progress bar for one training."""
    task = bars.add_task(name, total=None, status="")

    def observe(progress: object, epsilon: float | None) -> bool:
        step, steps, speed = progress.step, progress.steps, progress.tokens_per_second  # type: ignore[attr-defined]
        spent = "" if epsilon is None else f"ε {epsilon:.2f}  "
        bars.update(task, completed=step, total=steps, status=f"{spent}{speed:,.0f} tokens/s")
        return True

    return observe


def _lines(story: "Story", *, kept: bool) -> list[object]:
    """The table and what it says."""
    columns = ["model", "perplexity", "bits left", "of the worst", "proved left"]
    rows = [
        (
            row.name,
            f"{row.perplexity:.2f}",
            f"{row.bits_left:.1f}",
            f"{row.worst_bits_left:.1f}",
            "–" if row.proved_bits_left is None else f"≥ {at_least(row.proved_bits_left)}",
        )
        for row in story.rows
    ]
    title = f"{story.secrets} secrets of {story.bits:.1f} bits each"
    lines: list[object] = [table(title, columns, rows), ""]
    lines += [_sentence(row, story) for row in story.rows[1:]]
    if kept:
        lines.append(f"Corpora, models, ledger and the key of the secrets are in {story.folder}.")
    return lines


def _sentence(row: "Row", story: "Story") -> str:
    """What one row says."""
    chance = f"names a customer's secret at the first try with chance {2.0**-row.bits_left:.2g}"
    guess = f"guessing has {2.0**-story.bits:.1g}"
    if row.guarantee is None or row.proved_bits_left is None:
        return f"{row.name}: who queries the model {chance} ({guess})."
    allowed = f"at most {at_most(2.0**-row.proved_bits_left, 2)} was proved for one {row.guarantee.unit.value}"
    promise = f"({at_most(row.guarantee.epsilon)}, {row.guarantee.delta:g})-DP"
    verdict = "REFUTED: more leaks than was proved possible" if row.is_refuted else "measured ≤ proved"
    return f"{row.name}: who queries it {chance} ({guess}); {allowed} by {promise}. {verdict}."
