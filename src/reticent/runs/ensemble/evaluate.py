"""The verb `reticent evaluate`: what private answers are worth on held-out text, for the operator's eyes.

Compares mechanisms, a DP-SGD model beside them where one is named, or settings of SubMix-F; shows what answers read
like. Budgets are in memory: nothing is charged, so no guarantee covers what is printed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reticent.core.arrays import Flags
from reticent.core.corpus import Corpus
from reticent.core.document import object_to_json, require_writable, write_document
from reticent.core.ensemble import Ensemble
from reticent.core.errors import ConfigError
from reticent.core.guarantee import Notion
from reticent.core.model import LanguageModel, Tokens
from reticent.core.randomness import Randomness
from reticent.models.huggingface.model import HuggingFaceModel
from reticent.prediction.budgets import MechanismName, MechanismOptions, PredictionTarget, set_up_mechanism
from reticent.prediction.calibration import CalibratedEnsemble, Calibration
from reticent.prediction.evaluation import evaluate_mechanisms, look_up_passages
from reticent.prediction.mechanisms.mechanism import Layout
from reticent.prediction.mechanisms.shaping import Shaping
from reticent.prediction.mechanisms.unprotected import NGramIndex
from reticent.prediction.planner import Plan
from reticent.runs.audit.subject import find_model
from reticent.runs.directory import PREDICTION
from reticent.runs.ensemble.comparison import (
    Comparison,
    Line,
    Rival,
    compare_mechanisms,
    compare_settings,
    mechanisms_for,
)
from reticent.runs.ensemble.loading import load_ensemble
from reticent.runs.ensemble.prediction import check_unit, settings_of
from reticent.runs.ensemble.public_text import calibrate
from reticent.runs.ensemble.samples import Sample, count_as_asked, judge, judged_perplexity, sample_answers
from reticent.runs.ensemble.settings import EvaluateSettings
from reticent.runs.policies.by_name import policy_named
from reticent.runs.proofs.ancestry import ANCESTRY, Ancestry, require_unseen
from reticent.training.evaluation import outside_spans

_NGRAM = 8  # tokens that MemFree never lets through twice


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """What was compared: mechanisms (`lines`), or settings of SubMix-F at every ε (`plans`)."""

    settings: EvaluateSettings
    parts: int
    trained_on: int = 0  # distinct texts of the held-out corpus that the ensemble was trained on
    lines: list[Line] = field(default_factory=list)
    plans: list[tuple[float, Plan]] = field(default_factory=list)
    calibration: Calibration | None = None
    uncalibrated: float | None = None  # perplexity of the public model as it was, where it was calibrated
    samples: tuple[Sample, ...] = ()
    judged_held_out: float | None = None  # perplexity of the held-out text by the judge of the samples

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        asked = self.settings
        facts: dict[str, Any] = {
            "schema_version": 1,
            "run": asked.run,
            "parts": self.parts,
            "queries": asked.queries,
            "delta": asked.delta,
            "unit": asked.unit,
        }
        if self.trained_on:
            facts["trained_on"] = self.trained_on
        if self.calibration is not None:
            facts |= {"calibration": self.calibration, "uncalibrated_public": self.uncalibrated}
        if asked.compare_settings:
            return object_to_json(
                facts | {"settings": [{"epsilon": at} | each.to_json() for at, each in self.plans]}
            )
        if self.samples:
            facts |= {"samples": self.samples, "judged_held_out": self.judged_held_out}
        return object_to_json(facts | {"lines": self.lines})


def _trained_on(run: Path, held_out: Corpus) -> int:
    """How many of the texts the ensemble, or its base, was trained on; 0 where no trace was kept."""
    if not (run / ANCESTRY).is_file():
        return 0
    compared = (trained.compared_with(held_out).shared for trained in Ancestry.read(run).runs)
    return max((shared.texts for shared in compared if shared is not None), default=0)


def _calibration(settings: EvaluateSettings) -> Calibration | None:
    """That of the public text that was given; else the one that the ensemble answers with."""
    is_fixed = (settings.run / PREDICTION).is_file()
    stored = settings_of(settings.run, {}).calibration if is_fixed else None
    return stored if settings.public is None else calibrate(settings.run, settings.public, stored=stored)


def _perplexity(ensemble: Ensemble, texts: Sequence[Tokens], *, answers: int) -> float:
    """Of the public model alone, on the first `answers` tokens of the texts."""
    target = PredictionTarget(epsilon=1.0, delta=0.0, queries=answers)  # it has none
    setup = set_up_mechanism(MechanismName.PUBLIC, target, Layout(ensemble.rows))
    read = look_up_passages(ensemble, texts, answers=answers)
    parts, source = len(ensemble.parts), Randomness.seeded(0)  # nothing is drawn
    return evaluate_mechanisms([setup], read, parts=parts, queries=answers, randomness=source)[0].perplexity


def _rival(source: Path, texts: Sequence[str], encoded: Sequence[Tokens]) -> Rival:
    """The model of a DP-SGD run, which must split the held-out texts as the ensemble does."""
    from reticent.models.huggingface.loading import load_model

    place = find_model(str(source))
    if place.guarantee is None or place.guarantee.notion is not Notion.DIFFERENTIAL_PRIVACY:
        raise ConfigError(
            f"{source}: no differential privacy is proved for this model",
            hint="name the run directory of: reticent train --method dp-sgd",
        )
    model = load_model(place.source, name=str(source))
    if model.encode(texts) != list(encoded):
        raise ConfigError(
            f"{source}: its tokenizer splits the held-out text differently from the ensemble's",
            hint="compare models that were trained from the same base model",
        )
    return Rival(model, place.guarantee)


def _outside(settings: EvaluateSettings, model: LanguageModel, texts: Sequence[str]) -> list[Flags] | None:
    """Which tokens of each held-out text are outside what the policy finds there; None without a policy."""
    if settings.policy is None:
        return None
    places = model.token_places(texts) if isinstance(model, HuggingFaceModel) else None
    if places is None:
        raise ConfigError("--policy: this tokenizer does not say which characters a token stands for")
    return outside_spans(places, policy_named(settings.policy).find(texts))


def _rated(result: EvaluationResult, texts: Sequence[str]) -> EvaluationResult:
    """The result with what the judge says of answers and held-out text, and how many answers are as asked for."""
    settings, samples = result.settings, result.samples
    if settings.expect:
        samples = count_as_asked(samples, settings.expected)
    if settings.judge is None:
        return replace(result, samples=samples)
    from reticent.models.huggingface.loading import load_model

    model = load_model(find_model(settings.judge).source, name=settings.judge)
    return replace(result, samples=judge(samples, model), judged_held_out=judged_perplexity(model, texts))


def evaluate_ensemble(
    settings: EvaluateSettings, *, observe: Callable[[int], None] = lambda _: None
) -> EvaluationResult:
    """Compare mechanisms, or settings of SubMix-F, on held-out text. Nothing is charged; numbers are private."""
    corpus, epsilons = settings.corpus(settings.data), settings.epsilons
    if settings.out is not None:
        require_writable(settings.out)
    held_out = corpus.load()
    trained_on = _trained_on(settings.run, held_out)
    require_unseen(held_out, trained_on, path=settings.data)
    check_unit(settings.run, settings.unit)
    calibration = _calibration(settings)
    plain = load_ensemble(settings.run)
    ensemble = plain if calibration is None else CalibratedEnsemble(plain, calibration)
    index = None
    if settings.train is not None:
        index = NGramIndex(ensemble.public.encode(settings.corpus(settings.train).load().texts), _NGRAM)
    comparison = Comparison(
        mechanisms=mechanisms_for(settings.mechanisms, ensemble, has_index=index is not None),
        epsilons=epsilons,
        delta=settings.delta,
        queries=settings.queries,
        repeats=settings.repeats,
        unit=settings.unit,
        options=MechanismOptions(
            shaping=Shaping(settings.temperature),
            order=settings.order,
            weight_limit=settings.weight_limit,
            index=index,
        ),
    )
    encoded = ensemble.public.encode(held_out.texts)
    rival = None if settings.dp_sgd is None else _rival(settings.dp_sgd, held_out.texts, encoded)
    texts = [tokens[: settings.max_length] for tokens in encoded]
    result = EvaluationResult(
        settings=settings,
        parts=len(ensemble.parts),
        trained_on=trained_on,
        calibration=calibration,
    )
    if settings.compare_settings:
        result = replace(result, plans=compare_settings(ensemble, texts, comparison))
    else:
        source = settings.randomness
        lines = compare_mechanisms(
            ensemble,
            texts,
            comparison,
            randomness=source,
            rival=rival,
            outside=_outside(settings, ensemble.public, held_out.texts),
            observe=observe,
        )
        samples = sample_answers(ensemble, comparison, settings, rival=rival, randomness=source.child("samples"))
        result = _rated(replace(result, lines=lines, samples=samples), held_out.texts)
        if calibration is not None:
            result = replace(result, uncalibrated=_perplexity(plain, texts, answers=settings.queries))
    if settings.out is not None:
        write_document(settings.out, result.to_json(), mode=0o600)
    return result
