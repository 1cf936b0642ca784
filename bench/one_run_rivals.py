"""One-run ε by this project, by Opake and by jax_privacy, on the same scores: alarms on null data, and real power.

Two kinds of null, so many runs of each: the scores of a plan's run with coins that are thrown afterwards, and those
of a run whose canaries all stayed out. A bound above 0 is an alarm; at 95 % confidence 5 of 100 are allowed. Scores
with signal are exact log-likelihood ratios of canaries in DP-SGD with a proved ε of 4 and 8 at δ = 1e-5: what
`bench.auditing` left in a folder, of real runs, or else of simulated ones. A rival that is not installed is left
out with the reason. Opake's Gaussian method takes seconds a run, also on the coarsest grid that it accepts.

    python -m bench.one_run_rivals [--scores FOLDER] [--model embedded] [--canaries 1000] [--nulls 200] [--runs 5]
                                   [--only NAME ...]
"""

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bench.auditing import BATCH, EPOCHS, RECORDS
from reticent.auditing.attacks.one_run.draws import PoissonDraws
from reticent.auditing.metrics.one_run import one_run_epsilon
from reticent.auditing.metrics.one_run_curve import one_run_epsilon_by_curve
from reticent.auditing.metrics.one_run_family import one_run_epsilon_by_family, plan_family
from reticent.core.event import Repeated, SampledGaussian
from reticent.training.plans.plan import DpSgd

DELTA, ERROR = 1e-5, 0.05
GRID = 1000  # of Opake's integration: the least that it accepts
Estimate = Callable[[np.ndarray, np.ndarray], float]
Scores = list[tuple[np.ndarray, np.ndarray]]


def opake() -> dict[str, Estimate]:
    """Opake's two methods (Xiang et al. 2025)."""
    from opake.api.auditing.one_run import one_run

    def estimate(scores: np.ndarray, coins: np.ndarray) -> Any:
        # What `one_run` asks of its coin flip: scores of members and of others.
        flip = SimpleNamespace(split_scores=lambda _: (scores[coins], scores[~coins]), canary_indices=None)
        return one_run(scores, coin_flip=flip)

    return {
        "opake gdp": lambda scores, coins: float(
            estimate(scores, coins).gdp(grid_size=GRID).epsilon_at(delta=DELTA)
        ),
        "opake eps-delta": lambda scores, coins: float(estimate(scores, coins).eps_delta().epsilon_at(delta=DELTA)),
    }


def jax_privacy() -> dict[str, Estimate]:
    """jax_privacy's two methods; its module is read alone, since the package as a whole imports jax."""
    package = importlib.util.find_spec("jax_privacy")
    if package is None or not package.submodule_search_locations:
        raise ImportError("no package jax_privacy")
    spec = importlib.util.spec_from_file_location(
        "jax_privacy_auditing", Path(package.submodule_search_locations[0]) / "auditing.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)

    def auditor(scores: np.ndarray, coins: np.ndarray) -> Any:
        return module.CanaryScoreAuditor(scores[coins], scores[~coins])

    return {
        "jax_privacy one run": lambda scores, coins: float(auditor(scores, coins).epsilon_one_run(ERROR, DELTA)),
        "jax_privacy f-DP": lambda scores, coins: float(auditor(scores, coins).epsilon_one_run_fdp(ERROR, DELTA)),
    }


def ours(event: Repeated) -> dict[str, Estimate]:
    """This project's three."""
    family = plan_family(event)

    def by_family(scores: np.ndarray, coins: np.ndarray) -> float:
        return one_run_epsilon_by_family(scores, coins, family=family, delta=DELTA).bound.epsilon

    return {
        "reticent, Steinke et al.": lambda scores, coins: one_run_epsilon(scores, coins, delta=DELTA).epsilon,
        "reticent, Mahloujifar et al.": lambda scores, coins: (
            one_run_epsilon_by_curve(scores, coins, delta=DELTA).epsilon
        ),
        "reticent, plan": by_family,
    }


def simulated(
    event: Repeated, canaries: int, runs: int, rng: np.random.Generator, *, chance: float = 0.5
) -> Scores:
    """Scores and coins of so many runs of the plan, each canary a member with this chance."""
    assert isinstance(event.event, SampledGaussian)
    rate, noise = event.event.sampling_rate, event.event.noise_multiplier
    made = []
    for _ in range(runs):
        coins, shape = rng.random(canaries) < chance, (event.count, canaries)
        released = ((rng.random(shape) < rate) & coins) + noise * rng.standard_normal(shape)
        made.append((PoissonDraws(rate).log_ratios(released, noise), coins))
    return made


def left_by_runs(folder: Path, model: str, epsilon: float, canaries: int, runs: int) -> Scores:
    """The first canaries of the runs that `bench.auditing` made."""
    files = sorted(folder.glob(f"{model}-{epsilon:g}-*.npz"))[:runs]
    if not files:
        raise SystemExit(f"{folder}: no scores of {model} at ε = {epsilon:g}")
    loaded = [np.load(file) for file in files]
    return [(one["scores"][:canaries], one["coins"][:canaries]) for one in loaded]


def main() -> None:
    """A line for each estimator."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scores", type=Path)
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--canaries", type=int, default=1000)
    parser.add_argument("--nulls", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of estimators")
    asked = parser.parse_args()
    plans = {
        epsilon: DpSgd.for_target(epsilon=epsilon, delta=DELTA, units=RECORDS, batch=BATCH, epochs=EPOCHS)
        for epsilon in (4.0, 8.0)
    }
    rng = np.random.default_rng(0)
    real = {
        epsilon: simulated(plan.event, asked.canaries, asked.runs, rng)
        if asked.scores is None
        else left_by_runs(asked.scores, asked.model, epsilon, asked.canaries, asked.runs)
        for epsilon, plan in plans.items()
    }
    kept = [real[4.0][number % len(real[4.0])][0] for number in range(asked.nulls)]
    unseen = simulated(plans[4.0].event, asked.canaries, asked.nulls, rng, chance=0.0)
    nulls = {
        "coins thrown afterwards": [(scores, rng.random(len(scores)) < 0.5) for scores in kept],
        "canaries never seen": [(scores, rng.random(len(scores)) < 0.5) for scores, _ in unseen],
    }
    rivals: dict[str, Estimate] = {}
    for name, find in (("opake", opake), ("jax_privacy", jax_privacy)):
        try:
            rivals |= find()
        except ImportError as missing:
            print(f"{name}: left out, {missing}")
    own = {epsilon: ours(plan.event) for epsilon, plan in plans.items()}
    for name in (*own[4.0], *rivals):
        if asked.only and not any(part in name for part in asked.only):
            continue
        began = time.process_time()
        estimates = {epsilon: rivals.get(name) or own[epsilon][name] for epsilon in plans}
        alarms = [f"{sum(estimates[4.0](*run) > 0.0 for run in runs)} ({kind})" for kind, runs in nulls.items()]
        found = [
            f"{np.mean([estimates[epsilon](*run) for run in runs]):.2f} of {epsilon:g}"
            for epsilon, runs in real.items()
        ]
        spent = time.process_time() - began
        print(
            f"{name}: alarms in {asked.nulls}: {', '.join(alarms)}; {', '.join(found)}; {spent:.0f} s", flush=True
        )


if __name__ == "__main__":
    main()
