"""An ensemble made of functions of the transcript: every row is known, nothing is trained."""

import numpy as np

from reticent.core.divergence import log_normalise
from reticent.prediction.mechanisms.mechanism import Layout


def random_pmfs(rng, rows, vocabulary, scale=1.0):
    """Random log-pmfs [rows, V]."""
    return log_normalise(rng.normal(scale=scale, size=(rows, vocabulary)))


class RandomTable:
    """Look-ups [1 + rows, V] that depend on the whole text: adaptive contexts. A removed part answers as row 0."""

    def __init__(self, seed, *, rows, vocabulary, scale=2.0):
        self.seed, self.rows, self.vocabulary, self.scale = seed, rows, vocabulary, scale

    def __call__(self, text):
        rng = np.random.default_rng([self.seed, len(text), *text])
        return random_pmfs(rng, 1 + self.rows, self.vocabulary, self.scale)


class FixedTable:
    """The same pmfs after every text."""

    def __init__(self, pmfs):
        self.log_pmfs = np.log(np.asarray(pmfs, dtype=float))

    def __call__(self, text):
        return self.log_pmfs


class CalibratedTable:
    """Look-ups of another table with the public row calibrated, as `CalibratedEnsemble` has them."""

    def __init__(self, table, calibration):
        self.table, self.calibration = table, calibration

    def __call__(self, text):
        rows = self.table(text).copy()
        rows[0] = self.calibration.log_pmf(rows[0], text)
        return rows


class TableStreams:
    def __init__(self, table, calls):
        self.table, self.calls, self.texts, self.next = table, calls, {}, 0

    def open(self, context):
        self.next += 1
        self.texts[self.next] = list(context)
        return self.next

    def look_up(self, handles):
        self.calls.append(("look_up", len(handles)))
        return np.stack([self.table(tuple(self.texts[handle])) for handle in handles])

    def append(self, handle, token):
        self.calls.append(("append", 1))
        self.texts[handle].append(token)

    def close(self, handle):
        del self.texts[handle]


class TablePublic:
    """The little a predictor asks of the public model."""

    end_token = None
    start_token = 0
    name = "table"

    def __init__(self, table):
        self.table = table

    def next_token_log_probs(self, contexts):
        return np.stack([self.table(tuple(context))[0] for context in contexts])


class TableEnsemble:
    """Behind the protocol of `reticent.core.ensemble`. `calls` is the order of what was asked."""

    def __init__(self, table, layout: Layout):
        self.table, self.layout, self.calls = table, layout, []
        self.fingerprint = "table"
        self.public = TablePublic(table)

    @property
    def parts(self):
        return tuple(f"part {index}" for index in range(self.layout.parts))

    @property
    def rows(self):
        return self.layout.rows

    def streams(self):
        return TableStreams(self.table, self.calls)

    def position_log_probs(self, tokens):
        return np.stack([self.table(tuple(tokens[:place])) for place in range(len(tokens))])
