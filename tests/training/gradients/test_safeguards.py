"""What silently voids DP-SGD is refused by name, or found by the self check: each safeguard with a broken twin."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import reticent.training.gradients.contribution as contribution
from reticent.core.errors import ModelError, UsageError
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.record_loss import TokenBatch, token_losses
from tests.training import small_models
from tests.training.gradients import oracles
from tests.training.small_models import START, TinyModel, random_records

BATCH = TokenBatch.of([[1, 2, 3, 4, 5, 6], [7, 8], [9, 10, 11]], START)


def refusal(module, batch=BATCH, **options):
    """The error that the engine raises for this model."""
    with pytest.raises(ModelError) as caught, PerRecordGradients(module, 1.0, **options) as engine:
        engine.clipped_sum(batch)
    return caught.value


class Scale(nn.Module):
    """A layer nobody has a rule for."""

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x * self.factor


class DoubledLinear(nn.Linear):
    """Looks like a linear layer, computes something else."""

    def forward(self, x):
        return 2 * super().forward(x)


class SquaredNorm(nn.Module):
    """Has the parts of an RMS norm, computes something else."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(8) + 0.5)
        self.eps = 1e-6

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight.square()


@pytest.mark.parametrize("layer", [Scale(), DoubledLinear(8, 8), SquaredNorm(), nn.Conv1d(8, 8, 1), nn.LSTM(8, 8)])
def test_layer_without_a_rule_is_refused_by_name_with_what_to_do(layer):
    error = refusal(TinyModel(layer))
    assert "'middle'" in str(error)
    assert type(layer).__name__ in str(error)
    assert "freeze" in error.hint


def test_layer_without_a_rule_is_welcome_when_frozen():
    module = TinyModel(Scale())
    module.middle.requires_grad_(False)
    with PerRecordGradients(module, 1.0) as engine:
        assert engine.clipped_sum(BATCH).records == 3


@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_is_refused_by_name_trainable_or_not(affine):
    error = refusal(TinyModel(nn.BatchNorm1d(6, affine=affine)))
    assert "'middle'" in str(error)
    assert "mixes" in str(error)


@pytest.mark.parametrize("option", [{"max_norm": 1.0}, {"scale_grad_by_freq": True}])
def test_embedding_options_that_couple_records_are_refused(option):
    module = TinyModel(nn.Identity())
    module.embedding = nn.Embedding(small_models.VOCABULARY, 8, **option)
    assert "'embedding'" in str(refusal(module))


def test_model_without_trainable_parameters_is_refused():
    assert "no trainable" in str(refusal(TinyModel(nn.Identity()).requires_grad_(False)))


def test_gradient_checkpointing_is_refused():
    module = small_models.gpt2()
    module.gradient_checkpointing_enable()
    assert "checkpointing" in str(refusal(module))


class FunctionalTie(TinyModel):
    """Uses the embedding's weight without calling a module: invisible to hooks."""

    def forward(self, input_ids):
        return functional.linear(self.embedding(input_ids), self.embedding.weight) + self.head(
            self.embedding(input_ids)
        )


def test_weight_used_outside_of_its_layer_is_named_by_the_self_check():
    assert "embedding.weight" in str(refusal(FunctionalTie(nn.Identity())))


def test_weight_used_outside_of_its_layer_is_wrong_without_the_self_check():
    module, groups = FunctionalTie(nn.Identity()), random_records(3)
    truth = oracles.record_gradients(module, groups, START)
    with PerRecordGradients(module, 1e6, is_checked=False) as engine:
        found = engine.clipped_sum(TokenBatch.of_groups(groups, START))
    assert oracles.distance(found.gradients, oracles.clipped_sum(truth, 1e6)) > 0.01


class CallsForward(TinyModel):
    """Calls `forward` itself, so that no hook runs."""

    def forward(self, input_ids):
        return self.head.forward(self.embedding(input_ids))


def test_layer_called_around_its_hooks_is_named_by_the_self_check():
    assert "head.weight" in str(refusal(CallsForward(nn.Identity())))


