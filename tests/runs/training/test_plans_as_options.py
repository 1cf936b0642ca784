"""A plan that is given to `reticent.train` is the plan that is trained."""

from dataclasses import replace

import pytest

from reticent.core.guarantee import Neighbours, Unit
from reticent.runs.training.settings import TrainSettings, options_of
from reticent.training.gradients.rounding_bound import Rounding
from reticent.training.plans.plan import DpSgd

PLAN = DpSgd.for_target(epsilon=8, delta=1e-3, units=120, batch=20, epochs=2)


@pytest.mark.parametrize(
    "plan",
    [
        PLAN,
        replace(PLAN, rounding=Rounding.PROVED),
        replace(PLAN, clip_quantile=0.7),
        replace(PLAN, clip_quantile=0.5, count_noise=9.0),
        replace(PLAN, neighbours=Neighbours.REPLACE, clip_norm=0.5),
        replace(PLAN, unit=Unit.OWNER, texts_per_unit=3),
        DpSgd.for_target(epsilon=8, delta=1e-3, units=120, batch=20, epochs=2, sampler="allocation"),
        DpSgd.for_target(epsilon=8, delta=1e-3, units=120, batch=20, epochs=2, sampler="banded", bands=3),
    ],
    ids=[
        "poisson",
        "proved rounding",
        "quantile",
        "chosen noise on counts",
        "replace",
        "owners",
        "allocation",
        "banded",
    ],
)
def test_the_options_that_ask_for_a_plan_make_it_again(plan):
    settings = TrainSettings.of(data="mails.jsonl", model="embedded", out="run", **options_of(plan))
    assert settings.training.plan(records=120, owners=120, seed=0) == plan
