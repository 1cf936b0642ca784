"""A tiny private run that acknowledges every released step in a file: what the tests of kills start and kill."""

import os
from pathlib import Path

from reticent.runs.settings.file import validate
from reticent.runs.training import course as training_course
from reticent.runs.training import run as training_run
from reticent.runs.training.settings import Resumption, TrainSettings
from reticent.training.gradients.source import Gradient, PrivateGradients


class ChargesLater(PrivateGradients):
    """Broken twin: releases its steps and means to charge them all at the end."""

    waiting = 0

    @property
    def position(self) -> int:
        return self.waiting

    def next(self) -> Gradient:
        ledger = self._ledger
        self._ledger = Postponing(ledger)
        try:
            gradient = super().next()
        finally:
            self._ledger = ledger
        self.waiting += 1
        return gradient


class Postponing:
    """Acknowledges a charge that it does not make."""

    def __init__(self, ledger) -> None:
        self._ledger = ledger

    def charge(self, costs, event):
        return self._ledger.head()

    def spent(self):
        return self._ledger.spent()


class Acknowledging(PrivateGradients):
    """Says so in a file whenever a noisy gradient left it: what redacted training releases beside public steps."""

    file = -1

    def next(self) -> Gradient:
        gradient = super().next()
        os.write(self.file, f"{self.position}\n".encode())
        return gradient


def configuration(folder: Path, *, steps: int, method: str = "dp-sgd") -> TrainSettings:
    """A run on the corpus and the model in the folder, a checkpoint every second step."""
    policies = {
        "policy": "patterns",
        "conservative_policy": f"patterns,dictionary:{folder / 'names.txt'}",
        "conservative_miss_rate": 0.0,
    }
    tables = {
        "data": {"file": str(folder / "corpus.txt")},
        "model": {"source": str(folder / "start")},
        "training": {
            "method": "dp-sgd" if method in ("banded", "quantile") else method,
            **({"sampler": "banded", "bands": 2} if method == "banded" else {}),
            **({"clip_quantile": 0.5} if method == "quantile" else {}),
            "noise_multiplier": 1.0,
            "delta": 1e-3,
            "batch": 4,
            "epochs": steps * 4 / 16,
            "checkpoint_steps": 2,
            "learning_rate": 1e-3,
            **(policies if method == "crt" else {}),
        },
    }
    return validate(TrainSettings, tables, where="test")


def work(folder: str, acknowledgements: str, steps: int, twin: bool = False, method: str = "dp-sgd") -> None:
    """Start the run, or go on with it; a line for every released step, of plain DP-SGD after its weights exist."""
    place = Path(folder)
    if twin:
        training_course.PrivateGradients = ChargesLater  # type: ignore[misc]
    file = os.open(acknowledgements, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    if method == "crt":
        Acknowledging.file = file
        training_course.PrivateGradients = Acknowledging  # type: ignore[misc]

    def observe(progress, epsilon) -> bool:
        if method != "crt":
            os.write(file, f"{progress.step}\n".encode())
        return True

    run = place / "run"
    if (run / "run.json").exists():
        training_run.train(Resumption(resume=run), observe=observe)
    else:
        training_run.train(configuration(place, steps=steps, method=method).into(run), observe=observe)
