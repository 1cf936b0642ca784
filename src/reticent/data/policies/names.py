"""People, places and organisations in running text, in any language with capital letters: a small learnt tagger.

Every word with a capital, and every word in small letters that is a name, is scored for PERSON, LOC, ORG and
nothing by a linear model (multinomial logistic regression) over what is publicly known of it (`vocabulary`: how
common it is here and elsewhere, lists of names and places), its shape, and what stands beside it: the start of a
sentence, a title, a preposition of place, another name. No feature is a word of the training text, so nothing of
it is in the weights; `bench/name_weights.py` made them, on one half of public labelled text.

German writes every noun with a capital, so a capital counts there by other weights. Words that name the speakers
of a chat ("SYS:", "User:") are never names. Not local: what stands beside a word is read.
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from math import exp

from reticent.core.corpus import Span
from reticent.data.kinds import TITLES
from reticent.data.policies.uncased_names import names_without_case
from reticent.data.policies.vocabulary import commonness, first_names, language_of, last_names, places
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

_TOKEN = re.compile(r"[^\W\d_]+(?:(?:[-‐‑][^\W\d_]+)|(?:['’](?!s\b)[^\W\d_]{2,}))*|\d+")
_SHORTENED = re.compile(r"[ ]?['’][ ]?t\b")  # "don" of "don't" is no name
_SENTENCE_END = frozenset('.!?:;•|\n\r\t"“”„»«()[]–—…*#>')
_JOINABLE = re.compile(r"[ \u00a0]{1,2}|\.[ \u00a0]?|[-/&'’][ \u00a0]?|[ \u00a0]['’][ \u00a0]?")
_PARTICLES_LIST = """
de la le du des del della di da dos van von der den zu zum al el bin ben y e ibn ter ten of the
"""
_PARTICLES = frozenset(_PARTICLES_LIST.split())

Features = tuple[str, ...]
Scores = tuple[float, ...]
Found = tuple[int, int, str, bool]  # start, end, kind, whether the word is a name by itself
# The probability from which a word is a name. Chosen by language: of German capitals most are nouns.
THRESHOLDS = {"en": 0.28, "de": 0.2}
_WEAKEST = 0.5  # of the threshold: what a word beside a name needs to be a part of it


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
        organised: float = 0.7,
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

        lists = f"wordfreq {version('wordfreq')} faker {version('faker')}"
        return f"names {self._threshold!r} {self._organised!r} {','.join(self.kinds)} {self._language} {lists}"

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        return [self._find(text) for text in texts]

    def _find(self, text: str) -> tuple[Span, ...]:
        language = self._language or language_of(text)
        threshold = self._threshold or THRESHOLDS.get(language, THRESHOLDS["en"])
        found: list[Found] = []
        for token, (person, place, organisation) in _scored(text, language):
            named = person + place
            # How much a word says that it is a name: 1 where it may start a span.
            strength = max(named / threshold, (named + organisation) / self._organised)
            if strength >= _WEAKEST:
                kind = max(zip((person, place, organisation), KINDS, strict=True))[1]
                found.append((token.start, token.end, kind, strength >= 1.0))
        spans = (*_joined(text, found), *names_without_case(text))
        return merge_spans(span for span in spans if span.kind in self.kinds)


def _scored(text: str, language: str) -> "Iterator[tuple[Token, tuple[float, float, float]]]":
    """Each candidate with its probabilities of being PERSON, LOC and ORG."""
    for token, beside in candidates(text, language):
        person, place, organisation, nothing = _word_scores(token.text, language)
        for features in beside:
            row = _summed(features)
            person += row[0]
            place += row[1]
            organisation += row[2]
            nothing += row[3]
        grown = exp(person - nothing), exp(place - nothing), exp(organisation - nothing)
        whole = 1.0 + sum(grown)
        yield token, (grown[0] / whole, grown[1] / whole, grown[2] / whole)


class Token:
    """A word of a text and where it stands."""

    __slots__ = ("end", "lower", "start", "text")

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text, self.start, self.end = text, start, end
        self.lower = text.lower()


def candidates(text: str, language: str) -> Iterator[tuple[Token, list[Features]]]:
    """Words that could be names, each with the features of what stands beside it, in groups."""
    tokens = [Token(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(text)]
    shouted = _is_shouted(tokens)
    for index, token in enumerate(tokens):
        if not is_candidate(token.text, language) or _is_role(text, token):
            continue
        if _SHORTENED.match(text, token.end) and not token.text[0].isupper():
            continue
        before = tokens[index - 1] if index else None
        after = tokens[index + 1] if index + 1 < len(tokens) else None
        yield token, _beside(text, token, before, after, group=_group(token.text, language), shouted=shouted)


@cache
def is_candidate(word: str, language: str) -> bool:
    """Whether a word may be a name: it has a capital, or is listed as one and is no common word of the language."""
    if word[0].isupper() or (len(word) > 2 and any(symbol.isupper() for symbol in word)):
        return True
    if not word.isalpha() or len(word) < 3:
        return False
    own, elsewhere = commonness(word, language)
    listed = word in first_names() or word in last_names() or word in places()
    return listed and own - elsewhere < 1.5 and own < 5.5


def _is_role(text: str, token: Token) -> bool:
    """Whether a word names a speaker at the start of a turn, as "USR" in "USR: hello"."""
    if text[token.end : token.end + 1] != ":" or token.lower not in ROLES:
        return False
    start = token.start
    while start and text[start - 1] in " \t*[<>":
        start -= 1
    return start == 0 or text[start - 1] == "\n"


def _is_shouted(tokens: Sequence[Token]) -> bool:
    long = [token.text for token in tokens[:60] if len(token.text) > 2]
    return sum(word.isupper() for word in long) > 0.5 * len(long)


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
    """Which lists hold a word in small letters: of "flp" those of first names, last names and places; "g" if they
    hold it without the ending of a genitive ("Japans"), "a" without that of an adjective ("Frankfurter")."""
    known = "".join(
        letter for letter, listed in (("f", first_names()), ("l", last_names()), ("p", places())) if word in listed
    )
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


def word_features(word: str, language: str) -> list[str]:
    """Features of a word alone."""
    group = _group(word, language)
    lower = word.lower()
    own, elsewhere = commonness(lower, language)
    features = ["", f"known {_known_as(lower)}", f"length {min(len(lower), 12) // 2}", f"role {_role_of(lower)}"]
    features.append(f"common {int(max(own, 2.5) * 2)}")
    if own and elsewhere:
        spread = f"spread {max(-1, min(4, int((own - elsewhere) * 2)))}"
        features += (spread, f"{spread} known {_known_as(lower)}")
    else:
        spread = f"only {int(own)} {int(elsewhere)}"
        features += (spread, f"{spread} known {_known_as(lower)}")
    features.append(f"known {_known_as(lower)} common {own >= 4.5}")
    for name, pattern in (("toponym", _TOPONYM), ("surname", _SURNAME), ("demonym", _DEMONYM)):
        if len(lower) > 4 and pattern.search(lower):
            features.append(name)
    if language == "de" and not own:
        features.append("german noun" if _GERMAN_NOUN.search(lower) else "no german noun")
        features.append(f"compound {_is_compound(lower)}")
    features += (f"end {lower[-2:]}", f"end {lower[-3:]}")
    if language != "en":
        english, others = commonness(lower, "en")
        features.append(f"english {english - others >= 1.0} {int(english)}")
    if "-" in word:
        features.append(f"hyphen {any(_known_as(part) for part in lower.split('-'))}")
    if not word[1:].islower() and not word.isupper() and "-" not in word:
        features.append("camel")
    return [f"{group}|{feature}" for feature in features]


def _is_compound(word: str) -> bool:
    """Whether a long German word ends with a common one."""
    return any(
        commonness(word[cut:], "de")[0] >= 3.5 and not _known_as(word[cut:]) for cut in range(3, len(word) - 3)
    )


def _beside(
    text: str, token: Token, before: Token | None, after: Token | None, *, group: str, shouted: bool
) -> list[Features]:
    """Features of what stands beside a word."""
    gap = text[before.end if before else 0 : token.start]
    marks = gap.strip()
    known = _known_as(token.lower)
    starts = before is None or (bool(marks) and marks[-1] in _SENTENCE_END) or "\n" in gap
    abbreviated = before is not None and gap[:1] == "." and (len(before.text) == 1 or before.lower in TITLES)
    features = []
    if starts and not abbreviated:
        features.append(_placed(group, "starts", known))
    if marks and marks[-1] in "@#":
        features.append(_placed(group, "tag", ""))
    if before is not None and (not marks or abbreviated or marks in "-/&"):
        features.append(_neighbour(group, "before", before.text))
        if before.lower in _PREPOSITIONS:
            features.append(_placed(group, "after preposition", known))
        elif before.lower in _ARTICLES:
            features.append(_placed(group, "after article", known))
    elif marks == "," and before is not None:
        features.append(_placed(group, "comma before", _known_as(before.lower)))
    if after is not None:
        marks = text[token.end : after.start].strip()
        if not marks or (marks == "." and len(token.text) == 1) or marks in "-/&":
            features.append(_neighbour(group, "after", after.text))
        elif marks == ",":
            features.append(_placed(group, f"comma after {after.text[0].isupper()}", _known_as(after.lower)))
        else:
            features.append(_placed(group, "owns" if marks[0] in "'’" else "ends", ""))
    if shouted and token.text.isupper():
        features.append(_placed(group, "shouted", known))
    return features


@cache
def _placed(group: str, place: str, known: str) -> Features:
    return f"{group}|{place}", f"{group}|{place} known {known}"


@cache
def _neighbour(group: str, side: str, word: str) -> Features:
    if word.isdigit():
        return (f"{group}|{side} number",)
    lower = word.lower()
    shape = "initial" if len(word) == 1 else "capital" if word[0].isupper() else "small"
    features = [f"{group}|{side} {shape}"]
    if role := _role_of(lower):
        features.append(f"{group}|{side} {role}")
    if shape == "capital":
        features.append(f"{group}|{side} known {_known_as(lower)}")
    return tuple(features)


@cache
def _weights() -> dict[str, Scores]:
    document = json.loads((files("reticent.data.policies") / "name_weights.json").read_text(encoding="utf8"))
    return {feature: tuple(row) for feature, row in document["weights"].items()}


@cache
def _word_scores(word: str, language: str) -> Scores:
    return _summed(tuple(word_features(word, language)))


@cache
def _summed(features: Features) -> Scores:
    weights = _weights()
    nothing = (0.0,) * (len(KINDS) + 1)
    return tuple(map(sum, zip(nothing, *(weights.get(feature, nothing) for feature in features), strict=True)))


def _joined(text: str, found: Sequence[Found]) -> Iterator[Span]:
    """Neighbouring words become one span, across particles of names too; weak ones need a strong one among them."""
    run: list[Found] = []
    for word in (*found, None):
        if run and (word is None or not _joins(text[run[-1][1] : word[0]])):
            if any(is_strong for *_, is_strong in run):
                yield _whole(text, run)
            run = []
        if word is not None:
            run.append(word)


def _joins(between: str) -> bool:
    if _JOINABLE.fullmatch(between):
        return True
    words = between.split()
    return 0 < len(words) <= 2 and between[:1] == " " == between[-1:] and all(word in _PARTICLES for word in words)


def _whole(text: str, run: Sequence[Found]) -> Span:
    kinds = [kind for _, _, kind, _ in run]
    kind = max(KINDS, key=lambda one: (kinds.count(one), one == kinds[-1]))
    start, end = run[0][0], run[-1][1]
    if end - run[-1][0] == 1 and text[end : end + 1] == ".":
        end += 1  # the full stop of an initial
    return Span(start, end, kind)
