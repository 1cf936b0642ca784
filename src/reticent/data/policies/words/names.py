"""People, places and organisations in running text, in any language with capital letters: a small learnt tagger.

Every word with a capital, and every word in small letters that is a name, is scored for PERSON, LOC, ORG and
nothing by a linear model (multinomial logistic regression) over what is publicly known of it (`vocabulary`: how
common it is here and elsewhere, dictionaries, lists of names and places; of English and German words also how
often they have a capital, and which words stand in the same company), its shape, and what stands beside it: the
start of a sentence, a title, a preposition of place, another name, one of the most common words of the language,
the cluster of a rarer one. No feature is a rarer word of the training text, so nothing of it is in the weights;
`bench/name_weights.py` made them, on one half of public labelled text. Each feature counts for all words and again
for words of the same shape. Features say so where most words of a text are in capitals, or have one, or none has.

German writes every noun with a capital, so a capital counts there by other weights. Words that name the speakers
of a chat ("SYS:", "User:") are never names. Not local: what stands beside a word is read.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import accumulate, compress, count
from math import exp, inf, log
from typing import NamedTuple

from reticent.core.corpus import Span
from reticent.data.kinds import TITLES
from reticent.data.policies.words.uncased_names import names_without_case
from reticent.data.policies.words.vocabulary import (
    COUNTED,
    commonness,
    companies,
    countries,
    first_names,
    function_words,
    is_rather_a_place,
    language_of,
    large_places,
    last_names,
    listed_as,
    lowered,
    names_a_place,
    place_pairs,
    places,
    usages,
)
from reticent.data.redaction.masking import merge_spans

KINDS = ("PERSON", "LOC", "ORG")

_PREPOSITIONS_LIST = """
in at from near to of into around towards toward via outside through visit nach aus bei zu von in im en à au aux
de du des desde hasta di da dal del nel a te naar uit van bij w z ze we do od i från till til fra к в из на
"""
_PREPOSITIONS = frozenset(_PREPOSITIONS_LIST.split())
_ARTICLES_LIST = """
the a an this that these those his her my your our their its der die das den dem des ein eine einen einem einer
eines dieser diese dieses seine seiner ihre ihrer kein keine le la les un une l' el los las una il lo gli i uno
de het een o os as um uma en ett et
"""
_ARTICLES = frozenset(_ARTICLES_LIST.split())
_ORGANISED_LIST = """
inc ltd llc plc corp corporation company co group holdings bank university college institute school academy
hospital court tribunal ministry department council commission committee association society club union party
agency office authority board bureau foundation federation police army church league team fc sc gmbh ag se kg ev
universität hochschule gericht ministerium verein verband stiftung partei bundestag sa sarl spa srl bv nv oy ab
as université société banque ministère banco universidad ayuntamiento partners services systems industries
"""
_ORGANISED = frozenset(_ORGANISED_LIST.split())
_STREETS_LIST = """
street st avenue ave road rd boulevard blvd lane ln drive dr square sq court ct place pl way park island islands
river lake bay beach mountain mount valley county city town state province district region airport station
bridge straße strasse str platz allee weg gasse ufer insel see berg tal stadt kreis rue avenue calle plaza via
piazza
"""
_STREETS = frozenset(_STREETS_LIST.split())
_CALENDAR_LIST = """
monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
september october november december jan feb mar apr jun jul aug sep sept oct nov dec montag dienstag mittwoch
donnerstag freitag samstag sonntag januar februar märz mai juni juli oktober dezember
"""
_CALENDAR = frozenset(_CALENDAR_LIST.split())
_ROLES_LIST = """
sys usr system user assistant bot agent customer client human ai operator support kunde berater nutzer benutzer
assistent klient usuario cliente utilisateur client asistente utente speaker caller interviewer
"""
ROLES = frozenset(_ROLES_LIST.split())
# What stands before a colon or a number in forms, heads and tables, and is a name or a place to some list, or in
# small letters in few texts. Other common words of the large languages are labels there as well (`_is_label`).
_LABELS_LIST = """
name names date address phone tel telefon telefono teléfono telephone téléphone fax mobile cell handy email mail id
dob ssn mrn pin vat tin iban bic swift imei vin dni nie nif nip pesel bsn cpf cnpj curp cep cap plz zip nhs nino npi
pan aadhaar siret siren regon ahv cvv cvc isbn nom prénom vorname nachname nombre nome cognome naam namn navn nimi
imię isim ad adı soyadı soyad név имя фамилия ім'я όνομα adres adress adresse adresa adresim osoite indirizzo
dirección
endereço lakcím cím адрес διεύθυνση miasto miejscowość stad plaats ort città cidade kaupunki város şehir město oraș
город місто πόλη sukunimi etunimi jméno příjmení nume prenume puhelin sähköposti telefonszám telefón
objet ville statut priorité aihe tila konu durum öncelik tárgy předmět subiect temat emne ämne θέμα тема статус
приоритет телефон почта
"""
_LABELS = frozenset(_LABELS_LIST.split())
_GERMAN_NOUN = re.compile(
    "(?:ung|ungen|heit|keit|schaft|schaften|tion|tionen|tät|täten|ismus|nis|nisse|ling|tum|chen|lein|eur|eure|ik|ien|ie"
    "|ment|enz|anz|or|oren)$"
)
_TOPONYM = re.compile(
    "(?:burg|berg|ville|stan|land|shire|stadt|heim|dorf|furt|hausen|ford|ton|grad|polis|bury|borough|haven|wick|ingen"
    "|ania|nia|lia|ria|ovo|brück|brücken|münde|bach)$"
)
_SURNAME = re.compile(
    "(?:son|sen|sson|ski|sky|cki|ska|ov|ev|ova|eva|ić|ich|vić|vich|mann|enko|yan|ez|oğlu|oglu|opoulos|idis|escu|eanu"
    "|inho|etti|elli|ini)$"
)
_DEMONYM = re.compile("(?:ish|ian|ians|ese|isch|ische|ischen|ischer|isches|ist|ists|ism|ic|ics)$")

_WORD = re.compile(r"([^\W\d_]+(?:(?:[-‐‑][^\W\d_]+)|(?:['’](?!s\b)[^\W\d_]{2,}))*|\d+)")
# The same for text of ASCII alone, for which the engine need not look up what a letter is.
_PLAIN_WORD = re.compile(r"([A-Za-z]+(?:(?:-[A-Za-z]+)|(?:'(?!s\b)[A-Za-z]{2,}))*|[0-9]+)")
# Where an article is joined to a word by an apostrophe ("l'Alaska", "d'une"), or an ending to a name ("Bursa'ya").
_APOSTROPHES_PART = ("fr", "it", "tr")
_ELIDED_PREPOSITIONS = frozenset({"d", "all", "dall", "dell", "nell", "sull", "jusqu"})
_PARTED_WORD = re.compile(r"([^\W\d_]+(?:[-‐‑][^\W\d_]+)*|\d+)")
_SENTENCE_END = frozenset('.!?:;•|\n\r\t"“”„»«()[]–—…*#>')
_JOINABLE = re.compile(r"[ \u00a0]{1,2}|\.[ \u00a0]?|[-/&'’][ \u00a0]?|[ \u00a0]['’][ \u00a0]?")
_JOINTS = frozenset(" \u00a0.-/&'’")  # of one character
_LONGEST_JOINT = 3
_HEAD_OF_MAIL = re.compile(
    r"(?m)^[ \t>]{0,8}(?:From|To|C[Cc]|B[Cc][Cc]|Von|An|Para|Aan|Från|Till|Fra|Til):[ \t]*(?=\S)"
)
_CAPITAL_WORD = "[^\\W\\d_a-zß-öø-ÿ][\\w'’-]{1,30}"
_LAST_NAME_FIRST = re.compile(
    rf"(?<=[:;] )(?P<name>{_CAPITAL_WORD}(?: {_CAPITAL_WORD})?, {_CAPITAL_WORD}(?: [A-Z]\.?)?)"
    r"(?=[ \t]*(?:[;<(\[\r]|$))",
    re.M,
)
_LINK = re.compile(r"://\S+")
_DRAWN_OUT = re.compile(r"(.)\1\1")
# Of a king: "Elisabeth II."; one before a small letter is the pronoun, but for "Elizabeth I of England".
_NUMERAL = re.compile(r" (?!I [^\W\d_A-Z](?<!o)|I o(?!f\b))[IVX]{1,5}(?:\.|(?!\w))")
# What stands before somebody's own name, however that is written.
_INTRODUCTIONS = {
    "en": ("my name is", "my name's", "they call me"),
    "de": ("mein name ist", "ich heiße", "ich heisse"),
    "fr": ("je m'appelle", "je m’appelle", "mon nom est"),
    "es": ("me llamo", "mi nombre es"),
    "it": ("mi chiamo", "il mio nome è"),
    "pt": ("meu nome é", "me chamo", "chamo-me"),
    "nl": ("mijn naam is", "ik heet"),
    "sv": ("jag heter", "mitt namn är"),
    "da": ("jeg heter", "mitt navn er", "jeg hedder", "mit navn er"),
    "pl": ("nazywam się", "mam na imię"),
    "fi": ("nimeni on",),
    "hu": ("a nevem",),
    "cs": ("jmenuji se",),
    "ro": ("mă numesc", "numele meu este"),
    "ru": ("меня зовут",),
    "uk": ("мене звати",),
    "el": ("με λένε",),
    "tr": ("benim adım",),
}
_OTHER_WORDS = "[ \u00a0](?P<name>[^\\W\\d_][\\w'’-]{1,30}(?: [^\\W\\d_][\\w'’-]{1,30}){0,3})"
_BRIEF = 300  # characters of a text whose language is told by few words
_PARTICLES_LIST = """
de la le du des del della di da dos van von der den zu zum al el bin ben y e ibn ter ten of the
"""
_PARTICLES = frozenset(_PARTICLES_LIST.split())

Features = tuple[str, ...]
Scores = tuple[float, float, float]  # for each of KINDS, how much more than nothing
Bounded = tuple[float, float, float, float]  # the same, and the largest of them
Found = tuple[int, int, str, float]  # start, end, kind, how much it is a name by itself
# The probability from which a word is a name, chosen on labelled text; a lower one for languages without any.
THRESHOLDS = {"en": 0.25, "de": 0.2}
_ELSEWHERE = 0.25
_ENDINGS = ("s", "es", "n", "en", "e", "er", "ern", "em", "ed", "ing", "ly")
_LINKS = ("", "s", "es", "n", "en", "er", "e", "-")
# Zipf values up to which words are names where one is expected: listed first names, other names, and any word.
_FIRST_NAME, _RARE_NAME, _RARE_WORD = 5.4, 4.6, 2.5
_LABELLING = 3.0  # Zipf value from which a word before a colon may be a label
_OFTEN = 3  # locales that list a name which is known everywhere
_ANY = "any"  # the group of all words
_NOTHING: Scores = (0.0, 0.0, 0.0)
_NEVER: Bounded = (-inf, -inf, -inf, -inf)
_KEPT = 100_000  # words whose scores are kept
# How much more often a word has a capital than not that may be a name without one; less where it is about as common
# in other languages.
_RATHER, _NEARLY = 1, -1
_KNOWN_ABROAD, _AS_COMMON = 3.0, 0.6
_CAPITAL_STEPS = (-4, -2, 0, 1, 2)
_BITS = (4, 6, 10)  # of a cluster's path
_NOT = ("t", "T")  # of "don't"
_LAUGHTER = 6
_PAIRED = ("pair", "pair there")  # what a word has that is a place with the one beside it
_AS_ALL = {"capitals": "shouted", "capital": "titled", "small": "flat"}  # a word that is written as all around it
# Weights that are not learnt, as no text of other languages is among the labelled: there a word that lists of names
# or places hold is common in its own language and in no other, which in English marks a word that is no name.
# Chosen on French, Italian and Polish sentences of WikiNEuRal (Tedeschi et al. 2021), of which nothing else was
# learnt.
_THERE: dict[str, Scores] = {
    "any|place there": (0.0, 5.0, 0.0),
    "any|name there": (2.0, 0.0, 0.0),
    "any|pair there": (0.0, 22.0, 0.0),
    "any|grammar there": (-20.0, -20.0, -20.0),  # "El", unless it is that of "El Salvador"
    "any|suffixed there": (3.0, 3.0, 0.0),
}
_WEAKEST = 0.5  # of the threshold: what a word beside a name needs to be a part of it
_REPEATED = 0.1  # of the threshold: what a word needs that is a name elsewhere in the text
_SURE = 0.85  # the probability of a name beyond doubt
_TITLE = 14  # characters in which a title before a name lies


class Names:
    """Finds people and places with a probability of at least `threshold`, organisations with at least `organised`.

    Without a threshold that of the text's language is used. A low one finds what could possibly be a name: it is
    for routing, not for reading.
    """

    is_local = False

    def __init__(
        self,
        *,
        threshold: float | None = None,
        organised: float = 0.85,
        kinds: Sequence[str] = KINDS,
        language: str | None = None,
    ) -> None:
        unknown = sorted(set(kinds) - set(KINDS))
        if unknown or not kinds:
            raise ValueError(f"unknown kinds {unknown}: choose from {', '.join(KINDS)}")
        if not 0.0 < organised < 1.0 or (threshold is not None and not 0.0 < threshold < 1.0):
            raise ValueError(f"a threshold is in (0, 1), found {threshold} and {organised}")
        self._threshold = threshold
        self._organised = organised
        self._language = language
        self.kinds = tuple(kind for kind in KINDS if kind in kinds)
        self.name = "names"

    def __repr__(self) -> str:
        return f"Names({', '.join(self.kinds)})"

    @property
    def fingerprint(self) -> str:
        """Names what decides the findings, together with the version of the code."""
        from importlib.metadata import version

        lists = " ".join(f"{package} {version(package)}" for package in ("wordfreq", "simplemma", "faker"))
        return f"names {self._threshold!r} {self._organised!r} {','.join(self.kinds)} {self._language} {lists}"

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        return [self._find(text) for text in texts]

    def _find(self, text: str) -> tuple[Span, ...]:
        language = self._language or language_of(text)
        threshold = self._threshold or THRESHOLDS.get(language, _ELSEWHERE)
        scored: list[tuple[Found, str]] = []
        sure: dict[str, str] = {}  # words that are names beyond doubt somewhere in the text, and so everywhere
        least = log(_REPEATED * min(threshold, self._organised) / 3.0)  # below this nothing is kept
        for start, end, word, scores in _scored(text, _table(language), least):
            person, place, organisation = exp(scores[0]), exp(scores[1]), exp(scores[2])
            whole = 1.0 + person + place + organisation
            named = (person + place) / whole
            # How much a word says that it is a name: 1 where it may start a span.
            strength = max(named / threshold, (named + organisation / whole) / self._organised)
            if strength >= _REPEATED:
                kind = KINDS[scores.index(max(scores))]
                scored.append(((start, end, kind, strength), word))
                if named >= _SURE and end - start > 2:
                    sure[word] = kind
        if "://" in text:
            scored = [
                row for row, is_code in zip(scored, _codes_of_links(text, scored), strict=True) if not is_code
            ]
        found = [
            (start, end, sure.get(word, kind), 1.0 if word in sure else strength)
            for (start, end, kind, strength), word in scored
            if word in sure or strength >= _WEAKEST
        ]
        listed = [*_addressees(text), *_introduced(text, language)]
        if not found and not listed and text.isascii():
            return ()
        joined = _settled(text, list(_joined(text, found)), language)
        spans = [*joined, *listed, *(() if text.isascii() else names_without_case(text))]
        return merge_spans(span for span in spans if span.kind in self.kinds)


def _addressees(text: str) -> list[Span]:
    """Names that a head of a mail writes with the last one first: "To: Doe, Jane; Roe, Richard M."."""
    if ", " not in text or ":" not in text:
        return []
    return [
        Span(*name.span("name"), "PERSON")
        for head in _HEAD_OF_MAIL.finditer(text)
        for name in _LAST_NAME_FIRST.finditer(text, head.end(), _end_of_line(text, head.end()))
    ]


def _introduced(text: str, language: str) -> list[Span]:
    """Names in small letters as well, behind "my name is" and the like, as far as the words are no common ones."""
    lower = text.lower()
    among = _INTRODUCTIONS if len(text) < _BRIEF else {"en", language} & _INTRODUCTIONS.keys()
    spans = []
    for phrase in (phrase for one in among for phrase in _INTRODUCTIONS[one] if phrase in lower):
        for match in _introduction(phrase).finditer(text):
            start = end = match.start("name")
            for word in match["name"].split(" "):
                begin = end + (end > start)
                if not _goes_on_introduction(word.lower(), language, is_first=end == start):
                    break
                end = begin + len(word)
            while _last_word(text, start, end) in _PARTICLES:
                end = max(start, text.rfind(" ", start, end))
            if end > start:
                spans.append(Span(start, end, "PERSON"))
    return spans


@cache
def _introduction(phrase: str) -> re.Pattern[str]:
    return re.compile(rf"(?i:(?<!\w){re.escape(phrase)}){_OTHER_WORDS}")


def _last_word(text: str, start: int, end: int) -> str:
    return text[start:end].rpartition(" ")[2].lower()


def _goes_on_introduction(word: str, language: str, *, is_first: bool) -> bool:
    """Whether a word is a name where one is expected: a listed one that is none of the most common words, or a rare
    one; behind the first also "van" and "de"."""
    if not is_first and word in _PARTICLES and word not in ("and", "y", "e", "of", "the", "den"):
        return True
    own, known = commonness(word, language)[0], _known_as(word)[:1]
    if known in ("f", "F", "l", "L"):
        limit = _FIRST_NAME if known in ("f", "F") else _RARE_NAME
    else:
        limit = {"": _RARE_NAME, "c": _RARE_NAME, "s": 0.0}.get(listed_as(word, language), _RARE_WORD)
    return own <= limit and word not in function_words(language)


def _end_of_line(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _codes_of_links(text: str, scored: Sequence[tuple[Found, str]]) -> Iterator[bool]:
    """Whether each word stands in a link and is no listed name: "t.co/AbLFwz" has words that are none."""
    links = [match.span() for match in _LINK.finditer(text)]
    for (start, _, _, _), word in scored:
        inside = any(first < start < last for first, last in links)
        yield inside and (len(word) < 4 or _known_as(word.lower())[:1] not in ("f", "F", "l", "L"))


def candidates(text: str, language: str) -> Iterator[tuple[int, int, Features]]:
    """Each word that could be a name: its place and its features."""
    words, gaps, held = read = _read(text, _table(language))
    starts = read.starts()
    pairs = read.pairs()
    for n, (shape, _, _, is_odd) in held:
        gap, word, gap_after, after = gaps[n], words[n], gaps[n + 1], words[n + 1]
        is_none = bool(is_odd) and _is_spoken(word, gap, gap_after, after, is_first=n == 0)
        if not is_none and not _is_contracted(shape, gap_after, after):
            bare = [*_alone(word, language), *_before(shape, gap, words[n - 1], language)]
            bare += _after(shape, gap_after, after, language)
            if n in pairs:
                bare += _PAIRED
            features = tuple(f"{group}|{feature}" for feature in bare for group in (shape.group, _ANY))
            yield starts[n], starts[n] + len(word), features


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What the features of a word's neighbours are joined with. There is one of each (`_shape`), so that tables of
    scores are looked up by identity."""

    group: str
    known: str
    as_all: bool = False  # written as most words of its text: in capitals, with a capital, or without any


