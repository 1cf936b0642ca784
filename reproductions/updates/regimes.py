"""The ways a model is updated, as one experiment: which of them give a canary phrase away, and how much.

    re-training      M = T(random, D)      M' = T(another random, D ∪ share of E ∪ C)
    continued        M = T(random, D)      M' = T(M, share of E ∪ C)
    two stages       M = T(random, D)      M' = T(T(M, share of E ∪ C), F)       an adversary without the middle one
    any of them with DP-SGD in place of SGD, one record the unit

D is the original corpus, E fresh text of the same kind, C the canaries' copies, F more fresh text (Zanella-Béguelin
et al. 2020, tables 1 and 2, section 4). Models are LSTMs or Transformers on a word vocabulary. Everything follows
from the seed; noise from a seed makes an experiment and nothing that may be released, and the guarantee says so.
"""

import copy
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import torch

from reproductions.updates.convergence import Convergence
from reproductions.updates.rank import DifferentialRank, differential_rank
from reticent import Corpus, DpSgd, Guarantee
from reticent.auditing import BeamSettings, PhraseScore, Snapshots, search_phrases
from reticent.core import Canary, Randomness
from reticent.data import plant_canaries
from reticent.ledger import SqliteLedger
from reticent.models import HuggingFaceModel, LSTMConfig, LSTMForCausalLM
from reticent.training import (
    TRAINING_ACCOUNT,
    Checkpoints,
    CheckpointSchedule,
    Computation,
    Decay,
    GradientSource,
    Learner,
    OptimiserSettings,
    PlainGradients,
    PlainPlan,
    PrivateGradients,
    Units,
    choose_token_budget,
    encode_texts,
    evaluate_model,
    train_learner,
)

_POSITIONS: Final = 64  # of a Transformer: sentences are short


class Regime(StrEnum):
    """How the snapshot after the update came about."""

    RETRAINING = "re-training"
    CONTINUED = "continued training"
    TWO_STAGES = "two stages"


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """DP-SGD with a record as the unit."""

    epsilon: float
    delta: float
    clip_norm: float = 1.0
    batch: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSettings:
    """The model and its training. `privacy` None is plain training; `heads` None is an LSTM, else a Transformer.

    Every training takes `epochs` over its own text, or `steps` where they are given. With `patience` it goes to
    convergence (`updates.convergence`) at a constant rate, `epochs` being the most.
    """

    hidden_size: int = 64
    layers: int = 1
    heads: int | None = None
    epochs: float = 4.0
    steps: int | None = None
    patience: int | None = None
    batch: int = 16
    learning_rate: float = 5e-3
    max_length: int | None = None
    privacy: Privacy | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.patience is not None and (self.privacy is not None or self.steps is not None):
            raise ValueError("training to convergence is plain, and has no number of steps")

    def epochs_over(self, units: int, batch: int) -> float:
        """Epochs over a text of `units` records."""
        return self.epochs if self.steps is None else self.steps * batch / units


