"""The training loop. Everything that protects is in the source of the gradients; see `gradients.source`.

    resume where the last checkpoint was → gradient → move the weights → perhaps a checkpoint → tell how far

A run ends when its source has no step left. For a private run that is when the ledger is spent: steps that were
charged and lost in a crash are not taken again. Averaged weights take the place of the last ones then, after the
last checkpoint. Asked to stop, the loop saves a checkpoint first. An error leaves the last checkpoint as it was.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from reticent.core.errors import ConfigError
from reticent.core.randomness import Randomness
from reticent.models.huggingface.device import seed_torch
from reticent.training.checkpoint import Checkpoints
from reticent.training.gradients.source import GradientSource
from reticent.training.optimiser import Learner
from reticent.training.update_rules import Phase


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a training run is.

    `loss` is that of the batch and private as the batch is: for the operator's eyes.
    """

    step: int
    steps: int
    loss: float | None
    tokens_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSchedule:
    """When checkpoints are written: after so many seconds or steps, whichever comes first, and at the end."""

    seconds: float = 60.0
    steps: int | None = None

    def __post_init__(self) -> None:
        if not self.seconds >= 0.0 or (self.steps is not None and self.steps < 1):
            raise ConfigError("checkpoints need a time of at least 0 or a positive number of steps")

    def is_due(self, *, steps: int, seconds: float) -> bool:
        """Whether a checkpoint is due, so long after the last one."""
        return seconds >= self.seconds or (self.steps is not None and steps >= self.steps)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the loop ended: finished, or stopped on request after a checkpoint."""

    step: int
    is_finished: bool


def train_learner(
    learner: Learner,
    source: GradientSource,
    *,
    checkpoints: Checkpoints,
    schedule: CheckpointSchedule,
    seed: int,
    observe: Callable[[Progress], bool] = lambda _: True,
) -> Outcome:
    """Train until the source has no step left, or until `observe` returns False.

    `seed` is for the dropout of plain steps alone; private steps have none (`gradients.source`).
    """
    with checkpoints.locked(), source, torch.random.fork_rng(devices=[]):
        found = checkpoints.latest()
        if found is not None:
            source.restore(found.source)
            found.restore(learner)
        saved, saved_at, is_wanted = source.position, time.monotonic(), True
        while (step := source.position) < source.steps and is_wanted:
            began = time.monotonic()
            seed_torch(Randomness.seeded(seed).child(f"step {step}").fresh_seed())
            gradient = source.next()
            learner.apply(gradient.values, gradient.phase or Phase(step=step, steps=source.steps))
            now = time.monotonic()
            if checkpoints.agree(schedule.is_due(steps=step + 1 - saved, seconds=now - saved_at)):
                learner.require_finite()
                checkpoints.save(learner, step=step + 1, source=source.state())
                saved, saved_at = step + 1, now
            speed = gradient.tokens / max(now - began, 1e-9)
            is_wanted = observe(Progress(step + 1, source.steps, gradient.loss, speed))
        learner.module.eval()
        if source.position > saved:
            learner.require_finite()
            checkpoints.save(learner, step=source.position, source=source.state())
        if source.position >= source.steps:
            learner.settle()
        return Outcome(source.position, source.position >= source.steps)