_shape = cache(Shape)
_BEFORE_COLON, _ODD = 1, 2
# Of a word that may be a name: its shape, its scores by itself, what follows it in places of two words, and whether
# it is "I" or names a speaker or a field where it stands so (`_is_spoken`), or does so before a colon alone.
_Row = tuple[Shape, Bounded, frozenset[str] | None, int]


class _Read(NamedTuple):
    """A text in words: `gaps[n]` is what stands before word n. Words end with an empty one, which is what stands
    before the first and after the last."""

    words: list[str]
    gaps: list[str]
    held: list[tuple[int, _Row]]  # numbers of the words that may be names

    def pairs(self) -> set[int]:
        """Numbers of words that, with the one beside them, are a place of two words."""
        words, found = self.words, set[int]()
        for n, (_, _, seconds, _) in self.held:
            if seconds and self.gaps[n + 1] == " " and words[n + 1].lower() in seconds:
                found |= {n, n + 1}
        return found

    def starts(self) -> list[int]:
        """Where each word starts."""
        pieces = (len(piece) for pair in zip(self.gaps, self.words, strict=True) for piece in pair)
        return list(accumulate(pieces))[::2]


def _read(text: str, table: "_Table") -> _Read:
    pieces = table.word_in(text).split(text)  # what is between words, and words, in turn
    words, gaps = pieces[1::2], pieces[::2]
    rows = list(map(table.words.__getitem__, words))
    held = list(zip(compress(count(), rows), filter(None, rows), strict=True))
    if held and (group := _usual_group(words)):
        held = [(n, _as_all(row) if row[0].group == group else row) for n, row in held]
    words.append("")
    return _Read(words, gaps, held)


