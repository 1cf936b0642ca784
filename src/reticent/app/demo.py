"""The demo: one story on generated customer dialogues and the embedded public model, offline.

    plant secrets → train without defence, and with DP-SGD → ask each model for them → compare with what was proved

Every planted secret belongs to one customer who repeats it in several dialogues, and DP-SGD protects customers
(owners), so the bound speaks of exactly what is measured.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from reticent.accounting.leakage import leakage_of_guarantee
from reticent.app.training_config import DataSection, Method, ModelSection, Protected, TrainConfig, TrainingSection
from reticent.app.training_run import Observer, start
from reticent.auditing.lazy import emission_log_prob
from reticent.core.corpus import Corpus
from reticent.core.guarantee import Guarantee
from reticent.core.model import LanguageModel
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.core.secret import Canary, CodeSpace
from reticent.data.canaries import CanaryOwner, make_canaries, plant, write_key
from reticent.data.generators import generate_dialogues
from reticent.data.writing import write_corpus
from reticent.models.embedded import embedded_model_path
from reticent.models.loading import load_model
from reticent.training.batches import encode_texts
from reticent.training.evaluation import evaluate

TEMPLATE: Final = "USR: Hello, my customer ID is {}."
EPSILON: Final = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How large the story is."""

    dialogues: int = 300
    held_out: int = 100
    canaries: int = 6
    copies: int = 16
    epochs: float = 6.0
    batch: int = 64


@dataclass(frozen=True, slots=True)
class Row:
    """One model of the story: how useful it is, how many bits of a secret are left, and what was proved."""

    name: str
    perplexity: float
    bits_left: float
    worst_bits_left: float
    guarantee: Guarantee | None
    proved_bits_left: float | None

    @property
    def is_refuted(self) -> bool:
        """Whether less is left of the secrets, on average, than was proved must be left."""
        return self.proved_bits_left is not None and self.bits_left < self.proved_bits_left

    def to_json(self) -> dict[str, Any]:
        """For the demo's document."""
        return {
            "model": self.name,
            "perplexity": self.perplexity,
            "bits_left": self.bits_left,
            "worst_bits_left": self.worst_bits_left,
            "proved_bits_left": self.proved_bits_left,
            "guarantee": None if self.guarantee is None else self.guarantee.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Story:
    """What the demo found. `bits` is the size of a secret, n the number of secrets behind every mean."""

    rows: tuple[Row, ...]
    bits: float
    secrets: int
    folder: Path

    def to_json(self) -> dict[str, Any]:
        """One JSON document."""
        return {
            "schema_version": 1,
            "secret_bits": self.bits,
            "secrets": self.secrets,
            "folder": str(self.folder),
            "models": [row.to_json() for row in self.rows],
        }


def tell(folder: Path, *, seed: int, scale: Scale, observer: Callable[[str], Observer]) -> Story:
    """Run the story in `folder`; `observer(name)` gives what watches the training of that name."""
    canaries, holdout = _write_corpora(folder, seed=seed, scale=scale)
    rows = [_examine("public", load_model(embedded_model_path()), canaries, holdout=holdout)]
    for name, training in (("undefended", _plain(scale)), (f"DP-SGD, ε = {EPSILON:g}", _private(scale))):
        config = TrainConfig(
            data=DataSection(file=str(folder / "train.jsonl")),
            model=ModelSection(source="embedded"),
            training=training,
            seed=seed,
        )
        run = folder / ("undefended" if training.method is Method.SGD else "dp-sgd")
        result = start(config, run, observe=observer(name))
        model = load_model(run / "model")
        rows.append(_examine(name, model, canaries, holdout=holdout, guarantee=result.guarantee))
    return Story(tuple(rows), canaries[0].bits, len(canaries), folder)


def _write_corpora(folder: Path, *, seed: int, scale: Scale) -> tuple[tuple[Canary, ...], Corpus]:
    """Training dialogues with planted secrets, held-out dialogues without, and the key, as files."""
    randomness = Randomness.seeded(seed)
    corpus = generate_dialogues(scale.dialogues + scale.held_out, randomness=randomness.child("dialogues"))
    canaries = make_canaries(
        TEMPLATE, CodeSpace(6), count=scale.canaries, copies=scale.copies, randomness=randomness.child("canaries")
    )
    holdout = corpus[scale.dialogues :]
    train = plant(
        corpus[: scale.dialogues], canaries, randomness=randomness.child("places"), owner=CanaryOwner.CANARY
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_corpus(train, folder / "train.jsonl")
    write_corpus(holdout, folder / "holdout.jsonl")
    write_key(canaries, folder / "canaries.json")
    return canaries, holdout


def _plain(scale: Scale) -> TrainingSection:
    return TrainingSection(method=Method.SGD, epochs=scale.epochs, batch=16, learning_rate=2e-3)


def _private(scale: Scale) -> TrainingSection:
    return TrainingSection(
        method=Method.DP_SGD,
        epochs=2 * scale.epochs,
        batch=scale.batch,
        learning_rate=2e-3,
        target_epsilon=EPSILON,
        delta=1e-4,
        clip_norm=1.0,
        unit=Protected.OWNER,
        texts_per_owner=2,
    )


def _examine(
    name: str,
    model: LanguageModel,
    canaries: tuple[Canary, ...],
    *,
    holdout: Corpus,
    guarantee: Guarantee | None = None,
) -> Row:
    """Perplexity on held-out text, and the chance of emitting each secret after its prefix."""
    quality = evaluate(model.module, encode_texts(model, holdout))  # type: ignore[attr-defined]
    codes = model.encode([canary.secret.reveal() for canary in canaries])
    prompts = model.encode([canary.prefix for canary in canaries])
    log2_chances = emission_log_prob(model, codes, Sampling(), prompts=prompts) / math.log(2.0)  # [n]
    # What a bound speaks of is the mean chance over secrets, not the mean logarithm (which is never higher).
    mean = float(np.logaddexp2.reduce(log2_chances)) - math.log2(len(canaries))
    proved = None
    if guarantee is not None:
        proved = -leakage_of_guarantee(guarantee, canaries[0].bits).posterior_bits
    return Row(name, quality.perplexity, -mean, -float(log2_chances.max()), guarantee, proved)
