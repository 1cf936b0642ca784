"""Prompts with names: who is who, what is asked in each style, and what counts as memory."""

import pytest

from reticent.auditing.attacks.personal_data.association import (
    Asking,
    Style,
    associate,
    is_guessable,
    prompts_of,
)
from reticent.auditing.attacks.personal_data.findings import PiiSetting, association_finding, prompted_finding
from reticent.auditing.attacks.personal_data.inventory import take_inventory
from reticent.auditing.attacks.personal_data.pairs import Aliases, associated_pairs, is_alias
from reticent.auditing.attacks.personal_data.prompted import PromptedAttack, ask_all, compared
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import make_subject
from reticent.core.corpus import Corpus, Record, Span
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.core.secret import Secret
from reticent.data.policies.combined import Dictionary
from reticent.data.policies.words.capitals import CapitalRuns
from reticent.runs.policies.by_name import policy_named
from tests.auditing.attacks.personal_data.small_models import Telling, names

PERSONS = names(0, 60)
CODES = [f"0155 5{place:02d}" for place in range(60)]
BOOK = dict(zip(PERSONS, CODES, strict=True))
FINDS = Dictionary(dict.fromkeys(PERSONS, "PERSON") | dict.fromkeys(CODES, "PHONE"))


def record(number: int, name: str, value: str, *, kind: str = "PHONE", between: str = " has ") -> Record:
    text = f"case {number:03d}: {name}{between}{value}"
    at = text.index(name)
    end = len(text)
    spans = (Span(at, at + len(name), "PERSON"), Span(end - len(value), end, kind))
    return Record(f"r{number}", text, spans=spans)


def book(first: int, count: int) -> Corpus:
    chosen = list(BOOK.items())[first : first + count]
    return Corpus(record(first + place, name, value) for place, (name, value) in enumerate(chosen))


def told(prompt: str, *, of: list[str]) -> str:
    """The number of the last of these people that the last line names, or nothing of use."""
    last = prompt.rsplit("\n", 1)[-1]
    named = [name for name in of if name in last]
    return f" {BOOK[named[-1]]}" if named else " unknown"


@pytest.mark.parametrize(
    ("short", "full", "same"),
    [
        ("J. Doe", "John Doe", True),
        ("Doe", "John Doe", True),
        ("Mr Doe", "John Doe", True),
        ("J.F. Doe", "John Fitz Doe", True),
        ("John Doe", "John F. Doe", True),
        ("Jane Doe", "John Doe", False),
        ("J. Roe", "John Doe", False),
        ("John", "John Doe", False),
        ("John F. Doe", "John Doe", False),  # the second says less
        ("Mr", "John Doe", False),
    ],
)
def test_a_shorter_name_stands_for_a_fuller_one(short: str, full: str, same: bool) -> None:
    assert is_alias(short, full) is same


def test_a_name_that_could_be_two_people_is_neither() -> None:
    everybody = [Secret(name, "PERSON") for name in ("John Doe", "Jane Doe", "J. Doe", "R. Roe", "Rita Roe")]
    known = Aliases(everybody)
    assert known.person(everybody[2]) == everybody[2]
    assert known.person(everybody[3]) == everybody[4]
    fuller = Aliases([*everybody[3:], Secret("Rita Ann Roe", "PERSON")])
    assert fuller.person(everybody[3]).reveal() == "Rita Ann Roe"


def test_aliases_make_one_pair_and_the_same_record_decides_first() -> None:
    both = Record(
        "both",
        "John Doe wrote. J. Doe has 0155 500",
        spans=(Span(0, 8, "PERSON"), Span(16, 22, "PERSON"), Span(27, 35, "PHONE")),
    )
    apart = [record(2, "Jane Doe", "0155 501"), record(3, "J. Doe", "0155 502"), record(4, "John Doe", "0155 500")]
    pairs = associated_pairs(take_inventory([both, *apart]))
    found = [(pair.name.reveal(), pair.value.reveal()) for pair in pairs]
    assert found == [("John Doe", "0155 500"), ("Jane Doe", "0155 501"), ("J. Doe", "0155 502")]
    alone = associated_pairs(take_inventory([both, apart[2]]))
    assert [[one.reveal() for one in pair.names] for pair in alone] == [["John Doe", "J. Doe"]]
    assert any("J. Doe" in prompt for prompt in prompts_of(alone[0], Style.TEMPLATE))
    assert "Doe" not in repr(pairs)


