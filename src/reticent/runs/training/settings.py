"""The settings of `reticent train` and the plan that they ask for: the tables [data], [model] and [training].

Privacy asked for in any way that the method cannot honour is an error, never silently plain training: a private
option with `sgd`, `dp-sgd` without noise or target, a δ that promises nothing.
"""

import math
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from reticent.core.corpus import Corpus
from reticent.core.errors import ConfigError
from reticent.core.guarantee import Neighbours, Unit
from reticent.core.ranges import (
    COUNT,
    EPOCHS,
    EPSILON,
    LEARNING_RATE,
    LENGTH,
    NORM,
    QUANTILE,
    RANK,
    SHARE,
    STEPS,
    Range,
)
from reticent.runs.settings.declaration import Settings, declared_in, flag_of, misplaced, option
from reticent.runs.settings.shared import (
    CORPUS,
    PATTERN,
    PATTERN_HELP,
    AddedOrReplaced,
    CorpusOptions,
    CurveOptions,
    EngineOptions,
    Seeded,
    Shown,
    with_patterns,
)
from reticent.training.gradients.rounding_bound import Rounding
from reticent.training.plans.adaptive_norm import check_moving_norm
from reticent.training.plans.sampler import SAMPLERS, SamplerName, audited_sampler, sampler_of
from reticent.training.update_rules import Decay, Rule

if TYPE_CHECKING:
    from reticent.accounting.risk_target import RiskTarget
    from reticent.training.gradients.source import Computation
    from reticent.training.loop import CheckpointSchedule
    from reticent.training.optimiser import OptimiserSettings
    from reticent.training.plans.choice import ModelSize
    from reticent.training.plans.plan import DpSgd, Plan
    from reticent.training.starting_model import ModelStart


class Method(StrEnum):
    """How a model is trained."""

    SGD = "sgd"
    DP_SGD = "dp-sgd"
    CRT = "crt"
    SELECTIVE = "selective"
    SUBMIX = "submix"


