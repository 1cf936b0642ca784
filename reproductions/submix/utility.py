"""Figures 2, 3, 4, 5 and 8 of SubMix: perplexity of held-out text against mechanism, ε, queries, parts and order.

The paper fine-tunes GPT-2 on Wikitext-103; here the embedded model learns generated dialogues. Budgets are the
paper's: ε at Rényi order a for one part, over B queries; for mechanisms that are accounted in (ε, δ) the same point
converted at δ = 1e-5. DP-SGD is one model on the same dialogues, a dialogue the unit. SubMix (Algorithm 2) promises
operational privacy of the actual data alone, the rivals and SubMix-F differential privacy: the columns are printed
side by side as the paper does, the promises are not equal.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Final

from reproductions.experiment import (
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

DELTA: Final = 1e-5
EPSILONS: Final = (0.5, 2.0, 8.0, 32.0, 128.0)
ORDERS: Final = (2.0, 4.0, 8.0)
RIVALS: Final = ("submix", "submix-f", "subsample-and-aggregate", "gnmax")
SIZES: Final[dict[Scale, Values]] = {
    Scale.SMALL: {"dialogues": 300, "epochs": 3.0, "budgets": [128, 512]},
    Scale.MEDIUM: {"dialogues": 1000, "epochs": 4.0, "budgets": [256, 1024, 4096]},
    Scale.PAPER: {"dialogues": 10_000, "epochs": 4.0, "budgets": [1024, 2560, 10240], "model": "gpt2"},
}
PRIVATE_EPOCHS: Final = {Scale.SMALL: 8.0, Scale.MEDIUM: 10.0, Scale.PAPER: 10.0}
PRIVATE: Final = "DP-SGD"
PLAIN: Final = "fine-tuning"
FINE_TUNED: Final = {"full": "fine-tuning on all parts", "single": "fine-tuning on one part"}
PARTS: Final = {Scale.SMALL: (2, 4, 8), Scale.MEDIUM: (4, 8, 16), Scale.PAPER: (8, 16, 32)}
PRINTED: Final = {"public": 37.5, "non-private": 20.0, "submix": 26.9}


def _measure(parameters: Values, randomness: Randomness) -> Values:
    """Perplexities of one ensemble, by "mechanism, order, ε, B"."""
    from reproductions.submix.dialogue_ensembles import EnsembleSettings, dialogue_ensemble, first_answers
    from reticent.accounting import epsilon_from_renyi
    from reticent.prediction import (
        Layout,
        MechanismName,
        MechanismOptions,
        PredictionTarget,
        evaluate_mechanisms,
        set_up_mechanism,
    )

    settings = EnsembleSettings(
        dialogues=parameters["dialogues"],
        parts=parameters["parts"],
        epochs=parameters["epochs"],
        source=parameters.get("model", "embedded"),
    )
    budgets = parameters["budgets"]
    ensemble, texts = dialogue_ensemble(settings, answers=budgets[-1], randomness=randomness)
    layout, found = Layout(ensemble.rows), {}
    for answers in budgets:
        cases = _cases(parameters, answers)
        setups = []
        for kind, order, epsilon in cases:
            converted = epsilon_from_renyi(order, epsilon, delta=DELTA)
            target = PredictionTarget(epsilon=converted, delta=DELTA, queries=answers)
            in_order = order if kind.startswith("submix") else None
            setups.append(
                set_up_mechanism(MechanismName(kind), target, layout, options=MechanismOptions(order=in_order))
            )
        scores = evaluate_mechanisms(
            setups,
            first_answers(texts, answers),
            parts=settings.parts,
            queries=answers,
            randomness=randomness.child(f"answers {answers}"),
        )
        for case, score in zip(cases, scores, strict=True):
            found[_key(*case, answers)] = min(score.perplexity, 1e6)
    return {"perplexity": found}


def _measure_private(parameters: Values, randomness: Randomness) -> Values:
    """Perplexities of one model trained by DP-SGD at the same point, on the same held-out tokens, by B."""
    import numpy as np

    from reproductions.submix.dialogue_ensembles import EnsembleSettings, PrivateRecipe, private_losses
    from reticent.accounting import epsilon_from_renyi

    settings = EnsembleSettings(
        dialogues=parameters["dialogues"], parts=1, epochs=1.0, source=parameters.get("model", "embedded")
    )
    converted = epsilon_from_renyi(2.0, 2.0, delta=DELTA)
    recipe = PrivateRecipe(epsilon=converted, delta=DELTA, epochs=parameters["private_epochs"])
    losses = private_losses(settings, recipe, randomness=randomness)
    found = {_key("dp-sgd", 2.0, 2.0, b): float(np.exp(losses[:b].mean())) for b in parameters["budgets"]}
    return {"perplexity": found, "epsilon": converted}


def _measure_fine_tuned(parameters: Values, randomness: Randomness) -> Values:
    """Perplexities of plain fine-tuning on all dialogues and on one part's, on the same held-out tokens, by B."""
    import numpy as np

    from reproductions.submix.dialogue_ensembles import EnsembleSettings, fine_tuned_losses

    settings = EnsembleSettings(
        dialogues=parameters["dialogues"],
        parts=parameters["parts"],
        epochs=parameters["epochs"],
        source=parameters.get("model", "embedded"),
    )
    losses = fine_tuned_losses(settings, randomness=randomness)
    return {
        "perplexity": {
            _key(kind, 2.0, 2.0, b): float(np.exp(losses[kind][:b].mean()))
            for kind in FINE_TUNED
            for b in parameters["budgets"]
        }
    }


