"""A plan that is given to `reticent.train` is the plan that is trained."""

from dataclasses import replace

import pytest

import reticent
from reticent.core.errors import ConfigError
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


def test_a_plan_with_canaries_is_refused_since_training_adds_its_own():
    with pytest.raises(ConfigError, match="adds gradient canaries"):
        options_of(replace(PLAN, canaries=40))


@pytest.mark.parametrize("option", [{"audit": 40}, {"clip_norm": 2.0}])
def test_an_option_that_the_plan_decides_is_refused_beside_it(tmp_path, option):
    with pytest.raises(ConfigError, match=f"the plan decides {next(iter(option))}"):
        reticent.train("mails.jsonl", model="embedded", method=PLAN, out=tmp_path / "run", **option)


def test_files_of_policies_are_found_again_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "names.txt").write_text("Ann\n", encoding="utf8")
    settings = TrainSettings.of(
        data="mails.jsonl",
        model="embedded",
        out="run",
        method="crt",
        target_epsilon=8.0,
        delta=1e-3,
        policy="dictionary:names.txt+patterns",
        holdout_policy="dictionary:names.txt",
        write_redacted="redacted.jsonl",
    )
    found = settings.located()
    assert found.training.policy == f"dictionary:{tmp_path / 'names.txt'},patterns"
    assert found.data.holdout_policy == f"dictionary:{tmp_path / 'names.txt'}"
    assert found.training.write_redacted == str(tmp_path / "redacted.jsonl")
