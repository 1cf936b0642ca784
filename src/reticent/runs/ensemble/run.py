"""The journey from a corpus to an ensemble: split owners, train each member, write the manifest; resumable.

Each member is a plain training run on its own share, with checkpoints of its own; a member that is finished is
written whole and then marked, so that after `kill -9` a run goes on with the member it was at. The split is made
again from the key and checked against the records every time: an owner in two parts ends the run.

What a run of this kind proves is nothing: see `ensemble.manifest.NOTICE`.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch

from reticent.core.certificate import model_digest
from reticent.core.corpus import Corpus
from reticent.core.document import write_atomically, write_document
from reticent.core.errors import ConfigError, DataError, InternalError
from reticent.core.guarantee import Unit
from reticent.core.randomness import Randomness
from reticent.engine.work import EngineSettings
from reticent.runs.ancestry import Ancestry, ancestry_of
from reticent.runs.config import validate
from reticent.runs.corpora import corpus_at
from reticent.runs.directory import RunDirectory, staged
from reticent.runs.ensemble.manifest import (
    KEY,
    MANIFEST,
    MEMBER,
    MEMBERS,
    NOTICE,
    Manifest,
    MemberRecord,
    finished_member,
    member_folder,
)
from reticent.runs.ensemble.pieces import member_task, train_members
from reticent.runs.training.config import Precision, TrainConfig
from reticent.runs.training.run import Observer, read_corpus
from reticent.training.batches import choose_token_budget
from reticent.training.gradients.source import Computation
from reticent.training.loop import Progress, Schedule
from reticent.training.methods.ensemble import (
    MemberRecipe,
    Share,
    key_id,
    member_seed,
    split_key,
    split_owners,
    train_member,
)
from reticent.training.release import release_model
from reticent.training.starting_model import Start, starting_model

PARTS: Final = 8
LORA_RANK: Final = 8


@dataclass(frozen=True, slots=True)
class EnsembleResult:
    """What a run did. `steps` are all members' together."""

    run: Path
    manifest: Manifest
    step: int
    steps: int
    is_finished: bool


@dataclass(frozen=True, slots=True)
class EnsemblePreview:
    """What a run would do: members, their records, and steps in all."""

    parts: int
    members: int
    records: tuple[int, ...]
    steps: int


@dataclass(frozen=True, slots=True)
class _Ready:
    """A run, read and checked: its shares and how each is trained."""

    config: TrainConfig
    manifest: Manifest
    shares: tuple[Share, ...]
    recipe: MemberRecipe

    @property
    def steps(self) -> list[int]:
        """Steps of each member."""
        return [self.recipe.plan(share, seed=0).steps for share in self.shares]


def is_ensemble(run: Path) -> bool:
    """Whether a run directory holds an ensemble, finished or not."""
    return (run / MANIFEST).is_file()


def preview(config: TrainConfig) -> EnsemblePreview:
    """What a run would do. Reads the corpus, writes nothing."""
    config = resolved(config)
    seed = config.seed or 0
    corpus = read_corpus(config.data)
    ancestry_of(config.model.source).compared_with(corpus).overlapping(Unit.OWNER)
    shares = _split(config, corpus, split_key(_key_source(config, seed)))
    recipe = _recipe(config, vocabulary_size=1)
    steps = sum(recipe.plan(share, seed=0).steps for share in shares)
    assert config.training.parts is not None
    return EnsemblePreview(config.training.parts, len(shares), tuple(len(s.corpus) for s in shares), steps)


def start(
    config: TrainConfig, out: Path, *, observe: Observer, engine: EngineSettings | None = None
) -> EnsembleResult:
    """Train an ensemble into a new run directory: in this process, or its members as pieces of an engine."""
    config = resolved(config)
    seed = Randomness.system().fresh_seed() if config.seed is None else config.seed
    key = split_key(_key_source(config, seed))
    corpus = read_corpus(config.data)
    ancestry = ancestry_of(config.model.source).compared_with(corpus)
    ancestry.overlapping(Unit.OWNER)  # refuses a base that was trained plainly on this text
    shares = _split(config, corpus, key)
    public = starting_model(_base(config), seed=seed)
    starting_model(
        config.model.start(), seed=seed
    )  # whatever is wrong with adapters shows before anything is written
    assert config.training.parts is not None
    manifest = Manifest(
        parts=config.training.parts,
        halves=bool(config.training.halves),
        unit="owner" if _names_owners(config) else "record",
        base=config.model.source,
        base_fingerprint=public.fingerprint,
        lora_rank=config.model.lora_rank,
        adapter_layers=config.model.adapter_layers,
        key_id=key_id(key),
        is_seeded=config.seed is not None,
        seed=seed,
        device=config.model.device,
        corpus=corpus.fingerprint,
    )
    ready = _Ready(config, manifest, shares, _recipe(config, vocabulary_size=public.vocabulary_size))
    run = _create(out, ready, key, ancestry.followed_by(out.name, None, corpus))
    return _carry_on(run, ready, observe=observe, engine=engine)


