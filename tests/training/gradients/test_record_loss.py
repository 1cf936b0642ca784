"""A loss per record depends on that record alone."""

import pytest
import torch

from reticent.training.gradients.record_loss import IGNORED, TokenBatch, record_losses, token_losses
from tests.training import small_models
from tests.training.gradients import oracles
from tests.training.small_models import START

TEXTS = [[5, 6, 7, 8], [9], [3, 3]]


def test_rows_start_with_the_start_token_and_score_every_token():
    batch = TokenBatch.of(TEXTS, START)
    assert batch.inputs.tolist() == [[START, 5, 6, 7], [START, 0, 0, 0], [START, 3, 0, 0]]
    assert batch.targets[1].tolist() == [9, IGNORED, IGNORED, IGNORED]
    assert batch.tokens.tolist() == [4, 1, 2]


@pytest.mark.parametrize("kind", ["gpt2", "llama", "lstm"])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_loss_equals_that_of_the_record_alone_whatever_stands_beside_it(kind, reduction):
    module = getattr(small_models, kind)().double()
    found = record_losses(module, TokenBatch.of(TEXTS, START), reduction=reduction).detach()
    for text, loss in zip(TEXTS, found, strict=True):
        expected = oracles.nll_of_tokens(module, text, START).detach() / (len(text) if reduction == "mean" else 1)
        assert float(loss) == pytest.approx(float(expected), rel=1e-12)


def test_padding_contributes_nothing_whatever_it_holds():
    module = small_models.gpt2().double()
    batch = TokenBatch.of(TEXTS, START)
    other = TokenBatch(torch.where(batch.tokens.unsqueeze(1) > torch.arange(4), batch.inputs, 17), batch.targets)
    assert torch.equal(record_losses(module, batch), record_losses(module, other))


def test_groups_are_one_record_each_and_the_empty_one_has_no_loss():
    module = small_models.gpt2().double()
    batch = TokenBatch.of_groups([[TEXTS[0], TEXTS[1]], [TEXTS[2]], []], START)
    losses = record_losses(module, batch, reduction="sum")
    alone = [float(oracles.nll_of_tokens(module, text, START).detach()) for text in TEXTS]
    assert losses.tolist() == pytest.approx([alone[0] + alone[1], alone[2], 0.0], rel=1e-12)
    assert batch.tokens.tolist() == [5, 2, 0]


def test_empty_batch_has_no_losses_and_no_micro_batches():
    batch = TokenBatch.of([], START)
    assert record_losses(small_models.gpt2(), batch).shape == (0,)
    assert batch.split(4) == []


def test_select_keeps_order_and_drops_needless_padding():
    batch = TokenBatch.of(TEXTS, START).select([2, 1])
    assert batch.inputs.tolist() == [[START, 3], [START, 0]]
    assert batch.targets.tolist() == [[3, 3], [9, IGNORED]]


def test_micro_batches_hold_every_record_once():
    parts = TokenBatch.of(TEXTS, START).split(2)
    assert [len(part) for part in parts] == [2, 1]
    assert torch.cat([part.tokens for part in parts]).tolist() == [4, 1, 2]


def test_position_ids_have_a_row_per_record():
    seen = {}
    module = small_models.gpt2()
    module.transformer.wpe.register_forward_hook(lambda layer, args, output: seen.update(shape=args[0].shape))
    token_losses(module, TokenBatch.of(TEXTS, START))
    assert seen["shape"] == (3, 4)


def test_text_of_a_batch_is_not_in_its_repr():
    assert repr(TokenBatch.of(TEXTS, START)) == "TokenBatch(3 records, 4 tokens wide)"


def test_unknown_reduction_is_refused():
    with pytest.raises(ValueError, match="reduction"):
        record_losses(small_models.gpt2(), TokenBatch.of(TEXTS, START), reduction="batch")