def _as_all(row: _Row) -> _Row:
    shape, scores, seconds, is_odd = row
    return _shape(shape.group, shape.known, True), scores, seconds, is_odd


def _scored(text: str, table: "_Table", least: float) -> Iterator[tuple[int, int, str, Scores]]:
    """Place and scores of each word that could be a name and has a score of at least `least`."""
    words, gaps, held = _read(text, table)
    before, after = table.before, table.after
    paired = -1  # the last word that is a place with the one before it
    place, seen = 0, 0  # where the gap before word number `seen` starts
    for n, (shape, alone, seconds, is_odd) in held:
        gap_after, following = gaps[n + 1], words[n + 1]
        if seconds and gap_after == " " and following.lower() in seconds:
            paired = n + 1
        left, right = before[shape, gaps[n], words[n - 1]], after[shape, gap_after, following]
        # Sums of the largest are no smaller than any of the sums, rounded or not.
        if alone[3] + left[3] + right[3] < least and n > paired:
            continue
        if is_odd and (is_odd > _BEFORE_COLON or gap_after[:1] == ":"):
            starts_turn = (
                gap_after[:1] == ":" and gaps[n][-1:] == "\n"
            )  # nearly always: the rest of the look is spared
            if starts_turn or _is_spoken(words[n], gaps[n], gap_after, following, is_first=n == 0):
                continue
        scores = alone[0] + left[0] + right[0], alone[1] + left[1] + right[1], alone[2] + left[2] + right[2]
        if n <= paired:
            scores = _sum(scores, table.pairs[shape.group])
        if max(scores) >= least:
            place += sum(map(len, gaps[seen : n + 1])) + sum(map(len, words[seen:n]))
            yield place, place + len(words[n]), words[n], scores
            place, seen = place + len(words[n]), n + 1


