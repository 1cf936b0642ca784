"""Figures 1, 2, 5, 6 and 7 of RDP-reconstruction: bound curves, exact, from parameters alone.

    figure 1   bits leaked against the secret's length, at several σ           L2(b) beside min h
    figure 2   the same against training steps, for a secret of 60 bits
    figures 5, 6   beside the ε that Balle et al. (2020) give at δ = 2^−b, in figure 1's setting and at q = 20 %
    figure 7   share of a secret that leaks against ε at a fixed δ

The curves are the paper's bound with the order optimised continuously and capped at the whole secret. Tighter
bounds for short secrets exist (`accounting.bounds.leakage`) and are not what these figures show. The paper prints
no number for them but those quoted; the reference values are an independent computation over orders 1.001 to 512.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

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
from reproductions.rdp.curves import leaked_bits, traditional_bits
from reticent.accounting import RenyiCurve, rdp_epsilon
from reticent.core import Event, Neighbours, Randomness, Repeated, SampledGaussian

RATE: Final = 2.81e-4
STEPS: Final = 186_000
DELTA: Final = 3e-7
NOISES: Final = (0.3, 0.4, 0.5, 1.0)
LONG: Final = 60.0  # bits of the secret of figure 2
POINTS: Final = {Scale.SMALL: 16, Scale.MEDIUM: 40, Scale.PAPER: 100}
# (σ, bits) → L2 of an independent computation.
REFERENCE: Final = {
    (0.3, 20.0): 20.0,
    (0.3, 60.0): 57.6,
    (0.4, 20.0): 14.78,
    (0.4, 60.0): 35.42,
    (0.5, 20.0): 8.06,
    (0.5, 60.0): 19.96,
    (1.0, 20.0): 1.57,
    (1.0, 60.0): 4.13,
}
_LOG2: Final = math.log(2.0)


def training_of(values: Values) -> Event:
    """The training that a piece's parameters describe."""
    return Repeated(SampledGaussian(values["noise_multiplier"], values["sampling_rate"]), values["steps"])


def epsilon_of(training: Event, delta: float) -> float:
    """ε at `delta` by the improved conversion from Rényi divergence (Balle et al. 2020)."""
    return rdp_epsilon(RenyiCurve(training, Neighbours.ADD_REMOVE), delta=delta).value


def _parameters(noise: float, *, rate: float = RATE, steps: int = STEPS) -> Values:
    return {"noise_multiplier": noise, "sampling_rate": rate, "steps": steps}


def _by_length(parameters: Values, _: Randomness) -> Values:
    training = training_of(parameters)
    lengths = parameters["lengths"]
    return {
        "epsilon": epsilon_of(training, DELTA),
        "lengths": lengths,
        "leaked": [leaked_bits(training, b) for b in lengths],
        "traditional": [traditional_bits(training, b) for b in lengths],
        "balle": [epsilon_of(training, 2.0**-b) / _LOG2 for b in lengths],
    }


def _length_pieces(scale: Scale, noises: Sequence[float], *, rate: float, steps: int) -> list[Piece]:
    grid = {20.0, LONG, *np.linspace(1.0, 100.0, POINTS[scale]).round(3).tolist()}
    return [
        Piece(
            f"σ = {noise:g}",
            {**_parameters(noise, rate=rate, steps=steps), "lengths": sorted(grid)},
            _by_length,
            "rdp-lengths",
        )
        for noise in noises
    ]


def _length_pictures(name: str, results: Mapping[str, Values], rival: str, label: str) -> Picture:
    panels = [
        Panel(
            title=f"{noise}, ε = {one['epsilon']:.2f}",
            x="length of the secret (bits)",
            y="bits leaked, at most",
            diagonal=True,
            lines=(
                Line(name="L2(b)", x=tuple(one["lengths"]), y=tuple(one["leaked"])),
                Line(
                    name=label,
                    x=tuple(one["lengths"]),
                    y=tuple(min(y, 120.0) for y in one[rival]),
                    is_dashed=True,
                ),
            ),
        )
        for noise, one in results.items()
    ]
    return Picture(name, tuple(panels))


def _at(one: Values, column: str, bits: float) -> float:
    """The value at one of the lengths."""
    return float(one[column][one["lengths"].index(bits)])


