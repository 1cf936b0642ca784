"""What the processes of the tests of several ranks do; each runs in a child of its own."""

import os
import socket
import traceback
from dataclasses import replace
from pathlib import Path

import torch
from torch.distributed.tensor import DTensor

from reticent.core.errors import ReticentError
from reticent.core.guarantee import Unit
from reticent.core.randomness import Randomness
from reticent.ledger.durable import SqliteLedger
from reticent.runs.training import run as training_run
from reticent.runs.training.settings import Resumption
from reticent.training.batches import Units
from reticent.training.distributed.ranked import RankedGradients, RankedLedger
from reticent.training.distributed.ranks import joined
from reticent.training.distributed.sharded import ShardedGradients, shard
from reticent.training.gradients.clipping import add_noise
from reticent.training.gradients.record_loss import TokenBatch
from reticent.training.gradients.source import PrivateGradients
from reticent.training.optimiser import Learner, OptimiserSettings
from reticent.training.update_rules import Phase
from tests.training.killed_run import configuration
from tests.training.small_models import START, gpt2
from tests.training.small_runs import COMPUTATION, private_plan, token_texts

UNITS, BATCH, STEPS = 24, 8, 3


def plan(unit: Unit = Unit.RECORD, *, steps: int = STEPS):
    if unit is Unit.OWNER:
        return private_plan(UNITS // 3, 4, steps=steps, unit=unit, texts_per_unit=2)
    return private_plan(UNITS, BATCH, steps=steps)


def plan_of(kind: str, unit: Unit = Unit.RECORD):
    """With a clip norm that moves for the kinds that are about it; some gradients are shorter than the first."""
    fixed = plan(unit)
    return replace(fixed, clip_norm=6.0, clip_quantile=0.5) if kind in ("quantile", "count") else fixed


def texts(unit: Unit = Unit.RECORD):
    return token_texts(UNITS, owners=UNITS // 3 if unit is Unit.OWNER else None)


class NoiseOnEveryRank(RankedGradients):
    """Broken twin: each rank adds the whole noise to its own sum, and the noisy sums are added up."""

    def _total(self, gradients):
        return gradients

    def _noisy_mean(self, total, receipt):
        fresh = self._randomness.child(f"noise {receipt.sequence} of {self._ranks.rank}")
        noisy = self._ranks.total(add_noise(total, self.plan.noise_deviation, fresh))
        return self._ranks.copy({name: each / self.plan.normaliser for name, each in noisy.items()})


class SampleOnEveryRank(RankedGradients):
    """Broken twin: each rank draws a sample of its own from all units, so a unit may be clipped twice."""

    def draw(self):
        source = self._randomness.child(f"sample {self.position} of {self._ranks.rank}")
        return self._units.gather(self.plan.sampler.draw_round(source)[0].tolist(), source)


class AveragedShards(ShardedGradients):
    """Broken twin: sums are averaged over ranks, as FSDP does with gradients of its own."""

    def _total(self, gradients):
        return {name: total / self._ranks.size for name, total in super()._total(gradients).items()}


class CountsOfOneRank(RankedGradients):
    """Broken twin: the norm follows the count of rank 0's share alone."""

    def _whole_count(self):
        count, self._count = self._count, None
        return count


KINDS = {
    "quantile": RankedGradients,
    "count": CountsOfOneRank,
    "ours": RankedGradients,
    "noise": NoiseOnEveryRank,
    "sample": SampleOnEveryRank,
    "sharded": ShardedGradients,
    "averaged": AveragedShards,
}


class CountedRandomness(Randomness):
    """Seeded, and counts what was drawn from it and all its children."""

    draws = 0

    def child(self, name):
        found = super().child(name)
        return CountedRandomness("seeded", found.seed)

    def _draw(self, out, made_by):
        CountedRandomness.draws += 1
        super()._draw(out, made_by)

    def uniform(self, shape):
        CountedRandomness.draws += 1
        return super().uniform(shape)


def gradients_of(source, steps: int) -> list[dict[str, list[float]]]:
    with source:
        return [{k: whole(v).flatten().tolist() for k, v in source.next().values.items()} for _ in range(steps)]


def whole(value: torch.Tensor) -> torch.Tensor:
    """The tensor of which this rank may hold a part; every rank asks at once."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def weights_of(module, source) -> dict[str, list[float]]:
    """The weights after one step of the optimiser."""
    learner = Learner(module, OptimiserSettings(learning_rate=0.1))
    with source:
        learner.apply(source.next().values, Phase(step=0, steps=1))
        return {k: whole(v.detach()).flatten().tolist() for k, v in learner.parameters.items()}


def alone(path: Path, unit: Unit, kind: str = "ours") -> list[dict[str, list[float]]]:
    """The gradients that one process gives."""
    chosen = plan_of(kind, unit)
    units = Units(texts(unit), unit, texts_per_unit=chosen.texts_per_unit)
    with SqliteLedger.open(path) as ledger:
        source = PrivateGradients(
            gpt2(), units, chosen, ledger=ledger, randomness=Randomness.seeded(5), computation=COMPUTATION
        )
        return gradients_of(source, chosen.steps)


def step_together(rank: int, size: int, port: int, path: str, case: tuple[str, str, int], answers) -> None:
    """The gradients that this rank sees, what it drew, and what the ledger says as soon as it has them."""
    kind, unit, steps = case
    module = gpt2()
    with torch.no_grad():  # the weights of rank 0 are those that count
        for parameter in module.parameters():
            parameter.add_(float(rank))
    chosen, which = plan_of(kind, Unit(unit)), Unit(unit)
    units = Units(texts(which), which, texts_per_unit=chosen.texts_per_unit)
    found: object = None
    try:
        with joined(rank, size, address=f"tcp://127.0.0.1:{port}") as ranks:
            opened = SqliteLedger.open(path) if ranks.is_first else None
            if issubclass(KINDS[kind], ShardedGradients):
                shard(module, ranks, TokenBatch.of([text.tolist() for text in texts(which).texts[:3]], START))
            source = KINDS[kind](
                module,
                units,
                chosen,
                ledger=RankedLedger(ranks, opened),
                randomness=CountedRandomness("seeded", 5),
                computation=COMPUTATION,
            )
            if steps == 0:  # the weights after one step instead
                answers.put((rank, weights_of(module, source)))
                return
            gradients = gradients_of(source, steps)
            with SqliteLedger.open(path) as looked:
                held = looked.holds(source._receipt)
            found = {"gradients": gradients, "draws": CountedRandomness.draws, "held": held, "at": source.position}
            found |= {"clip_norm": source.clip_norm}
    except ReticentError as error:
        found = f"{type(error).__name__}: {error}"
    except BaseException:
        found = traceback.format_exc()
    answers.put((rank, found))


def train_together(rank: int, size: int, port: int, folder: str, case: tuple[str, str, int]) -> None:
    """One rank of a run that is started, or gone on with; each acknowledges its steps in a file of its own."""
    life, method, steps = case
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    place = Path(folder)
    file = os.open(place / f"{life}-{rank}.steps", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def observe(progress, epsilon) -> bool:
        os.write(file, f"{progress.step}\n".encode())
        return True

    try:
        if (place / "run" / "run.json").exists():
            training_run.train(Resumption(resume=place / "run"), observe=observe)
        else:
            config = configuration(place, steps=steps, method=method)
            training_run.train(config.into(place / "run"), observe=observe)
    except ReticentError as error:
        (place / f"{life}-{rank}.error").write_text(str(error))
        os._exit(7)


def train_shards(rank: int, size: int, port: int, folder: str, name: str, stop_at: int) -> None:
    """One rank of a run with seeded noise into `name`, sharded unless that is "alone"; stops after `stop_at`."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    place = Path(folder)
    seeded = Randomness.seeded(5)

    def observe(progress, epsilon) -> bool:
        return progress.step != stop_at

    try:
        if (place / name / "run.json").exists():
            training_run.train(Resumption(resume=place / name), observe=observe, randomness=seeded)
        else:
            config = configuration(place, steps=6)
            model = config.model.model_copy(update={"shard_weights": name != "alone"})
            config = config.model_copy(update={"model": model, "seed": 3})
            training_run.train(config.into(place / name), observe=observe, randomness=seeded)
    except ReticentError as error:
        (place / f"{name}-{rank}.error").write_text(str(error))
        os._exit(7)
    except BaseException:
        (place / f"{name}-{rank}.error").write_text(traceback.format_exc())
        os._exit(8)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
