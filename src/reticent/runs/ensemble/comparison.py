"""Perplexity of held-out text under every mechanism at equal (ε, δ), with intervals over draws of the text.

Each repeat reads the held-out texts in another order and stops after so many answers, all mechanisms on the same
look-ups, charged on budgets of their own in memory: nothing is released, so nothing is spent. Intervals
are Student's over repeats; they speak of the text, not of another training of the ensemble.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from reticent.core.arrays import Flags
from reticent.core.document import object_to_json
from reticent.core.ensemble import Ensemble
from reticent.core.errors import ConfigError
from reticent.core.guarantee import Guarantee, Unit
from reticent.core.model import LanguageModel, Tokens
from reticent.core.randomness import Randomness
from reticent.prediction.budgets import MechanismName, MechanismOptions, PredictionTarget, Setup, set_up_mechanism
from reticent.prediction.evaluation import (
    Score,
    Spread,
    evaluate_mechanisms,
    first_tokens,
    look_up_passages,
    outside_of,
    over_seeds,
    realised_share,
    score_of,
)
from reticent.prediction.mechanisms.mechanism import Layout
from reticent.prediction.planner import Plan, plan

HALVED = (MechanismName.SUBMIX, MechanismName.SUBMIX_PER_PART)
MANY_PARTS = 100  # from which on a noisy check of their agreement can tell anything
_NO_TARGET = (MechanismName.PUBLIC, MechanismName.NON_PRIVATE, MechanismName.MEMFREE)  # the same at every ε


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What to compare, and on how much text."""

    mechanisms: tuple[MechanismName, ...]
    epsilons: tuple[float, ...]
    delta: float
    queries: int
    repeats: int = 3
    unit: Unit = Unit.PART
    options: MechanismOptions = field(default_factory=MechanismOptions)

    def __post_init__(self) -> None:
        if not self.mechanisms or not self.epsilons or self.repeats < 1:
            raise ConfigError("a comparison needs mechanisms, an ε and at least one repeat")


@dataclass(frozen=True, slots=True)
class Rival:
    """A model that was trained with differential privacy, and what was proved of it: answers cost it nothing."""

    model: LanguageModel
    guarantee: Guarantee

    def score(self, texts: Sequence[Tokens]) -> Score:
        """Its losses on texts of the ensemble's tokens."""
        return score_of(MechanismName.DP_SGD.value, [(-row).tolist() for row in self.model.token_log_probs(texts)])


@dataclass(frozen=True, slots=True)
class Line:
    """One mechanism at one ε (None: it has none): perplexity, the share of the gap it realises, what it proves.

    `outside` is the perplexity outside secrets, where someone said what these are.
    """

    mechanism: MechanismName
    epsilon: float | None
    spread: Spread
    realised: float | None
    silent: float
    guarantee: Guarantee | None
    outside: Spread | None = None

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        found = {
            "mechanism": self.mechanism,
            "epsilon": self.epsilon,
            **_perplexity(self.spread),
            "repeats": self.spread.seeds,
            "outside": None if self.outside is None else _perplexity(self.outside),
            "realised": self.realised,
            "silent": self.silent,
            "guarantee": self.guarantee,
        }
        return object_to_json(found)


def _perplexity(spread: Spread) -> dict[str, Any]:
    return {"perplexity": spread.value, "interval": (spread.low, spread.high)}


def mechanisms_for(names: str, ensemble: Ensemble, *, has_index: bool) -> tuple[MechanismName, ...]:
    """Mechanisms by name, or `all` that this ensemble allows."""
    if names == "all":
        has_halves = Layout(ensemble.rows).has_halves
        left_out = {
            MechanismName.DP_SGD,
            MechanismName.GNMAX_COUNTED,  # a promise for the actual data: on request
            *(() if len(ensemble.parts) >= MANY_PARTS else (MechanismName.CONFIDENT_GNMAX,)),
            *(() if has_halves else HALVED),
            *(() if has_index else (MechanismName.MEMFREE,)),
        }
        return tuple(kind for kind in MechanismName if kind not in left_out)
    known = {kind.value: kind for kind in MechanismName}
    wanted = [name.strip() for name in names.split(",")]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ConfigError("no such mechanism", found=unknown[0], expected=", ".join(known))
    return tuple(dict.fromkeys(known[name] for name in wanted))


