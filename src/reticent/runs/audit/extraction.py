"""Discoverable extraction: does the model go on as a record does?"""

from typing import ClassVar, Final

from reticent.audit.attacks.extraction.discoverable import Discovery, DiscoverySettings, discover, discover_text
from reticent.audit.attacks.extraction.findings import discoverable_findings
from reticent.audit.metrics.intervals import shared_confidence
from reticent.core.corpus import Corpus
from reticent.core.metric import DISCOVERABLE_SHARE, NEAR_DISCOVERABLE_SHARE, NP_DISCOVERABLE_SHARE, SAMPLED_SHARE
from reticent.runs.audit.attack import Lines, Measurement, NothingToAttack, PlannedAttack
from reticent.runs.audit.settings import AuditSettings, Sizes
from reticent.runs.audit.subject import Subject
from reticent.runs.audit.targets import count_sides, revealed_records, sampled_sides

_SUFFIX_TOKENS: Final = 50
_TEXT_DRAWS: Final = 10  # answers to each record's beginning where chances cannot be computed
_FEWEST_WORDS: Final = 10  # of a record that is cut by words: about as much as 20 tokens, the default by tokens


class Extraction:
    """Beginnings of training and of held-out records, given to the model."""

    name: ClassVar[str] = "extraction"
    is_opt_in: ClassVar[bool] = False

    def plan(self, subject: Subject, settings: AuditSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line: every record read once, and half of it written."""
        n = count_sides(subject, sizes.extraction_records)
        last = SAMPLED_SHARE if subject.scoring_model is None else NP_DISCOVERABLE_SHARE
        line = PlannedAttack(
            name=self.name,
            needs="text",
            n=n,
            forward_tokens=round(n * mean),
            generated_tokens=round(n * min(mean / 2.0, _SUFFIX_TOKENS)),
            metrics=(DISCOVERABLE_SHARE.name, NEAR_DISCOVERABLE_SHARE.name, last.name),
        )
        return (line,)

    def run(self, subject: Subject, settings: AuditSettings, *, sizes: Sizes) -> Measurement:
        """Shares of records that the model completes."""
        sides = sampled_sides(subject, settings, sizes.extraction_records)
        training, held_out = (_discover(subject, settings, side) for side in sides)
        if not training.ids:
            raise NothingToAttack("no training record is long enough to be cut into a prompt and a target")
        confidence = shared_confidence(settings.attack_confidence, 3)
        baseline = held_out if held_out.ids else None
        findings = discoverable_findings(training, baseline, confidence=confidence)
        said = [name for name, is_said in zip(training.ids, training.verbatim.tolist(), strict=True) if is_said]
        revealed = revealed_records(sides[0], said, attack=self.name) if settings.reveal else []
        return Measurement(findings, revealed=revealed)


def _discover(subject: Subject, settings: AuditSettings, records: Corpus) -> Discovery:
    if subject.scoring_model is not None:
        return discover(subject.scoring_model, records)
    randomness = settings.randomness("continuations")
    lengths = DiscoverySettings(least=_FEWEST_WORDS)
    return discover_text(subject.model, records, randomness=randomness, draws=_TEXT_DRAWS, settings=lengths)
