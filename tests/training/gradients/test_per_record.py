"""The engine equals one-record-at-a-time autograd, for every kind of model, batch size and precision."""

import copy

import pytest
import torch
from torch import nn

from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.record_loss import TokenBatch, record_losses
from tests.training import small_models
from tests.training.gradients import oracles
from tests.training.small_models import START, random_records

MODELS = {
    "gpt2-tied": lambda: small_models.gpt2(tied=True),
    "gpt2-untied": lambda: small_models.gpt2(tied=False),
    "llama-tied": lambda: small_models.llama(tied=True),
    "llama-untied": lambda: small_models.llama(tied=False),
    "lstm": small_models.lstm,
    "lstm-tied": lambda: small_models.lstm(tied=True),
    "lora-gpt2": lambda: small_models.with_lora(small_models.gpt2(), ["c_attn", "c_fc"]),
    "lora-llama": lambda: small_models.with_lora(small_models.llama(), ["q_proj", "v_proj", "down_proj"]),
    "lora-gpt2-head": lambda: small_models.with_lora(small_models.gpt2(), ["c_attn", "lm_head"]),
    "lora-llama-head": lambda: small_models.with_lora(small_models.llama(), ["q_proj", "lm_head"]),
    "lora-lstm": lambda: small_models.with_lora(small_models.lstm(), ["input", "hidden"]),
    "gpt2-tempered": lambda: small_models.tempered(small_models.gpt2()),
    "llama-tempered": lambda: small_models.tempered(small_models.llama(tied=False)),
    "lora-gpt2-tempered": lambda: small_models.tempered(
        small_models.with_lora(small_models.gpt2(), ["c_attn", "c_fc"]), gain=0.3
    ),
}
# The loss of an oracle is float64 whatever the model is: the model's own rounding is what is left.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


def tolerance(kind, dtype=torch.float64):
    """Llama's norm computes in float32 even in a float64 model, and that is a gradient's precision there."""
    return 1e-6 if dtype is torch.float64 and kind.startswith("llama") else TOLERANCE[dtype]


