"""The figure of an update: how much each token of a phrase gained, by the length of the prefix that is known.

Phrases are named by their number: no text stands in the figure. Drawn by matplotlib (extra `plot`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from reticent.auditing.attacks.update.findings import FoundPhrase

_SHOWN: Final = 8
_COLOURS: Final = ("#0b6e99", "#c2571a", "#4d7c0f", "#7c3aed", "#b91c1c", "#525252", "#0d9488", "#a16207")


def draw_prefix_scores(phrases: Sequence[FoundPhrase], path: Path) -> None:
    """Differential score of each token given what stands before it, for the first phrases (the paper's fig. 1)."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    style = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True}
    with plt.rc_context({**style, "grid.alpha": 0.25, "figure.constrained_layout.use": True}):
        figure, axes = plt.subplots(figsize=(6, 4.0))
        for number, (one, colour) in enumerate(zip(phrases[:_SHOWN], _COLOURS, strict=False)):
            known = range(len(one.scores.increments))
            label = f"phrase {number}"
            axes.plot(known, one.scores.increments, marker="o", markersize=3, color=colour, label=label)
        axes.set(
            xlabel="tokens known before it",
            ylabel="differential score of the next token",
            xticks=range(max(len(one.scores.increments) for one in phrases)),
        )
        axes.axhline(0.0, color="0.6", linewidth=0.8)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=4, frameon=False, fontsize=8)
        figure.savefig(path, dpi=160)
        plt.close(figure)
