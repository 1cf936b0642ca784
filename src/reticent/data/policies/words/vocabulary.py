"""What is publicly known of a word: how common it is in each language, whether a dictionary has it, and whether it
is a name or a place.

Word frequencies are those of the `wordfreq` package (Speer 2022; without case; a long list of English and German,
some 30,000 words of each other language). Dictionaries are those of `simplemma` (Barbaresi). Names and places are
the lists that `faker` carries for some seventy locales, in their own scripts, the countries and cities of the
Unicode locale data (`babel`), and towns of GeoNames (`places.txt` and, by their names in scripts other than Latin,
`places_of_other_scripts.txt`; CC BY 4.0). How often English and German words have a capital, and among which words
they stand, is in `usage_en.txt` and `usage_de.txt` (counts of spacy-lookups-data, MIT; `scripts/renew_usage.py`).
All are read when first asked for.

A name is about as common in every language ("emma": 4.2 in English, 4.1 in German); a word is common in its own
alone ("bild": 5.4 in German, 2.6 in English). So a word is judged by its Zipf value (log10 of its frequency a
billion words) in the language of the text and by how much that exceeds its value elsewhere.
"""

import math
import pkgutil
import re
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib import import_module
from importlib.resources import files
from typing import Any, NamedTuple

LANGUAGES = (
    "en",
    "de",
    "fr",
    "es",
    "it",
    "nl",
    "pt",
    "pl",
    "sv",
    "da",
    "fi",
    "cs",
    "ro",
    "hu",
    "tr",
    "ru",
    "uk",
    "el",
)
_UNCASED = ("zh", "ja", "ko", "ar", "he", "hi", "th")  # languages whose scripts have no capital letters
# Other languages that a word's frequency is compared with.
_PANEL = ("en", "de", "fr", "es", "it", "nl", "pl")
_CYRILLIC = ("ru", "uk", "bg", "mk")
_FUNCTION_WORDS = 60  # the most common words of a language, by which it is told from others
_NEIGHBOURS = 200  # the most common words of a language, which say something of the word beside them
_DICTIONARIES = ("en", "de", "fr", "es", "it", "nl", "pt", "sv", "da", "ro", "ru", "uk", "el", "tr")
# Read when first asked for, in a second or two each; those of other languages are larger yet.
_LARGE = 24052  # towns of 100,000 people and more in the list
_LONG_LISTS = ("en", "de")
COUNTED = ("en", "de")  # languages of which it is known how words are used
_ENOUGH = 2.0  # function words that settle it, provided that they are this share of all words
_SHARE = 0.05
_FEW = 60  # words by which it is told where these are few
_READ = 2000  # characters by which the language of a text is told
# A function word counts so much, divided among its languages: for whole shares whatever their number (up to 18). As
# `_READ` characters hold at most half as many words, sums fit a field.
_WHOLE = math.lcm(*range(1, len(LANGUAGES) + 1))
_FIELDS = f"<{len(LANGUAGES)}Q"
_WIDTH = struct.calcsize(_FIELDS)
_FEWEST = 5  # words of a cluster that say something of it
COMMONER = 1.1  # how much smaller the Zipf value of a town's name is than the logarithm of its people, at least
_UNCASED_LOCALES = ("zh_CN", "zh_TW", "ja_JP", "ko_KR", "th_TH", "he_IL", "hi_IN", "ar_SA")
_UNCASED_LETTERS = re.compile("[\u0590-\u06ff\u0900-\u097f\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3 ]+")
_LONG_ENOUGH = 4  # letters of a place that is no other word
# Languages that decline names and whose dictionaries hold the cases of places ("Москве": "Москва"), and endings of
# cases where the dictionary is too large to be read for it.
_DECLINING = ("ru", "uk", "ro", "el", "sv", "da")
_ENDINGS = {
    "pl": ("a", "ą", "ę", "y", "i", "ie", "u", "o", "em", "iem", "owi", "owie", "om", "ach", "ami", "ów"),
    "cs": ("a", "y", "i", "ě", "e", "u", "ou", "em", "ům", "ách", "ami", "ů", "ích"),
    "hu": ("ban", "ben", "ba", "be", "ból", "ből", "on", "en", "ön", "ra", "re", "ról", "ről", "nak", "nek", "t"),
    "fi": ("ssa", "ssä", "sta", "stä", "n", "an", "än", "lla", "llä", "lle", "ta", "tä", "in", "ssa"),
}
# The Zipf value in other languages from which a place is one although lists of names hold it, by how many do.
_KNOWN_ABROAD = {0: 0.0, 1: 3.2, 2: 3.6, 3: 3.6}
_ALPHABET = re.compile(r"[^\W\d_]+(?:[-’'][^\W\d_]+)*")
_REGIONS_THERE = "states provinces regions prefectures"
_WORLD = "001"  # among territories
_REGIONS = "states provinces regions"
_PLACES = "cities city_names towns countries states provinces regions counties districts departments municipalities"


