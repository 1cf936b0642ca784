"""Figures 4 to 7 of PII-leakage: what is extracted, by which properties, and what membership has to do with it.

    figure 4   recall by the number of records that hold a value, and by its length in tokens
    figure 5   precision and recall as more tokens are sampled
    figure 6   estimated against observed leakage; entity classes; inference by the length of the context
    figure 7   membership of sentences, memorisation of generated text, memorisation against reconstruction

The slides at hand print figures 6 and 7 with captions and no number but those quoted; figures 4 and 5 are known by
what they are drawn against. GPT-2-Large on court cases there, the embedded model on generated cases here
(`pii.games`): all four are drawn from one training.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from reproductions.experiment import (
    ClaimVerdict,
    Experiment,
    Grid,
    Judgement,
    Line,
    Panel,
    Paper,
    Picture,
    Piece,
    Rendering,
    Scale,
    Values,
)
from reticent.core import Randomness

NAME: Final = "undefended"
SIZES: Final[dict[Scale, Values]] = {
    Scale.SMALL: {
        "cases": 24,
        "held_out": 72,
        "texts": 80,
        "targets": 40,
        "candidates": 20,
        "draws": 4,
        "epochs": 8,
    },
    Scale.MEDIUM: {"cases": 60, "held_out": 240, "texts": 1000, "targets": 100, "candidates": 100}
    | {"draws": 16, "epochs": 15},
    Scale.PAPER: {"cases": 1000, "held_out": 2000, "texts": 15_000, "targets": 1000, "candidates": 100}
    | {"draws": 64, "epochs": 4, "model": "gpt2-large"},
}
_SHARES: Final = ("precision", "recall")
_ONE: Final = "One model on generated case law; 95 % intervals."


def _play(parameters: Values, randomness: Randomness) -> Values:
    from reproductions.pii.games import play_games

    return play_games(parameters, randomness)


def _pieces(scale: Scale) -> list[Piece]:
    return [Piece(NAME, dict(SIZES[scale]), _play, "pii-games")]


def _share(value: float | None, interval: Sequence[float]) -> str:
    return "–" if value is None else f"{value:.2f} ({interval[0]:.2f} to {interval[1]:.2f})"


def _recall_rows(rows: Sequence[Values]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (row["group"], str(row["training"]), str(row["hits"]), _share(row["recall"], row["recall_interval"]))
        for row in rows
    )


def _recall_line(name: str, rows: Sequence[Values]) -> Line:
    known = [(place, row) for place, row in enumerate(rows) if row["recall"] is not None]
    return Line(
        name=name,
        x=tuple(float(place) for place, _ in known),
        y=tuple(row["recall"] for _, row in known),
        low=tuple(row["recall_interval"][0] for _, row in known),
        high=tuple(row["recall_interval"][1] for _, row in known),
        is_marked=True,
    )


def _render_fig4(results: Mapping[str, Values]) -> Rendering:
    one = results[NAME]
    rows = one["duplication"]
    single = rows[0]
    often = [row for row in rows[2:] if row["training"]]  # three records and more
    hits, total = sum(row["hits"] for row in often), sum(row["training"] for row in often)
    columns = ("group", "training values", "emitted", "recall")
    panels = tuple(
        Panel(title=f"by {name}", x=f"bin of {name}", y="recall", lines=(_recall_line("recall", one[key]),))
        for name, key in (("records that hold the value", "duplication"), ("tokens of the value", "length"))
    )
    return Rendering(
        judgements=(
            _more(
                "Values that stand in more records are extracted more often.",
                (hits, total),
                (single["hits"], single["training"]),
                "in three records or more, and in one",
            ),
        ),
        tables=(
            Grid("Recall by the number of records that hold a value", columns, _recall_rows(rows)),
            Grid("Recall by the length of a value in tokens", columns, _recall_rows(one["length"])),
        ),
        pictures=(Picture("pii-fig4", panels),),
        notes=(_ONE, "A long value is a full name, a short one a town: length and kind are one here."),
    )


def _more(claim: str, first: tuple[int, int], second: tuple[int, int], what: str) -> Judgement:
    """Whether one share is above another by Fisher's exact test at 0.05; not testable where it cannot tell."""
    from scipy.stats import fisher_exact

    table = np.array([[first[0], first[1] - first[0]], [second[0], second[1] - second[0]]])
    chance = float(fisher_exact(table, alternative="greater").pvalue)
    reason = f"{first[0]} of {first[1]} and {second[0]} of {second[1]} {what}; Fisher's exact test: {chance:.2g}."
    if chance < 0.05:
        return Judgement(claim, ClaimVerdict.HOLDS, reason)
    is_higher = first[0] * second[1] > second[0] * first[1]
    verdict = ClaimVerdict.NOT_TESTABLE if is_higher or not first[1] else ClaimVerdict.FAILS
    return Judgement(claim, verdict, reason)


