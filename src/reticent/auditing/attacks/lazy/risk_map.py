"""The risk map: which training records a lazy attacker would get, and which of those the model has memorised.

For every training, held-out and generated record two numbers (Stock et al. 2022, figure 4 and table 1):

    x  log-probability that the chosen sampler emits the text            high: it will be seen in few samples
    y  calibrated loss φ = loss(target) − loss(reference), in nats       low: known to the target, not to others

Neither axis alone says what an attacker gains. Likely texts are often commonplaces, and φ is a sum over tokens: of
a long text it is large though nobody will ever see that text. What is **gained** from a text is the part of its
chance that is due to its being in the training data:

    gain = log(p − p₀),   log p = s x,   log p₀ = s (x + φ + T μ)                             −∞ where p ≤ p₀

p₀ is the chance of a stranger: what the reference gives to the text, raised by μ nats for each of its T tokens. A
model that was trained on dialogues says all dialogues better than its reference does; μ is the mean of −φ/T over
the held-out texts nearest in length (0 where they lose, and without any). Texts are ranked by the gain of a stretch
of √(15 T) tokens at the text's mean chance of a token, s = min(1, √(15/T)): between the whole text and a phrase of
15 tokens, their geometric mean. By the whole a long text comes last though it is completed for anyone who knows the
beginning, and by the phrase alone it comes first though no sample ever shows it. Texts without gain, commonplaces,
come last, by their chance.

So short texts come first where they are likeliest, and long ones where they are known nearly by heart. Equal texts
have one row, with the number of their copies.

Where a training proved an ε of each text by its own gradients (`core.evidence.individual`), the measured chance
stands beside a proved one. A run that ends with such an ε, and whose attacker sees the text in n samples, has at
most the chance

    e^ε p₀(n) + δ,   p₀(n) = 1 − (1 − p₀)^n

with the p₀ of above for whole texts, which is an estimate of what the same training would emit without the text.

Everything that leaves is numbers and ids, never text. Plain sampling costs one forward of each model; other
samplers cost what `lazy` says. Records without a token have no place in the map and are counted as `skipped`;
records longer than the model's context are priced by as many first tokens as fit and counted as `cut`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.attacks.lazy.emission import calibrated_loss, emission_log_prob, log_chance_in_samples
from reticent.core.arrays import Floats
from reticent.core.corpus import Record
from reticent.core.document import JsonObject, as_json, number_to_json
from reticent.core.evidence.individual import IndividualBounds
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.metric import EMITTED_SHARE
from reticent.core.model import Access, LanguageModel
from reticent.core.sampling import Sampling
from reticent.core.statistics.proportion import Share

SCHEMA_VERSION: Final = 2
TRAINING: Final = "training"
HELD_OUT: Final = "held-out"
GENERATED: Final = "generated"
_NEIGHBOURS: Final = 50  # held-out texts of about a length
_PHRASE: Final = 15  # tokens


@dataclass(frozen=True, slots=True, eq=False)
class RiskGroup:
    """Records of one kind: ids, and arrays [n] in their order. Log-probabilities are of whole texts, in nats.

    `emission` is under the sampler, `log_probs` and `reference_log_probs` under the models themselves; records of
    one text share a number in `texts`, and records of one owner one in `owners`, counted from 0.
    """

    name: str
    ids: tuple[str, ...]
    texts: NDArray[np.int64]
    owners: NDArray[np.int64]
    tokens: NDArray[np.int64]
    emission: Floats
    log_probs: Floats
    reference_log_probs: Floats
    skipped: int
    cut: int
    epsilons: Floats | None = None  # proved of each text with all of its copies

    @property
    def calibrated(self) -> Floats:
        """φ of each whole text [n], in nats."""
        return calibrated_loss(self.log_probs, self.reference_log_probs)

    @property
    def calibrated_per_token(self) -> Floats:
        """φ per token of the target model [n]."""
        return np.asarray(self.calibrated / self.tokens)

    @property
    def first(self) -> NDArray[np.int64]:
        """The place of the first record of each distinct text [texts], in order of appearance."""
        return np.asarray(np.unique(self.texts, return_index=True)[1], dtype=np.int64)

    @property
    def copies(self) -> NDArray[np.int64]:
        """How many records of the group have each record's text [n]."""
        return np.asarray(np.bincount(self.texts)[self.texts], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class RiskRow(JsonObject):
    """A text at risk: by the id of its first record, with its numbers and how many records have it."""

    id: str
    tokens: int
    emission: float
    log_chance: float
    calibrated: float
    gain: float
    copies: int
    epsilon: float | None = None
    log_proved: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class RiskMap:
    """Groups of records under one target, reference and sampler; `samples` is how often the attacker draws."""

    groups: tuple[RiskGroup, ...]
    sampling: Sampling
    samples: int
    model: str
    reference: str
    delta: float = 0.0  # of the ε of single texts, where the map has them

    def group(self, name: str) -> RiskGroup:
        """The group of that name."""
        for group in self.groups:
            if group.name == name:
                return group
        raise KeyError(f"the risk map has no group {name}")

    def has(self, name: str) -> bool:
        """Whether the map has records of that name."""
        return any(group.name == name and group.ids for group in self.groups)

    def log_chance(self, name: str) -> Floats:
        """log of each record's chance [n] to appear at least once in `samples` draws."""
        return log_chance_in_samples(self.group(name).emission, self.samples)

    def log_proved(self, name: str) -> Floats | None:
        """log of the chance [n] that is proved at most; None where nothing is proved of single texts."""
        group = self.group(name)
        if group.epsilons is None:
            return None
        usual = _usual_gains(group, self._strangers)
        without = np.minimum(0.0, group.emission + group.calibrated + group.tokens * usual)  # log p₀ [n]
        bound = group.epsilons + log_chance_in_samples(without, self.samples)
        return np.minimum(0.0, np.logaddexp(bound, np.log(self.delta)))

    def gain(self, name: str) -> Floats:
        """log of the chance [n] of one sample that is due to each text's being known; −inf for a stranger's."""
        return gained(self.group(name), self._strangers)

    @property
    def _strangers(self) -> RiskGroup | None:
        return self.group(HELD_OUT) if self.has(HELD_OUT) else None

    def ranks(self, name: str) -> NDArray[np.int64]:
        """The place [n] of each record's text among the distinct texts of its group, 0 the one at most risk."""
        group = self.group(name)
        gain, first = gained(group, self._strangers, of_stretch=True), group.first
        order = first[np.lexsort((-group.emission[first], -gain[first]))]
        places = np.empty(len(first), dtype=np.int64)
        places[group.texts[order]] = np.arange(len(order))
        return places[group.texts]

    def worst(self, count: int = 20, *, name: str = TRAINING) -> tuple[RiskRow, ...]:
        """The texts of a group, the one at most risk first."""
        group = self.group(name)
        gain, calibrated, chances, copies = self.gain(name), group.calibrated, self.log_chance(name), group.copies
        order = np.unique(self.ranks(name), return_index=True)[1][:count]
        proved = self.log_proved(name)
        return tuple(
            RiskRow(
                group.ids[place],
                int(group.tokens[place]),
                float(group.emission[place]),
                float(chances[place]),
                float(calibrated[place]),
                float(gain[place]),
                int(copies[place]),
                None if group.epsilons is None else float(group.epsilons[place]),
                None if proved is None else float(proved[place]),
            )
            for place in order.tolist()
        )

    def to_json(self) -> dict[str, Any]:
        """A document for a report to draw: ids and numbers, no text."""
        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "reference": self.reference,
            "sampling": asdict(self.sampling),
            "samples": self.samples,
            "groups": [
                _group_to_json(group, self.log_chance(group.name), self.ranks(group.name))
                | self._proved_to_json(group)
                for group in self.groups
            ],
            "worst": as_json(self.worst()) if self.has(TRAINING) else [],
        }

    def _proved_to_json(self, group: RiskGroup) -> dict[str, Any]:
        """What is proved of single texts, where anything is."""
        proved = self.log_proved(group.name)
        if group.epsilons is None or proved is None:
            return {}
        return {"epsilon": _numbers(group.epsilons), "log_proved": _numbers(proved)}


