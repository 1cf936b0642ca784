"""Which records an attack looks at: drawn by the seed, every choice equally likely, never by what was measured."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.metrics.roc import Owners
from reticent.auditing.settings import AttackSettings
from reticent.auditing.subject import Subject
from reticent.core.corpus import Corpus, Record
from reticent.core.randomness import Randomness


def sample_records(corpus: Corpus, count: int, *, randomness: Randomness) -> Corpus:
    """At most `count` records, every choice equally likely, in their order."""
    if len(corpus) <= count:
        return corpus
    places = sorted(randomness.permutation(len(corpus))[:count].tolist())
    return Corpus(corpus[place] for place in places)


def sampled_sides(subject: Subject, settings: AttackSettings, count: int) -> tuple[Corpus, Corpus]:
    """At most `count` training and held-out records, by the seed."""
    return (
        sample_records(subject.training, count, randomness=settings.randomness("training records")),
        sample_records(subject.held_out, count, randomness=settings.randomness("held-out records")),
    )


def count_sides(subject: Subject, most: int) -> int:
    """How many records `sampled_sides` gives, both sides together."""
    return min(most, len(subject.training)) + min(most, len(subject.held_out))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Targets:
    """Members and non-members with their labels [n]."""

    records: tuple[Record, ...]
    is_member: NDArray[np.bool_]

    @property
    def texts(self) -> list[str]:
        """The texts, in order."""
        return [record.text for record in self.records]

    @property
    def owners(self) -> list[str]:
        """The owner of each."""
        return [record.owner for record in self.records]

    def clusters(self, settings: AttackSettings) -> Owners | None:
        """The owners, where they are what is independent; None where each has one target, or coins chose records.

        Where every record was included by its own coin, membership is independent of the owner: chance differences
        between the sides are those of independent records or smaller. Such coins leave owners on both sides; where
        there are none, owners were drawn and not records, whatever was said.
        """
        owners = Owners.of(self.owners, self.is_member)
        return None if owners is not None and settings.by_coin and owners.has_mixed else owners

    def sides(self, settings: AttackSettings) -> tuple[int, int]:
        """Independent members and non-members that say as much as these."""
        owners = self.clusters(settings)
        if owners is not None:
            return owners.effective
        members = int(self.is_member.sum())
        return members, len(self.records) - members


def membership_targets(subject: Subject, settings: AttackSettings, count: int) -> Targets:
    """Equally many of either side at most; with coins, a sample of all, so that the coins stay independent.

    With coins, a text that several records have is no target on either side. Which of its records are left out of
    `Subject` depends on their coins, so the coins of the others would no longer be fair.
    """
    members = Corpus(record for record in subject.training if record.id not in subject.repeated)
    if settings.by_coin:
        said = Counter(subject.held_out.texts)
        pairs = [(record, True) for record in members if record.id not in subject.twins]
        pairs += [(record, False) for record in subject.held_out if said[record.text] == 1]
        order = settings.randomness("targets").permutation(len(pairs))[: 2 * count]
        chosen = [pairs[place] for place in sorted(order.tolist())]
    else:
        inside = sample_records(members, count, randomness=settings.randomness("training records"))
        outside = sample_records(subject.held_out, count, randomness=settings.randomness("held-out records"))
        chosen = [*((record, True) for record in inside), *((record, False) for record in outside)]
    return Targets(tuple(record for record, _ in chosen), np.array([inside for _, inside in chosen]))


def count_targets(subject: Subject, most: int) -> tuple[int, int]:
    """How many members and non-members there are, at most `most` of either."""
    return min(most, len(subject.training) - len(subject.repeated)), min(most, len(subject.held_out))


def revealed_records(corpus: Corpus, ids: Iterable[str], *, attack: str) -> list[dict[str, Any]]:
    """Entries of revealed.json for the records of these ids, in the order of the ids."""
    known = {record.id: record for record in corpus}
    return [{"attack": attack, "record": name, "text": known[name].text} for name in ids]
