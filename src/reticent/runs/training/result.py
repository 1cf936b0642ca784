"""What a training run tells while it works, what it would do, and what it did."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reticent.auditing.attacks.one_run.gradient_canaries import MeasuredEpsilon
    from reticent.core.evidence.individual import IndividualBounds
    from reticent.core.guarantee import Guarantee
    from reticent.runs.ensemble.manifest import Manifest
    from reticent.training.evaluation import Evaluation
    from reticent.training.loop import Progress

# Hears how far the run is and ε so far (None without privacy). False asks the run to save and stop.
Observer = Callable[["Progress", float | None], bool]


def unobserved(_progress: "Progress", _epsilon: float | None) -> bool:
    """No observer is attached: the run goes on to its end."""
    return True


# Hears what was chosen for options that were not given, by key, before the run begins.
Announce = Callable[[dict[str, float]], None]


def unannounced(_chosen: dict[str, float]) -> None:
    """No listener is attached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a run would do and prove. An ensemble has the records of every member; one model has a plan."""

    steps: int
    plan: dict[str, Any] | None = None
    guarantee: "Guarantee | None" = None
    other_guarantees: "dict[str, Guarantee]" = field(default_factory=dict)
    redaction: dict[str, Any] | None = None  # counts of redacted training
    chosen: dict[str, float] = field(default_factory=dict)
    parts: int | None = None
    records: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedRun:
    """What a run did: the steps it took, what they prove, and how good the model is.

    `guarantee` is the headline; `other_guarantees` is what else is proved of the same run, by name. `measured` is
    what its gradient canaries found, where it has any. `individual` is what is proved of each record by itself, for
    the operator's eyes. `redaction` counts what redacted training masked and routed.
    `shortened` counts texts of which only the first tokens were read. `manifest` lists the members of an ensemble,
    whose `steps` are those of all members together.
    """

    path: Path
    step: int
    steps: int
    is_finished: bool
    guarantee: "Guarantee | None" = None
    other_guarantees: "dict[str, Guarantee]" = field(default_factory=dict)
    evaluation: "Evaluation | None" = None
    measured: "MeasuredEpsilon | None" = None
    individual: "IndividualBounds | None" = None
    redaction: dict[str, Any] | None = None
    shortened: int = 0
    manifest: "Manifest | None" = None

    @property
    def model(self) -> Path:
        """Where the weights of one model stand."""
        return self.path / "model"
