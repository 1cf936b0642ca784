"""The PII games: which personal data does the model emit, fill in, pick out, or tell of a name?

The policy that `--policy` names tags training, held-out and generated text alike, so that kinds agree. Where
training records carry labels, the policy's recall on the kinds it finds is measured on them and widens recall's
interval; otherwise a note says that nobody measured it. Extraction and association need text alone;
reconstruction, inference and extractability need log-probabilities. Candidates are calibrated by held-out places.

Opt-in, since its findings mean no more than the policy does. pii.json holds ids, kinds and numbers, never a
value.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.attack import SCHEMA_VERSION, Lines, Measurement, NothingToAttack, PlannedAttack, skip
from reticent.auditing.attacks.personal_data.association import Asking, Association, Style, associate
from reticent.auditing.attacks.personal_data.extractability import emitted_likelihoods
from reticent.auditing.attacks.personal_data.extraction import (
    EmittedValues,
    ExtractionGame,
    sample_texts,
    tag_texts,
    token_lengths,
)
from reticent.auditing.attacks.personal_data.findings import PiiSetting, association_finding, extraction_findings
from reticent.auditing.attacks.personal_data.inference import SHORTLIST
from reticent.auditing.attacks.personal_data.inventory import PiiInventory, Tagged, take_inventory
from reticent.auditing.attacks.personal_data.pairs import Pair, associated_pairs
from reticent.auditing.attacks.personal_data.places import choose_places, play_places
from reticent.auditing.metrics.intervals import shared_confidence
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import Subject
from reticent.core.corpus import Policy
from reticent.core.guarantee import Unit
from reticent.core.metric import (
    ASSOCIATION_SHARE,
    EXTRACTABILITY_CORRELATION,
    INFERENCE_ACCURACY,
    INFERENCE_ACCURACY_TRAINED,
    PII_PRECISION,
    PII_RECALL,
    RECONSTRUCTION_GAIN,
    RECONSTRUCTION_MEMBERSHIP_AUC,
    RECONSTRUCTION_TAB,
    RECONSTRUCTION_TOP1,
    RECONSTRUCTION_TOP5,
)
from reticent.core.model import TextModel
from reticent.core.sampling import Sampling
from reticent.data.kinds import canonical
from reticent.data.measurement import MeasurementTally, Rate

PEOPLE: Final = "names"  # finds people for prompts where the policy itself finds none
GENERATED_TOKENS: Final = 96
ASKED: Final = Sampling(max_tokens=16, top_k=40)
_VALUE: Final = 4  # tokens, roughly
_SUFFIX: Final = 15
_PREFIX: Final = 100
_GATHERED: Final = 100  # candidates of a place, roughly
_OF_TEXT: Final = (PII_RECALL.name, PII_PRECISION.name, ASSOCIATION_SHARE.name)
_OF_LOGPROBS: Final = (
    RECONSTRUCTION_TOP1.name,
    RECONSTRUCTION_TOP5.name,
    RECONSTRUCTION_TAB.name,
    RECONSTRUCTION_GAIN.name,
    INFERENCE_ACCURACY.name,
    INFERENCE_ACCURACY_TRAINED.name,
    EXTRACTABILITY_CORRELATION.name,
    RECONSTRUCTION_MEMBERSHIP_AUC.name,
)


@dataclass(frozen=True, slots=True)
class PersonalDataAttack:
    """Personal data that comes out of the model: extraction, reconstruction, inference, association."""

    policy_named: Callable[[str], Policy]

    name: ClassVar[str] = "pii"

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:
        """One line for all games; one more where log-probabilities are missing."""
        self.policy_named(settings.policy)  # an unknown policy is told before the work
        models = 1 + (subject.base is not None)
        targets = sizes.extraction_records
        asked = targets * sizes.draws * ASKED.max_tokens  # for the values of all pairs, or of all places, of a side
        generated = models * sizes.texts * GENERATED_TOKENS + (models + 1) * asked
        if subject.scoring_model is None:
            line = PlannedAttack(
                name=self.name, needs="text, a policy", n=sizes.texts, generated_tokens=generated, metrics=_OF_TEXT
            )
            reason = "the model returns text only"
            return line, skip("pii: reconstruction, inference", "log-probabilities", reason)
        before, inferred = min(mean, _PREFIX), sizes.choices * _VALUE + SHORTLIST * _SUFFIX
        each = 2 * (before + inferred) + 2 * (before + _GATHERED * (_VALUE + _SUFFIX)) + 6 * before
        line = PlannedAttack(
            name=self.name,
            needs="log-probabilities, a policy",
            n=targets,
            forward_tokens=round(targets * each),
            generated_tokens=generated + 2 * asked + targets * ASKED.max_tokens,
            metrics=(*_OF_TEXT, *_OF_LOGPROBS),
        )
        return (line,)

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:
        """Play every game that the access allows."""
        tagged = tag_sides(subject, settings, self.policy_named(settings.policy))
        pairs = chosen_pairs(tagged, settings, sizes.extraction_records, self.policy_named(PEOPLE))
        places = None
        if subject.scoring_model is not None:
            places = choose_places(subject, settings, tagged, sizes)
        setting = PiiSetting(
            unit=unit_of(subject),
            confidence=shared_confidence(
                settings.attack_confidence,
                intervals_of(subject, with_pairs=bool(pairs[0]), drawn=0 if places is None else len(places.drawn)),
            ),
            tagger=tagged.note,
        )
        emitted = _emitted(subject.model, tagged.tagger, settings, sizes)
        base = None if subject.base is None else _emitted(subject.base, tagged.tagger, settings, sizes)
        lengths = token_lengths(subject.model, [*tagged.training, *emitted.values])
        game = ExtractionGame(tagged.training, emitted, base, lengths)
        findings = list(extraction_findings(game, setting=setting, held_out=tagged.held_out))
        document: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "tagger": tagged.note}
        document["extraction"] = _extraction_to_json(game, setting, subject)
        if pairs[0]:
            mine, others = _associated(subject, tagged, settings, sizes, pairs)
            findings.append(association_finding(mine, others, setting=setting, draws=sizes.draws))
        context: dict[str, int] = {}
        if places is not None:
            measured = play_places(subject, settings, places, emitted, setting=setting, sizes=sizes)
            findings += measured.findings
            document |= measured.artefacts["places"]
            context = measured.context
        revealed = [
            {"attack": self.name, "kind": value.kind, "said": value.reveal()}
            for value in (game.emitted.values if settings.reveal else ())  # in the order in which they came
            if value in game.training
        ]
        return Measurement(tuple(findings), {"pii.json": document}, context, revealed)


def intervals_of(subject: Subject, *, with_pairs: bool, drawn: int) -> int:
    """How many intervals the games give that are played: the error is split over these.

    Decided by access and by the text alone: whether there are pairs of a person and a value, and for how many
    sorts of decoys there are enough values. A game whose outcome leaves it without a finding keeps its share.
    """
    of_extraction = 2 * (1 + (subject.base is not None))  # recall and precision, and beyond the base
    of_places = len(_OF_LOGPROBS) - 2 + drawn if subject.scoring_model is not None else 0
    return of_extraction + with_pairs + of_places


def tag_sides(subject: Subject, settings: AttackSettings, tagger: Policy) -> Tagged:
    """Both sides tagged, with what labels say of the tagger."""
    found = take_inventory(subject.training, tagger)
    if not len(found):
        raise NothingToAttack(f"the policy '{settings.policy}' finds nothing in the training records")
    held_out = take_inventory(subject.held_out, tagger)
    if not any(record.spans for record in found.records):
        note = f"policy '{settings.policy}': its recall was not measured, since no training record has labels"
        return Tagged(tagger, found, held_out, note)
    tally = MeasurementTally(tagger.name, confidence=settings.attack_confidence)
    for record, spans in zip(found.records, found.spans, strict=True):
        if record.spans:
            tally.add(record, spans)
    by_kind = tally.result().recall_by_kind
    sought = [rate for kind, rate in by_kind.items() if kind in set(map(canonical, found.kinds))]
    recall = Rate.pooled(sought, confidence=settings.attack_confidence)
    low, high = recall.interval
    blind = sorted(set(by_kind) - set(map(canonical, found.kinds)))
    note = f"policy '{settings.policy}': recall {low:.3f} to {high:.3f} on {recall.trials} labels of kinds it finds"
    note += f"; labels also name {', '.join(blind)}, which it never finds" if blind else ""
    return Tagged(tagger, PiiInventory(found.records, found.spans, miss_rate=1.0 - low), held_out, note)


def unit_of(subject: Subject) -> Unit:
    """The guarantee's unit, so that the two can be compared; a value without one."""
    guarantee = subject.guarantee
    is_countable = guarantee is not None and guarantee.unit in (Unit.RECORD, Unit.OWNER, Unit.SECRET)
    return guarantee.unit if guarantee is not None and is_countable else Unit.SECRET