def gained(group: RiskGroup, held_out: RiskGroup | None, *, of_stretch: bool = False) -> Floats:
    """log of the chance [n] that is due to each text's being known: of the whole text, or of a stretch of it."""
    usual = _usual_gains(group, held_out)
    part = np.minimum(1.0, np.sqrt(_PHRASE / group.tokens)) if of_stretch else np.ones(len(group.ids))
    chance, excess = part * group.emission, part * (-group.calibrated - group.tokens * usual)  # log p, log p/p₀
    gain = np.full(len(group.ids), -np.inf)
    known = excess > 0.0
    gain[known] = chance[known] + np.log(-np.expm1(-excess[known]))
    return gain


def _usual_gains(group: RiskGroup, held_out: RiskGroup | None) -> Floats:
    """μ for each record [n]: what strangers of its length gain against the reference on average, in nats a token.

    At least 0, and 0 where there are no strangers.
    """
    if held_out is None:
        return np.zeros(len(group.ids))
    rates = -held_out.calibrated_per_token
    possible = np.isfinite(rates)
    if not possible.any():
        return np.zeros(len(group.ids))
    lengths, rates = np.log(held_out.tokens[possible]), rates[possible]
    usual: dict[int, float] = {}
    for length in np.unique(group.tokens).tolist():
        near = np.argsort(np.abs(lengths - np.log(length)), kind="stable")[:_NEIGHBOURS]
        usual[length] = max(0.0, float(rates[near].mean()))
    return np.array([usual[length] for length in group.tokens.tolist()])


