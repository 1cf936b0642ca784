"""Lazy reconstruction: which records would somebody see who only samples from the model?"""

from typing import ClassVar

from reticent.audit.attack import Lines, Measurement, NothingToAttack, PlannedAttack, scoring_model, skip
from reticent.audit.attacks.lazy.risk_map import HELD_OUT, TRAINING, draw_risk_map, emission_finding
from reticent.audit.settings import AuditSettings, Sizes
from reticent.audit.subject import Subject
from reticent.audit.targets import count_sides, revealed_records, sampled_sides
from reticent.core.errors import InternalError
from reticent.core.metric import EMITTED_SHARE


class LazyAttack:
    """The risk map of training and held-out records."""

    name: ClassVar[str] = "lazy"
    is_opt_in: ClassVar[bool] = False

    def plan(self, subject: Subject, settings: AuditSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line: every record read once by either model."""
        needs = "log-probabilities, a base model"
        if subject.scoring_model is None:
            return (skip(self.name, needs, "the model shows text alone"),)
        if subject.base is None:
            return (skip(self.name, needs, "no base model; name it with --base"),)
        n = count_sides(subject, sizes.records)
        tokens = round(2 * n * mean)
        return (
            PlannedAttack(name=self.name, needs=needs, n=n, forward_tokens=tokens, metrics=(EMITTED_SHARE.name,)),
        )

    def run(self, subject: Subject, settings: AuditSettings, *, sizes: Sizes) -> Measurement:
        """Share of training records that the lazy attacker sees."""
        if subject.base is None:
            raise InternalError("the lazy attack was planned without a base model")
        training, held_out = sampled_sides(subject, settings, sizes.records)
        drawn = draw_risk_map(
            scoring_model(subject),
            subject.base,
            groups={TRAINING: training, HELD_OUT: held_out},
            samples=settings.samples,
        )
        if not drawn.has(TRAINING):
            raise NothingToAttack("no training record has a token")
        finding = emission_finding(drawn, confidence=settings.attack_confidence)
        worst = [row.id for row in drawn.worst()] if settings.reveal else []
        revealed = revealed_records(training, worst, attack=self.name)
        return Measurement((finding,), {"risk_map.json": drawn.to_json()}, revealed=revealed)