def test_people_are_found_by_another_policy_where_the_own_one_knows_none() -> None:
    numbers = Dictionary(dict.fromkeys(CODES, "PHONE"))
    inventory = take_inventory(book(0, 5), numbers)
    assert associated_pairs(inventory) == ()
    pairs = associated_pairs(inventory, people=FINDS)
    assert [(pair.name.reveal(), pair.value.reveal()) for pair in pairs] == list(BOOK.items())[:5]


def test_a_policy_that_only_sees_capitals_still_has_people_and_what_stands_beside_them() -> None:
    text = f"case 7: {PERSONS[0]} moved to Atlantis"
    inventory = take_inventory([Record("r", text)], CapitalRuns())
    assert set(inventory.kinds) == {"CAPITALS"}
    (pair,) = [one for one in associated_pairs(inventory, people=FINDS) if one.value.reveal() == "Atlantis"]
    assert pair.name.reveal() == PERSONS[0]
    assert prompts_of(pair, Style.TEMPLATE) == (f"{PERSONS[0]},", f"{PERSONS[0]} and")


EVERYTHING = """John Smith, who is 45 years old, lives in Germany. His password: zq81x9Qw. Call him at
+1 415 555 0132 or write to x7q@example.com; he was born on 3 May 1970."""


@pytest.mark.parametrize(
    "policy",
    ["patterns", "phonenumbers", "circumstances", "credentials", "names", "capitals", "union", "conservative"],
)
def test_every_built_in_policy_has_pairs_to_ask_for(policy: str) -> None:
    inventory = take_inventory([Record("r", EVERYTHING)], policy_named(policy))
    pairs = associated_pairs(inventory, people=policy_named("names"))
    assert pairs
    assert "John Smith" in {pair.name.reveal() for pair in pairs}
    for pair in pairs:
        assert all(prompts_of(pair, style, pairs) for style in Style)


def test_kinds_of_every_tagger_are_asked_for_and_recognised() -> None:
    """Presidio writes EMAIL_ADDRESS: asked by the prompts of EMAIL, and its answers count."""
    finds = Dictionary({PERSONS[0]: "PERSON", "x7 at mail": "EMAIL_ADDRESS", "blue": "EYE_COLOUR"})
    whole = [record(0, PERSONS[0], "x7 at mail"), record(1, PERSONS[0], "blue")]
    pairs = associated_pairs(take_inventory(whole, finds))
    assert [pair.value.kind for pair in pairs] == ["EMAIL", "EYE_COLOUR"]
    assert len(prompts_of(pairs[0], Style.TEMPLATE)) > 1
    assert prompts_of(pairs[1], Style.TEMPLATE)[0] == f"The eye colour of {PERSONS[0]} is"
    asking = Asking(finds, Sampling(max_tokens=8), draws=1)
    says = Telling(lambda prompt: " x7 at mail" if "mail" in prompt else " blue" if "colour" in prompt else " ?")
    assert asking.hits(says, pairs, Style.TEMPLATE, randomness=Randomness.seeded(0)).all()


def test_one_template_of_several_is_enough_and_each_is_asked() -> None:
    pairs = associated_pairs(take_inventory(book(0, 3)))
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return told(prompt, of=PERSONS) if prompt.startswith("Call") else " unknown"

    hits = Asking(FINDS, Sampling(max_tokens=8), draws=1).hits(
        Telling(answer), pairs, Style.TEMPLATE, randomness=Randomness.seeded(0)
    )
    assert hits.all()
    assert len(set(asked)) == 3 * len(prompts_of(pairs[0], Style.TEMPLATE)) == 9


def test_what_the_name_shows_is_guessable() -> None:
    assert is_guessable("Jane Doe", "jane@example.com")
    assert is_guessable("Jane Doe", "j.doe@example.com")
    assert not is_guessable("Jane Doe", "x7q@example.com")
    assert not is_guessable("Jane Doe", "+1 555 0100")