def _sum(scores: Scores, others: Sequence[float]) -> Scores:
    return scores[0] + others[0], scores[1] + others[1], scores[2] + others[2]


def _is_spoken(word: str, gap: str, gap_after: str, after: str, *, is_first: bool) -> bool:
    """Whether "I" is the pronoun, or another odd word names a speaker at the start of a turn ("USR: hello"), or a
    field ("City: Rome"), or says what a number is that of ("tel. 030 12345")."""
    if word == "I":
        return gap_after[:1] != "."
    if after.isdigit() and not gap_after.strip(" \u00a0.:+(#=") and word.lower() in _LABELS:
        return True
    if gap_after[:1] != ":" and not (gap_after.lstrip(" \u00a0")[:1] == ":" and word.lower() in _LABELS):
        return False
    between = gap.rstrip(" \t*[<>")
    return between[-1:] in ("\n", "|", ";") or (is_first and not between)


def _is_label(word: str, language: str) -> bool:
    """Whether a word in small letters may be a label that `_LABELS` has not: one that is common here or in English,
    that no list holds as a name, and that English does not rather write with a capital."""
    if _known_as(word) or not word.isalpha():
        return False
    usage = usages("en").get(word)
    return (usage is None or usage.capital < _RATHER) and (
        max(commonness(word, language)[0], commonness(word, "en")[0]) >= _LABELLING
    )


