"""Tables IV and VI of PII-leakage: reconstruction against TAB on three domains, and what each defence leaves.

The paper fine-tunes four sizes of GPT-2 on court cases, e-mails and reviews; here the embedded model learns
generated case law, dialogues, and court cases of TAB where the user has them (`pii.domains`). Each row is trained
and attacked by itself (`reproductions.pii.defences`). Small models memorise less and know the text's form better,
so levels differ from the printed ones; the orders are what is tested.

TAB is the name of two things: the attack that continues a prefix greedily, and the labelled corpus of court cases.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from reproductions.experiment import (
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
from reticent.core import Randomness

DEFENCES: Final = ("undefended", "DP", "scrubbed", "DP and scrubbed")
METRICS: Final = {
    "extraction precision": "pii_precision",
    "extraction recall": "pii_recall",
    "TAB": "reconstruction_tab",
    "reconstruction": "reconstruction_top1",
    "inference": "inference_accuracy_trained",
    "membership AUC": "auc",
}
GAMES: Final[dict[Scale, Values]] = {
    Scale.SMALL: {"texts": 40, "targets": 40, "candidates": 20, "draws": 4, "epochs": 8},
    Scale.MEDIUM: {"texts": 400, "targets": 100, "candidates": 100, "draws": 16, "epochs": 15},
    Scale.PAPER: {"texts": 15_000, "targets": 1000, "candidates": 100, "draws": 64, "epochs": 4},
}
# Cases or dialogues to train on and held out; TAB has 113 cases.
TEXT: Final = {
    Scale.SMALL: {"case law": (24, 72), "dialogues": (80, 160), "TAB": (60, 53)},
    Scale.MEDIUM: {"case law": (60, 240), "dialogues": (200, 800), "TAB": (60, 53)},
    Scale.PAPER: {"case law": (1000, 1000), "dialogues": (4000, 4000), "TAB": (60, 53)},
}
MODELS: Final = {
    Scale.SMALL: ("embedded",),
    Scale.MEDIUM: ("embedded",),
    Scale.PAPER: ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"),
}
# Table IV, GPT-2-Large without DP and at ε = 8: the attack TAB, and theirs with 64 candidates.
PRINTED_RECONSTRUCTION: Final = {
    "case law": ("ECHR", "5.81 %, 18.27 %", "0.48 %, 0.55 %"),
    "dialogues": ("Enron", "1.75 %, 12.68 %", "0.04 %, 0.55 %"),
    "TAB": ("ECHR", "5.81 %, 18.27 %", "0.48 %, 0.55 %"),
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
    from pathlib import Path

    from reproductions.pii.defences import TableSettings, measure_defence, prepare_games
    from reproductions.pii.domains import domain_text
    from reproductions.pii.training import Defence, TrainingSettings, train_defended

    settings = TableSettings(
        texts=parameters["texts"],
        targets=parameters["targets"],
        candidates=parameters["candidates"],
        draws=parameters["draws"],
        seed=randomness.child("games").fresh_seed() % 2**31,
        training=TrainingSettings(start=parameters["model"], epochs=parameters["epochs"]),
    )
    text = domain_text(
        parameters["domain"],
        parameters["training"],
        held_out=parameters["held_out"],
        data=Path(parameters["data"]) if "data" in parameters else None,
        randomness=randomness.child("text"),
    )
    games = prepare_games(settings, text)
    defended = train_defended(text, Defence(parameters["defence"]), settings=settings.training)
    row = measure_defence(defended, games, settings=settings)
    wanted = set(METRICS.values())
    return {
        "perplexity": row.perplexity,
        "masked_perplexity": row.masked_perplexity,
        "epsilon": None if defended.guarantee is None else defended.guarantee.epsilon,
        "tagger": text.tagged.recall.interval[0],
        "findings": {
            one.metric: {"value": one.value, "low": one.low, "high": one.high, "null": one.null}
            for one in row.findings
            if one.metric in wanted
        },
        "comparisons": {one.finding.metric: one.verdict.value for one in row.comparisons},
    }


def _piece(scale: Scale, defence: str, domain: str = "case law", model: str | None = None) -> Piece:
    sizes = TEXT[scale][domain]
    chosen = model or MODELS[scale][min(2, len(MODELS[scale]) - 1)]  # table VI is GPT-2-Large's
    parameters = {
        **GAMES[scale],
        "training": sizes[0],
        "held_out": sizes[1],
        "domain": domain,
        "defence": defence,
        "model": chosen,
    }
    files = ("tab.jsonl",) if domain == "TAB" else ()
    return Piece(_name(defence, domain, chosen), parameters, _play, "pii-defences", files)


def _name(defence: str, domain: str, model: str) -> str:
    return f"{domain}, {defence}, {model}"


def _table6_pieces(scale: Scale) -> list[Piece]:
    return [_piece(scale, defence) for defence in DEFENCES]


def _table4_pieces(scale: Scale) -> list[Piece]:
    return [
        _piece(scale, defence, domain, model)
        for domain in TEXT[scale]
        for model in MODELS[scale]
        for defence in ("undefended", "DP")
    ]


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


def _render_table6(named: Mapping[str, Values]) -> Rendering:
    results = {name.split(", ")[1]: one for name, one in named.items()}
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
    rows, judgements = [], []
    for name, one in results.items():
        domain, defence, model = name.split(", ")
        source, *printed = PRINTED_RECONSTRUCTION[domain]
        shown = f"{printed[defence == 'DP']} ({source})" if model in ("embedded", "gpt2-large") else "–"
        cells = [_cell(one, metric) for metric in ("reconstruction_tab", "reconstruction_top1")]
        rows.append((domain, model, defence, *cells, shown))
        if defence == "undefended":
            judgements.append(_finds_more(f"{domain}, {model}", one))
        elif domain == "case law":
            judgements.append(_reconstructs_less(results[_name("undefended", domain, model)], one, model))
    return Rendering(
        judgements=(*judgements, _sizes(results)),
        tables=(
            Grid(
                "Reconstruction of persons; printed: GPT-2-Large, the attack TAB and theirs",
                ("domain", "model", "training", "attack TAB", "ours, top-1", "printed"),
                tuple(rows),
            ),
        ),
        notes=(
            "The same targets for both attacks; with few of them the intervals are wide. The tagger finds at least "
            + ", ".join(f"{one['tagger']:.0%} of the labels of {d}" for d, one in _taggers(results).items())
            + ": what it misses is nobody's candidate.",
        ),
    )


def _taggers(results: Mapping[str, Values]) -> dict[str, Values]:
    return {name.split(", ")[0]: one for name, one in results.items()}


def _finds_more(where: str, one: Values) -> Judgement:
    """The attack of the paper against TAB, on one domain."""
    claim = f"Reconstruction with the suffix finds more than greedy continuation ({where})."
    reason = f"Top-1 {_cell(one, 'reconstruction_top1')} against {_cell(one, 'reconstruction_tab')}."
    if _value(one, "reconstruction_top1", "low") > _value(one, "reconstruction_tab", "high"):
        return Judgement(claim, ClaimVerdict.HOLDS, reason)
    if _value(one, "reconstruction_top1", "high") < _value(one, "reconstruction_tab", "low"):
        return Judgement(claim, ClaimVerdict.FAILS, reason)
    return Judgement(claim, ClaimVerdict.NOT_TESTABLE, f"{reason} The intervals overlap: too few targets to tell.")


def _reconstructs_less(before: Values, after: Values, model: str) -> Judgement:
    claim = f"DP lowers reconstruction (case law, {model})."
    metric = "reconstruction_top1"
    reason = f"{_cell(before, metric)} undefended, {_cell(after, metric)} with DP."
    if _value(after, metric, "high") < _value(before, metric, "low"):
        return Judgement(claim, ClaimVerdict.HOLDS, reason)
    is_lower = _value(after, metric) < _value(before, metric)
    return Judgement(claim, ClaimVerdict.NOT_TESTABLE if is_lower else ClaimVerdict.FAILS, reason)


def _sizes(results: Mapping[str, Values]) -> Judgement:
    """Larger models leak more, on case law; one size cannot say."""
    claim = "Larger models are reconstructed from more."
    found = [
        _value(one, "reconstruction_top1")
        for name, one in results.items()
        if name.startswith("case law, undefended")
    ]
    if len(found) < 2:
        return Judgement(claim, ClaimVerdict.NOT_TESTABLE, "One size of model at this scale.")
    return Judgement.of(claim, found[0] < max(found[2:]), reason=", ".join(f"{value:.2%}" for value in found) + ".")


_figure = partial(Experiment, paper=Paper.PII, needs_training=True)

EXPERIMENTS: Final = (
    _figure(
        name="pii-table4",
        title="reconstruction against TAB on three domains",
        pieces=_table4_pieces,
        render=_render_table4,
    ),
    _figure(
        name="pii-table6",
        title="what each defence leaves of every game",
        pieces=_table6_pieces,
        render=_render_table6,
    ),
)
