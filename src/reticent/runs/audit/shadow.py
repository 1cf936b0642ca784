"""Membership by shadow models: LiRA and RMIA, with shadows trained by the very recipe of the audited run. Opt-in.

Each shadow is trained on its own random half of the targets, and on all training records that are no targets. They
come in pairs, the second on the targets that the first left out, so that half of all shadows saw any one target. A
quarter of the non-members is nobody's training data: the population that RMIA compares with.

The recipe (method, epochs, optimiser, start) is that of the audited run's run.json; seeds are the shadow's own, and
noise is drawn by the audit's seed, since shadows are an experiment and are thrown away. Their training text stands
in a private temporary folder meanwhile.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from reticent.audit.attacks.membership.shadow import lira_online, rmia, shadow_scores
from reticent.core.corpus import Corpus, Record
from reticent.core.errors import InternalError
from reticent.core.metric import AUC, TPR_AT_FPR
from reticent.core.model import Access, Floats
from reticent.core.randomness import Randomness
from reticent.engine.work import Piece, Told, gather, open_engine
from reticent.runs.audit.attack import Lines, Measurement, PlannedAttack, scoring_model, skip
from reticent.runs.audit.membership_result import ScoredTargets, few_targets
from reticent.runs.audit.settings import AuditSettings, Sizes
from reticent.runs.audit.subject import Subject
from reticent.runs.audit.targets import Targets, count_targets, membership_targets

_METHODS: Final = ("sgd", "dp-sgd")
_POPULATION: Final = 4  # one non-member in so many is nobody's training data
_FEWEST: Final = 8  # targets of either side
_TRAINING_COST: Final = 3  # forward tokens that a trained token costs: forward, and backward twice as much
_SCORES: Final = ("lira", "rmia")


class Shadow:
    """LiRA (online) and RMIA (online) from the same shadows."""

    name: ClassVar[str] = "shadow"
    is_opt_in: ClassVar[bool] = True

    def plan(self, subject: Subject, settings: AuditSettings, *, sizes: Sizes, mean: float) -> Lines:
        """One line: N trainings, and every target read by every shadow."""
        needs = "the run that trained the model"
        if subject.scoring_model is None:
            return (skip(self.name, needs, "the model shows text alone"),)
        if subject.recipe is None:
            return (skip(self.name, needs, "MODEL is not the directory of a training run"),)
        method = subject.recipe["training"]["method"]
        if method not in _METHODS:
            reason = f"shadows are trained by {' and '.join(_METHODS)}, the run by {method}"
            return (skip(self.name, needs, reason),)
        members, others = count_targets(subject, sizes.records)
        others -= others // _POPULATION
        if min(members, others) < _FEWEST:
            reason = f"fewer than {_FEWEST} members or non-members with texts of their own"
            return (skip(self.name, needs, reason),)
        n, shadows = members + others, settings.shadow_models
        trained = len(subject.training) - members + n // 2
        epochs = float(subject.recipe["training"]["epochs"])
        tokens = shadows * mean * (_TRAINING_COST * epochs * trained + n) + n * mean
        line = PlannedAttack(
            name=self.name,
            needs=needs,
            n=n,
            forward_tokens=round(tokens),
            metrics=(AUC.name, *map(TPR_AT_FPR.at, settings.rates)),
        )
        inside, outside = membership_targets(subject, settings, sizes.records).sides(settings)
        sides = inside, outside - outside // _POPULATION
        return (line, *few_targets(self.name, subject, settings, sides=sides, scores=len(_SCORES)))

    def run(self, subject: Subject, settings: AuditSettings, *, sizes: Sizes) -> Measurement:
        """Train the shadows, score, throw them away."""
        split = _Split.of(subject, settings, sizes)
        texts = [*split.targets.texts, *(record.text for record in split.population)]
        trained_on = split.halves(settings)  # [S, n]
        shadows = _shadows(subject, settings, split, trained_on=trained_on, texts=texts)  # [S, n + m]
        target = shadow_scores([scoring_model(subject)], texts)[0]  # [n + m]
        n = len(split.targets.records)
        scores = {
            "lira": lira_online(target[:n], shadows[:, :n], trained_on),
            "rmia": rmia(
                target[:n], shadows[:, :n], population=(target[n:], shadows[:, n:]), trained_on=trained_on
            ),
        }
        access = dict.fromkeys(scores, Access.LOGPROBS)
        scored = ScoredTargets.of(subject, settings, targets=split.targets, scores=scores, access=access)
        confidence = scored.confidence(subject, settings)
        findings = tuple(scored.findings(subject, settings, confidence=confidence))
        return Measurement(findings, {"shadow.json": scored.to_json() | {"shadows": len(trained_on)}})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Split:
    """Who is a target, who is in nobody's training data, and what every shadow is trained on."""

    targets: Targets
    population: tuple[Record, ...]
    background: tuple[Record, ...]

    @classmethod
    def of(cls, subject: Subject, settings: AuditSettings, sizes: Sizes) -> "_Split":
        drawn = membership_targets(subject, settings, sizes.records)
        outside = np.flatnonzero(~drawn.is_member)
        order = settings.randomness("population").permutation(len(outside))
        apart = set(outside[order[: len(outside) // _POPULATION]].tolist())
        kept = [place for place in range(len(drawn.records)) if place not in apart]
        targets = Targets(tuple(drawn.records[place] for place in kept), drawn.is_member[kept])
        ids = {record.id for record in targets.records}
        background = tuple(record for record in subject.training if record.id not in ids)
        return cls(targets, tuple(drawn.records[place] for place in sorted(apart)), background)

    def halves(self, settings: AuditSettings) -> NDArray[np.bool_]:
        """Which shadow is trained on which target, [S, n]: pairs of a random half and its complement."""
        n = len(self.targets.records)
        rows = []
        for pair in range(settings.shadow_models // 2):
            row = np.zeros(n, dtype=bool)
            row[settings.randomness(f"shadow pair {pair}").permutation(n)[: n // 2]] = True
            rows += [row, ~row]
        return np.array(rows)

    def chosen(self, row: NDArray[np.bool_]) -> Sequence[Record]:
        """The targets of one shadow."""
        return [record for record, is_in in zip(self.targets.records, row.tolist(), strict=True) if is_in]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ShadowTask:
    """All that decides a shadow: what it is trained on, how, and the texts it is asked about."""

    number: int
    recipe: dict[str, Any]
    seed: int
    records: tuple[Record, ...]
    texts: tuple[str, ...]


def _shadows(
    subject: Subject, settings: AuditSettings, split: "_Split", *, trained_on: NDArray[np.bool_], texts: list[str]
) -> Floats:
    """Mean log-probabilities [S, n + m] by every shadow: one after the other here, or as pieces of an engine."""
    if subject.recipe is None:
        raise InternalError("shadows were planned without a recipe")
    tasks = [
        ShadowTask(
            number=number,
            recipe=subject.recipe,
            seed=settings.seed,
            records=(*split.background, *split.chosen(row)),
            texts=tuple(texts),
        )
        for number, row in enumerate(trained_on)
    ]
    if settings.engine is None:
        return np.concatenate([train_shadow(task, settings.told) for task in tasks])
    with open_engine(settings.engine) as engine:
        pieces = [Piece(f"shadow-{task.number:03d}", task) for task in tasks]
        return np.concatenate(gather(pieces, train_shadow, engine=engine, told=settings.told))


def train_shadow(task: ShadowTask, told: Told) -> Floats:
    """Mean log-probabilities [1, n + m] of a model trained on the records by the run's recipe."""
    from reticent.data.writing import write_corpus
    from reticent.models.huggingface.loading import load_model
    from reticent.runs.settings.file import validate
    from reticent.runs.training.run import train
    from reticent.runs.training.settings import DataSection, TrainSettings

    randomness = Randomness.seeded(task.seed).child(f"shadow {task.number}")
    with tempfile.TemporaryDirectory(prefix="reticent-shadow-") as folder:
        write_corpus(Corpus(task.records), Path(folder) / "train.jsonl")
        length = task.recipe["data"].get("max_length")
        data = DataSection(file=str(Path(folder) / "train.jsonl"), max_length=length)
        config = validate(TrainSettings, task.recipe, where="run.json").model_copy(
            update={"data": data, "seed": randomness.fresh_seed() >> 32}
        )
        tokens = 0.0

        def observe(progress: Any, _: float | None) -> bool:
            nonlocal tokens
            # What one step costs, from the estimate of all of them: batches differ, their sum does not.
            tokens += _TRAINING_COST * float(config.training.epochs) * _tokens_of(task.records) / progress.steps
            told(round(tokens))
            tokens -= round(tokens)
            return True

        train(config.into(Path(folder) / "run"), observe=observe, randomness=randomness)
        model = load_model(Path(folder) / "run" / "model", name=f"shadow {task.number}")
        scores = shadow_scores([model], task.texts)
    told(_tokens_of(task.records))
    return scores


def _tokens_of(records: Sequence[Record]) -> int:
    """Roughly: four characters a token, as the plan's mean is not at hand here."""
    return sum(len(record.text) for record in records) // 4
