"""What an audit looks at: the model, the base it was trained from, its text, the canaries, and what was proved.

Targets are made comparable before any attack sees them: planted copies of canaries are left out of the training
records (their template alone would tell members from non-members), and held-out records with the text of a training
record are left out (they are not non-members). How many were left out is said in `notes`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from reticent.core.corpus import Corpus
from reticent.core.errors import ConfigError
from reticent.core.evidence.individual import IndividualBounds
from reticent.core.finding import Finding
from reticent.core.guarantee import Guarantee, Unit
from reticent.core.model import Access, LanguageModel, TextModel
from reticent.core.printing.numbers import counted
from reticent.core.secret import Canary
from reticent.data.coin_canaries import CoinKey

_SCHEMES: Final = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """Where a model stands, what was proved of it, and what it was trained from (None where nobody says).

    `other_guarantees` are further statements of the same training by name, `recipe` its configuration, `individual`
    what it proved of each record.
    """

    source: str
    guarantee: Guarantee | None = None
    started_from: str | None = None
    other_guarantees: dict[str, Guarantee] = field(default_factory=dict)
    recipe: dict[str, Any] | None = None
    measured: tuple[Finding, ...] = ()  # by the training of itself
    individual: IndividualBounds | None = None


def is_remote(source: str) -> bool:
    """Whether a model is named by an address."""
    return source.lower().startswith(_SCHEMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """All that an audit looks at.

    `coins` are canaries that were each planted or left out by a coin. `planted` is the most units of a kind that
    one canary stands in; `repeated` are ids of training records whose text another one has as well: a promise for
    one record says less of them; `twins` are ids of those whose text a held-out record had, which was left out.
    `other_guarantees` are further ones of the same model by name, `recipe` the configuration that trained it,
    `measured` what the training found of itself, `individual` what it proved of each record.
    """

    model: TextModel
    base: LanguageModel | None
    training: Corpus
    held_out: Corpus
    canaries: tuple[Canary, ...] = ()
    coins: CoinKey | None = None
    planted: dict[Unit, int]
    repeated: frozenset[str] = frozenset()
    twins: frozenset[str] = frozenset()
    guarantee: Guarantee | None = None
    other_guarantees: dict[str, Guarantee] = field(default_factory=dict)
    recipe: dict[str, Any] | None = field(default=None, repr=False)
    measured: tuple[Finding, ...] = ()
    individual: IndividualBounds | None = None
    notes: tuple[str, ...] = ()

    @property
    def scoring_model(self) -> LanguageModel | None:
        """The model as one that gives log-probabilities; None where only its text is seen."""
        model = self.model
        # By access first: a server of text alone refuses what the check of the protocol would look at.
        return model if model.access >= Access.LOGPROBS and isinstance(model, LanguageModel) else None

    @property
    def secret_unit(self) -> Unit:
        """In which unit findings on canaries are stated: the guarantee's, where the corpus says how many it was."""
        if self.guarantee is not None and self.guarantee.unit in self.planted:
            return self.guarantee.unit
        return Unit.SECRET

    @property
    def has_owners(self) -> bool:
        """Whether training records name owners other than themselves."""
        return any(record.owner != record.id for record in self.training)

    @property
    def splits_owners(self) -> bool:
        """Whether some owner has training and held-out records."""
        return not set(self.training.owners).isdisjoint(self.held_out.owners)


def gives_distributions(model: TextModel) -> bool:
    """Whether a model that gives log-probabilities also gives whole next-token distributions."""
    return bool(getattr(model, "gives_distributions", True))


def make_subject(
    model: TextModel,
    base: LanguageModel | None,
    *,
    training: Corpus,
    held_out: Corpus,
    canaries: Sequence[Canary] = (),
    coins: CoinKey | None = None,
    place: ModelPlace | None = None,
) -> Subject:
    """The subject with its targets made comparable; `place` tells what was proved of the model."""
    place = place or ModelPlace("")
    # For each canary the numbers of the training records that hold its text.
    holders = [
        [number for number, record in enumerate(training) if text in record.text]
        for text in (canary.text() for canary in canaries)
    ]
    copies = {number for numbers in holders for number in numbers}
    tossed = _checked_coins(coins, training)
    copies |= {number for number, record in enumerate(training) if record.text in tossed}
    members = Corpus(record for number, record in enumerate(training) if number not in copies)
    known = Counter(record.text for record in training)
    repeated = frozenset(record.id for record in members if known[record.text] > 1)
    others = Corpus(record for record in held_out if record.text not in known and record.text not in tossed)
    said_outside = set(held_out.texts)
    twins = frozenset(record.id for record in members if record.text in said_outside)
    notes = []
    if left_out := len(training) - len(members):
        copied = counted(left_out, "planted copy", "planted copies")
        notes.append(f"attacks on records leave out {copied} of canaries")
    if left_out := len(held_out) - len(others):
        notes.append(f"left out {counted(left_out, 'held-out record')} with the text of a training record")
    if not members or not others:
        raise ConfigError(
            "an audit needs training and held-out records",
            found=f"{len(members)} and {len(others)}, canaries and copies left out",
            hint="hold out text of the same kind that the model never saw",
        )
    if repeated:
        twice = counted(len(repeated), "training record")
        notes.append(f"membership does not attack {twice} with the text of another training record")
    if is_remote(place.source):
        how = "whole records" if model.access >= Access.LOGPROBS else "beginnings of records"
        seen = "its scores and its text are seen" if model.access >= Access.LOGPROBS else "only its text is seen"
        notes.append(f"{how} are sent to the server, and {seen}")
    planted = _planted(training, holders)
    if canaries and not planted:
        notes.append("no canary of the key is in the training text: findings on them have no ceiling")
    return Subject(
        model=model,
        base=base,
        training=members,
        held_out=others,
        canaries=tuple(canaries),
        coins=coins,
        planted=planted,
        repeated=repeated,
        twins=twins,
        guarantee=place.guarantee,
        other_guarantees=place.other_guarantees,
        recipe=place.recipe,
        measured=place.measured,
        individual=place.individual,
        notes=tuple(notes),
    )


def _checked_coins(coins: CoinKey | None, training: Corpus) -> frozenset[str]:
    """The texts of a key with coins; refused where the training text contradicts its coins."""
    if coins is None:
        return frozenset()
    known = frozenset(training.texts)
    if any((text in known) != bool(coin) for text, coin in zip(coins.texts, coins.is_member, strict=True)):
        raise ConfigError(
            "the training text does not contain the canaries that the key's coins kept",
            hint="name the corpus and the key that one call of plant --audit wrote",
        )
    return frozenset(coins.texts)


def _planted(training: Corpus, holders: Sequence[Sequence[int]]) -> dict[Unit, int]:
    """The most records and owners that hold one canary; empty where some canary is in no record."""
    if not holders or not all(holders):
        return {}
    most = max(len(numbers) for numbers in holders)
    by_owner = max(len({training[number].owner for number in numbers}) for numbers in holders)
    # A promise for one secret in one record composes over the records that hold it, as one for records does; where
    # training kept one copy, `Guarantee.units_of_secret` says so.
    return {Unit.RECORD: most, Unit.SECRET: most, Unit.OWNER: by_owner}
