"""Tables IV and VI of PII-leakage: reconstruction against TAB, and what each defence leaves of every game.

The paper fine-tunes GPT-2-Large on court cases of the European Court of Human Rights; here the embedded model
learns generated case law (`app.pii_defences`). Each row is trained and attacked by itself. Small models memorise
less and know the text's form better, so levels differ from the printed ones; the orders are what is tested.
"""

from collections.abc import Mapping
from typing import Any, Final

from reticent.app.experiments.experiment import (
    ClaimVerdict,
    Experiment,
    Grid,
    Judgement,
    Paper,
    Piece,
    Rendering,
    Scale,
    Values,
)
from reticent.core.randomness import Randomness

DEFENCES: Final = ("undefended", "DP", "scrubbed", "DP and scrubbed")
METRICS: Final = {
    "extraction precision": "pii_precision",
    "extraction recall": "pii_recall",
    "TAB": "reconstruction_tab",
    "reconstruction": "reconstruction_top1",
    "inference": "inference_accuracy_trained",
    "membership AUC": "auc",
}
SIZES: Final[dict[Scale, Values]] = {
    Scale.SMALL: {
        "cases": 24,
        "held_out": 96,
        "texts": 40,
        "targets": 40,
        "candidates": 20,
        "draws": 4,
        "epochs": 8,
    },
    Scale.MEDIUM: {
        "cases": 60,
        "held_out": 240,
        "texts": 400,
        "targets": 100,
        "candidates": 100,
        "draws": 16,
        "epochs": 15,
    },
    Scale.PAPER: {
        "cases": 1000,
        "held_out": 1000,
        "texts": 15_000,
        "targets": 1000,
        "candidates": 100,
        "draws": 64,
        "epochs": 4,
        "model": "gpt2-large",
    },
}
# Extraction precision, recall, reconstruction, inference, membership AUC; GPT-2-Large on ECHR, ε = 8.
PRINTED: Final = {
    "undefended": {"pii_precision": "30 %", "pii_recall": "23 %", "reconstruction_top1": "18 %"}
    | {"inference_accuracy_trained": "70 %", "auc": "0.96"},
    "DP": {"pii_precision": "3 %", "pii_recall": "3 %", "reconstruction_top1": "1 %"}
    | {"inference_accuracy_trained": "8 %", "auc": "0.5"},
    "scrubbed": {"pii_precision": "0 %", "pii_recall": "0 %", "reconstruction_top1": "0 %"}
    | {"inference_accuracy_trained": "1 %", "auc": "0.82"},
}


def _play(parameters: Values, randomness: Randomness) -> Values:
    from reticent.app.pii_defences import TableSettings, measure_defence, prepare_games
    from reticent.app.pii_training import Defence, TrainingSettings, train_defended

    settings = TableSettings(
        cases=parameters["cases"],
        held_out=parameters["held_out"],
        texts=parameters["texts"],
        targets=parameters["targets"],
        candidates=parameters["candidates"],
        draws=parameters["draws"],
        seed=randomness.child("games").fresh_seed() % 2**31,
        training=TrainingSettings(start=parameters.get("model", "embedded"), epochs=parameters["epochs"]),
    )
    games = prepare_games(settings)
    defended = train_defended(games.case_law, Defence(parameters["defence"]), settings=settings.training)
    row = measure_defence(defended, games, settings=settings)
    wanted = set(METRICS.values())
    return {
        "perplexity": row.perplexity,
        "masked_perplexity": row.masked_perplexity,
        "epsilon": None if defended.guarantee is None else defended.guarantee.epsilon,
        "findings": {
            one.metric: {"value": one.value, "low": one.low, "high": one.high, "null": one.null}
            for one in row.findings
            if one.metric in wanted
        },
        "comparisons": {one.finding.metric: one.verdict.value for one in row.comparisons},
    }


def _piece(scale: Scale, defence: str) -> Piece:
    return Piece(defence, {**SIZES[scale], "defence": defence}, _play, "pii-defences")


def _cell(one: Values, metric: str) -> str:
    found = one["findings"].get(metric)
    if found is None:
        return "–"
    return f"{found['value']:.2f} ({found['low']:.2f} to {found['high']:.2f})"


def _value(one: Values, metric: str, end: str = "value") -> float:
    """An end of a finding; nothing generated is nothing found."""
    found: dict[str, Any] | None = one["findings"].get(metric)
    return 0.0 if found is None else float(found[end])


