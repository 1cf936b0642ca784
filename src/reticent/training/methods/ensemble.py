"""The models of an ensemble: owners split into parts by a keyed hash, and one plain training run for each share.

    part(o) = hash_key("part", o),    half(o) = hash_key("half", o)        (Algorithm 1 of SubMix; `data.splits`)

An owner's place depends on its name and the key alone, so that two corpora that differ in one owner differ in one
part's model. What a mechanism proves rests on that: `verify_disjoint` looks at the records themselves and refuses a
split in which an owner stands in two shares, or a record in none.

Members are trained without noise. Their weights hold their owners' text and promise nothing: an ensemble is private
data, and only what a mechanism releases from it is protected.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reticent.core.corpus import Corpus
from reticent.core.errors import ConfigError, InternalError
from reticent.core.randomness import Randomness
from reticent.data.splits import half_of, part_of
from reticent.models.huggingface.model import HuggingFaceModel
from reticent.training.batches import Units, encode_texts
from reticent.training.checkpoint import Checkpoints
from reticent.training.gradients.source import Computation, PlainGradients
from reticent.training.loop import CheckpointSchedule, Outcome, Progress, train_learner
from reticent.training.optimiser import Learner, OptimiserSettings
from reticent.training.plans.plan import PlainPlan

KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class MemberShare:
    """The records that one model of an ensemble is trained on. `half` is None where a part has one model."""

    part: int
    half: int | None
    corpus: Corpus

    @property
    def name(self) -> str:
        """A name for folders: part-03, or part-03-a and part-03-b."""
        return f"part-{self.part:02d}" + ("" if self.half is None else ("-a", "-b")[self.half])


def split_owners(corpus: Corpus, parts: int, *, halves: bool, key: bytes) -> tuple[MemberShare, ...]:
    """Split a corpus by owner into the shares of every part, in order, verified to be disjoint.

    A share without any record is refused.

    Guarantee: which share a record stands in depends on its owner, `parts`, `halves` and `key` alone.
    """
    if parts < 2:
        raise ConfigError("an ensemble needs at least two parts", found=parts)
    sides: tuple[int | None, ...] = (0, 1) if halves else (None,)
    members: dict[tuple[int, int | None], list[int]] = {(part, side): [] for part in range(parts) for side in sides}
    for index, record in enumerate(corpus):
        side = half_of(record.owner, key=key) if halves else None
        members[part_of(record.owner, parts, key=key), side].append(index)
    shares = tuple(
        MemberShare(part, side, Corpus(corpus[index] for index in indices))
        for (part, side), indices in members.items()
    )
    empty = [share.name for share in shares if len(share.corpus) == 0]
    if empty:
        raise ConfigError(
            "some parts are empty",
            found=f"{len(corpus.owners)} owners, none of them in {empty[0]}",
            hint=_fewer_parts(parts, owners=len(corpus.owners)),
        )
    verify_disjoint(shares, corpus)
    return shares


def _fewer_parts(parts: int, *, owners: int) -> str:
    """What to do where the draw of parts has left one empty."""
    if parts > owners:
        return f"there are {parts} --parts for {owners} owners; a part should hold several owners"
    return "give fewer --parts; with almost enough owners another --seed, or none, draws other parts"


def verify_disjoint(shares: Sequence[MemberShare], corpus: Corpus) -> None:
    """Raise unless every owner stands in exactly one share, and every record of the corpus with its owner."""
    home: dict[str, int] = {}
    seen: set[str] = set()
    for place, share in enumerate(shares):
        for record in share.corpus:
            if home.setdefault(record.owner, place) != place:
                raise InternalError(
                    f"an owner stands in two shares: {shares[home[record.owner]].name}, {share.name}"
                )
            if record.id in seen:
                raise InternalError(f"a record appears twice, the second time in {share.name}")
            seen.add(record.id)
    if seen != {record.id for record in corpus}:
        raise InternalError("the shares do not hold the records of the corpus, each once")


def key_id(key: bytes) -> str:
    """A name for a split's key that says nothing of it."""
    return hashlib.blake2b(key, person=b"split key id", digest_size=8).hexdigest()


def split_key(randomness: Randomness) -> bytes:
    """A fresh key for splitting owners: the system's, or for an experiment a seed's."""
    return bytes(int(value) for value in randomness.integers(256, KEY_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRecipe:
    """How every member of an ensemble is trained."""

    epochs: float
    batch: int
    optimiser: OptimiserSettings
    schedule: CheckpointSchedule
    computation: Computation
    max_length: int | None = None

    def plan(self, share: MemberShare, *, seed: int) -> PlainPlan:
        """The plan of one member: its share may be smaller than a batch."""
        records = len(share.corpus)
        return PlainPlan(units=records, batch=min(self.batch, records), epochs=self.epochs, seed=seed)


def member_seed(seed: int, share: MemberShare) -> int:
    """The seed of a member's order of texts and first weights."""
    return Randomness.seeded(seed).child(share.name).fresh_seed()


def train_member(
    model: HuggingFaceModel,
    share: MemberShare,
    recipe: MemberRecipe,
    *,
    folder: Path,
    seed: int,
    observe: Callable[[Progress], bool],
) -> Outcome:
    """Train one member plainly, going on from the last checkpoint in `folder` if there is one."""
    texts = encode_texts(model, share.corpus, max_length=recipe.max_length)
    source = PlainGradients(
        model.module, Units(texts), recipe.plan(share, seed=seed), computation=recipe.computation
    )
    return train_learner(
        Learner(model.module, recipe.optimiser),
        source,
        checkpoints=Checkpoints(folder),
        schedule=recipe.schedule,
        seed=seed,
        observe=observe,
    )