def resume(path: Path, *, observe: Observer, engine: EngineSettings | None = None) -> EnsembleResult:
    """Go on with an ensemble that was interrupted; a finished one is left as it is."""
    run = RunDirectory.open(path)
    information = run.information()
    config = validate(TrainConfig, information["config"], where=str(path / "run.json"))
    manifest = Manifest.read(path)
    if information["finished"] is not None:
        steps = sum(member.steps for member in manifest.members)
        return EnsembleResult(path, manifest, steps, steps, True)
    corpus = read_corpus(config.data)
    if corpus.fingerprint != manifest.corpus:
        raise DataError(
            "not the corpus that this ensemble was started with",
            path=config.data.file,
            hint="put the old file back, or start a new run",
        )
    key = (path / KEY).read_bytes()
    if key_id(key) != manifest.key_id:
        raise ConfigError(f"{path / KEY}: not the key that this ensemble was split by")
    public = starting_model(_base(config), seed=manifest.seed)
    if public.fingerprint != manifest.base_fingerprint:
        raise ConfigError(f"{config.model.source}: not the model that this ensemble started from")
    recipe = _recipe(config, vocabulary_size=public.vocabulary_size)
    ready = _Ready(config, manifest, _split(config, corpus, key), recipe)
    return _carry_on(run, ready, observe=observe, engine=engine)


def resolved(config: TrainConfig) -> TrainConfig:
    """The configuration with an ensemble's own defaults filled in and paths made absolute."""
    config.check()
    rank = config.model.lora_rank if "lora_rank" in config.model.model_fields_set else LORA_RANK
    model = config.model.model_copy(update={"lora_rank": rank})
    asked = config.training
    training = asked.model_copy(update={"parts": asked.parts or PARTS, "halves": bool(asked.halves)})
    return config.model_copy(update={"model": model, "training": training}).located()


def _key_source(config: TrainConfig, seed: int) -> Randomness:
    return Randomness.system() if config.seed is None else Randomness.seeded(seed).child("split key")


def _split(config: TrainConfig, corpus: Corpus, key: bytes) -> tuple[Share, ...]:
    assert config.training.parts is not None
    return split_owners(corpus, config.training.parts, halves=bool(config.training.halves), key=key)


def _names_owners(config: TrainConfig) -> bool:
    data = config.data
    file = corpus_at(
        Path(data.file), text=data.text_field, id=data.id_field, owner=data.owner_field, format=data.format
    )
    return "owner" in file.present()


def _base(config: TrainConfig) -> Start:
    """The public model alone, without adapters."""
    return replace(config.model.start(), lora_rank=0, lora_alpha=None, lora_layers=0, freeze_embeddings=False)


def _recipe(config: TrainConfig, *, vocabulary_size: int) -> MemberRecipe:
    asked = config.training
    budget = asked.token_budget or choose_token_budget(vocabulary_size)
    dtype = torch.bfloat16 if config.model.precision is Precision.BFLOAT16 else None
    return MemberRecipe(
        epochs=asked.epochs,
        batch=asked.batch,
        optimiser=asked.optimiser_settings(),
        schedule=Schedule(seconds=asked.checkpoint_seconds, steps=asked.checkpoint_steps),
        computation=Computation(token_budget=budget, dtype=dtype, recomputes=config.model.checkpoint_activations),
        max_length=config.data.max_length,
    )


