"""The journey of an audit: subject and plan in, findings beside what was proved out, and a run directory.

    RUN/  run.json  findings.json (findings, comparisons, gate)  exposure.json  membership.json  risk_map.json
          revealed.json (texts and secrets, for its owner's eyes; with --reveal alone)

A comparison sets a finding beside the ceiling that the guarantee gives its metric, in the guarantee's own unit. It
is refuted only when the finding's whole interval lies above. Nothing here says "safe".
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final

from reticent.accounting.bounds.ceiling import compare_with_guarantee
from reticent.auditing.attack import Measurement, NothingToAttack, PlannedAttack
from reticent.auditing.attacks.membership.shadow_models import ShadowAttack
from reticent.auditing.attacks.personal_data.attack import policy_identity
from reticent.auditing.progress import watched_subject
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import Subject
from reticent.core.document import object_to_json, write_document
from reticent.core.finding import Comparison, Finding, Verdict
from reticent.core.guarantee import Guarantee
from reticent.core.metric import EXPOSURE, INFERENCE_ACCURACY
from reticent.core.model import Access
from reticent.runs.audit.gate import GateResult
from reticent.runs.audit.plan import AuditPlan, share_error
from reticent.runs.audit.registry import BY_POLICY, READ_BY, every_attack
from reticent.runs.audit.score_cache import ScoreCache, ScoreKey
from reticent.runs.directory import FINDINGS, RunDirectory

SCHEMA_VERSION: Final = 1
REVEALED: Final = "revealed.json"

# Settings that leave the numbers of an attack alone, or that stand in the key of a score by themselves.
_DECIDES_NO_NUMBER: Final = {
    "attacks",
    "sizes",
    "budget",
    "confidence",
    "shares",
    "policy",
    "reveal",
    "engine",
    "told",
}
# Told an attack's line of the plan and how much of its work is done, from 0 to 1, as far as the plan foresaw it.
Observer = Callable[[PlannedAttack, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What an audit found. `attacks` is the plan with what was skipped on the way.

    `comparisons` are with the headline, `other_comparisons` with further guarantees by name, as far as they are
    comparable. Those hold for some secrets only (that the conservative policy catches, say), and whether a target
    is one of them an audit cannot tell: a finding above their ceiling is told, and refutes nothing.
    """

    findings: tuple[Finding, ...]
    comparisons: tuple[Comparison, ...]
    other_comparisons: tuple[tuple[str, Comparison], ...] = ()
    attacks: tuple[PlannedAttack, ...]
    artefacts: dict[str, dict[str, Any]]
    cached: tuple[str, ...]
    revealed: tuple[dict[str, Any], ...] = field(default=(), repr=False)

    @property
    def refuted(self) -> tuple[Comparison, ...]:
        """Comparisons in which more leaked than was proved possible."""
        return tuple(one for one in self.comparisons if one.verdict is Verdict.REFUTED)

    @property
    def why_missing(self) -> str:
        """Why planned attacks did not run."""
        return "; ".join(f"{line.name} was skipped: {line.skipped}" for line in self.attacks if line.skipped)


def run_audit(
    subject: Subject,
    plan: AuditPlan,
    *,
    settings: AttackSettings,
    cache: ScoreCache | None = None,
    observe: Observer = lambda _, __: None,
) -> Audit:
    """Run the plan. An attack that the time budget leaves no room for is skipped, and says so."""
    settings = share_error(subject, settings)
    started = time.monotonic()
    findings = list(subject.measured)
    comparisons: list[Comparison] = []
    if subject.guarantee is not None:
        comparisons += [compare_with_guarantee(finding, subject.guarantee) for finding in findings]
    others: list[tuple[str, Comparison]] = []
    artefacts: dict[str, dict[str, Any]] = {}
    lines, cached, revealed = list[PlannedAttack](), list[str](), list[dict[str, Any]]()
    for line in plan.attacks:
        spent = time.monotonic() - started
        if not line.skipped and settings.budget is not None and spent > settings.budget:
            line = replace(line, skipped=f"the budget was spent after {spent:.0f} s")
        if not line.skipped:
            try:
                measured, was_cached = _measured(
                    line, subject, plan, settings=settings, cache=cache, observe=observe
                )
            except NothingToAttack as reason:
                line = replace(line, skipped=str(reason))
            else:
                findings += measured.findings
                for finding in measured.findings:
                    if subject.guarantee is not None:
                        comparisons.append(
                            _compared(finding, subject.guarantee, measured=measured, subject=subject)
                        )
                    for name, each in subject.other_guarantees.items():
                        one = _compared(finding, each, measured=measured, subject=subject)
                        others += [(name, one)] if one.ceiling is not None else []
                artefacts |= measured.artefacts
                cached += [line.name] if was_cached else []
                revealed += measured.revealed
        lines.append(line)
    return Audit(
        findings=tuple(findings),
        comparisons=tuple(comparisons),
        other_comparisons=tuple(others),
        attacks=tuple(lines),
        artefacts=artefacts,
        cached=tuple(cached),
        revealed=tuple(revealed),
    )


