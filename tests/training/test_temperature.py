"""A temperature is trained like a weight, costs nothing, and leaves a model of the same shape as before."""

import copy

import pytest
import torch
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    GemmaConfig,
    GPTNeoXConfig,
    OlmoConfig,
    OPTConfig,
    PhiConfig,
    Qwen2Config,
)

import reticent.training.gradients.layer_rules as layer_rules
from reticent.core.corpus import Corpus, Record
from reticent.core.errors import ModelError
from reticent.models.huggingface.loading import load_model
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.record_loss import TokenBatch
from reticent.training.optimiser import Learner, OptimiserSettings
from reticent.training.plans.plan import DpSgd
from reticent.training.plans.sampler import PoissonSampler
from reticent.training.private_step import PrivateStep
from reticent.training.release import release_model
from reticent.training.starting_model import ModelStart, load_for_training
from reticent.training.temperature import ADAPTER_GAIN, Temperature, add_temperature, folded, temperature_gains
from reticent.training.update_rules import Phase, Rule
from tests.training import small_models
from tests.training.gradients import oracles
from tests.training.small_models import START, VOCABULARY, random_records

TOKENS = torch.arange(1, 9).unsqueeze(0)
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "initializer_range": 0.3,
    "pad_token_id": 0,
}


def of(config, **more):
    """A model of another architecture, from random weights; weights of norms are random too."""
    torch.manual_seed(6)
    module = AutoModelForCausalLM.from_config(config(**(SIZES | more))).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return module


ARCHITECTURES = {
    "gpt2": small_models.gpt2,
    "gpt2-untied": lambda: small_models.gpt2(tied=False),
    "llama": small_models.llama,
    "gemma, whose norm multiplies by 1 + w": lambda: of(GemmaConfig, head_dim=8, num_key_value_heads=1),
    "gpt-neox": lambda: of(GPTNeoXConfig),
    "opt": lambda: of(OPTConfig, ffn_dim=24, word_embed_proj_dim=16, max_position_embeddings=32),
    "phi, whose head has a bias": lambda: of(PhiConfig),
    "qwen2": lambda: of(Qwen2Config, num_key_value_heads=1),
}


def logits(module):
    with torch.no_grad():
        return module(input_ids=TOKENS).logits


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("log_scale", [-1.5, 0.4])
def test_folding_changes_nothing_that_the_model_says_and_leaves_its_own_parameters(name, log_scale):
    module = ARCHITECTURES[name]()
    names, before = list(module.state_dict()), logits(module)
    tempered = logits(small_models.tempered(module, log_scale))
    assert not torch.allclose(tempered, before, rtol=0.05)
    with folded(module):
        assert list(module.state_dict()) == names
        torch.testing.assert_close(logits(module), tempered, rtol=1e-4, atol=1e-5)
    assert set(module.state_dict()) - set(names) == set(temperature_gains(module))
    assert torch.equal(logits(module), tempered)


def test_before_any_step_the_model_is_as_it_was():
    module = small_models.gpt2()
    before = logits(module)
    assert add_temperature(module)
    assert torch.equal(logits(module), before)


@pytest.mark.parametrize(
    "module",
    [small_models.lstm(), of(OlmoConfig), small_models.TinyModel(nn.Identity())],
    ids=["an LSTM", "a norm without weights", "a module of one's own"],
)
def test_a_model_without_a_norm_to_fold_into_gets_no_temperature(module):
    names = [name for name, _ in module.named_parameters()]
    assert not add_temperature(module)
    assert [name for name, _ in module.named_parameters()] == names
    with folded(module):
        assert [name for name, _ in module.named_parameters()] == names


def test_a_norm_that_is_used_twice_takes_up_no_temperature():
    class TwiceNormed(nn.Module):
        """Its one norm is used inside and before the head."""

        def __init__(self):
            super().__init__()
            self.embedding, self.norm = nn.Embedding(VOCABULARY, 8), nn.LayerNorm(8)
            self.head = nn.Linear(8, VOCABULARY)

        def get_output_embeddings(self):
            return self.head

        def forward(self, input_ids):
            return self.head(self.norm(self.norm(self.embedding(input_ids)) + 1.0))

    assert not add_temperature(TwiceNormed())


def test_clipping_bounds_the_temperature_with_the_weights():
    module = small_models.tempered(small_models.gpt2()).double()
    groups = random_records(12, seed=4)
    truth = oracles.record_gradients(module, groups, START)
    (name,) = temperature_gains(module)
    assert all(float(gradient[name].abs()) > 0 for gradient in truth)
    for group in groups:
        with PerRecordGradients(module, 0.1) as engine:
            alone = engine.clipped_sum(TokenBatch.of_groups([group], START)).gradients
        assert name in alone
        assert oracles.norm(alone) <= 0.1 * (1 + 1e-9)


@pytest.mark.parametrize("share", [0.0, 0.5, 2.0])
def test_a_rule_that_gets_the_temperature_wrong_is_found(share, monkeypatch):
    """The broken twin: its part of the norm would be another than what is released."""
    right = layer_rules._temperature

    def wrong(layer, x, gradient):
        return right(layer, x, share * gradient)

    monkeypatch.setattr(layer_rules, "_temperature", wrong)
    module = small_models.tempered(small_models.gpt2())
    with pytest.raises(ModelError, match="temperature"), PerRecordGradients(module, 1.0) as engine:
        engine.clipped_sum(TokenBatch.of_groups(random_records(3), START))


