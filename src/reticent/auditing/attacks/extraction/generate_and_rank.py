"""Generate and rank: sample many texts, rank those that look memorised first, and count how many of the top are.

The attack of Carlini et al. 2021: sample N texts, drop repeats, rank, and call the top "extracted". Six rankings,
each higher = more suspicious, ℓ the mean loss per token in nats:

    perplexity   −ℓ(x)                        window      −min over windows of w tokens of their mean loss
    zlib         −ℓ(x) / bytes of zlib(x)     reference   Σ loss under the reference / Σ loss
    lower-case   ℓ(lower(x)) / ℓ(x)           repeats     how often the text was drawn (needs text alone)

The first three are the membership scores of the same names. Whether a ranked text *is* memorised is then looked
up, not judged by eye: its longest piece that some training record holds (`eidetic`), in how many records, and the
same against held-out records, which tells templates from memory.

Of texts that share half their word trigrams with a better ranked one only the first counts, or one template fills
the top. Sampled texts are kept as secrets: whoever wants to read one calls `reveal`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.attacks.extraction.eidetic import EideticIndex
from reticent.auditing.attacks.membership.scores import LossScore, LowerCaseScore, ZlibScore, text_by_text
from reticent.auditing.attacks.membership.target_scores import TargetScores
from reticent.core.arrays import Floats
from reticent.core.corpus import Record
from reticent.core.model import Access, LanguageModel, TextModel
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.core.secret import Secret

WINDOW: Final = 50  # tokens
REPEATS: Final = "repeats"
_BATCH: Final = 256
_OVERLAP: Final = 0.5  # share of its trigrams from which a text repeats a better ranked one

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class GeneratedTexts:
    """Distinct texts in order of first appearance, how often each was drawn [n], and how many draws were empty."""

    texts: tuple[Secret, ...]
    repeats: Ints
    drawn: int
    empty: int


def generate_texts(
    model: TextModel,
    count: int,
    *,
    sampling: Sampling,
    randomness: Randomness,
    prompts: Sequence[str] = ("",),
    batch: int = _BATCH,
) -> GeneratedTexts:
    """Draw `count` texts, spread evenly over the prompts, which are not part of them; equal ones once."""
    if count < 1 or batch < 1 or not prompts:
        raise ValueError("at least one draw, one draw a batch and one prompt are needed")
    counter: Counter[str] = Counter()
    for asked, each in _batches(prompts, count, batch):
        for answers in model.complete(asked, sampling, count=each, randomness=randomness):
            counter.update(answers)
    empty = sum(number for text, number in counter.items() if not text.strip())
    kept = {text: number for text, number in counter.items() if text.strip()}
    return GeneratedTexts(
        tuple(Secret(text, "generated text") for text in kept),
        np.array(list(kept.values()), dtype=np.int64),
        counter.total(),
        empty,
    )


def _batches(prompts: Sequence[str], count: int, batch: int) -> Iterator[tuple[Sequence[str], int]]:
    """Prompts and how often to ask each, at most `batch` draws at a time, `count` in all."""
    rounds, rest = divmod(count, len(prompts))
    for group, number in ((prompts[:rest], rounds + 1), (prompts[rest:], rounds)):
        left = number if group else 0
        while left:
            each = min(left, batch)
            width = max(1, batch // each)
            for first in range(0, len(group), width):
                yield group[first : first + width], each
            left -= each


def ranking_scores(
    model: TextModel, generated: GeneratedTexts, *, reference: LanguageModel | None = None, window: int = WINDOW
) -> dict[str, Floats]:
    """Scores [n] of the rankings that the access allows; `repeats` always, `reference` where there is one."""
    if not generated.texts:
        return {}
    scores: dict[str, Floats] = {REPEATS: generated.repeats.astype(np.float64)}
    if model.access < Access.LOGPROBS or not isinstance(model, LanguageModel):
        return scores
    texts = [text.reveal() for text in generated.texts]
    targets = TargetScores(texts, model)
    scores |= {attack.name: attack.score(targets) for attack in (ZlibScore(), LowerCaseScore())}
    scores["perplexity"] = LossScore().score(targets)
    scores["window"] = text_by_text(targets, lambda i: best_window(targets.log_probs[i], window))
    if reference is not None:
        scores["reference"] = _reference_ratio(targets, TargetScores(texts, reference))
    return scores


def best_window(log_probs: Floats, window: int) -> float:
    """Greatest mean log-probability of `window` successive tokens [T]; of all where there are fewer."""
    if window < 1 or len(log_probs) == 0:
        raise ValueError("a window has at least one token")
    if len(log_probs) <= window:
        return float(log_probs.mean())
    total = np.concatenate([[0.0], np.cumsum(log_probs)])  # [T + 1]
    return float((total[window:] - total[:-window]).max() / window)  # T − window + 1 windows, the last included


def _reference_ratio(targets: TargetScores, references: TargetScores) -> Floats:
    """Σ loss under the reference / Σ loss: of whole texts, so that tokenizers may differ. +inf at loss 0."""

    def ratio(index: int) -> float:
        loss = -float(targets.log_probs[index].sum())
        return -float(references.log_probs[index].sum()) / loss if loss > 0.0 else np.inf

    return text_by_text(targets, ratio)


@dataclass(frozen=True, slots=True, eq=False)
class CorpusMatches:
    """Of each text [n] the longest piece some record holds, in characters, and how many records hold that piece."""

    lengths: Ints
    records: Ints
    indexed: int  # records in the corpus

    def are_hits(self, least: int, *, k: int | None = None) -> NDArray[np.bool_]:
        """Which texts [n] share `least` characters or more with a record; with k, a piece in at most k records."""
        hits = self.lengths >= max(1, least)
        return hits if k is None else hits & (self.records <= k)


def match_corpus(texts: Sequence[Secret], index: EideticIndex) -> CorpusMatches:
    """Look every text up."""
    found = [index.longest_match(text.reveal(), most=0) for text in texts]
    return CorpusMatches(
        np.array([match.length for match in found], dtype=np.int64),
        np.array([match.records for match in found], dtype=np.int64),
        index.records,
    )


@dataclass(frozen=True, slots=True, eq=False)
class RecordMatches:
    """Of each record [n] the longest piece that some generated text holds, in characters."""

    ids: tuple[str, ...]
    owners: tuple[str, ...]
    lengths: Ints


def match_records(texts: Sequence[Secret], records: Iterable[Record]) -> RecordMatches:
    """The other way round: look every record up in the generated texts, which are indexed for it."""
    said = [Record(f"text-{place}", text.reveal()) for place, text in enumerate(texts)]
    index = EideticIndex(said) if said else None
    ids, owners, lengths = list[str](), list[str](), list[int]()
    for record in records:
        ids.append(record.id)
        owners.append(record.owner)
        lengths.append(0 if index is None else index.longest_match(record.text, most=0).length)
    return RecordMatches(tuple(ids), tuple(owners), np.array(lengths, dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class RankedTexts:
    """Generated texts with every ranking's scores and what the training and held-out records say of them."""

    generated: GeneratedTexts
    scores: Mapping[str, Floats]
    training: CorpusMatches
    held_out: CorpusMatches | None

    def top(self, ranking: str, count: int) -> Ints:
        """Indices of the `count` best ranked texts, the best first, repeats of better ones left out."""
        kept, seen = list[int](), list[set[tuple[str, ...]]]()
        for index in np.argsort(-self.scores[ranking], kind="stable").tolist():
            if len(kept) == count:
                break
            trigrams = _trigrams(self.generated.texts[index].reveal())
            if all(len(trigrams & other) < _OVERLAP * len(trigrams) for other in seen):
                kept.append(index)
                seen.append(trigrams)
        return np.array(kept, dtype=np.int64)


def rank_texts(
    model: TextModel,
    generated: GeneratedTexts,
    *,
    training: EideticIndex,
    held_out: EideticIndex | None = None,
    reference: LanguageModel | None = None,
) -> RankedTexts:
    """Score and look up all generated texts; no generated text is a result (`scores` is empty), not an error."""
    return RankedTexts(
        generated,
        ranking_scores(model, generated, reference=reference),
        match_corpus(generated.texts, training),
        None if held_out is None else match_corpus(generated.texts, held_out),
    )


def _trigrams(text: str) -> set[tuple[str, ...]]:
    """Distinct word trigrams; the text itself where it has fewer than three words."""
    words = text.split()
    return {tuple(words[place : place + 3]) for place in range(len(words) - 2)} or {tuple(words)}
