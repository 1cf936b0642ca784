"""The members of an ensemble as pieces of work for an engine: trained anywhere, written by the process that leads.

A piece holds its share's records, the recipe and the seed, and gives back the files of the finished model. It is
trained in a private temporary folder of the worker's machine, which is gone afterwards; a piece that is interrupted
begins again. A member is decided by share, recipe and seed, so that it is the same model whoever trains it.
"""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reticent.core.errors import InternalError
from reticent.engine.work import EngineSettings, Piece, Told, open_engine, run_pieces
from reticent.runs.ensemble.manifest import member_folder
from reticent.training.loop import Progress
from reticent.training.methods.ensemble import MemberRecipe, MemberShare, member_seed, train_member
from reticent.training.release import release_model
from reticent.training.starting_model import ModelStart, load_for_training


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MemberTask:
    """All that decides a member. Its records are private."""

    share: MemberShare
    start: ModelStart
    recipe: MemberRecipe
    seed: int


@dataclass(frozen=True, slots=True, repr=False)
class TrainedFiles:
    """The files of a member's model, by their path in its folder."""

    files: dict[str, bytes]


def member_task(share: MemberShare, *, start: ModelStart, recipe: MemberRecipe, seed: int) -> MemberTask:
    """The task of one share of an ensemble with that seed."""
    return MemberTask(share=share, start=start, recipe=recipe, seed=member_seed(seed, share))


def train_piece(task: MemberTask, told: Told) -> TrainedFiles:
    """In a worker: train one member; one step is told as 1."""

    def observe(_: Progress) -> bool:
        told(1)
        return True

    with tempfile.TemporaryDirectory(prefix="reticent-member-") as name:
        folder = Path(name)
        model = load_for_training(task.start, seed=task.seed)
        outcome = train_member(
            model,
            task.share,
            task.recipe,
            folder=folder / "checkpoints",
            seed=task.seed,
            observe=observe,
        )
        if not outcome.is_finished:
            raise InternalError(f"the member {task.share.name} ended at step {outcome.step}")
        release_model(model, folder / "model", certificate=None)
        paths = sorted(path for path in (folder / "model").rglob("*") if path.is_file())
        return TrainedFiles({str(path.relative_to(folder / "model")): path.read_bytes() for path in paths})


def train_members(
    run: Path,
    tasks: list[MemberTask],
    *,
    engine: EngineSettings,
    finish: Callable[[MemberShare], None],
    observe: Callable[[int], bool],
) -> bool:
    """Train the members of these tasks; each is written to the run and then given to `finish`. Whether all are.

    `observe` hears of steps over all members, and stops the work by returning False.
    """
    shares = {task.share.name: task.share for task in tasks}

    def land(name: str, trained: TrainedFiles) -> None:
        write_member(member_folder(run, name), trained)
        finish(shares[name])

    with open_engine(engine) as opened:
        pieces = (Piece(task.share.name, task) for task in tasks)
        return run_pieces(pieces, train_piece, engine=opened, land=land, observe=observe)


def write_member(folder: Path, trained: TrainedFiles) -> None:
    """The member's folder with its model, under its name when it is complete; what stood there before is gone."""
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for name, content in trained.files.items():
            path = staging / "model" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        shutil.rmtree(folder, ignore_errors=True)
        staging.replace(folder)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