def test_a_smaller_gain_takes_less_of_the_gradient_and_moves_the_scale_as_fast():
    steps = {}
    for gain in (1.0, 0.25):
        module = small_models.gpt2()
        assert add_temperature(module, gain=gain)
        (name,) = temperature_gains(module)
        (truth,) = oracles.record_gradients(module, random_records(1, seed=5), START)
        learner = Learner(module, OptimiserSettings(learning_rate=1e-3))
        learner.apply({key: value.float() for key, value in truth.items()}, Phase(step=0, steps=1))
        steps[gain] = (truth[name].item(), module.get_output_embeddings().temperature.scale().item())
    assert steps[0.25][0] == pytest.approx(0.25 * steps[1.0][0], rel=1e-4)
    assert steps[0.25][1] == pytest.approx(steps[1.0][1], rel=1e-4)
    assert abs(steps[1.0][1] - 1.0) > 0.02


@pytest.mark.parametrize("rule", [Rule.ADAMW, Rule.CORRECTED_ADAM])
def test_the_temperature_has_a_rate_of_its_own_and_does_not_decay(rule):
    module = small_models.tempered(small_models.gpt2(), 0.5)
    (name,) = temperature_gains(module)
    settings = OptimiserSettings(rule=rule, learning_rate=1e-3, weight_decay=10.0, temperature_rate=0.04)
    learner = Learner(module, settings)
    zeros = {key: torch.zeros_like(value) for key, value in learner.parameters.items()}
    moved = zeros | {name: torch.tensor([2.0])}
    learner.apply(moved, Phase(step=0, steps=2))
    assert learner.parameters[name].item() == pytest.approx(0.5 - 0.04, rel=1e-4)
    learner.apply(zeros, Phase(step=1, steps=2, learning_rate=5e-1))  # the rate of a phase is for weights alone
    # Momentum alone: m = 0.9 · 0.1 g and v = 0.999 · 0.001 g², over 0.19 and 0.001999.
    by_hand = 0.04 * (0.09 / 0.19) / (0.999 / 1.999) ** 0.5
    assert learner.parameters[name].item() == pytest.approx(0.46 - by_hand, rel=1e-3)


def test_with_sgd_the_temperature_moves_as_its_gradient_says():
    module = small_models.tempered(small_models.gpt2(), 0.5)
    (name,) = temperature_gains(module)
    learner = Learner(module, OptimiserSettings(rule=Rule.SGD, learning_rate=0.1))
    moved = {key: torch.zeros_like(value) for key, value in learner.parameters.items()}
    learner.apply(moved | {name: torch.tensor([2.0])}, Phase(step=0, steps=1))
    assert learner.parameters[name].item() == pytest.approx(0.5 - 0.1 * 2.0)


@pytest.mark.parametrize("merge", [False, True], ids=["an adapter", "merged"])
def test_an_adapter_takes_the_norm_along(merge, tmp_path):
    start = ModelStart(source="embedded", lora_rank=2, learns_temperature=True, device="cpu")
    model = load_for_training(start, seed=0)
    trained = {name for name, p in model.module.named_parameters() if p.requires_grad}
    assert {name for name in trained if "lora" not in name} == set(temperature_gains(model.module))
    assert len(temperature_gains(model.module)) == 1
    temperature = model.module.get_output_embeddings().temperature
    assert temperature.gain == ADAPTER_GAIN
    with torch.no_grad():
        temperature.log_scale.fill_(0.7)
    expected = logits(model.module)
    release_model(model, tmp_path / "model", certificate=None, merge=merge)
    again = load_model(str(tmp_path / "model"), device="cpu")
    torch.testing.assert_close(logits(again.module), expected, rtol=1e-4, atol=1e-5)


def test_copies_of_a_model_have_temperatures_of_their_own():
    module = small_models.tempered(small_models.gpt2(), 0.0)
    before, other = logits(module), copy.deepcopy(module)
    with torch.no_grad():
        other.get_output_embeddings().temperature.log_scale.fill_(0.9)
    assert torch.equal(logits(module), before)
    with folded(other):
        assert torch.equal(logits(module), before)
        assert len(temperature_gains(module)) == 1


def test_looking_for_the_norm_leaves_every_layer_in_its_mode():
    module = small_models.with_lora(small_models.gpt2(), ["c_attn"])
    module.training = True  # as peft leaves its wrapper around a base that answers
    modes = [layer.training for layer in module.modules()]
    assert add_temperature(module)
    assert [layer.training for layer in module.modules() if not isinstance(layer, Temperature)] == modes


def test_a_model_that_is_released_on_the_way_goes_on_training_its_temperature(tmp_path):
    """Folding it for good would leave a number that belongs to no layer, and that noise alone moves."""
    start = ModelStart(source="embedded", learns_temperature=True, device="cpu")
    model = load_for_training(start, seed=0)
    corpus = Corpus(Record(str(number), f"order {number * 37} is late") for number in range(12))
    plan = DpSgd(sampler=PoissonSampler(12, 6), clip_norm=1.0, noise_multiplier=1.0, steps=3, delta=1e-3)
    (name,) = temperature_gains(model.module)
    temperature = model.module.get_parameter(name)
    optimizer = torch.optim.SGD([p for p in model.module.parameters() if p.requires_grad], lr=0.05)
    with PrivateStep(model, plan, ledger=tmp_path / "ledger.db") as step:
        for place, batch in enumerate(step.batches(corpus, max_length=16)):
            step.accumulate(batch)
            before = temperature.item()
            step.update(optimizer)
            assert temperature.item() != before
            expected = logits(model.module)
            step.release(tmp_path / f"model-{place}")
            assert model.module.get_parameter(name) is temperature
            assert torch.equal(logits(model.module), expected)
            again = load_model(str(tmp_path / f"model-{place}"), device="cpu")
            torch.testing.assert_close(logits(again.module), expected, rtol=1e-4, atol=1e-4)
