"""What mixing costs beside the models: SubMix-F and SubMix at a real vocabulary, against the obvious way.

The obvious way, what the fast code must equal: for every part a bisection of λ on core's float64 Rényi divergence,
both directions each time, then the charges part by part. Either way begins with what a model's output layer gives
in one pass: the obvious one with a log-softmax, ours, as it is served, with a softmax. Rows are public logits with
noise on them, at two strengths: at 1.0 the caps bind and the weight must be searched for; at 0.5 every weight of
SubMix-F is at its limit, where the naive way stops after one look. Ours never stops early, since time must not
tell, and so gains less there. Times are processor seconds of this process, so that busy neighbours count less,
medians over rounds; the durable charge of the ledger is wall time, since it waits for the disk. Both ways run as a
server does, with freed memory kept (`models.ensemble.allocator`). Ends with code 1 where the fast way takes more
than a tenth of the naive time, or mixes other chances.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from reticent.accounting.mixing.curves import Pull
from reticent.core.arrays import Floats
from reticent.core.divergence import log_normalise, symmetric_renyi_divergence
from reticent.core.randomness import Randomness
from reticent.ledger.durable import SqliteLedger
from reticent.models.ensemble.allocator import keep_freed_memory
from reticent.prediction.budgets import MechanismName, MechanismOptions, PredictionTarget, set_up_mechanism
from reticent.prediction.mechanisms.mechanism import Layout, Mechanism, Moment, TogetherMechanism
from reticent.prediction.mechanisms.shaping import Masses
from reticent.prediction.mechanisms.submix import HASTE, SubMix, SubMixF
from tests.accounting.mixing.oracles import (
    fixed_mixture,
    log_mixture,
    slow_filtered_charges,
    slow_submix_charges,
    submix_mixture,
)

VOCABULARY = 50_257
PARTS = 8
ROUNDS = 7
HALVINGS = 40  # of the naive bisection: λ to 1e-12
TARGET = PredictionTarget(epsilon=8.0, delta=1e-5, queries=1024)
WEIGHT_LIMIT = 0.5
NOISES = (1.0, 0.5)  # caps that bind, caps that do not
MOST_SHARE = 0.1  # what the fast way may take of the naive time
SAME = 1e-6  # relative difference of a chance that two searches of λ to 1e-9 may make
SMALL, TEXTS = 2_000, 16  # a small vocabulary, and texts of one turn


@dataclass(frozen=True, slots=True)
class Result:
    """Processor seconds a token of the fast and of the naive way, and how far their pmfs differ at most."""

    name: str
    fast: float
    naive: float
    difference: float

    @property
    def share(self) -> float:
        """Fast over naive."""
        return self.fast / self.naive


def rows_of(private: int, noise: float) -> Floats:
    """Log-pmfs [1 + private, V]: long-tailed public chances and models that moved a little from them."""
    rng = np.random.default_rng(0)
    public = rng.normal(scale=3.0, size=VOCABULARY)
    return log_normalise(np.vstack([public[None], public + rng.normal(scale=noise, size=(private, VOCABULARY))]))


def bisect(divergence: Callable[[float], float], cap: float, upper: float) -> float:
    """The largest weight whose divergence is at most the cap."""
    if divergence(upper) <= cap:
        return upper
    low, high = 0.0, upper
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if divergence(middle) <= cap else (low, middle)
    return low


def naive_submix_f(rows: Floats, mechanism: SubMixF, remaining: float) -> Floats:
    """One token of SubMix-F, part by part."""
    order, weights = mechanism.order, np.zeros(PARTS)
    for part in range(PARTS):

        def charge(weight: float, row: Floats = rows[1 + part]) -> float:
            setting = {"order": order, "parts": PARTS, "weight_limit": WEIGHT_LIMIT}
            return float(slow_filtered_charges(row, rows[0], weight, **setting))  # type: ignore[arg-type]

        weights[part] = bisect(charge, HASTE * remaining / TARGET.queries, WEIGHT_LIMIT)
        charge(weights[part])
    return np.exp(fixed_mixture(rows[1:], rows[0], weights))


def naive_submix(rows: Floats, mechanism: SubMix) -> Floats:
    """One token of Algorithm 2, part by part."""
    order, weights = mechanism.order, np.zeros(PARTS)
    for part in range(PARTS):

        def divergence(weight: float, pair: Floats = rows[1 + 2 * part : 3 + 2 * part]) -> float:
            mixed = [log_mixture(half, rows[0], weight) for half in pair]
            return float(symmetric_renyi_divergence(mixed[0], mixed[1], order))

        weights[part] = bisect(divergence, mechanism.leakage, 1.0)
    means = np.logaddexp(rows[1::2], rows[2::2]) - np.log(2.0)
    slow_submix_charges(means, rows[0], weights, order=order, common=True)
    return np.exp(submix_mixture(means, rows[0], weights, common=True))


def fast_way(mechanism: Mechanism, rows: Floats, limit: float) -> Callable[[], Floats]:
    """One token as it is served: from what a softmax gives, checked and normalised."""
    moment = Moment(remaining=np.full(PARTS, limit), left=TARGET.queries)
    assert isinstance(mechanism, TogetherMechanism)
    masses = Masses(np.exp(rows)[None])
    return lambda: mechanism.release_together(masses, [mechanism.shaping], moment)[0].pmf


def timed(work: Callable[[], Floats], rounds: int) -> tuple[float, Floats]:
    """Median processor seconds of a call, and its last result."""
    times, result = [], work()
    for _ in range(rounds):
        start = time.process_time()
        result = work()
        times.append(time.process_time() - start)
    return statistics.median(times), result


def measure(kind: MechanismName, order: float, target: PredictionTarget, *, noise: float) -> Result:
    """One mechanism at one order, both ways."""
    layout = Layout.single(PARTS) if kind is MechanismName.SUBMIX_F else Layout.halves(PARTS)
    rows = rows_of(len(layout.rows), noise)
    setup = set_up_mechanism(kind, target, layout, options=MechanismOptions(order=order, weight_limit=WEIGHT_LIMIT))
    assert setup.budget is not None
    limit, mechanism = setup.budget.limit, setup.mechanism
    fast, pmf = timed(fast_way(mechanism, rows, limit), ROUNDS)
    start = time.process_time()
    if isinstance(mechanism, SubMixF):
        slow_pmf = naive_submix_f(rows, mechanism, limit)
    else:
        assert isinstance(mechanism, SubMix)
        slow_pmf = naive_submix(rows, mechanism)
    naive = time.process_time() - start
    return Result(
        f"{kind.value}, order {order:g}, noise {noise:g}", fast, naive, float(np.abs(pmf / slow_pmf - 1.0).max())
    )


def ledger_seconds(charges: int = 50) -> float:
    """Median wall seconds of one durable charge of all parts."""
    setup = set_up_mechanism(MechanismName.SUBMIX_F, TARGET, Layout.single(PARTS))
    assert setup.budget is not None
    accounts = [f"part {index}" for index in range(PARTS)]
    release = setup.mechanism.release(
        rows_of(PARTS, 1.0)[:, :1000],
        Moment(remaining=np.full(PARTS, setup.budget.limit), left=TARGET.queries),
        randomness=Randomness.system(),
    )
    costs = dict(zip(accounts, release.costs.tolist(), strict=True))
    times = []
    with (
        tempfile.TemporaryDirectory(prefix="reticent-bench-") as name,
        SqliteLedger.create(Path(name) / "ledger.db", setup.budget, accounts=accounts) as ledger,
    ):
        for _ in range(charges):
            start = time.perf_counter()
            ledger.remaining()
            ledger.charge(costs, release.event)
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def seconds_a_text(texts: int) -> float:
    """Median processor seconds a text of a turn of so many, at a small vocabulary, as the predictor asks for it."""
    setup = set_up_mechanism(MechanismName.SUBMIX_F, TARGET, Layout.single(PARTS))
    assert setup.budget is not None
    assert isinstance(setup.mechanism, SubMixF)
    mechanism, shapings = setup.mechanism, [setup.mechanism.shaping] * texts
    rows = Masses(np.repeat(np.exp(rows_of(PARTS, 1.0)[None, :, :SMALL]), texts, axis=0))
    moment = Moment(remaining=np.full(PARTS, setup.budget.limit), left=TARGET.queries)
    turn = partial(mechanism.release_together, rows, shapings, moment)
    return timed(lambda: turn()[-1].pmf, 5 * ROUNDS)[0] / texts


def look_seconds(order: int = 4) -> tuple[float, float]:
    """Median processor seconds of one look at the vocabulary, compiled and in numpy, its arrays made ahead."""
    pmfs = np.exp(rows_of(PARTS, 1.0))
    public, parts, theta = pmfs[0], pmfs[1:], np.full(PARTS, 0.1)
    moved = parts - public
    tilt, square, factors = moved / public, moved * moved / public, order - np.arange(1.0, order)

    def in_numpy() -> Floats:
        inverse = 1.0 / (1.0 + theta[:, None] * tilt)
        power, sums = square, np.zeros(PARTS)
        for factor in factors:
            power = power * inverse
            sums += factor * power.sum(axis=1)
        return theta**2 * sums

    pull = Pull(parts, public, float(order))
    seconds, found = timed(lambda: pull.reverse(theta, sloped=False)[0], 5 * ROUNDS)
    slow_seconds, expected = timed(in_numpy, 5 * ROUNDS)
    assert np.allclose(found, expected, rtol=1e-9)
    return seconds, slow_seconds


def run() -> list[Result]:
    """The default order of the target, order 2 (with the ε that it needs), and Algorithm 2."""
    wide = PredictionTarget(epsilon=14.0, delta=1e-5, queries=1024)
    settings = [
        (MechanismName.SUBMIX_F, 4.0, TARGET),
        (MechanismName.SUBMIX_F, 2.0, wide),
        (MechanismName.SUBMIX, 2.0, wide),
    ]
    return [measure(*setting, noise=noise) for noise in NOISES for setting in settings]


def main() -> int:
    """Print the table and the ledger's share; 1 where something is missed."""
    table = Table(title=f"mixing one token, |V| = {VOCABULARY:,}, k = {PARTS}")
    for column in ("mechanism", "ms a token", "naive ms", "share of naive", "greatest difference"):
        table.add_column(column, justify="left" if column == "mechanism" else "right")
    keep_freed_memory()
    results = run()
    for result in results:
        table.add_row(
            result.name,
            f"{1e3 * result.fast:,.1f}",
            f"{1e3 * result.naive:,.0f}",
            f"{result.share:.4f}",
            f"{result.difference:.1e}",
        )
    console = Console()
    console.print(table)
    console.print(
        f"a durable charge of {PARTS} accounts: {1e3 * ledger_seconds():.2f} ms of wall time a token or batch"
    )
    alone, together = seconds_a_text(1), seconds_a_text(TEXTS)
    console.print(
        f"SubMix-F, |V| = {SMALL:,}: {1e3 * alone:.2f} ms for a text alone, "
        f"{1e3 * together:.2f} ms for each of {TEXTS} that are mixed together"
    )
    compiled, in_numpy = look_seconds()
    console.print(
        f"one look at the vocabulary for all parts, order 4: {1e3 * compiled:.2f} ms, "
        f"in numpy {1e3 * in_numpy:.2f} ms ({in_numpy / compiled:.1f} times)"
    )
    above = [result.name for result in results if result.share > MOST_SHARE]
    console.print(f"above a tenth of the naive time: {'; '.join(above) or 'none'}")
    apart = [result.name for result in results if not result.difference < SAME]
    console.print(f"other chances than the naive way's: {'; '.join(apart) or 'none'}")
    return 1 if above or apart else 0