def _is_contracted(shape: Shape, gap_after: str, after: str) -> bool:
    """Whether a word is the "don" of "don't"."""
    return after in _NOT and shape.group != "initial" and gap_after.strip() in ("'", "’")


def _usual_group(words: Sequence[str]) -> str:
    """The shape of most words of a text, where it is not the usual one: there it says nothing."""
    initials = [word[0] for word in words[:60] if len(word) > 2]
    capital = sum(map(str.isupper, initials))
    if not capital:
        return "small"
    if 2 * capital <= len(initials):
        return ""
    long = [word for word in words[:60] if len(word) > 2]
    return "capitals" if 2 * sum(map(str.isupper, long)) > len(long) else "capital"


def is_candidate(word: str, language: str) -> bool:
    """Whether a word may be a name: it has a capital, or is listed as one and is no common word of the language."""
    if word[0].isupper() or (len(word) > 2 and any(symbol.isupper() for symbol in word)):
        if language not in COUNTED and _is_of_grammar(word, language):
            return lowered(word) in place_pairs()
        return not _is_a_cry(word.lower())
    if not word.isalpha() or len(word) < 3:
        return False
    if not word[0].islower():  # a script without case: people's names there are `uncased_names`' business
        return word in countries() and not "\u0900" <= word[0] <= "\u0eff"  # where marks cut words into pieces
    own, elsewhere = commonness(word, language)
    if language == "en" and (usage := usages(language).get(word)):
        is_everywhere = elsewhere >= _KNOWN_ABROAD and own - elsewhere < _AS_COMMON
        if usage.capital >= (_NEARLY if is_everywhere else _RATHER):
            return own < 5.5
    listed = word in first_names() or word in last_names() or word in places()
    return listed and own - elsewhere < 1.5 and own < 5.5


