"""The chapters of the story: a model trained (or taken as it is), attacked, and held against what was proved of it.

A chapter is a piece of work for an engine, since none needs another: two processes tell the story in half the time.
Its progress is counted in parts of a hundred.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from reticent.auditing.subject import ModelPlace
from reticent.core.document import as_json
from reticent.core.finding import Comparison, Finding
from reticent.core.guarantee import Guarantee
from reticent.core.metric import CODE_HIT_RATE, EXPOSURE, LARGEST_EXPOSURE
from reticent.core.statistics.estimate import Estimate
from reticent.models.huggingface.loading import load_model
from reticent.models.huggingface.model import HuggingFaceModel
from reticent.runs.audit.attacking import Audit
from reticent.runs.audit.subject import find_model
from reticent.runs.demo.answers import perplexities, private_answers
from reticent.runs.demo.audits import OF_PUBLIC, Auditor
from reticent.runs.demo.corpora import Corpora
from reticent.runs.demo.scale import CONSERVATIVE, EPSILON, POLICY, SMALL_EPSILON, Recipes
from reticent.runs.demo.story import PUBLIC, UNDEFENDED, Told, allowed_hit_rate
from reticent.runs.directory import RunDirectory
from reticent.runs.ensemble.loading import load_ensemble
from reticent.runs.policies.by_name import policy_named
from reticent.runs.training import run as training_run
from reticent.runs.training.result import TrainedRun
from reticent.runs.training.settings import TrainSettings
from reticent.training.batches import encode_texts
from reticent.training.evaluation import Evaluation, evaluate_model
from reticent.training.methods.redaction import count_misses

DP_SGD: Final = "dp-sgd"
CRT: Final = "crt"
SUBMIX: Final = "submix"
FOUND_WHOLE: Final = (
    "missed"  # redacted training's name for what holds where the policy misses and the other catches
)
_ON_PLANTED: Final = (CODE_HIT_RATE.name, EXPOSURE.name, LARGEST_EXPOSURE.name)
CHAPTERS: Final = (DP_SGD, SUBMIX, CRT, UNDEFENDED, PUBLIC)  # the longest first, so that no process waits
PARTS: Final = 100  # of the progress of a chapter
_TRAINED: Final = 60  # of them when a model is trained; attacks are the rest

Tell = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Chapter:
    """Which model, and all that its training and its audit need. Its text is private: `repr` shows none."""

    name: str
    recipes: Recipes
    corpora: Corpora


def tell_chapter(chapter: Chapter, told: Tell) -> tuple[Told, ...]:
    """In a worker: the models of the chapter, trained and attacked."""
    progress = _Progress(told)
    models = _Teller(chapter, progress).models()
    progress.reach(PARTS)
    return models


class _Progress:
    """How far a chapter is, told in whole parts that add up."""

    def __init__(self, told: Tell) -> None:
        self._told = told
        self._done = 0

    def reach(self, parts: float) -> None:
        """So many parts of the chapter are done."""
        if int(parts) > self._done:
            self._told(int(parts) - self._done)
            self._done = int(parts)


@dataclass(frozen=True, slots=True)
class _Teller:
    """Trains and attacks the models of one chapter."""

    chapter: Chapter
    progress: _Progress

    @property
    def folder(self) -> Path:
        """Where the story is written."""
        return self.chapter.recipes.folder

    def models(self) -> tuple[Told, ...]:
        """Those of the chapter, by its name."""
        recipes = self.chapter.recipes
        match self.chapter.name:
            case "public":
                return (self.public(),)
            case "undefended":
                return (self.trained(recipes.undefended()),)
            case "dp-sgd":
                return (self.trained(recipes.dp_sgd()),)
            case "crt":
                return (self.redacted(recipes.crt()),)
            case _:
                return self.answering()

    def auditor(self, start: float) -> Auditor:
        """Attacks models; its progress begins at that part of the chapter."""
        recipes, attacks = self.chapter.recipes, [0.0]

        def observe(_: Any, share: float) -> None:
            attacks[0] += 1.0 if share >= 1.0 else 0.0
            self.progress.reach(min(PARTS, start + (PARTS - start) * (attacks[0] + share % 1.0) / 6.0))

        return Auditor(self.folder, self.chapter.corpora, recipes.scale, recipes.seed, observe)

    def public(self) -> Told:
        """The model before anything was learnt: what attacks find where nothing leaks."""
        source = self.chapter.recipes.source
        model = load_model(find_model(source).source)
        assert isinstance(model, HuggingFaceModel)
        quality = evaluate_model(model.module, encode_texts(model, self.chapter.corpora.utility))
        audit = self.auditor(0).audit_model(PUBLIC, source, attacks=OF_PUBLIC)
        return self._told(PUBLIC, _perplexity(quality), audit, None)

    def trained(self, config: TrainSettings) -> Told:
        """A model trained by the recipe, and attacked."""
        name, source = self.chapter.name, self.chapter.recipes.source
        result = self._train(config)
        assert result.evaluation is not None
        auditor = self.auditor(_TRAINED)
        audit = auditor.audit_model(name, str(result.path))
        update = auditor.compare_update(name, find_model(source).source, str(result.path))
        return self._told(name, _perplexity(result.evaluation), audit, result.guarantee, update)

    def redacted(self, config: TrainSettings) -> Told:
        """As `trained`, with what is proved of secrets that a policy finds whole, as it does all planted numbers.

        The headline, which is about any secret, is ∞ as soon as a value may be missed. Snapshots cannot be compared
        token by token, since redacted training adds a token of its own.
        """
        result = self._train(config)
        assert result.evaluation is not None
        audit = self.auditor(_TRAINED).audit_model(CRT, str(result.path))
        audit = replace(audit, comparisons=of_planted(audit.other_comparisons))
        told = self._told(CRT, _perplexity(result.evaluation), audit, result.other_guarantees[FOUND_WHOLE])
        policy, conservative = policy_named(POLICY), policy_named(CONSERVATIVE)
        return replace(told, lost=count_misses(self.chapter.corpora.train, policy, conservative=conservative).both)

    def answering(self) -> tuple[Told, ...]:
        """The ensemble's answers at a small and a larger ε."""
        recipes, corpora = self.chapter.recipes, self.chapter.corpora
        ensemble = load_ensemble(self._train(recipes.parts()).path)
        epsilons = (SMALL_EPSILON, EPSILON)
        useful, tokens = perplexities(ensemble, corpora, epsilons, seed=recipes.seed)
        told = []
        for epsilon in epsilons:
            name = f"submix-f-{epsilon:g}"
            run = RunDirectory.for_new_run(self.folder / name)
            with private_answers(ensemble, run, epsilon=epsilon, scale=recipes.scale) as (answers, promise):
                audit = self.auditor(_TRAINED).audit_answers(name, answers, ModelPlace(str(run.path), promise))
            spread = useful[epsilon].spread
            ends = as_json((spread.low, spread.high))
            run.finish(evaluation={"perplexity": spread.value, "perplexity_interval": ends, "tokens": tokens})
            told.append(self._told(name, Estimate(spread.value, spread.low, spread.high), audit, promise))
        return tuple(told)

    def _train(self, config: TrainSettings) -> TrainedRun:
        def observe(progress: Any, _: float | None) -> bool:
            self.progress.reach(_TRAINED * progress.step / progress.steps)
            return True

        return training_run.train(config.into(self.folder / self.chapter.name), observe=observe)

    def _told(
        self,
        name: str,
        perplexity: Estimate,
        audit: Audit,
        guarantee: Guarantee | None,
        update: tuple[Finding, ...] = (),
    ) -> Told:
        canaries = self.chapter.corpora.canaries
        allowed = None
        if guarantee is not None:
            allowed = allowed_hit_rate(guarantee, bits=canaries[0].bits, codes=len(canaries))
        return Told(
            name=name,
            perplexity=perplexity,
            findings=(*audit.findings, *update),
            comparisons=audit.comparisons,
            guarantee=guarantee,
            allowed=allowed,
        )


def of_planted(others: Sequence[tuple[str, Comparison]]) -> tuple[Comparison, ...]:
    """Comparisons with what is proved of secrets found whole: of findings on the planted numbers, which are.

    Other findings, as that on personal data, may be about values that are found in pieces: they refute nothing.
    """
    return tuple(one for name, one in others if name == FOUND_WHOLE and one.finding.metric in _ON_PLANTED)


def _perplexity(quality: Evaluation) -> Estimate:
    return Estimate(quality.perplexity, *quality.perplexity_interval)
