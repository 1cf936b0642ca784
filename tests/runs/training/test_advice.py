"""`reticent plan`: what it writes is read by `train`, its sampler is the better one, and it reads no text."""

import json
import tomllib

import pytest

from reticent.cli import main as cli
from reticent.core.errors import ConfigError
from reticent.runs.settings.file import validate
from reticent.runs.training import advice
from reticent.runs.training.advice import PlanSettings, plan
from reticent.runs.training.settings import TrainSettings

SMALL = {"records": 100, "target_epsilon": 8.0, "delta": 1e-4}


@pytest.fixture(scope="module")
def small():
    return plan(PlanSettings.of(**SMALL, max_epochs=1.0))


def test_the_written_file_asks_train_for_the_plan_that_was_stated(small):
    settings = validate(TrainSettings, tomllib.loads(small.config), where="plan")
    settings.check()
    assert settings.with_choices(records=100, owners=100)[1] == {}  # nothing is left open
    made = settings.training.plan(records=100, owners=100, seed=0)
    assert made.noise_multiplier == small.noise_multiplier
    assert made.steps == small.steps
    assert made.guarantee() == small.guarantee


def test_the_target_is_met_and_every_ceiling_lies_above_chance(small):
    assert small.guarantee.epsilon <= 8.0
    assert small.ceilings["auc"] > 0.5
    assert set(small.ceilings) == {"tpr_at_fpr_0.01", "auc", "advantage"}


@pytest.mark.slow
def test_allocation_is_chosen_where_it_needs_less_noise_and_not_where_units_are_replaced(small):
    assert small.values["sampler"] == "allocation"
    replaced = plan(PlanSettings.of(**SMALL, max_epochs=1.0, neighbours="replace"))
    assert replaced.values["sampler"] == "poisson"


def test_poisson_samples_remain_where_allocation_cannot_be_priced():
    found = plan(PlanSettings.of(records=10_000, target_epsilon=1e-3, delta=1e-5))
    assert found.guarantee.epsilon <= 1e-3
    assert found.values["sampler"] == "poisson"
    assert any("cannot resolve a very small" in each for each in found.reasons)


def test_ten_times_as_many_units_have_less_noise(small):
    assert small.gradient_noise_with_more < small.gradient_noise
    assert any("(1,000), and δ = 1e-05" in each for each in small.reasons)


@pytest.mark.parametrize("refused", [("allocation",), ("allocation", "poisson")])
def test_what_cannot_be_planned_for_ten_times_as_many_does_not_stop_the_plan(small, monkeypatch, refused):
    real = advice._plan

    def limited(settings, choice, *, units, delta, sampler):
        if units > 100 and sampler in refused:
            raise ConfigError("no noise reaches the target")
        return real(settings, choice, units=units, delta=delta, sampler=sampler)

    monkeypatch.setattr(advice, "_plan", limited)
    found = plan(PlanSettings.of(**SMALL, max_epochs=1.0))
    assert found.values == small.values
    assert (found.gradient_noise_with_more is None) is (len(refused) == 2)
    assert any("no plan that meets the target" in each for each in found.reasons) is (len(refused) == 2)


def test_a_plan_says_that_counts_do_not_tell_how_good_the_model_will_be(small):
    assert "cannot be told from counts" in small.expectation
    assert "--public-text" in small.expectation


def test_an_epsilon_that_promises_practically_nothing_is_said_to(small):
    assert not any("practically nothing" in each for each in small.reasons)
    found = plan(PlanSettings.of(records=60, target_epsilon=100.0, delta=1e-4, max_epochs=0.5))
    assert any("practically nothing" in each for each in found.reasons)


def test_the_risk_that_was_asked_for_leads_the_ceilings():
    found = plan(PlanSettings.of(records=60, target_tpr="0.05@0.001", delta=1e-4, max_epochs=0.5))
    assert next(iter(found.ceilings)) == "tpr_at_fpr_0.001"
    assert found.ceilings["tpr_at_fpr_0.001"] <= 0.05
    assert any("takes whole passes over the corpus, and these are 0.4" in each for each in found.reasons)


