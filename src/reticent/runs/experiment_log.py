"""Curves and findings in an experiment tracker: `--log-to tensorboard:DIR | mlflow:URI | wandb:PROJECT`.

    training    ε so far; at the end the held-out loss and what was proved
    findings    value, interval and ceiling of every finding that is not void

Everything logged follows from the plan, from released weights, or is a finding that the run directory holds too.
The loss of a training batch, its number of tokens and the time that it takes follow from private records, and no
guarantee covers them: they are logged only where the operator asks for it (--log-training-loss). No text, path or
secret is logged. Each tracker is imported when it is asked for.
"""

import importlib.util
import math
import re
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from reticent.core.errors import ConfigError, UsageError
from reticent.core.extras import require
from reticent.core.finding import Comparison, Finding

if TYPE_CHECKING:
    from reticent.runs.training.result import Observer, TrainedRun

EXPERIMENT: Final = "reticent"  # the experiment of MLflow that runs are listed under
_POINTS: Final = 1000  # of a curve at most
_PURPOSE: Final = "--log-to"


class TrackerName(StrEnum):
    """The trackers, as they are typed."""

    TENSORBOARD = "tensorboard"
    MLFLOW = "mlflow"
    WANDB = "wandb"


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Which tracker, and its folder, address or project."""

    tracker: TrackerName
    target: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """The place that --log-to names; the tracker must be installed."""
        name, colon, target = text.partition(":")
        if name not in {each.value for each in TrackerName} or not colon or not target:
            raise ConfigError(
                "--log-to names an unknown tracker",
                found=text,
                expected="tensorboard:DIR, mlflow:URI or wandb:PROJECT",
            )
        place = cls(TrackerName(name), target)
        if place.tracker is TrackerName.TENSORBOARD:
            require("tensorboardX", purpose=f"{_PURPOSE} tensorboard")
        elif importlib.util.find_spec(name) is None:
            package = "mlflow-skinny" if place.tracker is TrackerName.MLFLOW else "wandb"
            raise UsageError(
                f"{_PURPOSE} {name} needs the package '{name}', which is not installed",
                hint=f"pip install {package}",
            )
        return place

    def open(self, name: str) -> "Tracker":
        """A new run of that name in the tracker, whose own errors become one line."""
        try:
            return self._opened(name)
        except Exception as error:  # a tracker may raise anything: no server, no login, no such store
            said = (str(error).strip().splitlines() or [""])[0]
            raise UsageError(
                f"--log-to {self.tracker} could not be opened", found=f"{type(error).__name__}: {said}"
            ) from error

    def _opened(self, name: str) -> "Tracker":
        match self.tracker:
            case TrackerName.TENSORBOARD:
                return _TensorBoard(Path(self.target) / name)
            case TrackerName.MLFLOW:
                return _MLflow(self.target, name)
            case TrackerName.WANDB:
                return _WeightsAndBiases(self.target, name)


class Tracker(Protocol):
    """One run of an experiment tracker."""

    def log(self, values: Mapping[str, float], *, step: int) -> None:
        """Add a point to the curve of each name."""
        ...

    def close(self, *, failed: bool) -> None:
        """Everything is written; the run failed or is complete."""
        ...


class ExperimentLog:
    """What one run of ours tells a tracker; without one, nothing."""

    def __init__(self, tracker: Tracker | None = None, *, with_loss: bool = False) -> None:
        self._tracker = tracker
        self._with_loss = with_loss
        self._has_failed = False  # a run that was paid for does not end because a tracker is away

    def watching(self, observe: "Observer") -> "Observer":
        """The observer, with the curves of the training logged: a thousand points of each at most."""
        if self._tracker is None:
            return observe
        last = (0, time.monotonic())

        def watch(progress: Any, epsilon: float | None) -> bool:
            nonlocal last
            stride = math.ceil(progress.steps / _POINTS)
            if progress.step % stride == 0 or progress.step == progress.steps:
                now = time.monotonic()
                values = {} if epsilon is None else {"training/epsilon": epsilon}
                if self._with_loss:
                    values["training/steps_per_second"] = (progress.step - last[0]) / max(now - last[1], 1e-9)
                if self._with_loss and progress.loss is not None:
                    values["training/loss"] = progress.loss
                    values["training/tokens_per_second"] = progress.tokens_per_second
                self._log(values, step=progress.step)
                last = (progress.step, now)
            return observe(progress, epsilon)

        return watch

    def trained(self, result: "TrainedRun") -> None:
        """How good the model is on held-out text, what was proved, and what the training measured of itself."""
        values: dict[str, float] = {}
        if (quality := result.evaluation) is not None:
            values |= {"held_out/loss": math.log(quality.perplexity), "held_out/top1": quality.top1}
        if result.guarantee is not None and result.is_finished:
            proved = result.guarantee
            values |= {"proved/epsilon": proved.epsilon, "proved/delta": proved.delta}
        if result.measured is not None:
            values["measured/epsilon_at_least"] = result.measured.epsilon
        self._log(values, step=result.step)

    def found(self, findings: Iterable[Finding], comparisons: Iterable[Comparison] = (), *, step: int = 0) -> None:
        """Every finding that is not void, with its interval and the ceiling that was proved for it."""
        ceilings = {id(one.finding): one.ceiling for one in comparisons}
        values: dict[str, float] = {}
        for each in findings:
            if each.void:
                continue
            name = "/".join(_plain(part) for part in ("findings", each.attack, each.metric, each.unit.value))
            values |= {f"{name}/value": each.value, f"{name}/low": each.low, f"{name}/high": each.high}
            ceiling = ceilings.get(id(each))
            if ceiling is not None:
                values[f"{name}/ceiling"] = ceiling
        self._log(values, step=step)

    def _log(self, values: Mapping[str, float], *, step: int) -> None:
        finite = {name: float(value) for name, value in values.items() if math.isfinite(value)}
        if self._tracker is None or not finite or self._has_failed:
            return
        try:
            self._tracker.log(finite, step=step)
        except Exception as error:
            self._has_failed = True
            warnings.warn(
                f"the tracker failed ({type(error).__name__}): nothing more is logged, and the run continues",
                stacklevel=2,
            )


@contextmanager
def opened_log(place: LogPlace | None, name: str, *, with_loss: bool = False) -> Iterator[ExperimentLog]:
    """The log of a run under its name; closed at the end, as failed where an error ended it."""
    if place is None:
        yield ExperimentLog()
        return
    tracker, failed = place.open(name), True
    try:
        yield ExperimentLog(tracker, with_loss=with_loss)
        failed = False
    finally:
        tracker.close(failed=failed)


def _plain(name: str) -> str:
    """A name of letters, digits and a few marks: MLflow takes no others."""
    return re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII).strip("_")


class _TensorBoard:
    """An event file in the folder."""

    def __init__(self, folder: Path) -> None:
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(folder))

    def log(self, values: Mapping[str, float], *, step: int) -> None:
        """As `Tracker` has it."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self, *, failed: bool) -> None:  # noqa: ARG002
        """An event file knows no failure."""
        self._writer.close()


