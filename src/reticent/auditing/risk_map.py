"""The risk map: which training records a lazy attacker would get, and which of those the model has memorised.

For every training, held-out and generated record two numbers (Stock et al. 2022, figure 4 and table 1):

    x  log-probability that the chosen sampler emits the text            high: it will be seen in few samples
    y  calibrated loss φ = loss(target) − loss(reference), in nats       low: known to the target, not to others

The **worst corner** is high x and low y. A record's place in it is the lesser of its two standings among its group
(shares of records that are no likelier, and no more memorised; impossible records stand at 0): only what is
extreme in both is near 1.

Everything that leaves is numbers and ids, never text. Plain sampling costs one forward of each model; other
samplers cost what `lazy` says. Records without a token have no place in the map and are counted as `skipped`;
records longer than the model's context are priced by as many first tokens as fit and counted as `cut`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.intervals import clopper_pearson
from reticent.auditing.lazy import calibrated_loss, emission_log_prob, log_chance_in_samples
from reticent.core.corpus import Record
from reticent.core.document import number_to_json
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.model import Access, LanguageModel
from reticent.core.sampling import Sampling

SCHEMA_VERSION: Final = 1
TRAINING: Final = "training"
HELD_OUT: Final = "held-out"
GENERATED: Final = "generated"

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RiskGroup:
    """Records of one kind: ids, and arrays [n] in their order. Log-probabilities are of whole texts, in nats.

    `emission` is under the sampler, `log_probs` and `reference_log_probs` under the models themselves.
    """

    name: str
    ids: tuple[str, ...]
    tokens: NDArray[np.int64]
    emission: Floats
    log_probs: Floats
    reference_log_probs: Floats
    skipped: int
    cut: int

    @property
    def calibrated(self) -> Floats:
        """φ of each whole text [n], in nats."""
        return calibrated_loss(self.log_probs, self.reference_log_probs)

    @property
    def calibrated_per_token(self) -> Floats:
        """φ per token of the target model [n]."""
        return np.asarray(self.calibrated / self.tokens)

    @property
    def standing(self) -> Floats:
        """Place in the worst corner [n], 0 to 1: the lesser of the two shares of records at no more risk."""
        return np.minimum(_share_at_or_below(self.emission), _share_at_or_below(-self.calibrated))


@dataclass(frozen=True, slots=True)
class RiskRow:
    """A record of the worst corner: by id, with its numbers."""

    id: str
    tokens: int
    emission: float
    log_chance: float
    calibrated: float
    standing: float


@dataclass(frozen=True, slots=True, eq=False)
class RiskMap:
    """Groups of records under one target, reference and sampler; `samples` is how often the attacker draws."""

    groups: tuple[RiskGroup, ...]
    sampling: Sampling
    samples: int
    model: str
    reference: str

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

    def worst(self, count: int = 20, *, name: str = TRAINING) -> tuple[RiskRow, ...]:
        """The worst corner of a group, the worst first; equal standings by their chance."""
        group = self.group(name)
        standing, calibrated, chances = group.standing, group.calibrated, self.log_chance(name)
        order = np.lexsort((-group.emission, -standing))[:count]
        return tuple(
            RiskRow(
                group.ids[place],
                int(group.tokens[place]),
                float(group.emission[place]),
                float(chances[place]),
                float(calibrated[place]),
                float(standing[place]),
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
            "groups": [_group_to_json(group, self.log_chance(group.name)) for group in self.groups],
            "worst": [_row_to_json(row) for row in self.worst()] if self.has(TRAINING) else [],
        }


def draw_risk_map(
    model: LanguageModel,
    reference: LanguageModel,
    *,
    groups: Mapping[str, Sequence[Record]],
    sampling: Sampling | None = None,
    samples: int = 1_000_000,
) -> RiskMap:
    """Price every record of every group; names as `TRAINING`, `HELD_OUT`, `GENERATED`, any others allowed."""
    if samples < 1:
        raise ValueError("the attacker draws at least one sample")
    sampler = sampling or Sampling()
    return RiskMap(
        tuple(_price(model, reference, name, records, sampler) for name, records in groups.items()),
        sampler,
        samples,
        model.name,
        reference.name,
    )


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
        tokens=np.array([len(sequence) for sequence in sequences], dtype=np.int64),
        emission=plain if sampling.is_plain else emission_log_prob(model, sequences, sampling),
        log_probs=plain,
        reference_log_probs=emission_log_prob(reference, reference.encode(texts), Sampling()),
        skipped=len(records) - len(kept),
        cut=len(cut),
    )


def emission_finding(
    risk_map: RiskMap, *, chance: float = 0.5, confidence: float = 0.95, unit: Unit = Unit.RECORD
) -> Finding:
    """Share of training records that appear in the attacker's samples with at least this chance.

    The interval is of the share among records like these. The null is the upper limit of the held-out group's
    share, where there is one: what a model emits of text it never saw.
    """
    if not 0.0 < chance <= 1.0:
        raise ValueError(f"a chance in (0, 1] is needed, found {chance}")
    hits = _emitted(risk_map, TRAINING, chance)
    trials = len(risk_map.group(TRAINING).ids)
    if trials == 0:
        raise ValueError("no training record is not a finding")
    low, high = clopper_pearson(hits, trials, confidence=confidence)
    null, notes = None, []
    if risk_map.has(HELD_OUT):
        others = len(risk_map.group(HELD_OUT).ids)
        same = _emitted(risk_map, HELD_OUT, chance)
        # The upper limit, so that a small held-out group cannot make chance look like memory.
        null = clopper_pearson(same, others, confidence=confidence)[1]
        notes.append(f"held-out records: {same} of {others}; the null is the upper limit of their share")
    return Finding(
        attack="lazy reconstruction",
        metric="emitted_share",
        value=hits / trials,
        low=low,
        high=high,
        confidence=confidence,
        n=trials,
        measure=f"share of training records with chance {chance:g} or more in {risk_map.samples:,} samples",
        unit=unit,
        access=Access.LOGPROBS,
        null=null,
        notes=(f"{hits} of {trials} records", *notes),
    )


def _emitted(risk_map: RiskMap, name: str, chance: float) -> int:
    """Records of a group that appear with at least this chance."""
    return int((risk_map.log_chance(name) >= np.log(chance)).sum())


def _share_at_or_below(values: Floats) -> Floats:
    """Share of the other values that each is at least as large as [n]; 1 for all largest ones, 0 for −inf."""
    if len(values) < 2:
        return np.ones(len(values))
    below = np.searchsorted(np.sort(values), values, side="right") - 1
    return np.where(np.isneginf(values), 0.0, below / (len(values) - 1))


def _row_to_json(row: RiskRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "tokens": row.tokens,
        "emission": number_to_json(row.emission),
        "log_chance": number_to_json(row.log_chance),
        "calibrated": number_to_json(row.calibrated),
        "standing": row.standing,
    }


def _group_to_json(group: RiskGroup, log_chance: Floats) -> dict[str, Any]:
    return {
        "name": group.name,
        "ids": list(group.ids),
        "tokens": group.tokens.tolist(),
        "emission": _numbers(group.emission),
        "log_chance": _numbers(log_chance),
        "log_probs": _numbers(group.log_probs),
        "calibrated": _numbers(group.calibrated),
        "skipped": group.skipped,
        "cut": group.cut,
    }


def _numbers(values: Floats) -> list[float | str | None]:
    return [number_to_json(value) for value in values.tolist()]
