"""`reticent evaluate`: what private answers are worth: perplexity of held-out text under every mechanism.

With --compare-settings it compares orders and weight limits of SubMix-F instead, on an ensemble of public text.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.cli.console import Output, table
from reticent.cli.options import (
    AsJson,
    CorpusFormat,
    IdField,
    OwnerField,
    Protected,
    Seed,
    TextField,
    randomness_of,
)
from reticent.core.ranges import ANSWERS, EPSILON
from reticent.runs.corpora import corpus_at

if TYPE_CHECKING:
    from reticent.prediction.mechanisms.unprotected import NGramIndex
    from reticent.prediction.planner import Plan
    from reticent.runs.ensemble.evaluation import Line

_NGRAM = 8  # tokens that MemFree never lets through twice


def evaluate(
    run: Annotated[Path, typer.Argument(help="Run directory of `train --method submix`.", metavar="RUN")],
    data: Annotated[Path, typer.Option("--data", help="Held-out corpus.", metavar="FILE")],
    mechanisms: Annotated[
        str, typer.Option("--mechanisms", help="Names with commas between them, or all.", metavar="NAMES")
    ] = "all",
    epsilon: Annotated[
        str, typer.Option("--epsilon", help="ε, or several with commas between them.", metavar="LIST")
    ] = "8",
    delta: Annotated[float, typer.Option("--delta", help="δ of every mechanism that has one.")] = 1e-5,
    queries: Annotated[
        int, typer.Option("--queries", help="Tokens answered within one budget.", min=1, max=int(ANSWERS.high))
    ] = 1024,
    repeats: Annotated[
        int, typer.Option("--repeats", help="Draws of held-out text; intervals are over them.", min=1, max=1000)
    ] = 3,
    settings_too: Annotated[
        bool,
        typer.Option(
            "--compare-settings",
            help="Compare orders and weight limits of submix-f, on an ensemble and a text that are public.",
        ),
    ] = False,
    unit: Annotated[Protected, typer.Option("--unit", help="What is protected.")] = Protected.PART,
    train: Annotated[
        Path | None, typer.Option("--train", help="Training corpus, which MemFree must know.", metavar="FILE")
    ] = None,
    max_length: Annotated[
        int, typer.Option("--max-length", help="Tokens read of a text.", min=1, max=1_000_000)
    ] = 128,
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write the JSON document to.", metavar="FILE")
    ] = None,
    text_field: TextField = "text",
    id_field: IdField = "id",
    owner_field: OwnerField = "owner",
    format: CorpusFormat = None,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Compare mechanisms at equal (ε, δ) on held-out text, for the operator alone.

    Nothing is charged, so its numbers are covered by no guarantee: do not publish them.
    """
    from reticent.core.document import require_writable
    from reticent.runs.ensemble.manifest import Manifest

    if out is not None:
        require_writable(out)
    fields: dict[str, Any] = {"text": text_field, "id": id_field, "owner": owner_field, "format": format}
    corpus = corpus_at(data, **fields)
    Manifest.read(run)  # what is no ensemble is said before torch is loaded
    from reticent.core.guarantee import Unit
    from reticent.runs.ensemble.evaluation import (
        EvaluationSettings,
        compare_mechanisms,
        compare_settings,
        mechanisms_for,
    )
    from reticent.runs.ensemble.loading import load_ensemble
    from reticent.runs.ensemble.prediction import check_unit

    output = Output(as_json=as_json)
    budgets = _numbers(epsilon)
    held_out = corpus.load()
    check_unit(run, Unit(unit.value))
    ensemble = load_ensemble(run)
    index = None if train is None else _index(ensemble.public, corpus_at(train, **fields).load().texts)
    settings = EvaluationSettings(
        mechanisms=mechanisms_for(mechanisms, ensemble, has_index=index is not None),
        epsilons=budgets,
        delta=delta,
        answers=queries,
        repeats=repeats,
        unit=Unit(unit.value),
        index=index,
    )
    texts = [tokens[:max_length] for tokens in ensemble.public.encode(held_out.texts)]
    facts = {
        "schema_version": 1,
        "run": str(run),
        "parts": len(ensemble.parts),
        "queries": queries,
        "delta": delta,
        "unit": unit.value,
    }
    title = f"{len(ensemble.parts)} parts, {queries:,} answers, δ = {delta:g}, by {unit.value}"
    if settings_too:
        plans = compare_settings(ensemble, texts, settings)
        found = [{"epsilon": at} | each.to_json() for at, each in plans]
        _write(facts | {"settings": found}, out, output)
        _show_settings(plans, output, title=title)
        return
    with output.progress() as bars:
        task = bars.add_task("evaluating", total=repeats, status="")
        lines = compare_mechanisms(
            ensemble,
            texts,
            settings,
            randomness=randomness_of(seed),
            observe=lambda done: bars.update(task, completed=done),
        )
    _write(facts | {"lines": [line.to_json() for line in lines]}, out, output)
    _show(lines, output, title=title)


def _write(document: dict[str, Any], out: Path | None, output: Output) -> None:
    from reticent.core.document import write_document

    if out is not None:
        write_document(out, document, mode=0o600)
    output.document(document)


def _numbers(text: str) -> tuple[float, ...]:
    from reticent.core.errors import ConfigError

    try:
        found = tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        found = ()
    if not found or not all(EPSILON.low <= value <= EPSILON.high for value in found):
        raise ConfigError("--epsilon needs positive numbers", found=text, expected=f"8, or 2,8: each {EPSILON}")
    return found


def _index(public: Any, texts: list[str]) -> "NGramIndex":
    from reticent.prediction.mechanisms.unprotected import NGramIndex

    return NGramIndex(public.encode(texts), _NGRAM)


def _show(lines: "list[Line]", output: Output, *, title: str) -> None:
    rows = []
    for line in lines:
        spread = line.spread
        rows.append(
            (
                line.mechanism.value,
                "–" if line.epsilon is None else f"{line.epsilon:g}",
                f"{spread.value:,.2f}",
                f"{spread.low:,.2f} to {spread.high:,.2f}",
                "–" if line.realised is None else f"{line.realised:.0%}",
                "nothing" if line.guarantee is None else f"{line.guarantee.notion.value}",
            )
        )
    columns = ("mechanism", "ε", "perplexity", "95% interval", "of the gap", "proves")
    output.show(table(title, columns, rows))
    over = "texts" if lines[0].spread.seeds == 1 else "repeats"
    output.show(
        f"Intervals over {over}. Gap: from the public model to the non-private ensemble, in log-perplexity."
    )


def _show_settings(plans: "list[tuple[float, Plan]]", output: Output, *, title: str) -> None:
    rows = [
        (
            f"{epsilon:g}",
            f"{each.order:g}",
            f"{each.weight_limit:g}",
            f"{each.perplexity:,.2f}",
            "–" if each.realised is None else f"{each.realised:.0%}",
        )
        for epsilon, each in plans
    ]
    output.show(table(title, ("ε", "--order", "--weight-limit", "perplexity", "of the gap"), rows))
    first = plans[0][1]
    output.show(
        f"The public model alone has {first.public:,.2f}, the non-private ensemble {first.non_private:,.2f}.",
        "The best line looks a little better than it is: this text chose it.",
        "Use it for another ensemble only if this one and this text are public: a choice made on private text is"
        " covered by no guarantee.",
    )
