"""What a guarantee assumes reads as a condition: the report says "It holds if …" before each."""

import re
from dataclasses import replace

import pytest

from reticent.core.guarantee import Neighbours, Unit
from reticent.runs.training.redacting import condition_of_given_rates
from reticent.training.methods.redaction import MissRates
from reticent.training.methods.selective import SelectivePlan
from reticent.training.plans.plan import DpSgd
from reticent.training.plans.redacted import PolicyFacts, RedactedPlan
from reticent.training.plans.sampler import PoissonSampler

# Statements of fact and remarks, which turn "It holds if …" into nonsense or its opposite.
NO_CONDITION = re.compile(r"\b(taken as|assumed|neither|not measured$|known seed:)|^(for|without)\b|: what stands")


def is_condition(assumption: str) -> bool:
    return bool(assumption) and NO_CONDITION.search(assumption) is None


def every_assumption() -> set[str]:
    """Of private, redacted and selective training, as few steps as can be: pricing them takes the time."""
    sampler = PoissonSampler(100, 10)
    private = DpSgd(sampler=sampler, clip_norm=1.0, noise_multiplier=1.0, steps=1, delta=1e-5)
    replacing = replace(private, neighbours=Neighbours.REPLACE)
    redacted = RedactedPlan(
        public=None,
        private=replacing,
        misses=MissRates(policy=0.2, both=0.0, origin=condition_of_given_rates(0.2, None)),
        policies=PolicyFacts(is_local=False, has_conservative=False),
    )
    selective = SelectivePlan(
        units=4,
        batch=2,
        epochs=1,
        seed=3,
        sensitive_runs=1,
        clip_norm=0.5,
        state_norm=1.0,
        noise_multiplier=1.0,
        delta=1e-5,
        miss_rate=0.1,
        is_local=False,
    )
    owners = replace(private, unit=Unit.OWNER)
    moving = replace(private, clip_quantile=0.5)
    promises = [plan.guarantee(is_seeded=True) for plan in (private, owners, moving, redacted, selective)]
    return {assumption for promise in promises for assumption in promise.assumes}


def test_every_assumption_is_a_condition():
    found = every_assumption()
    assert len(found) > 12
    assert [assumption for assumption in found if not is_condition(assumption)] == []


@pytest.mark.parametrize(
    "remark",
    [
        "the policy's miss rate was neither measured nor given: taken as 1",
        "the miss rates were given, not measured",
        "a policy reads the words around a span, so what it finds may change: assumed not to, and not checked",
        "sampling and noise were drawn from a known seed: an experiment, nothing that may be released",
        "for marked tokens alone: ε = 2.5 at δ = 1e-05",
        "without a conservative policy every record is trained with noise",
        "where the policy marks something, and how often, is public: what stands there is not",
        "",
    ],
)
def test_broken_twin_a_remark_is_no_condition(remark):
    """All of these once stood among the assumptions."""
    assert not is_condition(remark)


@pytest.mark.parametrize(
    ("policy", "both", "said"),
    [
        (None, None, ""),  # a rate of 1 assumes nothing
        (0.2, None, "the policy misses at most 0.2 of all secrets (given, not measured)"),
        (None, 0.1, "both policies miss at most 0.1 of all secrets (given, not measured)"),
        (
            0.2,
            0.1,
            "the policy misses at most 0.2 of all secrets and both policies miss at most 0.1 of all secrets "
            "(given, not measured)",
        ),
    ],
)
def test_given_miss_rates_are_a_condition_and_absent_ones_are_none(policy, both, said):
    assert condition_of_given_rates(policy, both) == said
