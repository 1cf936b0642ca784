"""`train --audit`: what its canaries measure is a finding of the run, survives a stop, and refutes broken steps."""

import json
import runpy
from pathlib import Path

import pytest

from reticent.cli import main as cli
from reticent.core.corpus import Corpus
from reticent.core.model import Access
from reticent.core.randomness import Randomness
from reticent.data.generators import generate_dialogues
from reticent.data.writing import write_corpus
from reticent.runs.audit.subject import find_model
from reticent.runs.report.reading import read_report
from reticent.runs.training.run import train
from reticent.runs.training.settings import (
    DataSection,
    Method,
    ModelSection,
    Resumption,
    TrainingSection,
    TrainSettings,
)
from reticent.runs.verifying import verify
from reticent.training.plans.plan import DpSgd
from reticent.training.plans.sampler import SamplerName
from tests.runs.broken_steps import TWINS, TWINS_OF_SAMPLERS

OPACUS = Path(__file__).parents[3] / "examples" / "opacus_audit.py"
RECORDS, BATCH, EPOCHS, NOISE, CANARIES = 40, 8, 3.0, 0.7, 500


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    records = list(generate_dialogues(RECORDS + 20, randomness=Randomness.seeded(3)))
    write_corpus(Corpus(records[:RECORDS]), folder / "train.jsonl")
    write_corpus(Corpus(records[RECORDS:]), folder / "held-out.jsonl")
    return folder


def settings(corpus, out, *, canaries=CANARIES, batch=BATCH, epochs=EPOCHS, noise=NOISE, **more) -> TrainSettings:
    return TrainSettings(
        data=DataSection(file=str(corpus / "train.jsonl"), max_length=8),
        model=ModelSection(source="embedded"),
        training=TrainingSection(
            method=Method.DP_SGD,
            epochs=epochs,
            batch=batch,
            learning_rate=1e-4,
            noise_multiplier=noise,
            delta=1e-5,
            audit=canaries,
            **more,
        ),
        out=out,
    )


def test_a_run_writes_its_measured_epsilon_where_the_report_finds_it(corpus, tmp_path):
    out = tmp_path / "run"
    measured = train(settings(corpus, out)).measured
    (finding,) = find_model(str(out)).measured
    assert (finding.access, finding.attack, finding.n) == (Access.STEPS, "gradient canaries", CANARIES)
    assert finding.low == finding.value == measured.epsilon > 0.0
    (run,) = read_report([out]).runs
    assert run.findings == (finding,)
    assert run.comparisons[0].ceiling == pytest.approx(measured.claimed, rel=0.01)


@pytest.mark.slow
def test_an_audit_of_the_run_keeps_what_its_training_measured(corpus, tmp_path, capsys):
    out = tmp_path / "run"
    measured = train(settings(corpus, out)).measured
    names = ("--train", corpus / "train.jsonl", "--holdout", corpus / "held-out.jsonl", "--out", tmp_path / "audit")
    arguments = ["audit", str(out), *map(str, names), "--attacks", "membership", "--no-cache", "--json"]
    assert cli.run(arguments) == int(measured.epsilon > measured.claimed)
    document = json.loads(capsys.readouterr().out)
    assert document["findings"][0] == find_model(str(out)).measured[0].to_json()
    assert document["comparisons"][0]["finding"] == 0


@pytest.mark.slow
def test_a_run_that_was_stopped_measures_all_of_its_steps(corpus, tmp_path):
    out = tmp_path / "run"
    stopped = train(settings(corpus, out), observe=lambda progress, _: progress.step < 7)
    assert not stopped.is_finished
    assert stopped.measured is None
    ended = train(Resumption(resume=out))
    assert ended.measured.steps == ended.steps == 15
    assert ended.measured.epsilon > 1.0
    assert train(Resumption(resume=out)).measured == ended.measured


def refuted_in_nine_of_ten(measure) -> bool:
    """Whether nine of ten runs are refuted; stops as soon as that is decided."""
    outcomes: list[bool] = []
    while outcomes.count(True) < 9 and outcomes.count(False) < 2:
        outcomes.append(measure(len(outcomes)).is_refuted)
    return outcomes.count(True) == 9


@pytest.mark.slow
@pytest.mark.parametrize("twin", TWINS)
def test_every_broken_step_is_refuted_in_nine_of_ten_runs(twin, corpus, tmp_path, monkeypatch):
    TWINS[twin](monkeypatch)
    assert refuted_in_nine_of_ten(
        lambda number: train(settings(corpus, tmp_path / f"{number}", canaries=1000, epochs=6.0)).measured
    )


@pytest.mark.slow
def test_an_opacus_optimiser_with_half_of_its_noise_is_refuted_in_nine_of_ten_runs():
    opacus_step = runpy.run_path(str(OPACUS))["opacus_step"]
    plan = DpSgd.for_target(epsilon=8.0, delta=1e-5, units=1000, batch=50, epochs=3)
    assert not verify(opacus_step(plan, plan.noise_multiplier), plan).is_refuted
    assert refuted_in_nine_of_ten(lambda _: verify(opacus_step(plan, 0.5 * plan.noise_multiplier), plan))


SAMPLERS = {
    "allocation": {"sampler": SamplerName.ALLOCATION},
    "banded": {"sampler": SamplerName.BANDED, "bands": 2},
}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_runs_of_other_samplers_are_measured(sampler, corpus, tmp_path):
    found = train(settings(corpus, tmp_path / "run", **SAMPLERS[sampler])).measured
    assert not found.is_refuted
    assert 0.25 * found.claimed < found.epsilon < 1.2 * found.claimed


@pytest.mark.slow
@pytest.mark.parametrize(("sampler", "twin"), TWINS_OF_SAMPLERS)
def test_broken_steps_of_other_samplers_are_refuted_in_nine_of_ten_runs(
    sampler, twin, corpus, tmp_path, monkeypatch
):
    TWINS_OF_SAMPLERS[sampler, twin](monkeypatch)
    options = {"canaries": 1000, "epochs": 6.0, **SAMPLERS[sampler]}
    assert refuted_in_nine_of_ten(
        lambda number: train(settings(corpus, tmp_path / f"{number}", **options)).measured
    )


def test_a_run_that_lost_steps_of_an_epoch_says_that_it_is_not_measured(corpus, tmp_path, capsys):
    out = tmp_path / "run"
    train(settings(corpus, out, canaries=100, epochs=1.0, **SAMPLERS["allocation"]))
    with (out / "canaries.f32").open("r+b") as trace:
        trace.truncate(4 * 100)
    assert cli.run(["train", "--resume", str(out)]) == 0
    assert "Gradient canaries measured nothing" in capsys.readouterr().out


@pytest.mark.parametrize("twin", ["members drawn twice as often", "no clipping"])
def test_broken_steps_are_refuted_by_the_command(twin, corpus, tmp_path, monkeypatch):
    TWINS[twin](monkeypatch)
    found = train(settings(corpus, tmp_path / "run")).measured
    assert found.is_refuted
    assert found.epsilon > found.claimed
