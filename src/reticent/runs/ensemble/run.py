"""An ensemble: split owners, train each member, write the manifest; resumable.

Each member is a plain training run on its own share, with checkpoints of its own; a member that is finished is
written whole and then marked, so that after `kill -9` a run goes on with the member it was at. The split is made
again from the key and checked against the records every time: an owner in two parts ends the run.

What a run of this kind proves is nothing: see `ensemble.manifest.NOTICE`.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reticent.core.document import write_atomically, write_document
from reticent.core.errors import ConfigError, InternalError
from reticent.core.evidence.certificate import model_digest
from reticent.core.guarantee import Unit
from reticent.core.randomness import Randomness
from reticent.data.canaries import names_owner
from reticent.engine.work import EngineSettings
from reticent.models.huggingface.model import HuggingFaceModel
from reticent.runs.directory import RUN, RunDirectory, staged
from reticent.runs.ensemble.manifest import (
    KEY,
    MEMBER,
    MEMBERS,
    NOTICE,
    Manifest,
    MemberRecord,
    finished_member,
    member_folder,
)
from reticent.runs.ensemble.pieces import member_task, train_members
from reticent.runs.proofs.ancestry import Ancestry
from reticent.runs.training.result import Observer, Preview, TrainedRun
from reticent.runs.training.run import Given
from reticent.runs.training.settings import TrainSettings
from reticent.training.batches import longest_text
from reticent.training.loop import Progress
from reticent.training.methods.ensemble import (
    MemberRecipe,
    MemberShare,
    key_id,
    member_seed,
    split_key,
    split_owners,
    train_member,
)
from reticent.training.release import release_model
from reticent.training.starting_model import ModelStart, load_for_training


class EnsembleKind:
    """The members of an ensemble, each on its own share of the owners."""

    def preview(self, given: Given) -> Preview:
        """Members, their records, and steps in all."""
        given.ancestry().overlapping(Unit.OWNER)
        shares = _split(given, split_key(_key_source(given)))
        recipe = _recipe(given.settings, vocabulary_size=1)
        return Preview(
            steps=sum(recipe.plan(share, seed=0).steps for share in shares),
            parts=given.settings.training.parts,
            records=tuple(len(share.corpus) for share in shares),
        )

    def begin(self, given: Given) -> "PreparedEnsemble":
        """A new ensemble."""
        settings, key = given.settings, split_key(_key_source(given))
        ancestry = given.ancestry()
        ancestry.overlapping(Unit.OWNER)  # refuses a base that was trained plainly on this text
        shares = _split(given, key)
        public = _public(settings, given.seed)
        longest_text(public, settings.data.max_length)  # a length that the model cannot read is refused here
        load_for_training(settings.model.start(), seed=given.seed)  # adapters that do not fit are refused here
        assert settings.training.parts is not None
        manifest = Manifest(
            parts=settings.training.parts,
            halves=bool(settings.training.halves),
            unit="owner" if any(map(names_owner, given.corpus)) else "record",
            base=settings.model.source,
            base_fingerprint=public.fingerprint,
            lora_rank=settings.model.lora_rank,
            adapter_layers=settings.model.adapter_layers,
            key_id=key_id(key),
            is_seeded=settings.seed is not None,
            seed=given.seed,
            device=settings.model.device,
            corpus=given.corpus.fingerprint,
        )
        recipe = _recipe(settings, vocabulary_size=public.vocabulary_size)
        return PreparedEnsemble(
            given=given, manifest=manifest, shares=shares, recipe=recipe, key=key, ancestry=ancestry
        )

    def resume(self, given: Given, path: Path) -> "PreparedEnsemble":
        """An ensemble that was interrupted, split by the key that it was started with."""
        manifest, key = Manifest.read(path), (path / KEY).read_bytes()
        if key_id(key) != manifest.key_id:
            raise ConfigError(f"{path / KEY}: not the key that this ensemble was split by")
        public = _public(given.settings, manifest.seed)
        if public.fingerprint != manifest.base_fingerprint:
            raise ConfigError(f"{given.settings.model.source}: not the model that this ensemble started from")
        recipe = _recipe(given.settings, vocabulary_size=public.vocabulary_size)
        return PreparedEnsemble(given=given, manifest=manifest, shares=_split(given, key), recipe=recipe)

    def finished(self, path: Path, results: dict[str, Any]) -> TrainedRun:  # noqa: ARG002
        """What a finished ensemble says of itself."""
        manifest = Manifest.read(path)
        steps = sum(member.steps for member in manifest.members)
        return TrainedRun(path=path, manifest=manifest, step=steps, steps=steps, is_finished=True)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PreparedEnsemble:
    """A run, read and checked: its shares and how each is trained. The key is needed to create it."""

    given: Given
    manifest: Manifest
    shares: tuple[MemberShare, ...]
    recipe: MemberRecipe
    key: bytes = b""
    ancestry: Ancestry | None = None

    @property
    def steps(self) -> list[int]:
        """Steps of each member."""
        return [self.recipe.plan(share, seed=0).steps for share in self.shares]

    def create(self, out: Path) -> None:
        """The run directory with manifest and key, made under another name and renamed when complete."""
        assert self.ancestry is not None  # an ensemble that is resumed is not created
        RunDirectory.for_new_run(out)
        with staged(out) as staging:  # 0700, and it stays so
            run = RunDirectory.for_new_run(staging)
            settings = self.given.settings
            config = settings.model_dump(mode="json")
            run.start("train", config=config, seed=settings.seed, corpora={"training": self.manifest.corpus})
            write_document(staging / RUN, run.information() | {"notice": NOTICE}, mode=0o600)
            write_atomically(staging / KEY, self.key, mode=0o600)
            (staging / MEMBERS).mkdir(mode=0o700)
            self.manifest.write(staging)
            self.ancestry.followed_by(out.name, None, self.given.corpus).write(staging)

    def carry_on(self, run: RunDirectory, observe: Observer) -> TrainedRun:
        """Train the members that are not finished, in this process or by an engine; then complete the manifest."""
        steps, engine = self.steps, self.given.settings.engine_settings
        total, done = sum(steps), 0
        if engine is not None:
            taken = _train_by_engine(run.path, self, observe=observe, engine=engine)
            if taken < total:
                return self._so_far(run, taken)
        records: list[MemberRecord] = []
        for share, count in zip(self.shares, steps, strict=True):
            record = finished_member(run.path, share.name)
            if record is None:
                taken = _train_share(run.path, share, self, observe=_shifted(observe, done, total))
                if taken < count:
                    return self._so_far(run, done + taken)
                record = _finish_share(run.path, share, steps=count)
            if record.corpus != share.corpus.fingerprint or record.part != share.part or record.half != share.half:
                raise InternalError(f"the member {share.name} was trained on another share than the split gives")
            records.append(record)
            done += count
        manifest = replace(self.manifest, members=tuple(records))
        manifest.write(run.path)
        run.finish(steps=total, members=len(records), epsilon=None, evaluation=None, guarantees={})
        return TrainedRun(path=run.path, manifest=manifest, step=total, steps=total, is_finished=True)

    def _so_far(self, run: RunDirectory, taken: int) -> TrainedRun:
        return TrainedRun(
            path=run.path, manifest=self.manifest, step=taken, steps=sum(self.steps), is_finished=False
        )


def _key_source(given: Given) -> Randomness:
    is_seeded = given.settings.seed is not None
    return Randomness.seeded(given.seed).child("split key") if is_seeded else Randomness.system()


def _split(given: Given, key: bytes) -> tuple[MemberShare, ...]:
    asked = given.settings.training
    assert asked.parts is not None
    return split_owners(given.corpus, asked.parts, halves=bool(asked.halves), key=key)


def _public(settings: TrainSettings, seed: int) -> HuggingFaceModel:
    """The public model alone, without adapters."""
    alone: ModelStart = replace(
        settings.model.start(), lora_rank=0, lora_alpha=None, lora_layers=0, freeze_embeddings=False
    )
    return load_for_training(alone, seed=seed)


def _recipe(settings: TrainSettings, *, vocabulary_size: int) -> MemberRecipe:
    asked = settings.training
    return MemberRecipe(
        epochs=asked.epochs,
        batch=asked.batch,
        optimiser=asked.optimiser_settings(),
        schedule=asked.schedule(),
        computation=settings.computation(vocabulary_size),
        max_length=settings.data.max_length,
    )


def _train_by_engine(run: Path, ready: PreparedEnsemble, *, observe: Observer, engine: EngineSettings) -> int:
    """Train what is not finished in pieces; the steps of all members that are finished then."""
    counts = {share.name: count for share, count in zip(ready.shares, ready.steps, strict=True)}
    left = [share for share in ready.shares if finished_member(run, share.name) is None]
    before = sum(counts.values()) - sum(counts[share.name] for share in left)
    done = before

    def finish(share: MemberShare) -> None:
        nonlocal done
        _finish_share(run, share, steps=counts[share.name])
        done += counts[share.name]

    def watch(taken: int) -> bool:
        steps = sum(counts.values())
        return observe(Progress(step=before + taken, steps=steps, loss=None, tokens_per_second=0.0), None)

    if left:
        model, seed = ready.given.settings.model.start(), ready.manifest.seed
        tasks = [member_task(share, start=model, recipe=ready.recipe, seed=seed) for share in left]
        train_members(run, tasks, engine=engine, finish=finish, observe=watch)
    return done


def _train_share(
    run: Path, share: MemberShare, ready: PreparedEnsemble, *, observe: Callable[[Progress], bool]
) -> int:
    """Train one member and, once it is finished, write its model; the steps taken."""
    folder = member_folder(run, share.name)
    folder.mkdir(parents=True, exist_ok=True)
    seed = member_seed(ready.manifest.seed, share)
    model = load_for_training(ready.given.settings.model.start(), seed=seed)
    outcome = train_member(model, share, ready.recipe, folder=folder / "checkpoints", seed=seed, observe=observe)
    if outcome.is_finished:
        release_model(model, folder / "model", certificate=None)
    return outcome.step


def _finish_share(run: Path, share: MemberShare, *, steps: int) -> MemberRecord:
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