@pytest.mark.slow
def test_compute_limits_the_passes():
    few = plan(PlanSettings.of(**SMALL, tokens=1000, max_tokens=2500))
    assert few.values["epochs"] == 2.0
    part = plan(PlanSettings.of(**SMALL, max_epochs=0.6))
    assert (part.values["epochs"], part.values["sampler"]) == (0.56, "poisson")  # 7 steps of 8 among 100


@pytest.mark.parametrize("limit", [{"max_epochs": 0.01}, {"tokens": 100_000, "max_tokens": 1_000}])
def test_a_limit_of_less_than_a_pass_is_not_overrun_by_a_last_step(limit):
    found = plan(PlanSettings.of(records=1_000, target_epsilon=8.0, **limit))
    assert found.steps * found.values["batch"] <= 10  # a hundredth of the records
    assert found.values["epochs"] == pytest.approx(found.steps * found.values["batch"] / 1_000)


def test_a_model_that_is_not_here_is_said_to_be_taken_for_a_large_one(small):
    assert not any("taken for a large model" in each for each in small.reasons)
    found = plan(PlanSettings.of(records=60, target_epsilon=8.0, max_epochs=0.5, model="embeded"))
    assert any("How many weights 'embeded' has cannot be read" in each for each in found.reasons)


@pytest.mark.slow
def test_a_risk_target_is_kept_and_met():
    found = plan(PlanSettings.of(records=60, target_advantage=0.3, delta=1e-4, max_epochs=1.0))
    assert found.values["target_advantage"] == 0.3
    assert found.ceilings["advantage"] <= 0.3


@pytest.mark.slow
def test_other_tools_are_named_where_they_fit():
    said = " ".join(plan(PlanSettings.of(**SMALL, answers_only=True, secrets_known=True, max_epochs=1.0)).reasons)
    assert "--method submix" in said
    assert "--method crt" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"records": 60}, "one target"),
        ({"records": 60, "target_epsilon": 1.0, "target_tpr": "0.05@0.01"}, "one target"),
        ({"records": 60, "target_epsilon": 1.0, "unit": "owner"}, "number of owners"),
        ({"records": 60, "target_epsilon": 1.0, "owners": 61}, "more owners"),
        ({"records": 60, "target_epsilon": 1.0, "max_tokens": 5}, "--max-tokens"),
        ({"records": 60, "target_epsilon": 1.0, "delta": 0.5}, "delta promises nothing"),
        ({"records": 60, "target_epsilon": 1.0, "max_epochs": 0.01}, "not enough for one step"),
        ({"records": 60, "target_epsilon": 1.0, "tokens": 600, "max_tokens": 2}, "not enough for one step"),
    ],
)
def test_contradictions_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        plan(PlanSettings.of(**options))


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        ({"target_epsilon": 1e-6}, "raise --target-epsilon or --delta, or allow fewer passes with --max-epochs"),
        ({"target_bits": "0.0001:20"}, "raise --target-bits, or allow fewer passes with --max-epochs"),
    ],
)
def test_a_target_that_cannot_be_reached_is_refused_with_what_a_plan_can_be_told(target, advice):
    with pytest.raises(ConfigError, match=r"noise multiplier 10000, in .* passes over the corpus") as refused:
        plan(PlanSettings.of(records=1_000, **target))
    assert refused.value.hint == advice


@pytest.mark.slow
def test_the_verb_writes_once_and_never_opens_the_corpus(tmp_path, capsys):
    out = tmp_path / "p.toml"
    arguments = ["plan", "--records", "60", "--target-epsilon", "8", "--data", "nowhere.jsonl", "--out", str(out)]
    assert cli.run([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["file"] == "nowhere.jsonl"
    assert cli.run(arguments) == 2
    assert "already exists" in capsys.readouterr().err