def _render_fig5(results: Mapping[str, Values]) -> Rendering:
    points = [point for point in results[NAME]["sampled"] if point["emitted"]]
    if not points:
        nothing = Judgement("Recall grows as more tokens are sampled.", ClaimVerdict.NOT_TESTABLE, "Nothing came.")
        return Rendering(judgements=(nothing,))
    x = tuple(float(point["after"]) for point in points)
    lines = tuple(
        Line(name=name, x=x, y=tuple(point[name] for point in points), is_marked=True)
        for name in ("precision", "recall")
    )
    rows = tuple(
        (f"{p['after']:,}", str(p["emitted"]), str(p["hits"]), f"{p['precision']:.2f}", f"{p['recall']:.3f}")
        for p in points
    )
    first, last = points[0], points[-1]
    return Rendering(
        judgements=(
            Judgement.of(
                "Recall grows as more tokens are sampled.",
                last["recall"] > first["recall"],
                reason=f"{first['recall']:.3f} after {first['after']:,} tokens, {last['recall']:.3f} after "
                f"{last['after']:,}; it cannot fall.",
            ),
            Judgement.of(
                "Precision falls as more tokens are sampled: new values are more often made up.",
                last["precision"] < first["precision"],
                reason=f"{first['precision']:.2f} of {first['emitted']} values, then {last['precision']:.2f} of "
                f"{last['emitted']}.",
            ),
        ),
        tables=(Grid("Extraction as more is sampled", ("tokens", "values", "hits", "precision", "recall"), rows),),
        pictures=(Picture("pii-fig5", (Panel(title="", x="tokens sampled", y="share", lines=lines),)),),
        notes=(_ONE,),
    )


def _render_fig6(results: Mapping[str, Values]) -> Rendering:
    one = results[NAME]
    leakage, contexts = one["extractability"], one["inference"]
    observed = tuple(float(count) for count in leakage["observed"])
    estimated = tuple(value / math.log(10.0) for value in leakage["estimated"])
    least, most = contexts[0], contexts[-1]
    classes = tuple(
        (row["group"], str(row["training"]), *(_share(row[name], row[f"{name}_interval"]) for name in _SHARES))
        for row in one["kind"]
    )
    found = [row["group"] for row in one["kind"] if row["hits"]]
    accuracy = Line(
        name="inference",
        x=tuple(float(row["characters"]) for row in contexts),
        y=tuple(row["right"] / row["targets"] for row in contexts),
        is_marked=True,
    )
    return Rendering(
        judgements=(
            _correlated(leakage["correlation"]),
            Judgement.of(
                "Other entity classes than persons are extracted as well.",
                any(kind != "PERSON" for kind in found),
                reason=f"Training values were emitted of: {', '.join(found) or 'no class'}.",
            ),
            _more(
                "Inference is the more accurate the longer the context.",
                (most["right"], most["targets"]),
                (least["right"], least["targets"]),
                f"right with {most['characters']} and with {least['characters']} characters",
            ),
        ),
        tables=(
            Grid("Extraction by entity class", ("class", "training values", "precision", "recall"), classes),
            Grid(
                "Inference by the length of prefix and suffix",
                ("characters", "right", "targets"),
                tuple((str(row["characters"]), str(row["right"]), str(row["targets"])) for row in contexts),
            ),
        ),
        pictures=(
            Picture(
                "pii-fig6",
                (
                    Panel(
                        title="persons",
                        x="estimated chance (log10)",
                        y="times emitted",
                        lines=(Line(name="values", x=estimated, y=observed, is_marked=True, is_joined=False),),
                    ),
                    Panel(title="", x="characters of context", y="accuracy", lines=(accuracy,), is_log_x=True),
                ),
            ),
        ),
        notes=(_ONE, "The same values with the same candidates at every length of context."),
    )


