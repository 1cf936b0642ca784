"""Perplexity of held-out text under every mechanism at equal (ε, δ), with intervals over draws of the text.

Each repeat reads the held-out texts in another order and stops after so many answers, all mechanisms on the same
look-ups, charged on budgets of their own in memory: nothing is released, so nothing is spent. Intervals
are Student's over repeats; they speak of the text, not of another training of the ensemble.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reticent.core.document import number_to_json, require_writable, write_document
from reticent.core.ensemble import Ensemble
from reticent.core.errors import ConfigError
from reticent.core.guarantee import Guarantee, Unit
from reticent.core.model import Tokens
from reticent.core.randomness import Randomness
from reticent.prediction.budgets import Kind, Options, Setup, Target, set_up
from reticent.prediction.calibration import CalibratedEnsemble, Calibration
from reticent.prediction.evaluation import Score, Spread, evaluate, over_seeds, passages, realised_share
from reticent.prediction.mechanisms.mechanism import Layout
from reticent.prediction.mechanisms.shaping import Shaping
from reticent.prediction.mechanisms.unprotected import NGramIndex
from reticent.prediction.planner import Plan, plan
from reticent.runs.ensemble.loading import load_ensemble
from reticent.runs.ensemble.prediction import SETTINGS, check_unit, settings_of
from reticent.runs.ensemble.public_text import calibrate
from reticent.runs.ensemble.settings import EvaluateSettings

HALVED = (Kind.SUBMIX, Kind.SUBMIX_PER_PART)
_NGRAM = 8  # tokens that MemFree never lets through twice
_NO_TARGET = (Kind.PUBLIC, Kind.NON_PRIVATE, Kind.MEMFREE)  # the same at every ε


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSettings:
    """What to compare, and on how much text."""

    mechanisms: tuple[Kind, ...]
    epsilons: tuple[float, ...]
    delta: float
    answers: int
    repeats: int = 3
    unit: Unit = Unit.PART
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        if not self.mechanisms or not self.epsilons or self.repeats < 1:
            raise ConfigError("an evaluation needs mechanisms, an ε and at least one repeat")
        if Kind.DP_SGD in self.mechanisms:
            raise ConfigError(
                "a DP-SGD model is no part of an ensemble", hint="measure it with: reticent train --holdout"
            )


@dataclass(frozen=True, slots=True)
class Line:
    """One mechanism at one ε (None: it has none): perplexity, the share of the gap it realises, what it proves."""

    mechanism: Kind
    epsilon: float | None
    spread: Spread
    realised: float | None
    silent: float
    guarantee: Guarantee | None

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        spread = self.spread
        return {
            "mechanism": self.mechanism.value,
            "epsilon": self.epsilon,
            "perplexity": number_to_json(spread.value),
            "interval": [number_to_json(spread.low), number_to_json(spread.high)],
            "repeats": spread.seeds,
            "realised": None if self.realised is None else number_to_json(self.realised),
            "silent": self.silent,
            "guarantee": None if self.guarantee is None else self.guarantee.to_json(),
        }


def mechanisms_for(names: str, ensemble: Ensemble, *, has_index: bool) -> tuple[Kind, ...]:
    """Mechanisms by name, or `all` that this ensemble allows."""
    if names == "all":
        has_halves = Layout(ensemble.rows).has_halves
        left_out = {Kind.DP_SGD, *(() if has_halves else HALVED), *(() if has_index else (Kind.MEMFREE,))}
        return tuple(kind for kind in Kind if kind not in left_out)
    known = {kind.value: kind for kind in Kind}
    wanted = [name.strip() for name in names.split(",")]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ConfigError("no such mechanism", found=unknown[0], expected=", ".join(known))
    return tuple(dict.fromkeys(known[name] for name in wanted))


def compare_mechanisms(
    ensemble: Ensemble,
    texts: Sequence[Tokens],
    settings: EvaluationSettings,
    *,
    randomness: Randomness,
    observe: Callable[[int], None] = lambda _: None,
) -> list[Line]:
    """Every mechanism at every ε; the public model and the non-private ensemble are always measured with them."""
    cases = _cases(settings)
    setups = [_set_up(kind, epsilon, settings, ensemble) for kind, epsilon in cases]
    scores: list[list[Score]] = [[] for _ in cases]
    for repeat in range(settings.repeats):
        source = randomness.child(f"repeat {repeat}")
        order = source.permutation(len(texts))
        chosen = passages(ensemble, (texts[int(index)] for index in order), answers=settings.answers)
        found = evaluate(
            setups, chosen, parts=len(ensemble.parts), horizon=settings.answers, randomness=source.child("draws")
        )
        for case, score in zip(scores, found, strict=True):
            case.append(score)
        observe(repeat + 1)
    spreads = [over_seeds(case) for case in scores]
    ends = {kind: spread.value for (kind, _), spread in zip(cases, spreads, strict=True) if kind in _NO_TARGET}
    lines = []
    for (kind, epsilon), spread, case, setup in zip(cases, spreads, scores, setups, strict=True):
        realised = realised_share(ends[Kind.PUBLIC], spread.value, ends[Kind.NON_PRIVATE])
        silent = sum(score.silent for score in case) / len(case)
        promise = None if setup.budget is None or kind in _NO_TARGET else setup.budget.guarantee
        lines.append(Line(kind, epsilon, spread, realised, silent, promise))
    return lines


def compare_settings(
    ensemble: Ensemble, texts: Sequence[Tokens], settings: EvaluationSettings
) -> list[tuple[float, Plan]]:
    """Orders and weight limits of SubMix-F at every ε, the best of each ε first; texts in their order."""
    found = []
    for epsilon in settings.epsilons:
        target = Target(epsilon=epsilon, delta=settings.delta, answers=settings.answers, unit=settings.unit)
        sample = passages(ensemble, texts, answers=settings.answers)
        found += [(epsilon, each) for each in plan(sample, target, layout=Layout(ensemble.rows))]
    return found


def _cases(settings: EvaluationSettings) -> list[tuple[Kind, float | None]]:
    cases: list[tuple[Kind, float | None]] = [(Kind.PUBLIC, None), (Kind.NON_PRIVATE, None)]
    cases += [(kind, None) for kind in settings.mechanisms if kind in _NO_TARGET and (kind, None) not in cases]
    targeted = [kind for kind in settings.mechanisms if kind not in _NO_TARGET]
    return cases + [(kind, epsilon) for epsilon in settings.epsilons for kind in targeted]


def _set_up(kind: Kind, epsilon: float | None, settings: EvaluationSettings, ensemble: Ensemble) -> Setup:
    target = Target(
        epsilon=settings.epsilons[0] if epsilon is None else epsilon,
        delta=settings.delta,
        answers=settings.answers,
        unit=settings.unit,
    )
    return set_up(kind, target, Layout(ensemble.rows), options=settings.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """What was compared: mechanisms (`lines`), or settings of SubMix-F at every ε (`plans`)."""

    settings: EvaluateSettings
    parts: int
    lines: list[Line] = field(default_factory=list)
    plans: list[tuple[float, Plan]] = field(default_factory=list)
    calibration: Calibration | None = None
    uncalibrated: float | None = None  # perplexity of the public model as it was, where it was calibrated

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        asked = self.settings
        facts: dict[str, Any] = {
            "schema_version": 1,
            "run": str(asked.run),
            "parts": self.parts,
            "queries": asked.queries,
            "delta": asked.delta,
            "unit": asked.unit.value,
        }
        if self.calibration is not None:
            facts["calibration"] = self.calibration.to_json()
            facts["uncalibrated_public"] = number_to_json(self.uncalibrated)
        if asked.compare_settings:
            return facts | {"settings": [{"epsilon": at} | each.to_json() for at, each in self.plans]}
        return facts | {"lines": [line.to_json() for line in self.lines]}


def _calibration(settings: EvaluateSettings) -> Calibration | None:
    """That of the public text that was given; else the one that the ensemble answers with."""
    if settings.public is not None:
        return calibrate(settings.run, settings.public)
    is_fixed = (settings.run / SETTINGS).is_file()
    return settings_of(settings.run, {}).calibration if is_fixed else None


def _perplexity(ensemble: Ensemble, texts: Sequence[Tokens], *, answers: int) -> float:
    """Of the public model alone, on the first `answers` tokens of the texts."""
    target = Target(epsilon=1.0, delta=0.0, answers=answers)  # it has none
    setup = set_up(Kind.PUBLIC, target, Layout(ensemble.rows))
    read = passages(ensemble, texts, answers=answers)
    parts, source = len(ensemble.parts), Randomness.seeded(0)  # nothing is drawn
    return evaluate([setup], read, parts=parts, horizon=answers, randomness=source)[0].perplexity


def evaluate_ensemble(
    settings: EvaluateSettings, *, observe: Callable[[int], None] = lambda _: None
) -> EvaluationResult:
    """Compare mechanisms, or settings of SubMix-F, on held-out text. Nothing is charged; numbers are private."""
    corpus, epsilons = settings.corpus(settings.data), settings.epsilons
    if settings.out is not None:
        require_writable(settings.out)
    held_out = corpus.load()
    check_unit(settings.run, settings.unit)
    calibration = _calibration(settings)
    plain = load_ensemble(settings.run)
    ensemble = plain if calibration is None else CalibratedEnsemble(plain, calibration)
    index = None
    if settings.train is not None:
        index = NGramIndex(ensemble.public.encode(settings.corpus(settings.train).load().texts), _NGRAM)
    comparison = EvaluationSettings(
        mechanisms=mechanisms_for(settings.mechanisms, ensemble, has_index=index is not None),
        epsilons=epsilons,
        delta=settings.delta,
        answers=settings.queries,
        repeats=settings.repeats,
        unit=settings.unit,
        options=Options(
            shaping=Shaping(settings.temperature),
            order=settings.order,
            weight_limit=settings.weight_limit,
            index=index,
        ),
    )
    texts = [tokens[: settings.max_length] for tokens in ensemble.public.encode(held_out.texts)]
    result = EvaluationResult(settings=settings, parts=len(ensemble.parts), calibration=calibration)
    if settings.compare_settings:
        result = replace(result, plans=compare_settings(ensemble, texts, comparison))
    else:
        source = settings.randomness
        lines = compare_mechanisms(ensemble, texts, comparison, randomness=source, observe=observe)
        result = replace(result, lines=lines)
        if calibration is not None:
            result = replace(result, uncalibrated=_perplexity(plain, texts, answers=settings.queries))
    if settings.out is not None:
        write_document(settings.out, result.to_json(), mode=0o600)
    return result
