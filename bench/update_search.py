"""Forward tokens and time of the shrinking beam with caches against the naive beam, at equal results.

Two LSTMs on one word vocabulary, the second one trained on with copies of a phrase. The naive beam keeps as many
phrases as there are tokens at every step and reads each of them whole, from its start, for every extension; the
shrinking beam halves its width and reads one token a phrase. For scale, the last column is what full
enumeration would read.

Required at six tokens: the same best phrase with the same score, from at least ten times fewer tokens. The other
lengths are printed whatever they show. At five the definition itself allows 7.5 times (14 |T| against 1.875 |T|);
at eight a beam of |T|/128 phrases is left, which may miss what the naive one finds.

    python -m bench.update_search [vocabulary]
"""

import sys
import time

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from reticent.app.update_regimes import Regime, UpdateData, UpdateExperiment, UpdateSettings
from reticent.app.update_vocabulary import word_tokenizer
from reticent.auditing.differential import Snapshots
from reticent.auditing.differential_branches import PlainBranches
from reticent.auditing.differential_search import Beam, BeamSettings, search_phrases
from reticent.core.corpus import Corpus, Record
from reticent.core.model import LanguageModel
from reticent.core.randomness import Randomness
from reticent.core.secret import Canary, ListedSpace, Secret

VOCABULARY = 400
LENGTHS = (3, 5, 6, 8)
REQUIRED_AT = 6
REQUIRED = 10.0


class Cacheless:
    """A model whose branches are read whole, whatever it could do."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    def __getattr__(self, name: str) -> object:
        return getattr(self._model, name)

    def branches(self, prefix: list[int]) -> PlainBranches:
        return PlainBranches(self._model, prefix)


def snapshots(size: int) -> Snapshots:
    """A model of random sentences over `size` words, and the same after an update with one phrase of eight."""
    draws = Randomness.seeded(0).integers(size * size, (600, 12)) ** 0.5  # words of unequal frequency
    texts = [" ".join(f"w{int(word)}" for word in row) for row in draws]
    phrase = " ".join(f"w{index * 7}" for index in range(1, max(LENGTHS) + 1))
    corpus = Corpus(Record(f"d{place}", text) for place, text in enumerate(texts))
    tokenizer = word_tokenizer([*texts, " ".join(f"w{index}" for index in range(size))], size=size + 3)
    work = UpdateExperiment(
        UpdateData(corpus, corpus[:0], corpus[:0], tokenizer),
        UpdateSettings(hidden_size=48, epochs=3.0, learning_rate=1e-2),
    )
    canary = Canary("phrase", "{}", Secret(phrase, "phrase"), ListedSpace((phrase, "")), 60)
    return Snapshots(work.before, work.after(Regime.CONTINUED, [canary]))


def measured(pair: Snapshots, settings: BeamSettings) -> tuple[Beam, float]:
    """A search and its processor time."""
    began = time.process_time()
    beam = search_phrases(pair, settings)
    return beam, time.process_time() - began


def main() -> None:
    """Search with both at several lengths, print a table, and end with 1 where too little is saved."""
    torch.set_num_threads(1)
    size = int(sys.argv[1]) if sys.argv[1:] and sys.argv[1].isdigit() else VOCABULARY
    pair = snapshots(size)
    naive_pair = Snapshots(Cacheless(pair.before), Cacheless(pair.after))  # type: ignore[arg-type]
    table = Table(title=f"|T| = {size}: tokens read by both snapshots, and processor seconds")
    for column in ("length", "shrinking", "s", "naive", "s", "fewer by", "same best", "enumeration"):
        table.add_column(column, justify="right")
    is_met = False
    for length in LENGTHS:
        ours, seconds = measured(pair, BeamSettings(length=length))
        naive, naive_seconds = measured(naive_pair, BeamSettings(length=length, width=size))
        is_same = bool((ours.tokens[0] == naive.tokens[0]).all()) and np.isclose(ours.scores[0], naive.scores[0])
        ratio = naive.forward_tokens / ours.forward_tokens
        if length == REQUIRED_AT:
            is_met = bool(is_same) and ratio >= REQUIRED
        table.add_row(
            str(length),
            f"{ours.forward_tokens:,}",
            f"{seconds:.2f}",
            f"{naive.forward_tokens:,}",
            f"{naive_seconds:.2f}",
            f"{ratio:.1f}",
            "yes" if is_same else "NO",
            f"{2 * size ** (length - 1):.1e}",
        )
    Console().print(table)
    if not is_met:
        sys.exit(1)


if __name__ == "__main__":
    main()
