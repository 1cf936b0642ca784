"""Generate and rank: does the model say what records say when asked for anything?"""

from typing import ClassVar, Final

import numpy as np

from reticent.audit.attacks.extraction.eidetic import EideticIndex
from reticent.audit.attacks.extraction.findings import (
    LEAST_CHARACTERS,
    MatchRule,
    extracted_records_finding,
    ranking_findings,
)
from reticent.audit.attacks.extraction.generate_and_rank import generate_texts, match_records, rank_texts
from reticent.audit.metrics.intervals import shared_confidence
from reticent.core.metric import EXTRACTED_SHARE, EXTRACTION_PRECISION, EXTRACTION_RATE
from reticent.core.sampling import Sampling
from reticent.runs.audit.attack import Lines, Measurement, PlannedAttack
from reticent.runs.audit.settings import AuditSettings, Sizes
from reticent.runs.audit.subject import Subject
from reticent.runs.audit.targets import sampled_sides

GENERATED_TOKENS: Final = 96  # of a text that is generated without a prompt
_TOP: Final = 20  # best ranked texts whose precision is told


class Generation:
    """Texts drawn without a prompt, ranked, and looked up in training and held-out records."""

    name: ClassVar[str] = "generation"
    is_opt_in: ClassVar[bool] = False

    def plan(self, subject: Subject, settings: AuditSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line: texts written, and read again by each ranking's model."""
        metrics = [EXTRACTED_SHARE.name, EXTRACTION_RATE.name, EXTRACTION_PRECISION.at("repeats")]
        if subject.scoring_model is not None:
            rankings = ["perplexity", "zlib", "lower_case", "window", *(["reference"] if subject.base else [])]
            metrics += [EXTRACTION_PRECISION.at(ranking) for ranking in rankings]
        tokens = sizes.texts * GENERATED_TOKENS
        line = PlannedAttack(
            name=self.name,
            needs="text",
            n=sizes.texts,
            forward_tokens=3 * tokens,
            generated_tokens=tokens,
            metrics=tuple(metrics),
        )
        return (line,)

    def run(self, subject: Subject, settings: AuditSettings, *, sizes: Sizes) -> Measurement:
        """Share of records found in the texts, and how many of the best ranked texts hold one."""
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
        hits = MatchRule(least).hits(ranked.training).tolist() if settings.reveal else []
        revealed = [
            {"attack": self.name, "said": text.reveal()}
            for text, is_hit in zip(generated.texts, hits, strict=False)
            if is_hit
        ]
        return Measurement((found, *rankings), revealed=revealed)