def _falls(results: Mapping[str, Values], metric: str, defence: str) -> Judgement:
    """Whether a defence lowers a metric beyond its interval; not testable where the undefended shows nothing."""
    what = next(key for key, value in METRICS.items() if value == metric)
    claim = f"{'Scrubbing' if defence == 'scrubbed' else defence} lowers {what}."
    before, after = results["undefended"], results[defence]
    printed = " and ".join(PRINTED[name].get(metric, "–") for name in ("undefended", defence))
    reason = f"{_cell(before, metric)} undefended, {_cell(after, metric)} {defence}; printed {printed}."
    if _value(after, metric, "high") < _value(before, metric, "low"):
        return Judgement(claim, ClaimVerdict.HOLDS, reason)
    if _value(after, metric) < _value(before, metric):
        return Judgement(claim, ClaimVerdict.NOT_TESTABLE, f"{reason} The 95 % intervals overlap.")
    return Judgement(claim, ClaimVerdict.FAILS, reason)


def _render_table6(results: Mapping[str, Values]) -> Rendering:
    rows = []
    for name, one in results.items():
        rows.append((name, f"{one['perplexity']:.2f}", *(_cell(one, metric) for metric in METRICS.values())))
        if name in PRINTED:
            printed = [PRINTED[name].get(metric, "–") for metric in METRICS.values()]
            rows.append((f"{name}, printed", "–", *printed))
    private = results["DP"]
    refuted = [metric for metric, verdict in private["comparisons"].items() if verdict == "refuted"]
    return Rendering(
        judgements=(
            _falls(results, "pii_recall", "DP"),
            _falls(results, "inference_accuracy_trained", "DP"),
            _falls(results, "auc", "DP"),
            _falls(results, "pii_recall", "scrubbed"),
            _falls(results, "inference_accuracy_trained", "scrubbed"),
            Judgement.of(
                "Membership inference survives scrubbing (printed AUC 0.82).",
                _value(results["scrubbed"], "auc", "low") > 0.5,
                reason=f"AUC {_cell(results['scrubbed'], 'auc')}.",
            ),
            Judgement.of(
                "What is measured under DP stays within what was proved.",
                not refuted,
                reason=f"ε = {private['epsilon']:.2f}; compared: {', '.join(private['comparisons'])}.",
            ),
        ),
        tables=(
            Grid(
                "Defences on generated case law, 95 % intervals; printed: GPT-2-Large on ECHR",
                ("training", "perplexity", *METRICS),
                tuple(rows),
            ),
        ),
        notes=("Noise and sampling of the private rows come from the system's generator, not the seed.",),
    )


def _render_table4(results: Mapping[str, Values]) -> Rendering:
    one = results["undefended"]
    ours, rival = _value(one, "reconstruction_top1"), _value(one, "reconstruction_tab")
    claim = "Reconstruction with the suffix finds more than TAB, which continues the prefix greedily."
    reason = f"Top-1 {_cell(one, 'reconstruction_top1')} against {_cell(one, 'reconstruction_tab')}."
    verdict = ClaimVerdict.NOT_TESTABLE
    if _value(one, "reconstruction_top1", "low") > _value(one, "reconstruction_tab", "high"):
        verdict = ClaimVerdict.HOLDS
    elif _value(one, "reconstruction_top1", "high") < _value(one, "reconstruction_tab", "low"):
        verdict = ClaimVerdict.FAILS
    else:
        reason += " The intervals overlap: too few targets to tell."
    return Rendering(
        judgements=(Judgement(claim, verdict, reason),),
        tables=(
            Grid(
                "Reconstruction of persons, undefended",
                ("attack", "ours", "printed, ECHR, GPT-2-Large"),
                (("TAB", f"{rival:.1%}", "5.81 %"), ("ours, top-1", f"{ours:.1%}", "18.27 %")),
            ),
        ),
        notes=("The same targets for both; with few of them the intervals are wide.",),
    )


EXPERIMENTS: Final = (
    Experiment(
        name="pii-table4",
        paper=Paper.PII,
        title="reconstruction against TAB",
        pieces=lambda scale: [_piece(scale, "undefended")],
        render=_render_table4,
        needs_training=True,
    ),
    Experiment(
        name="pii-table6",
        paper=Paper.PII,
        title="what each defence leaves of every game",
        pieces=lambda scale: [_piece(scale, defence) for defence in DEFENCES],
        render=_render_table6,
        needs_training=True,
    ),
)