def test_tied_weight_in_a_subclass_of_linear_is_exact_and_one_that_computes_otherwise_is_refused():
    class Head(nn.Linear):
        """The same computation under another name: Opacus' ghost norms lose the cross term here."""

    module = TinyModel(nn.Identity()).double()
    module.head = Head(8, small_models.VOCABULARY).double()
    module.head.weight = module.embedding.weight
    groups = random_records(5)
    truth = oracles.record_gradients(module, groups, START)
    with PerRecordGradients(module, 0.1) as engine:
        found = engine.clipped_sum(TokenBatch.of_groups(groups, START))
    assert oracles.distance(found.gradients, oracles.clipped_sum(truth, 0.1)) < 1e-12
    module.head = DoubledLinear(8, small_models.VOCABULARY).double()
    module.head.weight = module.embedding.weight
    assert "'head'" in str(refusal(module))


def test_tied_norm_without_its_cross_term_is_caught(monkeypatch):
    monkeypatch.setattr(contribution, "is_written_out", lambda *args, **sizes: False)
    monkeypatch.setattr(contribution.ParameterGradient, "_cross", lambda self: torch.zeros(()))
    assert "norms differ" in str(refusal(small_models.gpt2(tied=True)))
    with PerRecordGradients(small_models.gpt2(tied=False), 1.0) as engine:  # the control: no tie, no cross term
        assert engine.clipped_sum(BATCH).records == 3


class PositionsOfTheBatch(TinyModel):
    """Position embeddings without a row per record."""

    def __init__(self):
        super().__init__(nn.Identity())
        self.positions = nn.Embedding(16, 8)

    def forward(self, input_ids):
        return self.head(self.embedding(input_ids) + self.positions(self.places(input_ids)))

    def places(self, input_ids):
        return torch.arange(input_ids.shape[1]).unsqueeze(0)


class PositionsAsManyAsRecords(PositionsOfTheBatch):
    """As many positions as records: the shapes agree by chance, the meaning does not."""

    def places(self, input_ids):
        return torch.arange(input_ids.shape[1])


def test_position_embeddings_without_a_row_per_record_are_refused_by_name():
    error = refusal(PositionsOfTheBatch())
    assert "'positions'" in str(error)
    assert "position ids" in error.hint


def test_position_embeddings_whose_length_happens_to_be_the_batch_size_are_found_by_the_self_check():
    error = refusal(PositionsAsManyAsRecords(), TokenBatch.of([[1, 2, 3], [4, 5, 6], [7, 8, 9]], START))
    assert "norms differ" in str(error)


def test_loss_averaged_over_the_batch_is_caught_and_moves_a_norm_when_other_records_shorten():
    def batch_mean(module, batch):
        return token_losses(module, batch).sum(1) / batch.tokens.sum()

    assert "other records" in str(refusal(small_models.gpt2(), losses=batch_mean))
    long, short = TokenBatch.of([[1, 2, 3], [4] * 8], START), TokenBatch.of([[1, 2, 3], [4]], START)
    norms = {}
    for name, options in (("batch mean", {"losses": batch_mean}), ("ours", {})):
        with PerRecordGradients(small_models.gpt2(), 1.0, is_checked=False, **options) as engine:
            norms[name] = [float(engine.accumulate(batch)[0]) for batch in (long, short)]
    assert norms["batch mean"][1] > 2 * norms["batch mean"][0]
    assert norms["ours"][1] == pytest.approx(norms["ours"][0], rel=1e-5)


class Mixer(nn.Module):
    """Each record sees the mean of all."""

    def forward(self, x):
        return x + x.mean(0, keepdim=True)


def test_forward_that_mixes_records_without_any_parameter_is_caught():
    assert "other records" in str(refusal(TinyModel(Mixer()), TokenBatch.of([[1, 2, 3], [4, 5, 6]], START)))


def test_self_check_waits_for_a_batch_that_can_show_mixing():
    with PerRecordGradients(TinyModel(Mixer()), 1.0) as engine:
        engine.clipped_sum(TokenBatch.of([[1, 2, 3]], START))
        with pytest.raises(ModelError, match="other records"):
            engine.clipped_sum(BATCH)


