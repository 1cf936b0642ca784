"""The figure of `bound dp-sgd --plot`: bits leaked against secret length, steps and ε (matplotlib, extra `plot`).

Every curve is the bound that the text quotes, `LeakageBounds.least` with the same copies, and the quoted numbers
stand on it as points: `dp_sgd_curves` computes, `draw_dp_sgd` draws.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from reticent.accounting.bounds.leakage import LeakageBounds, leakage_bounds
from reticent.accounting.guarantees import epsilons

if TYPE_CHECKING:
    from reticent.runs.bounds.bound import Training

_COLOURS: Final = (
    "#0b6e99",
    "#c2571a",
    "#4d7c0f",
    "#7c3aed",
    "#b91c1c",
)  # told apart in print and by the colour-blind
_LENGTHS: Final = (1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 60.0, 80.0, 100.0)  # bits
_STEPS: Final = (1e-2, 0.1, 0.3, 1.0, 4.0)  # of those of the training
_NOISES: Final = (0.7, 1.0, 1.5, 3.0, 6.0)  # times that of the training


@dataclass(frozen=True, slots=True)
class Curves:
    """What is drawn. `by_steps` and `by_epsilon` have a curve of (x, bits) for each secret, by its size."""

    quoted: tuple[LeakageBounds, ...]
    by_length: tuple[LeakageBounds, ...]
    by_steps: dict[float, tuple[tuple[float, float], ...]]
    by_epsilon: dict[float, tuple[tuple[float, float], ...]]


def dp_sgd_curves(training: "Training", secret_bits: Sequence[float], *, copies: int = 1) -> Curves:
    """The bounds of the figure; those of the training itself and of the asked secrets are among them."""
    shown = sorted(set(secret_bits))[: len(_COLOURS)]
    lengths = sorted({*_LENGTHS, *shown})
    steps = sorted({max(1, round(factor * training.steps)) for factor in _STEPS})
    by_steps = [(float(count), replace(training, steps=count)) for count in steps]
    noisier = [replace(training, noise_multiplier=factor * training.noise_multiplier) for factor in _NOISES]
    by_epsilon = sorted(((_epsilon(each), each) for each in noisier), key=lambda pair: pair[0])
    return Curves(
        quoted=tuple(_bounds(training, bits, copies) for bits in shown),
        by_length=tuple(_bounds(training, bits, copies) for bits in lengths),
        by_steps={bits: tuple((x, _bounds(each, bits, copies).least) for x, each in by_steps) for bits in shown},
        by_epsilon={
            bits: tuple((x, _bounds(each, bits, copies).least) for x, each in by_epsilon) for bits in shown
        },
    )


def _bounds(training: "Training", bits: float, copies: int) -> LeakageBounds:
    return leakage_bounds(training.event, bits, neighbours=training.neighbours, copies=copies)


def _epsilon(training: "Training") -> float:
    """The lesser of the two accountants, as the text quotes it."""
    found = epsilons(training.event, delta=training.delta, neighbours=training.neighbours)
    return min(value for value in (found.rdp, found.pld) if value is not None)


def draw_dp_sgd(training: "Training", secret_bits: Sequence[float], *, path: Path, copies: int = 1) -> None:
    """Three panels: against secret length (beside the traditional bound and the cap), steps, and ε."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    curves = dp_sgd_curves(training, secret_bits, copies=copies)
    style: dict[str, Any] = {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "svg.hashsalt": "reticent",
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=(12, 4.2), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        _against_length(left, curves)
        _against(middle, curves, curves.by_steps, at=float(training.steps), x="steps")
        epsilon = f"ε at δ = {training.delta:g} (by varying σ)"
        _against(right, curves, curves.by_epsilon, at=_epsilon(training), x=epsilon)
        of = "" if copies == 1 else f", secret in {copies} records"
        figure.suptitle(
            f"Upper bound on bits leaked by DP-SGD (σ = {training.noise_multiplier:g}, "
            f"q = {training.sampling_rate:.3g}, {training.steps:,} steps, {training.neighbours.value} record{of})",
            fontsize=10,
        )
        figure.savefig(path, dpi=160)


def _against_length(axes: Any, curves: Curves) -> None:
    lengths = [one.secret_bits for one in curves.by_length]
    highest = max(lengths)
    axes.plot(lengths, lengths, color="0.5", linewidth=1, label="the whole secret")
    usual = [(one.secret_bits, one.traditional) for one in curves.by_length if one.traditional is not None]
    if usual:
        axes.plot(*zip(*usual, strict=True), "--", color=_COLOURS[1], label="traditional")
    axes.plot(lengths, [one.least for one in curves.by_length], color=_COLOURS[0], linewidth=2, label="proved")
    _points(axes, [(one.secret_bits, one.least) for one in curves.quoted])
    axes.set(xlabel="length of the secret (bits)", ylabel="bits leaked, at most", xlim=(0, None), ylim=(0, highest))
    _legend(axes)


def _against(
    axes: Any, curves: Curves, lines: dict[float, tuple[tuple[float, float], ...]], *, at: float, x: str
) -> None:
    """The curve of each secret, below the line of all of it, and the training itself."""
    for colour, (bits, points) in zip(_COLOURS, lines.items(), strict=False):
        finite = [point for point in points if math.isfinite(point[0])]
        axes.plot(*zip(*finite, strict=True), color=colour, label=f"secret of {bits:.4g} bits")
        axes.axhline(bits, color=colour, linewidth=0.8, linestyle=":")
    axes.axvline(at, color="0.6", linewidth=0.8)
    _points(axes, [(at, one.least) for one in curves.quoted])
    axes.set(xscale="log", xlabel=x, ylabel="bits leaked, at most", ylim=(0, None))
    axes.xaxis.set_minor_formatter("")
    _legend(axes)


def _points(axes: Any, points: Iterable[tuple[float, float]]) -> None:
    """The quoted numbers."""
    x, y = np.array(list(points)).T
    axes.plot(x, y, "o", color="0.1", markersize=4, zorder=3, label="quoted")


def _legend(axes: Any) -> None:
    """Below the axes, where it covers no curve."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False, fontsize=8)
