"""The attacks of an audit: each calls what `reticent.auditing` offers and gives findings and numbers for a report.

Nothing here is a method of its own: it chooses targets, calls the attack, and says in which unit the findings are
stated. All intervals of one attack hold together at `AuditSettings.attack_confidence` (Bonferroni).
Artefacts hold ids and numbers, never text or secrets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from reticent.app.audit_plan import (
    GENERATED_TOKENS,
    membership_attacks,
    one_run_delta,
    sample_records,
    why_no_one_run,
)
from reticent.app.audit_settings import AttackName, AuditSettings, Sizes
from reticent.app.audit_subject import Subject
from reticent.auditing.candidate_search import SearchLimits
from reticent.auditing.codes import PlantedCodes, answers_of, attack_codes
from reticent.auditing.control import Control, bag_of_words_control, permutation_p_value
from reticent.auditing.discoverable import Discovery, DiscoverySettings, discover, discover_text
from reticent.auditing.eidetic import EideticIndex
from reticent.auditing.exposure import ExposureSettings, measure_exposures
from reticent.auditing.exposure_findings import exposure_findings
from reticent.auditing.extraction_findings import (
    LEAST_CHARACTERS,
    MatchRule,
    discoverable_findings,
    extracted_records_finding,
    ranking_findings,
)
from reticent.auditing.generate_and_rank import generate_texts, match_records, rank_texts
from reticent.auditing.groups import score_owners
from reticent.auditing.intervals import shared_confidence
from reticent.auditing.membership import MembershipAttack, run_attacks
from reticent.auditing.membership_metrics import MembershipSetting, epsilon_finding, membership_findings
from reticent.auditing.one_run import one_run_epsilon
from reticent.auditing.risk_map import HELD_OUT, TRAINING, draw_risk_map, emission_finding
from reticent.auditing.roc import tpr_at_fpr
from reticent.auditing.target_scores import TargetScores
from reticent.core.corpus import Corpus, Record
from reticent.core.document import number_to_json
from reticent.core.errors import InternalError
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.model import Floats, LanguageModel
from reticent.core.sampling import Sampling
from reticent.core.secret import Canary, CodeSpace

SCHEMA_VERSION: Final = 1
_TOP: Final = 20  # best ranked texts whose precision is told
_TEXT_DRAWS: Final = 10  # answers to each record's beginning where chances cannot be computed
_FEWEST_WORDS: Final = 10  # of a record that is cut by words: about as much as 20 tokens, the default by tokens


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one attack found; `artefacts` are documents for the run directory, by file name."""

    findings: tuple[Finding, ...]
    artefacts: dict[str, dict[str, Any]] = field(default_factory=dict)
    context: dict[str, int] = field(default_factory=dict)  # what ceilings need: candidates

    def to_json(self) -> dict[str, Any]:
        """For the cache."""
        findings = [finding.to_json() for finding in self.findings]
        return {"findings": findings, "artefacts": self.artefacts, "context": self.context}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Measurement":
        """What `to_json` wrote."""
        findings = tuple(Finding.from_json(entry) for entry in document["findings"])
        return cls(findings, document["artefacts"], document["context"])


class NothingToAttack(Exception):
    """An attack found no target of the kind it needs; the message says why, without text."""


def attack(name: AttackName, subject: Subject, settings: AuditSettings, *, sizes: Sizes) -> Measurement:
    """Run one attack."""
    match name:
        case AttackName.EXPOSURE:
            return _exposure(subject, settings, sizes)
        case AttackName.CODES:
            return _codes(subject, settings, sizes)
        case AttackName.MEMBERSHIP:
            return _membership(subject, settings, sizes)
        case AttackName.LAZY:
            return _lazy(subject, settings, sizes)
        case AttackName.EXTRACTION:
            return _extraction(subject, settings, sizes)
        case AttackName.GENERATION:
            return _generation(subject, settings, sizes)


def sampled_sides(subject: Subject, settings: AuditSettings, count: int) -> tuple[Corpus, Corpus]:
    """At most `count` training and held-out records, by the seed."""
    return (
        sample_records(subject.training, count, randomness=settings.randomness("training records")),
        sample_records(subject.held_out, count, randomness=settings.randomness("held-out records")),
    )


def _scoring_model(subject: Subject) -> LanguageModel:
    if subject.scoring_model is None:
        raise InternalError("this attack was planned for a model that shows text alone")
    return subject.scoring_model


def _exposure(subject: Subject, settings: AuditSettings, sizes: Sizes) -> Measurement:
    """Rank of every canary; the findings are stated in the guarantee's unit where the corpus tells it."""
    confidence = shared_confidence(settings.attack_confidence, 2)
    chosen = ExposureSettings(
        samples=sizes.candidates,
        limits=SearchLimits(max_tokens=sizes.search_tokens),
        confidence=confidence,
    )
    exposures = measure_exposures(
        _scoring_model(subject),
        subject.canaries,
        randomness=settings.randomness("candidates"),
        settings=chosen,
    )
    document = {"schema_version": SCHEMA_VERSION, "exposures": [exposure.to_json() for exposure in exposures]}
    return Measurement(
        exposure_findings(exposures, confidence=confidence, unit=subject.secret_unit),
        {"exposure.json": document},
        {"candidates": max(exposure.candidates for exposure in exposures)},
    )


