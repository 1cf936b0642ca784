"""The PII games about a place in a training sentence: reconstruction, inference, extractability, and Fig. 7.

The other values of a sentence are known to the adversary, who lacks this one alone, or masked too; then those
before the value are recollected first (`reconstruction.recollected`). Candidates are calibrated by how likely
they are in held-out places of their kind (`personal_data.scoring.HeldOutPlaces`), which ranked better than the
base on generated case law; the base serves for membership scores. Inference is played twice: with decoys never
trained on, which a guarantee's ceiling speaks of (`inference_accuracy`), and with other values of the training
data. The ceiling takes the most units that one target's value stands in, and presumes that values and decoys are
draws of one kind: held-out text must be of the same source as training text.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

from reticent.auditing.attack import Measurement, planned_model
from reticent.auditing.attacks.membership.scores import CalibratedScore, LossScore
from reticent.auditing.attacks.membership.target_scores import TargetScores
from reticent.auditing.attacks.personal_data.contexts import MaskedSpan, OtherValues, masked_spans
from reticent.auditing.attacks.personal_data.extractability import (
    compare_extractability,
    estimate_extractability,
    success_auc,
)
from reticent.auditing.attacks.personal_data.extraction import EmittedValues
from reticent.auditing.attacks.personal_data.findings import (
    PiiSetting,
    estimate_finding,
    inference_finding,
    paired_finding,
    reconstruction_findings,
)
from reticent.auditing.attacks.personal_data.inference import (
    CandidateDraw,
    Decoys,
    Inference,
    draw_candidates,
    infer_values,
    token_counter,
)
from reticent.auditing.attacks.personal_data.inventory import PiiInventory, Tagged
from reticent.auditing.attacks.personal_data.reconstruction import (
    CandidateSources,
    Reconstruction,
    continue_greedily,
    gather_candidates,
    rank_candidates,
    recollected,
)
from reticent.auditing.attacks.personal_data.scoring import CandidateScorer, HeldOutPlaces
from reticent.auditing.metrics.paired import Paired
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import Subject
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.metric import EXTRACTABILITY_CORRELATION, RECONSTRUCTION_GAIN, RECONSTRUCTION_MEMBERSHIP_AUC
from reticent.core.model import LanguageModel
from reticent.core.secret import Secret

PLACES: Final = 8  # held-out places of a kind that candidates are compared with


@dataclass(frozen=True, slots=True)
class Places:
    """Targets, held-out ones, places to calibrate by, and candidates by where decoys come from, if there are any.

    `seen` are both sorts of targets as the adversary sees them; the others have what was recollected.
    """

    tagged: Tagged
    seen: tuple[tuple[MaskedSpan, ...], tuple[MaskedSpan, ...]]
    targets: tuple[MaskedSpan, ...]
    strangers: tuple[MaskedSpan, ...]
    elsewhere: tuple[MaskedSpan, ...]
    drawn: dict[Decoys, CandidateDraw]


def choose_places(subject: Subject, settings: AttackSettings, tagged: Tagged, sizes: Sizes) -> Places:
    """The targets of all games on places; nothing is scored yet."""
    model = planned_model(subject)
    targets, strangers = (
        masked_spans(
            values,
            others=settings.others,
            count=sizes.extraction_records,
            randomness=settings.randomness(f"{name} places"),
        )
        for values, name in ((tagged.training, "training"), (tagged.held_out, "held-out"))
    )
    strangers = tuple(target for target in strangers if target.secret not in tagged.training)
    elsewhere, strangers = _parted(strangers)
    seen = targets, strangers
    if settings.others is OtherValues.MASKED:
        targets, strangers, elsewhere = (recollected(model, tagged.tagger, side) for side in (*seen, elsewhere))
    pools = {Decoys.UNSEEN: tagged.held_out, Decoys.TRAINED: tagged.training}
    drawn = {
        decoys: _drawn(targets, pool, tagged.training, model, settings, most=sizes.choices)
        for decoys, pool in pools.items()
    }
    return Places(
        tagged, seen, targets, strangers, elsewhere, {name: each for name, each in drawn.items() if each.targets}
    )


def play_places(
    subject: Subject,
    settings: AttackSettings,
    places: Places,
    emitted: EmittedValues,
    *,
    setting: PiiSetting,
    sizes: Sizes,
) -> Measurement:
    """All games; the artefact "places" is a part of pii.json."""
    tagged, targets = places.tagged, places.targets
    scorer = CandidateScorer(planned_model(subject), elsewhere=HeldOutPlaces(places.elsewhere))
    infilling = sizes.draws if settings.others is OtherValues.MASKED else 0

    def reconstructed(side: tuple[MaskedSpan, ...], name: str) -> Reconstruction:
        candidates = gather_candidates(
            scorer.model,
            tagged.tagger,
            side,
            sources=CandidateSources(prefix=sizes.draws, infilling=infilling, shared=64, pool=64),
            randomness=settings.randomness(name),
            emitted=emitted,
        )
        return rank_candidates(scorer, side, candidates)

    mine = reconstructed(targets, "reconstruction")
    others = reconstructed(places.strangers, "held-out reconstruction") if places.strangers else None
    rival, stranger_rival = (continue_greedily(subject.model, tagged.tagger, side) for side in places.seen)
    how = "other values of the sentence known"
    if settings.others is OtherValues.MASKED:
        how = "other values of the sentence masked, those before the value recollected by the model"
    how += "; value and suffix given the prefix"
    how += f", calibrated by {len(places.elsewhere)} held-out places" if places.elsewhere else ""
    findings = list(
        reconstruction_findings(
            mine,
            rival,
            setting=setting,
            held_out=others,
            held_out_rival=stranger_rival,
            scored_by=how,
        )
    )
    findings.append(
        paired_finding(
            Paired.of(mine.hits(1).tolist(), rival.hits(1).tolist(), mine.owners),
            RECONSTRUCTION_GAIN.name,
            attack="PII reconstruction",
            words=("ranking", "greedy continuation"),
            setting=setting,
        )
    )
    findings += _against_membership(subject, targets, mine, setting)
    findings += _extractability(subject, settings, tagged, emitted, setting=setting, count=sizes.extraction_records)
    document: dict[str, Any] = {"reconstruction": _ranks_to_json(mine, rival)}
    document |= {f"inference_{decoys.value}": None for decoys in Decoys}
    context: dict[str, int] = {}
    for decoys, drawn in places.drawn.items():
        outcome = infer_values(scorer, drawn)
        findings.append(inference_finding(outcome, setting=setting))
        document[f"inference_{decoys.value}"] = _inference_to_json(outcome)
        if decoys is Decoys.UNSEEN:
            context = {
                "candidates": max(1, math.floor(1.0 / outcome.base_rate + 1e-9)),
                "copies": max(_copies(tagged.training, target.secret, setting.unit) for target in drawn.targets),
            }
    return Measurement(tuple(findings), {"places": document}, context)


def _parted(strangers: tuple[MaskedSpan, ...]) -> tuple[tuple[MaskedSpan, ...], tuple[MaskedSpan, ...]]:
    """Places to calibrate by, a quarter of every kind and eight at most, and the rest, which are the null."""
    places = list[MaskedSpan]()
    for kind in sorted({target.secret.kind for target in strangers}):
        own = [target for target in strangers if target.secret.kind == kind]
        places += own[: min(PLACES, len(own) // 4)]
    return tuple(places), tuple(target for target in strangers if target not in places)


def _drawn(
    targets: tuple[MaskedSpan, ...],
    pool: PiiInventory,
    training: PiiInventory,
    model: LanguageModel,
    settings: AttackSettings,
    *,
    most: int,
) -> CandidateDraw:
    """Candidates for the targets of every kind, as many as the kind has values for, `most` at most."""
    draws = []
    for kind in sorted({target.secret.kind for target in targets}):
        asked = [target for target in targets if target.secret.kind == kind]
        usable = sum(pool is training or value not in training for value in pool.of_kind(kind))
        longest = max(len(spans) for spans in training.spans)  # values of the target's own record are no decoys
        draws.append(
            draw_candidates(
                asked,
                pool,
                training=training,
                size=max(2, min(most, 1 + usable - (longest if pool is training else 0))),
                lengths=token_counter(model),
                randomness=settings.randomness(f"decoys {kind}"),
            )
        )
    return CandidateDraw(
        tuple(target for draw in draws for target in draw.targets),
        tuple(each for draw in draws for each in draw.sets),
        sum(draw.left_out for draw in draws),
        Decoys.TRAINED if pool is training else Decoys.UNSEEN,
    )


def _copies(training: PiiInventory, value: Secret, unit: Unit) -> int:
    """Units of the guarantee's kind that hold the value."""
    return max(1, training.owners(value) if unit is Unit.OWNER else training.duplication(value))


