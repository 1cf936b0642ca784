"""Whole worlds for redacted training: random corpora and policies, and the same corpus with one secret masked.

Everything here is written from the definitions, apart from `training.methods.redaction`: what a secret is, where it
stands, and when the proof speaks of it. `conservative_reads_the_original` is the broken twin.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from bench.known_policies import RandomMiss
from reticent.core.corpus import Corpus, Policy, Record, Span
from reticent.data.policies.combined import Dictionary, UnionPolicy
from reticent.data.policies.possible import possible
from reticent.data.policies.shapes.circumstances import Circumstances
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.data.policies.words.capitals import LEGAL_WORDS, CapitalRuns
from reticent.data.redaction.masking import MASK, Redaction, redact
from reticent.runs.policies.by_name import union_policy
from reticent.training.plans.redacted import PolicyFacts

Parts = tuple[list[str], list[str]]  # public and private texts, in order
Router = Callable[[Corpus, Policy, Policy], Parts]

WORDS = [
    "anna", "smith", "lee", "Anna", "Lee", "Anna Smith", "ID", "Pin", "pin", "no.", "12", "5", "1999", "48213",
    "rains", "anna.smith.lee@example.com", "a@b.com", "ID 48213", "Pin: 4821", "555-010-0199", "(555) 010-0199",
    "192.168.0.1", "460-89-9847", "5 years", "three months", "80 euros", "(EUR)", "14 May 1999", "AB12CD34EF",
    "teacher", "of the", "de", "to", "is", "Court", "Article", "(", ")", MASK,
]  # fmt: skip
JOINTS = ["", " ", " ", " ", " ", ", ", ". ", "\n", "-", ".", ":", "/"]
LISTED = (
    "anna",
    "smith",
    "lee",
    "Anna",
    "Lee",
    "Anna Smith",
    "ID",
    "12",
    "5",
    "1999",
    "48213",
    "rains",
    "of",
    "May",
)


@dataclass(frozen=True)
class World:
    """A corpus and the two policies that read it."""

    records: Corpus
    policy: Policy
    conservative: Policy
    _found: dict[tuple[str, bool], tuple[Span, ...]] = field(default_factory=dict, repr=False, compare=False)
    _left: dict[str, Redaction] = field(default_factory=dict, repr=False, compare=False)

    def find(self, text: str) -> tuple[Span, ...]:
        """What π finds in a text, asked for once."""
        return self._once(text, self.policy)

    def find_cautiously(self, text: str) -> tuple[Span, ...]:
        """What π_c finds in a text, asked for once."""
        return self._once(text, self.conservative)

    def _once(self, text: str, policy: Policy) -> tuple[Span, ...]:
        key = text, policy is self.conservative
        if key not in self._found:
            (self._found[key],) = policy.find([text])
        return self._found[key]

    def left(self, text: str) -> Redaction:
        """What π leaves of a text."""
        if text not in self._left:
            self._left[text] = redact(text, self.find(text))
        return self._left[text]


def worlds(seed: int, count: int) -> Iterator[World]:
    """So many random worlds; texts of few words, so that records share them."""
    random = Random(seed)
    for _ in range(count):
        words = random.sample(WORDS, random.randint(3, 12))
        texts = [_text(random, words) for _ in range(random.randint(2, 12))]
        records = Corpus(Record(f"r{i}", text) for i, text in enumerate(texts))
        yield World(records, _policy(random), _policy(random))


def _text(random: Random, words: list[str]) -> str:
    return "".join(random.choice(words) + random.choice(JOINTS) for _ in range(random.randint(1, 5)))


def _policy(random: Random, depth: int = 0) -> Policy:
    match random.choice(("listed", "listed", "patterns", "capitals", "other", "shipped", "union", "missing")):
        case "patterns":
            return PatternPolicy(context=random.random() < 0.7)
        case "capitals":
            return CapitalRuns(digits=random.random() < 0.7)
        case "other":
            return random.choice((Circumstances(), CapitalRuns(ordinary=LEGAL_WORDS)))
        case "shipped":
            return random.choice((union_policy(), possible()))
        case "union" if depth < 2:
            return UnionPolicy([_policy(random, depth + 1), _policy(random, depth + 1)])
        case "missing" if depth < 2:
            return RandomMiss(_policy(random, depth + 1), random.choice((0.0, 0.3, 0.7)), key=random.randbytes(8))
    return Dictionary(dict.fromkeys(random.sample(LISTED, random.randint(1, 6)), "LISTED"))


@dataclass(frozen=True)
class Neighbour:
    """The same records with a mask at each place of one secret."""

    records: Corpus
    secret: str
    is_spoken_of: bool  # by the proof: the policies say that they are local, or were seen to be on these records


def with_a_found_secret_masked(world: World, random: Random) -> Neighbour | None:
    """One of the strings that π finds is masked wherever π finds it; None where it finds nothing."""
    found = [world.find(text) for text in world.records.texts]
    secret = _draw(random, zip(world.records.texts, found, strict=True))
    if secret is None:
        return None
    places = [_holding(text, spans, secret) for text, spans in zip(world.records.texts, found, strict=True)]
    masked = _masked(world.records, places)
    same = all(world.left(a).text == world.left(b).text for a, b in _texts(world.records, masked))
    return Neighbour(masked, secret, world.policy.is_local or same)


def with_a_caught_secret_masked(world: World, random: Random) -> Neighbour | None:
    """One of the strings that π_c finds in what π left is masked wherever it does, and perhaps where π finds it."""
    redactions = [world.left(text) for text in world.records.texts]
    doubtful = [_outside_masks(each.text, world) for each in redactions]
    secret = _draw(random, zip((each.text for each in redactions), doubtful, strict=True))
    if secret is None:
        return None
    where_found = random.random() < 0.5
    places = []
    for record, redaction, spans in zip(world.records, redactions, doubtful, strict=True):
        own = [redaction.to_original(s.start, s.end) for s in _holding(redaction.text, spans, secret)]
        found = world.find(record.text) if where_found else ()
        places.append([Span(*each, "") for each in own] + _holding(record.text, found, secret))
    masked = _masked(world.records, places)
    is_local = PolicyFacts.of(world.policy, world.conservative).is_local
    same = all(_only_masks(a, b, secret, world) for a, b in _texts(world.records, masked))
    return Neighbour(masked, secret, is_local or same)


def _only_masks(here: str, there: str, secret: str, world: World) -> bool:
    """Whether masking the secret beforehand does nothing to what both policies read but mask it."""
    before, after = world.left(here).text, world.left(there).text
    found = world.find_cautiously(before)
    own = _holding(before, _outside_masks(before, world), secret)
    redaction = redact(before, own)
    others = [redaction.to_redacted(span.start, span.end) for span in found if span not in own]
    return redaction.text == after and others == [(s.start, s.end) for s in world.find_cautiously(after)]


def _outside_masks(text: str, world: World) -> list[Span]:
    """What π_c finds in a text apart from its masks."""
    masks = [Span(*match.span(), "") for match in re.finditer(MASK, text)]
    return [span for span in world.find_cautiously(text) if not any(span.overlaps(mask) for mask in masks)]


def _holding(text: str, spans, secret: str) -> list[Span]:
    return [span for span in spans if text[span.start : span.end] == secret]


def _draw(random: Random, found) -> str | None:
    strings = sorted({text[span.start : span.end] for text, spans in found for span in spans})
    return random.choice(strings) if strings else None


def _masked(records: Corpus, places: list[list[Span]]) -> Corpus:
    """A mask at each place, character for character: nothing collapses yet."""
    masked = []
    for record, spans in zip(records, places, strict=True):
        text = record.text
        for start, end in sorted({(span.start, span.end) for span in spans}, reverse=True):
            text = text[:start] + MASK + text[end:]
        masked.append(Record(record.id, text))
    return Corpus(masked)


def _texts(first: Corpus, second: Corpus):
    return zip(first.texts, second.texts, strict=True)


def replaced(first: list[str], second: list[str]) -> int:
    """How many texts of one must be replaced to get the other as a multiset; many where their numbers differ."""
    here, there = Counter(first), Counter(second)
    return max((here - there).total(), (there - here).total())


Kinds = Callable[[Corpus, Policy, Policy], list[tuple[str, tuple[str, ...]]]]  # of the masks of each private text


def unlike_kinds(world: World, neighbour: Neighbour, kinds: Kinds) -> int:
    """Masks of equal private texts whose kinds differ other than by the mask that stands for the secret.

    In the neighbour that mask came with the corpus and has no kind; the kind here is one that a policy gives to the
    secret, so that a neighbour whose mask has it agrees.
    """
    reads = [(text, world.find(text)) for text in world.records.texts]
    rests = [world.left(text).text for text in world.records.texts]
    reads += [(text, world.find_cautiously(text)) for text in rests]
    own = {span.kind for text, spans in reads for span in _holding(text, spans, neighbour.secret)}
    pairs = zip(
        kinds(world.records, world.policy, world.conservative),
        kinds(neighbour.records, world.policy, world.conservative),
        strict=True,
    )
    return sum(
        here != there and not (there == "" and here in own)
        for (text, mine), (text_too, others) in pairs
        if text == text_too
        for here, there in zip(mine, others, strict=True)
    )


@dataclass
class Tally:
    """How many neighbours of either kind were compared, and which of them differed more than is proved."""

    found: int = 0
    caught: int = 0
    outside: int = 0  # neighbours that the proof does not speak of
    broken: list[tuple[World, Neighbour]] = field(default_factory=list)

    def add(self, world: World, neighbour: Neighbour | None, *, limit: int, router: Router) -> None:
        """Compare the two worlds: equal public texts in order; for `limit` 0 equal private ones, too."""
        if neighbour is None or not neighbour.is_spoken_of:
            self.outside += neighbour is not None
            return
        self.found += limit == 0
        self.caught += limit == 1
        public, private = router(world.records, world.policy, world.conservative)
        public_too, private_too = router(neighbour.records, world.policy, world.conservative)
        changed = replaced(private, private_too) if limit else int(private != private_too)
        if public != public_too or changed > limit:
            self.broken.append((world, neighbour))


@lru_cache(maxsize=1)
def with_neighbours(seed: int, count: int) -> list[tuple[World, Neighbour | None, Neighbour | None]]:
    """So many worlds, each with a found secret masked beforehand and with a caught one."""
    random = Random(seed + 1)
    return [
        (world, with_a_found_secret_masked(world, random), with_a_caught_secret_masked(world, random))
        for world in worlds(seed, count)
    ]


def compare(router: Router, *, seed: int, count: int) -> Tally:
    """What a router does in so many worlds and their neighbours."""
    tally = Tally()
    for world, found, caught in with_neighbours(seed, count):
        tally.add(world, found, limit=0, router=router)
        tally.add(world, caught, limit=1, router=router)
    return tally


def conservative_reads_the_original(records: Corpus, policy: Policy, conservative: Policy) -> Parts:
    """The broken twin: π_c reads the text as it came, so findings inside what π masks are remembered as seen."""
    public: list[str] = []
    private: list[str] = []
    seen: set[str] = set()
    texts: set[str] = set()
    for record in records:
        (found,), (doubtful,) = policy.find([record.text]), conservative.find([record.text])
        strings = {span: record.text[span.start : span.end] for span in (*found, *doubtful)}
        again = [span for span in doubtful if strings[span] in seen and span not in set(found)]
        seen.update(strings.values())
        text = redact(record.text, [*found, *again]).text
        if text != MASK and text in texts:
            private += [MASK] if doubtful or MASK in text else []
            continue
        texts.add(text)
        (private if doubtful or MASK in text else public).append(text)
    return public, private
