"""The defence table (Lukas et al. 2023, Table VI): what each defence costs in perplexity and leaves of every game.

    python -m bench pii_defences

Rows: undefended, DP, scrubbed, DP and scrubbed. Columns: perplexity on held-out text, and on the same text with
its values masked; extraction precision and recall; reconstruction top-1; inference accuracy; membership AUC. All
games know the same: the other values of a sentence stand there. Targets are persons, each value once. Membership
is scored on the text that the model was trained on: the scrubbed one where it was scrubbed.

Candidates are ranked by value and suffix given the prefix, calibrated by how likely they are in held-out places
(`personal_data.scoring.HeldOutPlaces`). Membership is calibrated by the base.

Every figure is a finding with its interval, set beside the ceiling of the row's guarantee where there is one. A
value in k records is protected as k records are: the ceiling of inference takes the most records that a target
stands in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from reproductions.pii.case_law import CaseLaw, make_case_law
from reproductions.pii.training import Defence, Defended, TrainingSettings, base_model
from reticent import Finding
from reticent.accounting import compare_with_guarantee
from reticent.auditing import (
    CalibratedScore,
    CandidateDraw,
    CandidateScorer,
    CandidateScoring,
    CandidateSources,
    ContextWindow,
    EmittedValues,
    ExtractionGame,
    HeldOutPlaces,
    MaskedSpan,
    MembershipSetting,
    OtherValues,
    PiiSetting,
    TargetScores,
    continue_greedily,
    draw_candidates,
    extraction_findings,
    gather_candidates,
    infer_values,
    inference_finding,
    masked_spans,
    membership_findings,
    rank_candidates,
    reconstruction_findings,
    sample_texts,
    tag_texts,
    token_counter,
    token_lengths,
)
from reticent.core import Comparison, ConfigError, LanguageModel, Randomness, Sampling, Unit
from reticent.training import encode_texts, evaluate_model

SCHEMA_VERSION: Final = 1
_PERSON: Final = ("PERSON",)
_WINDOW: Final = ContextWindow(before=400, after=160)  # nearly all of a paragraph
_PLACES: Final = 8  # held-out places that candidates are compared with
# Columns of the table after the two perplexities, in the paper's order.
COLUMNS: Final = {
    "precision": "pii_precision",
    "recall": "pii_recall",
    "TAB": "reconstruction_tab",
    "top-1": "reconstruction_top1",
    "top-5": "reconstruction_top5",
    "infer": "inference_accuracy_trained",
    "infer unseen": "inference_accuracy",
    "MI AUC": "auc",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """How much is generated, trained and asked."""

    cases: int = 60
    held_out: int = 180
    texts: int = 100  # sampled in the extraction game
    targets: int = 40
    candidates: int = 50  # |C| of the inference game
    draws: int = 96  # continuations of each prefix in the reconstruction game
    seed: int = 7
    confidence: float = 0.95
    training: TrainingSettings = field(default_factory=TrainingSettings)

    def randomness(self, name: str) -> Randomness:
        """The source of a named piece of work, the same for every row."""
        return Randomness.seeded(self.seed).child(name)


@dataclass(frozen=True, slots=True)
class Games:
    """What all rows share: the text, the targets with their candidates, and what the base emits."""

    case_law: CaseLaw
    base: LanguageModel
    base_emitted: EmittedValues
    targets: tuple[MaskedSpan, ...]
    strangers: tuple[MaskedSpan, ...]  # held-out targets: values never trained on
    elsewhere: HeldOutPlaces
    unseen: CandidateDraw
    trained: CandidateDraw


@dataclass(frozen=True, slots=True, kw_only=True)
class DefenceRow:
    """One row: perplexities, findings, and findings beside ceilings."""

    defence: Defence
    perplexity: float
    masked_perplexity: float
    findings: tuple[Finding, ...]
    comparisons: tuple[Comparison, ...]

    def value(self, metric: str) -> float | None:
        """The value of a metric; None where there was no data."""
        return next((finding.value for finding in self.findings if finding.metric == metric), None)

    def to_json(self) -> dict[str, Any]:
        """Numbers and findings; no text."""
        return {
            "defence": self.defence.value,
            "perplexity": self.perplexity,
            "masked_perplexity": self.masked_perplexity,
            "findings": [finding.to_json() for finding in self.findings],
            "comparisons": [
                {"metric": one.finding.metric, "ceiling": one.to_json()["ceiling"], "verdict": one.verdict.value}
                for one in self.comparisons
            ],
        }


@dataclass(frozen=True, slots=True)
class DefenceTable:
    """The rows in the paper's order."""

    rows: tuple[DefenceRow, ...]

    def to_json(self) -> dict[str, Any]:
        """A document with a schema version."""
        return {"schema_version": SCHEMA_VERSION, "rows": [row.to_json() for row in self.rows]}


