"""Packing: every index once, within the budget, neighbours in length together."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reticent.models.huggingface.batching import LOGIT_BYTES, choose_budget, map_batches, pack, pad_right


@given(st.lists(st.integers(0, 60), max_size=80), st.integers(1, 200), st.none() | st.integers(1, 9))
def test_batches_hold_every_index_once_within_the_budget(
    lengths: list[int], budget: int, most_rows: int | None
) -> None:
    batches = pack(lengths, budget, most_rows=most_rows)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= budget
        assert most_rows is None or len(batch) <= most_rows


@given(st.lists(st.integers(1, 60), max_size=80), st.integers(1, 200))
def test_batches_are_sorted_by_length_and_no_batch_could_take_its_neighbour_s_first_row(
    lengths: list[int], budget: int
) -> None:
    batches = pack(lengths, budget)
    flat = [lengths[index] for batch in batches for index in batch]
    assert flat == sorted(flat, reverse=True)
    for batch in batches[:-1]:
        assert (len(batch) + 1) * lengths[batch[0]] > budget


def test_padding_is_far_less_than_without_sorting() -> None:
    lengths = [5, 200] * 50
    padded = sum(len(batch) * max(lengths[index] for index in batch) for batch in pack(lengths, 1000))
    assert padded <= 1.05 * sum(lengths)  # in the order given it would be 200 × 100, nearly twice as much


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_large_vocabulary_lowers_the_budget_so_that_logits_stay_bounded(device: str) -> None:
    place = torch.device(device)
    assert choose_budget(512, place) >= 1024
    for vocabulary_size in (32_000, 50_257, 256_000):
        assert 1 <= choose_budget(vocabulary_size, place) * vocabulary_size * 4 <= LOGIT_BYTES
    assert choose_budget(2**40, place) == 1


def test_batches_side_by_side_come_back_in_order_and_leave_torch_s_threads_alone() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        modes = map_batches(lambda n: (n, torch.is_inference_mode_enabled()), range(20), device=torch.device("cpu"))
        assert modes == [(n, True) for n in range(20)]
        assert torch.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError):
            map_batches(lambda n: 1 // n, [1, 0], device=torch.device("cpu"))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert not torch.is_inference_mode_enabled()


def test_rows_are_padded_on_the_right() -> None:
    padded = pad_right([[1, 2, 3], [], [4]], 9, device=torch.device("cpu"))
    assert padded.tolist() == [[1, 2, 3], [9, 9, 9], [4, 9, 9]]


def test_a_budget_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        pack([1], 0)