def compare_mechanisms(
    ensemble: Ensemble,
    texts: Sequence[Tokens],
    settings: Comparison,
    *,
    randomness: Randomness,
    rival: Rival | None = None,
    outside: Sequence[Flags] | None = None,
    observe: Callable[[int], None] = lambda _: None,
) -> list[Line]:
    """Every mechanism at every ε; the public model and the non-private ensemble are always measured with them.

    A `rival` is read on the same tokens; its line is the last one. `outside` says of each token of each text
    whether it is outside secrets.
    """
    cases = cases_of(settings)
    setups = [set_up_case(kind, epsilon, settings, ensemble) for kind, epsilon in cases]
    rows = [
        (kind, epsilon, None if setup.budget is None or kind in _NO_TARGET else setup.budget.guarantee)
        for (kind, epsilon), setup in zip(cases, setups, strict=True)
    ]
    if rival is not None:
        rows.append((MechanismName.DP_SGD, rival.guarantee.epsilon, rival.guarantee))
    repeats = []  # a score of every row, of every repeat
    rests: list[list[Score | None]] = []  # the same outside secrets
    for repeat in range(settings.repeats):
        source = randomness.child(f"repeat {repeat}")
        order = [int(index) for index in source.permutation(len(texts))]
        ordered = [texts[index] for index in order]
        chosen = look_up_passages(ensemble, ordered, answers=settings.queries)
        scores = evaluate_mechanisms(
            setups, chosen, parts=len(ensemble.parts), queries=settings.queries, randomness=source.child("draws")
        )
        if rival is not None:
            scores.append(rival.score(list(first_tokens(ordered, answers=settings.queries))))
        repeats.append(scores)
        flags = None if outside is None else [outside[index] for index in order if len(texts[index])]
        rests.append([None if flags is None else outside_of(score, flags) for score in scores])
        observe(repeat + 1)
    by_row = list(zip(*repeats, strict=True))
    spreads = [over_seeds(scores) for scores in by_row]
    outsides = [_over_known(scores) for scores in zip(*rests, strict=True)]
    ends = {kind: spread.value for (kind, _, _), spread in zip(rows, spreads, strict=True) if kind in _NO_TARGET}
    lines = []
    for (kind, epsilon, promise), spread, rest, repeated in zip(rows, spreads, outsides, by_row, strict=True):
        realised = realised_share(ends[MechanismName.PUBLIC], spread.value, ends[MechanismName.NON_PRIVATE])
        silent = sum(score.silent for score in repeated) / len(repeated)
        lines.append(Line(kind, epsilon, spread, realised, silent, promise, outside=rest))
    return lines


def _over_known(scores: Sequence[Score | None]) -> Spread | None:
    """The spread over repeats; None where one of them read nothing of the kind."""
    known = [score for score in scores if score is not None]
    return over_seeds(known) if len(known) == len(scores) else None


def compare_settings(ensemble: Ensemble, texts: Sequence[Tokens], settings: Comparison) -> list[tuple[float, Plan]]:
    """Orders and weight limits of SubMix-F at every ε, the best of each ε first; texts in their order."""
    found = []
    for epsilon in settings.epsilons:
        target = PredictionTarget(
            epsilon=epsilon, delta=settings.delta, queries=settings.queries, unit=settings.unit
        )
        sample = look_up_passages(ensemble, texts, answers=settings.queries)
        found += [(epsilon, each) for each in plan(sample, target, layout=Layout(ensemble.rows))]
    return found


def cases_of(settings: Comparison) -> list[tuple[MechanismName, float | None]]:
    """What is compared: mechanisms, each with its ε; None where it has none."""
    cases: list[tuple[MechanismName, float | None]] = [
        (MechanismName.PUBLIC, None),
        (MechanismName.NON_PRIVATE, None),
    ]
    cases += [(kind, None) for kind in settings.mechanisms if kind in _NO_TARGET and (kind, None) not in cases]
    targeted = [kind for kind in settings.mechanisms if kind not in _NO_TARGET]
    return cases + [(kind, epsilon) for epsilon in settings.epsilons for kind in targeted]


def set_up_case(kind: MechanismName, epsilon: float | None, settings: Comparison, ensemble: Ensemble) -> Setup:
    """A mechanism of the comparison, calibrated to its ε."""
    target = PredictionTarget(
        epsilon=settings.epsilons[0] if epsilon is None else epsilon,
        delta=settings.delta,
        queries=settings.queries,
        unit=settings.unit,
    )
    return set_up_mechanism(kind, target, Layout(ensemble.rows), options=settings.options)