def _render_fig1(results: Mapping[str, Values]) -> Rendering:
    rows, ratios = [], {}
    for name, one in results.items():
        noise = float(name.removeprefix("σ = "))
        ratios[noise] = _at(one, "leaked", LONG) / _at(one, "traditional", LONG)
        for bits in (20.0, LONG):
            ours, rival = _at(one, "leaked", bits), _at(one, "traditional", bits)
            reference = REFERENCE.get((noise, bits))
            known = "–" if reference is None else f"{reference:g}"
            rows.append(
                (
                    name,
                    f"{one['epsilon']:.2f}",
                    f"{bits:g}",
                    f"{ours:.2f}",
                    known,
                    f"{rival:.2f}",
                    f"{ours / rival:.2f}",
                )
            )
    below = all(_is_below(one, "traditional") for one in results.values())
    whole = [name for name, one in results.items() if _at(one, "leaked", LONG) >= LONG]
    falling = list(ratios.values()) == sorted(ratios.values())  # σ ascends
    shares = ", ".join(f"{ratio:.2f} at σ = {noise:g}" for noise, ratio in ratios.items())
    return Rendering(
        judgements=(
            Judgement.of(
                "The bound is lower than the traditional one, l < h.", below, reason="At every length and σ."
            ),
            Judgement.of(
                "The guarantee prevents total disclosure of a long secret (60 bits) at every σ shown.",
                not whole,
                reason="At σ = 0.3 a secret of 20 bits leaks whole, one of 60 does not.",
            ),
            Judgement.of(
                "The bound is comparatively better for lower σ.",
                falling,
                reason=f"Ours as a share of the traditional one at 60 bits: {shares}.",
            ),
            Judgement.of(
                "Longer secrets leak more in absolute and less in relative terms (L2 non-decreasing, concave).",
                all(_is_concave(one) for one in results.values()),
                reason="Checked on the grid of lengths.",
            ),
        ),
        tables=(
            Grid(
                "Bits leaked at most, q = 2.81e-4, 186,000 steps, ε at δ = 3e-7",
                ("σ", "ε", "secret", "ours", "reference", "traditional", "ours / traditional"),
                tuple(rows),
            ),
        ),
        pictures=(_length_pictures("rdp-fig1", results, "traditional", "traditional, min h"),),
    )


def _is_below(one: Values, rival: str) -> bool:
    """Whether ours is the lesser everywhere."""
    return all(own < other for own, other in zip(one["leaked"], one[rival], strict=True))


def _is_concave(one: Values) -> bool:
    """Whether leaked bits never fall with the length and grow ever slower."""
    slopes = np.diff(one["leaked"]) / np.diff(one["lengths"])
    return bool((slopes >= -1e-6).all() and (np.diff(slopes) <= 1e-4).all())


def _by_steps(parameters: Values, _: Randomness) -> Values:
    grid = parameters["grid"]
    trainings = [training_of({**parameters, "steps": steps}) for steps in grid]
    return {
        "steps": grid,
        "leaked": [leaked_bits(training, LONG) for training in trainings],
        "traditional": [traditional_bits(training, LONG) for training in trainings],
    }


def _fig2_pieces(scale: Scale) -> list[Piece]:
    grid = np.linspace(STEPS / POINTS[scale], STEPS, POINTS[scale]).round().astype(int).tolist()
    return [Piece(f"σ = {noise:g}", {**_parameters(noise), "grid": grid}, _by_steps) for noise in NOISES]


def _render_fig2(results: Mapping[str, Values]) -> Rendering:
    panels = [
        Panel(
            title=name,
            x="steps",
            y="bits leaked of 60, at most",
            lines=(
                Line(name="L2(60)", x=tuple(one["steps"]), y=tuple(one["leaked"])),
                Line(name="traditional", x=tuple(one["steps"]), y=tuple(one["traditional"]), is_dashed=True),
            ),
        )
        for name, one in results.items()
    ]
    growing = all(bool((np.diff(one["leaked"]) > 0.0).all()) for one in results.values())
    below = all(_is_below(one, "traditional") for one in results.values())
    rows = tuple(
        (
            name,
            f"{one['steps'][0]:,}: {one['leaked'][0]:.2f}",
            f"{one['leaked'][-1]:.2f}",
            f"{one['traditional'][-1]:.2f}",
        )
        for name, one in results.items()
    )
    return Rendering(
        judgements=(
            Judgement.of("The bound on leakage grows with the iterations.", growing, reason="At every σ."),
            Judgement.of("It stays below the traditional one at all steps.", below, reason="At every σ and step."),
        ),
        tables=(
            Grid(
                "Bits leaked at most of a secret of 60",
                ("σ", "after so many steps", "after 186,000", "traditional, after 186,000"),
                rows,
            ),
        ),
        pictures=(Picture("rdp-fig2", tuple(panels)),),
        notes=("The measured leakage of the paper's figure 2 is that of its figure 3.",),
    )


def _render_balle(name: str, results: Mapping[str, Values]) -> Rendering:
    rows, worse = [], []
    for noise, one in results.items():
        columns = zip(one["lengths"], one["leaked"], one["balle"], strict=True)
        above = [bits for bits, own, other in columns if own > other + 1e-9]
        worse += [f"{noise} up to {max(above):g} bits"] if above else []
        for bits in (1.0, 20.0, LONG):
            cells = [f"{_at(one, column, bits):.2f}" for column in ("leaked", "balle", "traditional")]
            rows.append((noise, f"{one['epsilon']:.2f}", f"{bits:g}", *cells))
    reason = (
        f"For short secrets ε at δ = 2^−b is the lesser number ({'; '.join(worse)}); the two differ in meaning."
        if worse
        else "At every length and σ, though the two speak of different things."
    )
    return Rendering(
        judgements=(
            Judgement.of(
                "Numerically the bounds are also better than those of Balle et al.", not worse, reason=reason
            ),
        ),
        tables=(
            Grid(
                "Bits leaked at most, and ε of Balle et al. at δ = 2^−b in bits",
                ("σ", "ε at δ = 3e-7", "secret", "ours", "Balle et al.", "traditional"),
                tuple(rows),
            ),
        ),
        pictures=(_length_pictures(name, results, "balle", "Balle et al."),),
    )