def _is_of_grammar(word: str, language: str) -> bool:
    """Whether a word is one of the most common, or ends with one as "Pouvez-vous" does.

    It starts a sentence, though lists of names hold "Le" and "De".
    """
    _, hyphen, last = word.rpartition("-")
    common, lower = function_words(language), lowered(word)
    if hyphen:
        return last.islower() and last in common
    return len(word) > 1 and lower in common and lower not in countries()


GROUPS = ("small", "initial", "capitals", "capital", "noun")


def _is_a_cry(word: str) -> bool:
    """Whether a word in small letters, in no list, is drawn out or laughed, as "nooo" and "hahaha"."""
    drawn_out = _DRAWN_OUT.search(word) or (len(word) >= _LAUGHTER and len(set(word)) == 2)
    return bool(drawn_out) and word.isalpha() and not _known_as(word)


def _group(word: str, language: str) -> str:
    """The shape of a word, for which each feature has weights of its own."""
    if not word[0].isupper():
        return "small"
    if len(word) == 1:
        return "initial"
    if word.isupper():
        return "capitals"
    return "noun" if language == "de" else "capital"


@cache
def _known_as(word: str) -> str:
    """Which lists hold a word in small letters: of "flp" those of first names, last names and places, in capitals
    where many locales list it or the place is large; "g" if they hold it without the ending of a genitive
    ("Japans"), "a" without that of an adjective ("Frankfurter")."""
    known = ""
    for letter, names in (("f", first_names()), ("l", last_names())):
        if count := names.get(word, 0):
            known += letter.upper() if count >= _OFTEN else letter
    if word in places():
        known += "c" if word in countries() else "P" if word in large_places() else "p"
    if known or len(word) < 5:
        return known
    if word.endswith("s") and (stem := _known_as(word[:-1])):
        return f"{stem}g"
    return "a" if word.endswith("er") and word[:-2] in places() else ""


@cache
def _role_of(word: str) -> str:
    """What a word in small letters does to its neighbours."""
    for name, words in (
        ("title", TITLES),
        ("calendar", _CALENDAR),
        ("organised", _ORGANISED),
        ("street", _STREETS),
    ):
        if word in words:
            return name
    return ""


def _alone(word: str, language: str) -> Iterator[str]:
    """Features of a word by itself."""
    lower = lowered(word)
    own, elsewhere = commonness(lower, language)
    known = _known_as(lower)
    yield ""
    yield f"known {known}"
    yield f"length {min(len(lower), 12) // 2}"
    yield f"role {_role_of(lower)}"
    yield f"common {int(max(own, 0.5) * 2)}"
    if own and elsewhere:
        spread = f"spread {max(-1, min(4, int((own - elsewhere) * 2)))}"
    else:
        spread = f"only {int(own)} {int(elsewhere)}"
    yield spread
    yield f"{spread} known {known}"
    yield f"known {known} common {own >= 4.5}"
    listed = listed_as(lower, language)
    yield f"listed {listed}"
    yield f"listed {listed} common {int(own)}"
    yield f"listed {listed} known {known}"
    yield f"listed {listed} {spread}"
    toponym = len(lower) > 4 and bool(_TOPONYM.search(lower))
    if toponym:
        yield "toponym"
    for name, pattern in (("surname", _SURNAME), ("demonym", _DEMONYM)):
        if len(lower) > 4 and pattern.search(lower):
            yield name
    if language == "de":
        compound = _compound(lower)
        yield f"compound {compound} {own > 0}"
        yield f"compound {compound} toponym {toponym}"
        yield f"compound {compound} known {known}"
        if own < 2.0:
            yield "german noun" if _GERMAN_NOUN.search(lower) else "no german noun"
    if own < 3.0:
        yield f"stem {int(_stem(lower, language))}"
    yield f"end {lower[-2:]}"
    yield f"end {lower[-3:]}"
    if language in COUNTED:
        yield from _used(lower, language, known)
    if language not in COUNTED and word[0].isupper():
        yield from _listed_elsewhere(word, known, language)
    if language != "en":
        english, others = commonness(lower, "en")
        yield f"english {english - others >= 1.0} {int(english)}"
    if _DRAWN_OUT.search(lower) or (len(lower) > 4 and len(set(lower)) <= 3):
        yield "drawn out"  # "Nooooo", "HAHAHA"
    if "-" in word:
        parts = lower.split("-")
        yield f"hyphen {any(map(_known_as, parts))}"
        yield f"hyphen {_known_as(parts[0])} {_known_as(parts[-1])}"
    if not word[1:].islower() and not word.isupper() and "-" not in word:
        yield "camel"


def _listed_elsewhere(word: str, known: str, language: str) -> Iterator[str]:
    """Features of a word with a capital in a language of which it is not known how its words are used."""
    if _is_of_grammar(word, language):
        yield "grammar there"
    elif names_a_place(word, language):
        yield "place there"
    elif known[:1] in ("f", "F", "l", "L"):
        yield "name there"


