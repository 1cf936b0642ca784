"""Models that attacks have trained: shadows by the audited run's recipe, and the audited model trained further.

Their training text and weights stand in a private temporary folder meanwhile, and are thrown away with the attack.
What they are for is said in `auditing.attacks.membership.shadow_models` and
`auditing.attacks.personal_data.fragments`.
"""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reticent.auditing.attacks.membership.shadow import shadow_scores
from reticent.auditing.attacks.membership.shadow_models import TRAINING_COST, ShadowTask
from reticent.auditing.attacks.personal_data.fragments import EPOCHS
from reticent.auditing.settings import AttackSettings
from reticent.core.arrays import Floats
from reticent.core.corpus import Corpus, Record
from reticent.core.model import LanguageModel, TextModel
from reticent.core.randomness import Randomness
from reticent.engine.work import Piece, Told, gather, open_engine
from reticent.runs.training.result import Observer, unobserved


def train_shadows(tasks: Sequence[ShadowTask], settings: AttackSettings) -> Floats:
    """Mean log-probabilities [S, n + m] by every shadow: one after the other here, or as pieces of an engine."""
    if settings.engine is None:
        return np.concatenate([train_shadow(task, settings.told) for task in tasks])
    with open_engine(settings.engine) as engine:
        pieces = [Piece(f"shadow-{task.number:03d}", task) for task in tasks]
        return np.concatenate(gather(pieces, train_shadow, engine=engine, told=settings.told))


def train_shadow(task: ShadowTask, told: Told) -> Floats:
    """Mean log-probabilities [1, n + m] of a model trained on the records by the run's recipe."""
    randomness = Randomness.seeded(task.seed).child(f"shadow {task.number}")
    epochs, tokens = float(task.recipe["training"]["epochs"]), 0.0

    def observe(progress: Any, _: float | None) -> bool:
        nonlocal tokens
        # What one step costs, from the estimate of all of them: batches differ, their sum does not.
        tokens += TRAINING_COST * epochs * _tokens_of(task.records) / progress.steps
        told(round(tokens))
        tokens -= round(tokens)
        return True

    recipe = task.recipe | {
        "data": {"max_length": task.recipe["data"].get("max_length")},
        "seed": randomness.fresh_seed() >> 32,
    }
    name = f"shadow {task.number}"
    model = _trained(task.records, recipe, name=name, randomness=randomness, observe=observe)
    scores = shadow_scores([model], task.texts)
    told(_tokens_of(task.records))
    return scores


def fine_tune(model: TextModel, texts: Sequence[str], settings: AttackSettings) -> TextModel:
    """A copy of the model after a few epochs of plain training on the texts."""
    from reticent.runs.audit.subject import find_model

    recipe = {
        "data": {},
        "model": {"source": find_model(model.name).source},
        "training": {"method": "sgd", "epochs": EPOCHS, "batch": min(16, len(texts)), "learning_rate": 3e-4},
        "seed": settings.seed,
    }
    records = [Record(f"text-{place}", text) for place, text in enumerate(texts)]
    randomness = settings.randomness("fine-tuning")
    return _trained(records, recipe, name=f"{model.name}, fine-tuned", randomness=randomness)


def _trained(
    records: Iterable[Record],
    recipe: dict[str, Any],
    *,
    name: str,
    randomness: Randomness,
    observe: Observer = unobserved,
) -> LanguageModel:
    """The model that a recipe, whose data are these records, makes."""
    from reticent.data.writing import write_corpus
    from reticent.models.huggingface.loading import load_model
    from reticent.runs.settings.file import validate
    from reticent.runs.training.run import train
    from reticent.runs.training.settings import TrainSettings

    with tempfile.TemporaryDirectory(prefix="reticent-retraining-") as folder:
        file, out = Path(folder) / "train.jsonl", Path(folder) / "run"
        write_corpus(Corpus(records), file)
        tables = recipe | {"data": recipe["data"] | {"file": str(file)}}
        train(validate(TrainSettings, tables, where=name).into(out), observe=observe, randomness=randomness)
        return load_model(out / "model", name=name)


def _tokens_of(records: Sequence[Record]) -> int:
    """Roughly: four characters a token, as the plan's mean is not at hand here."""
    return sum(len(record.text) for record in records) // 4
