"""Ensembles on generated customer dialogues, as SubMix trains them: owners split in parts and halves, LoRA each.

What is common to the figures of SubMix: the ensemble, held-out passages of other owners with all its look-ups, and
models that are no ensemble: one trained by DP-SGD on the same dialogues, one fine-tuned plainly on all of them and
one on a single part's.
Nothing is released: perplexities of held-out text are for the experimenter's eyes.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reticent import Corpus, DpSgd, load_model
from reticent.core import Ensemble, Randomness
from reticent.data import generate_dialogues, split_corpus
from reticent.ledger import SqliteLedger
from reticent.models import AdapterEnsemble, EnsembleMember
from reticent.prediction import Passage, look_up_passages
from reticent.training import (
    TRAINING_ACCOUNT,
    Checkpoints,
    CheckpointSchedule,
    Computation,
    Learner,
    MemberRecipe,
    MemberShare,
    ModelStart,
    OptimiserSettings,
    PrivateGradients,
    Units,
    encode_texts,
    load_for_training,
    member_seed,
    release_model,
    split_key,
    split_owners,
    train_learner,
    train_member,
)

Floats = NDArray[np.float64]
BASE: Final = "embedded"
_RANK: Final = 8
LENGTH: Final = 96  # tokens read of a dialogue


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleSettings:
    """How much text, in how many parts, and how long each member is trained."""

    dialogues: int
    parts: int
    epochs: float
    source: str = BASE
    learning_rate: float = 3e-3
    batch: int = 8


def train_ensemble(
    corpus: Corpus, settings: EnsembleSettings, folder: Path, *, randomness: Randomness
) -> AdapterEnsemble:
    """Two adapters a part, one for each half of its owners."""
    shares = split_owners(corpus, settings.parts, halves=True, key=split_key(randomness.child("key")))
    members = train_members(shares, settings, folder, randomness=randomness)
    return assemble(members, settings)


def assemble(members: Sequence[EnsembleMember], settings: EnsembleSettings) -> AdapterEnsemble:
    """The ensemble of trained members."""
    names = [f"part-{number}" for number in range(settings.parts)]
    return AdapterEnsemble(load_model(settings.source, device="cpu", dtype="float32"), members, parts=names)


def train_members(
    shares: Sequence[MemberShare], settings: EnsembleSettings, folder: Path, *, randomness: Randomness
) -> list[EnsembleMember]:
    """An adapter for each share, trained plainly."""
    how = _recipe(settings)
    seed = randomness.child("members").fresh_seed()
    members = []
    for share in shares:
        own = member_seed(seed, share)
        model = load_for_training(ModelStart(source=settings.source, lora_rank=_RANK, device="cpu"), seed=own)
        kept = folder / f"{share.name}.checkpoints"
        train_member(model, share, how, folder=kept, seed=own, observe=lambda _: True)
        release_model(model, folder / share.name, certificate=None)
        members.append(EnsembleMember(share.part, folder / share.name))
    return members


def _recipe(settings: EnsembleSettings) -> MemberRecipe:
    """How an adapter is trained."""
    return MemberRecipe(
        epochs=settings.epochs,
        batch=settings.batch,
        optimiser=OptimiserSettings(learning_rate=settings.learning_rate),
        schedule=CheckpointSchedule(seconds=1e9),
        computation=Computation(token_budget=4096),
        max_length=LENGTH,
    )


def fine_tuned_losses(settings: EnsembleSettings, *, randomness: Randomness) -> dict[str, Floats]:
    """Losses in nats, token by token, of adapters fine-tuned plainly: one on all dialogues, one on one part's."""
    training, held_out = dialogue_texts(settings, randomness=randomness)
    parts = split_owners(training, settings.parts, halves=False, key=split_key(randomness.child("key")))
    seed = randomness.child("fine-tuned").fresh_seed()
    found = {}
    for name, corpus in (("full", training), ("single", parts[0].corpus)):
        model = load_for_training(ModelStart(source=settings.source, lora_rank=_RANK, device="cpu"), seed=seed)
        with tempfile.TemporaryDirectory(prefix="reticent-") as folder:
            share = MemberShare(0, None, corpus)
            train_member(model, share, _recipe(settings), folder=Path(folder), seed=seed, observe=lambda _: True)
        model.module.eval()
        texts = [text[:LENGTH] for text in model.encode(held_out.texts)]
        found[name] = -np.concatenate(model.token_log_probs(texts))
    return found


