"""What an attack of an audit is: a line of the plan before the work, and a measurement after it.

Each family of `auditing.attacks` keeps its attacks beside their methods, nulls and findings. An attack says what it
needs and costs, chooses targets, calls its method, and says in which unit its findings are stated. All intervals of
one attack hold together at `AttackSettings.attack_confidence` (Bonferroni). Artefacts hold ids and numbers, never
text or secrets.

A new attack is a class of this protocol in its family's folder, named and made in `runs.audit.registry`.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import Subject
from reticent.core.document import UNWRITTEN, JsonObject, called, fields_from_json, fields_to_json
from reticent.core.errors import InternalError
from reticent.core.finding import Finding
from reticent.core.model import LanguageModel

SCHEMA_VERSION: Final = 1  # of the artefacts


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAttack(JsonObject):
    """One line of the plan; `skipped` says why an attack does not run. `seconds` is a rough estimate."""

    name: str = field(metadata=called("attack"))
    needs: str
    n: int = 0
    forward_tokens: int = 0
    generated_tokens: int = 0
    seconds: float = 0.0
    metrics: tuple[str, ...] = field(default=(), metadata=UNWRITTEN)
    is_cached: bool = field(default=False, metadata=called("cached"))
    skipped: str = ""

    def to_json(self) -> dict[str, Any]:
        """For findings.json."""
        return fields_to_json(self, seconds=round(self.seconds, 1))


Lines = tuple[PlannedAttack, ...]


@dataclass(frozen=True, slots=True)
class Measurement(JsonObject):
    """What one attack found; `artefacts` are documents for the run directory, by file name.

    `revealed` holds texts and secrets, and only where `AttackSettings.reveal` asks for them. It is never cached.
    """

    findings: tuple[Finding, ...]
    artefacts: dict[str, dict[str, Any]] = field(default_factory=dict)
    context: dict[str, int] = field(default_factory=dict)  # what ceilings need: candidates, copies
    revealed: list[dict[str, Any]] = field(default_factory=list, repr=False, metadata=UNWRITTEN)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Measurement":
        """What `to_json` wrote."""
        return fields_from_json(cls, document, ignores_others=True)


class NothingToAttack(Exception):
    """An attack found no target of the kind it needs; the message says why, without text."""


class Attack(Protocol):
    """One attack of an audit."""

    @property
    def name(self) -> str:
        """What `--attacks` calls it."""
        ...

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:
        """The attack's own line, and further ones for parts of it that are left out.

        `mean` is the mean number of tokens of a record. Costs are tokens; whoever plans knows the speed.
        """
        ...

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:
        """Measure. Only called where `plan` gave a line of the attack's name that is not skipped."""
        ...


def skip(name: str, needs: str, reason: str) -> PlannedAttack:
    """A line that says why an attack, or a part of one, does not run."""
    return PlannedAttack(name=name, needs=needs, skipped=reason)


def planned_model(subject: Subject) -> LanguageModel:
    """The model that scores text, which the plan made sure of."""
    if subject.scoring_model is None:
        raise InternalError("this attack was planned for a model that returns text only")
    return subject.scoring_model
