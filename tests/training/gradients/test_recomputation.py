"""Activations that are computed again: the same norms and sums to the last bit, in less memory, or a refusal."""

import json

import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.modeling_layers import GradientCheckpointingLayer

from reticent.cli import main as cli
from reticent.core.errors import ModelError
from reticent.training.batches import Units
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.record_loss import TokenBatch
from reticent.training.gradients.source import Computation, PlainGradients
from reticent.training.plans.plan import PlainPlan
from tests.models.tiny import tiny_gpt2, tiny_tokenizer
from tests.training import small_models
from tests.training.gradients import oracles
from tests.training.small_models import START, random_records
from tests.training.small_runs import token_texts

MODELS = {
    "gpt2-tied": lambda: small_models.gpt2(tied=True),
    "gpt2-untied": lambda: small_models.gpt2(tied=False),
    "llama-tied": lambda: small_models.llama(tied=True),
    "lora-gpt2": lambda: small_models.with_lora(small_models.gpt2(), ["c_attn", "c_fc"]),
    "lora-llama": lambda: small_models.with_lora(small_models.llama(), ["q_proj", "v_proj", "down_proj"]),
}
GROUPS = random_records(17)
UNITS = [[[1, 2, 3], [4, 5]], [[6]], [[7, 8, 9, 10], [11], [2, 2, 2]], []]


def clipped(module, groups, *, recomputes, clip_norm=0.5, dtype=None):
    batch = TokenBatch.of_groups(groups, START)
    with PerRecordGradients(module, clip_norm, compute_dtype=dtype, recomputes=recomputes) as engine:
        for part in batch.split(6):
            engine.accumulate(part)
        return engine.take()