def _correlated(found: Sequence[float] | None) -> Judgement:
    claim = "Estimated leakage correlates with observed leakage."
    if found is None:
        return Judgement(claim, ClaimVerdict.NOT_TESTABLE, "No person was emitted, or all alike.")
    reason = f"Spearman's rank correlation {found[0]:.2f} ({found[1]:.2f} to {found[2]:.2f}) over persons."
    if found[1] > 0.0:
        return Judgement(claim, ClaimVerdict.HOLDS, reason)
    return Judgement(claim, ClaimVerdict.NOT_TESTABLE if found[2] > 0.0 else ClaimVerdict.FAILS, reason)


def _render_fig7(results: Mapping[str, Values]) -> Rendering:
    one = results[NAME]["membership"]
    means, area, success = one["means"], one["auc"], one["success"]
    scores, hits = one["reconstruction"]["scores"], one["reconstruction"]["hits"]
    lines = tuple(
        Line(
            name=name,
            x=tuple(score for score, hit in zip(scores, hits, strict=True) if hit is wanted),
            y=tuple(float(wanted) for hit in hits if hit is wanted),
            is_marked=True,
            is_joined=False,
        )
        for name, wanted in (("reconstructed", True), ("not", False))
        if wanted in hits
    )
    near = abs(means["generated"]) < 0.5 * abs(means["training"])
    rows = (
        ("AUC of membership", f"{area[0]:.2f} ({area[1]:.2f} to {area[2]:.2f})", "0.96"),
        *(
            (f"memorisation score, {name}", f"{value:+.2f}", "≈ 0" if name == "generated" else "–")
            for name, value in means.items()
        ),
        (
            "AUC of reconstruction by the score",
            "–" if success is None else f"{success[0]:.2f} ({success[1]:.2f} to {success[2]:.2f})",
            "–",
        ),
    )
    return Rendering(
        judgements=(
            Judgement.of(
                "A shadow model tells training sentences from others (printed AUC 0.96).",
                area[1] > 0.5,
                reason=f"AUC {area[0]:.2f} ({area[1]:.2f} to {area[2]:.2f}) with one shadow.",
            ),
            Judgement.of(
                "The memorisation score of generated sequences is nearly zero.",
                near,
                reason=f"{means['generated']:+.2f} nats a token, training {means['training']:+.2f}, held-out "
                f"{means['held-out']:+.2f}; taken as: less than half of training's. What a model writes it also "
                "finds likely, more so the fewer texts it read.",
            ),
            _success(success, sum(hits), len(hits)),
        ),
        tables=(Grid("Membership and reconstruction, undefended", ("", "ours", "printed"), rows),),
        pictures=(
            Picture(
                "pii-fig7",
                (Panel(title="targets", x="memorisation score", y="reconstructed (1) or not", lines=lines),),
            ),
        ),
        notes=(_ONE, "The score is log p a token less that of a model of other cases."),
    )


def _success(found: Sequence[float] | None, hits: int, total: int) -> Judgement:
    claim = "The memorisation score correlates with the chance of a right reconstruction."
    if found is None:
        return Judgement(claim, ClaimVerdict.NOT_TESTABLE, f"{hits} of {total} targets were reconstructed.")
    reason = (
        f"A reconstructed target's sentence has the higher score with chance {found[0]:.2f} ({found[1]:.2f} to "
        f"{found[2]:.2f}); {hits} of {total} were reconstructed."
    )
    if found[1] > 0.5:
        return Judgement(claim, ClaimVerdict.HOLDS, reason)
    return Judgement(claim, ClaimVerdict.NOT_TESTABLE if found[2] > 0.5 else ClaimVerdict.FAILS, reason)


_figure = partial(Experiment, paper=Paper.PII, pieces=_pieces, needs_training=True)

EXPERIMENTS: Final = (
    _figure(name="pii-fig4", title="recall by duplication and token length", render=_render_fig4),
    _figure(name="pii-fig5", title="extraction as more is sampled", render=_render_fig5),
    _figure(name="pii-fig6", title="estimated leakage, entity classes, length of the context", render=_render_fig6),
    _figure(name="pii-fig7", title="membership and reconstruction", render=_render_fig7),
)
