"""Phrases inside a text: windows of n tokens, each scored after all that stands before it.

    DS of a window = Σ over its n tokens of  p'(t_i | t_<i) − p(t_i | t_<i)

One reading of a text by either snapshot scores all of its windows. A window is shown as whole words: it is widened
until it neither begins nor ends inside a word. Of windows that say nearly the same, only the highest is shown.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from reticent.auditing.attacks.update.score import PhraseScore, UpdateScore, phrase_score
from reticent.core.arrays import Floats
from reticent.core.model import LanguageModel, Tokens

_REACH: Final = 16  # tokens on either side of a window among which the ends of its words are looked for
_LIKENESS: Final = 0.5  # two phrases that share more of their tokens say nearly the same


def window_scores(
    before: Floats, after: Floats, *, length: int, score: UpdateScore = UpdateScore.ABSOLUTE
) -> Floats:
    """Scores [T − n + 1] of all windows of a text, from its tokens' log-probabilities [T].

    A text of fewer than n tokens is one window.
    """
    added = score.increments(before, after)
    if len(added) == 0:
        return np.empty(0)
    sums = np.concatenate([[0.0], np.cumsum(added)])
    length = min(length, len(added))
    return np.asarray(sums[length:] - sums[: len(sums) - length])


def windows_apart(
    tokens: Tokens, before: Floats, after: Floats, *, length: int, score: UpdateScore = UpdateScore.ABSOLUTE
) -> list[PhraseScore]:
    """Windows of a text that share no token, the highest first."""
    length = min(length, len(tokens))
    values = window_scores(before, after, length=length, score=score)
    found: list[PhraseScore] = []
    while np.isfinite(values).any():
        span = slice(start := int(np.argmax(values)), start + length)
        found.append(phrase_score(tokens[span], before[span], after[span], context=tokens[:start]))
        values[max(0, start - length + 1) : span.stop] = -np.inf
    return found


def distinct_phrases(
    phrases: Iterable[PhraseScore], *, most: int, score: UpdateScore = UpdateScore.ABSOLUTE
) -> list[PhraseScore]:
    """The `most` highest phrases, leaving out each that says nearly the same as a higher one."""
    kept: list[PhraseScore] = []
    for phrase in sorted(phrases, key=lambda one: (-one.by(score), one.tokens)):
        if not any(_is_like(phrase.tokens, other.tokens) for other in kept):
            kept.append(phrase)
        if len(kept) == most:
            break
    return kept


def _is_like(first: Sequence[int], second: Sequence[int]) -> bool:
    shared = len(set(first) & set(second))
    return shared > _LIKENESS * min(len(set(first)), len(set(second)))


def whole_words(model: LanguageModel, text: Tokens, window: tuple[int, int]) -> tuple[int, ...]:
    """The tokens of a window (first, and one past the last) and those around it that complete its outer words."""
    first, end = window[0], min(window[1], len(text))
    origin = max(0, first - _REACH)
    tokens = text[origin : end + _REACH]
    texts = model.decode([tokens[:place] for place in range(len(tokens) + 1)])

    def is_inside(place: int) -> bool:
        cut = len(texts[place - origin])
        return 0 < cut < len(texts[-1]) and texts[-1][cut - 1].isalnum() and texts[-1][cut].isalnum()

    while first > origin and is_inside(first):
        first -= 1
    while end < origin + len(tokens) and is_inside(end):
        end += 1
    return tuple(map(int, text[first:end]))