def _used(word: str, language: str, known: str) -> Iterator[str]:
    """Features of how a word in small letters is used."""
    usage = usages(language).get(word)
    if usage is None:
        yield "unused"
        yield f"unused known {known}"
        return
    yield f"capital {language} {usage.capital}"
    for step in _CAPITAL_STEPS:
        if usage.capital >= step:
            yield f"capital {language} from {step}"
    yield f"capital {language} {usage.capital} known {known}"
    yield f"capital {language} {usage.capital} shouted {usage.shouted}"
    for bits in _BITS:
        yield f"cluster {language} {bits} {usage.cluster & (1 << bits) - 1}"
    company = f"company {companies(language)[usage.cluster]}"
    yield company
    yield f"{company} known {known}"
    yield f"{company} capital {language} {usage.capital}"


def _stem(word: str, language: str) -> float:
    """How common a word is without its ending."""
    values = [
        commonness(word[: -len(end)], language)[0] for end in _ENDINGS if word.endswith(end) and len(word) > 5
    ]
    return max(values, default=0.0)


@lru_cache(maxsize=_KEPT)
def _compound(word: str) -> str:
    """Whether a long German word ends with a common one, and whether a word or several stand before it too."""
    last = False
    for cut in range(3, len(word) - 3):
        tail, head = word[cut:], word[:cut]
        if max(commonness(tail, "de")[0], _stem(tail, "de")) < 3.3:
            continue
        last = True
        if (
            any(commonness(head.removesuffix(link), "de")[0] >= 3.0 for link in _LINKS if len(head) - len(link) > 2)
            or _compound(head) == "both"
        ):
            return "both"
    return "last" if last else "none"


def _before(shape: Shape, gap: str, before: str, language: str) -> Iterator[str]:
    """Features of what stands before a word."""
    known = shape.known
    if shape.as_all:
        yield from _placed(_AS_ALL[shape.group], known)
    marks = gap.strip()
    lower = before.lower()
    abbreviated = marks == "." and bool(before) and (len(before) == 1 or lower in TITLES)
    starts = not before or (bool(marks) and marks[-1] in _SENTENCE_END) or "\n" in gap
    if starts and not abbreviated:
        yield from _placed("starts", known)
    if marks and marks[-1] in "@#":
        yield from _placed("tag", "")
    elided = language in _APOSTROPHES_PART and gap in ("'", "’")
    if before and (not marks or abbreviated or marks in "-/&" or elided):
        yield from _neighbour("before", before, language)
        if lower in (_ELIDED_PREPOSITIONS if elided else _PREPOSITIONS):
            yield from _placed("after preposition", known)
        elif elided or lower in _ARTICLES:
            yield from _placed("after article", known)
    elif marks == "," and before:
        yield from _placed("comma before", _known_as(lower))


def _after(shape: Shape, gap: str, after: str, language: str) -> Iterator[str]:
    """Features of what stands after a word."""
    if not after:
        return
    marks = gap.strip()
    if not marks or (marks == "." and shape.group == "initial") or marks in "-/&":
        yield from _neighbour("after", after, language)
    elif marks == ",":
        yield from _placed(f"comma after {after[0].isupper()}", _known_as(after.lower()))
    else:
        owns = marks[0] in "'’"
        yield from _placed("owns" if owns else "ends", "")
        if owns and language == "tr":
            yield "suffixed there"


def _placed(place: str, known: str) -> Features:
    return place, f"{place} known {known}"


def _neighbour(side: str, word: str, language: str) -> Iterator[str]:
    if word.isdigit():
        yield f"{side} number"
        return
    lower = word.lower()
    shape = "initial" if len(word) == 1 else "capital" if word[0].isupper() else "small"
    yield f"{side} {shape}"
    if role := _role_of(lower):
        yield f"{side} {role}"
    if shape == "small":
        yield f"{side} word {lower}" if lower in function_words(language) else f"{side} ending {lower[-2:]}"
    if shape == "capital":
        yield f"{side} known {_known_as(lower)}"
    if language in COUNTED and (usage := usages(language).get(lower)):
        yield f"{side} capital {language} {shape} {usage.capital}"
        for bits in _BITS:
            yield f"{side} cluster {language} {bits} {usage.cluster & (1 << bits) - 1}"
        yield f"{side} company {shape} {companies(language)[usage.cluster]}"


@cache
def _weights(counted: bool) -> dict[str, Scores]:
    """Weights of features, for languages of which it is known how words are used and for others."""
    document = json.loads((files("reticent.data.policies.words") / "name_weights.json").read_text(encoding="utf8"))
    weights = {} if counted else dict(_THERE)
    return weights | {
        feature: (person - nothing, place - nothing, organisation - nothing)
        for feature, (person, place, organisation, nothing) in document["counted" if counted else "other"].items()
    }


@cache
def _weights_of(group: str, counted: bool) -> dict[str, Scores]:
    """Weights of features for words of a shape: what they weigh for it and for all."""
    together: dict[str, Scores] = {}
    for name, row in _weights(counted).items():
        whose, _, feature = name.partition("|")
        if whose in (group, _ANY):
            before = together.get(feature, _NOTHING)
            together[feature] = before[0] + row[0], before[1] + row[1], before[2] + row[2]
    return together