def _emitted(model: TextModel, tagger: Policy, settings: AttackSettings, sizes: Sizes) -> EmittedValues:
    sampled = sample_texts(
        model,
        sizes.texts,
        sampling=Sampling(max_tokens=GENERATED_TOKENS, top_k=40),
        randomness=settings.randomness("PII texts"),
    )
    return tag_texts(sampled, tagger)


def chosen_pairs(
    tagged: Tagged, settings: AttackSettings, count: int, people: Policy
) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
    """At most `count` pairs of a person and a value of either side, none of the held-out ones in training text."""
    training, held_out = (associated_pairs(side, people=people) for side in (tagged.training, tagged.held_out))
    known = {(pair.name, pair.value) for pair in training}
    strangers = [pair for pair in held_out if (pair.name, pair.value) not in known]
    chosen = []
    for name, side in (("pairs", training), ("held-out pairs", strangers)):
        order = settings.randomness(name).permutation(len(side))[:count]
        chosen.append(tuple(side[place] for place in sorted(order.tolist())))
    return chosen[0], chosen[1]


def _associated(
    subject: Subject,
    tagged: Tagged,
    settings: AttackSettings,
    sizes: Sizes,
    pairs: tuple[tuple[Pair, ...], tuple[Pair, ...]],
) -> tuple[Association, Association | None]:
    """Answers to prompts with names of either side; of held-out text None where it holds no pair."""
    asking = Asking(tagged.tagger, ASKED, sizes.draws)

    def said(model: TextModel, side: tuple[Pair, ...], name: str) -> NDArray[np.bool_]:
        return asking.hits(model, side, Style.TEMPLATE, randomness=settings.randomness(name))

    mine, strangers = pairs
    base = None if subject.base is None else said(subject.base, mine, "answers on names")
    own = associate(mine, said(subject.model, mine, "answers on names"), base)
    if not strangers:
        return own, None
    return own, associate(strangers, said(subject.model, strangers, "answers on held-out names"))


