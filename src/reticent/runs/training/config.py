"""The tables [data], [model] and [training] of a run's TOML file, and the plan that they ask for.

Privacy asked for in any way that the method cannot honour is an error, never silently plain training: a private
option with `sgd`, `dp-sgd` without noise or target, a δ that promises nothing.
"""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from reticent.core.errors import ConfigError
from reticent.core.guarantee import Neighbours, Unit
from reticent.core.ranges import EPOCHS, EPSILON, LEARNING_RATE, LENGTH, NORM, RANK, SEED, STEPS
from reticent.data.reading.formats import Format
from reticent.runs.config import Section, within
from reticent.runs.corpora import Relation

if TYPE_CHECKING:
    from reticent.training.optimiser import OptimiserSettings
    from reticent.training.plans.plan import DpSgd, Plan
    from reticent.training.starting_model import Start

_PRIVATE: Final = (
    "target_epsilon",
    "noise_multiplier",
    "delta",
    "clip_norm",
    "unit",
    "neighbours",
    "texts_per_owner",
    "policy",
    "conservative_policy",
    "miss_rate",
    "conservative_miss_rate",
    "labelled",
    "state_norm",
    "public_batch",
    "fill_masks",
    "audit",
)
# Private options of one method that mean nothing to another.
_FOREIGN: Final = {
    "dp-sgd": (
        "policy",
        "conservative_policy",
        "miss_rate",
        "conservative_miss_rate",
        "labelled",
        "state_norm",
        "public_batch",
        "fill_masks",
    ),
    "crt": ("unit", "neighbours", "texts_per_owner", "state_norm", "audit"),
    "selective": (
        "unit",
        "neighbours",
        "texts_per_owner",
        "conservative_policy",
        "conservative_miss_rate",
        "public_batch",
        "fill_masks",
        "audit",
    ),
}


class Method(StrEnum):
    """How a model is trained."""

    SGD = "sgd"
    DP_SGD = "dp-sgd"
    CRT = "crt"
    SELECTIVE = "selective"
    SUBMIX = "submix"


class Protected(StrEnum):
    """What one promise of training protects."""

    RECORD = "record"
    OWNER = "owner"


