"""Batch, epochs and rate of private training: from public facts, where they were not given."""

import json
import math

import pytest

from reticent.core.randomness import Randomness
from reticent.models.huggingface.location import find_local, stored_shapes
from reticent.runs.training.settings import ModelSection, TrainSettings
from reticent.training.plans.choice import UNKNOWN, ModelSize, choose
from reticent.training.plans.plan import DpSgd

SMALL = ModelSize(10**6, 10**6)
LARGE = ModelSize(10**8, 10**8)
ASKED = {"data": "x.jsonl", "model": "embedded", "delta": 1e-4}


def settings(**options):
    return TrainSettings.of(**{**ASKED, "method": "dp-sgd", "target_epsilon": 8.0, **options})


@pytest.mark.parametrize("units", [1, 5, 31, 32, 300, 10_000, 10**7])
def test_the_batch_never_passes_the_units_and_grows_more_slowly_than_they_do(units):
    assert 1 <= choose(units).batch <= units
    assert choose(units).batch < choose(10_000 * units).batch < 10_000 * choose(units).batch


@pytest.mark.parametrize("epochs", [4.0, 12.0, 30.0, 300.0])
@pytest.mark.parametrize("units", [300, 708, 3_000, 10**6])
def test_there_are_144_steps_or_more_where_the_batch_would_grow_too_large(units, epochs):
    steps = epochs * units / choose(units, size=SMALL, epochs=epochs).batch
    assert steps == pytest.approx(max(144, epochs * math.sqrt(units) / 6), rel=0.1)


def test_larger_corpora_get_fewer_passes():
    passes = [choose(units, size=SMALL).epochs for units in (100, 2_000, 5_000, 20_000, 10**6)]
    assert passes == [12.0, 12.0, 8.0, 4.0, 4.0]


@pytest.mark.parametrize(
    ("units", "epsilon", "epochs"),
    [
        (300, None, 12.0),
        (300, 1.0, 12.0),
        (300, 2.0, 12.0),
        (300, 5.0, 30.0),
        (300, 8.0, 48.0),
        (300, 100.0, 48.0),
        (1_000, 8.0, 24.0),
        (2_000, 8.0, 12.0),
        (20_000, 8.0, 4.0),
    ],
)
def test_a_large_epsilon_gets_more_passes_where_passes_are_cheap(units, epsilon, epochs):
    chosen = choose(units, size=SMALL, epsilon=epsilon)
    assert chosen.epochs == epochs
    assert chosen.batch >= choose(units, size=SMALL).batch
    assert choose(units, size=LARGE, epsilon=epsilon).epochs == epochs  # whatever the size
    assert choose(units, size=SMALL, epsilon=epsilon, epochs=2.0).epochs == 2.0


def test_the_noise_of_a_step_falls_where_a_large_epsilon_gets_larger_samples():
    few, many = (choose(300, size=SMALL, epsilon=epsilon) for epsilon in (None, 8.0))
    noise = [
        DpSgd.for_target(epsilon=8.0, delta=1e-4, units=300, batch=each.batch, epochs=each.epochs).gradient_noise
        for each in (few, many)
    ]
    assert noise[1] < 0.75 * noise[0]


def test_large_models_take_few_steps_of_large_batches():
    small, large, unknown = (choose(300, size=size) for size in (SMALL, LARGE, UNKNOWN))
    assert large == unknown
    assert large.batch > small.batch
    assert large.epochs == small.epochs  # passes cost little noise, whatever the size
    assert large.epochs * 300 / large.batch == pytest.approx(72, rel=0.1)
    assert choose(10**6, size=LARGE).batch == pytest.approx(6_000, rel=0.1)
    for units in (300, 500, 1_000, 2_000):  # more passes make samples larger, not steps many more
        more = choose(units, size=LARGE, epsilon=8.0)
        assert more.epochs * units / more.batch < 1.4 * 72


def test_the_batch_follows_the_epochs_that_were_asked_for():
    few, many = (settings(epochs=passes).with_choices(records=3_000, owners=1)[0].training for passes in (2.0, 8.0))
    assert many.batch == pytest.approx(4 * few.batch, rel=0.1)


def test_weights_are_counted_from_a_models_header_and_adapters_by_their_rank():
    folder = find_local("embedded")
    sizes = {rank: ModelSection(source=str(folder), lora_rank=rank).size() for rank in (0, 1, 8)}
    whole = sum(math.prod(shape) for shape in stored_shapes(folder))
    assert sizes[0] == ModelSize(whole, whole)
    assert sizes[8].trained == 8 * sizes[1].trained < whole
    assert all(sizes[rank].whole == whole and sizes[rank].trains_adapters for rank in (1, 8))
    assert ModelSection(source="no/such-model", lora_rank=8).size() == ModelSize(trains_adapters=True)


