"""Patterns for circumstances that single a person out only together: ages, durations, sums, counts, years, origin,
occupation, health. The quasi identifiers of the Text Anonymization Benchmark that no checksum and no capital shows.

    YEAR        "in 1926"                          DURATION    "three years and nine months’", "aged 35"
    PERIOD      "two weeks", "30 minutes’"         COUNT       "seven other persons"
    AMOUNT      "141 Deutsch Mark (DEM)"
    ORIGIN      "a Cypriot national"               OCCUPATION  "primary school teacher", "retired officer"
    HEALTH      "paranoid schizophrenia", "fracture of the left kneecap"    NUMBERED   "plot no. 900 of block D"

The word lists are short and English: what they leave out is missed, and `measurement` says how much that is. Local:
every match starts with a sign (€) or where no word character stands before it, ends at the end of a word (and
perhaps a closing bracket after it), holds no mask, and reads nothing beyond its own characters.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from reticent.core.corpus import Span
from reticent.data.policies.shapes.stretches import Begun, Stretch, around, one_of, places
from reticent.data.policies.words.vocabulary import language_of
from reticent.data.redaction.masking import MASK, mask_for, merge_spans

_GAP = r"[ \u00a0]"
_ONES = "one|two|three|four|five|six|seven|eight|nine"
_TEENS = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_SMALL = rf"(?:(?:{_TENS})(?:[-‑](?:{_ONES}))?|{_TEENS}|{_ONES})"
_WORDED = rf"(?:{_SMALL}(?:{_GAP}(?:hundred|thousand|million)\b){{0,3}}|a{_GAP}(?:hundred|thousand|million)\b)"
_FIGURES = r"\d{1,15}(?:[.,]\d{1,9}){0,6}"  # bounded, as all repetitions here: time must not grow faster than text
_NUMBER = rf"(?:{_WORDED}|{_FIGURES}(?:{_GAP}(?:hundred|thousand|million|billion)\b)?)"
_NUMBERS_BEGIN = r"\daefnost"
_MANY = rf"(?:{_NUMBER}|several|half{_GAP}an?)(?:[-‑]|{_GAP})"
_LONG = rf"{_MANY}(?:year|month)s?\b"
_SHORT = rf"{_MANY}(?:week|fortnight|day|hour|minute)s?\b"
_AND = rf"(?:,{_GAP}|{_GAP}and{_GAP}|{_GAP})"
_AGE = rf"(?:[-‑]old\b|{_GAP}old\b)"
_CURRENCY = (
    "(?:(?:New|Turkish|Austrian|Polish|Cypriot|Cyprus|Swiss|French|Belgian|German|Deutsche?|Italian|Russian|Swedish"
    "|Norwegian|Danish|Czech|Slovak|Hungarian|Romanian|Bulgarian|Ukrainian|US|United States|British|Irish|Finnish)"
    rf"{_GAP}){{0,2}}(?i:euros?|dollars?|pounds?(?:{_GAP}sterling)?|lir[ae]s?|lire|schillings?|zlotys?|francs?|marks?"
    r"|roubles?|rubles?|kron[aeo]r?s?|crowns?|korun[ay]?|forints?|le[iu]|leva?|hryvnias?|markkaa?|guilders?|pence)\b"
)
_ISO = "(?:EUR|USD|GBP|TRY|TRL|YTL|ATS|DEM|PLN|PLZ|CHF|FRF|ITL|CYP|SEK|NOK|DKK|CZK|SKK|HUF|RON|BGN|UAH|RUB|FIM|NLG)"
_SUM = rf"(?:(?:{_ISO}|[€$£]){_GAP}?{_NUMBER}(?!\w)|{_NUMBER}{_GAP}{_CURRENCY}|{_NUMBER}{_GAP}{_ISO}\b)"
_NOTE = rf"(?:{_GAP}?[([](?:[^()\[\]\n<]{{0,20}}\b)?(?:{_ISO}|{_SUM}|euros?)(?:{_GAP}?\({_ISO}\))?[)\]]){{0,2}}"

_DEMONYM = r"[A-Z][a-z]{1,20}(?:ish|ian|an|ese|ch|ek|ot|iot|sh|ss|i|k|o|e|d|n)\b"
_BELONGS = r"(?:nationals?|citizens?|subjects?|origin|descent|nationality|citizenship)\b"

_OCCUPATION = """
accountant actor advocate ambulance-driver analyst architect artist assistant baker banker barrister bookkeeper
builder businessman businesswoman butcher carpenter caretaker cashier chauffeur chef chemist civil-servant cleaner
clerk colonel commander constable consultant cook councillor dancer dentist diplomat director doctor driver
economist editor editor-in-chief electrician employee engineer entrepreneur executive farmer firefighter fisherman
gardener general gendarme geologist guard hairdresser headmaster housewife inspector interpreter janitor journalist
judge labourer lawyer lecturer librarian lieutenant locksmith major manager mason mayor mechanic merchant midwife
miner minister musician notary nurse officer operator optician painter paramedic pensioner pharmacist philosopher
photographer physician physicist pilot plumber poet policeman policewoman politician porter postman practitioner
priest principal producer professor programmer prosecutor psychiatrist psychologist publisher referee reporter
researcher sailor salesman saleswoman scientist sculptor secretary sergeant servant shepherd shopkeeper singer
soldier solicitor steward student superintendent surgeon surveyor tailor teacher technician trader translator tutor
veterinarian waiter waitress warden watchman watchmaker welder worker writer
"""
_QUALIFIER = """
retired former senior junior assistant primary secondary high school university ballet medical research military
police artillery army navy prison security taxi lorry bus truck civil public vice deputy chief head general
non-commissioned non‑commissioned self-employed freelance trainee student language trade union
"""
_BODY = (
    "(?:head|skull|brain|eyes?|ears?|nose|jaw|teeth|tooth|neck|spine|shoulders?|arms?|elbows?|wrists?|hands?|fingers?"
    "|ribs?|chest|heart|lungs?|liver|kidneys?|hips?|legs?|knees?|kneecaps?|tibia|ankles?|foot|feet|back|vertebrae?)"
)
_ILL = (
    r"(?:ill(?:ness|nesses)|disorders?|disabilit(?:y|ies)|diseases?|syndrome|infection|depression|cancer|tumours?)"
)


def _either_case(words: str) -> list[str]:
    return [form for word in words.split() for form in (word, word[:1].upper() + word[1:])]


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern for a kind. It ends at the end of a word, or with a bracket that such an end stands before. With
    `first`, it begins with one of these characters.

    Every match holds one of `near` (in small letters, blanks plain), one of the words of `joined` behind a blank or
    a hyphen, or what `written` matches; it starts no more than `before` characters before the first of these, and
    ends no more than `after` behind the start of the last.
    """

    kind: str
    pattern: str
    first: str = ""
    near: tuple[str, ...] = ()
    joined: str = ""
    written: str = ""
    before: int = 0
    after: int = 0