def _measured(
    line: PlannedAttack,
    subject: Subject,
    plan: AuditPlan,
    *,
    settings: AttackSettings,
    cache: ScoreCache | None,
    observe: Observer,
) -> tuple[Measurement, bool]:
    """What the attack measures, from the cache where it was measured before; texts and secrets are never there."""
    planned, done = max(1, line.forward_tokens + line.generated_tokens), 0

    def told(tokens: int) -> None:
        nonlocal done
        done += tokens
        observe(line, min(1.0, done / planned))

    def measure() -> Measurement:
        telling = replace(settings, told=told)
        return every_attack()[line.name].run(watched_subject(subject, told), telling, sizes=plan.sizes)

    told(0)
    if cache is None or settings.reveal or not is_cacheable(subject):
        return measure(), False
    hits = cache.hits
    key = score_key(line.name, subject, settings, sizes=plan.sizes)
    document = cache.measured(key, lambda: measure().to_json())
    return Measurement.from_json(document), cache.hits > hits


def is_cacheable(subject: Subject) -> bool:
    """Whether the fingerprint tells all: that of weights we do not hold cannot change when someone swaps them."""
    return subject.model.access >= Access.WEIGHTS


def score_key(name: str, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> ScoreKey:
    """Everything that decides what the attack measures."""
    guarantee, settings = subject.guarantee, share_error(subject, settings)
    return ScoreKey(
        attack=name,
        model=subject.model.fingerprint,
        base=None if subject.base is None else subject.base.fingerprint,
        corpora={"training": subject.training.fingerprint, "held-out": subject.held_out.fingerprint},
        canaries=subject.canaries,
        parameters={
            "sizes": asdict(sizes),
            "confidence": settings.attack_confidence,
            "asked": _asked(name, settings),
            "coins": None if subject.coins is None else subject.coins.to_json(),
            "recipe": subject.recipe if name == ShadowAttack.name else None,
            "individual": None if subject.individual is None else subject.individual.fingerprint,
            "policy": policy_identity(settings.policy) if name in BY_POLICY else None,
            "secret_unit": subject.secret_unit.value,
            "repeated": sorted(subject.repeated),
            "twins": sorted(subject.twins),
            # Units, neighbours and δ decide which findings there are; ε and the rest only what they are set beside.
            "guarantee": None
            if guarantee is None
            else [guarantee.unit.value, guarantee.neighbours.value, guarantee.delta],
        },
    )


def _asked(name: str, settings: AttackSettings) -> dict[str, Any]:
    """The settings that decide what the attack measures: all of them, but for those that only another reads."""
    asked = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return {
        key: asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        for key, value in asked.items()
        if key not in _DECIDES_NO_NUMBER and READ_BY.get(key, name) == name
    }


def _compared(finding: Finding, guarantee: Guarantee, *, measured: Measurement, subject: Subject) -> Comparison:
    """A finding beside one guarantee; of a secret that stands in several units, with so many copies."""
    candidates = measured.context.get("candidates")
    copies = subject.planted.get(guarantee.unit, 1) if finding.metric == EXPOSURE.name else 1
    if finding.metric == INFERENCE_ACCURACY.name:
        copies = measured.context.get("copies", 1)
    return compare_with_guarantee(finding, guarantee, candidates=candidates, copies=copies)


def write_audit(
    run: RunDirectory, audit: Audit, *, subject: Subject, settings: AttackSettings, gate: Sequence[GateResult] = ()
) -> None:
    """Write findings.json and the attacks' own documents, and finish the run."""
    for name, document in audit.artefacts.items():
        write_document(run.path / name, document)
    if settings.reveal:
        document = {"schema_version": SCHEMA_VERSION, "revealed": list(audit.revealed)}
        write_document(run.path / REVEALED, document, mode=0o600)
    write_document(run.path / FINDINGS, audit_to_json(audit, subject=subject, settings=settings, gate=gate))
    run.finish(
        findings=len(audit.findings),
        refuted=len(audit.refuted),
        limits_failed=sum(result.fails for result in gate),
    )


def audit_to_json(
    audit: Audit, *, subject: Subject, settings: AttackSettings, gate: Sequence[GateResult] = ()
) -> dict[str, Any]:
    """The document of findings.json; a comparison names its finding by its place in `findings`."""
    base = subject.base
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": {"name": subject.model.name, "fingerprint": subject.model.fingerprint},
        "base": None if base is None else {"name": base.name, "fingerprint": base.fingerprint},
        "confidence": settings.confidence,
        "seed": settings.seed,
        "notes": subject.notes,
        "attacks": audit.attacks,
        "findings": audit.findings,
        "guarantee": subject.guarantee,
        "beside": subject.other_guarantees,
        "comparisons": [_comparison_to_json(one, audit) for one in audit.comparisons],
        "comparisons_beside": [
            {"guarantee": name, **_comparison_to_json(one, audit)} for name, one in audit.other_comparisons
        ],
        "gate": gate,
    }
    return object_to_json(document)


def _comparison_to_json(one: Comparison, audit: Audit) -> dict[str, Any]:
    return {"finding": audit.findings.index(one.finding), **one.to_json()}


def start_run(out: Path, *, subject: Subject, settings: AttackSettings, config: dict[str, Any]) -> RunDirectory:
    """A new run directory with its run.json."""
    run = RunDirectory.for_new_run(out)
    corpora = {"training": subject.training.fingerprint, "held-out": subject.held_out.fingerprint}
    run.start("audit", config=config, seed=settings.seed, corpora=corpora)
    return run