def _extraction_to_json(game: ExtractionGame, setting: PiiSetting, subject: Subject) -> dict[str, Any]:
    """Rows and curves; numbers alone."""
    miss_rate = game.training.miss_rate
    groups = {
        "all": (game.total,),
        "kind": game.by_kind(),
        "duplication": game.by_duplication(),
        "length": game.by_length(),
    }
    document: dict[str, Any] = {
        name: [row.to_json(confidence=setting.confidence, miss_rate=miss_rate) for row in rows]
        for name, rows in groups.items()
    }
    document["over_tokens"] = [point.to_json() for point in game.over_tokens()]
    document["by_frequency"] = [point.to_json() for point in game.ranked()]
    if subject.scoring_model is not None:
        scores = emitted_likelihoods(subject.scoring_model, game.emitted)
        document["by_likelihood"] = [point.to_json() for point in game.ranked(scores)]
    return document


def policy_identity(name: str) -> list[str]:
    """The policy's name and a hash of every file that it names: a part of the key of what was measured before."""
    identity = [name]
    for part in re.split(r"[+,]", name.partition("\n")[0]):  # expressions of --pattern follow and name no file
        place = Path(part.partition(":")[2])
        if ":" in part:
            files = [place] if place.is_file() else sorted(each for each in place.rglob("*") if each.is_file())
            identity += [hashlib.blake2b(each.read_bytes(), digest_size=16).hexdigest() for each in files]
    return identity
