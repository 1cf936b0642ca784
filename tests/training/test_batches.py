"""Texts as tokens, units and micro-batches: nothing is lost, nothing is cut in secret."""

import numpy as np
import pytest

from reticent.core.corpus import Record
from reticent.core.errors import ConfigError
from reticent.core.guarantee import Unit
from reticent.core.randomness import Randomness
from reticent.training.batches import Units, encode_texts, micro_batches
from tests.models.tiny import tiny_model
from tests.training.small_models import START
from tests.training.small_runs import token_texts


def test_a_text_is_its_tokens_and_the_end_token():
    model = tiny_model()
    encoded = encode_texts(model, [Record("a", "abc", owner="x"), Record("b", "d")])
    assert [text.tolist() for text in encoded.texts] == [
        [*model.encode(["abc"])[0], model.end_token],
        [*model.encode(["d"])[0], model.end_token],
    ]
    assert encoded.owners == ("x", "b")
    assert encoded.shortened == 0
    assert encoded.start_token == model.start_token
    assert "abc" not in repr(encoded)


def test_of_a_long_text_the_first_tokens_are_kept_and_counted():
    model = tiny_model()
    whole = "abcdefgh" * 8
    (text,) = encode_texts(model, [Record("a", whole)]).texts
    assert text.tolist() == model.encode([whole])[0][: model.context_length - 1]
    short = encode_texts(model, [Record("a", whole), Record("b", "abc")], max_length=4)
    assert [len(text) for text in short.texts] == [4, 4]
    assert short.texts[1][-1] == model.end_token  # "abc" and its end fit exactly
    assert short.shortened == 1


@pytest.mark.parametrize("length", [0, 48, 1000])
def test_a_length_the_model_cannot_read_is_refused(length):
    with pytest.raises(ConfigError):
        encode_texts(tiny_model(), [Record("a", "abc")], max_length=length)


def test_owners_are_one_unit_each_and_give_at_most_so_many_texts_chosen_at_random():
    texts = token_texts(20, owners=3)
    units = Units(texts, Unit.OWNER, texts_per_unit=4)
    assert len(units) == 3
    assert len(Units(texts)) == 20
    mine = {text.tobytes() for index, text in enumerate(texts.texts) if index % 3 == 1}
    seen = set()
    source = Randomness.seeded(1)
    for _ in range(30):
        ((*group,),) = units.gather([1], source)
        assert len({id(text) for text in group}) == 4
        seen |= {text.tobytes() for text in group}
    assert seen == mine


def test_a_few_long_texts_do_not_make_the_short_ones_as_wide():
    def widths(long, short):
        groups = [[np.arange(n, dtype=np.int32)] for n in [100] * long + [10] * short]
        return [tuple(batch.inputs.shape) for batch in micro_batches(groups, START, token_budget=10_000)]

    assert widths(6, 40) == [(6, 100), (40, 10)]
    assert widths(2, 40) == [(6, 100), (36, 10)]  # two long texts alone are not worth a pass of their own
    assert widths(2, 3) == [(5, 100)]


def test_micro_batches_hold_every_unit_once_within_the_budget():
    groups = Units(token_texts(30, owners=8), Unit.OWNER, texts_per_unit=3).gather(range(8), Randomness.seeded(0))
    batches = list(micro_batches(groups, START, token_budget=70))
    assert len(batches) > 1
    assert sum(len(batch) for batch in batches) == 8
    assert sum(int(batch.tokens.sum()) for batch in batches) == sum(len(text) for group in groups for text in group)
    assert all(batch.inputs.numel() <= 70 for batch in batches if len(batch) > 1)


def test_no_unit_makes_no_batch_and_a_unit_larger_than_the_budget_is_a_batch_by_itself():
    assert list(micro_batches([], START, token_budget=8)) == []
    groups = [[np.arange(1, 10, dtype=np.int32)], [np.arange(1, 3, dtype=np.int32)]]
    assert [len(batch) for batch in micro_batches(groups, START, token_budget=4)] == [1, 1]