class Precision(StrEnum):
    """What forward and backward are computed in; norms, sums, noise and weights are float32 at least."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


class Fill(StrEnum):
    """What kind of made-up value replaces a mask."""

    ANY = "any"
    KIND = "kind"


PRIVATE: Final = (Method.DP_SGD, Method.CRT, Method.SELECTIVE)
REDACTING: Final = (Method.CRT, Method.SELECTIVE)

_PRIVACY: Final = "Privacy"
_POLICIES: Final = "Policies"
_ENSEMBLE: Final = "Ensemble"
_MODEL: Final = "Model"
_STEPS: Final = "Optimisation"
_CHOSEN: Final = "with dp-sgd or crt and a target, chosen from public facts"
_BANDS: Final = 8
_SAMPLED: Final = [f"{each.explained} ({each.name})" for each in SAMPLERS.values()]
_PARTS: Final = 8
TEXTS_PER_OWNER: Final = 4  # in a step
PUBLIC_EPOCHS: Final = 1.0  # over --public-text
_ENSEMBLE_RANK: Final = 8  # of the adapters of an ensemble, where no rank is given
# Why a method refuses the options of the others, and what to do instead.
_REFUSALS: Final = {
    Method.SGD: ("it trains without any privacy", "use --method dp-sgd, or leave these out"),
    Method.SUBMIX: (
        "the members of an ensemble are trained without noise, and its predictions are protected",
        "give ε and δ to `reticent predict`, `evaluate` or `serve`",
    ),
}


class DataSection(CorpusOptions):
    """The text to train on, and text to measure the result on."""

    file: str = option("Corpus to train on.", flag="--data", metavar="FILE")
    holdout: str | None = option(
        "Held-out corpus to evaluate the trained model on. It is never trained on.", default=None, metavar="FILE"
    )
    holdout_policy: str | None = option(
        "Policy that finds secrets in --holdout, to report perplexity outside them as well.",
        default=None,
        panel=CORPUS,
        metavar="NAME",
        shown="--policy, if the method redacts",
    )
    max_length: int | None = option(
        "Truncate texts to N tokens.",
        default=None,
        within=LENGTH,
        panel=CORPUS,
        metavar="N",
        shown="the model's context",
    )
    corpus_ledger: str | None = option(
        "Record this release with all other releases of the corpus, and print their joint guarantee.",
        default=None,
        panel=CORPUS,
        metavar="FILE",
    )

    def load(self) -> Corpus:
        """The training text, in memory."""
        return self.corpus(self.file).load()

    def held_out(self) -> Corpus | None:
        """The held-out text, in memory; None where there is none."""
        return None if self.holdout is None else self.corpus(self.holdout).load()

    def names_owners(self) -> bool:
        """Whether the records of the corpus name their owners."""
        return "owner" in self.corpus(self.file).present()


class ModelSection(Settings):
    """The weights to start from and which of them are trained."""

    source: str = option(
        "Model to start from: a directory, a hub id, 'embedded', or a fresh LSTM such as 'lstm:1x200'.",
        flag="--model",
        metavar="MODEL",
    )
    lora_rank: int = option(
        "Train LoRA adapters of this rank instead of all weights. 0 trains all weights.",
        default=0,
        within=RANK,
        panel=_MODEL,
        metavar="N",
        shown=f"0; with submix, {_ENSEMBLE_RANK}",
    )
    lora_alpha: float | None = option(
        "LoRA scaling factor α.", default=None, within=NORM, panel=_MODEL, shown="twice the rank"
    )
    adapter_layers: int = option(
        "Put LoRA adapters into the top N blocks only. 0 means all blocks.",
        default=0,
        within=RANK,
        panel=_MODEL,
        metavar="N",
    )
    frozen_head: bool | None = option(
        "Put no LoRA adapter on the output layer. Without one, tokens that the model has never met stay alike.",
        default=None,
        panel=_MODEL,
    )
    freeze_embeddings: bool = option("Do not train the embeddings.", default=False, panel=_MODEL)
    merge: bool = option(
        "Merge the LoRA adapters into the saved model. An adapter may change the output layer too, and with dp-sgd "
        "the last norm, which some servers cannot read.",
        default=False,
        panel=_MODEL,
    )
    precision: Precision = option(
        "Precision of the forward and backward pass. Norms and noise stay in float32.",
        default=Precision.FLOAT32,
        panel=_MODEL,
    )
    checkpoint_activations: bool = option(
        "Recompute activations in the backward pass: less memory, more time.", default=False, panel=_MODEL
    )
    shard_weights: bool = option(
        "Shard the weights across the processes started by torchrun (FSDP).", default=False, panel=_MODEL
    )
    device: str = option("Device: auto, cpu, cuda or mps.", default="auto", panel=_MODEL)

    def is_here(self) -> bool:
        """Whether the model is made or read here; a hub id is not looked for."""
        from reticent.models.huggingface.location import find_local

        return self.source.startswith("lstm:") or find_local(self.source) is not None

    def size(self) -> "ModelSize":
        """Weights of the model, from the headers of its files, and which of them are trained."""
        from reticent.models.huggingface.location import find_local, stored_shapes
        from reticent.training.plans.choice import ModelSize

        folder = None if self.source.startswith("lstm:") else find_local(self.source)
        shapes = None if folder is None else stored_shapes(folder)
        if shapes is None:
            return ModelSize(trains_adapters=self.lora_rank > 0)
        whole = sum(math.prod(shape) for shape in shapes)
        if not self.lora_rank:
            return ModelSize(whole, whole)
        # Two thin matrices for each [m, n], at most: embeddings have none.
        thin = sum(self.lora_rank * sum(shape) for shape in shapes if len(shape) == 2)
        return ModelSize(thin, whole, trains_adapters=True)

    def start(self) -> "ModelStart":
        """The model that a run starts from."""
        from reticent.training.starting_model import ModelStart

        if self.merge and not self.lora_rank:
            raise ConfigError("--merge is for LoRA: there is no adapter to merge", hint="give --lora-rank")
        if self.frozen_head is not None and not self.lora_rank:
            raise ConfigError("--frozen-head is for LoRA: there are no adapters", hint="give --lora-rank")
        return ModelStart(
            source=self.source,
            lora_rank=self.lora_rank,
            lora_alpha=self.lora_alpha,
            lora_layers=self.adapter_layers,
            lora_head=self.lora_rank > 0 and self.frozen_head is False,
            freeze_embeddings=self.freeze_embeddings,
            device=self.device,
        )


class TrainingSection(Settings):
    """The method, its schedule and, for a private one, what it must prove."""

    method: Method = option(
        "Training method: plain SGD, DP-SGD, confidentially redacted training (CRT), selective DP-SGD, or an "
        "ensemble for private prediction (submix)."
    )
    epochs: float = option(
        "Passes over the corpus, on average.", default=1.0, within=EPOCHS, panel=_STEPS, shown=f"1; {_CHOSEN}"
    )
    batch: int = option(
        "Records (or owners) per step; the expected number for private methods.",
        default=32,
        within=LENGTH,
        panel=_STEPS,
        metavar="N",
        shown=f"32; {_CHOSEN}",
    )
    public_text: str | None = option(
        "Public text to train on first, without noise and at no cost in ε. It must hold nothing of the corpus.",
        default=None,
        panel=_STEPS,
        metavar="FILE",
        methods=[Method.DP_SGD],
    )
    public_epochs: float | None = option(
        "Passes over --public-text.",
        default=None,
        within=EPOCHS,
        panel=_STEPS,
        shown=f"{PUBLIC_EPOCHS:g}",
        methods=[Method.DP_SGD],
    )
    public_batch: int | None = option(
        "Records per step on public text alone (dp-sgd with --public-text, or the public part of crt).",
        default=None,
        within=LENGTH,
        panel=_STEPS,
        metavar="N",
        shown="16",
        methods=[Method.DP_SGD, Method.CRT],
    )
    optimiser: Rule = option(
        "Optimiser. corrected-adam subtracts the known noise from Adam's second moment (dp-sgd only).",
        default=Rule.ADAMW,
        panel=_STEPS,
    )
    learning_rate: float = option(
        "Learning rate.", default=1e-3, within=LEARNING_RATE, panel=_STEPS, shown=f"0.001; {_CHOSEN}"
    )
    public_learning_rate: float | None = option(
        "Learning rate of steps on public text alone.",
        default=None,
        within=LEARNING_RATE,
        panel=_STEPS,
        shown="0.001, or 0.0003 for models of more than 10 million weights",
        methods=[Method.DP_SGD, Method.CRT],
    )
    weight_decay: float = option("Weight decay.", default=0.0, within=Range(0.0, LEARNING_RATE.high), panel=_STEPS)
    momentum: float = option("Momentum of SGD.", default=0.0, limits={"ge": 0, "lt": 1}, panel=_STEPS)
    warmup: int = option(
        "Steps over which the learning rate rises to its full value.",
        default=0,
        within=Range(0, STEPS.high),
        panel=_STEPS,
        metavar="N",
    )
    decay: Decay = option("Learning-rate decay after the warm-up.", default=Decay.CONSTANT, panel=_STEPS)
    average_tail: float = option(
        "Release the average of the weights over this final fraction of the steps. Costs no ε.",
        default=0.0,
        within=SHARE,
        panel=_STEPS,
    )
    ema: float = option(
        "Release an exponential moving average of the weights with this decay. Costs no ε.",
        default=0.0,
        limits={"ge": 0, "lt": 1},
        panel=_STEPS,
    )
    fixed_temperature: bool | None = option(
        "Do not train a scale of the model's logits (a temperature) beside the weights. Training it costs no ε.",
        default=None,
        panel=_STEPS,
        methods=[Method.DP_SGD],
    )
    target_epsilon: float | None = option(
        "Calibrate the noise to reach this ε.", default=None, within=EPSILON, panel=_PRIVACY, methods=PRIVATE
    )
    target_tpr: str | None = option(
        "Calibrate the noise so that no membership test exceeds this true-positive rate at this false-positive "
        "rate.",
        default=None,
        panel=_PRIVACY,
        metavar="TPR@FPR",
        methods=[Method.DP_SGD],
    )
    target_bits: str | None = option(
        "Calibrate the noise so that at most LEAKED bits leak from a secret of SECRET bits.",
        default=None,
        panel=_PRIVACY,
        metavar="LEAKED:SECRET",
        methods=[Method.DP_SGD],
    )
    target_advantage: float | None = option(
        "Calibrate the noise so that no membership test exceeds this advantage (TPR − FPR).",
        default=None,
        panel=_PRIVACY,
        methods=[Method.DP_SGD],
    )
    noise_multiplier: float | None = option(
        "Noise standard deviation, as a multiple of the clip norm.", default=None, panel=_PRIVACY, methods=PRIVATE
    )
    delta: float | None = option(
        "δ of the guarantee; required. Choose it well below 1 / number of records.",
        default=None,
        panel=_PRIVACY,
        methods=PRIVATE,
    )
    sampler: SamplerName | None = option(
        f"How each step samples units: {', '.join(_SAMPLED[:-1])}, or, {_SAMPLED[-1]}.",
        default=None,
        panel=_PRIVACY,
        methods=[Method.DP_SGD],
        shown=SamplerName.POISSON.value,
    )
    bands: int | None = option(
        "Number of steps per cycle of correlated noise (--sampler banded). Needs memory for N copies of the "
        "trained weights in float64.",
        default=None,
        within=LENGTH,
        panel=_PRIVACY,
        metavar="N",
        shown=f"{_BANDS}",
        methods=[Method.DP_SGD],
    )
    clip_norm: float | None = option(
        "Clip the gradient of each unit to this norm.", default=None, panel=_PRIVACY, shown="1", methods=PRIVATE
    )
    clip_quantile: float | None = option(
        "Let the clip norm follow this quantile of the gradient norms (0.5: the median), by noisy counts, at the "
        "same ε. It starts at --clip-norm.",
        default=None,
        within=QUANTILE,
        panel=_PRIVACY,
        metavar="Q",
        shown="a fixed clip norm",
        methods=[Method.DP_SGD],
    )
    count_noise: float | None = option(
        "Noise standard deviation of the counts of --clip-quantile.",
        default=None,
        panel=_PRIVACY,
        shown="batch / 20, or twice the noise multiplier if that is more",
        methods=[Method.DP_SGD],
    )
    unit: Literal[Unit.RECORD, Unit.OWNER] | None = option(
        "Unit of privacy: one record, or all records of one owner.",
        default=None,
        panel=_PRIVACY,
        shown="record",
        methods=[Method.DP_SGD],
    )
    neighbours: AddedOrReplaced | None = option(
        "Neighbouring corpora: one unit added or removed, or one unit replaced.",
        default=None,
        panel=_PRIVACY,
        shown="add-remove",
        methods=[Method.DP_SGD],
    )
    texts_per_owner: int | None = option(
        "Use at most N texts of an owner per step.",
        default=None,
        within=LENGTH,
        panel=_PRIVACY,
        metavar="N",
        shown=f"{TEXTS_PER_OWNER}",
        methods=[Method.DP_SGD],
    )
    audit: int | None = option(
        "Measure a lower bound on ε during training, with N gradient canaries.",
        default=None,
        within=Range(20, 1_000_000),
        panel=_PRIVACY,
        metavar="N",
        methods=[Method.DP_SGD],
    )
    individual_accounting: bool | None = option(
        "Also prove an ε for each record by its own gradients. Takes another pass over the corpus per epoch.",
        default=None,
        panel=_PRIVACY,
        methods=[Method.DP_SGD],
    )
    tune: int | None = option(
        "Train a random number of times, N on average, each with another learning rate; keep the best. Needs "
        "--tune-score.",
        default=None,
        within=Range(2, 1000),
        panel=_PRIVACY,
        metavar="N",
        methods=[Method.DP_SGD],
    )
    tune_score: str | None = option(
        "Public text on which the runs of --tune are compared; the one with the lowest loss is kept.",
        default=None,
        panel=_PRIVACY,
        metavar="FILE",
        methods=[Method.DP_SGD],
    )
    rounding: Rounding | None = option(
        "Test floating-point rounding during training, or prove it harmless (slower: one record at a time).",
        default=None,
        panel=_PRIVACY,
        shown="tested",
        methods=[Method.DP_SGD],
    )
    policy: str | None = option(
        "Policy that finds the secrets to redact: patterns, dictionary:FILE, …",
        default=None,
        panel=_POLICIES,
        metavar="NAME",
        methods=REDACTING,
    )
    pattern: tuple[str, ...] | None = option(
        PATTERN_HELP, default=None, panel=_POLICIES, metavar=PATTERN, methods=REDACTING
    )
    conservative_policy: str | None = option(
        "Policy that routes records to private training: what it marks is trained with noise.",
        default=None,
        panel=_POLICIES,
        metavar="NAME",
        shown="every record is trained with noise",
        methods=[Method.CRT],
    )
    labelled: str | None = option(
        "Labelled records on which to measure the miss rates of the policies.",
        default=None,
        panel=_POLICIES,
        metavar="FILE",
        methods=REDACTING,
    )
    miss_rate: float | None = option(
        "Fraction of secrets that the policy misses.",
        default=None,
        within=SHARE,
        panel=_POLICIES,
        shown="1, that is, all of them",
        methods=REDACTING,
    )
    conservative_miss_rate: float | None = option(
        "Fraction of secrets that both policies miss. Required with --conservative-policy, unless --labelled "
        "measures it.",
        default=None,
        within=SHARE,
        panel=_POLICIES,
        methods=[Method.CRT],
    )
    group: int | None = option(
        "Number of missed secrets that the group guarantee covers.",
        default=None,
        within=COUNT,
        panel=_POLICIES,
        metavar="K",
        shown="10",
        methods=[Method.CRT],
    )
    fill_masks: Fill | None = option(
        "Train on made-up values in place of masks: of any kind, or of the kind that the policy gave to what was "
        "masked. The guarantee then does not hide the kind.",
        default=None,
        panel=_POLICIES,
        shown="masks stay",
        methods=[Method.CRT],
    )
    drop_duplicates: bool | None = option(
        "Train once on public records with the same text.", default=None, panel=_POLICIES, methods=[Method.CRT]
    )
    write_redacted: str | None = option(
        "JSON Lines file to write the redacted records to, each with its part: public or private.",
        default=None,
        panel=_POLICIES,
        metavar="FILE",
        methods=[Method.CRT],
    )
    state_norm: float | None = option(
        "Clip the recurrent state that a sensitive token reads to this norm.",
        default=None,
        within=NORM,
        panel=_POLICIES,
        shown="1",
        methods=[Method.SELECTIVE],
    )
    parts: int | None = option(
        "Number of disjoint parts that the owners are split into.",
        default=None,
        within=Range(2, 4096),
        panel=_ENSEMBLE,
        metavar="N",
        shown=f"{_PARTS}",
        methods=[Method.SUBMIX],
    )
    halves: bool | None = option(
        "Train two models per part, as Algorithm 2 of the SubMix paper requires.",
        default=None,
        panel=_ENSEMBLE,
        methods=[Method.SUBMIX],
    )
    token_budget: int | None = option(
        "Padded tokens to process at once. Lower it if memory runs out.",
        default=None,
        within=LENGTH,
        panel=_STEPS,
        metavar="N",
        shown="by vocabulary size",
    )
    checkpoint_seconds: float = option(
        "Save a checkpoint every so many seconds.", default=60.0, within=Range(0.0, 1e9), panel=_STEPS
    )
    checkpoint_steps: int | None = option(
        "Also save a checkpoint every N steps.", default=None, within=STEPS, panel=_STEPS, metavar="N"
    )

    @property
    def protected(self) -> Unit:
        """What one promise protects; a record unless something else was asked for."""
        return self.unit or Unit.RECORD

    @property
    def correlated(self) -> int | None:
        """Bands of correlated noise; None for independent noise. Bands without the sampler are refused later."""
        return (self.bands or _BANDS) if self.sampler is SamplerName.BANDED else self.bands

    @property
    def risk(self) -> "RiskTarget | None":
        """The risk that the noise is calibrated to, where one was given."""
        return risk_of(tpr=self.target_tpr, bits=self.target_bits, advantage=self.target_advantage)

    def chosen(self, units: int, size: "ModelSize") -> dict[str, float]:
        """Values chosen for this many units where none were given, by key; none unless the noise is calibrated."""
        from reticent.training.plans.choice import choose

        # Where the noise is calibrated more steps cost noise, and never ε.
        if self.method not in (Method.DP_SGD, Method.CRT) or self.noise_multiplier is not None:
            return {}
        given = self.model_fields_set
        choice = choose(
            units,
            size=size,
            epsilon=self.target_epsilon,
            epochs=self.epochs if "epochs" in given else None,
            is_redacted=self.method is Method.CRT,
        )
        if (
            self.correlated and choice.batch * self.correlated > units
        ):  # a cycle needs a batch for each of its steps
            choice = replace(choice, batch=max(1, units // self.correlated))
        return {key: value for key, value in asdict(choice).items() if key not in given}

    def optimiser_settings(self, *, gradient_noise: float = 0.0) -> "OptimiserSettings":
        """The optimiser's settings for gradients whose entries have noise of this standard deviation."""
        from reticent.training.optimiser import OptimiserSettings

        return OptimiserSettings(
            rule=self.optimiser,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            warmup=self.warmup,
            decay=self.decay,
            tail=self.average_tail,
            ema=self.ema,
            noise_variance=gradient_noise**2,
        )

    def schedule(self) -> "CheckpointSchedule":
        """When a run saves itself."""
        from reticent.training.loop import CheckpointSchedule

        return CheckpointSchedule(seconds=self.checkpoint_seconds, steps=self.checkpoint_steps)

    def check(self) -> None:
        """Refuse combinations that would give less privacy than was asked for, before anything is read."""
        name = self.method.value
        foreign = misplaced(self, self.method)
        if foreign:
            what, hint = _REFUSALS.get(self.method, ("", None))
            ensemble = [flag for flag in foreign if flag in ("--parts", "--halves")]
            if ensemble:
                what, hint = "--parts and --halves make an ensemble", "use --method submix with them"
            verb = "does" if len(foreign) == 1 else "do"
            raise ConfigError(
                f"{', '.join(foreign)} {verb} not belong to method '{name}'" + (f": {what}" if what else ""),
                hint=hint,
            )
        if self.optimiser is Rule.CORRECTED_ADAM and self.method is not Method.DP_SGD:
            raise ConfigError(f"corrected-adam needs noise in every step; method '{name}' has steps without")
        if self.average_tail and self.ema:
            raise ConfigError("--average-tail and --ema are two ways to average: give one")
        if self.method not in PRIVATE:
            return
        keys = ("target_epsilon", "target_tpr", "target_bits", "target_advantage", "noise_multiplier")
        given = [flag_of(key) for key in keys if getattr(self, key) is not None]
        if len(given) != 1:
            raise ConfigError(
                f"method '{name}' needs one target or a noise multiplier",
                found=" and ".join(given) or "neither",
                hint="--target-epsilon 8 lets the noise be calibrated; --noise-multiplier 1.0 fixes it",
            )
        if self.delta is None:
            raise ConfigError(f"method '{name}' needs a delta", hint="--delta, well below 1 / number of records")
        if self.audit is not None and self.neighbours is Neighbours.REPLACE:
            raise ConfigError("--audit measures added or removed units", found="--neighbours replace")
        if self.texts_per_owner is not None and self.unit is not Unit.OWNER:
            raise ConfigError("--texts-per-owner is for --unit owner: a record is one text")
        if self.individual_accounting and self.sampler not in (None, SamplerName.POISSON):
            raise ConfigError("--individual-accounting needs --sampler poisson", found=self.sampler.value)
        if self.individual_accounting and self.protected is not Unit.RECORD:
            raise ConfigError(
                "--individual-accounting proves an ε of single records, not of owners",
                found=f"--unit {self.protected.value}",
                hint="leave one of the two out",
            )
        if self.individual_accounting and self.neighbours is Neighbours.REPLACE:
            raise ConfigError("--individual-accounting needs --neighbours add-remove", found="replace")
        self._check_clipping()
        self._check_tuning()
        self._check_public_text()
        if self.method is not Method.DP_SGD:
            self._check_policies()

    def _check_clipping(self) -> None:
        """Refuse what was not proved, or does not work, together with a clip norm that moves."""
        check_moving_norm(
            self.clip_quantile,
            self.count_noise,
            correlated=self.sampler is not None and SAMPLERS[self.sampler].is_correlated,
            canaries=self.audit is not None,
            individual=bool(self.individual_accounting),
            proved_rounding=self.rounding is Rounding.PROVED,
        )
        if self.clip_quantile is not None and self.optimiser is Rule.CORRECTED_ADAM:
            raise ConfigError(
                "--optimiser corrected-adam needs the same noise in all steps, and --clip-quantile moves it",
                hint="leave one of them out",
            )

    def _check_public_text(self) -> None:
        """Options of public steps need public text, and the optimiser must fit steps without noise."""
        if self.public_text is None:
            given = {
                "--public-epochs": self.public_epochs is not None,
                "--public-batch": self.public_batch is not None,
                "--public-learning-rate": self.public_learning_rate is not None,
            }
            for flag, is_given in given.items():
                if is_given and self.method is Method.DP_SGD:
                    raise ConfigError(f"{flag} is for --public-text", hint="name the file with public text")
        elif self.optimiser is Rule.CORRECTED_ADAM:
            raise ConfigError(
                "corrected-adam needs noise in every step, and steps on --public-text have none",
                hint="use --optimiser adamw",
            )

    def _check_tuning(self) -> None:
        """What the best of several runs needs, and what has no price for it."""
        if (self.tune is None) != (self.tune_score is None):
            raise ConfigError(
                "--tune keeps the best run by public text", hint="give --tune N and --tune-score FILE"
            )
        if self.tune is None:
            return
        if self.risk is not None:
            raise ConfigError("--tune needs --target-epsilon or --noise-multiplier", found="a risk target")
        if self.sampler is not None and not (drawn := SAMPLERS[self.sampler]).has_renyi_price:
            raise ConfigError(f"the cost of --tune is not known for {drawn.label}", hint="use --sampler poisson")
        if self.individual_accounting:
            raise ConfigError(
                "--individual-accounting is of one run, and --tune makes several", hint="leave one out"
            )
        if self.audit is not None:
            raise ConfigError("--audit measures one run, and --tune makes several", hint="leave one of them out")

    def _check_policies(self) -> None:
        """What crt and selective need to know of their policies."""
        name = self.method.value
        if self.policy is None and not self.pattern:
            raise ConfigError(
                f"method '{name}' needs a policy that finds secrets",
                hint="--policy patterns, or dictionary:FILE, or --pattern KIND=REGEX",
            )
        rates = (self.miss_rate, self.conservative_miss_rate)
        if self.labelled is not None and rates != (None, None):
            raise ConfigError("--labelled measures the miss rates: give the file or the rates, not both")
        if self.conservative_policy is None and self.conservative_miss_rate is not None:
            raise ConfigError(
                "--conservative-miss-rate needs a conservative policy, and none is given",
                hint="name it with --conservative-policy; without one every record is trained with noise",
            )
        if self.conservative_policy is not None and self.labelled is None and self.conservative_miss_rate is None:
            raise ConfigError(
                "what both policies miss is trained on plainly, so that rate must be known",
                hint="--labelled FILE measures it; --conservative-miss-rate 0 asserts that they miss nothing",
            )
        if self.method is Method.SELECTIVE and self.epochs != round(self.epochs):
            raise ConfigError("method 'selective' needs whole epochs", found=self.epochs)

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

        assert self.delta is not None
        sampler = sampler_of(self.sampler or SamplerName.POISSON, units, self.batch, bands=self.correlated)
        if self.audit is not None:
            sampler = audited_sampler(sampler, self.audit)
        protects: dict[str, Any] = {
            "clip_norm": 1.0 if self.clip_norm is None else self.clip_norm,
            "delta": self.delta,
            "unit": self.protected,
            "neighbours": self.neighbours or Neighbours.ADD_REMOVE,
            "texts_per_unit": (self.texts_per_owner or TEXTS_PER_OWNER) if self.protected is Unit.OWNER else 1,
            "canaries": self.audit or 0,
            "rounding": self.rounding or Rounding.TESTED,
            "individual": bool(self.individual_accounting),
            "clip_quantile": self.clip_quantile,
            "count_noise": self.count_noise,
        }
        if self.noise_multiplier is None:
            plan = DpSgd.for_target(
                epsilon=self.target_epsilon,
                risk=self.risk,
                units=sampler.units,
                batch=sampler.batch,
                epochs=self.epochs,
                sampler=sampler.name,
                bands=self.correlated,
                **protects,
            )
            if self.tune is None or self.target_epsilon is None:
                return plan
            return plan.calibrated_for_tuning(self.tune, epsilon=self.target_epsilon)
        steps = sampler.steps(self.epochs)
        return DpSgd(sampler=sampler, noise_multiplier=self.noise_multiplier, steps=steps, **protects)