def _summed(group: str, features: Iterable[str], language: str) -> Bounded:
    weights = _weights_of(group, language in COUNTED)
    person = place = organisation = 0.0
    for feature in features:
        if row := weights.get(feature):
            person += row[0]
            place += row[1]
            organisation += row[2]
    return person, place, organisation, max(person, place, organisation)


class _Words(dict[str, "_Row | None"]):
    """Shape and scores of each word of a language that may be a name, None for others; kept once computed."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._language = language

    def __missing__(self, word: str) -> "_Row | None":
        if len(self) >= _KEPT:
            self.clear()
        row = None
        if is_candidate(word, self._language):
            lower = lowered(word)
            shape = _shape(_group(word, self._language), _known_as(lower))
            scores = _summed(shape.group, _alone(word, self._language), self._language)
            if word == "I" or lower in ROLES or lower in _LABELS:
                is_odd = _ODD
            else:
                is_odd = _BEFORE_COLON if _is_label(lower, self._language) else 0
            row = shape, scores, place_pairs().get(lower), is_odd
        self[word] = row
        return row


_Beside = tuple[Shape, str, str]  # a word's shape, the characters between it and another word, and that word


class _Neighbours(dict[_Beside, Bounded]):
    """Scores of what stands on one side of a word; kept once computed."""

    def __init__(self, features: Callable[[Shape, str, str, str], Iterator[str]], language: str) -> None:
        super().__init__()
        self._features = features
        self._language = language

    def __missing__(self, beside: _Beside) -> Bounded:
        if len(self) >= _KEPT:
            self.clear()
        scores = _summed(beside[0].group, self._features(*beside, self._language), self._language)
        if self._features is _after and _is_contracted(*beside):
            scores = _NEVER
        self[beside] = scores
        return scores


class _Table:
    """Scores of words and of their neighbours in a language."""

    def __init__(self, language: str) -> None:
        self._parts = language in _APOSTROPHES_PART
        self.words = _Words(language)
        self.before = _Neighbours(_before, language)
        self.after = _Neighbours(_after, language)
        self.pairs = {group: _summed(group, _PAIRED, language) for group in GROUPS}

    def word_in(self, text: str) -> re.Pattern[str]:
        """What finds words in this text."""
        if self._parts:
            return _PARTED_WORD
        return _PLAIN_WORD if text.isascii() else _WORD


@cache
def _table(language: str) -> _Table:
    return _Table(language)


def _joined(text: str, found: Sequence[Found]) -> Iterator[Span]:
    """Neighbouring words become one span, across particles of names too; weak ones need a strong one among them."""
    run: list[Found] = []
    is_named = False  # whether a strong one is in the run, and no initial alone
    for word in found:
        start, end, _, strength = word
        if run and not _joins(text, run[-1], start):
            if is_named:
                yield _whole(text, run)
            run, is_named = [], False
        run.append(word)
        is_named = is_named or (strength >= 1.0 and end - start > 1)
    if is_named:
        yield _whole(text, run)


def _settled(text: str, spans: Sequence[Span], language: str) -> Iterator[Span]:
    """Spans with the kind that lists settle: who is called as a country or a large town is a place, unless a title
    stands before it or a person's longer name in the text holds it."""
    longer: set[str] | None = None
    for span in spans:
        if span.kind == "PERSON" and is_rather_a_place(name := text[span.start : span.end].lower(), language):
            if longer is None:
                longer = _words_of_longer_names(text, spans)
            if name not in longer and not _is_titled(text, span.start):
                span = Span(span.start, span.end, "LOC")
        yield span


def _words_of_longer_names(text: str, spans: Sequence[Span]) -> set[str]:
    names = (text[span.start : span.end].lower().split() for span in spans if span.kind == "PERSON")
    return {word for name in names if len(name) > 1 for word in name}


def _is_titled(text: str, start: int) -> bool:
    before = _WORD.findall(text[max(0, start - _TITLE) : start])
    return bool(before) and before[-1].lower() in TITLES


def _joins(text: str, last: Found, start: int) -> bool:
    """Whether a word that starts here goes on with the name that `last` is the last word of."""
    end = last[1]
    if start - end == 1:
        return text[end] in _JOINTS
    if start - end <= _LONGEST_JOINT:
        between = text[end:start]
        if _JOINABLE.fullmatch(between) or (between == " . " and end - last[0] == 1):
            return True
    if text[end] != " " or text[start - 1] != " ":
        return False
    words = text[end:start].split(None, 2)  # the rest, if any, is a third
    return 0 < len(words) <= 2 and all(word.lower() in _PARTICLES for word in words)


def _whole(text: str, run: Sequence[Found]) -> Span:
    kind = run[0][2]
    if len(run) > 1:
        kinds = [one for _, _, one, _ in run]
        kind = max(KINDS, key=lambda one: (kinds.count(one), one == kinds[-1]))
    start, end = run[0][0], run[-1][1]
    if end - run[-1][0] == 1 and text[end : end + 1] == ".":
        end += 1  # the full stop of an initial
    if kind == "PERSON" and text[end : end + 1] == " " and (numeral := _NUMERAL.match(text, end)):
        end = numeral.end()
    return Span(start, end, kind)