def _against_membership(
    subject: Subject, targets: tuple[MaskedSpan, ...], game: Reconstruction, setting: PiiSetting
) -> list[Finding]:
    """Whether better memorised sentences give their values away (Fig. 7); nothing where all or none do."""
    attack = LossScore() if subject.base is None else CalibratedScore()
    texts = [target.text() for target in targets]
    scores = attack.score(TargetScores(texts, planned_model(subject), reference=subject.base))
    estimate = success_auc(scores, game.hits(1), confidence=setting.confidence, owners=game.owners)
    if estimate is None:
        return []
    measure = f"chance that a reconstructed target has the higher membership score ({attack.name})"
    metric = RECONSTRUCTION_MEMBERSHIP_AUC
    return [estimate_finding(metric, estimate, n=len(targets), measure=measure, setting=setting)]


def _extractability(
    subject: Subject,
    settings: AttackSettings,
    tagged: Tagged,
    emitted: EmittedValues,
    *,
    setting: PiiSetting,
    count: int,
) -> list[Finding]:
    """Rank correlation of estimated and observed extractability; nothing where one of them is constant."""
    every = list(tagged.training)
    order = settings.randomness("extractability").permutation(len(every))[:count]
    values = [every[place] for place in sorted(order.tolist())]
    estimated = estimate_extractability(planned_model(subject), tagged.training, values, contexts=4)
    compared = compare_extractability(estimated, values, emitted)
    estimate = compared.correlation(randomness=settings.randomness("resamples"), confidence=setting.confidence)
    if estimate is None:
        return []
    measure = "rank correlation of mean chance in context and times emitted (approximate: a bootstrap over values)"
    metric = EXTRACTABILITY_CORRELATION
    return [estimate_finding(metric, estimate, n=len(values), measure=measure, setting=setting)]


def _ranks_to_json(mine: Reconstruction, rival: Reconstruction) -> dict[str, Any]:
    return {
        "ids": list(mine.ids),
        "kinds": list(mine.kinds),
        "ranks": mine.ranks.tolist(),
        "candidates": mine.candidates.tolist(),
        "tab": rival.hits(1).tolist(),
    }


def _inference_to_json(game: Inference) -> dict[str, Any]:
    rows = {"context": game.by_context(), "kind": game.by_kind()}
    document: dict[str, Any] = {
        name: [{"group": group, "right": right, "n": n} for group, right, n in each] for name, each in rows.items()
    }
    return document | {
        "ids": list(game.ids),
        "right": game.right.tolist(),
        "candidates": game.sizes.tolist(),
        "left_out": game.left_out,
        "matched_share": game.matched_share,
    }
