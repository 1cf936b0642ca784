"""How large the demo is, and how each of its models is trained.

Four trainings of one corpus from one public model: without defence, DP-SGD for owners, redacted training (CRT), and
the parts of an ensemble for SubMix-F. All private ones get the same (ε, δ), each for its own unit: what they
promise is not the same, and the table says so.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reticent.auditing.settings import Sizes
from reticent.core.guarantee import Unit
from reticent.runs.demo.settings import Extent
from reticent.runs.training.settings import (
    DataSection,
    Fill,
    Method,
    ModelSection,
    TrainingSection,
    TrainSettings,
)

EPSILON: Final = 8.0
SMALL_EPSILON: Final = 1.0
DELTA: Final = 1e-5
TRAIN: Final = "train.jsonl"
TARGETS: Final = "messages.jsonl"
HOLDOUT: Final = "holdout.jsonl"
UTILITY: Final = "utility.jsonl"
KEY: Final = "canaries.json"
POLICY: Final = "patterns"
CONSERVATIVE: Final = "conservative"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Sizes of corpora, trainings and attacks. `answers` are the tokens that a SubMix-F budget is spread over."""

    customers: int = 3000
    held_out: int = 300
    messages: int = 2  # that are kept of a customer's visit
    canaries: int = 6
    copies: int = 40
    epochs: float = 3.0
    batch: int = 32
    learning_rate: float = 2e-3
    gradient_canaries: int = 1000
    parts: int = 8
    answers: int = 800
    asked: int = 60  # answers in which a planted number is looked for
    targets: int = 200  # records of either side that attacks look at
    games: int = 16  # places of the PII games
    beam: int | None = 256  # phrases that the search for an update's text keeps

    @classmethod
    def of(cls, extent: Extent) -> "Scale":
        """The sizes by name."""
        match extent:
            case Extent.QUICK:
                return cls(
                    customers=600,
                    held_out=100,
                    canaries=4,
                    gradient_canaries=100,
                    parts=4,
                    answers=300,
                    asked=30,
                    targets=100,
                    games=6,
                    beam=64,
                )
            case Extent.NORMAL:
                return cls()
            case Extent.LARGE:
                return cls(
                    customers=20_000,
                    held_out=2000,
                    messages=4,
                    canaries=10,
                    copies=20,
                    gradient_canaries=1000,
                    answers=4000,
                    asked=400,
                    targets=2000,
                    games=100,
                    beam=None,
                )

    @property
    def sizes(self) -> Sizes:
        """How much each attack looks at."""
        return Sizes(
            records=self.targets,
            extraction_records=self.games,
            candidates=1000,
            search_tokens=20_000,
            answers=self.asked,
            texts=2 * self.games,
        )


@dataclass(frozen=True, slots=True)
class Recipes:
    """The trainings of the story, on the files in `folder`, from the model `source`."""

    folder: Path
    source: str
    scale: Scale
    seed: int

    def undefended(self) -> TrainSettings:
        """Plain training, as most models are."""
        return self._config(self._section(Method.SGD, batch=self.scale.batch))

    def dp_sgd(self) -> TrainSettings:
        """Customers are protected, whatever they say. Batch and rate are those of `plan`."""
        section = TrainingSection(
            method=Method.DP_SGD,
            target_epsilon=EPSILON,
            epochs=4.0,  # `plan` would take more of them, and the story would wait
            delta=DELTA,
            unit=Unit.OWNER,
            audit=self.scale.gradient_canaries,
        )
        return self._config(section)

    def crt(self) -> TrainSettings:
        """What patterns find becomes made-up values; messages that may hold personal data get noise, the rest none.

        Both policies are built in, and neither knows whose data the text holds. Labels serve to measure what they
        miss. Made-up values teach what a number looks like, and nobody's number. Batch and rate of the noisy steps
        are those of `plan`.
        """
        section = TrainingSection(
            method=Method.CRT,
            target_epsilon=EPSILON,
            delta=DELTA,
            epochs=2.0,  # noisy steps take most of the time of this training
            policy=POLICY,
            conservative_policy=CONSERVATIVE,
            labelled=str(self.folder / TRAIN),
            fill_masks=Fill.KIND,
            public_learning_rate=self.scale.learning_rate,
        )
        return self._config(section)

    def parts(self) -> TrainSettings:
        """The members of an ensemble, trained plainly: what is protected are its answers."""
        section = self._section(Method.SUBMIX, batch=max(2, self.scale.batch // 2)).model_copy(
            update={"parts": self.scale.parts, "learning_rate": 3.0 * self.scale.learning_rate}
        )
        config = self._config(section)
        return config.model_copy(update={"data": config.data.model_copy(update={"holdout": None})})

    def _section(self, method: Method, *, batch: int) -> TrainingSection:
        scale = self.scale
        return TrainingSection(method=method, epochs=scale.epochs, batch=batch, learning_rate=scale.learning_rate)

    def _config(self, training: TrainingSection) -> TrainSettings:
        data = DataSection(file=str(self.folder / TRAIN), holdout=str(self.folder / UTILITY))
        return TrainSettings(data=data, model=ModelSection(source=self.source), training=training, seed=self.seed)