def test_a_model_of_unknown_or_great_size_gets_the_careful_rate():
    rates = [choose(300, size=size).learning_rate for size in (SMALL, LARGE, UNKNOWN)]
    assert rates[0] > rates[1] == rates[2]


def test_the_rate_of_adapters_follows_the_model_that_they_are_on():
    few = 10**5
    on_small, on_large, on_unknown, many = (
        choose(300, size=ModelSize(trained, whole, trains_adapters=True)).learning_rate
        for trained, whole in ((few, 10**6), (few, 10**8), (few, None), (10**8, 10**9))
    )
    assert on_small > choose(300, size=SMALL).learning_rate > on_large == on_unknown > many
    model = settings(model=str(find_local("embedded")), lora_rank=8)
    assert model.with_choices(records=300, owners=300)[1]["learning_rate"] == on_small
    adapters = ModelSize(10**6, 10**6, trains_adapters=True)
    redacted = [choose(300, size=size, is_redacted=True) for size in (SMALL, adapters)]
    assert redacted[0] == redacted[1]  # its noisy steps go on from weights that public steps taught


def test_what_was_given_stays_and_what_was_not_is_chosen():
    given, chosen = settings(batch=7, epochs=2.0).with_choices(records=300, owners=300)
    assert (given.training.batch, given.training.epochs) == (7, 2.0)
    assert chosen.keys() == {"learning_rate"}
    assert given.training.learning_rate == chosen["learning_rate"]


def test_a_value_that_equals_the_old_default_was_given_all_the_same():
    assert "batch" not in settings(batch=32).with_choices(records=300, owners=300)[1]


def test_weights_are_averaged_only_where_that_was_asked_for():
    for asked in ({}, {"ema": 0.9}, {"average_tail": 0.3}):
        training = settings(**asked).with_choices(records=300, owners=300)[0].training
        assert (training.average_tail, training.ema) == (asked.get("average_tail", 0.0), asked.get("ema", 0.0))


def test_owners_are_counted_where_owners_are_protected():
    found = settings(unit="owner").with_choices(records=5_000, owners=50)[0]
    assert found.training.batch <= 50


def test_redacted_training_with_a_target_takes_larger_batches_and_fewer_passes():
    redacted = {"method": "crt", "policy": "patterns", "target_epsilon": 2.0}
    chosen = TrainSettings.of(**ASKED, **redacted).with_choices(records=300, owners=300)[1]
    like = settings(target_epsilon=2.0).with_choices(records=300, owners=300)[1]
    assert chosen.keys() == like.keys()
    assert chosen["batch"] > like["batch"]
    assert chosen["epochs"] < like["epochs"]


def test_nothing_is_chosen_where_more_steps_would_cost_more_epsilon():
    fixed = TrainSettings.of(**ASKED, method="dp-sgd", noise_multiplier=1.0)
    plain = TrainSettings.of(data="x.jsonl", model="embedded", method="sgd")
    for each in (fixed, plain):
        assert each.with_choices(records=300, owners=300) == (each, {})


@pytest.mark.slow
def test_the_choice_is_announced_and_recorded_before_the_run(tmp_path):
    from reticent.runs.training.run import train

    corpus = tmp_path / "c.jsonl"
    corpus.write_text("".join(json.dumps({"id": str(i), "text": f"hello {i}"}) + "\n" for i in range(40)))
    heard = []
    asked = settings(data=str(corpus), out=tmp_path / "run", epochs=1.0, target_epsilon=50.0)
    train(asked, announce=heard.append, randomness=Randomness.seeded(1))
    recorded = json.loads((tmp_path / "run" / "run.json").read_text())["config"]["training"]
    assert heard[0].keys() == {"batch", "learning_rate"}
    assert {key: recorded[key] for key in heard[0]} == heard[0]


def test_the_shapes_of_a_model_are_read_from_its_header_and_a_damaged_one_says_nothing(tmp_path):
    from safetensors import safe_open

    folder = find_local("embedded")
    with safe_open(folder / "model.safetensors", framework="np") as file:
        slices = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
    assert sorted(stored_shapes(folder)) == sorted(map(tuple, slices))
    deep = b"[" * 100_000 + b"]" * 100_000
    for damaged in (b"\xff" * 64, len(deep).to_bytes(8, "little") + deep):
        (tmp_path / "model.safetensors").write_bytes(damaged)
        assert stored_shapes(tmp_path) is None
    assert stored_shapes(tmp_path / "nowhere") is None
