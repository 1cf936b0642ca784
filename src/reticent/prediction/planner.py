"""Which setting to choose, and what to expect of it, from public text alone.

The order, the limit λmax of the mixing weights and the number of parts are public settings: whoever tuned them on
the private text would leak by the choice. The planner runs the real mechanism over a public sample and a stand-in
for the private parts, and never sees a private row. The stand-in is either an ensemble that was trained on public
text of the same kind, the better way, or a tilt of the public model: part i gives the true token `gain_i` more
nats, gains spread around their mean as parts differ,

    h_i(y) ∝ r(y) · exp(gain_i · [y = x])

What it expects is as good as that stand-in: a plan, not a finding and not a guarantee.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reticent.core.divergence import log_normalise
from reticent.core.errors import ConfigError
from reticent.core.model import Floats, LanguageModel, Tokens
from reticent.core.randomness import Randomness
from reticent.prediction.budgets import ORDERS, Kind, Options, Setup, Target, renyi_limit, set_up
from reticent.prediction.evaluation import Passage, evaluate
from reticent.prediction.mechanism import Layout
from reticent.prediction.shaping import Shaping

LIMITS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True, slots=True)
class Plan:
    """A setting of SubMix-F with what it is expected to do on text like the sample.

    `realised` is the share of the way from public to non-private loss, None where the stand-in gains nothing.
    """

    order: float
    weight_limit: float
    perplexity: float
    public: float
    non_private: float

    @property
    def realised(self) -> float | None:
        """(log public − log private) / (log public − log non-private)."""
        gap = math.log(self.public / self.non_private)
        return math.log(self.public / self.perplexity) / gap if gap > 0.0 else None


def stand_in(
    public: LanguageModel, texts: Sequence[Tokens], *, parts: int, gain: float, randomness: Randomness
) -> list[Passage]:
    """Passages of a pretended ensemble: the public model, and `parts` tilts of it towards the true tokens."""
    made = []
    for tokens in texts:
        if not tokens:
            continue
        contexts = [list(tokens[:place]) for place in range(len(tokens))]
        rows = public.next_token_log_probs(contexts)  # [T, V]
        made.append(tilted(rows, tokens, parts=parts, gain=gain, randomness=randomness))
    return made


def tilted(public: Floats, tokens: Tokens, *, parts: int, gain: float, randomness: Randomness) -> Passage:
    """One passage: rows [T, 1 + parts, V] in which each part gives the true token about `gain` nats more."""
    rows = np.repeat(np.asarray(public, dtype=np.float64)[:, None, :], 1 + parts, axis=1)
    gains = gain * (1.0 + 0.5 * randomness.normal((len(tokens), parts)))
    for place, token in enumerate(tokens):
        rows[place, 1:, token] += gains[place]
    rows[:, 1:] = log_normalise(rows[:, 1:])
    return Passage(tuple(tokens), rows)


def plan(
    sample: Sequence[Passage],
    target: Target,
    *,
    orders: Sequence[float] | None = None,
    limits: Sequence[float] = LIMITS,
    shaping: Shaping | None = None,
) -> list[Plan]:
    """Settings of SubMix-F by expected perplexity on a public sample, the best first.

    The horizon is scaled down with the sample: a sample of n tokens spends n/answers of the budget's caps.
    """
    if not sample:
        raise ConfigError("a plan needs a public sample")
    layout = Layout.single(sample[0].rows.shape[1] - 1)
    shape = shaping or Shaping()
    settings = [(order, limit) for order in orders or likely_orders(target) for limit in limits]
    setups = [Setup(set_up(kind, target, layout, options=Options(shaping=shape)).mechanism, None) for kind in _ENDS]
    for order, limit in settings:
        options = Options(shaping=shape, order=order, weight_limit=limit)
        setups.append(set_up(Kind.SUBMIX_F, target, layout, options=options))
    scores = evaluate(
        setups, sample, parts=layout.parts, horizon=target.answers, randomness=Randomness.seeded(0)
    )  # no draw: SubMix-F, the public model and the mean are functions of the rows
    public, best = (score.perplexity for score in scores[: len(_ENDS)])
    plans = [
        Plan(order, limit, score.perplexity, public, best)
        for (order, limit), score in zip(settings, scores[len(_ENDS) :], strict=True)
    ]
    return sorted(plans, key=lambda setting: setting.perplexity)


_ENDS = (Kind.PUBLIC, Kind.NON_PRIVATE)


def likely_orders(target: Target, *, count: int = 3) -> list[float]:
    """The orders with the greatest limit for small charges; ∞ alone where δ is 0."""
    if target.delta == 0.0:
        return [math.inf]
    ranked = sorted(ORDERS, key=lambda order: -renyi_limit(target, order) / order)
    return [float(order) for order in ranked[:count] if renyi_limit(target, order) > 0.0]
