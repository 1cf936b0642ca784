"""Options that several verbs have: declared once here, so that they read alike everywhere."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BeforeValidator

from reticent.core.errors import ConfigError
from reticent.core.guarantee import Neighbours
from reticent.core.randomness import Randomness
from reticent.core.ranges import PROCESSES, SEED
from reticent.data.reading.corpus_file import CorpusFile, open_corpus
from reticent.data.reading.formats import Fields, Format
from reticent.engine.work import EngineName, EngineSettings
from reticent.runs.settings.declaration import Settings, option

if TYPE_CHECKING:
    from reticent.runs.experiment_log import LogPlace

CORPUS: Final = "Corpus"
WORKERS: Final = "Parallel work"
TRACKER: Final = "Experiment tracker"
PATTERN_HELP: Final = (
    "Also find text that matches an RE2 expression, or its group (?P<secret>…). "
    "Without --policy, search for nothing else. Repeatable."
)
PATTERN: Final = "KIND=REGEX"


def _neighbours(value: Any) -> Any:
    """The member that a word such as add-remove stands for; anything else is for pydantic to refuse."""
    return next((member for member in Neighbours if value in (member.word, member.value)), value)


AddedOrReplaced = Annotated[Literal[Neighbours.ADD_REMOVE, Neighbours.REPLACE], BeforeValidator(_neighbours)]


class Shown(Settings):
    """The option --json: how a verb shows its result."""

    as_json: bool = option(
        "Print one JSON document instead of tables.", default=False, flag="--json", in_file=False, last=True
    )


class Seeded(Settings):
    """An experiment that can be repeated."""

    seed: int | None = option(
        "Random seed, for a repeatable experiment.", default=None, within=SEED, metavar="N", last=True
    )

    @property
    def randomness(self) -> Randomness:
        """A seeded source where a seed was given, else the system's."""
        return Randomness.system() if self.seed is None else Randomness.seeded(self.seed)


class CorpusOptions(Settings):
    """How a corpus is read."""

    text_field: str = option("Field that holds the text.", default="text", panel=CORPUS, metavar="NAME")
    id_field: str = option("Field that holds the record id.", default="id", panel=CORPUS, metavar="NAME")
    owner_field: str = option(
        "Field that names the owner of the record.", default="owner", panel=CORPUS, metavar="NAME"
    )
    format: Format | None = option("Corpus format.", default=None, panel=CORPUS, shown="by file name")
    skip_empty: bool = option("Skip records without text.", default=False, panel=CORPUS)

    def corpus(self, path: Path | str, *, recognise: bool = False) -> CorpusFile:
        """The corpus at a path; `recognise` goes by its name even where a format was given for another file."""
        try:
            fields = Fields(text=self.text_field, id=self.id_field, owner=self.owner_field)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        stored = None if recognise else self.format
        return open_corpus(Path(path), fields=fields, format=stored, skip_empty=self.skip_empty)


class EngineOptions(Settings):
    """Options of work that is split into pieces: in this process unless an engine is asked for."""

    engine: EngineName | None = option(
        "Where to run work in parallel: processes on this machine, or Ray.",
        default=None,
        panel=WORKERS,
        in_file=False,
    )
    workers: int | None = option(
        "Number of parallel workers.",
        default=None,
        within=PROCESSES,
        panel=WORKERS,
        metavar="N",
        shown="no parallel work; with --engine, one per processor",
        in_file=False,
    )
    ray_address: str | None = option(
        "Ray cluster to join, as host:port.", default=None, panel=WORKERS, metavar="ADDRESS", in_file=False
    )

    @property
    def engine_settings(self) -> EngineSettings | None:
        """The engine that was asked for; None where the work is done in this process."""
        if self.engine is None and self.workers is None and self.ray_address is None:
            return None
        chosen = self.engine or (EngineName.LOCAL if self.ray_address is None else EngineName.RAY)
        return EngineSettings(name=chosen, workers=self.workers, address=self.ray_address)


class LogOptions(Settings):
    """Findings and curves in an experiment tracker."""

    log_to: str | None = option(
        "Also log to an experiment tracker: tensorboard:DIR, mlflow:URI or wandb:PROJECT.",
        default=None,
        metavar="TRACKER",
        panel=TRACKER,
        in_file=False,
    )

    @property
    def log_place(self) -> "LogPlace | None":
        """The tracker that was asked for; an error where it is unknown or not installed."""
        from reticent.runs.experiment_log import LogPlace

        return None if self.log_to is None else LogPlace.parse(self.log_to)


class CurveOptions(LogOptions):
    """Curves of a training beside what is found."""

    log_training_loss: bool = option(
        "With --log-to: also log the loss and the speed of training batches. Both depend on private records, and "
        "the guarantee does not cover them.",
        default=False,
        panel=TRACKER,
        in_file=False,
    )

    def check_log(self) -> None:
        """Refuse a tracker that is unknown or not installed, and a curve that goes nowhere."""
        if self.log_place is None and self.log_training_loss:
            raise ConfigError("--log-training-loss needs --log-to", hint="add --log-to TRACKER")


class PatternOptions(Settings):
    """Expressions beside the verb's option `policy`."""

    pattern: tuple[str, ...] = option(PATTERN_HELP, default=(), metavar=PATTERN)

    def policy_with_patterns(self, policy: str) -> str:
        """The policy with the patterns; the patterns alone where no policy was asked for."""
        asked = policy if not self.pattern or "policy" in self.model_fields_set else None
        return with_patterns(asked, self.pattern)


def with_patterns(name: str | None, patterns: Sequence[str] | None) -> str:
    """The name of the policy that also finds these patterns; where none is named, of the patterns alone."""
    if any("\n" in pattern for pattern in patterns or ()):
        raise ConfigError("a pattern of --pattern is one line", hint="a line break within it is written \\n")
    return "\n".join([name or "", *(patterns or ())])
