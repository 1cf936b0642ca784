"""What to do about a record: those from which an attacker gains most, with actions that follow from the numbers.

A record *stands out* when it is likelier to be said, or has a lower calibrated loss, token for token, than 97.5 %
of the held-out records: that says something of this very text and not of its kind or length (at most 5 % of
strangers would, by chance). A record that is likely and does not stand out is a commonplace. Kinds of secrets and
copies among all records come from the corpus, where the report's maker read it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from reticent.reporting.report import RiskMap, RiskPoint, RunReport

WORST: Final = 30
_SHARE_BEYOND: Final = 0.025  # in each of two directions
SEEN: Final = math.log(0.01)  # a record that appears in the attacker's samples this often is as good as out
RETRAIN: Final = "Retrain with a guarantee: --method dp-sgd, or --method crt if you know the secrets."


@dataclass(frozen=True, slots=True)
class Advice:
    """A record and what to do about it; `stands_out` None where no held-out record tells."""

    point: RiskPoint
    copies: int
    stands_out: bool | None
    actions: tuple[str, ...]


def worst_records(run: RunReport, count: int = WORST) -> tuple[Advice, ...]:
    """The training texts most at risk, the worst first; one record of each text."""
    risk_map = run.risk_map
    training = None if risk_map is None else risk_map.group("training")
    if risk_map is None or training is None:
        return ()
    stands_out = outstanding(risk_map)
    listed = training.worst(count)
    return tuple(
        _advice(point, run, copies=copies, stands_out=None if stands_out is None else stands_out(point))
        for point, copies in listed
    )


def outstanding(risk_map: RiskMap) -> Callable[[RiskPoint], bool] | None:
    """Whether a record is beyond its kind in either direction; None where no held-out record can tell."""
    held_out = risk_map.group("held-out")
    if held_out is None or not held_out.points:
        return None
    place = int(_SHARE_BEYOND * len(held_out.points))
    lowest_loss = sorted(point.calibrated / point.tokens for point in held_out.points)[place]
    likeliest = sorted((point.emission / point.tokens for point in held_out.points), reverse=True)[place]
    return lambda point: point.calibrated / point.tokens < lowest_loss or point.emission / point.tokens > likeliest


def _advice(point: RiskPoint, run: RunReport, *, copies: int, stands_out: bool | None) -> Advice:
    actions = []
    copies = max(copies, 1 if point.facts is None else point.facts.copies)
    if copies > 1:
        actions.append(f"Deduplicate: the text occurs {copies} times.")
    if stands_out and point.facts is not None and point.facts.kinds:
        actions.append(f"Redact {', '.join(point.facts.kinds)} and retrain.")
    if stands_out and point.log_chance >= SEEN:
        actions.append("Remove it and retrain; until then, filter it from answers.")
    if stands_out and run.guarantee is None:
        actions.append(RETRAIN)
    elif stands_out:
        actions.append("Retrain with a smaller ε if this is too much.")
    if stands_out is False and point.log_chance >= SEEN:
        actions.append("As likely as other texts of its kind: check whether it is a template.")
    if stands_out is None and point.log_chance >= SEEN:
        actions.append("Likely to be emitted: audit with held-out text to see whether similar texts are too.")
    return Advice(point, copies, stands_out, tuple(actions) or ("These numbers suggest no action.",))