def draw_risk_map(
    model: LanguageModel,
    reference: LanguageModel,
    *,
    groups: Mapping[str, Sequence[Record]],
    sampling: Sampling | None = None,
    samples: int = 1_000_000,
    proved: IndividualBounds | None = None,
) -> RiskMap:
    """Price every record of every group, named "training", "held-out", "generated" or as you like.

    `proved` is what the training proved of its records, if it knows them all.
    """
    if samples < 1:
        raise ValueError("the attacker draws at least one sample")
    sampler = sampling or Sampling()
    priced = {name: _price(model, reference, name, records, sampler) for name, records in groups.items()}
    if proved is not None and TRAINING in priced:
        priced[TRAINING] = _with_proved(priced[TRAINING], proved)
    delta = 0.0 if proved is None else proved.delta
    return RiskMap(tuple(priced.values()), sampler, samples, model.name, reference.name, delta)


def _with_proved(group: RiskGroup, proved: IndividualBounds) -> RiskGroup:
    """The group with the ε of each text; as it is where some record was not in the training."""
    known = [proved.records.get(name) for name in group.ids]
    if any(each is None for each in known):
        return group
    return replace(group, epsilons=np.array([each.of_text for each in known if each is not None]))


def _price(
    model: LanguageModel, reference: LanguageModel, name: str, records: Sequence[Record], sampling: Sampling
) -> RiskGroup:
    """The numbers of one group: one forward of each model where sampling is plain."""
    encoded = model.encode([record.text for record in records])
    room = None if model.context_length is None else model.context_length - 1
    kept = [place for place, sequence in enumerate(encoded) if sequence]
    sequences = [encoded[place][:room] for place in kept]
    texts = [records[place].text for place in kept]
    cut = [place for place, index in enumerate(kept) if len(encoded[index]) > len(sequences[place])]
    # Both models must price the same text; tokenizers may differ, so a cut text is written out again.
    for place, text in zip(cut, model.decode([sequences[place] for place in cut]), strict=True):
        texts[place] = text
    plain = emission_log_prob(model, sequences, Sampling())
    return RiskGroup(
        name=name,
        ids=tuple(records[place].id for place in kept),
        texts=_numbered([records[place].text for place in kept]),
        owners=_numbered([records[place].owner for place in kept]),
        tokens=np.array([len(sequence) for sequence in sequences], dtype=np.int64),
        emission=plain if sampling.is_plain else emission_log_prob(model, sequences, sampling),
        log_probs=plain,
        reference_log_probs=emission_log_prob(reference, reference.encode(texts), Sampling()),
        skipped=len(records) - len(kept),
        cut=len(cut),
    )


def _numbered(names: Sequence[str]) -> NDArray[np.int64]:
    """A number for each [n], equal ones alike, from 0 in order of appearance."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)


def emission_finding(risk_map: RiskMap, *, chance: float = 0.5, confidence: float = 0.95) -> Finding:
    """Share of distinct training texts that appear in the attacker's samples with at least this chance.

    A text that several records have is counted once, for the owner of its first record. The interval is of the
    share among texts like these. The null is the upper limit of the held-out group's share, where there is one:
    what a model emits of text it never saw.
    """
    if not 0.0 < chance <= 1.0:
        raise ValueError(f"a chance in (0, 1] is needed, found {chance}")
    share = _emitted(risk_map, TRAINING, chance)
    hits, trials = share.hits, share.trials
    if trials == 0:
        raise ValueError("no training record is not a finding")
    low, high = share.interval(confidence=confidence)
    null, notes = None, [share.note]
    if risk_map.has(HELD_OUT):
        same = _emitted(risk_map, HELD_OUT, chance)
        # The upper limit, so that a small held-out group cannot make chance look like memory.
        null = same.interval(confidence=confidence)[1]
        notes.append(f"held-out texts: {same.hits} of {same.trials}; the null is the upper limit of their share")
    return Finding(
        attack="lazy reconstruction",
        metric=EMITTED_SHARE.name,
        value=hits / trials,
        low=low,
        high=high,
        confidence=confidence,
        n=trials,
        measure=f"share of distinct training texts with chance {chance:g} or more in {risk_map.samples:,} samples",
        unit=Unit.RECORD,
        access=Access.LOGPROBS,
        null=null,
        notes=(f"{hits} of {trials} distinct texts", *notes),
        could_pass=share.could_pass(null, confidence=confidence),
    )


def _emitted(risk_map: RiskMap, name: str, chance: float) -> Share:
    """Distinct texts of a group that appear with at least this chance, by the owner of their first record."""
    group, first = risk_map.group(name), risk_map.group(name).first
    which = risk_map.log_chance(name) >= np.log(chance)
    return Share.of(which[first].tolist(), group.owners[first].tolist())


def _group_to_json(group: RiskGroup, log_chance: Floats, ranks: NDArray[np.int64]) -> dict[str, Any]:
    return {
        "name": group.name,
        "ids": list(group.ids),
        "owners": group.owners.tolist(),
        "tokens": group.tokens.tolist(),
        "emission": _numbers(group.emission),
        "log_chance": _numbers(log_chance),
        "log_probs": _numbers(group.log_probs),
        "calibrated": _numbers(group.calibrated),
        "rank": ranks.tolist(),
        "skipped": group.skipped,
        "cut": group.cut,
    }


def _numbers(values: Floats) -> list[float | str | None]:
    return [number_to_json(value) for value in values.tolist()]