def _create(out: Path, ready: _Ready, key: bytes, ancestry: Ancestry) -> RunDirectory:
    """The run directory with manifest and key, made under another name and renamed when complete."""
    RunDirectory.create(out)
    with staged(out) as staging:  # 0700, and it stays so
        run = RunDirectory.create(staging)
        config = ready.config.model_dump(mode="json")
        run.start("train", config=config, seed=ready.config.seed, corpora={"training": ready.manifest.corpus})
        write_document(staging / "run.json", run.information() | {"notice": NOTICE}, mode=0o600)
        write_atomically(staging / KEY, key, mode=0o600)
        (staging / MEMBERS).mkdir(mode=0o700)
        ready.manifest.write(staging)
        ancestry.write(staging)
    return RunDirectory.open(out)


def _carry_on(
    run: RunDirectory, ready: _Ready, *, observe: Observer, engine: EngineSettings | None
) -> EnsembleResult:
    """Train the members that are not finished; then complete the manifest."""
    steps = ready.steps
    total, done = sum(steps), 0
    if engine is not None:
        taken = _train_by_engine(run.path, ready, observe=observe, engine=engine)
        if taken < total:
            return EnsembleResult(run.path, ready.manifest, taken, total, False)
    records: list[MemberRecord] = []
    for share, count in zip(ready.shares, steps, strict=True):
        record = finished_member(run.path, share.name)
        if record is None:
            taken = _train_share(run.path, share, ready, observe=_shifted(observe, done, total))
            if taken < count:
                return EnsembleResult(run.path, ready.manifest, done + taken, total, False)
            record = _finish_share(run.path, share, steps=count)
        if record.corpus != share.corpus.fingerprint or record.part != share.part or record.half != share.half:
            raise InternalError(f"the member {share.name} was trained on another share than the split gives")
        records.append(record)
        done += count
    manifest = replace(ready.manifest, members=tuple(records))
    manifest.write(run.path)
    run.finish(steps=total, members=len(records), epsilon=None, evaluation=None, guarantees={})
    return EnsembleResult(run.path, manifest, total, total, True)


def _train_by_engine(run: Path, ready: _Ready, *, observe: Observer, engine: EngineSettings) -> int:
    """Train what is not finished in pieces; the steps of all members that are finished then."""
    counts = {share.name: count for share, count in zip(ready.shares, ready.steps, strict=True)}
    left = [share for share in ready.shares if finished_member(run, share.name) is None]
    before = sum(counts.values()) - sum(counts[share.name] for share in left)
    done = before

    def finish(share: Share) -> None:
        nonlocal done
        _finish_share(run, share, steps=counts[share.name])
        done += counts[share.name]

    def watch(taken: int) -> bool:
        steps = sum(counts.values())
        return observe(Progress(step=before + taken, steps=steps, loss=None, tokens_per_second=0.0), None)

    if left:
        model, seed = ready.config.model.start(), ready.manifest.seed
        tasks = [member_task(share, start=model, recipe=ready.recipe, seed=seed) for share in left]
        train_members(run, tasks, engine=engine, finish=finish, observe=watch)
    return done


def _train_share(run: Path, share: Share, ready: _Ready, *, observe: Callable[[Progress], bool]) -> int:
    """Train one member and, once it is finished, write its model; the steps taken."""
    folder = member_folder(run, share.name)
    folder.mkdir(parents=True, exist_ok=True)
    seed = member_seed(ready.manifest.seed, share)
    model = starting_model(ready.config.model.start(), seed=seed)
    outcome = train_member(model, share, ready.recipe, folder=folder / "checkpoints", seed=seed, observe=observe)
    if outcome.is_finished:
        release_model(model, folder / "model", certificate=None)
    return outcome.step


def _finish_share(run: Path, share: Share, *, steps: int) -> MemberRecord:
    """Close the member's files to others, mark it as finished, and drop its checkpoints."""
    folder = member_folder(run, share.name)
    _close_to_others([folder, *folder.rglob("*")])
    record = MemberRecord(
        name=share.name,
        part=share.part,
        half=share.half,
        owners=len(share.corpus.owners),
        records=len(share.corpus),
        corpus=share.corpus.fingerprint,
        weights=model_digest(folder / "model"),
        steps=steps,
    )
    write_document(folder / MEMBER, record.to_json(), mode=0o600)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return record


def _close_to_others(paths: Sequence[Path]) -> None:
    for path in paths:
        path.chmod(0o700 if path.is_dir() else 0o600)


def _shifted(observe: Observer, done: int, total: int) -> Callable[[Progress], bool]:
    """An observer of one member that counts from where the members before it ended."""
    return lambda progress: observe(replace(progress, step=done + progress.step, steps=total), None)