def _cases(parameters: Values, answers: int) -> list[tuple[str, float, float]]:
    """(mechanism, order, ε): all at ε = 2, SubMix at every ε, and at other orders with the most queries."""
    cases = [("public", 2.0, 2.0), ("non-private", 2.0, 2.0), *(("submix", 2.0, e) for e in EPSILONS)]
    if parameters["rivals"]:
        cases += [(kind, 2.0, 2.0) for kind in RIVALS if kind != "submix"]
        if answers == parameters["budgets"][-1]:
            cases += [("submix", order, e) for order in ORDERS[1:] for e in EPSILONS]
    return cases


def _key(kind: str, order: float, epsilon: float, answers: int) -> str:
    return f"{kind}, a = {order:g}, ε = {epsilon:g}, B = {answers}"


def _piece(scale: Scale, parts: int) -> Piece:
    middle = PARTS[scale][1]
    parameters = {**SIZES[scale], "parts": parts, "rivals": parts == middle}
    return Piece(f"k = {parts}", parameters, _measure, "submix-ensembles")


def _middle(scale: Scale) -> list[Piece]:
    return [_piece(scale, PARTS[scale][1])]


def _fine_tuned(scale: Scale) -> Piece:
    parameters = {**SIZES[scale], "parts": PARTS[scale][1]}
    return Piece(PLAIN, parameters, _measure_fine_tuned, "submix-ensembles")


def _fig2_pieces(scale: Scale) -> list[Piece]:
    sizes = {name: value for name, value in SIZES[scale].items() if name != "epochs"}
    parameters = {**sizes, "private_epochs": PRIVATE_EPOCHS[scale]}
    private = Piece(PRIVATE, parameters, _measure_private, "submix-ensembles")
    return [*_middle(scale), private, _fine_tuned(scale)]


def _fig3_pieces(scale: Scale) -> list[Piece]:
    return [*_middle(scale), _fine_tuned(scale)]


