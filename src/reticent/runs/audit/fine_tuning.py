"""Training an audited model further, for an attack that holds its weights; the result is thrown away with it.

The text and the trained weights stand in a private temporary folder meanwhile.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from reticent.auditing.attacks.personal_data.fragments import EPOCHS
from reticent.auditing.settings import AuditSettings
from reticent.core.corpus import Corpus, Record
from reticent.core.model import TextModel


def fine_tune(model: TextModel, texts: Sequence[str], settings: AuditSettings) -> TextModel:
    """A copy of the model after a few epochs of plain training on the texts."""
    from reticent.data.writing import write_corpus
    from reticent.models.huggingface.loading import load_model
    from reticent.runs.audit.subject import find_model
    from reticent.runs.settings.file import validate
    from reticent.runs.training.run import train
    from reticent.runs.training.settings import TrainSettings

    randomness = settings.randomness("fine-tuning")
    with tempfile.TemporaryDirectory(prefix="reticent-fragments-") as folder:
        data = Path(folder) / "train.jsonl"
        write_corpus(Corpus(Record(f"text-{place}", text) for place, text in enumerate(texts)), data)
        recipe = {
            "data": {"file": str(data)},
            "model": {"source": find_model(model.name).source},
            "training": {"method": "sgd", "epochs": EPOCHS, "batch": min(16, len(texts)), "learning_rate": 3e-4},
            "seed": settings.seed,
        }
        config = validate(TrainSettings, recipe, where="the attack 'fragments'")
        train(config.into(Path(folder) / "run"), randomness=randomness)
        return load_model(Path(folder) / "run" / "model", name=f"{model.name}, fine-tuned")
