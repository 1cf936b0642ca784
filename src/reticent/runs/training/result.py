"""What a training run tells while it works, what it would do, and what it did."""

import math
from collections.abc import Callable, Sequence
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyRecords:
    """How many records owners have where some have several and the promise is for one record."""

    owners: int
    several: int  # owners with more than one record
    half: int  # half of the owners have no more records than this
    nine_tenths: int
    most: int

    @classmethod
    def of(cls, counts: Sequence[int]) -> "ManyRecords | None":
        """From the records of each owner, fewest first; None where nobody has several."""
        if not counts or counts[-1] == 1:
            return None
        half, nine_tenths = (counts[math.ceil(share * len(counts)) - 1] for share in (0.5, 0.9))
        several = sum(each > 1 for each in counts)
        return cls(owners=len(counts), several=several, half=half, nine_tenths=nine_tenths, most=counts[-1])


# Hears what was chosen for options that were not given, by key, and of owners with several records, before the run
# begins.
Announce = Callable[[dict[str, float], ManyRecords | None], None]


def unannounced(_chosen: dict[str, float], _owners: ManyRecords | None) -> None:
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
    owners: ManyRecords | None = None
    model_is_here: bool = True  # False: its name may be a hub's, which was not asked
    parts: int | None = None
    records: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedRun:
    """What a run did: the steps it took, what they prove, and how good the model is.

    `guarantee` is the headline; `other_guarantees` is what else is proved of the same run, by name. `measured` is
    what its gradient canaries found, where it has any. `individual` is what is proved of each record by itself, for
    the operator's eyes. `redaction` counts what redacted training masked and routed.
    `owners` tells of owners with several records where the promise is for one record; it is None also where the
    corpus was not read again. `shortened` counts texts of which only the first tokens were read. `manifest` lists
    the members of an ensemble, whose `steps` are those of all members together.
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
    owners: ManyRecords | None = None
    shortened: int = 0
    manifest: "Manifest | None" = None

    @property
    def model(self) -> Path:
        """Where the weights of one model stand."""
        return self.path / "model"