@dataclass(frozen=True, slots=True)
class UpdateData:
    """D, E and F, the word tokenizer that all models share, and text that decides when a training has converged."""

    original: Corpus
    extra: Corpus
    later: Corpus
    tokenizer: Any = field(repr=False)
    held_out: Corpus = field(default_factory=lambda: Corpus([]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """An update and what it gives away of each canary, by the canary's name.

    `beam_ranks` are lower bounds that count the other canaries too; `ranks_apart` leave them out, as if each canary
    had had an update of its own. `found` are those that the beam returned whole; `pair_ranks` are the ranks of the
    first two tokens among all |T|² pairs, where they were asked for. `canary_share` is how much of the updated
    text, in tokens, is copies of canaries; `accuracy` how often the model after it names the next token of held-out
    text, where there is some.
    """

    regime: Regime
    share: float
    scores: Mapping[str, PhraseScore]
    beam_ranks: Mapping[str, int]
    ranks_apart: Mapping[str, int]
    found: frozenset[str]
    pair_ranks: Mapping[str, DifferentialRank]
    guarantee: Guarantee | None
    canary_share: float
    accuracy: float | None

    def mean_score(self, beginning: str = "") -> float:
        """Mean DS of the canaries whose name begins so."""
        chosen = [one.score for name, one in self.scores.items() if name.startswith(beginning)]
        return sum(chosen) / len(chosen)


class UpdateExperiment:
    """Updates of one model. The snapshot before is trained once."""

    def __init__(self, data: UpdateData, settings: UpdateSettings) -> None:
        self.data = data
        self.settings = settings
        self._before: HuggingFaceModel | None = None
        self.guarantee: Guarantee | None = None
        self.watched: Convergence | None = None  # of the last training that went to convergence

    @property
    def before(self) -> HuggingFaceModel:
        """M: trained on D alone."""
        if self._before is None:
            self._before = self.trained(self.fresh("before"), self.data.original, "before")
        return self._before

    def fresh(self, name: str) -> HuggingFaceModel:
        """A model with random weights of its own."""
        tokenizer, settings = self.data.tokenizer, self.settings
        special = {key: getattr(tokenizer, key) for key in ("bos_token_id", "eos_token_id")}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._source(f"weights {name}").fresh_seed())
            shape = {"hidden_size": settings.hidden_size, "num_hidden_layers": settings.layers}
            if settings.heads is None:
                module = LSTMForCausalLM(LSTMConfig(vocab_size=len(tokenizer), **shape, **special))
            else:
                module = _transformer(len(tokenizer), settings, special)
            return HuggingFaceModel(module, tokenizer, name=name)

    def after(self, regime: Regime, canaries: Iterable[Canary], *, share: float = 0.0) -> HuggingFaceModel:
        """M': the snapshot after an update with the canaries and a share of E, as a part of D's size."""
        extra = self.data.extra[: round(share * len(self.data.original))]
        name = f"{regime.value} {share:g}"
        if regime is Regime.RETRAINING:
            whole = self._planted(Corpus([*self.data.original, *extra]), canaries)
            return self.trained(self.fresh(name), whole, name)
        updated = self.trained(self.before, self._planted(extra, canaries), name)
        if regime is Regime.CONTINUED:
            return updated
        return self.trained(updated, self.data.later, f"{name} later")

    def update(
        self, regime: Regime, canaries: Sequence[Canary], *, share: float = 0.0, ranked: Sequence[str] = ()
    ) -> Update:
        """Update, then measure every canary; of those named in `ranked` also the exact rank of two tokens."""
        after = self.after(regime, canaries, share=share)
        pair = Snapshots(self.before, after)
        encoded = pair.before.encode([canary.text() for canary in canaries])
        phrases = {canary.name: tuple(row) for canary, row in zip(canaries, encoded, strict=True)}
        scores = dict(zip(phrases, pair.score(encoded), strict=True))
        beam = search_phrases(pair, BeamSettings(length=max(map(len, encoded))))
        apart = {name: beam.least_rank(one.score, leave_out=phrases.values()) for name, one in scores.items()}
        return Update(
            regime=regime,
            share=share,
            scores=scores,
            beam_ranks={
                name: beam.least_rank(one.score, leave_out=[phrases[name]]) for name, one in scores.items()
            },
            ranks_apart=apart,
            found=frozenset(name for name, phrase in phrases.items() if beam.holds(phrase)),
            pair_ranks={name: differential_rank(pair, phrases[name][:2]) for name in ranked},
            guarantee=self.guarantee,
            canary_share=self.canary_share(regime, canaries, share=share),
            accuracy=self._accuracy(after),
        )

    def canary_share(self, regime: Regime, canaries: Sequence[Canary], *, share: float = 0.0) -> float:
        """Tokens of all copies of all canaries over all tokens of the text that the update is trained on."""
        extra = self.data.extra[: round(share * len(self.data.original))]
        public = [*self.data.original, *extra] if regime is Regime.RETRAINING else extra
        model = self.fresh("to count by")
        planted = sum(
            canary.copies * len(row)
            for canary, row in zip(canaries, model.encode([each.text() for each in canaries]), strict=True)
        )
        return planted / (planted + sum(map(len, model.encode([record.text for record in public]))))

    def _accuracy(self, model: HuggingFaceModel) -> float | None:
        """How often the model's likeliest token is the next one of held-out text."""
        if not len(self.data.held_out):
            return None
        return evaluate_model(model.module, encode_texts(model, self.data.held_out)).top1

    def trained(self, model: HuggingFaceModel, corpus: Corpus, name: str) -> HuggingFaceModel:
        """A copy of the model, trained on the corpus."""
        settings = self.settings
        learnt = HuggingFaceModel(copy.deepcopy(model.module), model.tokenizer, name=name)
        learnt.module.requires_grad_(True)
        units = Units(encode_texts(learnt, corpus, max_length=settings.max_length))
        watched = self._watched(learnt, len(units))
        decay = Decay.LINEAR if watched is None else Decay.CONSTANT
        rate = OptimiserSettings(learning_rate=settings.learning_rate, decay=decay)
        source = self._source(f"training {name}")
        with tempfile.TemporaryDirectory() as folder, self._gradients(learnt, units, source, Path(folder)) as steps:
            train_learner(
                Learner(learnt.module, rate),
                steps,
                checkpoints=Checkpoints(Path(folder) / "checkpoints"),
                schedule=CheckpointSchedule(seconds=float("inf")),
                seed=source.fresh_seed(),
                observe=watched or (lambda _: True),
            )
        if watched is not None:
            watched.restore()
        return learnt

    def _watched(self, model: HuggingFaceModel, units: int) -> Convergence | None:
        """What ends a training on `units` records that goes to convergence."""
        if self.settings.patience is None:
            return None
        every = -(-units // min(self.settings.batch, units))
        self.watched = Convergence(model, self.data.held_out, every=every, patience=self.settings.patience)
        return self.watched

    @contextmanager
    def _gradients(
        self, model: HuggingFaceModel, units: Units, source: Randomness, folder: Path
    ) -> Iterator[GradientSource]:
        """Plain or private gradients."""
        settings = self.settings
        computation = Computation(token_budget=choose_token_budget(model.vocabulary_size))
        if settings.privacy is None:
            batch = min(settings.batch, len(units))
            epochs = settings.epochs_over(len(units), batch)
            plan = PlainPlan(units=len(units), batch=batch, epochs=epochs, seed=source.fresh_seed())
            yield PlainGradients(model.module, units, plan, computation=computation)
            return
        batch = min(settings.privacy.batch, len(units))
        private = DpSgd.for_target(
            epsilon=settings.privacy.epsilon,
            delta=settings.privacy.delta,
            units=len(units),
            batch=batch,
            epochs=settings.epochs_over(len(units), batch),
            clip_norm=settings.privacy.clip_norm,
        )
        budget = private.budget(is_seeded=True)
        self.guarantee = budget.guarantee
        with SqliteLedger.create(folder / "ledger.db", budget, accounts=[TRAINING_ACCOUNT]) as ledger:
            yield PrivateGradients(
                model.module, units, private, ledger=ledger, randomness=source, computation=computation
            )

    def _planted(self, corpus: Corpus, canaries: Iterable[Canary]) -> Corpus:
        """The corpus with every canary's copies at random places."""
        return plant_canaries(corpus, tuple(canaries), randomness=self._source("places"))

    def _source(self, name: str) -> Randomness:
        return Randomness.seeded(self.settings.seed).child(name)


def _transformer(vocabulary: int, settings: UpdateSettings, special: Mapping[str, int]) -> Any:
    """A decoder of GPT-2's kind without dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=vocabulary,
        n_positions=_POSITIONS,
        n_embd=settings.hidden_size,
        n_layer=settings.layers,
        n_head=settings.heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        **special,
    )
    return GPT2LMHeadModel(config)
