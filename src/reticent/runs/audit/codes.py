"""Random-code attack: does the model say a planted code when given its beginning?"""

from typing import ClassVar

from reticent.audit.attacks.extraction.codes import PlantedCodes, answers_of, attack_codes
from reticent.audit.metrics.intervals import shared_confidence
from reticent.core.guarantee import Unit
from reticent.core.metric import CODE_HIT_RATE
from reticent.core.secret import Canary, CodeSpace
from reticent.runs.audit.attack import Lines, Measurement, PlannedAttack, skip
from reticent.runs.audit.settings import AuditSettings, Sizes
from reticent.runs.audit.subject import Subject


class Codes:
    """Ask for the codes of every template, by text alone."""

    name: ClassVar[str] = "codes"
    is_opt_in: ClassVar[bool] = False

    def plan(self, subject: Subject, settings: AuditSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line: answers for each template."""
        needs = "text, canaries that are codes"
        groups = _by_template(subject)
        if not groups:
            reason = "no canary is a code" if subject.canaries else "no canaries; name their key with --canaries"
            return (skip(self.name, needs, reason),)
        count = len({template for template, _ in groups}) * sizes.answers
        longest = max(space.length for _, space in groups)
        tokens = count * (longest + 4)
        line = PlannedAttack(
            name=self.name, needs=needs, n=count, generated_tokens=tokens, metrics=(CODE_HIT_RATE.name,)
        )
        return (line,)

    def run(self, subject: Subject, settings: AuditSettings, *, sizes: Sizes) -> Measurement:
        """Hit rate of each template."""
        groups = _by_template(subject)
        findings = []
        for number, ((template, space), canaries) in enumerate(groups.items()):
            planted = PlantedCodes(template, space, tuple(canary.secret for canary in canaries))
            randomness = settings.randomness(f"answers {number}")
            answer = answers_of(subject.model, planted, randomness=randomness)
            hits = attack_codes(answer, planted, generations=sizes.answers)
            confidence = shared_confidence(settings.attack_confidence, len(groups))
            findings.append(hits.finding(confidence=confidence, unit=Unit.SECRET))
        return Measurement(tuple(findings))


def _by_template(subject: Subject) -> dict[tuple[str, CodeSpace], list[Canary]]:
    """Canaries that are codes, by what stands around them and what they were drawn from."""
    groups: dict[tuple[str, CodeSpace], list[Canary]] = {}
    for canary in subject.canaries:
        if isinstance(canary.space, CodeSpace):
            groups.setdefault((canary.template, canary.space), []).append(canary)
    return groups