def _codes(subject: Subject, settings: AuditSettings, sizes: Sizes) -> Measurement:
    """Ask for the codes of every template."""
    groups: dict[tuple[str, CodeSpace], list[Canary]] = {}
    for canary in subject.canaries:
        if isinstance(canary.space, CodeSpace):
            groups.setdefault((canary.template, canary.space), []).append(canary)
    findings = []
    for number, ((template, space), canaries) in enumerate(groups.items()):
        planted = PlantedCodes(template, space, tuple(canary.secret for canary in canaries))
        randomness = settings.randomness(f"answers {number}")
        answer = answers_of(subject.model, planted, randomness=randomness)
        hits = attack_codes(answer, planted, generations=sizes.answers)
        confidence = shared_confidence(settings.attack_confidence, len(groups))
        findings.append(hits.finding(confidence=confidence, unit=Unit.SECRET))
    return Measurement(tuple(findings))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Targets:
    """Members and non-members with their labels [n]."""

    records: tuple[Record, ...]
    is_member: NDArray[np.bool_]

    @property
    def texts(self) -> list[str]:
        return [record.text for record in self.records]

    @property
    def owners(self) -> list[str]:
        return [record.owner for record in self.records]


def _targets(subject: Subject, settings: AuditSettings, sizes: Sizes) -> _Targets:
    """Equally many of either side at most; with coins, a sample of all, so that the coins stay independent."""
    members = Corpus(record for record in subject.training if record.id not in subject.repeated)
    if settings.by_coin:
        pairs = [*((record, True) for record in members), *((record, False) for record in subject.held_out)]
        order = settings.randomness("targets").permutation(len(pairs))[: 2 * sizes.records]
        chosen = [pairs[place] for place in sorted(order.tolist())]
    else:
        randomness = settings.randomness("training records")
        inside = sample_records(members, sizes.records, randomness=randomness)
        outside = sampled_sides(subject, settings, sizes.records)[1]
        chosen = [*((record, True) for record in inside), *((record, False) for record in outside)]
    return _Targets(tuple(record for record, _ in chosen), np.array([inside for _, inside in chosen]))


def _membership(subject: Subject, settings: AuditSettings, sizes: Sizes) -> Measurement:
    """Every score that can be computed here, against the control that voids them all."""
    targets = _targets(subject, settings, sizes)
    attacks, _ = membership_attacks(subject)
    needs_base = any(one.needs_reference for one in attacks)
    seen = TargetScores(targets.texts, _scoring_model(subject), reference=subject.base if needs_base else None)
    scores = run_attacks(attacks, seen)
    control = bag_of_words_control(
        targets.texts,
        targets.is_member,
        randomness=settings.randomness("control"),
        owners=targets.owners if subject.has_owners else None,
    )
    findings = _membership_findings(subject, settings, targets, attacks, scores, control)
    document = {
        "schema_version": SCHEMA_VERSION,
        "ids": [record.id for record in targets.records],
        "is_member": targets.is_member.tolist(),
        "scores": {name: [number_to_json(v) for v in values.tolist()] for name, values in scores.items()},
        "control": {"auc": control.auc.value, "p_value": control.p_value, "void": control.void},
        "truncated": seen.truncated,
    }
    return Measurement(findings, {"membership.json": document})


def _membership_findings(
    subject: Subject,
    settings: AuditSettings,
    targets: _Targets,
    attacks: Sequence[MembershipAttack],
    scores: dict[str, Floats],
    control: Control,
) -> tuple[Finding, ...]:
    """Findings on records, on owners where a guarantee speaks of them, and on ε where coins allow it."""
    by_owner = subject.guarantee is not None and subject.guarantee.unit is Unit.OWNER and not subject.splits_owners
    by_coin = not why_no_one_run(subject, settings)
    count = len(attacks) * (1 + len(settings.rates)) * (1 + by_owner) + by_coin
    confidence = shared_confidence(settings.attack_confidence, count)
    findings: list[Finding] = []
    for one in attacks:
        values, randomness = scores[one.name], settings.randomness(f"permutations {one.name}")
        p_value = permutation_p_value(values, targets.is_member, randomness=randomness, permutations=199)
        notes = (
            f"chance of such an AUC if membership were by chance: p = {p_value:.3g}",
            f"words alone: AUC {control.auc.value:.3f}, p = {control.p_value:.3g}",
        )
        setting = MembershipSetting(
            attack=one.name, access=one.access, confidence=confidence, void=control.void, notes=notes
        )
        measured = membership_findings(values, targets.is_member, setting=setting, rates=settings.rates)
        findings += _without_power(measured, targets.is_member)
        if by_owner:
            owned = score_owners(values, targets.is_member, owners=targets.owners)
            of_owners = MembershipSetting(
                attack=f"{one.name}, owners",
                access=one.access,
                unit=Unit.OWNER,
                confidence=confidence,
                void=control.void,
            )
            measured = membership_findings(owned.scores, owned.is_member, setting=of_owners, rates=settings.rates)
            findings += _without_power(measured, owned.is_member)
    if by_coin:
        findings.append(_epsilon(subject, settings, targets, scores, confidence=confidence))
    return tuple(findings)


