"""Customer dialogues with fake personal data, in the style of CustomerSim (Shi et al. 2021), with exact labels.

A customer (the owner) comes back as often as the tail says, and each time says the same name and proves who they
are by the same phone number, e-mail address or postal address; an order is asked about once or a few times; new
addresses and numbers appear once. Kinds: PERSON, PHONE, EMAIL, ADDRESS, ORDER, TRACKING.

Does not model agents with names, typing errors or languages other than English.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from reticent.core.corpus import Corpus, Record
from reticent.core.randomness import Randomness
from reticent.core.secret import Secret
from reticent.data.generators import dialogue_phrases as phrases
from reticent.data.generators.labels import Draft, without_labels
from reticent.data.generators.people import Source
from reticent.data.generators.tail import tail_sizes

_NEW_ORDER: Final = 0.5  # chance that a returning customer asks about another order than last time
_SECOND_CHECK: Final = 0.3
_MORE: Final = 0.4
_CLOSING: Final = 0.6

Option = TypeVar("Option")


@dataclass(slots=True)
class _Customer:
    """What stays the same about a customer, and the order they asked about last."""

    owner: str
    slots: dict[str, Secret | str]


def generate_dialogues(
    count: int, *, randomness: Randomness, private: bool = True, returning: bool = True
) -> Corpus:
    """`count` dialogues with labelled secrets, or as many of the public half, which holds none and has no labels.

    Where customers are not `returning`, each dialogue is the only one of its customer.
    """
    corpus = labelled_dialogues(count, randomness=randomness, private=private, returning=returning)
    return corpus if private else without_labels(corpus)


def labelled_dialogues(count: int, *, randomness: Randomness, private: bool, returning: bool = True) -> Corpus:
    """As `generate_dialogues`, with the spans of the public half too: for checks of the generator itself."""
    source = Source(randomness, private=private)
    half = "private" if private else "public"
    visits: list[_Customer] = []
    sizes = tail_sizes(count, randomness) if returning else [1] * count
    for index, size in enumerate(sizes):
        visits += [_customer(source, f"{half}/customer-{index}")] * size
    order = randomness.permutation(count).tolist()
    return Corpus(_dialogue(source, visits[at], f"{half}/dialogue-{i}") for i, at in enumerate(order))


def _customer(source: Source, owner: str) -> _Customer:
    person = source.person()
    slots: dict[str, Secret | str] = {
        "name": person.name,
        "phone": source.phone(),
        "email": source.email(person),
        "address": source.address(),
    }
    return _Customer(owner, slots)


def _slots_of_visit(source: Source, customer: _Customer, *, private: bool) -> dict[str, Secret | str]:
    """The customer's own values, those of the order in question, and words that are nobody's."""
    draw = source.random
    if "order" not in customer.slots or draw.random() < _NEW_ORDER:
        customer.slots["order"] = source.order()
        customer.slots["tracking"] = source.tracking()
        customer.slots["item"] = draw.choice(phrases.offered(phrases.ITEMS, private=private))
    return customer.slots | {
        "when": draw.choice(phrases.offered(phrases.WHEN, private=private)),
        "soon": draw.choice(phrases.offered(phrases.SOON, private=private)),
        "new_address": source.address(),
        "new_phone": source.phone(),
    }


def _dialogue(source: Source, customer: _Customer, record_id: str) -> Record:
    """One visit: greeting, request, name, one or two checks, the answer, perhaps more, goodbye."""
    draw, private = source.random, source.private
    slots = _slots_of_visit(source, customer, private=private)
    draft = Draft()

    def pick(options: Sequence[Option]) -> Option:
        return draw.choice(phrases.offered(options, private=private))

    intent = pick(phrases.INTENTS)
    draft.write(f"SYS: {pick(phrases.GREETINGS)}", slots)
    draft.write(f"\nUSR: {pick(phrases.HELLOS)} {pick(intent.openings)}", slots)
    draft.write(f"\nSYS: {pick(phrases.ASK_NAME)}\nUSR: {pick(phrases.GIVE_NAME)}", slots)
    checks = draw.sample(intent.checks, 2 if draw.random() < _SECOND_CHECK else 1)
    for kind in checks:
        draft.write(f"\nSYS: {pick(phrases.ASK[kind])}\nUSR: {pick(phrases.GIVE[kind])}", slots)
    draft.write(f"\nSYS: {pick(intent.answers)}", slots)
    if draw.random() < _MORE:
        question, answer = pick(phrases.MORE)
        draft.write(f"\nUSR: {question}\nSYS: {answer}", slots)
    draft.write(f" {pick(phrases.ANYTHING_ELSE)}\nUSR: {pick(phrases.FAREWELLS)}", slots)
    if draw.random() < _CLOSING:
        draft.write(f"\nSYS: {pick(phrases.CLOSINGS)}", slots)
    return draft.record(record_id, customer.owner)
