"""Exposure: how high does a planted secret rank among all possible values?"""

from typing import ClassVar

from reticent.auditing.attack import SCHEMA_VERSION, Lines, Measurement, PlannedAttack, planned_model, skip
from reticent.auditing.attacks.exposure.candidate_search import SearchLimits
from reticent.auditing.attacks.exposure.findings import exposure_findings
from reticent.auditing.attacks.exposure.ranking import ExposureSettings, measure_exposures
from reticent.auditing.metrics.intervals import shared_confidence
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import Subject
from reticent.core.metric import EXPOSURE, LARGEST_EXPOSURE


class ExposureAttack:
    """Rank of every canary; the findings are stated in the guarantee's unit where the corpus tells it."""

    name: ClassVar[str] = "exposure"

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line; a search for each canary and a sample of candidates for each template."""
        needs, model = "log-probabilities, canaries", subject.scoring_model
        if not subject.canaries:
            return (skip(self.name, needs, "no canaries; give their key file with --canaries"),)
        if model is None:
            return (skip(self.name, needs, "the model returns text only"),)
        rest = max(len(row) for row in model.encode([c.secret.reveal() + c.suffix for c in subject.canaries]))
        templates = len({canary.template for canary in subject.canaries})
        line = PlannedAttack(
            name=self.name,
            needs=needs,
            n=len(subject.canaries),
            forward_tokens=templates * sizes.candidates * rest + len(subject.canaries) * sizes.search_tokens,
            metrics=(EXPOSURE.name, LARGEST_EXPOSURE.name),
        )
        return (line,)

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:
        """Exact ranks where the search finds them, sampled ones elsewhere."""
        confidence = shared_confidence(settings.attack_confidence, 2)
        chosen = ExposureSettings(
            samples=sizes.candidates,
            limits=SearchLimits(max_tokens=sizes.search_tokens),
            confidence=confidence,
        )
        exposures = measure_exposures(
            planned_model(subject),
            subject.canaries,
            randomness=settings.randomness("candidates"),
            settings=chosen,
        )
        document = {"schema_version": SCHEMA_VERSION, "exposures": [exposure.to_json() for exposure in exposures]}
        return Measurement(
            exposure_findings(exposures, confidence=confidence, unit=subject.secret_unit),
            {"exposure.json": document},
            {"candidates": max(exposure.candidates for exposure in exposures)},
            [
                {"attack": self.name, "canary": canary.name, "secret": canary.secret.reveal()}
                for canary in subject.canaries
                if settings.reveal
            ],
        )