class _MLflow:
    """A run of the experiment 'reticent', by a client of its own: no setting of the process is changed."""

    def __init__(self, address: str, name: str) -> None:
        from mlflow.entities import Metric
        from mlflow.tracking import MlflowClient

        self._client, self._metric = MlflowClient(tracking_uri=address), Metric
        experiment = self._client.get_experiment_by_name(EXPERIMENT)
        number = self._client.create_experiment(EXPERIMENT) if experiment is None else experiment.experiment_id
        self._run = self._client.create_run(number, run_name=name).info.run_id

    def log(self, values: Mapping[str, float], *, step: int) -> None:
        """As `Tracker` has it; a request takes a thousand metrics at most."""
        now = int(time.time() * 1000)
        metrics = [self._metric(name, value, now, step) for name, value in values.items()]
        for start in range(0, len(metrics), 1000):
            self._client.log_batch(self._run, metrics=metrics[start : start + 1000])

    def close(self, *, failed: bool) -> None:
        """As `Tracker` has it."""
        self._client.set_terminated(self._run, status="FAILED" if failed else "FINISHED")


class _WeightsAndBiases:
    """A run of the project; nothing is collected but what is logged: no code, console, arguments or machine."""

    def __init__(self, project: str, name: str) -> None:
        import wandb

        settings = wandb.Settings(
            console="off",
            disable_code=True,
            disable_git=True,
            disable_job_creation=True,
            save_code=False,
            silent=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_disable_machine_info=True,
        )
        self._run = wandb.init(project=project, name=name, settings=settings)

    def log(self, values: Mapping[str, float], *, step: int) -> None:
        """As `Tracker` has it."""
        self._run.log(dict(values), step=step)

    def close(self, *, failed: bool) -> None:
        """As `Tracker` has it."""
        self._run.finish(exit_code=int(failed))
