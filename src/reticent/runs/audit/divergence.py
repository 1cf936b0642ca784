"""Divergence prompts: what does the model say once it stops repeating a word? Opt-in: chat models are meant."""

from typing import ClassVar, Final

import numpy as np

from reticent.audit.attacks.extraction.divergence_prompts import WORDS, diverge, repeat_prompts
from reticent.audit.attacks.extraction.eidetic import EideticIndex
from reticent.audit.attacks.extraction.findings import LEAST_CHARACTERS, MatchRule, divergence_finding
from reticent.core.metric import DIVERGENCE_RATE
from reticent.core.sampling import Sampling
from reticent.runs.audit.attack import Lines, Measurement, PlannedAttack
from reticent.runs.audit.settings import AuditSettings, Sizes
from reticent.runs.audit.subject import Subject
from reticent.runs.audit.targets import sampled_sides

_ANSWER_TOKENS: Final = 128


class Divergence:
    """Answers to repeat prompts, with and without an instruction, looked up after the repetition."""

    name: ClassVar[str] = "divergence"
    is_opt_in: ClassVar[bool] = True

    def plan(self, subject: Subject, settings: AuditSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line: answers written."""
        n = 2 * len(WORDS) * _rounds(sizes)
        line = PlannedAttack(
            name=self.name,
            needs="text",
            n=n,
            generated_tokens=n * _ANSWER_TOKENS,
            metrics=(DIVERGENCE_RATE.name,),
        )
        return (line,)

    def run(self, subject: Subject, settings: AuditSettings, *, sizes: Sizes) -> Measurement:
        """Share of answers that hold training text."""
        training, held_out = sampled_sides(subject, settings, sizes.records)
        prompts = (*repeat_prompts(), *repeat_prompts(instruction="")) * _rounds(sizes)
        answers = diverge(
            subject.model,
            prompts,
            training=EideticIndex(training),
            held_out=EideticIndex(held_out),
            sampling=Sampling(max_tokens=_ANSWER_TOKENS),
            randomness=settings.randomness("divergence"),
        )
        # As in `generation`: half a usual record, of long ones 200 characters.
        usual = int(np.median([len(record.text) for record in training]))
        rule = MatchRule(max(1, min(LEAST_CHARACTERS, usual // 2)))
        return Measurement((divergence_finding(answers, rule=rule, confidence=settings.attack_confidence),))


def _rounds(sizes: Sizes) -> int:
    """How often each prompt is asked: about as many answers as texts are generated."""
    return max(1, sizes.texts // (2 * len(WORDS)))
