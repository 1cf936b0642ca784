"""`train --method dp-sgd` trains the temperature of the answers too, at no cost in ε; the model keeps its shape."""

import json

import pytest
import torch
from safetensors.torch import load_file

from reticent.cli import main as cli
from reticent.core.errors import ConfigError
from reticent.core.randomness import Randomness
from reticent.ledger.durable import SqliteLedger
from reticent.models.huggingface.loading import load_model
from reticent.runs.audit.subject import find_model
from reticent.runs.directory import RunDirectory
from reticent.runs.training import run
from reticent.runs.training.settings import Resumption, TrainSettings
from tests.models.tiny import tiny_gpt2, tiny_tokenizer

NORM = "transformer.ln_f.weight"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A tiny model that is far too sure of itself, and a corpus."""
    folder = tmp_path_factory.mktemp("tiny")
    module = tiny_gpt2()
    with torch.no_grad():
        module.transformer.ln_f.weight.mul_(6.0)
    module.save_pretrained(folder / "model")
    tiny_tokenizer().save_pretrained(folder / "model")
    rows = [{"id": f"r{i}", "owner": f"o{i}", "text": f"order {i * 37} is late."} for i in range(24)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def settings(tiny, out, **others) -> TrainSettings:
    given = {"method": "dp-sgd", "noise_multiplier": 1.0, "delta": 1e-3, "batch": 8, "epochs": 2.0} | others
    return TrainSettings.of(data=str(tiny / "corpus.jsonl"), model=str(tiny / "model"), seed=3, out=out, **given)


def trained(tiny, out, **others):
    """The weights of a run with seeded noise."""
    run.train(settings(tiny, out, **others), randomness=Randomness.seeded(7))
    return load_file(out / "model" / "model.safetensors")


def test_the_temperature_is_trained_with_noise_unless_it_is_fixed_and_the_guarantee_is_the_same(tiny, tmp_path):
    free = trained(tiny, tmp_path / "free")
    fixed = trained(tiny, tmp_path / "fixed", fixed_temperature=True)
    start = load_file(tiny / "model" / "model.safetensors")
    assert free.keys() == fixed.keys() == start.keys()
    # Six steps of 0.001 change a weight of 6 by 0.1 %; six of 0.03 on its logarithm change it by up to 18 %.
    assert (fixed[NORM] / start[NORM] - 1.0).abs().max() < 0.01
    assert (free[NORM] / start[NORM] - 1.0).abs().min() > 0.02
    spent = []
    for name in ("free", "fixed"):
        plan = json.loads((tmp_path / name / "training.json").read_text())["plan"]
        with SqliteLedger.open(tmp_path / name / "ledger.db") as ledger:
            spent.append((plan, ledger.spent(), ledger.budget.guarantee))
    assert spent[0] == spent[1]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ({}, False),
        ({"method": "crt", "policy": "patterns"}, None),
        ({"method": "sgd", "noise_multiplier": None, "delta": None}, None),
    ],
    ids=["dp-sgd", "crt", "sgd"],
)
def test_what_was_decided_is_written_into_the_run(tiny, tmp_path, method, expected):
    trained(tiny, tmp_path / "run", **method)
    config = RunDirectory.open(tmp_path / "run").information()["config"]
    assert config["training"]["fixed_temperature"] is expected


def test_a_run_of_an_earlier_version_goes_on_without_a_temperature(tiny, tmp_path):
    """Its run.json does not know the option, and its checkpoint has no such number."""
    out = tmp_path / "run"
    stopped = settings(tiny, out, fixed_temperature=True, checkpoint_steps=1)
    run.train(stopped, randomness=Randomness.seeded(7), observe=lambda progress, _: progress.step < 3)
    path = out / "run.json"
    document = json.loads(path.read_text())
    del document["config"]["training"]["fixed_temperature"]
    path.write_text(json.dumps(document))
    run.train(Resumption(resume=out), randomness=Randomness.seeded(7))
    assert find_model(str(out)).recipe["training"]["fixed_temperature"] is True  # as shadows are trained
    straight = trained(tiny, tmp_path / "straight", fixed_temperature=True)
    found = load_file(out / "model" / "model.safetensors")
    assert all(torch.equal(found[name], straight[name]) for name in straight)


LORA = {"lora_rank": 2}
FROZEN = LORA | {"frozen_head": True}


@pytest.mark.parametrize(
    ("given", "is_frozen", "is_fixed"),
    [
        (LORA, False, False),
        (FROZEN, True, False),
        (LORA | {"adapter_layers": 1}, True, False),
        (LORA | {"adapter_layers": 1, "frozen_head": False}, False, False),
        (LORA | {"method": "sgd", "noise_multiplier": None, "delta": None}, False, None),
        ({}, None, False),
    ],
    ids=["LoRA", "frozen head", "top block", "top block and head", "sgd", "all weights"],
)
def test_adapters_get_the_output_layer_unless_they_are_of_some_blocks_alone(
    tiny, tmp_path, given, is_frozen, is_fixed
):
    found = settings(tiny, tmp_path / "run", **given).resolved()
    assert (found.model.frozen_head, found.training.fixed_temperature) == (is_frozen, is_fixed)
    start = found.start()
    assert (start.lora_head, start.learns_temperature) == (is_frozen is False, is_fixed is False)


def test_adapters_of_an_ensemble_leave_the_output_layer_alone(tiny, tmp_path):
    ensemble = {"method": "submix", "noise_multiplier": None, "delta": None, "parts": 2}
    found = settings(tiny, tmp_path / "run", **ensemble).resolved()
    assert found.model.lora_rank > 0
    assert not found.start().lora_head
    with pytest.raises(ConfigError, match="one output layer"):
        settings(tiny, tmp_path / "run", **ensemble, frozen_head=False).check()


def test_a_frozen_head_without_adapters_is_refused(tiny, tmp_path):
    with pytest.raises(ConfigError, match="--frozen-head is for LoRA"):
        settings(tiny, tmp_path / "run", frozen_head=True).start()


def test_adapters_of_an_earlier_version_go_on_without_one_on_the_output_layer(tiny, tmp_path):
    out = tmp_path / "run"
    given = FROZEN | {"fixed_temperature": True}
    stopped = settings(tiny, out, checkpoint_steps=1, **given)
    run.train(stopped, randomness=Randomness.seeded(7), observe=lambda progress, _: progress.step < 3)
    path = out / "run.json"
    document = json.loads(path.read_text())
    del document["config"]["model"]["frozen_head"]
    path.write_text(json.dumps(document))
    run.train(Resumption(resume=out), randomness=Randomness.seeded(7))
    assert find_model(str(out)).recipe["model"]["frozen_head"] is True  # as shadows are trained
    names = load_file(out / "model" / "adapter_model.safetensors")
    assert names
    assert not any("lm_head" in name for name in names)


@pytest.mark.parametrize(
    "others",
    [{}, LORA, FROZEN, {"ema": 0.9}],
    ids=["all weights", "LoRA", "LoRA with a frozen head", "averaged"],
)
def test_a_run_that_was_stopped_ends_with_the_same_temperature(tiny, tmp_path, others):
    out = tmp_path / "run"
    stopped = settings(tiny, out, checkpoint_steps=1, **others)
    run.train(stopped, randomness=Randomness.seeded(7), observe=lambda progress, _: progress.step < 3)
    run.train(Resumption(resume=out), randomness=Randomness.seeded(7))
    run.train(settings(tiny, tmp_path / "straight", **others), randomness=Randomness.seeded(7))
    tokens = torch.arange(1, 9).unsqueeze(0)
    with torch.no_grad():
        one, other = (
            load_model(str(folder / "model"), device="cpu").module(input_ids=tokens).logits
            for folder in (out, tmp_path / "straight")
        )
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_the_flag_belongs_to_methods_that_train_the_temperature(tiny, tmp_path, capsys):
    given = ["train", "--method", "sgd", "--model", str(tiny / "model"), "--data", str(tiny / "corpus.jsonl")]
    assert cli.run([*given, "--fixed-temperature", "--out", str(tmp_path / "run")]) == 2
    assert "--fixed-temperature does not belong to method 'sgd'" in " ".join(capsys.readouterr().err.split())


def test_steps_on_public_text_leave_the_temperature_its_rate(tiny, tmp_path):
    """Scaled by the public rate over the private one, it would move by 30 a step, and the model would be lost."""
    rows = [{"text": f"parcel {i * 31} has arrived."} for i in range(24)]
    public = tmp_path / "public.jsonl"
    public.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = trained(tiny, tmp_path / "run", public_text=str(public), learning_rate=1e-6)
    start = load_file(tiny / "model" / "model.safetensors")
    ratios = found[NORM] / start[NORM]
    # Two steps on public text and six private ones, each by 0.03 or little more on the logarithm.
    assert ratios.min().item() > 0.7
    assert ratios.max().item() < 1.4
