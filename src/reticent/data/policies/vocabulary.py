"""What is publicly known of a word: how common it is in each language, and whether it is a name or a place.

Word frequencies are those of the `wordfreq` package (Speer 2022; some 30,000 words a language, without case). Names
and places are the lists that `faker` carries for some seventy locales, in their own scripts, and the countries and
cities of the Unicode locale data (`babel`). All are read when first asked for.

A name is about as common in every language ("emma": 4.2 in English, 4.1 in German); a word is common in its own
alone ("bild": 5.4 in German, 2.6 in English). So a word is judged by its Zipf value (log10 of its frequency a
billion words) in the language of the text and by how much that exceeds its value elsewhere.
"""

import pkgutil
import re
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

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
_RAREST = 700  # buckets: words of Zipf value 2 and above
_READ = 4000  # characters by which the language of a text is told
_WORD = re.compile(r"[^\W\d_]+")
_ALPHABET = re.compile(r"[^\W\d_]+(?:[-’'][^\W\d_]+)*")
_PLACES = "cities city_names towns countries states provinces regions counties districts departments municipalities"


@cache
def zipf_values(language: str) -> dict[str, float]:
    """Zipf values of a language's common words, in small letters."""
    from wordfreq import get_frequency_list

    # Where every noun has a capital, only a long list tells a rare noun from a name.
    buckets = get_frequency_list(language, "large" if language == "de" else "small")
    # Bucket n of the list holds the words of frequency 10^(-n/100).
    return {word: 9.0 - n / 100 for n, words in enumerate(buckets[:_RAREST]) for word in words}


@lru_cache(maxsize=200_000)
def commonness(word: str, language: str) -> tuple[float, float]:
    """The Zipf value of `word` (small letters) in `language`, and its median in other languages; 0 if unlisted."""
    own = zipf_values(language).get(word, 0.0)
    panel = _CYRILLIC if language in _CYRILLIC else _PANEL
    elsewhere = sorted(zipf_values(other).get(word, 0.0) for other in panel if other != language)
    return own, elsewhere[len(elsewhere) // 2]


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


@lru_cache(maxsize=512)
def language_of(text: str) -> str:
    """The language with the most function words in the beginning of `text`; English where none has any."""
    telling = _telling_words()
    counts: dict[str, float] = {}
    for word in _WORD.findall(text[:_READ].lower()):
        languages = telling.get(word, ())
        for language in languages:
            counts[language] = counts.get(language, 0.0) + 1.0 / len(languages)
    return max(counts, key=lambda language: (counts[language], language == "en")) if counts else "en"


@cache
def first_names() -> frozenset[str]:
    """First names of all locales, in small letters."""
    return frozenset(word for name in _listed("person", "first_name") for word in _words(name))


@cache
def last_names() -> frozenset[str]:
    """Last names of all locales, in small letters."""
    return frozenset(word for name in _listed("person", "last_name") for word in _words(name))


@cache
def places() -> frozenset[str]:
    """Names of countries, regions and towns, in small letters, several words joined by a blank."""
    from babel import Locale
    from faker.providers.date_time import Provider

    listed = {name for attribute in _PLACES.split() for name in _listed("address", attribute)}
    listed.update(country.capital for country in Provider.countries)
    for language in (*LANGUAGES, *_UNCASED):
        locale = Locale.parse(language)
        listed.update(locale.territories.values())
        listed.update(zone["city"] for zone in locale.time_zones.values() if "city" in zone)
    return frozenset(" ".join(_words(name)) for name in listed) - {""}


@cache
def names_of(locale: str) -> tuple[frozenset[str], frozenset[str]]:
    """First and last names of one locale as they are written."""
    return frozenset(_of_locale("person", "first_name", locale)), frozenset(
        _of_locale("person", "last_name", locale)
    )


def _words(name: str) -> list[str]:
    return [word for word in _ALPHABET.findall(name.lower()) if len(word) > 1]


def _listed(provider: str, attribute: str) -> set[str]:
    package: Any = import_module(f"faker.providers.{provider}")
    locales = [module.name for module in pkgutil.iter_modules(package.__path__) if module.ispkg]
    return {name for locale in locales for name in _of_locale(provider, attribute, locale)}


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
