"""Training shadow models by the recipe of the audited run: one after the other here, or as pieces of an engine.

Their training text stands in a private temporary folder meanwhile. What they are for is said in
`auditing.attacks.membership.shadow_models`.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reticent.auditing.attacks.membership.shadow import shadow_scores
from reticent.auditing.attacks.membership.shadow_models import TRAINING_COST, ShadowTask
from reticent.auditing.settings import AuditSettings
from reticent.core.corpus import Corpus, Record
from reticent.core.model import Floats
from reticent.core.randomness import Randomness
from reticent.engine.work import Piece, Told, gather, open_engine


def train_shadows(tasks: Sequence[ShadowTask], settings: AuditSettings) -> Floats:
    """Mean log-probabilities [S, n + m] by every shadow."""
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
            tokens += TRAINING_COST * float(config.training.epochs) * _tokens_of(task.records) / progress.steps
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
