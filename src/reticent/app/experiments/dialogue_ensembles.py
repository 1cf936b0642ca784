"""Ensembles on generated customer dialogues, as SubMix trains them: owners split in parts and halves, LoRA each.

What is common to the figures of SubMix: the ensemble, and held-out passages of other owners with all its look-ups.
Nothing is released: perplexities of held-out text are for the experimenter's eyes.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reticent.core.corpus import Corpus
from reticent.core.randomness import Randomness
from reticent.data.generators import generate_dialogues
from reticent.data.splits import split
from reticent.models.ensemble import AdapterEnsemble, Member
from reticent.models.loading import load_model
from reticent.prediction.evaluation import Passage, passages
from reticent.training.ensemble import MemberRecipe, member_seed, split_key, split_owners, train_member
from reticent.training.gradient_source import Computation
from reticent.training.loop import Schedule
from reticent.training.optimiser import OptimiserSettings
from reticent.training.release import release_model
from reticent.training.starting_model import Start, starting_model

BASE: Final = "embedded"
_RANK: Final = 8
_LENGTH: Final = 96  # tokens read of a dialogue


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
    how = MemberRecipe(
        epochs=settings.epochs,
        batch=settings.batch,
        optimiser=OptimiserSettings(learning_rate=settings.learning_rate),
        schedule=Schedule(seconds=1e9),
        computation=Computation(token_budget=4096),
        max_length=_LENGTH,
    )
    seed = randomness.child("members").fresh_seed()
    shares = split_owners(corpus, settings.parts, halves=True, key=split_key(randomness.child("key")))
    members = []
    for share in shares:
        own = member_seed(seed, share)
        model = starting_model(Start(source=settings.source, lora_rank=_RANK, device="cpu"), seed=own)
        kept = folder / f"{share.name}.checkpoints"
        train_member(model, share, how, folder=kept, seed=own, observe=lambda _: True)
        release_model(model, folder / share.name, guarantee=None)
        members.append(Member(share.part, folder / share.name))
    names = [f"part-{number}" for number in range(settings.parts)]
    return AdapterEnsemble(load_model(settings.source, device="cpu", dtype="float32"), members, parts=names)


def dialogue_ensemble(
    settings: EnsembleSettings, *, answers: int, randomness: Randomness
) -> tuple[AdapterEnsemble, list[Passage]]:
    """An ensemble on generated dialogues, and held-out passages of `answers` tokens in all."""
    corpus = generate_dialogues(settings.dialogues, randomness=randomness.child("dialogues"))
    shares = split(corpus, {"train": 0.85, "held out": 0.15}, by="owner", key=b"held out")
    with tempfile.TemporaryDirectory(prefix="reticent-") as name:
        ensemble = train_ensemble(shares["train"], settings, Path(name), randomness=randomness)
    texts = ensemble.public.encode(shares["held out"].texts)
    order = randomness.child("order").permutation(len(texts))
    return ensemble, list(passages(ensemble, (texts[int(i)][:_LENGTH] for i in order), answers=answers))


def first_answers(texts: Sequence[Passage], answers: int) -> list[Passage]:
    """The passages, cut after so many tokens in all."""
    kept, left = [], answers
    for passage in texts:
        if left <= 0:
            break
        kept.append(Passage(passage.tokens[:left], passage.rows[:left]))
        left -= len(passage.tokens)
    return kept
