"""What a course refuses before its first step: samplers that cannot do what was asked of the run."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from reticent.core.errors import ConfigError, UsageError
from reticent.core.event import NonPrivate
from reticent.core.randomness import Randomness
from reticent.runs.training import course
from reticent.training.distributed.ranked import RankedLedger
from reticent.training.gradients.source import Computation
from reticent.training.plans.plan import DpSgd
from reticent.training.plans.sampler import AllocationSampler, BandedSampler, PoissonSampler

MODEL = SimpleNamespace(module=None)


def plan(sampler, **more):
    return DpSgd(sampler=sampler, clip_norm=1.0, noise_multiplier=1.0, steps=8, delta=1e-5, **more)


def means(ledger):
    return course.Means(
        ledger=ledger, randomness=Randomness.system(), computation=Computation(), shards=False, folder=Path()
    )


@pytest.mark.parametrize("sampler", [PoissonSampler(40, 10), AllocationSampler(40, 10), BandedSampler(40, 10, 4)])
def test_several_processes_take_the_steps_of_independent_noise_alone(sampler, monkeypatch):
    monkeypatch.setattr(course, "RankedGradients", lambda *_, **__: "made")
    started = object.__new__(RankedLedger)
    if not isinstance(sampler, BandedSampler):
        course.refuse_private(MODEL.module, plan(sampler), processes=2)
        assert course.private_gradients(MODEL, None, plan(sampler), means(started)) == "made"
        return
    with pytest.raises(ConfigError, match="correlated noise needs a single process"):
        course.refuse_private(MODEL.module, plan(sampler), processes=2)
    with pytest.raises(ConfigError, match="correlated noise needs a single process"):  # with `python -O`, too
        course.private_gradients(MODEL, None, plan(sampler), means(started))


@pytest.mark.parametrize(
    ("more", "flag"), [({"canaries": 4}, "--audit"), ({"individual": True}, "--individual-accounting")]
)
def test_several_processes_neither_audit_nor_account_for_single_records(more, flag):
    with pytest.raises(ConfigError, match=f"{flag} needs a single process"):
        course.refuse_private(MODEL.module, plan(PoissonSampler(40, 10), **more), processes=2)
    asked = plan(PoissonSampler(40, 10), **more)
    with pytest.raises(ConfigError, match=f"{flag} needs a single process"):
        course.private_gradients(MODEL, None, asked, means(object.__new__(RankedLedger)))


def test_an_audited_run_whose_draws_nobody_knows_is_refused_before_its_first_step(monkeypatch):
    monkeypatch.setattr(PoissonSampler, "round_event", lambda *_: NonPrivate())
    with pytest.raises(UsageError, match="gradient canaries measure"):
        course.refuse_private(MODEL.module, plan(PoissonSampler(40, 10), canaries=4), processes=1)