@cache
def zipf_values(language: str) -> dict[str, float]:
    """Zipf values of a language's common words, in small letters."""
    from wordfreq import get_frequency_list

    # Where every noun has a capital, only a long list tells a rare noun from a name.
    buckets = get_frequency_list(language, "large" if language in _LONG_LISTS else "small")
    values: dict[str, float] = {}
    for n, words in enumerate(buckets):  # bucket n holds the words of frequency 10^(-n/100)
        values.update(dict.fromkeys(words, 9.0 - n / 100))
    return values


def lowered(word: str) -> str:
    """The word in small letters, of which the Turkish "İ" has one as well."""
    return word.lower() if "İ" not in word else word.replace("İ", "i").lower()


@lru_cache(maxsize=200_000)
def commonness(word: str, language: str) -> tuple[float, float]:
    """The Zipf value of `word` (small letters) in `language`, and its median in other languages; 0 if unlisted."""
    own = zipf_values(language).get(word, 0.0)
    panel = _CYRILLIC if language in _CYRILLIC else _PANEL
    elsewhere = sorted(zipf_values(other).get(word, 0.0) for other in panel if other != language)
    return own, elsewhere[len(elsewhere) // 2]


@cache
def _dictionary(language: str) -> Mapping[str, object]:
    from simplemma.strategies.dictionaries.dictionary_factory import DefaultDictionaryFactory

    found: Mapping[str, object] = DefaultDictionaryFactory().get_dictionary(language)
    return found


def listed_as(word: str, language: str) -> str:
    """How a dictionary of the language holds a word in small letters: "s" so, "c" with a capital, both or neither;
    "?" where there is none."""
    if language not in _DICTIONARIES:
        return "?"
    held = _dictionary(language)
    return "s" * (word in held) + "c" * (word[:1].upper() + word[1:] in held)


class Usage(NamedTuple):
    """How a word is used: how much more often with a capital than without, and in capitals than otherwise (both are
    logarithms in steps), and the first bits of its Brown cluster, 0 for none."""

    capital: int
    shouted: int
    cluster: int


@cache
def usages(language: str) -> Mapping[str, Usage]:
    """Words of a language of `COUNTED`, in small letters, that are not rare."""
    listed = (files("reticent.data.policies.words") / f"usage_{language}.txt").read_text(encoding="utf8")
    found: dict[str, Usage] = {}
    for line in listed.splitlines():
        key, _, words = line.partition("\t")
        found.update(dict.fromkeys(words.split(" "), Usage(*map(int, key.split()))))
    return found


@cache
def companies(language: str) -> Mapping[int, str]:
    """How many words of each cluster are listed as first names, last names and places, in steps of 0 to 4."""
    words: dict[int, list[str]] = {}
    for word, usage in usages(language).items():
        words.setdefault(usage.cluster, []).append(word)
    lists = (first_names(), last_names(), places())
    return {
        cluster: " ".join(_step(sum(word in names for word in held), len(held)) for names in lists)
        for cluster, held in words.items()
    }


def _step(part: int, whole: int) -> str:
    return str(min(4, int(6.0 * math.sqrt((part + 0.1) / (whole + 1.0)))) if whole >= _FEWEST else 0)


@cache
def _telling_words() -> dict[str, list[str]]:
    """Function words, each with the languages that it is one of."""
    from wordfreq import top_n_list

    telling: dict[str, list[str]] = {}
    for language in LANGUAGES:
        for word in top_n_list(language, _FUNCTION_WORDS, wordlist="small"):
            if word.isalpha():
                telling.setdefault(word, []).append(language)
    return telling


def language_of(text: str) -> str:
    """The language with the most function words in the beginning of `text`; where these are few, of the likely ones
    that in which its words are most common. English where nothing tells."""
    return _language_of(text[:_READ])


@lru_cache(maxsize=4096)
def _language_of(text: str) -> str:
    words = text.lower().split()
    return _clear_language(words) or _likely_language(words)


def _clear_language(words: Sequence[str]) -> str | None:
    """The language with the most function words, if these are enough and no other has as many.

    Whole numbers are added, all languages at once, where `_likely_language` adds fractions: what differs here does
    so by far more than their rounding, and what is equal here is left to it.
    """
    packed = _packed_words()
    shares = struct.unpack(_FIELDS, sum(filter(None, map(packed.get, words))).to_bytes(_WIDTH, "little"))
    most = max(shares)
    is_enough = most > _WHOLE * max(_ENOUGH, _SHARE * len(words)) + 1
    return LANGUAGES[shares.index(most)] if is_enough and shares.count(most) == 1 else None


@cache
def _packed_words() -> dict[str, int]:
    """Function words, each with its share for every language that it is one of, in fields of one number."""
    places = {language: 64 * n for n, language in enumerate(LANGUAGES)}
    return {
        word: sum(_WHOLE // len(languages) << places[language] for language in languages)
        for word, languages in _telling_words().items()
    }


def _likely_language(words: Sequence[str]) -> str:
    telling = _telling_words()
    counts: dict[str, float] = {}
    for word in filter(telling.__contains__, words):
        languages = telling[word]
        share = 1.0 / len(languages)
        for language in languages:
            counts[language] = counts.get(language, 0.0) + share
    best = max(counts, key=lambda language: (counts[language], language == "en")) if counts else "en"
    if counts.get(best, 0.0) >= max(_ENOUGH, _SHARE * len(words)):
        return best
    told = [language for language in counts if counts[language] > 0.4] if counts else _PANEL
    likely: list[str] = sorted({"en", *told})
    values = {one: [zipf_values(one).get(word, 0.0) for word in words[:_FEW]] for one in likely}
    sums = {one: sum(value for value in values[one] if value >= 3.0) for one in likely}  # as far as all lists go
    return max(sums, key=lambda language: (sums[language], language == "en"))


@cache
def first_names() -> Mapping[str, int]:
    """First names of all locales, in small letters, each with the number of locales that list it."""
    return _by_locales("first_name")


@cache
def last_names() -> Mapping[str, int]:
    """Last names likewise."""
    return _by_locales("last_name")


def _by_locales(attribute: str) -> Mapping[str, int]:
    lists = (_of_locale("person", attribute, locale) for locale in _locales("person"))
    return Counter(word for names in lists for word in {word for name in names for word in _words(name)})


@cache
def countries() -> frozenset[str]:
    """Names of countries, continents and capitals, as `places`."""
    from babel import Locale
    from faker.providers.date_time import Provider

    listed = {country.capital for country in Provider.countries}
    for language in LANGUAGES:
        listed.update(Locale.parse(language).territories.values())
    return _plain(listed | _territories_without_case())


@cache
def _territories_without_case() -> frozenset[str]:
    from babel import Locale

    territories = (Locale.parse(language).territories for language in _UNCASED)
    return frozenset(name for told in territories for code, name in told.items() if code != _WORLD)


@cache
def large_places() -> frozenset[str]:
    """Names of towns of 100,000 and more, as `places`."""
    return _plain([*_towns()[:_LARGE], *(name for name in _towns_of_other_scripts() if name[0].isupper())])


@cache
def places() -> frozenset[str]:
    """Names of countries, regions and towns, in small letters, several words joined by a blank."""
    from babel import Locale

    listed = {
        name for attribute in _PLACES.split() for locale in _locales("address")
        for name in _of_locale("address", attribute, locale)
    }  # fmt: skip
    listed.update(_towns())
    for language in (*LANGUAGES, *_UNCASED):
        zones = Locale.parse(language).time_zones.values()
        listed.update(zone["city"] for zone in zones if "city" in zone)
    return _plain(listed) | countries()


@cache
def place_pairs() -> Mapping[str, frozenset[str]]:
    """Second words of places of two words, by the first."""
    pairs: dict[str, set[str]] = {}
    for name in places():
        first, _, second = name.partition(" ")
        if second and " " not in second:
            pairs.setdefault(first, set()).add(second)
    return {first: frozenset(seconds) for first, seconds in pairs.items()}


@lru_cache(maxsize=20_000)
def names_a_place(word: str, language: str) -> bool:
    """Whether a word with a capital is a country or a large town of one word, in any case of the language."""
    lower = lowered(word)
    if _is_known_place(lower):
        return True
    if language in _DECLINING:
        lemma = _dictionary(language).get(word)
        return isinstance(lemma, str) and _is_known_place(lemma.lower())
    if language in _ENDINGS:
        stems = _place_stems()
        return any(lower.endswith(end) and lower[: len(lower) - len(end)] in stems for end in _ENDINGS[language])
    return False


def _is_known_place(word: str) -> bool:
    return word in countries() or word in large_places() or word in _regions()


@cache
def _regions() -> frozenset[str]:
    """States, provinces and the like, as `places`."""
    return _plain(
        name for attribute in _REGIONS.split() for locale in _locales("address")
        for name in _of_locale("address", attribute, locale) if len(name)>=_LONG_ENOUGH
    )  # fmt: skip


def uncased_zipf(word: str, language: str) -> float:
    """The Zipf value of a word of a script without case; 0 where no list is known of the language."""
    from wordfreq import available_languages

    return zipf_values(language).get(word, 0.0) if language in available_languages("small") else 0.0


@cache
def places_without_case() -> frozenset[str]:
    """Countries, regions and large towns in scripts without capital letters."""
    from babel import Locale

    listed = {*_towns_of_other_scripts(), *_territories_without_case()}
    for language in _UNCASED:
        listed.update(zone["city"] for zone in Locale.parse(language).time_zones.values() if "city" in zone)
    for locale in set(_UNCASED_LOCALES) & set(_locales("address")):
        for attribute in _REGIONS_THERE.split():
            regions = _of_locale("address", attribute, locale)
            listed |= {form for name in regions for form in (name, re.sub("[県省]$|(?<=..)[都府]$", "", name))}
    return frozenset(name for name in listed if len(name) >= 2 and _UNCASED_LETTERS.fullmatch(name))


@cache
def _towns_of_other_scripts() -> list[str]:
    path = files("reticent.data.policies.words") / "places_of_other_scripts.txt"
    return path.read_text(encoding="utf8").splitlines()


@cache
def _place_stems() -> frozenset[str]:
    """Places without the vowel that they end with, where the ending says the case."""
    names = (name for name in (*countries(), *large_places()) if len(name) >= _LONG_ENOUGH and " " not in name)
    return frozenset(stem for name in names if len(stem := re.sub("[aeiouyąęěéíýáů]$", "", name)) >= _LONG_ENOUGH)


@lru_cache(maxsize=20_000)
def is_rather_a_place(name: str, language: str) -> bool:
    """Whether a name in small letters that stands alone is a country's or large town's rather than a person's.

    Lists of names hold Berlin and Paris too. A place is what no such list holds, or few, while the word is common
    in other languages as well; "charlotte", "jackson" and other first names of many locales stay names.
    """
    if " " in name:
        return name in places() and name.split()[0] not in first_names()
    if len(name) < _LONG_ENOUGH or not (name in countries() or name in large_places()):
        return False
    listed = max(first_names().get(name, 0), last_names().get(name, 0))
    return commonness(name, language)[1] >= _KNOWN_ABROAD.get(listed, math.inf)


def _plain(names: Iterable[str]) -> frozenset[str]:
    return frozenset(" ".join(_words(name)) for name in names) - {""}


@cache
def _towns() -> list[str]:
    """Towns by their population, the largest first (GeoNames, CC BY 4.0)."""
    return (files("reticent.data.policies.words") / "places.txt").read_text(encoding="utf8").splitlines()


@cache
def function_words(language: str) -> frozenset[str]:
    """The most common words of a language."""
    from wordfreq import top_n_list

    return frozenset(top_n_list(language, _NEIGHBOURS, wordlist="small"))


@cache
def names_of(locale: str) -> tuple[frozenset[str], frozenset[str]]:
    """First and last names of one locale as they are written."""
    return frozenset(_of_locale("person", "first_name", locale)), frozenset(
        _of_locale("person", "last_name", locale)
    )


def _words(name: str) -> list[str]:
    small = lowered(name)
    words = [small] if small.isalpha() else _ALPHABET.findall(small)  # most names are one word
    return [word for word in words if len(word) > 1]


def _locales(provider: str) -> list[str]:
    package: Any = import_module(f"faker.providers.{provider}")
    return [module.name for module in pkgutil.iter_modules(package.__path__) if module.ispkg]


def _of_locale(provider: str, attribute: str, locale: str) -> set[str]:
    """What a locale lists in the attributes of that name, and for names also `first_names_male` and the like."""
    listed = vars(import_module(f"faker.providers.{provider}.{locale}").Provider)
    names: set[str] = set()
    for key, values in listed.items():
        fits = key == attribute or (provider == "person" and key.startswith(attribute))
        if fits and "romanized" not in key and isinstance(values, dict | list | tuple | set):
            entries = [value[0] if isinstance(value, tuple | list) and value else value for value in values]
            names.update(entry for entry in entries if isinstance(entry, str))
    return names
