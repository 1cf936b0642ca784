"""What to do about a record: the worst corner of the risk map, with an action that follows from its numbers.

A record *stands out* when it is likelier to be said, or has a lower calibrated loss, than 97.5 % of the held-out
records: that says something of this very text and not of its kind (at most 5 % of strangers would, by chance). A
record that is likely and does not stand out is a commonplace. Copies and kinds of secrets come from the corpus,
where the report's maker read it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from reticent.reporting.report import RiskMap, RiskPoint, RunReport

WORST: Final = 30
_SHARE_BEYOND: Final = 0.025  # in each of two directions
_SEEN: Final = math.log(0.01)  # a record that appears in the attacker's samples this often is as good as out


@dataclass(frozen=True, slots=True)
class Advice:
    """A record and what to do about it; `stands_out` None where no held-out record tells."""

    point: RiskPoint
    stands_out: bool | None
    actions: tuple[str, ...]


def worst_records(run: RunReport, count: int = WORST) -> tuple[Advice, ...]:
    """The training records at most risk, the worst first."""
    risk_map = run.risk_map
    training = None if risk_map is None else risk_map.group("training")
    if risk_map is None or training is None:
        return ()
    stands_out = outstanding(risk_map)
    order = sorted(training.points, key=lambda point: (-(point.standing or 0.0), -point.emission))[:count]
    return tuple(
        _advice(point, run, stands_out=None if stands_out is None else stands_out(point)) for point in order
    )


def outstanding(risk_map: RiskMap) -> Callable[[RiskPoint], bool] | None:
    """Whether a record is beyond its kind in either direction; None where no held-out record can tell."""
    held_out = risk_map.group("held-out")
    if held_out is None or not held_out.points:
        return None
    place = int(_SHARE_BEYOND * len(held_out.points))
    lowest_loss = sorted(point.calibrated for point in held_out.points)[place]
    likeliest = sorted((point.emission for point in held_out.points), reverse=True)[place]
    return lambda point: point.calibrated < lowest_loss or point.emission > likeliest


def _advice(point: RiskPoint, run: RunReport, *, stands_out: bool | None) -> Advice:
    actions = []
    if point.facts is not None and point.facts.copies > 1:
        actions.append(f"Deduplicate: the text stands {point.facts.copies} times.")
    if stands_out and point.facts is not None and point.facts.kinds:
        actions.append(f"Redact {', '.join(point.facts.kinds)} and retrain.")
    if stands_out and point.log_chance >= _SEEN:
        actions.append("Take it out and retrain; until then filter it from answers.")
    if stands_out and run.guarantee is None:
        actions.append("Retrain with a guarantee: --method dp-sgd, or crt where secrets are known.")
    elif stands_out:
        actions.append("Retrain with a smaller ε if this is too much.")
    if stands_out is False and point.log_chance >= _SEEN:
        actions.append("Likely, as its kind is: look whether it is a template.")
    if stands_out is None and point.log_chance >= _SEEN:
        actions.append("Likely to be said: audit with held-out text to tell whether its whole kind is.")
    return Advice(point, stands_out, tuple(actions) or ("None suggested by these numbers.",))