class _Read:
    """Perplexities of one ensemble by what they were measured for."""

    def __init__(self, results: Mapping[str, Values], name: str | None = None) -> None:
        self.name = next(iter(results)) if name is None else name
        self.found: dict[str, float] = results[self.name]["perplexity"]
        self.budgets = sorted({int(key.rpartition("B = ")[2]) for key in self.found})

    def at(self, kind: str, *, order: float = 2.0, epsilon: float = 2.0, answers: int | None = None) -> float:
        """Perplexity of one case; with the most queries unless said otherwise."""
        return self.found[_key(kind, order, epsilon, answers or self.budgets[-1])]

    def line(self, *, order: float = 2.0, answers: int | None = None) -> tuple[float, ...]:
        """SubMix at every ε."""
        return tuple(self.at("submix", order=order, epsilon=e, answers=answers) for e in EPSILONS)


_SEED_NOTE: Final = (
    "One ensemble and one draw of held-out text: differences of a few hundredths say nothing. Public, non-private "
    "and private perplexities are of the same tokens."
)


def _render_fig2(results: Mapping[str, Values]) -> Rendering:
    read, plain = _Read(results), _Read(results, PLAIN)
    apart = {"dp-sgd": _Read(results, PRIVATE), **dict.fromkeys(FINE_TUNED, plain)}
    kinds = ("public", *RIVALS, "dp-sgd", "single", "non-private", "full")
    at = {kind: [apart.get(kind, read).at(kind, answers=b) for b in read.budgets] for kind in kinds}
    rows = tuple(
        (
            FINE_TUNED.get(kind, kind),
            *(f"{value:.2f}" for value in at[kind]),
            f"{PRINTED[kind]:g}" if kind in PRINTED else "–",
        )
        for kind in kinds
    )
    lines = tuple(
        Line(
            name=FINE_TUNED.get(kind, kind),
            is_dashed=kind in FINE_TUNED,
            x=tuple(map(float, read.budgets)),
            y=tuple(min(value, 3.0 * public) for value, public in zip(at[kind], at["public"], strict=True)),
            is_marked=True,
        )
        for kind in kinds
    )
    last = {kind: values[-1] for kind, values in at.items()}
    beaten = [kind for kind in RIVALS[2:] if last[kind] < last["public"]]
    return Rendering(
        judgements=(
            Judgement.of(
                "At ε = 2, a = 2 SubMix is substantially below the public model's perplexity.",
                last["submix"] < 0.95 * last["public"],
                reason=f"{last['submix']:.2f} against {last['public']:.2f}, {read.name}, "
                f"{read.budgets[-1]} queries; "
                f"non-private {last['non-private']:.2f}; taken as: by a twentieth. SubMix-F, whose promise is "
                f"without reservation, {last['submix-f']:.2f}.",
            ),
            Judgement.of(
                "Subsample-and-aggregate and GNMax do not improve over the public model.",
                not beaten,
                reason=", ".join(f"{kind} {last[kind]:.2f}" for kind in RIVALS[2:]) + ".",
            ),
            Judgement.of(
                "DP-SGD does not improve over the public model.",
                last["dp-sgd"] >= last["public"],
                reason=f"{last['dp-sgd']:.2f} against {last['public']:.2f} at ε = "
                f"{results[PRIVATE]['epsilon']:.1f}, δ = 1e-5, which a = 2, ε = 2 is converted to; the unit is a "
                "dialogue, that of SubMix a part. The "
                "paper adapted to text that GPT-2 knows; generated dialogues are new to the embedded model, and "
                "their form alone is worth much.",
            ),
        ),
        tables=(
            Grid(
                f"Perplexity at ε = 2, a = 2, {read.name}; printed: GPT-2 on Wikitext-103, B = 1,024",
                ("mechanism", *(f"B = {b}" for b in read.budgets), "printed"),
                rows,
            ),
        ),
        pictures=(
            Picture(
                "submix-fig2", (Panel(title=read.name, x="queries B", y="perplexity", lines=lines, is_log_x=True),)
            ),
        ),
        notes=(_SEED_NOTE, "Perplexities above three times the public one are cut in the figure."),
    )


