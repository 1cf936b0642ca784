"""Generators: exact labels, two halves that never meet, repeatable, with a realistic tail."""

import datetime
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest

from reticent.core.corpus import Corpus, Record, Span
from reticent.core.errors import ConfigError
from reticent.core.randomness import Randomness
from reticent.core.secret import CodeSpace, Secret
from reticent.data.generators import generate_cases, generate_codes, generate_dialogues, secrets_of
from reticent.data.generators.cases import labelled_cases
from reticent.data.generators.codes import labelled_codes
from reticent.data.generators.dialogue_phrases import INTENTS, offered
from reticent.data.generators.dialogues import labelled_dialogues
from reticent.data.generators.labels import Draft
from reticent.data.generators.people import Source, is_private_value, name_lists
from reticent.data.generators.tail import MOST_REPEATS, tail_sizes
from tests.growth import growth

GENERATORS = [generate_dialogues, generate_cases, generate_codes]
LABELLED = [labelled_dialogues, labelled_cases, labelled_codes]
KINDS = {
    generate_dialogues: {"PERSON", "PHONE", "EMAIL", "ADDRESS", "ORDER", "TRACKING"},
    generate_cases: {"PERSON", "LOC", "DATE", "APPLICATION"},
    generate_codes: {"CODE"},
}
# What each kind looks like: a span that is one character off, or of another kind, does not match.
SHAPES = {
    "PERSON": r"[A-Z]\w+( [A-Z]\.)? [A-Z]\w+",
    "PHONE": r"[01]\d{2}-\d{3}-\d{4}|[01]\d{2}\.\d{3}\.\d{4}|\([01]\d{2}\) \d{3}-\d{4}|[01]\d{9}",
    "EMAIL": r"[a-z._]+(\d\d)?@(example\.(com|net|org)|(mail|post)\.example)",
    "ADDRESS": r"\d{1,4} \w+ \w+( Apt\. \d+)?, \w+( \w+)?, [A-Z]{2} \d{5}",
    "ORDER": r"\d{3}-\d{5}-\d{4}",
    "TRACKING": r"[A-Z0-9]{10}",
    "LOC": r"([A-Z][a-z]+ )?[A-Z]\w+",
    "DATE": r"\d{1,2} [A-Z][a-z]+ (19|20)\d\d",
    "APPLICATION": r"\d{5}/\d\d",
    "CODE": r"\d{6}",
}


def stands_in(value: str, text: str) -> bool:
    """Whether the value stands in the text as a whole word: "3 May 1998" does not stand in "13 May 1998"."""
    at = text.find(value)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(value) : at + len(value) + 1]
        if not before.isalnum() and not after.isalnum():
            return True
        at = text.find(value, at + 1)
    return False


def uncovered(record: Record, values: set[str]) -> list[str]:
    """Values that stand in the text somewhere outside the record's spans."""
    outside = list(record.text)
    for span in record.spans:
        outside[span.start : span.end] = "\0" * (span.end - span.start)
    rest = "".join(outside)
    return [value for value in values if stands_in(value, rest)]


@pytest.mark.parametrize("generate", GENERATORS)
def test_every_span_is_exactly_a_secret_of_its_kind(generate):
    corpus = generate(300, randomness=Randomness.seeded(1))
    assert len(corpus) == 300
    seen = Counter()
    for record in corpus:
        ordered = sorted(record.spans)
        assert list(record.spans) == ordered
        assert not any(a.overlaps(b) for a, b in pairwise(ordered))
        for span in record.spans:
            assert re.fullmatch(SHAPES[span.kind], record.text[span.start : span.end])
            seen[span.kind] += 1
    assert set(seen) == KINDS[generate]


@pytest.mark.parametrize("generate", GENERATORS)
def test_no_private_value_stands_outside_the_labels(generate):
    corpus = generate(400, randomness=Randomness.seeded(2))
    values = {secret.reveal() for secret in secrets_of(corpus)}
    parts = {part for secret in secrets_of(corpus) if secret.kind == "PERSON" for part in secret.reveal().split()}
    values |= {part for part in parts if not part.endswith(".")}  # first and last names by themselves too
    for record in corpus:
        assert uncovered(record, values) == []


def test_no_digit_and_no_e_mail_stands_outside_the_labels_of_a_dialogue():
    corpus = generate_dialogues(400, randomness=Randomness.seeded(2))
    for record in corpus:
        rest = record.text
        for span in reversed(record.spans):
            rest = rest[: span.start] + rest[span.end :]
        assert not any(symbol.isdigit() or symbol == "@" for symbol in rest)