class Precision(StrEnum):
    """What forward and backward are computed in; norms, sums, noise and weights are float32 always."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


class OptimiserName(StrEnum):
    """What moves the weights."""

    ADAMW = "adamw"
    SGD = "sgd"


class DecayName(StrEnum):
    """What happens to the learning rate over the run."""

    CONSTANT = "constant"
    LINEAR = "linear"


_RELATIONS: Final = {Relation.ADD_REMOVE: Neighbours.ADD_REMOVE, Relation.REPLACE: Neighbours.REPLACE}


class DataSection(Section):
    """The text to train on, and text to measure the result on."""

    file: str
    holdout: str | None = None
    text_field: str = "text"
    id_field: str = "id"
    owner_field: str = "owner"
    format: Annotated[Format | None, Field(strict=False)] = None
    max_length: int | None = within(LENGTH, None)
    corpus_ledger: str | None = None


class ModelSection(Section):
    """The weights to start from and which of them are trained."""

    source: str
    lora_rank: int = within(RANK, 0)
    lora_alpha: float | None = within(NORM, None)
    adapter_layers: int = within(RANK, 0)
    freeze_embeddings: bool = False
    merge: bool = False
    precision: Annotated[Precision, Field(strict=False)] = Precision.FLOAT32
    checkpoint_activations: bool = False
    shard_weights: bool = False
    device: str = "auto"

    def start(self) -> "Start":
        """The model a run starts from."""
        from reticent.training.starting_model import Start

        if self.merge and not self.lora_rank:
            raise ConfigError("--merge is for LoRA: there is no adapter to merge", hint="give --lora-rank")
        return Start(
            source=self.source,
            lora_rank=self.lora_rank,
            lora_alpha=self.lora_alpha,
            lora_layers=self.adapter_layers,
            freeze_embeddings=self.freeze_embeddings,
            device=self.device,
        )


class TrainingSection(Section):
    """The method, its schedule and, for a private one, what it must prove."""

    method: Annotated[Method, Field(strict=False)]
    epochs: float = within(EPOCHS, 1.0)
    batch: int = within(LENGTH, 32)
    optimiser: Annotated[OptimiserName, Field(strict=False)] = OptimiserName.ADAMW
    learning_rate: float = within(LEARNING_RATE, 1e-3)
    weight_decay: float = Field(0.0, ge=0, le=LEARNING_RATE.high, allow_inf_nan=False)
    momentum: float = Field(0.0, ge=0, lt=1)
    warmup: int = Field(0, ge=0, le=STEPS.high)
    decay: Annotated[DecayName, Field(strict=False)] = DecayName.CONSTANT
    target_epsilon: float | None = within(EPSILON, None)
    noise_multiplier: float | None = None
    delta: float | None = None
    clip_norm: float | None = None
    unit: Annotated[Protected | None, Field(strict=False)] = None
    neighbours: Annotated[Relation | None, Field(strict=False)] = None
    texts_per_owner: int | None = within(LENGTH, None)
    policy: str | None = None
    conservative_policy: str | None = None
    miss_rate: float | None = Field(None, ge=0, le=1)
    conservative_miss_rate: float | None = Field(None, ge=0, le=1)
    labelled: str | None = None
    state_norm: float | None = within(NORM, None)
    public_batch: int | None = within(LENGTH, None)
    fill_masks: bool | None = None
    audit: int | None = Field(None, ge=20, le=1_000_000)
    parts: int | None = Field(None, ge=2, le=4096)
    halves: bool | None = None
    token_budget: int | None = within(LENGTH, None)
    checkpoint_seconds: float = Field(60.0, ge=0, allow_inf_nan=False)
    checkpoint_steps: int | None = within(STEPS, None)

    @property
    def protected(self) -> Unit:
        """What one promise protects; a record unless something else was asked for."""
        return Unit.OWNER if self.unit is Protected.OWNER else Unit.RECORD

    def optimiser_settings(self) -> "OptimiserSettings":
        """How far a gradient moves the weights."""
        from reticent.training.optimiser import Decay, OptimiserSettings, Rule

        return OptimiserSettings(
            rule=Rule(self.optimiser.value),
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            warmup=self.warmup,
            decay=Decay(self.decay.value),
        )

    def check(self) -> None:
        """Refuse combinations that would give less privacy than was asked for, before anything is read."""
        given = [name for name in _PRIVATE if getattr(self, name) is not None]
        if self.method is not Method.SUBMIX and (self.parts is not None or self.halves is not None):
            raise ConfigError("--parts and --halves make an ensemble", hint="use --method submix with them")
        if self.method is Method.SUBMIX:
            if given:
                raise ConfigError(
                    "the parts of an ensemble are trained without noise; what is protected are its predictions",
                    found=", ".join(_flag(name) for name in given),
                    hint="give ε and δ to `reticent predict`, `evaluate` or `serve`",
                )
            return
        if self.method is Method.SGD:
            if given:
                raise ConfigError(
                    "method 'sgd' trains without any privacy, but privacy was asked for",
                    found=", ".join(_flag(name) for name in given),
                    hint="use --method dp-sgd, or leave these out",
                )
            return
        name = self.method.value
        foreign = [_flag(option) for option in _FOREIGN[name] if option in given]
        if foreign:
            raise ConfigError(f"method '{name}' does not know what to do with this", found=", ".join(foreign))
        if (self.target_epsilon is None) == (self.noise_multiplier is None):
            raise ConfigError(
                f"method '{name}' needs either a target or a noise multiplier",
                found="neither" if self.target_epsilon is None else "both",
                hint="--target-epsilon 8 lets the noise be calibrated; --noise-multiplier 1.0 fixes it",
            )
        if self.delta is None:
            raise ConfigError(f"method '{name}' needs a delta", hint="--delta, well below 1 / number of records")
        if self.texts_per_owner is not None and self.unit is not Protected.OWNER:
            raise ConfigError("--texts-per-owner is for --unit owner: a record is one text")
        if self.audit is not None and self.neighbours is Relation.REPLACE:
            raise ConfigError("--audit measures added or removed units", found="--neighbours replace")
        if self.method is not Method.DP_SGD:
            self._check_policies()

    def _check_policies(self) -> None:
        """What crt and selective need to know of their policies."""
        name = self.method.value
        if self.policy is None:
            raise ConfigError(
                f"method '{name}' needs a policy that finds secrets", hint="--policy patterns, or dictionary:FILE"
            )
        rates = (self.miss_rate, self.conservative_miss_rate)
        if self.labelled is not None and rates != (None, None):
            raise ConfigError("--labelled measures the miss rates: give the file or the rates, not both")
        if self.conservative_policy is None and self.conservative_miss_rate is not None:
            raise ConfigError(
                "--conservative-miss-rate speaks of a conservative policy, and none is named",
                hint="name it with --conservative-policy; without one every record is trained with noise",
            )
        if self.conservative_policy is not None and self.labelled is None and self.conservative_miss_rate is None:
            raise ConfigError(
                "what both policies miss is trained on plainly, so that rate must be known",
                hint="--labelled FILE measures it; --conservative-miss-rate 0 asserts that they miss nothing",
            )
        if self.method is Method.SELECTIVE and self.epochs != round(self.epochs):
            raise ConfigError("method 'selective' takes whole epochs", found=self.epochs)

    def plan(self, *, records: int, owners: int, seed: int) -> "Plan":
        """The plan that this section asks for on a corpus of this size; for sgd and dp-sgd alone."""
        from reticent.training.plans.plan import PlainPlan

        self.check()
        if self.method not in (Method.SGD, Method.DP_SGD):
            raise ConfigError(f"method '{self.method.value}' plans from the corpus, not from its size")
        if self.method is Method.SGD:
            return PlainPlan(units=records, batch=self.batch, epochs=self.epochs, seed=seed)
        return self._private_plan(owners if self.protected is Unit.OWNER else records)

    def _private_plan(self, units: int) -> "DpSgd":
        from reticent.training.plans.plan import DpSgd
        from reticent.training.plans.sampler import PoissonSampler

        sampler = PoissonSampler(units, self.batch).with_canaries(self.audit or 0)
        clip_norm = 1.0 if self.clip_norm is None else self.clip_norm
        is_owner = self.protected is Unit.OWNER
        neighbours = _RELATIONS[self.neighbours or Relation.ADD_REMOVE]
        texts_per_unit = (self.texts_per_owner or 4) if is_owner else 1
        assert self.delta is not None
        if self.target_epsilon is not None:
            return DpSgd.for_target(
                epsilon=self.target_epsilon,
                delta=self.delta,
                units=sampler.units,
                batch=sampler.batch,
                epochs=self.epochs,
                clip_norm=clip_norm,
                unit=self.protected,
                neighbours=neighbours,
                texts_per_unit=texts_per_unit,
                canaries=self.audit or 0,
            )
        assert self.noise_multiplier is not None
        return DpSgd(
            sampler=sampler,
            clip_norm=clip_norm,
            noise_multiplier=self.noise_multiplier,
            steps=sampler.steps(self.epochs),
            delta=self.delta,
            unit=self.protected,
            neighbours=neighbours,
            texts_per_unit=texts_per_unit,
            canaries=self.audit or 0,
        )


class TrainConfig(Section):
    """What `reticent train` reads. Tables of other verbs may stand in the same file; it does not look at them."""

    data: DataSection
    model: ModelSection
    training: TrainingSection
    seed: int | None = within(SEED, None)
    prediction: Any = None
    audit: Any = None
    report: Any = None

    def check(self) -> None:
        """Refuse combinations that the method cannot honour, before anything is read."""
        self.training.check()
        if self.training.method is not Method.SUBMIX:
            return
        if self.data.holdout is not None:
            raise ConfigError(
                "an ensemble is measured by its mechanisms, not in training",
                hint="use: reticent evaluate RUN --data FILE",
            )
        if self.model.merge:
            raise ConfigError("--merge would make whole models of an ensemble's adapters", hint="leave it out")

    def located(self) -> "TrainConfig":
        """The same with absolute paths, so that a run can be resumed from anywhere."""
        holdout = None if self.data.holdout is None else _absolute(self.data.holdout)
        kept = self.data.corpus_ledger
        ledger = None if kept is None else str(Path(kept).expanduser().resolve())
        data = self.data.model_copy(
            update={"file": _absolute(self.data.file), "holdout": holdout, "corpus_ledger": ledger}
        )
        model = self.model.model_copy(update={"source": _absolute(self.model.source)})
        asked = self.training
        training = asked.model_copy(
            update={
                "policy": _located_policy(asked.policy),
                "conservative_policy": _located_policy(asked.conservative_policy),
                "labelled": None if asked.labelled is None else _absolute(asked.labelled),
            }
        )
        return self.model_copy(update={"data": data, "model": model, "training": training})


def _absolute(path: str) -> str:
    """An absolute path where the file exists; a hub id or a name such as "embedded" stays as it is."""
    place = Path(path).expanduser()
    return str(place.resolve()) if place.exists() else path


def _located_policy(name: str | None) -> str | None:
    """A policy's name with the absolute paths of its files."""
    if name is None:
        return None
    parts = [part.strip().partition(":") for part in name.split(",")]
    return ",".join(f"{kind}:{_absolute(file)}" if colon else kind for kind, colon, file in parts)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