_MONEY = (
    "euro dollar pound lira lire schilling zloty franc mark rouble ruble kron crown korun forint lei leu lev"
    " hryvnia guilder pence"
)


def _rules() -> list[_Rule]:
    occupations, qualifiers = (one_of(_either_case(words)) for words in (_OCCUPATION, _QUALIFIER))
    return [
        # A year within "1999.2004" counts: were it refused for the digits beside it, masking those would reveal it.
        _Rule("YEAR", r"(?:1[6-9]|20)(?<!\w..)\d\d(?:s|[-–](?:\d\d|\d{4}))?(?!\w)"),
        _Rule(
            "DURATION",
            rf"(?:{_LONG}(?:{_AND}(?:{_LONG}|{_SHORT})){{0,4}}(?:{_AGE}|(?<=s)['’]|['’]s\b)?|{_SHORT}{_AGE})",
            first=_NUMBERS_BEGIN + "h",  # "half a year"
            joined="year month old",
            before=260,
            after=130,
        ),
        _Rule(
            "PERIOD",
            rf"{_SHORT}(?:{_AND}{_SHORT}){{0,4}}(?:(?<=s)['’]|['’]s\b)?",
            joined="week fortnight day hour minute",
            before=120,
            after=30,
        ),
        _Rule(
            "DURATION",
            rf"(?:aged|age{_GAP}of|aged{_GAP}about){_GAP}{_NUMBER}(?!\w)",
            near=("aged ", "age of "),
            before=1,
            after=120,
        ),
        _Rule(
            "AMOUNT",
            rf"\(?(?:approximately{_GAP}|approx\.{_GAP})?{_SUM}{_NOTE}\)?",
            first=_NUMBERS_BEGIN + "A-Z€$£(",
            near=("€", "$", "£"),
            joined=_MONEY,
            written=_ISO,
            before=180,
            after=150,
        ),
        _Rule(
            "COUNT",
            rf"(?i:{_WORDED})(?:{_GAP}(?:other|more|different|further)\b)?{_GAP}[a-z]{{3,25}}s\b(?:{_GAP}of{_GAP}[a-z]{{1,25}}\b)?",
        ),
        _Rule(
            "ORIGIN",
            rf"{_DEMONYM}{_GAP}{_BELONGS}",
            joined="national citizen subject origin descent",
            before=40,
            after=30,
        ),
        _Rule("OCCUPATION", rf"(?:an?{_GAP})?(?:{qualifiers}{_GAP}){{0,3}}{occupations}s?\b"),
        _Rule(
            "HEALTH",
            rf"(?:[a-z]{{1,20}}ic{_GAP}|[a-z]{{1,20}}al{_GAP}|paranoid{_GAP})?[a-z]{{1,25}}(?:itis|osis|oses|algia|opathy|phrenia|an[ae]mia|plegia)\b",
        ),
        _Rule("HEALTH", rf"(?:[a-z]{{1,20}}(?:ic|al|ous|ive|ed){_GAP}|total{_GAP}|heart{_GAP}|lung{_GAP}){_ILL}\b"),
        _Rule(
            "HEALTH",
            rf"(?:fracture|injur(?:y|ies)|loss|wounds?){_GAP}(?:of|to|in){_GAP}(?:[a-z0-9]{{1,20}}{_GAP}){{0,4}}{_BODY}\b",
        ),
        _Rule(
            "NUMBERED",
            rf"(?:(?:plot|parcel|block|flat|apartment|file|case|law|registration|sheet)s?{_GAP})?(?i:nos?\.){_GAP}?[A-Z0-9][\w/.-]{{0,30}}\w(?:{_GAP}of{_GAP}block{_GAP}\w{{1,30}})?(?!\w)",
            near=("no.", "nos."),
            before=30,
            after=100,
        ),
        _Rule(
            "NUMBERED",
            rf"(?:sheet/plan|sheet|plan|block|plot|parcel){_GAP}[A-Z0-9][A-Z0-9/.-]{{0,30}}\b",
            near=("sheet ", "plan ", "block ", "plot ", "parcel "),
            before=20,
            after=60,
        ),
    ]


