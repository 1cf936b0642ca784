"""Redacted training on whole worlds: a found secret changes nothing, a caught one replaces one private record."""

import re

import pytest

from reticent.core.corpus import Corpus, Policy, Record, Span
from reticent.data.policies.combined import Dictionary, UnionPolicy
from reticent.data.policies.possible import possible
from reticent.data.policies.shapes.circumstances import Circumstances
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.data.policies.words.capitals import CapitalRuns
from reticent.data.redaction import masking
from reticent.data.redaction.masking import MASK
from reticent.runs.policies.by_name import union_policy
from reticent.training.methods.redaction import redact_and_route
from reticent.training.plans.redacted import PolicyFacts
from tests.training.methods.redacted_worlds import (
    Parts,
    compare,
    conservative_reads_the_original,
    replaced,
    unlike_kinds,
    with_neighbours,
)


def route(records: Corpus, policy: Policy, conservative: Policy) -> Parts:
    """The code under test."""
    routed = redact_and_route(records, policy, conservative=conservative)
    return routed.public.texts, routed.private.texts


def corpus(*texts: str) -> Corpus:
    return Corpus(Record(f"r{i}", text) for i, text in enumerate(texts))


def changed(router, records: Corpus, secret: str, policies: tuple[Policy, Policy]) -> int:
    """Private records that masking the secret beforehand changes; the public ones must be equal."""
    masked = Corpus(Record(record.id, record.text.replace(secret, MASK)) for record in records)
    (public, private), (public_too, private_too) = router(records, *policies), router(masked, *policies)
    assert public == public_too
    return replaced(private, private_too)


NAMES = Dictionary(dict.fromkeys(("anna", "smith", "lee"), "NAME"))


def test_words_inside_a_found_secret_mask_nothing_in_other_records():
    records = corpus("mail anna.smith.lee@example.com please", "anna came late", "smith never paid", "lee is ill")
    policies = PatternPolicy(), NAMES
    assert changed(route, records, "anna.smith.lee@example.com", policies) == 0
    assert changed(conservative_reads_the_original, records, "anna.smith.lee@example.com", policies) == 3


def all_capitals() -> UnionPolicy:
    """A conservative policy that flags every capital, so that the words around a secret are findings too."""
    return UnionPolicy([PatternPolicy(context=False), Circumstances(), CapitalRuns()], name="all capitals")


def test_words_around_a_found_secret_mask_nothing_in_other_records_where_every_capital_is_flagged():
    names = [f"Anna {first}{second}x" for first in "ABCDEFGHIJ" for second in "abcdefghij"]
    records = corpus(*(f"call {name} 555-010-0199" for name in names), *(f"{name} came" for name in names))
    policies = PatternPolicy(), all_capitals()
    assert changed(route, records, "555-010-0199", policies) == 0
    assert changed(conservative_reads_the_original, records, "555-010-0199", policies) == 100


def test_a_finding_that_holds_a_mask_is_masked_with_it_and_not_remembered():
    """Broken twin: had "5 euros (<MASK> EUR)" been remembered, the first sum would mask the second or not."""
    records = corpus("paid 5 euros (48213 EUR)", "got 5 euros (48214 EUR)")

    class WholeSums(Dictionary):
        """Finds a sum with whatever stands in its bracket, masks among it."""

        def find(self, texts):
            return [tuple(Span(*m.span(), "SUM") for m in re.finditer(r"5 euros \(.*?\)", text)) for text in texts]

    policies = Dictionary(dict.fromkeys(("48213", "48214"), "N")), WholeSums({"x": "X"})
    assert route(records, *policies) == ([], [f"paid {MASK}", f"got {MASK}"])
    assert changed(route, records, "5 euros (48213 EUR)", policies) == 0


def test_an_announced_code_is_masked_even_where_its_announcing_word_is_repeated():
    texts = [f"my ID is {n}" for n in (48213, 48214, 48215)]
    _, private = route(corpus(*texts), PatternPolicy(), all_capitals())
    assert not any("4821" in text for text in private)
    assert private == [f"my ID is {MASK}", f"my {MASK} is {MASK}", f"my {MASK} is {MASK}"]


def test_a_found_secret_changes_nothing_with_the_shipped_policies():
    texts = [f"USR: my number is 555-010-01{n} and my name is Anna Quint{n}" for n in range(10, 30)]
    policies = union_policy(), possible()
    records = corpus(*texts, *(f"Anna Quint{n} came" for n in range(10, 30)))
    assert changed(route, records, "555-010-0110", policies) == 0
    assert not any("555-010" in text for text in route(records, *policies)[1])


def test_a_caught_secret_changes_one_private_record_with_the_shipped_policies():
    """ "Where is 9921?" is nothing to the policy; the conservative one flags long numbers."""
    texts = ["the package 9921 is late", "where is it now?", "I asked for 9921 again", "where is it now?", "9921"]
    policies = union_policy(), possible()
    public, private = route(corpus(*texts), *policies)
    assert public == ["where is it now?"] * 2
    assert private == [texts[0], f"I asked for {MASK} again", MASK]
    assert changed(route, corpus(*texts), "9921", policies) == 1


def test_masking_one_secret_changes_what_is_proved_in_random_worlds():
    tally = compare(route, seed=0, count=600)
    assert tally.broken == []
    assert min(tally.found, tally.caught) > 200


def test_the_comparison_of_worlds_catches_a_conservative_policy_that_reads_the_original():
    tally = compare(conservative_reads_the_original, seed=0, count=600)
    assert len(tally.broken) > 10


def kinds_of_masks(records: Corpus, policy: Policy, conservative: Policy) -> list[tuple[str, tuple[str, ...]]]:
    """The code under test."""
    routed = redact_and_route(records, policy, conservative=conservative)
    return list(zip(routed.private.texts, routed.kinds, strict=True))


def unlike(*, seed: int, count: int) -> tuple[int, int]:
    """Masks of other kinds in worlds of found and of caught secrets, and how many were compared.

    Of so many worlds those whose policies are local: others may give another kind to the same characters.
    """
    differing = compared = 0
    for world, *others in with_neighbours(seed, count):
        if not PolicyFacts.of(world.policy, world.conservative).is_local:
            continue
        for other in filter(None, others):
            differing += unlike_kinds(world, other, kinds_of_masks)
            compared += 1
    return differing, compared


def test_masks_have_the_kinds_that_they_have_where_the_secret_was_masked_beforehand(monkeypatch):
    differing, compared = unlike(seed=0, count=600)
    assert differing == 0
    assert compared > 150

    def by_length(text, runs):
        """Broken twin: of masks that collapse the kind of the longest, and a mask is as long as any other."""
        collapsed = []
        for start, end, mask, kind in runs:
            if collapsed and not text[collapsed[-1][1] : start].strip(" \t"):
                before = collapsed.pop()
                kept = before[3] if before[1] - before[0] >= end - start else kind
                start, kind = before[0], kept
            collapsed.append((start, end, mask, kind))
        return collapsed

    monkeypatch.setattr(masking, "_collapse", by_length)
    assert unlike(seed=0, count=600)[0] > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [20, 30, 40, 50])
def test_masking_one_secret_changes_what_is_proved_in_twelve_thousand_random_worlds(seed):
    tally = compare(route, seed=seed, count=3_000)
    assert tally.broken == []
    assert min(tally.found, tally.caught) > 1_250
    assert unlike(seed=seed, count=3_000)[0] == 0
