"""The four models of the PII defence table: undefended, DP, scrubbed, and DP on scrubbed text, from one start.

All start from the embedded public model, which has read no private value, and read the same paragraphs; the private
ones oftener, since noise hides most of what a step would teach. DP protects a record (paragraph) under add-remove.
Scrubbing replaces what the tagger finds by a mask: what it misses is trained on in clear, which is why scrubbing
alone proves nothing.
"""

import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from reproductions.pii.case_law import CaseLaw
from reticent import DpSgd, Guarantee
from reticent.core import Randomness
from reticent.ledger import SqliteLedger
from reticent.models import HuggingFaceModel
from reticent.training import (
    TRAINING_ACCOUNT,
    Checkpoints,
    CheckpointSchedule,
    Computation,
    Learner,
    ModelStart,
    OptimiserSettings,
    PlainGradients,
    PlainPlan,
    PrivateGradients,
    Units,
    encode_texts,
    load_for_training,
    train_learner,
)


class Defence(StrEnum):
    """The rows of the table, in the paper's order."""

    UNDEFENDED = "undefended"
    DP = "DP"
    SCRUBBED = "scrubbed"
    DP_SCRUBBED = "DP and scrubbed"

    @property
    def is_private(self) -> bool:
        """Whether gradients are clipped and noised."""
        return self in (Defence.DP, Defence.DP_SCRUBBED)

    @property
    def is_scrubbed(self) -> bool:
        """Whether values are masked before training."""
        return self in (Defence.SCRUBBED, Defence.DP_SCRUBBED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """How the four models are trained."""

    start: str = "embedded"
    epochs: int = 6
    private_epochs: int = 4
    batch: int = 8
    private_batch: int = 64
    learning_rate: float = 1.5e-3
    private_learning_rate: float = 2e-3
    clip_norm: float = 0.5
    epsilon: float = 8.0
    delta: float = 1e-5
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Defended:
    """A trained model, and what was proved of its training (None: nothing)."""

    defence: Defence
    model: HuggingFaceModel
    guarantee: Guarantee | None


def base_model(settings: TrainingSettings) -> HuggingFaceModel:
    """The public model that all start from."""
    return load_for_training(ModelStart(source=settings.start, device="cpu"), seed=settings.seed)


def train_defended(case_law: CaseLaw, defence: Defence, *, settings: TrainingSettings) -> Defended:
    """Train one of the four models."""
    model = base_model(settings)
    records = case_law.scrubbed(case_law.training) if defence.is_scrubbed else case_law.training
    units = Units(encode_texts(model, records))
    computation = Computation(token_budget=4096)
    with tempfile.TemporaryDirectory() as folder:
        guarantee: Guarantee | None = None
        source: PlainGradients | PrivateGradients
        if defence.is_private:
            plan = DpSgd.for_target(
                epsilon=settings.epsilon,
                delta=settings.delta,
                units=len(units),
                batch=settings.private_batch,
                epochs=settings.private_epochs,
                clip_norm=settings.clip_norm,
            )
            budget = plan.budget()
            guarantee = budget.guarantee
            source = PrivateGradients(
                model.module,
                units,
                plan,
                ledger=SqliteLedger.create(Path(folder) / "ledger.db", budget, accounts=[TRAINING_ACCOUNT]),
                randomness=Randomness.system(),
                computation=computation,
            )
            rate = settings.private_learning_rate
        else:
            plain = PlainPlan(units=len(units), batch=settings.batch, epochs=settings.epochs, seed=settings.seed)
            source = PlainGradients(model.module, units, plain, computation=computation)
            rate = settings.learning_rate
        learner = Learner(model.module, OptimiserSettings(learning_rate=rate))
        checkpoints = Checkpoints(Path(folder) / "checkpoints")
        train_learner(
            learner, source, checkpoints=checkpoints, schedule=CheckpointSchedule(seconds=1e9), seed=settings.seed
        )
    model.module.eval()
    return Defended(defence, model, guarantee)