KINDS = ("YEAR", "DURATION", "PERIOD", "AMOUNT", "COUNT", "ORIGIN", "OCCUPATION", "HEALTH", "NUMBERED")


class Circumstances:
    """Finds quasi identifiers by their wording: see the module's list."""

    def __init__(self, *, kinds: Sequence[str] = KINDS, english_alone: bool = False) -> None:
        """With `english_alone`, nothing is found in text of other languages; then the policy is not local."""
        unknown = sorted(set(kinds) - set(KINDS))
        if unknown or not kinds:
            raise ValueError(f"unknown kinds {unknown}: choose from {', '.join(KINDS)}")
        self.kinds = tuple(kind for kind in KINDS if kind in kinds)
        self.is_local = not english_alone
        self._english_alone = english_alone
        self.name = "circumstances" if self.kinds == KINDS else "circumstances " + ", ".join(self.kinds)

    def __repr__(self) -> str:
        return f"Circumstances({self.name})"

    @property
    def fingerprint(self) -> str:
        """Names what decides the findings, together with the version of the code."""
        return f"{self.name} {self._english_alone}"

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        chosen = [(rule, pattern) for rule, pattern in _compiled() if rule.kind in self.kinds]
        return [
            () if self._english_alone and language_of(text) != "en" else self._find(text, chosen) for text in texts
        ]

    def _find(self, text: str, chosen: list[tuple[_Rule, re.Pattern[str] | Begun]]) -> tuple[Span, ...]:
        if "<" in text:  # masks hold no words
            text = _masks().sub(lambda mask: "<" * len(mask.group()), text)
        lower = text.lower()
        if not lower.isascii():
            lower = lower.replace("\u00a0", " ").replace("‑", "-")
        stretches = _stretches(text, lower)
        return merge_spans(
            [
                Span(match.start(), match.end(), rule.kind)
                for rule, pattern in chosen
                for start, end in stretches(rule)
                for match in pattern.finditer(text, start, end)
            ]
        )


def _stretches(text: str, lower: str) -> Callable[[_Rule], Sequence[Stretch]]:
    """Where the pattern of a rule is to be looked for."""
    whole = ((0, len(text)),)
    if len(lower) != len(text):
        return lambda _: whole
    words, kinds = _joined_words()
    by_kind: dict[str, list[int]] = {}
    for match in words.finditer(lower):
        by_kind.setdefault(kinds[match.group()[1:]], []).append(match.start())

    def of(rule: _Rule) -> Sequence[Stretch]:
        if not rule.near and not rule.joined:
            return whole
        held = places(lower, rule.near) if rule.near else []
        if rule.joined:
            held = held + by_kind.get(rule.kind, [])
        if rule.written:
            held += [match.start() for match in re.finditer(rule.written, text)]
        return around(sorted(held), len(text), before=rule.before, after=rule.after) if held else ()

    return of


@cache
def _joined_words() -> tuple[re.Pattern[str], dict[str, str]]:
    """An expression for the words that are looked for behind a blank or hyphen, and the kind of each."""
    kinds = {word: rule.kind for rule in _rules() for word in rule.joined.split()}
    return re.compile(f"[ -]{one_of(list(kinds))}"), kinds


@cache
def _compiled() -> tuple[tuple[_Rule, "re.Pattern[str] | Begun"], ...]:
    return tuple((rule, _expression(rule)) for rule in _rules())


def _expression(rule: _Rule) -> "re.Pattern[str] | Begun":
    if rule.first:
        return Begun(rule.first, rule.pattern)
    # That of years says itself, behind its first digits, that no word goes on before it: a search can skip to them.
    return re.compile(rule.pattern if rule.kind == "YEAR" else rf"(?:(?<!\w)|(?!\w))(?:{rule.pattern})")


@cache
def _masks() -> re.Pattern[str]:
    return re.compile("|".join(re.escape(mask) for mask in (MASK, *(mask_for(kind) for kind in KINDS))))