def middle_norm(truth):
    """A clip norm that half the records pass."""
    return sorted(oracles.norm(gradient) for gradient in truth)[len(truth) // 2] * 0.9


def assert_exact(module, groups, *, start=START, within=1e-12, micro_batch=None):
    truth = oracles.record_gradients(module, groups, start)
    clip_norm = middle_norm(truth)
    batch = TokenBatch.of_groups(groups, start)
    with PerRecordGradients(module, clip_norm) as engine:
        for part in batch.split(micro_batch or len(batch)):
            engine.accumulate(part)
        found = engine.take()
    assert found.records == len(groups)
    for name, value in found.gradients.items():
        assert value.dtype in (torch.float32, torch.float64), name
    norms = torch.tensor([oracles.norm(gradient) for gradient in truth], dtype=torch.float64)
    assert ((found.norms.double() - norms).abs() <= within * norms).all()
    assert oracles.distance(found.gradients, oracles.clipped_sum(truth, clip_norm)) <= within


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("kind", MODELS)
def test_clipped_sum_equals_one_record_at_a_time_on_17_padded_records(kind, dtype):
    assert_exact(MODELS[kind]().to(dtype), random_records(17), within=tolerance(kind, dtype))


@pytest.mark.parametrize("kind", MODELS)
def test_clipped_sum_equals_one_record_at_a_time_on_one_record(kind):
    assert_exact(MODELS[kind]().double(), random_records(1, seed=1), within=tolerance(kind))


@pytest.mark.parametrize("kind", ["gpt2-tied", "llama-tied", "lstm", "lora-llama"])
def test_sum_over_micro_batches_equals_the_one_batch(kind):
    assert_exact(MODELS[kind]().double(), random_records(17, seed=2), within=tolerance(kind), micro_batch=5)


def test_real_llama_with_grouped_queries_and_tied_embeddings_is_exact(shared):
    groups = random_records(17, longest=24, vocabulary=512, seed=3)
    assert_exact(small_models.stories(shared), groups, start=1, within=1e-5)


@pytest.mark.parametrize("tied", [True, False])
def test_ghost_and_written_out_norms_are_both_exact(tied, monkeypatch):
    import reticent.training.gradients.contribution as contribution

    for choice in (True, False):
        monkeypatch.setattr(contribution, "is_written_out", lambda *args, choice=choice, **sizes: choice)
        assert_exact(small_models.gpt2(tied=tied).double(), random_records(5, longest=20))
        long = [[[int(t) for t in torch.arange(70) % 7]], [[3, 4]]]  # long enough for blocks of a Gram matrix
        assert_exact(small_models.TinyModel(nn.Linear(8, 8)).double(), long)


@pytest.mark.parametrize("kind", ["gpt2-tied", "llama-tied", "lstm", "lora-gpt2"])
def test_units_that_own_several_texts_are_clipped_as_one(kind):
    groups = [[[1, 2, 3], [4, 5]], [[6]], [[7, 8, 9, 10], [11], [2, 2, 2]], []]
    assert_exact(MODELS[kind]().double(), groups, within=tolerance(kind))


@pytest.mark.parametrize("kind", ["gpt2-tied", "lora-llama"])
def test_empty_batch_gives_zeros_of_every_parameters_shape(kind):
    module = MODELS[kind]()
    trainable = {name: p.shape for name, p in module.named_parameters() if p.requires_grad}
    with PerRecordGradients(module, 1.0) as engine:
        found = engine.clipped_sum(TokenBatch.of([], START))
    assert {name: value.shape for name, value in found.gradients.items()} == trainable
    assert found.records == 0
    assert all(not value.any() for value in found.gradients.values())


def test_take_starts_a_new_sum():
    batch = TokenBatch.of([[1, 2, 3], [4, 5]], START)
    with PerRecordGradients(small_models.gpt2(), 1.0) as engine:
        first, second = engine.clipped_sum(batch), engine.clipped_sum(batch)
        empty = engine.take()
    assert oracles.distance(second.gradients, first.gradients) == 0.0
    assert oracles.norm(empty.gradients) == 0.0


def test_frozen_parameters_have_no_gradient_and_the_rest_stays_exact():
    module = small_models.gpt2(tied=False).double()
    for name, parameter in module.named_parameters():
        parameter.requires_grad_("wte" not in name and "c_attn.weight" not in name and "ln_f.bias" not in name)
    assert_exact(module, random_records(6))


def test_graph_starts_at_the_first_trainable_layer_when_embeddings_are_frozen():
    module = small_models.gpt2().double()
    for name, parameter in module.named_parameters():
        parameter.requires_grad_("h.1" in name)
    assert_exact(module, random_records(6))


class CallsTwice(nn.Module):
    """One linear layer called twice, and one norm called twice."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.norm = nn.RMSNorm(8)

    def forward(self, x):
        return self.norm(self.layer(self.norm(torch.tanh(self.layer(x)))))


def test_layer_called_twice_in_one_forward_is_exact():
    assert_exact(small_models.TinyModel(CallsTwice()).double(), random_records(7))


def test_three_modules_that_share_one_weight_are_exact():
    middle = nn.Sequential(nn.Linear(8, small_models.VOCABULARY), nn.Tanh(), nn.Linear(small_models.VOCABULARY, 8))
    module = small_models.TinyModel(middle).double()
    module.middle[0].weight = module.embedding.weight
    module.head.weight = module.embedding.weight
    assert_exact(module, random_records(7))


def test_padding_index_of_an_embedding_gets_no_gradient_as_in_autograd():
    module = small_models.TinyModel(nn.Identity()).double()
    module.embedding = nn.Embedding(small_models.VOCABULARY, 8, padding_idx=START).double()
    assert_exact(module, random_records(5))


class ScaledNorm(nn.Module):
    """As Gemma's norm: (1 + w) x / rms(x)."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8) * 0.1)
        self.eps = 1e-3

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * (1 + self.weight)


def test_rms_norm_of_any_class_is_recognised_by_its_numbers():
    assert_exact(small_models.TinyModel(ScaledNorm()).double(), random_records(5))


def test_dropout_of_lora_draws_the_same_masks_as_plain_training():
    module = small_models.with_lora(small_models.gpt2(), ["c_attn"], dropout=0.5).train()
    batch = TokenBatch.of([[1, 2, 3], [4, 5, 6]], START)
    plain = copy.deepcopy(module)
    torch.manual_seed(9)
    record_losses(plain, batch).sum().backward()
    expected = {name: p.grad for name, p in plain.named_parameters() if p.requires_grad}
    with PerRecordGradients(module, 1e6, is_checked=False) as engine:
        torch.manual_seed(9)
        found = engine.clipped_sum(batch)
    assert oracles.distance(found.gradients, expected) < 1e-5
    assert module.training


@pytest.mark.parametrize("way", ["autocast", "weights"])
def test_bfloat16_compute_keeps_norms_and_sums_in_float32_and_contributions_within_the_clip_norm(way):
    module = small_models.gpt2()
    dtype = torch.bfloat16 if way == "autocast" else None
    if way == "weights":
        module = module.to(torch.bfloat16)
    groups = random_records(6)
    clip_norm = 0.5
    with PerRecordGradients(module, clip_norm, compute_dtype=dtype) as engine:
        found = engine.clipped_sum(TokenBatch.of_groups(groups, START))
        alone = [engine.clipped_sum(TokenBatch.of_groups([group], START)) for group in groups]
    truth = oracles.record_gradients(small_models.gpt2(), groups, START)
    assert found.norms.dtype is torch.float32
    assert oracles.distance(found.gradients, oracles.clipped_sum(truth, clip_norm)) < 0.1
    for one in alone:
        assert all(value.dtype is torch.float32 for value in one.gradients.values())
        assert oracles.norm(one.gradients) <= clip_norm * (1 + 1e-6)


@pytest.mark.parametrize("kind", ["gpt2-tied", "llama-tied", "lstm", "lora-gpt2"])
def test_no_record_contributes_more_than_the_clip_norm(kind):
    with PerRecordGradients(MODELS[kind](), 0.25) as engine:
        for group in random_records(6, seed=4):
            assert oracles.norm(engine.clipped_sum(TokenBatch.of_groups([group], START)).gradients) <= 0.25 * (
                1 + 1e-6
            )


@pytest.mark.parametrize("tied", [True, False])
def test_opacus_hooks_agree(tied):
    opacus = pytest.importorskip("opacus")
    module = small_models.gpt2(tied=tied)
    batch = TokenBatch.of_groups(random_records(5), START)
    with PerRecordGradients(module, 0.5) as engine:
        found = engine.clipped_sum(batch)
    wrapped = opacus.GradSampleModule(copy.deepcopy(module).train(), loss_reduction="sum", strict=False)
    record_losses(wrapped._module, batch).sum().backward()
    samples = {name: p.grad_sample for name, p in wrapped._module.named_parameters()}
    truth = [{name: sample[record] for name, sample in samples.items()} for record in range(len(batch))]
    assert oracles.distance(found.gradients, oracles.clipped_sum(truth, 0.5)) < 1e-5