def risk_of(*, tpr: str | None, bits: str | None, advantage: float | None) -> "RiskTarget | None":
    """The risk that one of these options names; None where none was given."""
    from reticent.accounting.risk_target import RiskTarget

    return RiskTarget.of(tpr=tpr, bits=bits, advantage=advantage)


def options_of(plan: "DpSgd") -> dict[str, Any]:
    """The options of `TrainSettings.of` that ask for this plan on a corpus of as many units."""
    if plan.canaries:
        raise ConfigError(
            "training adds gradient canaries to a plan by itself",
            found=f"a plan with {plan.canaries:,} canaries",
            hint="give method='dp-sgd' and audit=N, or use PrivateStep",
        )
    sampler = plan.sampler
    return {
        "method": Method.DP_SGD,
        "noise_multiplier": plan.noise_multiplier,
        "delta": plan.delta,
        "clip_norm": plan.clip_norm,
        "unit": plan.unit,
        "neighbours": plan.neighbours,
        "texts_per_owner": plan.texts_per_unit if plan.unit is Unit.OWNER else None,
        "sampler": sampler.name,
        "bands": sampler.bands,
        "batch": sampler.batch,
        "epochs": plan.steps * sampler.expected_batch / sampler.units,
        "audit": None,
        "rounding": plan.rounding,
        "individual_accounting": plan.individual or None,
        "clip_quantile": plan.clip_quantile,
        "count_noise": plan.count_noise,
    }


