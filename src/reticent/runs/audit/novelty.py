"""N-gram novelty (RAVEN): is what the model says less new than what people say who never saw the training text?

Opt-in, since a gap may also say that the model's text is plainer than the held-out text.
"""

from typing import ClassVar, Final

from reticent.audit.attacks.extraction.findings import novelty_findings
from reticent.audit.attacks.extraction.generate_and_rank import generate_texts
from reticent.audit.attacks.extraction.novelty import NGramIndex
from reticent.core.metric import NOVELTY_GAP
from reticent.core.sampling import Sampling
from reticent.runs.audit.attack import Lines, Measurement, NothingToAttack, PlannedAttack
from reticent.runs.audit.generation import GENERATED_TOKENS
from reticent.runs.audit.settings import AuditSettings, Sizes
from reticent.runs.audit.subject import Subject
from reticent.runs.audit.targets import sampled_sides

_WORDS: Final = (5, 7, 10)  # of the n-grams that are told


class Novelty:
    """Generated texts beside held-out ones, both looked up in the whole training text."""

    name: ClassVar[str] = "novelty"
    is_opt_in: ClassVar[bool] = True

    def plan(self, subject: Subject, settings: AuditSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line: texts written."""
        line = PlannedAttack(
            name=self.name,
            needs="text",
            n=sizes.texts,
            generated_tokens=sizes.texts * GENERATED_TOKENS,
            metrics=tuple(map(NOVELTY_GAP.at, _WORDS)),
        )
        return (line,)

    def run(self, subject: Subject, settings: AuditSettings, *, sizes: Sizes) -> Measurement:
        """How much less novel the generated texts are, for each n."""
        generated = generate_texts(
            subject.model,
            sizes.texts,
            sampling=Sampling(max_tokens=GENERATED_TOKENS),
            randomness=settings.randomness("generated texts"),
        )
        if not generated.texts:
            raise NothingToAttack("the model said nothing")
        index = NGramIndex(subject.training)
        held_out = sampled_sides(subject, settings, sizes.records)[1]
        findings = novelty_findings(
            index.novelty([text.reveal() for text in generated.texts]),
            index.novelty(held_out.texts),
            randomness=settings.randomness("novelty"),
            sizes=_WORDS,
            confidence=settings.attack_confidence,
            owners=[record.owner for record in held_out],
        )
        if not findings:
            raise NothingToAttack(f"no text has {min(_WORDS)} words")
        return Measurement(findings)