def dialogue_texts(settings: EnsembleSettings, *, randomness: Randomness) -> tuple[Corpus, Corpus]:
    """Generated dialogues: those to train on, and those of other owners, in random order."""
    corpus = generate_dialogues(settings.dialogues, randomness=randomness.child("dialogues"))
    shares = split_corpus(corpus, {"train": 0.85, "held out": 0.15}, by="owner", key=b"held out")
    held_out = shares["held out"]
    order = randomness.child("order").permutation(len(held_out))
    return shares["train"], Corpus(held_out[int(place)] for place in order)


def dialogue_ensemble(
    settings: EnsembleSettings, *, answers: int, randomness: Randomness
) -> tuple[AdapterEnsemble, list[Passage]]:
    """An ensemble on generated dialogues, and held-out passages of `answers` tokens in all."""
    training, held_out = dialogue_texts(settings, randomness=randomness)
    with tempfile.TemporaryDirectory(prefix="reticent-") as name:
        ensemble = train_ensemble(training, settings, Path(name), randomness=randomness)
    return ensemble, read_passages(ensemble, held_out, answers=answers)


def read_passages(ensemble: Ensemble, held_out: Corpus, *, answers: int) -> list[Passage]:
    """Held-out texts with all look-ups, cut after so many tokens in all."""
    texts = ensemble.public.encode(held_out.texts)
    return list(look_up_passages(ensemble, (text[:LENGTH] for text in texts), answers=answers))


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateRecipe:
    """How the rival is trained: DP-SGD to (ε, δ), a dialogue the unit."""

    epsilon: float
    delta: float
    epochs: float = 8.0
    batch: int = 64
    clip_norm: float = 0.5
    learning_rate: float = 2e-3


def private_losses(settings: EnsembleSettings, recipe: PrivateRecipe, *, randomness: Randomness) -> Floats:
    """Losses in nats of one model trained by DP-SGD, token by token, of the held-out passages of an ensemble."""
    training, held_out = dialogue_texts(settings, randomness=randomness)
    model = load_for_training(ModelStart(source=settings.source, device="cpu"), seed=0)
    units = Units(encode_texts(model, training, max_length=LENGTH))
    plan = DpSgd.for_target(
        epsilon=recipe.epsilon,
        delta=recipe.delta,
        units=len(units),
        batch=min(recipe.batch, len(units)),
        epochs=recipe.epochs,
        clip_norm=recipe.clip_norm,
    )
    with (
        tempfile.TemporaryDirectory(prefix="reticent-") as name,
        SqliteLedger.create(
            Path(name) / "l.db", plan.budget(is_seeded=True), accounts=[TRAINING_ACCOUNT]
        ) as ledger,
    ):
        source = PrivateGradients(
            model.module,
            units,
            plan,
            ledger=ledger,
            randomness=randomness.child("noise"),
            computation=Computation(token_budget=4096),
        )
        learner = Learner(model.module, OptimiserSettings(learning_rate=recipe.learning_rate))
        kept = Checkpoints(Path(name) / "checkpoints")
        train_learner(learner, source, checkpoints=kept, schedule=CheckpointSchedule(seconds=1e9), seed=0)
    model.module.eval()
    texts = [text[:LENGTH] for text in model.encode(held_out.texts)]
    return -np.concatenate(model.token_log_probs(texts))


def first_answers(texts: Sequence[Passage], answers: int) -> list[Passage]:
    """The passages, cut after so many tokens in all."""
    kept, left = [], answers
    for passage in texts:
        if left <= 0:
            break
        kept.append(Passage(passage.tokens[:left], passage.rows[:left]))
        left -= len(passage.tokens)
    return kept
