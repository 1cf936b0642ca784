"""Membership by neighbourhood: how much likelier is a text than near copies of it? Dear, hence opt-in."""

from typing import ClassVar, Final

from reticent.audit.attacks.membership.attack import run_attacks
from reticent.audit.attacks.membership.neighbourhood import Neighbourhood as NeighbourhoodScore
from reticent.audit.attacks.membership.target_scores import TargetScores
from reticent.core.metric import AUC, TPR_AT_FPR
from reticent.runs.audit.attack import Lines, Measurement, PlannedAttack, scoring_model, skip
from reticent.runs.audit.membership import why_no_comparison
from reticent.runs.audit.membership_result import ScoredTargets, few_targets
from reticent.runs.audit.remote import gives_distributions
from reticent.runs.audit.settings import AuditSettings, Sizes
from reticent.runs.audit.subject import Subject
from reticent.runs.audit.targets import count_targets, membership_targets

_COPIES: Final = 10  # neighbours of each text


class Neighbourhood:
    """The score of Mattern et al.; the base proposes what is exchanged where it splits text alike."""

    name: ClassVar[str] = "neighbourhood"
    is_opt_in: ClassVar[bool] = True

    def plan(self, subject: Subject, settings: AuditSettings, *, sizes: Sizes, mean: float) -> Lines:
        """One line: each text read once for itself, for each neighbour, and half of it for each proposal."""
        needs = "whole next-token distributions"
        if subject.scoring_model is None:
            return (skip(self.name, needs, "the model shows text alone"),)
        if not gives_distributions(subject.model) and why_no_comparison(subject):
            return (skip(self.name, needs, "a server gives none; name a base with its tokenizer by --base"),)
        members, others = count_targets(subject, sizes.records)
        if min(members, others) < 2:
            return (skip(self.name, needs, "fewer than two members or non-members with texts of their own"),)
        line = PlannedAttack(
            name=self.name,
            needs=needs,
            n=members + others,
            forward_tokens=round((members + others) * mean * (1 + 1.5 * _COPIES)),
            metrics=(AUC.name, *map(TPR_AT_FPR.at, settings.rates)),
        )
        sides = membership_targets(subject, settings, sizes.records).sides(settings)
        return (line, *few_targets(self.name, subject, settings, sides=sides, scores=1))

    def run(self, subject: Subject, settings: AuditSettings, *, sizes: Sizes) -> Measurement:
        """Findings of the one score."""
        targets = membership_targets(subject, settings, sizes.records)
        proposer = None if why_no_comparison(subject) else subject.base
        score = NeighbourhoodScore(count=_COPIES, seed=settings.seed)
        scores = run_attacks([score], TargetScores(targets.texts, scoring_model(subject), reference=proposer))
        scored = ScoredTargets.of(
            subject, settings, targets=targets, scores=scores, access={score.name: score.access}
        )
        confidence = scored.confidence(subject, settings)
        findings = tuple(scored.findings(subject, settings, confidence=confidence))
        return Measurement(findings, {"neighbourhood.json": scored.to_json()})
