"""Which order and weight limit of SubMix-F to choose, by what they do on public text.

Order and weight limit λmax are public settings: whoever tuned them on the private ensemble or on private text would
leak by the choice. So the real mechanism is run over public text with an ensemble that was trained on other public
text of the same kind. What comes out is a plan, not a finding and not a guarantee: it is as good as that ensemble
is like the private one, and the best of several settings looks a little better on the text that chose it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from reticent.core.document import UNWRITTEN, JsonObject, fields_to_json
from reticent.core.randomness import Randomness
from reticent.prediction.budgets import (
    ORDERS,
    MechanismName,
    MechanismOptions,
    PredictionTarget,
    Setup,
    renyi_limit,
    set_up_mechanism,
)
from reticent.prediction.evaluation import Passage, evaluate_mechanisms, realised_share
from reticent.prediction.mechanisms.mechanism import Layout

LIMITS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
_TRIED = 3  # orders
_ENDS = (MechanismName.PUBLIC, MechanismName.NON_PRIVATE)


@dataclass(frozen=True, slots=True)
class Plan(JsonObject):
    """A setting of SubMix-F with what it does on text like the sample.

    `realised` is the share of the way from public to non-private loss, None where the ensemble gains nothing.
    """

    order: float
    weight_limit: float
    perplexity: float
    public: float = field(metadata=UNWRITTEN)
    non_private: float = field(metadata=UNWRITTEN)

    @property
    def realised(self) -> float | None:
        """(log public − log private) / (log public − log non-private)."""
        return realised_share(self.public, self.perplexity, self.non_private)

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return fields_to_json(self, realised=self.realised)


def plan(
    sample: Iterable[Passage],
    target: PredictionTarget,
    *,
    layout: Layout,
    orders: Sequence[float] | None = None,
    limits: Sequence[float] = LIMITS,
) -> list[Plan]:
    """Settings of SubMix-F by perplexity on a public sample, the best first.

    The sample is the beginning of `target.queries` answers: n tokens of it may spend n/answers of the caps.
    """
    settings = [(order, limit) for order in orders or likely_orders(target) for limit in limits]
    setups = [
        Setup(set_up_mechanism(kind, target, layout, options=MechanismOptions()).mechanism, None) for kind in _ENDS
    ]
    for order, limit in settings:
        options = MechanismOptions(order=order, weight_limit=limit)
        setups.append(set_up_mechanism(MechanismName.SUBMIX_F, target, layout, options=options))
    scores = evaluate_mechanisms(
        setups, sample, parts=layout.parts, queries=target.queries, randomness=Randomness.seeded(0)
    )  # no draw: SubMix-F, the public model and the mean are functions of the rows
    public, best = (score.perplexity for score in scores[: len(_ENDS)])
    plans = [
        Plan(order, limit, score.perplexity, public, best)
        for (order, limit), score in zip(settings, scores[len(_ENDS) :], strict=True)
    ]
    return sorted(plans, key=lambda setting: setting.perplexity)


def likely_orders(target: PredictionTarget) -> list[float]:
    """The orders with the greatest limit over their square; ∞ alone where no other has one, as with δ = 0."""
    ranked = sorted(ORDERS, key=lambda order: -renyi_limit(target, order) / order**2)
    return [float(order) for order in ranked[:_TRIED] if renyi_limit(target, order) > 0.0] or [math.inf]