def _without_power(findings: Sequence[Finding], is_member: NDArray[np.bool_]) -> Iterator[Finding]:
    """The findings, a rate void where not even scores that part the sides wholly would show more than chance."""
    inside, outside = np.ones(int(is_member.sum())), np.zeros(int((~is_member).sum()))
    for finding in findings:
        rate = finding.null
        if finding.void or rate is None or not finding.metric.startswith("tpr_at_fpr_"):
            yield finding
            continue
        best = tpr_at_fpr(inside, outside, fpr=rate, confidence=finding.confidence)
        if best is not None and best.low > rate:
            yield finding
        else:
            few = f"{len(inside)} members and {len(outside)} non-members are too few to tell any attack from chance"
            yield replace(finding, void=f"{few} at a false-positive rate of {rate:g}")


def _epsilon(
    subject: Subject, settings: AuditSettings, targets: _Targets, scores: dict[str, Floats], *, confidence: float
) -> Finding:
    """The one-run bound from the score that is best by its design, named before any score is seen."""
    name = "calibrated" if "calibrated" in scores else "loss"
    bound = one_run_epsilon(
        scores[name],
        targets.is_member,
        delta=one_run_delta(subject),
        confidence=confidence,
        randomness=settings.randomness("one run"),
    )
    # Fair coins need no control: whatever words say of a record, they say nothing of its coin.
    setting = MembershipSetting(attack=f"one run, {name}", confidence=confidence)
    return epsilon_finding(bound, setting=setting)


def _lazy(subject: Subject, settings: AuditSettings, sizes: Sizes) -> Measurement:
    """The risk map of training and held-out records."""
    if subject.base is None:
        raise InternalError("the lazy attack was planned without a base model")
    training, held_out = sampled_sides(subject, settings, sizes.records)
    drawn = draw_risk_map(
        _scoring_model(subject),
        subject.base,
        groups={TRAINING: training, HELD_OUT: held_out},
        samples=settings.samples,
    )
    if not drawn.has(TRAINING):
        raise NothingToAttack("no training record has a token")
    return Measurement(
        (emission_finding(drawn, confidence=settings.attack_confidence),), {"risk_map.json": drawn.to_json()}
    )


def _extraction(subject: Subject, settings: AuditSettings, sizes: Sizes) -> Measurement:
    """Beginnings of training and of held-out records, given to the model."""
    training, held_out = (
        _discover(subject, settings, side) for side in sampled_sides(subject, settings, sizes.extraction_records)
    )
    if not training.ids:
        raise NothingToAttack("no training record is long enough to be cut into a prompt and a target")
    confidence = shared_confidence(settings.attack_confidence, 3)
    baseline = held_out if held_out.ids else None
    return Measurement(discoverable_findings(training, baseline, confidence=confidence))


def _generation(subject: Subject, settings: AuditSettings, sizes: Sizes) -> Measurement:
    """Texts drawn without a prompt, ranked, and looked up in training and held-out records."""
    training, held_out = sampled_sides(subject, settings, sizes.records)
    generated = generate_texts(
        subject.model,
        sizes.texts,
        sampling=Sampling(max_tokens=GENERATED_TOKENS),
        randomness=settings.randomness("generated texts"),
    )
    ranked = rank_texts(
        subject.model,
        generated,
        training=EideticIndex(training),
        held_out=EideticIndex(held_out),
        reference=subject.base,
    )
    # Half a usual record is much of a short one; of long ones 200 characters, about 50 tokens, are enough.
    usual = int(np.median([len(record.text) for record in training]))
    least = max(1, min(LEAST_CHARACTERS, usual // 2))
    matches = (match_records(generated.texts, side) for side in (training, held_out))
    confidence = shared_confidence(settings.attack_confidence, 2 + len(ranked.scores))
    found = extracted_records_finding(*matches, least=least, confidence=confidence)
    rankings = ranking_findings(ranked, top=_TOP, rule=MatchRule(least), confidence=confidence)
    return Measurement((found, *rankings))


def _discover(subject: Subject, settings: AuditSettings, records: Corpus) -> Discovery:
    if subject.scoring_model is not None:
        return discover(subject.scoring_model, records)
    randomness = settings.randomness("continuations")
    lengths = DiscoverySettings(least=_FEWEST_WORDS)
    return discover_text(subject.model, records, randomness=randomness, draws=_TEXT_DRAWS, settings=lengths)
