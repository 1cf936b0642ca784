"""Write how words of English and German are used in public text, for the policy `names`: how often with a capital,
and among which other words.

The package spacy-lookups-data (Explosion, MIT licence; `pip install spacy-lookups-data`) carries the probabilities
of a million word forms, case kept, and the Brown cluster of each (Brown et al. 1992: words that stand beside the
same words share a cluster), counted in public comments and web pages. Here all forms of a word are one entry in
small letters, and rare words are left out. A line holds what its words have in common, a tab, and the words:

    capital   log of how much more often the word has a capital than not, in whole nats, -5 to 5
    shouted   the same of the word in capitals against its other forms, in steps of two nats, -3 to 3
    cluster   the first bits of the path to the cluster of the word's most common form; 0 if it has none
"""

import gzip
import json
import re
from collections import defaultdict
from math import floor
from pathlib import Path

from spacy_lookups_data import get_file  # type: ignore[import-not-found, unused-ignore]

FOLDER = Path(__file__).resolve().parent.parent / "src" / "reticent" / "data" / "policies" / "words"
RAREST = {"en": -16.6, "de": -15.2}  # log probability of a word's most common form
UNSEEN = -20.0
BITS = 0x3FF
WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")


def main() -> None:
    """Write a list for each language."""
    for language, rarest in RAREST.items():
        chances, clusters = _table(language, "prob"), _table(language, "cluster")
        lines: dict[tuple[int, int, int], list[str]] = defaultdict(list)
        for word in sorted({form.lower() for form in chances if WORD.fullmatch(form)}):
            forms = [word, word[:1].upper() + word[1:], word.upper()]
            small, capital, shouted = (chances.get(form, UNSEEN) for form in forms)
            common = max((small, capital, shouted))
            if len(word) > 1 and common >= rarest:
                cluster = int(clusters.get(forms[(small, capital, shouted).index(common)], 0)) & BITS
                key = _steps(capital - small, 1.0, 5), _steps(shouted - max(small, capital), 2.0, 3), cluster
                lines[key].append(word)
        text = "".join(f"{c} {s} {b}\t{' '.join(words)}\n" for (c, s, b), words in sorted(lines.items()))
        (FOLDER / f"usage_{language}.txt").write_text(text, encoding="utf8")
        print(f"{language}: {sum(map(len, lines.values()))} words")


def _table(language: str, name: str) -> dict[str, float]:
    packed = Path(get_file(f"{language}_lexeme_{name}.json.gz")).read_bytes()
    table: dict[str, float] = json.loads(gzip.decompress(packed))
    return table


def _steps(value: float, step: float, most: int) -> int:
    return max(-most, min(most, floor(value / step)))


if __name__ == "__main__":
    main()
