"""Lazy reconstruction: which records would an attacker see by only sampling from the model?

The attacker draws `AttackSettings.samples` texts by `AttackSettings.sampler`. A text counts as emitted from a
chance of `AttackSettings.chance` on. Texts that the model generates stand in the map as well: what it says by
itself.
"""

from dataclasses import replace
from typing import ClassVar, Final

from reticent.auditing.attack import Lines, Measurement, NothingToAttack, PlannedAttack, planned_model, skip
from reticent.auditing.attacks.extraction.generate_and_rank import generate_texts
from reticent.auditing.attacks.lazy.risk_map import GENERATED, HELD_OUT, TRAINING, draw_risk_map, emission_finding
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import Subject, gives_distributions
from reticent.auditing.targets import count_sides, revealed_records, sampled_sides
from reticent.core.corpus import Record
from reticent.core.errors import InternalError
from reticent.core.metric import EMITTED_SHARE

GENERATED_TEXTS: Final = 64  # in the map, at most
_GENERATED_TOKENS: Final = 64


class LazyAttack:
    """The risk map of training, held-out and generated texts."""

    name: ClassVar[str] = "lazy"

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:
        """One line: every record read once by either model, or token by token where the sampler is not plain."""
        needs = "log-probabilities, a base model" + " and distributions" * (not settings.sampler.is_plain)
        if subject.scoring_model is None:
            return (skip(self.name, needs, "the model returns text only"),)
        if subject.base is None:
            return (skip(self.name, needs, "no base model; give it with --base"),)
        if not settings.sampler.is_plain and not gives_distributions(subject.model):
            reason = "a server returns no distributions, so probabilities under another sampler are not known"
            return (skip(self.name, needs, reason),)
        n, texts = count_sides(subject, sizes.records), min(GENERATED_TEXTS, sizes.texts)
        passes = 2.0 if settings.sampler.is_plain else 2.0 + mean / 2.0
        line = PlannedAttack(
            name=self.name,
            needs=needs,
            n=n,
            forward_tokens=round(passes * n * mean),
            generated_tokens=texts * _GENERATED_TOKENS // 2,  # many end before
            metrics=(EMITTED_SHARE.name,),
        )
        return (line,)

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:
        """Share of training texts that the lazy attacker sees."""
        if subject.base is None:
            raise InternalError("the lazy attack was planned without a base model")
        training, held_out = sampled_sides(subject, settings, sizes.records)
        drawn = draw_risk_map(
            planned_model(subject),
            subject.base,
            groups={TRAINING: training, HELD_OUT: held_out, GENERATED: _generated(subject, settings, sizes)},
            sampling=settings.sampler,
            samples=settings.samples,
            proved=subject.individual,
        )
        if not drawn.has(TRAINING):
            raise NothingToAttack("no training record has a token")
        finding = emission_finding(drawn, chance=settings.chance, confidence=settings.attack_confidence)
        worst = [row.id for row in drawn.worst()] if settings.reveal else []
        revealed = revealed_records(training, worst, attack=self.name)
        return Measurement((finding,), {"risk_map.json": drawn.to_json()}, revealed=revealed)


def _generated(subject: Subject, settings: AttackSettings, sizes: Sizes) -> list[Record]:
    """Distinct texts that the model says by itself, drawn by the attacker's sampler."""
    longest = planned_model(subject).context_length or _GENERATED_TOKENS + 1  # the start token takes a place
    drawn = generate_texts(
        subject.model,
        min(GENERATED_TEXTS, sizes.texts),
        sampling=replace(settings.sampler, max_tokens=min(_GENERATED_TOKENS, longest - 1)),
        randomness=settings.randomness("generated texts"),
    )
    return [Record(f"generated-{place}", text.reveal()) for place, text in enumerate(drawn.texts)]
