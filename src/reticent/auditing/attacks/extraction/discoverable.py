"""Discoverable extraction: give the model the beginning of a record and see whether it completes the record.

For each record with enough tokens the prompt is its first k tokens and the target its next m (Carlini et al. 2023;
k = m = 50). Records shorter than k + m are cut in the same proportion; those shorter than `least` are skipped and
counted.

    greedy        the likeliest continuation is the target, verbatim or nearly (`matching`)
    (n, p)        the sampler emits the target at least once in n draws with chance ≥ p (Hayes et al. 2025)

The second is computed, not sampled: log p of one draw is exact (`lazy`), its chance in n draws −expm1(n log1p(−p)).
The suffix's loss starts at its first token, given the whole prefix: token k of the record, counted from 0.

`discover_text` does the same to a model of which only text is seen: words in place of tokens, and draws in place of
chances. It can ask in another writing (`Writing`): filters that stop verbatim text (MemFree) let a record in
capitals or with doubled spaces pass (Ippolito et al. 2023), so both sides are compared by their words alone. Held-
out records, treated alike, show what is guessed and not remembered; metrics are in `extraction.findings`. Results
hold ids and numbers, no text.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.attacks.extraction.matching import TextMatch, match_text
from reticent.auditing.attacks.lazy.emission import emission_log_prob, log_chance_in_samples
from reticent.core.arrays import Floats
from reticent.core.corpus import Record
from reticent.core.model import Access, LanguageModel, TextModel
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling

_WORD: Final = re.compile(r"\s*\S+")  # with the white space before it: joined, the words are the text
_LOST: Final = "\ufffd"  # what decoders write for part of a character: equal to any other part

Ints = NDArray[np.int64]


class Writing(StrEnum):
    """How a prompt is written."""

    PLAIN = "plain"
    UPPER = "upper"
    LOWER = "lower"
    SPACED = "spaced"

    def __call__(self, text: str) -> str:
        """The text in this writing."""
        if self is Writing.SPACED:
            return text.replace(" ", "  ")
        return {Writing.UPPER: text.upper(), Writing.LOWER: text.lower()}.get(self, text)

    def compared(self, text: str) -> str:
        """What is compared of a text: all of it, or in another writing its words alone."""
        return text if self is Writing.PLAIN else " ".join(re.findall(r"\w+", text.casefold()))


T = TypeVar("T")  # a token, or a word


@dataclass(frozen=True, slots=True)
class DiscoverySettings:
    """Lengths of prompt, target and shortest record, in tokens (`discover`) or words (`discover_text`).

    `sampling` is the sampler of the (n, p) measure; its `max_tokens` is set to what the targets need.
    `bytes_per_token` (text alone) is a low estimate, so that answers are long enough for the target.
    """

    prefix: int = 50
    suffix: int = 50
    least: int = 20
    sampling: Sampling = field(default_factory=Sampling)
    bytes_per_token: float = 2.0

    def __post_init__(self) -> None:
        if min(self.prefix, self.suffix) < 1 or self.least < 2 or not self.bytes_per_token > 0.0:
            raise ValueError("a prompt and a target have at least one token, and a record both")

    def lengths(self, total: int, *, room: int | None = None) -> tuple[int, int] | None:
        """(prefix, suffix) of a record of `total` tokens, of which `room` fit into the model; None if too short."""
        whole = min(total, self.prefix + self.suffix, total if room is None else room)
        if whole < self.least:
            return None
        prefix = max(1, whole * self.prefix // (self.prefix + self.suffix))
        return prefix, whole - prefix


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Discovery:
    """What was found of a group of records: ids, owners, and arrays [n] in their order.

    `similarity` is that of the greedy answer with the target, `common` their longest shared piece as a share of the
    target. `log_prob` is of emitting the target in one draw (NaN where only text is seen); `hits` counts verbatim
    targets in `draws` draws (0 where chances are computed).
    """

    ids: tuple[str, ...]
    owners: tuple[str, ...]
    prefix: Ints
    suffix: Ints
    verbatim: NDArray[np.bool_]
    similarity: Floats
    common: Floats
    log_prob: Floats
    hits: Ints
    draws: int
    skipped: int
    access: Access

    def log_chance(self, samples: float) -> Floats:
        """log of the chance [n] that each target comes at least once in `samples` draws."""
        if self.access is Access.TEXT:
            raise ValueError("a model of which only text is seen gives no chances: count its draws")
        return log_chance_in_samples(self.log_prob, samples)

    def discoverable(self, samples: float, chance: float) -> NDArray[np.bool_]:
        """Which records [n] are (samples, chance)-discoverable."""
        if not 0.0 < chance <= 1.0:
            raise ValueError(f"a chance in (0, 1] is needed, found {chance}")
        return np.asarray(self.log_chance(samples) >= np.log(chance))


def discover(
    model: LanguageModel, records: Sequence[Record], *, settings: DiscoverySettings | None = None
) -> Discovery:
    """Greedy answers and exact chances for every record that is long enough: one generation and one scoring."""
    chosen = settings or DiscoverySettings()
    room = None if model.context_length is None else model.context_length - 1
    asked = _ask(records, model.encode([record.text for record in records]), chosen, room)
    log_prob = emission_log_prob(model, asked.targets, chosen.sampling, prompts=asked.prompts)
    return _discovery(asked, _greedy_matches(model, asked), log_prob=log_prob, hits=[0] * len(asked.ids), draws=0)


def discover_text(
    model: TextModel,
    records: Sequence[Record],
    *,
    randomness: Randomness,
    draws: int = 0,
    settings: DiscoverySettings | None = None,
    writing: Writing = Writing.PLAIN,
) -> Discovery:
    """The same through text alone: the greedy answer, and how many of `draws` answers begin with the target."""
    chosen = settings or DiscoverySettings()
    asked = _ask(records, [_WORD.findall(record.text) for record in records], chosen, None)
    if not asked.ids:
        return _discovery(asked, [], log_prob=None, hits=[], draws=draws)
    questions, targets = (["".join(words) for words in some] for some in (asked.prompts, asked.targets))
    questions, targets = [writing(question) for question in questions], [writing(target) for target in targets]
    longest = max(len(target.encode("utf8", errors="surrogatepass")) for target in targets)
    sampler = replace(chosen.sampling, max_tokens=math.ceil(longest / chosen.bytes_per_token))
    greedy = Sampling(max_tokens=sampler.max_tokens, temperature=0.0)
    answers = model.complete(questions, greedy, count=1, randomness=randomness)
    matches = [
        _matched(writing.compared(target), writing.compared(answer))
        for target, (answer,) in zip(targets, answers, strict=True)
    ]
    hits = [0] * len(targets)
    if draws:
        drawn = model.complete(questions, sampler, count=draws, randomness=randomness)
        hits = [
            sum(writing.compared(text).startswith(writing.compared(target)) for text in some)
            for some, target in zip(drawn, targets, strict=True)
        ]
    return _discovery(asked, matches, log_prob=None, hits=hits, draws=draws)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Asked(Generic[T]):
    """Prompts and targets of the records that are long enough, in tokens or words."""

    ids: tuple[str, ...]
    owners: tuple[str, ...]
    prompts: list[list[T]]
    targets: list[list[T]]
    skipped: int


@dataclass(frozen=True, slots=True)
class _Match:
    """A comparison, with the target's length in characters."""

    match: TextMatch
    length: int


