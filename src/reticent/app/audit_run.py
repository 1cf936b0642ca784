"""The journey of an audit: subject and plan in, findings beside what was proved out, and a run directory.

    RUN/  run.json  findings.json (findings, comparisons, gate)  exposure.json  membership.json  risk_map.json

A comparison sets a finding beside the ceiling that the guarantee gives its metric, in the guarantee's own unit. It
is refuted only when the finding's whole interval lies above. Nothing here says "safe".
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from reticent.accounting.ceiling import compare
from reticent.app.audit_attacks import Measurement, NothingToAttack, attack
from reticent.app.audit_plan import AuditPlan, PlannedAttack
from reticent.app.audit_settings import AttackName, AuditSettings, Sizes
from reticent.app.audit_subject import Subject
from reticent.app.gate import GateResult
from reticent.app.run_directory import RunDirectory
from reticent.app.score_cache import ScoreCache, ScoreKey
from reticent.core.document import number_to_json, write_document
from reticent.core.finding import Comparison, Finding, Verdict
from reticent.core.model import Access

SCHEMA_VERSION: Final = 1
FINDINGS: Final = "findings.json"

# Told before each attack: its line of the plan.
Observer = Callable[[PlannedAttack], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What an audit found. `attacks` is the plan with what was skipped on the way."""

    findings: tuple[Finding, ...]
    comparisons: tuple[Comparison, ...]
    attacks: tuple[PlannedAttack, ...]
    artefacts: dict[str, dict[str, Any]]
    cached: tuple[str, ...]

    @property
    def refuted(self) -> tuple[Comparison, ...]:
        """Comparisons in which more leaked than was proved possible."""
        return tuple(one for one in self.comparisons if one.verdict is Verdict.REFUTED)


def run_audit(
    subject: Subject,
    plan: AuditPlan,
    *,
    settings: AuditSettings,
    cache: ScoreCache | None = None,
    observe: Observer = lambda _: None,
) -> Audit:
    """Run the plan. An attack that the time budget leaves no room for is skipped, and says so."""
    started = time.monotonic()
    findings: list[Finding] = []
    comparisons: list[Comparison] = []
    artefacts: dict[str, dict[str, Any]] = {}
    lines, cached = list[PlannedAttack](), list[str]()
    for line in plan.attacks:
        spent = time.monotonic() - started
        if not line.skipped and settings.budget is not None and spent > settings.budget:
            line = replace(line, skipped=f"the budget was spent after {spent:.0f} s")
        if not line.skipped:
            observe(line)
            try:
                measured, was_cached = _measured(line.name, subject, plan, settings=settings, cache=cache)
            except NothingToAttack as reason:
                line = replace(line, skipped=str(reason))
            else:
                findings += measured.findings
                comparisons += _compared(measured, subject)
                artefacts |= measured.artefacts
                cached += [line.name] if was_cached else []
        lines.append(line)
    return Audit(
        findings=tuple(findings),
        comparisons=tuple(comparisons),
        attacks=tuple(lines),
        artefacts=artefacts,
        cached=tuple(cached),
    )


def _measured(
    name: str, subject: Subject, plan: AuditPlan, *, settings: AuditSettings, cache: ScoreCache | None
) -> tuple[Measurement, bool]:
    """What the attack measures, from the cache where it was measured before."""
    if cache is None or not is_cacheable(subject):
        return attack(AttackName(name), subject, settings, sizes=plan.sizes), False
    hits = cache.hits
    document = cache.measured(
        score_key(name, subject, settings, sizes=plan.sizes),
        lambda: attack(AttackName(name), subject, settings, sizes=plan.sizes).to_json(),
    )
    return Measurement.from_json(document), cache.hits > hits


def is_cacheable(subject: Subject) -> bool:
    """Whether the fingerprint tells all: that of weights we do not hold cannot change when somebody swaps them."""
    return subject.model.access >= Access.WEIGHTS


def score_key(name: str, subject: Subject, settings: AuditSettings, *, sizes: Sizes) -> ScoreKey:
    """Everything that decides what the attack measures."""
    guarantee = subject.guarantee
    return ScoreKey(
        attack=name,
        model=subject.model.fingerprint,
        base=None if subject.base is None else subject.base.fingerprint,
        corpora={"training": subject.training.fingerprint, "held-out": subject.held_out.fingerprint},
        canaries=subject.canaries,
        parameters={
            "sizes": asdict(sizes),
            "seed": settings.seed,
            "samples": settings.samples,
            "rates": list(settings.rates),
            "confidence": settings.confidence,
            "by_coin": settings.by_coin,
            "secret_unit": subject.secret_unit.value,
            "repeated": sorted(subject.repeated),
            # Units, neighbours and δ decide which findings there are; ε and the rest only what they are set beside.
            "guarantee": None
            if guarantee is None
            else [guarantee.unit.value, guarantee.neighbours.value, guarantee.delta],
        },
    )


def _compared(measured: Measurement, subject: Subject) -> list[Comparison]:
    """Every finding beside its ceiling, where there is a guarantee."""
    guarantee = subject.guarantee
    if guarantee is None:
        return []
    candidates = measured.context.get("candidates")
    copies = subject.planted.get(guarantee.unit, 1)
    return [
        compare(finding, guarantee, candidates=candidates, copies=copies if finding.metric == "exposure" else 1)
        for finding in measured.findings
    ]


def write_audit(
    run: RunDirectory, audit: Audit, *, subject: Subject, settings: AuditSettings, gate: Sequence[GateResult] = ()
) -> None:
    """Write findings.json and the attacks' own documents, and finish the run."""
    for name, document in audit.artefacts.items():
        write_document(run.path / name, document)
    write_document(run.path / FINDINGS, audit_to_json(audit, subject=subject, settings=settings, gate=gate))
    run.finish(
        findings=len(audit.findings),
        refuted=len(audit.refuted),
        limits_passed=sum(result.is_passed for result in gate),
    )


def audit_to_json(
    audit: Audit, *, subject: Subject, settings: AuditSettings, gate: Sequence[GateResult] = ()
) -> dict[str, Any]:
    """The document of findings.json; a comparison names its finding by its place in `findings`."""
    base = subject.base
    return {
        "schema_version": SCHEMA_VERSION,
        "model": {"name": subject.model.name, "fingerprint": subject.model.fingerprint},
        "base": None if base is None else {"name": base.name, "fingerprint": base.fingerprint},
        "confidence": settings.confidence,
        "seed": settings.seed,
        "notes": list(subject.notes),
        "attacks": [line.to_json() for line in audit.attacks],
        "findings": [finding.to_json() for finding in audit.findings],
        "guarantee": None if subject.guarantee is None else subject.guarantee.to_json(),
        "comparisons": [
            {
                "finding": audit.findings.index(one.finding),
                "ceiling": number_to_json(one.ceiling),
                "verdict": one.verdict.value,
            }
            for one in audit.comparisons
        ],
        "gate": [result.to_json() for result in gate],
    }


def start_run(out: Path, *, subject: Subject, settings: AuditSettings, config: dict[str, Any]) -> RunDirectory:
    """A new run directory with its run.json."""
    run = RunDirectory.create(out)
    corpora = {"training": subject.training.fingerprint, "held-out": subject.held_out.fingerprint}
    run.start("audit", config=config, seed=settings.seed, corpora=corpora)
    return run