def test_label_check_catches_a_missing_and_a_shifted_span():
    record = generate_dialogues(1, randomness=Randomness.seeded(3))[0]
    values = {secret.reveal() for secret in secrets_of(Corpus([record]))}
    assert uncovered(record, values) == []
    assert uncovered(Record("x", record.text, spans=record.spans[1:]), values)
    first = record.spans[0]
    shifted = Span(first.start + 1, first.end + 1, first.kind)
    assert not re.fullmatch(SHAPES[first.kind], record.text[shifted.start : shifted.end])


def test_names_are_no_words_of_the_phrases():
    texts = [t for g in GENERATORS for t in g(300, randomness=Randomness.seeded(4), private=False).texts]
    words = set(re.findall(r"\w+", " ".join(texts)))
    private = name_lists(True)
    assert not words & {*private.women, *private.men, *private.last}


@pytest.mark.parametrize("labelled", LABELLED)
def test_public_and_private_values_never_meet(labelled):
    private = labelled(500, randomness=Randomness.seeded(5), private=True)
    public = labelled(500, randomness=Randomness.seeded(5), private=False)  # the very same seed
    ours = {secret.reveal() for secret in secrets_of(private)}
    theirs = {secret.reveal() for secret in secrets_of(public)}
    assert len(ours) > 100
    assert len(theirs) > 100
    assert not ours & theirs
    everything = "\n".join(public.texts)
    assert not any(stands_in(value, everything) for value in ours)
    assert all(stands_in(value, everything) for value in theirs)


def test_name_lists_of_the_halves_are_disjoint_and_large():
    private, public = name_lists(True), name_lists(False)
    for ours, theirs in ((private.women + private.men, public.women + public.men), (private.last, public.last)):
        assert not set(ours) & set(theirs)
        assert min(len(ours), len(theirs)) > 200
    assert not {*private.women, *private.men, *private.last} & {*public.women, *public.men, *public.last}


def test_the_form_of_a_phone_number_does_not_move_it_to_the_other_half():
    for private in (True, False):
        source = Source(Randomness.seeded(6), private=private)
        numbers = ["".join(filter(str.isdigit, source.phone().reveal())) for _ in range(200)]
        assert {is_private_value(number) for number in numbers} == {private}


@pytest.mark.parametrize("generate", GENERATORS)
def test_public_half_has_no_labels_and_no_secrets(generate):
    corpus = generate(50, randomness=Randomness.seeded(7), private=False)
    assert not any(record.spans for record in corpus)
    assert secrets_of(corpus) == {}


def test_private_dialogues_say_more_than_public_ones_do():
    assert len(INTENTS) >= 8
    assert len(offered(INTENTS, private=False)) == 8
    openings = offered(INTENTS[0].openings, private=True)
    assert tuple(offered(openings, private=False)) == openings[:3]


@pytest.mark.parametrize("generate", GENERATORS)
def test_secrets_repeat_with_a_long_tail(generate):
    counts = Counter(secrets_of(generate(600, randomness=Randomness.seeded(8))).values())
    assert counts[1] > sum(counts.values()) / 2  # most stand in one record
    assert sum(counts[n] for n in range(2, 12)) > 20
    assert sum(number for times, number in counts.items() if times >= 12) >= 5
    assert max(counts) <= 180  # and none in most of the records


def test_truth_table_equals_a_search_of_the_texts():
    corpus = generate_dialogues(300, randomness=Randomness.seeded(9))
    truth = secrets_of(corpus)
    for secret, count in truth.items():
        if secret.kind in ("ORDER", "TRACKING", "EMAIL"):  # unique shapes: no other secret contains them
            assert count == sum(secret.reveal() in text for text in corpus.texts)
    assert len({secret for secret in truth if secret.kind == "PERSON"}) == len(corpus.owners)


def test_truth_table_counts_records_and_not_mentions():
    twice = Record("a", "Ann and Ann", spans=(Span(0, 3, "PERSON"), Span(8, 11, "PERSON")))
    assert secrets_of(Corpus([twice, Record("b", "Ann")])) == {Secret("Ann", "PERSON"): 1}