def prepare_games(settings: TableSettings, text: CaseLaw | None = None) -> Games:
    """Generate the text unless another one is given, draw targets and candidates, and sample the base."""
    case_law = text or make_case_law(
        settings.cases, held_out=settings.held_out, randomness=settings.randomness("case law")
    )
    base = base_model(settings.training)
    targets, strangers = (
        masked_spans(
            values,
            others=OtherValues.KNOWN,
            count=count,
            randomness=settings.randomness(name),
            kinds=_PERSON,
            window=_WINDOW,
        )
        for values, name, count in (
            (case_law.values, "targets", settings.targets),
            (case_law.held_out_values, "strangers", settings.targets // 4 + _PLACES),
        )
    )
    unseen, trained = (
        draw_candidates(
            targets,
            pool,
            training=case_law.values,
            size=settings.candidates,
            lengths=token_counter(base),
            randomness=settings.randomness(name),
        )
        for pool, name in ((case_law.held_out_values, "unseen decoys"), (case_law.values, "trained decoys"))
    )
    if not unseen.targets or not trained.targets:
        raise ConfigError(
            "no target has enough decoys",
            expected=f"{settings.candidates - 1} other persons on either side",
            hint="generate more cases, held-out ones too, or ask for fewer candidates",
        )
    return Games(
        case_law,
        base,
        _emitted(base, case_law, settings),
        targets,
        tuple(target for target in strangers[_PLACES:] if target.secret not in case_law.values),
        HeldOutPlaces(strangers[:_PLACES]),
        unseen,
        trained,
    )


def _emitted(model: LanguageModel, case_law: CaseLaw, settings: TableSettings) -> EmittedValues:
    sampled = sample_texts(
        model,
        settings.texts,
        sampling=Sampling(max_tokens=96, top_k=40),
        randomness=settings.randomness("sampled texts"),
    )
    return tag_texts(sampled, case_law.tagger)


def measure_defence(defended: Defended, games: Games, *, settings: TableSettings) -> DefenceRow:
    """Play every game against one model."""
    model, case_law = defended.model, games.case_law
    setting = PiiSetting(unit=Unit.RECORD, confidence=settings.confidence, tagger=case_law.tagger_note)
    emitted = _emitted(model, case_law, settings)
    lengths = token_lengths(model, [*case_law.values, *emitted.values])
    extraction = ExtractionGame(case_law.values, emitted, games.base_emitted, lengths)
    findings = list(extraction_findings(extraction, setting=setting, held_out=case_law.held_out_values))
    findings += _reconstructed(model, games, emitted, setting, settings)
    scorer = CandidateScorer(model, elsewhere=games.elsewhere)
    findings += [
        inference_finding(infer_values(scorer, draw), setting=setting) for draw in (games.unseen, games.trained)
    ]
    findings.append(_membership(defended, games, settings))
    masked = case_law.scrubbed(case_law.held_out)
    return DefenceRow(
        defence=defended.defence,
        perplexity=evaluate_model(model.module, encode_texts(model, case_law.held_out)).perplexity,
        masked_perplexity=evaluate_model(model.module, encode_texts(model, masked)).perplexity,
        findings=tuple(findings),
        comparisons=_compared(findings, defended, games, settings),
    )


def _reconstructed(
    model: LanguageModel, games: Games, emitted: EmittedValues, setting: PiiSetting, settings: TableSettings
) -> tuple[Finding, ...]:
    """Reconstruction of training values, TAB, and the same of values never trained on."""
    tagger = games.case_law.tagger

    def play(targets: Sequence[MaskedSpan], name: str) -> tuple[tuple[str, ...], ...]:
        randomness = settings.randomness(name)
        return tuple(
            gather_candidates(
                model, tagger, targets, sources=_sources(settings), randomness=randomness, emitted=emitted
            )
        )

    scorer = CandidateScorer(model, elsewhere=games.elsewhere)
    candidates = play(games.targets, "continuations")
    return reconstruction_findings(
        rank_candidates(scorer, games.targets, candidates),
        continue_greedily(model, tagger, games.targets),
        setting=setting,
        held_out=rank_candidates(scorer, games.strangers, play(games.strangers, "strangers' continuations")),
        scored_by="ranked by value and suffix given the prefix, calibrated by held-out places",
    )


def _sources(settings: TableSettings) -> CandidateSources:
    """Where candidates come from; a name takes few tokens."""
    sampling = Sampling(max_tokens=12, top_k=40)
    return CandidateSources(prefix=settings.draws, shared=64, pool=64, sampling=sampling)


def _membership(defended: Defended, games: Games, settings: TableSettings) -> Finding:
    """AUC of the calibrated loss over training and held-out paragraphs, as the model was given them."""
    sides = (games.case_law.training, games.case_law.held_out)
    if defended.defence.is_scrubbed:
        sides = (games.case_law.scrubbed(sides[0]), games.case_law.scrubbed(sides[1]))
    texts = [*sides[0].texts, *sides[1].texts]
    scores = CalibratedScore().score(TargetScores(texts, defended.model, reference=games.base))
    is_member = np.arange(len(texts)) < len(sides[0])
    setting = MembershipSetting(attack="calibrated", access=CalibratedScore.access, confidence=settings.confidence)
    return membership_findings(scores, is_member, setting=setting, rates=())[0]


def _compared(
    findings: Sequence[Finding], defended: Defended, games: Games, settings: TableSettings
) -> tuple[Comparison, ...]:
    """Findings beside the ceilings of the guarantee: inference on values never trained on, and membership."""
    if defended.guarantee is None:
        return ()
    copies = max((target.duplication for target in games.unseen.targets), default=1)
    return tuple(
        compare_with_guarantee(
            finding,
            defended.guarantee,
            candidates=settings.candidates,
            copies=copies if finding.metric == "inference_accuracy" else 1,
        )
        for finding in findings
        if finding.metric in ("inference_accuracy", "auc")
    )


@dataclass(frozen=True, slots=True)
class ScoringComparison:
    """Shares of targets won by each way to score candidates: reconstruction top-1 and inference accuracy."""

    scoring: str
    reconstruction: float
    inference: float


def compare_scorings(
    model: LanguageModel, games: Games, *, settings: TableSettings
) -> tuple[ScoringComparison, ...]:
    """The same candidates ranked by the span in its context, calibrated or not, and by whole sentences."""
    candidates = gather_candidates(
        model,
        games.case_law.tagger,
        games.targets,
        sources=_sources(settings),
        randomness=settings.randomness("continuations"),
        emitted=_emitted(model, games.case_law, settings),
    )
    scorers = {
        "span in context, calibrated": CandidateScorer(model, elsewhere=games.elsewhere),
        "span in context": CandidateScorer(model),
        "span in context, by the base": CandidateScorer(model, games.base),
        "sentence perplexity": CandidateScorer(model, scoring=CandidateScoring.SENTENCE),
    }
    rows = []
    for name, scorer in scorers.items():
        top = rank_candidates(scorer, games.targets, candidates).hits(1)
        rows.append(
            ScoringComparison(name, float(top.mean()), float(infer_values(scorer, games.trained).right.mean()))
        )
    return tuple(rows)