LENGTHS_OF_FIG7: Final = (1.0, 5.0, 10.0, 20.0, 53.15, 100.0)


def _by_noise(parameters: Values, _: Randomness) -> Values:
    training = training_of(parameters)
    return {
        "epsilon": epsilon_of(training, DELTA),
        "share": [leaked_bits(training, bits) / bits for bits in parameters["lengths"]],
    }


def _fig7_pieces(scale: Scale) -> list[Piece]:
    noises = np.geomspace(0.24, 2.0, POINTS[scale]).round(4).tolist()
    lengths = list(LENGTHS_OF_FIG7)
    return [Piece(f"σ = {noise:g}", {**_parameters(noise), "lengths": lengths}, _by_noise) for noise in noises]


def _render_fig7(results: Mapping[str, Values]) -> Rendering:
    ordered = sorted(results.values(), key=lambda one: float(one["epsilon"]))
    budgets = np.array([one["epsilon"] for one in ordered])
    shares = np.array([one["share"] for one in ordered])  # [σ, length]
    whole = [_first_whole(budgets, shares[:, index]) for index in range(len(LENGTHS_OF_FIG7))]
    at_ten = float(np.interp(10.0, budgets, shares[:, 0]))
    binary, twenty = whole[0], whole[LENGTHS_OF_FIG7.index(20.0)]
    lines = tuple(
        Line(name=f"{bits:g} bits", x=tuple(budgets), y=tuple(100.0 * shares[:, index]))
        for index, bits in enumerate(LENGTHS_OF_FIG7)
    )
    panel = Panel(title="", x="ε at δ = 3e-7", y="% of the secret, at most", lines=lines, is_log_x=True)
    rows = tuple(
        (f"{bits:g}", "never here" if budget is None else f"{budget:.1f}", printed)
        for bits, budget, printed in zip(
            LENGTHS_OF_FIG7, whole, ("< 10", "–", "–", "around 50", "–", "–"), strict=True
        )
    )
    return Rendering(
        judgements=(
            Judgement.of(
                "Small, binary secrets leak completely for budgets ε < 10.",
                binary is not None and binary < 10.0,
                reason=f"The bound for 1 bit allows {at_ten:.1%} at ε = 10 and 99.5 % at {binary or math.nan:.1f}; "
                "that it allows a leak does not prove one.",
            ),
            Judgement.of(
                "Longer secrets do not completely leak until much higher budgets (around 50 for 20 bits).",
                twenty is not None and 25.0 < twenty < 100.0,
                reason=f"20 bits: 99.5 % at ε = {twenty or math.nan:.1f}.",
            ),
        ),
        tables=(Grid("ε at which the bound allows 99.5 % of the secret", ("bits", "ε", "printed"), rows),),
        pictures=(Picture("rdp-fig7", (panel,)),),
    )


def _first_whole(budgets: np.ndarray, shares: np.ndarray) -> float | None:
    """ε at which the share reaches 99.5 %; None where it never does."""
    above = np.flatnonzero(shares >= 0.995)
    if not len(above):
        return None
    first = int(above[0])
    if first == 0:
        return float(budgets[0])
    place = (0.995 - shares[first - 1]) / (shares[first] - shares[first - 1])
    return float(budgets[first - 1] + place * (budgets[first] - budgets[first - 1]))


FIG6_NOISES: Final = (1.0, 2.0, 4.0, 8.0)  # the paper does not print its own; 100 epochs of 5 batches are 500 steps

EXPERIMENTS: Final = (
    Experiment(
        name="rdp-fig1",
        paper=Paper.RDP,
        title="bits leaked against the length of the secret",
        pieces=lambda scale: _length_pieces(scale, NOISES, rate=RATE, steps=STEPS),
        render=_render_fig1,
    ),
    Experiment(
        name="rdp-fig2",
        paper=Paper.RDP,
        title="bits leaked of 60 against training steps",
        pieces=_fig2_pieces,
        render=_render_fig2,
    ),
    Experiment(
        name="rdp-fig5",
        paper=Paper.RDP,
        title="comparison with Balle et al. (2020)",
        pieces=lambda scale: _length_pieces(scale, NOISES, rate=RATE, steps=STEPS),
        render=lambda results: _render_balle("rdp-fig5", results),
    ),
    Experiment(
        name="rdp-fig6",
        paper=Paper.RDP,
        title="comparison with Balle et al. (2020) at q = 20 %, 100 epochs",
        pieces=lambda scale: _length_pieces(scale, FIG6_NOISES, rate=0.2, steps=500),
        render=lambda results: _render_balle("rdp-fig6", results),
    ),
    Experiment(
        name="rdp-fig7",
        paper=Paper.RDP,
        title="share of the secret leaked against the privacy budget",
        pieces=_fig7_pieces,
        render=_render_fig7,
    ),
)
