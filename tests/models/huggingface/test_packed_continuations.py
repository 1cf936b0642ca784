"""Continuations that share one row: the same numbers as rows of their own, or not packed at all."""

import numpy as np
import pytest
import torch

from reticent.models.huggingface import packed_continuations
from reticent.models.huggingface.packed_continuations import build_trie, can_pack, groups, pays, visible
from tests.models.tiny import CONTEXT, ragged, tiny_llama, tiny_model

CONTINUATIONS = [[1, 2, 3], [1, 2, 4, 5], [6, 7], [], [1], [1, 2, 3]]


def test_a_trie_reads_what_is_shared_once_and_the_last_tokens_never():
    trie = build_trie(CONTINUATIONS)
    assert trie.tokens == [1, 2, 4, 6]
    assert trie.parents == [-1, 0, 1, -1]
    assert trie.depths == [0, 1, 2, 0]
    assert trie.before == [[-1, 0, 1], [-1, 0, 1, 2], [-1, 3], [], [-1], [-1, 0, 1]]


def test_a_node_sees_its_ancestors_alone():
    assert visible(build_trie(CONTINUATIONS)).int().tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [0, 0, 0, 1],
    ]


def test_groups_hold_every_continuation_once_and_stay_small():
    rows = ragged(3, 60, longest=12)
    found = list(groups(rows, 40))
    assert sorted(index for group in found for index in group) == list(range(60))
    assert len(found) > 1
    assert all(len(build_trie([rows[index] for index in group]).tokens) <= 40 for group in found)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "lora"])
@pytest.mark.parametrize("prefix", [0, 1, 9])
def test_packed_scores_equal_rows_of_their_own(kind, prefix, monkeypatch):
    model = tiny_model(kind)
    assert model._packs()
    rows = [*CONTINUATIONS, *ragged(5, 30, longest=CONTEXT - 1 - prefix)]
    start = ragged(6, 1, shortest=prefix, longest=prefix)[0]
    monkeypatch.setattr("reticent.models.huggingface.model.pays", lambda *_: True)
    packed = model.continuation_log_probs(start, rows)
    model._can_pack = False
    for one, other in zip(packed, model.continuation_log_probs(start, rows), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_trie_that_sees_everything_before_it_would_be_caught(monkeypatch):
    monkeypatch.setattr(
        packed_continuations,
        "visible",
        lambda trie: torch.ones(len(trie.tokens), len(trie.tokens), dtype=torch.bool).tril(),
    )
    model = tiny_model("gpt2")
    assert not can_pack(model._core, model.vocabulary_size)


@pytest.mark.parametrize("kind", ["lstm", "window"])
def test_models_that_take_no_mask_of_ours_are_not_packed(kind):
    core = tiny_llama(sliding_window=4) if kind == "window" else tiny_model(kind)._core
    assert not can_pack(core, 40)


def test_packing_pays_for_short_continuations_of_a_long_prefix_alone():
    names = [[i, i + 1, i + 2] for i in range(100)]
    assert pays(names, 150)
    assert not pays([list(range(i, i + 30)) for i in range(0, 3000, 30)], 150)
    assert pays([[1, 2, 3, i] for i in range(100)], 4)  # nearly all of it is shared