@pytest.mark.parametrize("dtype", [None, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("groups", [GROUPS, UNITS], ids=["records", "owners"])
@pytest.mark.parametrize("kind", MODELS)
def test_norms_and_sums_are_those_without_recomputation_to_the_last_bit(kind, groups, dtype):
    kept, again = (
        clipped(MODELS[kind](), groups, recomputes=recomputes, dtype=dtype) for recomputes in (False, True)
    )
    assert torch.equal(kept.norms, again.norms)
    assert kept.gradients.keys() == again.gradients.keys()
    for name, value in kept.gradients.items():
        assert torch.equal(value, again.gradients[name]), name


@pytest.mark.parametrize("kind", ["gpt2-tied", "lora-llama"])
def test_sums_are_those_of_one_record_at_a_time(kind):
    module = MODELS[kind]().double()
    truth = oracles.record_gradients(module, GROUPS, START)
    clip_norm = sorted(map(oracles.norm, truth))[8]
    found = clipped(module, GROUPS, recomputes=True, clip_norm=clip_norm)
    assert oracles.distance(found.gradients, oracles.clipped_sum(truth, clip_norm)) <= 1e-6


def test_the_model_is_as_it_was_afterwards():
    module = small_models.gpt2()
    batch = TokenBatch.of_groups(GROUPS, START)
    before = module(batch.inputs).logits
    clipped(module, GROUPS, recomputes=True)
    assert not any("forward" in vars(block) for block in module.modules())
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert torch.equal(module(batch.inputs).logits, before)


class Moody(GradientCheckpointingLayer):
    """Broken twin of a block: what it computes the second time is not what it computed the first time."""

    def __init__(self, mood: str) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.mood, self.calls = mood, 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 1 and self.mood == "swaps":
            return self.first(self.second(x))
        # Without a product nothing is saved, so that nothing is computed again either.
        return self.second(self.first(x)) if self.mood == "swaps" else self.first(x)


def test_a_block_that_does_something_else_the_second_time_is_refused():
    module = small_models.TinyModel(Moody("swaps"))
    batch = TokenBatch.of_groups(GROUPS[:4], START)
    engine = PerRecordGradients(module, 1.0, is_checked=False, recomputes=True)
    with engine, pytest.raises(ModelError, match="same order"):
        engine.accumulate(batch)


def test_a_gradient_whose_block_is_not_computed_again_is_refused_and_never_lost(monkeypatch):
    def kept(
        function, *args, use_reentrant, early_stop, **kwargs
    ):  # broken twin: a checkpoint that keeps everything
        return function(*args, **kwargs)

    monkeypatch.setattr("reticent.training.gradients.recomputation.checkpoint", kept)
    engine = PerRecordGradients(small_models.gpt2(), 1.0, is_checked=False, recomputes=True)
    with engine, pytest.raises(ModelError, match="not computed again"):
        engine.accumulate(TokenBatch.of_groups(GROUPS[:4], START))


def test_a_model_without_blocks_is_refused():
    with (
        pytest.raises(ModelError, match="no blocks"),
        PerRecordGradients(small_models.lstm(), 1.0, recomputes=True),
    ):
        pass


def test_plain_gradients_with_dropout_are_the_same():
    found = []
    for recomputes in (False, True):
        module = small_models.gpt2()
        for layer in module.modules():
            if isinstance(layer, nn.Dropout):
                layer.p = 0.3
        computation = Computation(token_budget=64, recomputes=recomputes)
        plan = PlainPlan(units=12, batch=6, epochs=1.0, seed=3)
        with PlainGradients(module, Units(token_texts(12)), plan, computation=computation) as source:
            torch.manual_seed(0)
            found.append(source.next().values)
        assert not any("forward" in vars(block) for block in module.modules())
    assert all(torch.equal(value, found[1][name]) for name, value in found[0].items())


def most_bytes(module, batch, *, recomputes: bool) -> int:
    """The most that tensors held at once during one clipped sum, beside model and batch."""
    engine = PerRecordGradients(module, 1.0, is_checked=False, recomputes=recomputes)
    watch = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True)
    with engine, watch as profiled:
        engine.clipped_sum(batch)
    held = most = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


def test_memory_hardly_grows_with_depth():
    """Of twice as many blocks, each keeps its input and no more: 64 tokens of 32 numbers for 4 records."""
    torch.manual_seed(0)
    batch = TokenBatch(torch.randint(0, 40, (4, 64)), torch.randint(0, 40, (4, 64)))
    held = {}
    for layers in (4, 12):
        config = GPT2Config(vocab_size=40, n_positions=64, n_embd=32, n_layer=layers, n_head=2)
        for recomputes in (False, True):
            module = GPT2LMHeadModel(config).eval()
            held[layers, recomputes] = most_bytes(module, batch, recomputes=recomputes)
    parameters = 4 * 12 * 32 * 32  # bytes of the clipped sum that a block adds
    growth = {how: (held[12, how] - held[4, how]) / 8 for how in (False, True)}
    assert growth[True] < 4 * (4 * 64 * 32) + 2 * parameters
    assert growth[True] < 0.25 * growth[False]
    assert held[12, True] < 0.35 * held[12, False]


def test_the_command_trains_with_it_and_refuses_a_model_without_blocks(tmp_path, capsys):
    tiny_gpt2().save_pretrained(tmp_path / "start")
    tiny_tokenizer().save_pretrained(tmp_path / "start")
    (tmp_path / "corpus.txt").write_text("".join(f"the number of person {i} is {i * 7919}.\n" for i in range(8)))
    words = ["--method", "dp-sgd", "--data", tmp_path / "corpus.txt", "--noise-multiplier", 1, "--delta", 1e-3]
    words += ["--batch", 4, "--epochs", 1, "--checkpoint-activations", "--precision", "bfloat16"]
    train = ["train", *words, "--model", tmp_path / "start", "--out", tmp_path / "run"]
    assert cli.run([str(word) for word in train]) == 0
    config = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert config["model"]["checkpoint_activations"] is True
    capsys.readouterr()
    recurrent = ["train", *words, "--model", "lstm:1x200", "--out", tmp_path / "none"]
    assert cli.run([str(word) for word in recurrent]) == 2
    assert "no blocks" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