def _render_fig3(results: Mapping[str, Values]) -> Rendering:
    read = _Read(results)
    lines = [Line(name=f"B = {b}", x=EPSILONS, y=read.line(answers=b), is_marked=True) for b in read.budgets]
    public, best = read.at("public"), read.at("non-private")
    ends = [("public", public), ("non-private", best)]
    ends += [(name, _Read(results, PLAIN).at(kind)) for kind, name in FINE_TUNED.items()]
    for name, value in ends:
        lines.append(Line(name=name, x=(EPSILONS[0], EPSILONS[-1]), y=(value, value), is_dashed=True))
    falls = all(a >= b - 0.02 * a for a, b in zip(read.line(), read.line()[1:], strict=False))
    lost = _lost(public, read.line()[-1], best)
    rows = tuple(
        (f"{e:g}", *(f"{read.line(answers=b)[i]:.2f}" for b in read.budgets)) for i, e in enumerate(EPSILONS)
    )
    single, full = ends[-1][1], ends[-2][1]
    return Rendering(
        judgements=(
            Judgement.of(
                "Perplexity falls as ε grows.", falls, reason="Within 2 % at every step, the most queries."
            ),
            Judgement.of(
                "At high ε SubMix matches the non-private model.",
                lost is not None and lost < 0.1,
                reason=f"At ε = {EPSILONS[-1]:g}: {read.line()[-1]:.2f} against {best:.2f}; public {public:.2f}. "
                "Taken as: less than a tenth of the gap between them, in log-perplexity, is lost. One model "
                f"fine-tuned on all dialogues has {full:.2f}, one on a single part's {single:.2f}.",
            ),
        ),
        tables=(Grid(f"Perplexity of SubMix, {read.name}", ("ε", *(f"B = {b}" for b in read.budgets)), rows),),
        pictures=(
            Picture(
                "submix-fig3",
                (Panel(title=read.name, x="ε at order 2", y="perplexity", lines=tuple(lines), is_log_x=True),),
            ),
        ),
        notes=(_SEED_NOTE,),
    )


def _lost(public: float, private: float, best: float) -> float | None:
    """How much of the gap between public and non-private is lost, in log-perplexity; None where there is none."""
    from reticent.prediction import realised_share

    realised = realised_share(public, private, best)
    return None if realised is None else 1.0 - realised


def _lost_at(read: _Read, epsilon: float, answers: int) -> float:
    """The share of the gap that SubMix loses, on the very tokens of that budget; NaN where there is none."""
    public, best = read.at("public", answers=answers), read.at("non-private", answers=answers)
    lost = _lost(public, read.at("submix", epsilon=epsilon, answers=answers), best)
    return math.nan if lost is None else lost


def _render_fig4(results: Mapping[str, Values]) -> Rendering:
    read = _Read(results)
    lines = tuple(
        Line(
            name=f"ε = {e:g}",
            x=tuple(map(float, read.budgets)),
            y=tuple(100.0 * _lost_at(read, e, b) for b in read.budgets),
            is_marked=True,
        )
        for e in EPSILONS
    )
    rises = [e for e in EPSILONS if _lost_at(read, e, read.budgets[-1]) > _lost_at(read, e, read.budgets[0]) - 0.02]
    rows = tuple((f"{e:g}", *(f"{_lost_at(read, e, b):.0%}" for b in read.budgets)) for e in EPSILONS)
    return Rendering(
        judgements=(
            Judgement.of(
                "More queries at the same ε raise the perplexity.",
                len(rises) == len(EPSILONS),
                reason="As a share of the gap between public and non-private on the same tokens, in "
                f"log-perplexity, since longer runs read other text; at {len(rises)} of {len(EPSILONS)} ε.",
            ),
        ),
        tables=(
            Grid(
                f"Share of the gap between non-private and public that is lost, in log-perplexity, {read.name}",
                ("ε", *(f"B = {b}" for b in read.budgets)),
                rows,
            ),
        ),
        pictures=(
            Picture(
                "submix-fig4",
                (Panel(title=read.name, x="queries B", y="% of the gap lost", lines=lines, is_log_x=True),),
            ),
        ),
        notes=(_SEED_NOTE,),
    )


