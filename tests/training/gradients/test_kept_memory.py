"""Freed memory stays while private gradients are made, and goes back afterwards."""

import resource

import pytest
import torch

from reticent.training.gradients import kept_memory
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.record_loss import TokenBatch
from tests.training import small_models

MEGABYTES = 1 << 20
glibc_only = pytest.mark.skipif(kept_memory._mallopt() is None, reason="another C library: nothing is kept")


def new_pages(size: int) -> int:
    """Pages that the system maps when a block of so many bytes is filled, which is freed again."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.empty(size, dtype=torch.uint8).fill_(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.fixture
def thresholds(monkeypatch) -> list[tuple[int, int]]:
    """What glibc is asked for, in order; nothing is changed."""
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(kept_memory, "_mallopt", lambda: lambda name, value: calls.append((name, value)) or 0)
    return calls


def test_freed_memory_is_kept_from_the_first_engine_to_the_last(thresholds):
    kept = [(kept_memory._MMAP_THRESHOLD, 128 * MEGABYTES), (kept_memory._TRIM_THRESHOLD, 64 * MEGABYTES)]
    usual = [(kept_memory._MMAP_THRESHOLD, 32 * MEGABYTES), (kept_memory._TRIM_THRESHOLD, 64 * MEGABYTES)]
    with PerRecordGradients(small_models.gpt2(), 1.0):
        assert thresholds == kept
        with PerRecordGradients(small_models.gpt2(), 1.0):
            assert thresholds == kept
        assert thresholds == kept
    assert thresholds == [*kept, *usual]


@pytest.mark.slow  # pages are counted, and systems with large ones differ
@glibc_only
def test_a_block_that_was_freed_needs_no_new_pages_while_an_engine_is_attached():
    size = 48 * MEGABYTES  # more than glibc keeps by itself
    pages = size // resource.getpagesize()
    new_pages(size)
    assert new_pages(size) > pages // 2  # the control: mapped anew each time
    with PerRecordGradients(small_models.gpt2(), 1.0):
        new_pages(size)
        assert new_pages(size) < pages // 10
    assert new_pages(size) > pages // 2


def test_memory_that_nobody_keeps_cannot_be_given_back():
    with pytest.raises(ValueError, match="no memory is kept"):
        kept_memory.give_back()


def test_an_engine_that_cannot_attach_keeps_no_memory():
    frozen = small_models.gpt2().requires_grad_(False)
    with pytest.raises(Exception, match="no trainable parameter"), PerRecordGradients(frozen, 1.0):
        pass
    assert kept_memory._holders == 0


def test_without_glibc_the_sums_are_the_same(monkeypatch):
    batch = TokenBatch.of([[1, 2, 3], [4, 5]], 0)
    module = small_models.gpt2()
    with PerRecordGradients(module, 1.0) as engine:
        kept = engine.clipped_sum(batch).gradients
    monkeypatch.setattr(kept_memory, "_mallopt", lambda: None)
    with PerRecordGradients(module, 1.0) as engine:
        usual = engine.clipped_sum(batch).gradients
    assert all(torch.equal(kept[name], usual[name]) for name in kept)
