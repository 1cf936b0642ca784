"""The published form of a run's documents: `run.json`, `findings.json` and `guarantee.json`, and the check of it.

A run directory travels: whoever reads one reads numbers that someone else wrote. Each document is checked against
its schema before anything is made of it; what does not fit is one line that names the file and the place, and never
a value. The JSON Schemas in `docs/schemas` are generated from these classes (`scripts/write_schemas.py`).

Fields that are not named here are allowed: documents hold more than every reader needs. Whether a guarantee
*follows* from its event is another question (`accounting.derivation`).
"""

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reticent.core.document import check_schema, read_document
from reticent.core.errors import ConfigError, GuaranteeError, UsageError
from reticent.core.evidence.certificate import GUARANTEE
from reticent.core.guarantee import Neighbours, Notion, Unit
from reticent.runs.directory import FINDINGS, RUN

Finite = Annotated[float, Field(allow_inf_nan=False, ge=-1e308, le=1e308)]
Number = Finite | Literal["inf", "-inf"]  # JSON has no infinity
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Count = Annotated[int, Field(ge=0, le=2**62)]


class Document(BaseModel):
    """A JSON object; types are not converted."""

    model_config = ConfigDict(extra="allow", strict=True)


class RunDocument(Document):
    """`run.json`: what was run, on what, by which versions."""

    schema_version: Literal[1]
    command: str
    config: dict[str, Any] = {}
    seed: Annotated[int, Field(ge=-(2**63), le=2**64)] | None = None
    corpora: dict[str, str] = {}
    versions: dict[str, str] = {}
    started: str = ""
    finished: str | None = None
    results: dict[str, Any] = {}


class FindingDocument(Document):
    """One finding: a value with its interval."""

    schema_version: Literal[1]
    attack: str
    metric: str
    value: Number
    low: Number
    high: Number
    confidence: Annotated[float, Field(gt=0.0, lt=1.0)]
    n: Annotated[int, Field(ge=1, le=2**62)]
    measure: str
    unit: Literal[tuple(each.value for each in Unit)]  # type: ignore[valid-type]
    access: Literal["text", "logprobs", "weights", "steps"]
    null: Number | None
    void: str
    notes: list[str]


class ComparisonDocument(Document):
    """A finding, by its place, beside a ceiling."""

    finding: Count
    ceiling: Number | None
    greatest: Number | None = None
    reason: str = ""


class AttackDocument(Document):
    """A line of the audit's plan."""

    attack: str
    needs: str
    n: Count | None
    seconds: Annotated[float, Field(ge=0.0, le=1e12)] | None
    skipped: str | None


class NamedDocument(Document):
    """A model by its name and the fingerprint of its weights."""

    name: str
    fingerprint: str


class FindingsDocument(Document):
    """`findings.json` of an audit or of a comparison of snapshots."""

    schema_version: Literal[1]
    findings: list[FindingDocument] = []
    comparisons: list[ComparisonDocument] = []
    attacks: list[AttackDocument] = []
    notes: list[str] = []
    gate: list[dict[str, Any]] = []
    model: NamedDocument | None = None
    base: NamedDocument | None = None
    confidence: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None


class GuaranteeDocument(Document):
    """`guarantee.json`: what was proved."""

    schema_version: Literal[1]
    mechanism: str
    notion: Literal[tuple(each.value for each in Notion)]  # type: ignore[valid-type]
    unit: Literal[tuple(each.value for each in Unit)]  # type: ignore[valid-type]
    neighbours: Literal[tuple(each.value for each in Neighbours)]  # type: ignore[valid-type]
    epsilon: Annotated[float, Field(ge=0.0, le=1e308)] | Literal["inf"]
    delta: Share
    order: Annotated[float, Field(gt=1.0, le=1e308)] | Literal["inf"] | None
    covers: str
    assumes: list[str]
    data_dependent: bool
    profile: list[Annotated[tuple[Number, Share], Field(strict=False)]]
    renyi: list[Annotated[tuple[Number, Number], Field(strict=False)]]
    basis: dict[str, Any] | None = None


SCHEMAS: Final[dict[str, type[Document]]] = {
    RUN: RunDocument,
    FINDINGS: FindingsDocument,
    GUARANTEE: GuaranteeDocument,
}
VERSION: Final = 1  # of all three


def read_valid(path: Path) -> dict[str, Any]:
    """A document of a run, as its schema says; ConfigError or GuaranteeError with the first place that is wrong."""
    document = read_document(path)
    check_schema(document, VERSION, kind=path.name)
    require_valid(document, path.name, where=str(path))
    return document


def require_valid(document: dict[str, Any], name: str, *, where: str) -> None:
    """Refuse a document that is not as the schema of `name` says."""
    kind: type[UsageError] = GuaranteeError if name == GUARANTEE else ConfigError
    hint = "the file was edited or damaged: restore it as it was written"
    try:
        checked = SCHEMAS[name].model_validate(document)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in fault["loc"] if not str(part).startswith(("function", "literal")))
        raise kind(f"{where}: {place[:200]} is not what it should be", found=fault["type"], hint=hint) from None
    except (OverflowError, RecursionError) as error:
        raise kind(f"{where}: holds a value that no run has", found=type(error).__name__, hint=hint) from None
    if isinstance(checked, FindingsDocument) and any(
        each.finding >= len(checked.findings) for each in checked.comparisons
    ):
        raise kind(f"{where}: comparisons names a finding that is not there", hint=hint)


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a document, as it is published."""
    made = SCHEMAS[name].model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}
