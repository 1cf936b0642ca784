"""One-run ε by this project, by Opake and by jax_privacy, on the same scores: alarms on null data, and real power.

Null: scores that know nothing of the coins. A bound above 0 is an alarm; at 95 % confidence 5 of 100 are allowed.
Scores with signal: exact log-likelihood ratios of a DP-SGD plan with a known ε at δ = 1e-5. A rival that is not
installed is left out with the reason. Both run from their unpacked wheels too: PYTHONPATH=FOLDER.

    python -m bench.one_run_rivals [--canaries 500] [--nulls 200] [--runs 5]
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

from reticent.auditing.attacks.one_run.gradient_canaries import likelihood_ratios
from reticent.auditing.metrics.one_run import one_run_epsilon
from reticent.auditing.metrics.one_run_curve import one_run_epsilon_by_curve
from reticent.auditing.metrics.one_run_family import one_run_epsilon_by_family, plan_family
from reticent.core.event import Repeated
from reticent.training.plans.plan import DpSgd

DELTA, ERROR = 1e-5, 0.05
Estimate = Callable[[np.ndarray, np.ndarray], float]


def opake() -> dict[str, Estimate]:
    """Opake's two methods (Xiang et al. 2025)."""
    from opake.api.auditing.one_run import one_run

    def estimate(scores: np.ndarray, coins: np.ndarray) -> Any:
        # What `one_run` asks of its coin flip: scores of members and of others.
        flip = SimpleNamespace(split_scores=lambda _: (scores[coins], scores[~coins]), canary_indices=None)
        return one_run(scores, coin_flip=flip)

    return {
        "opake gdp": lambda scores, coins: float(estimate(scores, coins).gdp().epsilon_at(delta=DELTA)),
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


def traces(event: Repeated, canaries: int, runs: int, rng: np.random.Generator) -> list[tuple[Any, Any]]:
    """Scores and coins of so many runs of the plan."""
    rate, noise = event.event.sampling_rate, event.event.noise_multiplier
    made = []
    for _ in range(runs):
        coins, shape = rng.random(canaries) < 0.5, (event.count, canaries)
        released = ((rng.random(shape) < rate) & coins) + noise * rng.standard_normal(shape)
        made.append((likelihood_ratios(released, sampling_rate=rate, deviation=noise), coins))
    return made


def main() -> None:
    """A line for each estimator."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--canaries", type=int, default=500)
    parser.add_argument("--nulls", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    plans = [DpSgd.for_target(epsilon=e, delta=DELTA, units=600, batch=30, epochs=1.5) for e in (4.0, 8.0)]
    rng = np.random.default_rng(0)
    nulls = [
        (rng.standard_normal(arguments.canaries), rng.random(arguments.canaries) < 0.5)
        for _ in range(arguments.nulls)
    ]
    real = [traces(plan.event, arguments.canaries, arguments.runs, rng) for plan in plans]
    rivals: dict[str, Estimate] = {}
    for name, find in (("opake", opake), ("jax_privacy", jax_privacy)):
        try:
            rivals |= find()
        except ImportError as missing:
            print(f"{name}: left out, {missing}")
    for name in (*ours(plans[0].event), *rivals):
        estimates = [rivals.get(name) or ours(plan.event)[name] for plan in plans]
        began = time.process_time()
        alarms = sum(estimates[0](*null) > 0.0 for null in nulls)
        found = [np.mean([estimate(*run) for run in runs]) for estimate, runs in zip(estimates, real, strict=True)]
        print(
            f"{name}: {alarms} alarms in {len(nulls)} null runs; of a proved 4: {found[0]:.2f}, of 8: "
            f"{found[1]:.2f}; {time.process_time() - began:.0f} s of processor time",
            flush=True,
        )


if __name__ == "__main__":
    main()
