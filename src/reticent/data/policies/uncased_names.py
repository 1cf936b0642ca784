"""Names of people in scripts without capital letters: Chinese, Japanese, Korean, Arabic, Hebrew, Devanagari, Thai.

No letter shows a name there, so it is known by lists (`vocabulary.names_of`) and by how names are built:

    Chinese, Japanese, Korean   a listed family name, then a listed given name, or one of characters that given
                                names are made of; or a family name before a word of address (先生, さん, 씨)
    Arabic, Hebrew, Hindi       a listed first name and the listed names beside it, perhaps behind a joined particle
    Thai                        a listed first name, or what follows a title or "is called", and the word after it

What is in no list is missed. Each word is looked up by itself and with the next.
"""

import re
from collections.abc import Iterator
from functools import cache

from reticent.core.corpus import Span
from reticent.data.policies.vocabulary import commonness, names_of

_HAN = re.compile("[\u3400-\u9fff々]{2,}")
_HANGUL = re.compile("[\uac00-\ud7a3]{2,}")
_SPACED = {
    "ar": (re.compile("[\u0621-\u064a]{2,}"), ("ar_AA", "ar_SA", "ar_PS"), "وبلف"),
    "he": (re.compile("[\u05d0-\u05ea]{2,}"), ("he_IL",), "ובלמשה"),
    "hi": (re.compile("[\u0900-\u097f]{2,}"), ("hi_IN",), ""),
}
_THAI = re.compile("[\u0e00-\u0e7f]")
_ADDRESSED = ("先生", "女士", "小姐", "太太", "老师", "さん", "様", "さま", "氏", "くん", "ちゃん")
_GIVEN = frozenset(
    "明华伟芳娜敏静丽强磊军洋勇艳杰娟涛超秀霞平刚桂英文玉建国海志红春晓雪梅琳婷宇轩浩然子涵梓小太郎子美恵一二三"
)
_PARTICLES = ("은", "는", "이", "가", "을", "를", "의", "에", "와", "과", "도", "씨", "님", "께", "한", "입")
_TITLED = re.compile("(?:นางสาว|นาย|นาง|คุณ|(?<=ชื่อ)|(?<=ชื่อ ))[\u0e00-\u0e7f]{2,20}(?: [\u0e00-\u0e7f]{2,25})?")
_ANY = re.compile("[\u0590-\u06ff\u0900-\u097f\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
KIND = "PERSON"


def names_without_case(text: str) -> Iterator[Span]:
    """Names in such scripts, perhaps overlapping."""
    if not _ANY.search(text):
        return
    for run in _HAN.finditer(text):
        yield from _chinese(text, run.start(), run.end())
    for run in _HANGUL.finditer(text):
        yield from _korean(run)
    for language, (words, locales, prefixes) in _SPACED.items():
        yield from _spaced(text, words, _listed(locales), (language, prefixes))
    if _THAI.search(text):
        yield from (Span(*match.span(), KIND) for match in _TITLED.finditer(text))
        yield from (Span(*match.span(), KIND) for match in _thai().finditer(text))


@cache
def _listed(locales: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """First and last names of several locales, without those of one letter."""
    lists = [names_of(locale) for locale in locales]
    first, last = (frozenset(w for pair in lists for n in pair[side] for w in n.split()) for side in (0, 1))
    return first, last


def _chinese(text: str, start: int, end: int) -> Iterator[Span]:
    first, last = _listed(("zh_CN", "zh_TW", "ja_JP"))
    letters = _GIVEN | {symbol for name in first for symbol in name}
    place = start
    while place < end - 1:
        taken = 0
        for family in (2, 1):
            if text[place : place + family] not in last or place + family >= end:
                continue
            rest = place + family
            addressed = next((word for word in _ADDRESSED if text.startswith(word, rest)), "")
            given = text[rest : min(rest + 2, end)]
            if addressed:
                taken = family
            elif given in first or (len(given) == 2 and set(given) <= letters):
                taken = family + 2
            elif given[:1] in first and rest + 1 == end:
                taken = family + 1
            if taken:
                break
        if taken:
            yield Span(place, place + taken, KIND)
        place += taken or 1


def _korean(run: re.Match[str]) -> Iterator[Span]:
    """A word that starts with a family name and goes on with two syllables and at most particles."""
    first, last = _listed(("ko_KR",))
    word = run.group()
    rest = word[3:]
    named = word[:1] in last and (word[1:3] in first or (len(word) >= 3 and rest.startswith(("씨", "님"))))
    if named and (not rest or rest.startswith(_PARTICLES)):
        yield Span(run.start(), run.start() + 3, KIND)


def _spaced(
    text: str, words: re.Pattern[str], lists: tuple[frozenset[str], frozenset[str]], speech: tuple[str, str]
) -> Iterator[Span]:
    first, last = lists
    language, prefixes = speech
    found: Span | None = None
    for match in words.finditer(text):
        word = match.group()
        bare = word[1:] if word not in first and word not in last and word[0] in prefixes else word
        begin = match.end() - len(bare)
        joined = found is not None and text[found.end : begin] in (" ", "-")
        if found is not None and joined and (bare in last or bare in first):
            found = Span(found.start, match.end(), KIND)
            continue
        if found is not None:
            yield found
        common = commonness(bare, language)[0] >= 4.5
        found = Span(begin, match.end(), KIND) if bare in first and not common else None
        if found is None and bare in first:  # a common word too: a name only before another one
            follower = words.match(text, match.end() + 1)
            if follower and follower.group() in last:
                found = Span(begin, match.end(), KIND)
    if found is not None:
        yield found


@cache
def _thai() -> re.Pattern[str]:
    first, _ = names_of("th_TH")
    names = sorted((name for name in first if len(name) >= 4), key=len, reverse=True)
    return re.compile(rf"(?:{'|'.join(map(re.escape, names))})(?: [\u0e00-\u0e7f]{{2,25}})?")
