"""Figures of bounds: bits leaked against secret length, steps and ε, drawn by matplotlib (extra `plot`)."""

import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.accounting.conversion import rdp_epsilon
from reticent.accounting.curve import RenyiCurve
from reticent.accounting.leakage import rdp_leakage

if TYPE_CHECKING:
    from reticent.app.bounds import Training

_LOG2 = math.log(2.0)
_COLOURS = ("#0b6e99", "#c2571a", "#4d7c0f", "#7c3aed", "#b91c1c")  # told apart in print and by the colour-blind


def leaked_bits(training: "Training", secret_bits: float) -> float:
    """Bits by the Rényi bound, capped: what the curves show."""
    curve = RenyiCurve(training.event, training.neighbours)
    return curve.minimise(lambda a, d: rdp_leakage(-secret_bits * _LOG2, a, renyi=d))[0] / _LOG2


def traditional_bits(training: "Training", secret_bits: float) -> float:
    """Bits by the traditional reading, ε at δ = 2^−b: not capped, never tighter."""
    curve = RenyiCurve(training.event, training.neighbours)
    return curve.minimise(lambda a, d: d + secret_bits * _LOG2 / (a - 1.0) if a > 1.0 else math.inf)[0] / _LOG2


def draw_dp_sgd(training: "Training", secret_bits: list[float], *, path: Path) -> None:
    """Three panels: against secret length (beside the traditional bound and the cap), steps, and ε."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    style: dict[str, Any] = {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "figure.constrained_layout.use": True,
        "svg.hashsalt": "reticent",
    }
    with plt.rc_context(style):
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8))
        _against_length(left, training)
        _against_steps(middle, training, secret_bits)
        _against_epsilon(right, training, secret_bits)
        figure.suptitle(
            f"Upper bound on bits leaked by DP-SGD (σ = {training.noise_multiplier:g}, "
            f"q = {training.sampling_rate:.3g}, {training.steps:,} steps, {training.neighbours.value} record)",
            fontsize=10,
        )
        figure.savefig(path, dpi=160)
        plt.close(figure)


def _against_length(axes: Any, training: "Training") -> None:
    lengths = np.linspace(1.0, 100.0, 34)
    axes.fill_between(lengths, lengths, 100.0, color="0.5", alpha=0.08, linewidth=0)
    axes.plot(lengths, lengths, color="0.5", linewidth=1, label="the whole secret")
    axes.plot(
        lengths, [traditional_bits(training, b) for b in lengths], "--", color=_COLOURS[1], label="traditional"
    )
    axes.plot(
        lengths, [leaked_bits(training, b) for b in lengths], color=_COLOURS[0], linewidth=2, label="Rényi bound"
    )
    axes.set(xlabel="length of the secret (bits)", ylabel="bits leaked, at most", xlim=(0, 100), ylim=(0, 100))
    axes.legend(framealpha=0.9, edgecolor="none", loc="upper left")


def _against_steps(axes: Any, training: "Training", secret_bits: list[float]) -> None:
    steps = np.unique(np.geomspace(max(1, training.steps // 1000), training.steps * 4, 24).round().astype(int))
    for colour, bits in _coloured(secret_bits):
        values = [leaked_bits(replace(training, steps=int(count)), bits) for count in steps]
        axes.plot(steps, values, color=colour, label=f"{bits:g} bits")
        axes.axhline(bits, color=colour, linewidth=0.8, linestyle=":")
    axes.axvline(training.steps, color="0.6", linewidth=0.8)
    axes.set(xscale="log", xlabel="steps", ylabel="bits leaked, at most", ylim=(0, None))
    axes.legend(framealpha=0.9, edgecolor="none", title="secret of", loc="upper left")


def _against_epsilon(axes: Any, training: "Training", secret_bits: list[float]) -> None:
    noises = training.noise_multiplier * np.geomspace(0.6, 6.0, 20)
    trainings = [replace(training, noise_multiplier=float(noise)) for noise in noises]
    curves = [RenyiCurve(each.event, each.neighbours) for each in trainings]
    epsilons = [rdp_epsilon(curve, delta=training.delta).value for curve in curves]
    for colour, bits in _coloured(secret_bits):
        axes.plot(epsilons, [leaked_bits(each, bits) for each in trainings], color=colour, label=f"{bits:g} bits")
        axes.axhline(bits, color=colour, linewidth=0.8, linestyle=":")
    axes.set(
        xscale="log",
        xlabel=f"ε at δ = {training.delta:g} (by varying σ)",
        ylabel="bits leaked, at most",
        ylim=(0, None),
    )
    axes.legend(framealpha=0.9, edgecolor="none", title="secret of", loc="upper left")


def _coloured(values: list[float]) -> Iterable[tuple[str, float]]:
    return zip(_COLOURS, values[: len(_COLOURS)], strict=False)