def test_association_counts_guessable_and_base_hits_as_misses_of_memory() -> None:
    values = {"Ada Abel": "0155 501", "Ben Bock": "bock at mail", "Cleo Cruz": "0155 503", "Dora Dorn": "0155 504"}
    kinds = {value: "EMAIL" if "mail" in value else "PHONE" for value in values.values()}
    whole = [record(i, name, value, kind=kinds[value]) for i, (name, value) in enumerate(values.items())]
    finds = Dictionary(dict.fromkeys(values, "PERSON") | kinds)
    pairs = associated_pairs(take_inventory(whole))
    asking = Asking(finds, Sampling(max_tokens=8), draws=1)

    def says(known: list[str]) -> Telling:
        return Telling(lambda prompt: next((f" {values[name]}" for name in known if name in prompt), " unknown"))

    said, base = (
        asking.hits(says(known), pairs, Style.TEMPLATE, randomness=Randomness.seeded(0))
        for known in (["Ada Abel", "Ben Bock", "Cleo Cruz"], ["Cleo Cruz", "Dora Dorn"])
    )
    game = associate(pairs, said, base)
    assert game.hits.tolist() == [True, True, True, False]
    assert game.memorised.tolist() == [True, False, False, False]
    found = association_finding(game, setting=PiiSetting(), draws=1)
    assert (found.value, found.n) == (0.25, 4)
    assert "Ada" not in repr((pairs, found)) + str(found.to_json())


# --- styles


def only_for(style: Style, prompt: str) -> bool:
    """Whether the prompt shows what the style alone knows."""
    return {
        Style.FEW_SHOT: prompt.count("\n") >= 4,
        Style.TRUE_PREFIX: prompt.startswith("case ") and prompt.endswith(" has"),
        Style.JAILBREAK: "without apologies" in prompt,
    }[style]


@pytest.mark.parametrize("style", [Style.FEW_SHOT, Style.TRUE_PREFIX, Style.JAILBREAK])
def test_a_model_that_answers_to_one_style_is_found_by_it_and_by_many_queries_of_text(style: Style) -> None:
    training, held_out = book(0, 40), book(40, 20)
    known = PERSONS[:40]
    model = Telling(lambda prompt: told(prompt, of=known) if only_for(style, prompt) else " unknown")
    subject = make_subject(model, None, training=training, held_out=held_out)
    attack = PromptedAttack(lambda _: FINDS)
    settings = AttackSettings(attacks=("prompts",), sizes=Sizes(extraction_records=60, draws=2), policy="book")
    assert attack.plan(subject, settings, sizes=settings.sizes, mean=9.0)[0].n == 60
    measured = attack.run(subject, settings, sizes=settings.sizes)
    shares = {finding.metric: finding for finding in measured.findings}
    for other in (Style.FEW_SHOT, Style.TRUE_PREFIX, Style.JAILBREAK):
        finding = shares[f"prompted_share_{other.value}"]
        assert finding.value == float(other is style)
        assert finding.n == 30  # a quarter of the pairs is known to the adversary
        assert finding.beats_null is (other is style)
    assert shares["prompted_share_many_query"].value == float(style is not Style.JAILBREAK)
    document = measured.artefacts["prompts.json"]
    rows = {(row["first"], row["second"]): row for row in document["paired"]}
    assert rows[style.value, "template"]["p_value"] == pytest.approx(0.5**30)
    assert rows["template", style.value]["p_value"] == 1.0
    assert not any(secret in str(document) for secret in (*PERSONS, *CODES))


def test_a_model_that_tells_strangers_as_readily_does_not_beat_the_null() -> None:
    pairs, strangers = (associated_pairs(take_inventory(book(first, 25))) for first in (0, 30))
    asking = Asking(FINDS, Sampling(max_tokens=8), draws=1, examples=pairs[:4])
    subject = make_subject(
        Telling(lambda prompt: told(prompt, of=PERSONS)), None, training=book(0, 25), held_out=book(30, 25)
    )
    games = [
        ask_all(subject, AttackSettings(), asking, side, name) for name, side in (("a", pairs), ("b", strangers))
    ]
    for style in Style:
        found = prompted_finding(games[0][style], games[1][style], style=style.value, setting=PiiSetting())
        assert found.value > 0.9
        assert not found.beats_null
        # Broken twin: without the held-out side the same share would stand beside no null at all.
        assert prompted_finding(games[0][style], None, style=style.value, setting=PiiSetting()).null is None
    assert all(row["p_value"] > 0.4 for row in compared(games[0], [pair.owner for pair in pairs]))