def _render_fig5(results: Mapping[str, Values]) -> Rendering:
    reads = {name: _Read(results, name) for name in results}
    lines = tuple(Line(name=name, x=EPSILONS, y=read.line(), is_marked=True) for name, read in reads.items())
    rise = {name: read.line()[1] / read.line()[-1] for name, read in reads.items()}
    few, *_, many = rise
    rows = tuple((name, *(f"{value:.2f}" for value in read.line())) for name, read in reads.items())
    return Rendering(
        judgements=(
            Judgement.of(
                "As ε falls, perplexity rises more rapidly for smaller k.",
                rise[few] > rise[many],
                reason=f"From ε = {EPSILONS[-1]:g} to 2 it grows by {rise[few] - 1:.1%} with {few} and by "
                f"{rise[many] - 1:.1%} with {many}.",
            ),
        ),
        tables=(Grid("Perplexity of SubMix", ("parts", *(f"ε = {e:g}" for e in EPSILONS)), rows),),
        pictures=(
            Picture(
                "submix-fig5",
                (Panel(title="", x="ε at order 2", y="perplexity", lines=lines, is_log_x=True),),
            ),
        ),
        notes=(_SEED_NOTE,),
    )


def _render_fig8(results: Mapping[str, Values]) -> Rendering:
    read = _Read(results)
    lines = tuple(Line(name=f"a = {a:g}", x=EPSILONS, y=read.line(order=a), is_marked=True) for a in ORDERS)
    at_two = [read.at("submix", order=a, epsilon=8.0) for a in ORDERS]
    public = read.at("public")
    rows = tuple((f"{a:g}", *(f"{value:.2f}" for value in read.line(order=a))) for a in ORDERS)
    return Rendering(
        judgements=(
            Judgement.of(
                "At the same ε a higher order costs perplexity.",
                at_two[0] <= at_two[1] * 1.005 and at_two[1] <= at_two[2] * 1.005,
                reason="At ε = 8: "
                + ", ".join(f"{v:.2f} at a = {a:g}" for a, v in zip(ORDERS, at_two, strict=True))
                + ".",
            ),
            Judgement.of(
                "At every order SubMix remains below the public model at high ε.",
                all(read.line(order=a)[-1] < public for a in ORDERS),
                reason=f"At ε = {EPSILONS[-1]:g}; public {public:.2f}.",
            ),
        ),
        tables=(Grid(f"Perplexity of SubMix, {read.name}", ("order", *(f"ε = {e:g}" for e in EPSILONS)), rows),),
        pictures=(
            Picture(
                "submix-fig8",
                (Panel(title=read.name, x="ε at the order", y="perplexity", lines=lines, is_log_x=True),),
            ),
        ),
        notes=(_SEED_NOTE,),
    )


_figure = partial(Experiment, paper=Paper.SUBMIX, needs_training=True)

EXPERIMENTS: Final = (
    _figure(name="submix-fig2", title="mechanisms side by side", pieces=_fig2_pieces, render=_render_fig2),
    _figure(name="submix-fig3", title="perplexity against privacy loss", pieces=_fig3_pieces, render=_render_fig3),
    _figure(
        name="submix-fig4", title="perplexity against the number of queries", pieces=_middle, render=_render_fig4
    ),
    _figure(
        name="submix-fig5",
        title="perplexity against the number of parts",
        pieces=lambda scale: [_piece(scale, parts) for parts in PARTS[scale]],
        render=_render_fig5,
    ),
    _figure(name="submix-fig8", title="perplexity against the Rényi order", pieces=_middle, render=_render_fig8),
)