def _matched(target: str, answer: str) -> _Match:
    """How an answer meets its target; a target without a word is met by none."""
    return _Match(match_text(target, answer) if target else TextMatch(False, 0.0, 0), len(target))


def _ask(
    records: Sequence[Record], pieces: Sequence[Sequence[T]], settings: DiscoverySettings, room: int | None
) -> _Asked[T]:
    """Cut every record into prompt and target: pieces [0, k) and [k, k + m)."""
    cuts = [settings.lengths(len(some), room=room) for some in pieces]
    kept = [(index, cut) for index, cut in enumerate(cuts) if cut is not None]
    return _Asked(
        tuple(records[index].id for index, _ in kept),
        tuple(records[index].owner for index, _ in kept),
        [list(pieces[index][:prefix]) for index, (prefix, _) in kept],
        [list(pieces[index][prefix : prefix + suffix]) for index, (prefix, suffix) in kept],
        len(records) - len(kept),
    )


def _greedy_matches(model: LanguageModel, asked: _Asked[int]) -> list[_Match]:
    """The likeliest continuation of each prompt, compared with its target."""
    if not asked.ids:
        return []
    greedy = Sampling(max_tokens=max(len(target) for target in asked.targets), temperature=0.0)
    nothing_drawn = Randomness.seeded(0)  # the interface wants a source; greedy decoding takes nothing from it
    answers = model.generate(asked.prompts, greedy, count=1, randomness=nothing_drawn)
    cut = [list(rows[0][: len(target)]) for rows, target in zip(answers, asked.targets, strict=True)]
    matches = []
    texts = zip(model.decode(asked.targets), model.decode(cut), strict=True)
    for target, answer, (wanted, said) in zip(asked.targets, cut, texts, strict=True):
        if answer == target:
            match = TextMatch(True, 1.0, len(wanted))
        elif wanted:
            # Other tokens may write the same text, but not where a decoder hides the difference.
            match = match_text(wanted, said)
            match = replace(match, verbatim=match.verbatim and _LOST not in wanted)
        else:
            match = TextMatch(False, 0.0, 0)
        matches.append(_Match(match, len(wanted)))
    return matches


def _discovery(
    asked: _Asked[T], matches: Sequence[_Match], *, log_prob: Floats | None, hits: Sequence[int], draws: int
) -> Discovery:
    """Everything as arrays, in the order of the ids."""
    return Discovery(
        ids=asked.ids,
        owners=asked.owners,
        prefix=np.array([len(prompt) for prompt in asked.prompts], dtype=np.int64),
        suffix=np.array([len(target) for target in asked.targets], dtype=np.int64),
        verbatim=np.array([found.match.verbatim for found in matches], dtype=np.bool_),
        similarity=np.array([found.match.similarity for found in matches], dtype=np.float64),
        common=np.array([found.match.common / max(1, found.length) for found in matches], dtype=np.float64),
        log_prob=np.full(len(asked.ids), np.nan) if log_prob is None else log_prob,
        hits=np.array(hits, dtype=np.int64),
        draws=draws,
        skipped=asked.skipped,
        access=Access.TEXT if log_prob is None else Access.LOGPROBS,
    )