def test_backward_outside_of_the_engine_is_refused():
    module = small_models.gpt2()
    with PerRecordGradients(module, 1.0), pytest.raises(ModelError, match="outside"):
        token_losses(module, BATCH).sum().backward()


def test_two_batches_before_a_step_both_count():
    module = small_models.gpt2()
    with PerRecordGradients(module, 0.5) as engine:
        first, second = BATCH.select([0]), BATCH.select([1, 2])
        apart = [engine.clipped_sum(first).gradients, engine.clipped_sum(second).gradients]
        engine.accumulate(first)
        engine.accumulate(second)
        both = engine.take()
    expected = {name: apart[0][name] + apart[1][name] for name in both.gradients}
    assert both.records == 3
    assert oracles.distance(both.gradients, expected) < 1e-6


def test_two_forwards_of_the_same_records_in_one_loss_both_count():
    def twice(module, batch):
        return token_losses(module, batch).sum(1) + 3 * token_losses(module, batch).sum(1)

    norms = []
    for losses in (twice, lambda module, batch: 4 * token_losses(module, batch).sum(1)):
        with PerRecordGradients(small_models.gpt2(), 1.0, losses=losses) as engine:
            norms.append(engine.accumulate(BATCH))
    assert torch.allclose(norms[0], norms[1], rtol=1e-5)


def test_losses_of_another_shape_are_refused():
    with (
        PerRecordGradients(small_models.gpt2(), 1.0, losses=token_losses) as engine,
        pytest.raises(UsageError, match="one loss per record"),
    ):
        engine.accumulate(BATCH)


class ChangesInput(nn.Module):
    """Adds to its input in place after a layer has read it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        x = x * 1.0
        y = self.layer(x)
        x += 1.0
        return x + y


def test_input_changed_in_place_after_a_layer_read_it_is_refused_by_name():
    assert "'middle.layer'" in str(refusal(TinyModel(ChangesInput())))


@pytest.mark.parametrize("fails", [False, True])
def test_model_is_left_as_it_was_also_after_an_error(fails):
    module = small_models.with_lora(small_models.gpt2(), ["c_attn"])
    before = {name: p.requires_grad for name, p in module.named_parameters()}
    try:
        with PerRecordGradients(module, 1.0) as engine:
            engine.clipped_sum(BATCH)
            assert not any(p.requires_grad for p in module.parameters())
            if fails:
                raise KeyError
    except KeyError:
        pass
    assert {name: p.requires_grad for name, p in module.named_parameters()} == before
    assert not any(layer._forward_hooks for layer in module.modules())
    assert all(p.grad is None for p in module.parameters())


def test_refused_model_keeps_its_trainable_parameters():
    module = TinyModel(Scale())
    refusal(module)
    assert all(p.requires_grad for p in module.parameters())


def test_failed_pass_leaves_nothing_behind_for_the_next():
    module = small_models.gpt2()
    with PerRecordGradients(module, 1.0) as engine:
        expected = engine.clipped_sum(BATCH)
        token_losses(module, BATCH)  # a forward that nobody follows up
        with pytest.raises(IndexError):
            engine.accumulate(TokenBatch.of([[1, 10_000, 3]], START))
        found = engine.clipped_sum(BATCH)
    assert oracles.distance(found.gradients, expected.gradients) == 0.0


def test_gradient_that_is_not_finite_is_an_error_without_text():
    module = small_models.gpt2()
    with torch.no_grad():
        module.transformer.ln_f.weight.fill_(float("inf"))
    with PerRecordGradients(module, 1.0, is_checked=False) as engine, pytest.raises(ModelError, match="not finite"):
        engine.accumulate(BATCH)


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, float("inf"), float("nan")])
def test_clip_norm_that_bounds_nothing_is_refused(clip_norm):
    with pytest.raises(UsageError):
        PerRecordGradients(small_models.gpt2(), clip_norm)


def test_engine_works_only_while_attached():
    with pytest.raises(UsageError, match="not attached"):
        PerRecordGradients(small_models.gpt2(), 1.0).accumulate(BATCH)
