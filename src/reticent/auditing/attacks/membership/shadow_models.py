"""Membership by shadow models: LiRA and RMIA, with shadows trained by the very recipe of the audited run. Opt-in.

Each shadow is trained on its own random half of the targets, and on all training records that are no targets. They
come in pairs, the second on the targets that the first left out, so that half of all shadows saw any one target. A
quarter of the non-members is nobody's training data: the population that RMIA compares with.

The recipe (method, epochs, optimiser, start) is that of the audited run's run.json; seeds are the shadow's own, and
noise is drawn by the audit's seed, since shadows are an experiment and are thrown away. Who trains them is given:
training is no matter of an attack.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.attack import Lines, Measurement, PlannedAttack, planned_model, skip
from reticent.auditing.attacks.membership.findings import ScoredTargets, few_targets
from reticent.auditing.attacks.membership.shadow import lira_online, rmia, shadow_scores
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import Subject
from reticent.auditing.targets import Targets, count_targets, membership_targets
from reticent.core.arrays import Floats
from reticent.core.corpus import Record
from reticent.core.errors import InternalError
from reticent.core.metric import AUC, TPR_AT_FPR
from reticent.core.model import Access

_METHODS: Final = ("sgd", "dp-sgd")
_POPULATION: Final = 4  # one non-member in so many is nobody's training data
_FEWEST: Final = 8  # targets of either side
TRAINING_COST: Final = 3  # forward tokens that a trained token costs: forward, and backward twice as much
_SCORES: Final = ("lira", "rmia")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ShadowTask:
    """All that decides a shadow: what it is trained on, how, and the texts it is asked about."""

    number: int
    recipe: dict[str, Any]
    seed: int
    records: tuple[Record, ...]
    texts: tuple[str, ...]


# Trains a shadow for each task; gives mean log-probabilities [S, n + m] of the tasks' texts.
TrainShadows = Callable[[Sequence[ShadowTask], AttackSettings], Floats]


@dataclass(frozen=True, slots=True)
class ShadowAttack:
    """LiRA (online) and RMIA (online) from the same shadows."""

    train_shadows: TrainShadows

    name: ClassVar[str] = "shadow"

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:
        """One line: N trainings, and every target read by every shadow."""
        needs = "the run that trained the model"
        if subject.scoring_model is None:
            return (skip(self.name, needs, "the model returns text only"),)
        if subject.recipe is None:
            return (skip(self.name, needs, "MODEL is not the directory of a training run"),)
        method = subject.recipe["training"]["method"]
        if method not in _METHODS:
            reason = f"shadows are trained by {' and '.join(_METHODS)}, the run by {method}"
            return (skip(self.name, needs, reason),)
        members, others = count_targets(subject, sizes.records)
        others -= others // _POPULATION
        if min(members, others) < _FEWEST:
            reason = f"fewer than {_FEWEST} members or non-members with unique texts"
            return (skip(self.name, needs, reason),)
        n, shadows = members + others, settings.shadow_models
        trained = len(subject.training) - members + n // 2
        epochs = float(subject.recipe["training"]["epochs"])
        tokens = shadows * mean * (TRAINING_COST * epochs * trained + n) + n * mean
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

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:
        """Train the shadows, score, throw them away."""
        split = _Split.of(subject, settings, sizes)
        texts = [*split.targets.texts, *(record.text for record in split.population)]
        trained_on = split.halves(settings)  # [S, n]
        tasks = _tasks(subject, settings, split, trained_on=trained_on, texts=texts)
        shadows = self.train_shadows(tasks, settings)  # [S, n + m]
        target = shadow_scores([planned_model(subject)], texts)[0]  # [n + m]
        n = len(split.targets.records)
        scores = {
            "lira": lira_online(target[:n], shadows[:, :n], trained_on),
            "rmia": rmia(
                target[:n], shadows[:, :n], population=(target[n:], shadows[:, n:]), trained_on=trained_on
            ),
        }
        access = dict.fromkeys(scores, Access.LOGPROBS)
        scored = ScoredTargets.of(subject, settings, targets=split.targets, scores=scores, access=access)
        findings = tuple(scored.findings(subject, settings))
        return Measurement(findings, {"shadow.json": scored.to_json() | {"shadows": len(trained_on)}})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Split:
    """Who is a target, who is in nobody's training data, and what every shadow is trained on."""

    targets: Targets
    population: tuple[Record, ...]
    background: tuple[Record, ...]

    @classmethod
    def of(cls, subject: Subject, settings: AttackSettings, sizes: Sizes) -> "_Split":
        drawn = membership_targets(subject, settings, sizes.records)
        outside = np.flatnonzero(~drawn.is_member)
        order = settings.randomness("population").permutation(len(outside))
        apart = set(outside[order[: len(outside) // _POPULATION]].tolist())
        kept = [place for place in range(len(drawn.records)) if place not in apart]
        targets = Targets(tuple(drawn.records[place] for place in kept), drawn.is_member[kept])
        ids = {record.id for record in targets.records}
        background = tuple(record for record in subject.training if record.id not in ids)
        return cls(targets, tuple(drawn.records[place] for place in sorted(apart)), background)

    def halves(self, settings: AttackSettings) -> NDArray[np.bool_]:
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


def _tasks(
    subject: Subject, settings: AttackSettings, split: "_Split", *, trained_on: NDArray[np.bool_], texts: list[str]
) -> list[ShadowTask]:
    """What every shadow is trained on and asked about."""
    if subject.recipe is None:
        raise InternalError("shadows were planned without a recipe")
    return [
        ShadowTask(
            number=number,
            recipe=subject.recipe,
            seed=settings.seed,
            records=(*split.background, *split.chosen(row)),
            texts=tuple(texts),
        )
        for number, row in enumerate(trained_on)
    ]