class Resumption(EngineOptions, CurveOptions, Shown):
    """What `reticent train --resume` takes: everything else was decided when the run was started."""

    resume: Path = option("Continue an interrupted run from its last checkpoint.", metavar="DIR", in_file=False)

    @classmethod
    def _checked(cls, options: dict[str, Any], *, by_flag: bool) -> Self:
        """The resumption of a run; any option that would change the run is an error."""
        own = {each.keyword for each in declared_in(cls)}
        if any(value is not None for name, value in options.items() if name not in own):
            raise ConfigError(
                "--resume continues the run as it was planned; nothing about it can be changed",
                hint="give --resume RUN alone, or start another run",
            )
        return super()._checked({name: value for name, value in options.items() if name in own}, by_flag=by_flag)

    def check(self) -> None:
        """Refuse a tracker that is not there."""
        self.check_log()

    def check_paths(self) -> None:
        """The run is there: said before torch is loaded."""
        from reticent.runs.directory import RunDirectory

        RunDirectory.open(self.resume)


class TrainSettings(Seeded, EngineOptions, CurveOptions, Shown):
    """Everything that `reticent train` can be asked for."""

    out: Path | None = option("Run directory to write.", default=None, metavar="DIR", in_file=False)
    config: Path | None = option(
        "TOML file with the settings of the run. Flags override it.", default=None, metavar="FILE", in_file=False
    )
    resume: Path | None = option(
        "Continue an interrupted run from its last checkpoint.", default=None, metavar="DIR", in_file=False
    )
    dry_run: bool = option("Print the guarantee that the run would have, and stop.", default=False, in_file=False)
    data: DataSection
    model: ModelSection
    training: TrainingSection

    def check(self) -> None:
        """Refuse combinations that the method cannot honour, before anything is read."""
        self.training.check()
        self.check_log()
        if self.training.tune is not None and self.log_to is not None:
            raise ConfigError(
                "--log-to would show how many runs --tune makes, and that is secret", hint="leave it out"
            )
        if self.training.tune is not None and self.data.corpus_ledger is not None:
            raise ConfigError(
                "--corpus-ledger lists runs, and how many --tune makes is secret", hint="leave it out"
            )
        if self.training.method is not Method.SUBMIX:
            return
        if self.data.holdout is not None:
            raise ConfigError(
                "an ensemble is measured by its mechanisms, not in training",
                hint="use: reticent evaluate RUN --data FILE",
            )
        if self.model.merge:
            raise ConfigError("--merge would make whole models of an ensemble's adapters", hint="leave it out")
        if self.model.frozen_head is False:
            raise ConfigError("an ensemble reads its members through one output layer", hint="set no frozen_head")

    def check_paths(self) -> None:
        """Everything that the run reads is there and its place is free: said before torch is loaded."""
        from reticent.models.huggingface.location import find_local, locate
        from reticent.runs.directory import RunDirectory
        from reticent.runs.training.launch import is_follower

        out = None if self.dry_run else self.required_out()
        for path in (self.data.file, self.data.holdout, self.training.tune_score):
            if path is not None:
                self.data.corpus(path)
        for path in (self.training.labelled, self.training.public_text):
            if path is not None:
                self.data.corpus(path, recognise=True)
        if not self.model.source.startswith("lstm:"):
            _ = find_local(self.model.source) if self.dry_run else locate(self.model.source)
        if out is not None and not is_follower():
            RunDirectory.for_new_run(out)

    def public_corpus(self) -> Corpus | None:
        """The public text that is trained on first, in memory; None where there is none."""
        file = self.training.public_text
        return None if file is None else self.data.corpus(file, recognise=True).load()

    def require_units(self, corpus: Corpus, planned: int) -> None:
        """Refuse a plan that was made for another number of units than the corpus has."""
        unit = self.training.protected
        units = len(corpus.owners) if unit is Unit.OWNER else len(corpus)
        if units != planned:
            raise ConfigError(
                f"the plan is for {planned:,} {unit.value}s, the corpus has {units:,}",
                hint=f"make the plan with units={units}",
            )

    @property
    def policy_of_held_out(self) -> str | None:
        """The policy that says what is secret in the held-out text; None where nobody said."""
        if self.data.holdout_policy is not None:
            return self.data.holdout_policy
        asked = self.training
        return with_patterns(asked.policy, asked.pattern) if asked.method in REDACTING else None

    def required_out(self) -> Path:
        """The run directory to write; an error where none is named."""
        if self.out is None:
            raise ConfigError("--out is missing", hint="name the run directory to write, or use --dry-run")
        return self.out

    def start(self) -> "ModelStart":
        """The model that the run starts from, and what of it is trained; `resolved` decides on the temperature."""
        return replace(self.model.start(), learns_temperature=self.training.fixed_temperature is False)

    def into(self, out: Path) -> "TrainSettings":
        """The same settings with another run directory."""
        return self.model_copy(update={"out": out})

    def computation(self, vocabulary_size: int) -> "Computation":
        """How gradients are computed: how much at once, and in which precision."""
        import torch

        from reticent.training.batches import choose_token_budget
        from reticent.training.gradients.source import Computation

        return Computation(
            token_budget=self.training.token_budget or choose_token_budget(vocabulary_size),
            dtype=torch.bfloat16 if self.model.precision is Precision.BFLOAT16 else None,
            recomputes=self.model.checkpoint_activations,
        )

    def resolved(self) -> "TrainSettings":
        """The settings with a method's own defaults filled in and paths made absolute."""
        if self.training.method is not Method.SUBMIX:
            model, training = self.model, self.training
            if model.lora_rank and model.frozen_head is None:
                model = model.model_copy(update={"frozen_head": model.adapter_layers > 0})
            if training.method is Method.DP_SGD and training.fixed_temperature is None:
                training = training.model_copy(update={"fixed_temperature": False})
            return self.model_copy(update={"model": model, "training": training}).located()
        rank = self.model.lora_rank if "lora_rank" in self.model.model_fields_set else _ENSEMBLE_RANK
        asked = self.training
        training = asked.model_copy(update={"parts": asked.parts or _PARTS, "halves": bool(asked.halves)})
        model = self.model.model_copy(update={"lora_rank": rank})
        return self.model_copy(update={"model": model, "training": training}).located()

    def with_choices(self, *, records: int, owners: int) -> "tuple[TrainSettings, dict[str, float]]":
        """The settings with what the operator left open chosen from public facts, and what was chosen."""
        units = owners if self.training.protected is Unit.OWNER else records
        chosen = self.training.chosen(units, self.model.size())
        return self.model_copy(update={"training": self.training.model_copy(update=chosen)}), chosen

    def located(self) -> "TrainSettings":
        """The same with absolute paths, so that a run can be resumed from anywhere."""
        kept = self.data.corpus_ledger
        ledger = None if kept is None else str(Path(kept).expanduser().resolve())
        data = self.data.model_copy(
            update={
                "file": _absolute(self.data.file),
                "holdout": _absolute(self.data.holdout),
                "holdout_policy": _located_policy(self.data.holdout_policy),
                "corpus_ledger": ledger,
            }
        )
        model = self.model.model_copy(update={"source": _absolute(self.model.source)})
        asked, written = self.training, self.training.write_redacted
        training = asked.model_copy(
            update={
                "policy": _located_policy(asked.policy),
                "conservative_policy": _located_policy(asked.conservative_policy),
                "labelled": _absolute(asked.labelled),
                "tune_score": _absolute(asked.tune_score),
                "public_text": _absolute(asked.public_text),
                "write_redacted": None if written is None else str(Path(written).expanduser().resolve()),
            }
        )
        return self.model_copy(update={"data": data, "model": model, "training": training})


def _absolute(path: str | None) -> str | None:
    """An absolute path where the file exists; a hub id or a name such as "embedded" stays as it is."""
    if path is None:
        return None
    place = Path(path).expanduser()
    return str(place.resolve()) if place.exists() else path


def _located_policy(name: str | None) -> str | None:
    """A policy's name with the absolute paths of its files."""
    if name is None:
        return None
    from reticent.runs.policies.by_name import JOINT  # loads every policy

    named, *patterns = name.split("\n")
    parts = [part.strip().partition(":") for part in JOINT.split(named)]
    located = ",".join(f"{kind}:{_absolute(file)}" if colon else kind for kind, colon, file in parts)
    return "\n".join([located, *patterns])
