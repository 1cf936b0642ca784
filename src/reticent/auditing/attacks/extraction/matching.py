"""How similar two texts are: verbatim, longest common substring, edit distance.

- **Longest common substring**: bisection over its length (a common piece of n symbols holds one of n − 1), pieces
  of one length compared through a set; exact.
- **Edit distance** (insert, delete, replace at cost 1): Myers 1999, one column of the table in the bits of one
  integer, so a thousand characters against a thousand take about a millisecond in plain Python.

Verbatim filters miss text that differs in a space or a synonym (Ippolito et al. 2023), so extraction counts
**near-verbatim** as well: edit similarity of the target with the best beginning of what was generated,

    1 − min_j distance(target, generated[:j]) / |target|

What a generation says after the target is not held against it. Sequences of characters or of tokens alike.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommonSubstring:
    """A longest common piece: first[first_start:][:length] == second[second_start:][:length]."""

    length: int
    first_start: int
    second_start: int


@dataclass(frozen=True, slots=True)
class TextMatch:
    """How a generated text meets a target; no text in it. `common` is the longest shared piece in characters."""

    verbatim: bool
    similarity: float
    common: int


def match_text(target: str, generated: str) -> TextMatch:
    """Compare a target with what was generated in its place; a longer generation is read as far as it fits."""
    if not target:
        raise ValueError("an empty target is met by anything")
    if generated.startswith(target):
        return TextMatch(True, 1.0, len(target))
    return TextMatch(
        False, prefix_similarity(target, generated), longest_common_substring(target, generated).length
    )


def longest_common_substring(first: Sequence[Hashable], second: Sequence[Hashable]) -> CommonSubstring:
    """A longest piece that both have, at its first place in `second`; length 0 where they share nothing."""
    # Strings and tuples have slices that hash; any other sequence is copied into a tuple once.
    one = first if isinstance(first, str) and isinstance(second, str) else tuple(first)
    two = second if isinstance(first, str) and isinstance(second, str) else tuple(second)
    best = CommonSubstring(0, 0, 0)
    low, high = 0, min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        found = _common_piece(one, two, middle)
        if found is None:
            high = middle - 1
        else:
            low, best = middle, found
    return best


def _common_piece(first: Sequence[Hashable], second: Sequence[Hashable], length: int) -> CommonSubstring | None:
    """A common piece of exactly this length, if there is one."""
    pieces = {first[place : place + length]: place for place in range(len(first) - length, -1, -1)}
    for place in range(len(second) - length + 1):
        start = pieces.get(second[place : place + length])
        if start is not None:
            return CommonSubstring(length, start, place)
    return None


def prefix_similarity(target: Sequence[Hashable], generated: Sequence[Hashable]) -> float:
    """1 − distance / |target| of the target and that beginning of `generated` which is nearest to it."""
    if not target:
        raise ValueError("an empty target is met by anything")
    return 1.0 - min(_prefix_distances(target, generated), default=len(target)) / len(target)


def _prefix_distances(pattern: Sequence[Hashable], text: Sequence[Hashable]) -> Iterator[int]:
    """distance(pattern, text[:j]) for j = 1 … |text| (Myers 1999, in the form of Hyyrö 2003)."""
    if not pattern:
        yield from range(1, len(text) + 1)
        return
    equal: dict[Hashable, int] = {}
    for place, symbol in enumerate(pattern):
        equal[symbol] = equal.get(symbol, 0) | 1 << place
    everything = (1 << len(pattern)) - 1
    last = 1 << (len(pattern) - 1)
    # Bit i of up (down): the column grows (falls) by one from row i to row i + 1.
    up, down, distance = everything, 0, len(pattern)
    for symbol in text:
        same = equal.get(symbol, 0)
        diagonal = (((same & up) + up) ^ up) | same | down
        right_up = down | ~(diagonal | up) & everything  # the row grows by one from this column to the next
        right_down = up & diagonal
        if right_up & last:
            distance += 1
        elif right_down & last:
            distance -= 1
        right_up = right_up << 1 | 1  # row 0 grows by one a column: skipped text costs
        right_down <<= 1
        up = (right_down | ~(diagonal | right_up)) & everything
        down = right_up & diagonal & everything
        yield distance