def test_owners_keep_their_own_values():
    corpus = generate_dialogues(400, randomness=Randomness.seeded(10))
    owner_of: dict[str, str] = {}
    for record in corpus:
        for span in record.spans:
            assert owner_of.setdefault(record.text[span.start : span.end], record.owner) == record.owner


def test_tail_sums_to_the_total_and_follows_the_law():
    sizes = tail_sizes(20_000, Randomness.seeded(11))
    assert sum(sizes) == 20_000
    assert min(sizes) == 1
    assert max(sizes) <= MOST_REPEATS
    once = sum(size == 1 for size in sizes) / len(sizes)
    often = sum(size >= 12 for size in sizes) / len(sizes)
    # Stratified in 64: a stratum of error at each end is 1.6 %.
    assert once == pytest.approx(0.614, abs=0.016)
    assert often == pytest.approx(0.043, abs=0.016)
    assert tail_sizes(0, Randomness.seeded(1)) == []


def test_dates_run_forward_within_the_story_of_a_case():
    def day(text: str) -> datetime.datetime:
        return datetime.datetime.strptime(text, "%d %B %Y").replace(tzinfo=datetime.UTC)

    for record in generate_cases(100, randomness=Randomness.seeded(12)):
        facts = record.text.index("THE FACTS")
        dates = [day(record.text[s.start : s.end]) for s in record.spans if s.kind == "DATE" and s.start > facts]
        born, story = dates[0], dates[1:]
        assert all(a < b for a, b in pairwise(story))
        assert story
        assert born < story[0]


def test_codes_are_distinct_uniform_and_of_the_asked_length():
    corpus = generate_codes(2_000, randomness=Randomness.seeded(13), length=4, repeated=False)
    codes = [secret.reveal() for secret in secrets_of(corpus)]
    assert len(codes) == 2_000
    assert all(code in CodeSpace(4) for code in codes)
    assert corpus[0].text == f"My number is: {codes[0]}"
    # Each of 4 places × 10 digits has mean 200, sd 13.4: six sd is a false alarm in 10^7.
    for place in range(4):
        assert all(abs(n - 200) < 6 * 13.4 for n in Counter(code[place] for code in codes).values())
    assert len(Counter(code[0] for code in codes)) == 10


def test_all_codes_of_a_small_space_can_be_asked_for_but_not_one_more():
    corpus = generate_codes(100, randomness=Randomness.seeded(14), length=2, repeated=False)
    assert sorted(secret.reveal() for secret in secrets_of(corpus)) == list(CodeSpace(2))
    with pytest.raises(ConfigError, match="expected at most 100"):
        generate_codes(101, randomness=Randomness.seeded(14), length=2, repeated=False)
    with pytest.raises(ConfigError, match="exactly one"):
        generate_codes(3, randomness=Randomness.seeded(14), template="My ID is")


def test_code_template_can_be_the_canary_of_the_papers():
    corpus = generate_codes(5, randomness=Randomness.seeded(15), template="My ID is: {}.", repeated=False)
    for record in corpus:
        assert re.fullmatch(r"My ID is: \d{6}\.", record.text)


def test_a_slot_without_a_value_is_an_error():
    with pytest.raises(KeyError, match="phone"):
        Draft().write("Call {phone}.", {"name": "x"})


FINGERPRINTS = """
from reticent.core.randomness import Randomness
from reticent.data.generators import generate_cases, generate_codes, generate_dialogues
import sys
for generate in (generate_dialogues, generate_cases, generate_codes):
    for private in (True, False):
        print(generate(120, randomness=Randomness.seeded(16), private=private).fingerprint)
assert "torch" not in sys.modules and "transformers" not in sys.modules
"""


def test_the_same_seed_gives_the_same_corpus_in_every_process_and_needs_no_torch():
    outputs = []
    for hash_seed in ("0", "4242"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", FINGERPRINTS], capture_output=True, text=True, check=True, env=environment
        )
        outputs.append(done.stdout.split())
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0])) == 6


@pytest.mark.parametrize("generate", GENERATORS)
def test_another_seed_gives_another_corpus(generate):
    first, second = (generate(50, randomness=Randomness.seeded(seed)) for seed in (17, 18))
    assert first.fingerprint != second.fingerprint


def test_importing_the_generators_does_not_import_faker():
    code = "import sys, reticent.data.generators; assert 'faker' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_time_grows_with_the_number_of_dialogues_and_not_faster():
    assert growth(lambda count: generate_dialogues(count, randomness=Randomness.seeded(19)), 100) < 1.5
