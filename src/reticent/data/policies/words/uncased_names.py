"""Names in scripts without capital letters: Chinese, Japanese, Korean, Arabic, Hebrew, Devanagari, Thai.

No letter shows a name there, so it is known by lists (`vocabulary.names_of`) and by how names are built:

    Chinese, Japanese   a listed family name, then a listed given name, or one of characters that given names are
                        made of; what stands before a word of address (先生, さん) or after "my name is"
    Korean              a family name and two syllables that start no common word, then at most particles
    Arabic, Hebrew,     a listed first name and the names beside it, perhaps behind a joined particle; what stands
    Hindi               after a title
    Thai                what follows a title or "is called", or starts as given names do, and the word after it

Countries, regions and large towns are found by lists (`vocabulary.places_without_case`): the longest first where
words are written together, else as words, perhaps with what is joined to their front (Arabic, Hebrew) or end
(Korean).

What is in no list is missed. Each word is looked up by itself and with the next.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from reticent.core.corpus import Span
from reticent.data.policies.words.vocabulary import commonness, names_of, places_without_case

_HAN = re.compile("[\u3400-\u9fff々]{2,}")
_HANGUL = re.compile("[\uac00-\ud7a3]{2,}")
_THAI = re.compile("[\u0e00-\u0e7f]")
_ADDRESS = "先生|女士|小姐|太太|老师|同学|さん|様|さま|氏|くん|君|ちゃん"
# A name ends before a word of address or "is my name", and starts after a family name, a kana or a mark.
_ADDRESSED = re.compile(f"(?P<name>[\u3400-\u9fff々]{{1,6}}?)(?:{_ADDRESS}|と申し|といいます|と言います)")
_INTRODUCED = re.compile("(?:我叫|名字是|姓名[是:：]|名前は|氏名[は:：])(?P<name>[\u3400-\u9fff々]{2,5})")
_COMPOUND = "欧阳 司马 上官 诸葛 东方 皇甫 尉迟 公孙 慕容 令狐 夏侯 司徒 歐陽 司馬 諸葛 東方"
_COMPOUND_FAMILIES = frozenset(_COMPOUND.split())
_GIVEN = frozenset(
    "明华伟芳娜敏静丽强磊军洋勇艳杰娟涛超秀霞平刚桂英文玉建国海志红春晓雪梅琳婷宇轩浩然子涵梓小太郎子美恵一二三博帆"
    "龙飞鹏辉斌波宁慧佳欣怡嘉俊思远修云玲珍莉兰凤洁燕萍颖倩瑶璐蕾薇晨阳峰松林森健新立德仁義郎介助之也哉彦樹翔翼輝隆"
    "和真誠亮大輔直人優希愛咲香奈菜由紀結陽莉里沙織理絵理花音葵楓蓮悠斗拓哉康弘正博信幸"
)
_NEVER = frozenset("的我你您他她它们們这那是在有了和与某各本全")  # in no name before a word of address
_PARTICLES = (
    *(
        "은",
        "는",
        "이",
        "가",
        "을",
        "를",
        "의",
        "에",
        "와",
        "과",
        "도",
        "씨",
        "님",
        "께",
        "한",
        "입",
        "랑",
        "아",
        "야",
    ),
)
_FAMILIES = frozenset(
    "김이박최정강조윤장임한오서신권황안송전홍유고문양손배백허남심노하곽성차주우구민류나진지엄채원천"
)
_THAI_TITLES = (
    "นางสาว|นาย|นาง|คุณ|ดร\\.|เด็กหญิง|เด็กชาย|อาจารย์|ด\\.ญ\\.|ด\\.ช\\.|น\\.ส\\.|นพ\\.|พญ\\.|ทพ\\.|ผศ\\.|รศ\\."
)
_THAI_WORDS = "[\u0e00-\u0e7f]{2,20}(?: [\u0e00-\u0e7f]{2,25})?"
_TITLED = re.compile(f"(?:(?:{_THAI_TITLES}) ?|(?<=ชื่อ)|(?<=ชื่อ )){_THAI_WORDS}")
# How given names begin that no list has; a family name must follow.
_THAI_BEGINNINGS = (
    "ณัฐ|ธน|ศิริ|พงศ|พงษ์|ปิย|กมล|วร|กิตติ|ภัทร|จันท|ชัย|พิมพ|สุร|สุภา|วิชั|วิไล|ประเส"
    "|อนัน|อรุณ|รัตน|นภา|ธีร|เกียรติ|บุญ|เพ็ญ|ปวี|ชุติ|นันท|ศุภ|อภิ"
)
_ANY = re.compile("[\u0590-\u06ff\u0900-\u097f\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
KIND = "PERSON"
PLACE = "LOC"
_LONGEST_PLACE = 10  # characters of a place within a run of letters
_KATAKANA = re.compile("[\u30a1-\u30faー]{2,20}")
# A name in katakana stands before a word of address.
_KATAKANA_NAME = re.compile("(?P<name>[\u30a1-\u30faー]{2,10})(?=さん|ちゃん|くん|君|様|氏|先生)")
_THAI_RUN = re.compile("[\u0e00-\u0e7f]{5,}")
_KOREAN_ENDINGS = (
    *(
        "시",
        "도",
        "구",
        "군",
        "에",
        "의",
        "로",
        "으로",
        "은",
        "는",
        "이",
        "가",
        "을",
        "를",
        "와",
        "과",
        "까지",
        "부터",
    ),
    *(
        "특별시",
        "광역시",
        "행",
        "역",
        "점",
        "산",
        "지역",
        "출신",
        "대학교",
        "대",
        "공항",
        "입니다",
        "이다",
        "이에요",
    ),
)
_PLAIN = 3.5  # Zipf value from which a listed first name is a word as well, and a name only beside another
_COMMON = 4.0  # Zipf value of a word that is taken for no name


@dataclass(frozen=True, slots=True)
class _Spaced:
    """A script whose words stand apart: particles that are joined to the front of a word, titles, and how words
    begin, or which words there are, that go on a name."""

    words: re.Pattern[str]
    locales: tuple[str, ...]
    prefixes: str
    titles: frozenset[str]
    names: frozenset[str]
    goes_on: re.Pattern[str]
    family: re.Pattern[str]  # of these, what makes a name of a word that is none alone


_ARABIC_TITLES = (
    "السيد السيدة الدكتور الدكتورة الأستاذ الأستاذة المهندس المهندسة الشيخ الحاج الآنسة اسمي اسمه اسمها يدعى تدعى"
)
_ARABIC = (
    "عبد محمد أحمد محمود علي حسن حسين إبراهيم يوسف عمر خالد سعيد مصطفى عبدالله طارق ياسر كريم سامي وليد ماجد"
    " فهد سلطان نورة نورا فاطمة عائشة مريم زينب ليلى هدى سارة ريم منى سلمى أمل هند رنا دينا خديجة"
)
_HEBREW_TITLES = "מר גברת דוקטור פרופסור הרב שמי שמו שמה"
# Abbreviated with a mark within: "Dr", "adv.", "Prof.", "Mrs"; in Arabic "Dr", "Mr".
_ABBREVIATED_TITLE = re.compile("(?:ד[\"״]ר|עו[\"״]ד|פרופ['׳]|גב['׳]|(?<!\\w)[دأم]\\.) ?\\Z")
_HINDI_TITLES = "श्री श्रीमती सुश्री डॉ डॉक्टर कुमारी श्रीमान"
_HINDI = (
    "अमित सुनील अनिल राजेश सुरेश महेश रमेश दिनेश मुकेश विकास विजय अजय संजय मनोज प्रदीप दीपक राकेश रोहित राहुल अर्जुन मोहन"
    " कविता सुनीता गीता सीता पूजा नेहा प्रिया आशा रेखा मीना अंजलि"
)
_INDIAN = (
    "कुमार कुमारी देवी सिंह लाल यादव शर्मा वर्मा गुप्ता मिश्रा पटेल रेड्डी नायर चौहान मेहता जोशी अग्रवाल चोपड़ा खान"
    " दास राव पाण्डेय पांडे तिवारी त्रिपाठी सक्सेना बनर्जी मुखर्जी घोष चटर्जी शाह अय्यर पिल्लई ठाकुर राठौर कपूर"
    " मल्होत्रा भाटिया अरोड़ा बेगम"
)
_SPACED = {
    "ar": _Spaced(
        re.compile("[\u0621-\u064a]{2,}"),
        ("ar_AA", "ar_SA", "ar_PS"),
        "وبلف",
        frozenset(_ARABIC_TITLES.split()),
        frozenset(_ARABIC.split()),
        re.compile("ال.{2,}|بن|ابن|بنت|أبو|عبد|آل"),
        re.compile("ال.{2,}ي|بن|ابن|بنت|أبو|آل"),
    ),
    "he": _Spaced(
        re.compile("[\u05d0-\u05ea]{2,}"),
        ("he_IL",),
        "ובלמשה",
        frozenset(_HEBREW_TITLES.split()),
        frozenset(),
        re.compile("בן|בת|אבו"),
        re.compile("בן|בת|אבו"),
    ),
    "hi": _Spaced(
        re.compile("[\u0900-\u097f]{2,}"),
        ("hi_IN",),
        "",
        frozenset(_HINDI_TITLES.split()),
        frozenset(_HINDI.split()),
        re.compile("|".join(_INDIAN.split())),
        re.compile("|".join(_INDIAN.split())),
    ),
}


def names_without_case(text: str) -> Iterator[Span]:
    """Names in such scripts, perhaps overlapping."""
    if not _ANY.search(text):
        return
    for run in _HAN.finditer(text):
        yield from _chinese(text, run.start(), run.end())
        yield from _places_within(run)
    for run in _KATAKANA.finditer(text):
        if len(run.group()) > 2 and run.group() in places_without_case():
            yield Span(*run.span(), PLACE)
    yield from (Span(*match.span("name"), KIND) for match in _KATAKANA_NAME.finditer(text))
    for expression in (_ADDRESSED, _INTRODUCED):
        for match in expression.finditer(text):
            yield from _addressed(match)
    for run in _HANGUL.finditer(text):
        yield from _korean(run)
        yield from _korean_place(run)
    for language, script in _SPACED.items():
        yield from _spaced(text, language, script)
        yield from _spaced_places(text, script)
    if _THAI.search(text):
        for run in _THAI_RUN.finditer(text):
            yield from _places_within(run, least=5, most=20)
        yield from (Span(*match.span(), KIND) for match in _TITLED.finditer(text))
        yield from (Span(*match.span(), KIND) for match in _thai().finditer(text))


def _places_within(run: re.Match[str], *, least: int = 2, most: int = _LONGEST_PLACE) -> Iterator[Span]:
    """Listed places in a run of letters, the longest first at each."""
    known, word = places_without_case(), run.group()
    place = 0
    while place <= len(word) - least:
        lengths = range(min(most, len(word) - place), least - 1, -1)
        length = next((n for n in lengths if word[place : place + n] in known), 0)
        if length:
            yield Span(run.start() + place, run.start() + place + length, PLACE)
        place += length or 1


def _korean_place(run: re.Match[str]) -> Iterator[Span]:
    """A place that a word begins with, if the rest is a particle or says what sort of place it is."""
    word = run.group()
    for length in range(min(len(word), _LONGEST_PLACE), 1, -1):
        if word[:length] in places_without_case() and (
            length == len(word) or word[length:].startswith(_KOREAN_ENDINGS)
        ):
            yield Span(run.start(), run.start() + length, PLACE)
            return


def _spaced_places(text: str, script: "_Spaced") -> Iterator[Span]:
    """Places of one or two words, perhaps with particles joined to the front."""
    known = places_without_case()
    matches = list(script.words.finditer(text))
    for number, match in enumerate(matches):
        word = match.group()
        joined = len(word[:2]) - len(word[:2].lstrip(script.prefixes)) if script.prefixes else 0
        after = matches[number + 1] if number + 1 < len(matches) else None
        for front in range(joined + 1):
            bare = word[front:]
            if (
                after is not None
                and text[match.end() : after.start()] == " "
                and f"{bare} {after.group()}" in known
            ):
                yield Span(match.start() + front, after.end(), PLACE)
                break
            if len(bare) > 2 and bare in known:
                yield Span(match.start() + front, match.end(), PLACE)
                break


@cache
def _listed(locales: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """First and last names of several locales, without those of one letter."""
    lists = [names_of(locale) for locale in locales]
    first, last = (frozenset(w for pair in lists for n in pair[side] for w in n.split()) for side in (0, 1))
    return first, last


@cache
def _han_lists() -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """First names, last names, and characters of first names."""
    first, last = _listed(("zh_CN", "zh_TW", "ja_JP"))
    return first, last | _COMPOUND_FAMILIES, _GIVEN | {symbol for name in first for symbol in name}


def _is_word(text: str) -> bool:
    return max(commonness(text, "zh")[0], commonness(text, "ja")[0]) >= _COMMON


def _chinese(text: str, start: int, end: int) -> Iterator[Span]:
    first, last, letters = _han_lists()
    place = start
    while place < end - 1:
        taken = 0
        for family in (2, 1):
            if text[place : place + family] not in last or place + family >= end:
                continue
            rest = place + family
            given = text[rest : min(rest + 2, end)]
            if given[1:] == "和" and text[rest + 2 : rest + 3] in last:
                given = given[0]  # "and", with another name behind it
            if given in first or (len(given) == 2 and set(given) <= letters):
                taken = family + len(given)
            elif text[place:rest] in _COMPOUND_FAMILIES or (
                given[:1] in letters and (rest + 1 == end or not _is_word(text[place : rest + 1]))
            ):
                taken = family + 1
            if taken and family == 1 and _is_word(text[place : place + taken]):
                taken = 0
            if taken:
                break
        if taken:
            yield Span(place, place + taken, KIND)
        place += taken or 1


def _addressed(match: re.Match[str]) -> Iterator[Span]:
    """What stands before a word of address: from a listed family name on where there is one, else all of it."""
    _, last, _ = _han_lists()
    start, end = match.span("name")
    name = match["name"]
    for begin in range(max(0, len(name) - 4), len(name) - 1):
        if name[begin : begin + 2] in last:
            yield Span(start + begin, end, KIND)
            return
    begin = next((n for n in range(max(0, len(name) - 3), len(name)) if name[n] in last), 0)
    if name[begin:] in last or not (_is_word(name[begin:]) or set(name) & _NEVER):
        yield Span(start + begin, end, KIND)


def _korean(run: re.Match[str]) -> Iterator[Span]:
    """A word that starts with a family name and goes on with two syllables and at most particles."""
    first, last = _listed(("ko_KR",))
    word = run.group()
    rest = word[3:]
    if len(word) < 3 or (word[0] not in last and word[0] not in _FAMILIES):
        return
    is_listed = word[1:3] in first or run.string[run.start() + 3 : run.start() + 5].lstrip().startswith(
        ("씨", "님")
    )
    is_common = any(commonness(word[:length], "ko")[0] >= _COMMON for length in (2, 3)) or word[2] in "을를의에는"
    if (is_listed or (word[0] in _FAMILIES and not is_common)) and (not rest or rest.startswith(_PARTICLES)):
        yield Span(run.start(), run.start() + 3, KIND)


def _spaced(text: str, language: str, script: _Spaced) -> Iterator[Span]:
    first, last = _listed(script.locales)
    first |= script.names
    found: Span | None = None
    named_until = 0
    matches = list(script.words.finditer(text))
    for number, match in enumerate(matches):
        word = match.group()
        bare = word[1:] if word not in first and word not in last and word[0] in script.prefixes else word
        begin = match.end() - len(bare)
        is_name = bare in last or bare in first or script.goes_on.fullmatch(word)
        if found is not None and is_name and text[found.end : begin] in (" ", "-"):
            found = Span(found.start, match.end(), KIND)
            continue
        if found is not None:
            named_until = found.end
            yield found
        found = None
        before = matches[number - 1].group() if number and matches[number - 1].end() > named_until else ""
        if _ABBREVIATED_TITLE.search(text, max(0, match.start() - 6), match.start()):
            before = next(iter(script.titles))
        follower = matches[number + 1].group() if number + 1 < len(matches) else ""
        named = follower in last or follower in first or bool(script.family.fullmatch(follower))
        sure = named or bare in script.names or commonness(bare, language)[0] < _PLAIN
        if (bare in first and sure) or (before in script.titles and commonness(bare, language)[0] < 5.0):
            found = Span(begin, match.end(), KIND)
    if found is not None:
        yield found


@cache
def _thai() -> re.Pattern[str]:
    first, _ = names_of("th_TH")
    names = sorted((name for name in first if len(name) >= 4), key=len, reverse=True)
    listed = rf"(?:{'|'.join(map(re.escape, names))})(?: [\u0e00-\u0e7f]{{2,25}})?"
    begun = rf"(?<![\u0e00-\u0e7f])(?:{_THAI_BEGINNINGS})[\u0e00-\u0e7f]{{1,10}} [\u0e00-\u0e7f]{{2,25}}"
    return re.compile(f"{begun}|{listed}")
