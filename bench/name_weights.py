"""Learns the weights of the policy `names` from the choosing halves of the labelled text.

Multinomial logistic regression with an L2 penalty, by L-BFGS. A feature that fewer than five words have gets no
weight. Words of spans of other kinds, and titles, are left out. The sets are weighted so that court cases, which
have half of the words, do not decide alone. Learns twice: for languages of which it is known how words are used
(`vocabulary.COUNTED`), and without what is known of that, for all others. Writes the weights beside the policy. Run
it by `python -m bench.name_weights`.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from bench.labelled_text import FILES, labelled_sets
from reticent.core.corpus import Record
from reticent.data.kinds import TITLES, canonical
from reticent.data.policies.words import names
from reticent.data.policies.words.vocabulary import language_of

WEIGHT_OF_SET = {"tweets": 3.0, "german": 1.0, "pii-sentences": 0.7, "tab": 0.2}
# By cross-validation on the choosing half of the tweets, and a look at 2,000 posts of WNUT 2017.
PENALTY = {"counted": 16.0, "other": 8.0}
OF_USAGE = re.compile(r"\|(?:before |after )?(?:unused|capital (?:en|de) |cluster |company )")
FEWEST = 5
NOTHING = len(names.KINDS)


def labelled_words(records: list[Record]) -> Iterator[tuple[names.Features, int]]:
    """The features of each candidate and its class."""
    for record in records:
        language = language_of(record.text)
        for start, end, features in names.candidates(record.text, language):
            kinds = [canonical(s.kind) for s in record.spans if s.start < end and start < s.end]
            known = [kind for kind in kinds if kind in names.KINDS]
            other = [kind for kind in kinds if kind not in (*names.KINDS, "ORIGIN", "MISC")]
            if record.text[start:end].lower() in TITLES or (other and not known):
                continue
            yield features, names.KINDS.index(known[0]) if known else NOTHING


Row = tuple[names.Features, int, float]  # of a word: its features, its class and its weight


def without_usage(rows: list[Row]) -> list[Row]:
    """The words as if nothing were known of how they are used."""
    return [(tuple(f for f in fs if not OF_USAGE.search(f)), label, weight) for fs, label, weight in rows]


def learn(rows: list[Row], penalty: float) -> dict[str, list[float]]:
    """Weights by feature, one for each kind and one for nothing."""
    counts = Counter(feature for features, _, _ in rows for feature in features)
    columns = {f: n for n, f in enumerate(sorted(f for f, count in counts.items() if count >= FEWEST))}
    places = [(n, columns[f]) for n, (features, _, _) in enumerate(rows) for f in features if f in columns]
    ones = np.ones(len(places))
    present = csr_matrix((ones, tuple(zip(*places, strict=True))), shape=(len(rows), len(columns)))
    wanted = np.eye(NOTHING + 1)[[label for _, label, _ in rows]]
    weights = np.array([weight for _, _, weight in rows])[:, None]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        table = flat.reshape(len(columns), NOTHING + 1)
        scores = present @ table
        scores -= scores.max(axis=1, keepdims=True)
        log_chances = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        gradient = present.T @ ((np.exp(log_chances) - wanted) * weights) + penalty * table
        return -(weights * wanted * log_chances).sum() + 0.5 * penalty * (table**2).sum(), gradient.ravel()

    start = np.zeros(len(columns) * (NOTHING + 1))
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 300})
    table = best.x.reshape(len(columns), NOTHING + 1)
    return {feature: [round(float(v), 3) for v in table[n]] for feature, n in columns.items()}


def main() -> None:
    """Learn and write."""
    sets = labelled_sets()
    if missing := set(FILES) - set(sets):
        raise SystemExit(f"labelled text is missing: {', '.join(sorted(missing))}; set RETICENT_SHARED")
    rows = [(*word, WEIGHT_OF_SET[name]) for name in FILES for word in labelled_words(sets[name][0])]
    tables = {"counted": learn(rows, PENALTY["counted"]), "other": learn(without_usage(rows), PENALTY["other"])}
    target = Path(names.__file__).parent / "name_weights.json"
    target.write_text(written(tables), encoding="utf8")


def written(tables: dict[str, dict[str, list[float]]]) -> str:
    """The document, a feature a line."""
    parts = [f'"kinds": {json.dumps([*names.KINDS, "none"])}', '"schema_version": 2']
    for name, weights in sorted(tables.items()):
        lines = [f"{json.dumps(feature, ensure_ascii=False)}: {row}" for feature, row in sorted(weights.items())]
        parts.append(f'"{name}": {{\n' + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main()
