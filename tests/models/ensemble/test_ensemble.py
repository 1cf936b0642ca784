"""Adapters read in one batch equal peft's models one at a time: rows, caches, prompts, texts of any lengths."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from reticent.core.ensemble import MassStreams
from reticent.core.errors import ModelError
from reticent.models.ensemble.adapters import AdapterEnsemble, EnsembleMember
from reticent.models.ensemble.decoder import packed_product
from reticent.models.ensemble.key_value_cache import KeyValueCache
from reticent.models.ensemble.stack import StackedFactors, read_adapter
from reticent.models.ensemble.streams import AdapterStreams
from reticent.models.huggingface.model import HuggingFaceModel
from tests.models.ensemble.small_ensembles import both, save_adapters
from tests.models.tiny import CONTEXT, VOCABULARY_SIZE, ragged, tiny_gpt2, tiny_llama, tiny_tokenizer

CLOSE = 1e-4  # nats, on log-probabilities down to −20
BASES = {"llama": tiny_llama, "gpt2": tiny_gpt2}


@pytest.fixture(scope="module", params=sorted(BASES))
def pair(request, tmp_path_factory):
    """Three adapters in all layers of a base, in one batch and one at a time."""
    base = BASES[request.param]()
    return both(base, save_adapters(base, tmp_path_factory.mktemp(request.param), 3))


def grown(ensemble, text, *, prompt):
    """log-pmfs [T − prompt, 1 + rows, V] of a text read token by token through a stream."""
    streams = ensemble.streams()
    handle = streams.open(text[:prompt])
    rows = []
    for token in text[prompt:]:
        rows.append(streams.look_up([handle])[0])
        streams.append(handle, token)
    streams.close(handle)
    return np.stack(rows)


def test_every_row_equals_its_own_peft_model(pair):
    batched, separate = pair
    for text in ragged(1, 4, shortest=1):
        found, expected = batched.position_log_probs(text), separate.position_log_probs(text)
        assert found.shape == (len(text), 4, VOCABULARY_SIZE)
        assert found.dtype == np.float64
        assert np.abs(found - expected).max() < CLOSE
        assert np.abs(np.exp(found).sum(axis=-1) - 1).max() < 1e-7
    assert min(np.abs(expected[:, row] - expected[:, 0]).max() for row in (1, 2, 3)) > 0.1  # adapters do something


def test_public_row_is_the_base_itself(pair):
    batched, separate = pair
    text = ragged(2, 1, shortest=20)[0]
    expected = separate.public.position_log_probs(text)
    assert np.abs(batched.position_log_probs(text)[:, 0] - expected).max() < CLOSE
    assert np.abs(batched.public.position_log_probs(text) - expected).max() < CLOSE  # whose weights are views now


def test_cached_tokens_equal_a_whole_reading(pair):
    batched, separate = pair
    text = ragged(3, 1, shortest=40)[0]
    whole = separate.position_log_probs(text)
    for ensemble in pair:
        for prompt in (0, 1, 17):
            assert np.abs(grown(ensemble, text, prompt=prompt) - whole[prompt:]).max() < CLOSE
    assert np.abs(batched.position_log_probs(text) - whole).max() < CLOSE


def test_texts_of_different_lengths_together_equal_each_alone(pair):
    batched, separate = pair
    texts = ragged(4, 5, shortest=12, longest=40)
    expected = [separate.position_log_probs(text) for text in texts]
    streams = batched.streams()
    starts = [0, 3, 11, 5, 9]
    handles = [streams.open(text[:start]) for text, start in zip(texts, starts, strict=True)]
    generator = np.random.default_rng(0)
    places = list(starts)
    for _ in range(30):  # any of the texts, in any order: a server's continuous batch
        chosen = [int(i) for i in generator.permutation(5)[: generator.integers(1, 6)] if places[i] < len(texts[i])]
        if not chosen:
            continue
        found = streams.look_up([handles[i] for i in chosen])
        for row, i in zip(found, chosen, strict=True):
            assert np.abs(row - expected[i][places[i]]).max() < CLOSE
            streams.append(handles[i], texts[i][places[i]])
            places[i] += 1


def test_looking_up_again_gives_the_same_and_changes_nothing(pair):
    for ensemble in pair:
        streams = ensemble.streams()
        handle = streams.open([5, 6, 7])
        first = streams.look_up([handle])
        assert np.array_equal(first, streams.look_up([handle]))
        streams.append(handle, 9)
        expected = ensemble.position_log_probs([5, 6, 7, 9, 3])[-1]
        assert np.abs(streams.look_up([handle])[0] - expected).max() < CLOSE


def test_shared_bottom_layers_equal_unshared_ones(tmp_path):
    base = tiny_llama()
    batched, separate = both(base, save_adapters(base, tmp_path, 3, layers=(1,)))
    assert batched.decoder.first_adapted == 1
    assert [buffer.shape[1] for buffer in batched.decoder.new_cache()._keys] == [1, 4]
    texts = ragged(5, 3, shortest=8)
    streams = batched.streams()
    handles = [streams.open(text[:-1]) for text in texts]
    found = streams.look_up(handles)
    for row, text in zip(found, texts, strict=True):
        expected = separate.position_log_probs(text)
        assert np.abs(row - expected[-1]).max() < CLOSE
        assert np.abs(batched.position_log_probs(text) - expected).max() < CLOSE


def test_a_known_beginning_is_copied_and_gives_the_same(pair, monkeypatch):
    batched, separate = pair
    streams = batched.streams()
    text = ragged(6, 1, shortest=40)[0]
    first = streams.open(text[:30])
    streams.look_up([first])
    streams.append(first, 3)
    streams.look_up([first])
    streams.close(first)
    shapes = readings(monkeypatch, batched)
    second = streams.open([*text[:20], 7, 8])
    found = streams.look_up([second])[0]
    assert shapes == [
        (1, 1),
        (1, 1),
    ]  # 21 of 23 tokens were known, start token included; the last is the look-up itself
    assert np.abs(found - separate.position_log_probs([*text[:20], 7, 8, 3])[-1]).max() < CLOSE


def readings(monkeypatch, ensemble):
    """The shape [n, t] of the tokens of every forward from now on."""
    shapes, read = [], type(ensemble.decoder).read
    monkeypatch.setattr(
        type(ensemble.decoder),
        "read",
        lambda self, tokens, **k: shapes.append(tuple(tokens.shape)) or read(self, tokens, **k),
    )
    return shapes


def test_prompts_that_arrive_together_are_read_together(pair, monkeypatch):
    batched, separate = pair
    shapes = readings(monkeypatch, batched)
    texts = [text[:length] for text, length in zip(ragged(8, 4, shortest=20), (12, 9, 12, 6), strict=True)]
    streams = batched.streams()
    found = streams.look_up([streams.open(text) for text in texts])
    # As far as the shortest goes, then the others; the start token is known after none. The last is the look-up.
    assert shapes == [(4, 6), (3, 3), (2, 3), (4, 1)]
    for row, text in zip(found, texts, strict=True):
        assert np.abs(row - separate.position_log_probs([*text, 1])[-1]).max() < CLOSE


def test_a_prompt_that_several_texts_share_is_read_once(pair, monkeypatch):
    batched, separate = pair
    shapes = readings(monkeypatch, batched)
    text = ragged(9, 1, shortest=20)[0][:16]
    streams = batched.streams()
    found = streams.look_up([streams.open([*text, *end]) for end in ([], [], [3], [4])])
    assert shapes == [(1, 16), (1, 1), (4, 1)]  # the fourth has all before its end from the third
    for row, end in zip(found, ([], [], [3], [4]), strict=True):
        assert np.abs(row - separate.position_log_probs([*text, *end, 1])[-1]).max() < CLOSE


@pytest.mark.parametrize("most", [1, 5, 7, 100])
def test_prompts_that_are_read_in_pieces_give_the_same(pair, monkeypatch, most):
    batched, separate = pair
    monkeypatch.setattr("reticent.models.ensemble.streams.COPIED", 4)  # a copy takes a piece by itself
    shapes = readings(monkeypatch, batched)
    long, other = (text[:18] for text in ragged(12, 2, shortest=20))
    texts = [long, long, [*long[:9], 3], other[:6]]
    streams = batched.streams()
    handles = [streams.open(text) for text in texts]
    pieces = 0
    while not all(streams.read_ahead(handles, most=most)):
        pieces += 1
        assert pieces < 100
    assert max(columns * count for count, columns in shapes) <= most
    assert pieces >= 22 // most
    found = streams.look_up(handles)
    assert shapes[-1] == (4, 1)
    for row, text in zip(found, texts, strict=True):
        assert np.abs(row - separate.position_log_probs([*text, 1])[-1]).max() < CLOSE


def test_texts_that_are_looked_up_together_come_to_stand_side_by_side(pair):
    batched, separate = pair
    streams = batched.streams()
    texts = ragged(10, 12, shortest=12)
    handles = [streams.open(text[:5]) for text in texts]
    streams.look_up(handles)
    for gone in (1, 4, 5, 9, 10):
        streams.close(handles[gone])  # four are remembered, one slot is free
    left = [number for number in range(12) if number not in (1, 4, 5, 9, 10)]
    remembered = {tuple(prompt) for prompt in streams._closed.values()}
    for number in left:
        streams.append(handles[number], texts[number][5])
    found = streams.look_up([handles[number] for number in left])
    slots = sorted(streams._texts[handles[number]].slot for number in left)
    assert slots == list(range(slots[0], slots[0] + len(left)))
    for row, number in zip(found, left, strict=True):
        assert np.abs(row - separate.position_log_probs(texts[number][:7])[-1]).max() < CLOSE
    # Whatever was in their way is where they were, and still good.
    assert {tuple(prompt) for prompt in streams._closed.values()} == remembered
    taken = [text.slot for text in streams._texts.values()]
    assert sorted([*taken, *streams._closed, *streams._free]) == list(range(12))
    again = streams.open(texts[9][:6])
    expected = separate.position_log_probs(texts[9][:7])[-1]
    assert np.abs(streams.look_up([again])[0] - expected).max() < CLOSE


def test_what_overflowed_in_one_text_does_not_reach_the_next_in_its_slot(pair):
    batched, separate = pair
    streams = AdapterStreams(batched.decoder, batched.public, remembered=0)
    long, short = ragged(11, 2, shortest=30)
    first, second = streams.open(long[:20]), streams.open(short[:3])
    streams.look_up([first, second])
    with torch.inference_mode():
        for buffer in (*streams._cache._keys, *streams._cache._values):
            buffer[streams._texts[first].slot, :, :, 10:21] = np.nan  # to the last column that it has
    streams.close(first)
    third, fourth = streams.open(short[:4]), streams.open(long[5:25])
    found = streams.look_up([second, third, fourth])
    for row, text in zip(found, (short[:3], short[:4], long[5:25]), strict=True):
        assert np.abs(row - separate.position_log_probs([*text, 1])[-1]).max() < CLOSE


def test_a_prompt_that_is_asked_again_is_read_where_it_is_and_one_that_is_needed_stays(pair, monkeypatch):
    batched, separate = pair
    streams = AdapterStreams(batched.decoder, batched.public, remembered=2)
    prompt = ragged(19, 1, shortest=20)[0][:12]
    first = streams.open(prompt)
    streams.look_up([first])
    slot = streams._texts[first].slot
    streams.close(first)
    copies = []
    copy_columns = streams._cache.copy
    monkeypatch.setattr(streams._cache, "copy", lambda *a, **k: (copies.append(a), copy_columns(*a, **k)))
    for text, is_copied in ((prompt, False), ([*prompt, 3, 4], False), (prompt[:8], True)):
        handle = streams.open(text)
        found = streams.look_up([handle])[0]
        assert np.abs(found - separate.position_log_probs([*text, 1])[-1]).max() < CLOSE
        assert (streams._texts[handle].slot != slot) is bool(copies) is is_copied
        streams.close(handle)
    assert {len(each) for each in streams._closed.values()} == {9, 15}  # with the start token: both are remembered


def poison(streams):
    """Overwrite all that no open text and no remembered prompt has of the columns that were ever written."""
    kept = {text.slot: text.read for text in streams._texts.values() if text.slot is not None}
    kept |= {slot: len(prompt) for slot, prompt in streams._closed.items()}
    for slot, written in streams._cache._written.items():
        for buffer in (*streams._cache._keys, *streams._cache._values):
            left = buffer[slot, :, :, kept.get(slot, 0) : written]
            left[left != 0.0] = np.nan


def gaps_of_a_course(pair):
    """How far look-ups are from what each text gives by itself, while texts come, go and move among left-overs."""
    batched, separate = pair
    draw = np.random.default_rng(5)
    streams = AdapterStreams(batched.decoder, batched.public, remembered=2)
    words = ragged(17, 8, shortest=30)
    texts, gaps = {}, []
    for step in range(30):
        while len(texts) < 4:
            text = words[step % 8][: draw.integers(2, 25)]  # some begin alike
            texts[streams.open(text)] = list(text)
        chosen = [handle for handle in texts if draw.random() < 0.6] or list(texts)[:1]
        for handle, row in zip(chosen, streams.look_up(chosen), strict=True):
            gaps.append(np.abs(row - separate.position_log_probs([*texts[handle], 1])[-1]).max())
            texts[handle].append(int(draw.integers(1, 20)))
            streams.append(handle, texts[handle][-1])
        for handle in [handle for handle in texts if draw.random() < 0.2 or len(texts[handle]) > 28]:
            streams.close(handle)
            del texts[handle]
        with torch.inference_mode():
            poison(streams)
    return gaps


def test_left_overs_never_count_however_texts_come_go_and_move(pair):
    assert max(gaps_of_a_course(pair)) < CLOSE


def test_the_course_catches_a_cache_that_leaves_left_overs_in_place(pair, monkeypatch):
    def forget(self, slots, *, ends):
        for slot, end in zip(slots, ends, strict=True):
            self._written[slot] = max(self._written[slot], end)

    monkeypatch.setattr(KeyValueCache, "uncover", forget)
    with pytest.raises(ModelError, match="not numbers"):
        gaps_of_a_course(pair)


@pytest.mark.parametrize("is_lazy", [True, False])
def test_texts_keep_what_was_read_when_the_cache_grows(pair, monkeypatch, is_lazy):
    batched, separate = pair
    monkeypatch.setattr("reticent.models.ensemble.key_value_cache._COLUMNS", 2)
    monkeypatch.setattr("reticent.models.ensemble.key_value_cache._AHEAD", 0)
    monkeypatch.setattr(KeyValueCache, "_is_lazy", is_lazy)
    streams = batched.streams()
    texts = [text[: 3 + number] for number, text in enumerate(ragged(13, 6, shortest=12))]
    handles, sizes = [], set()
    for text in texts:
        handles.append(streams.open(text))
        found = streams.look_up(handles)
        sizes.add((streams._cache.slots, streams._cache.capacity))
    assert len(sizes) > 2
    for row, text in zip(found, texts, strict=True):
        assert np.abs(row - separate.position_log_probs([*text, 1])[-1]).max() < CLOSE


def test_closed_texts_are_forgotten_when_nothing_is_remembered(tmp_path):
    base = tiny_gpt2()
    batched, _ = both(base, save_adapters(base, tmp_path, 2), remembered=0)
    streams = batched.streams()
    for _ in range(5):
        handle = streams.open([5, 6, 7, 8])
        streams.look_up([handle])
        streams.close(handle)
    assert streams._closed == {}
    assert streams._cache._used == 1  # the slot is used again
    with pytest.raises(ValueError, match="no open text"):
        streams.look_up([handle])


def test_halves_have_two_rows_a_part(tmp_path):
    base = tiny_gpt2()
    batched, separate = both(base, save_adapters(base, tmp_path, 4), halves=True)
    assert batched.rows == separate.rows == (0, 0, 1, 1)
    assert batched.parts == ("part-00", "part-01")
    assert batched.position_log_probs([4, 5]).shape == (2, 5, VOCABULARY_SIZE)


def test_fingerprint_changes_with_any_weight_and_with_the_order_of_members(tmp_path):
    base = tiny_gpt2()
    paths = save_adapters(base, tmp_path, 2)

    def fingerprint(module, order=(0, 1)):
        members = [EnsembleMember(row, paths[index]) for row, index in enumerate(order)]
        return AdapterEnsemble(HuggingFaceModel(module, tiny_tokenizer()), members, parts=["a", "b"]).fingerprint

    first = fingerprint(copy.deepcopy(base))
    assert fingerprint(copy.deepcopy(base)) == first
    assert fingerprint(copy.deepcopy(base), (1, 0)) != first
    assert fingerprint(tiny_gpt2(1)) != first
    file = paths[1] / "adapter_model.safetensors"
    tensors = load_file(file)
    name = sorted(tensors)[0]
    tensors[name].view(-1)[0] += 1e-3
    save_file(tensors, file)
    assert fingerprint(copy.deepcopy(base)) != first


def test_adapter_on_the_wrong_row_is_caught(pair):
    """A broken twin: adapters applied one row too early give other numbers, so the comparison above has teeth."""
    batched, separate = pair
    text = ragged(7, 1, shortest=10)[0]
    twin = copy.copy(batched.decoder)
    twin._adapters = tuple(
        layer
        and dataclasses.replace(
            layer,
            **{
                field.name: StackedFactors(each.down.roll(1, 0), each.up.roll(1, 0))
                for field in dataclasses.fields(layer)
                if (each := getattr(layer, field.name)) is not None
            },
        )
        for layer in twin._adapters
    )
    with torch.inference_mode():
        tokens = torch.tensor([[1, *text[:-1]]])
        hidden = twin.read(tokens, cache=twin.new_cache(), slots=[0], starts=[0])
        found = twin.log_probs(hidden[:, 0])
    assert np.abs(found - separate.position_log_probs(text)).max() > 0.1


def test_rslora_scale_is_read_and_other_adapters_are_refused(tmp_path):
    base = tiny_gpt2()
    batched, separate = both(base, save_adapters(base, tmp_path / "rs", 1, use_rslora=True))
    assert np.abs(batched.position_log_probs([4, 5]) - separate.position_log_probs([4, 5])).max() < CLOSE
    with pytest.raises(ModelError, match="more than a plain LoRA"):
        read_adapter(save_adapters(base, tmp_path / "dora", 1, use_dora=True)[0])
    with pytest.raises(ModelError, match="not a plain LoRA"):
        read_adapter(save_adapters(base, tmp_path / "bias", 1, bias="lora_only")[0])


def test_architectures_that_read_otherwise_are_refused(tmp_path):
    base = tiny_llama(sliding_window=6)
    paths = save_adapters(base, tmp_path, 1)
    with pytest.raises(ModelError, match="sliding window"):
        AdapterEnsemble(HuggingFaceModel(base, tiny_tokenizer()), [EnsembleMember(0, paths[0])], parts=["a"])


def test_a_base_that_computes_otherwise_is_refused(tmp_path):
    base = tiny_gpt2()
    paths = save_adapters(base, tmp_path, 1)
    base.lm_head.register_forward_hook(lambda module, inputs, output: output * 1.5)
    with pytest.raises(ModelError, match="does not repeat"):
        AdapterEnsemble(HuggingFaceModel(base, tiny_tokenizer()), [EnsembleMember(0, paths[0])], parts=["a"])


def test_texts_that_do_not_fit_are_refused(pair):
    for ensemble in pair:
        streams = ensemble.streams()
        with pytest.raises(ModelError, match="too long"):
            streams.open([4] * CONTEXT)
        with pytest.raises(ModelError, match="token id"):
            streams.open([VOCABULARY_SIZE])
        handle = streams.open([4] * (CONTEXT - 1))
        assert streams.look_up([handle]).shape == (1, 4, VOCABULARY_SIZE)
        with pytest.raises(ModelError, match="too long"):
            streams.append(handle, 4)
        with pytest.raises(ValueError, match="once at a time"):
            streams.look_up([handle, handle])


def test_masses_are_the_same_look_up_as_chances(pair):
    batched, _ = pair
    streams, again = batched.streams(), batched.streams()
    texts = ragged(12, 3, shortest=6, longest=12)
    handles, others = ([each.open(text) for text in texts] for each in (streams, again))
    for order in ([0, 1, 2], [2, 0], [1]):
        masses = streams.look_up_masses([handles[i] for i in order])
        assert masses.dtype == np.float32
        expected = np.exp(again.look_up([others[i] for i in order]))
        assert np.abs(masses / expected - 1.0).max() < 1e-4
    assert isinstance(streams, MassStreams)


@pytest.mark.parametrize("bias", [False, True])
def test_a_packed_product_equals_the_plain_one(bias):
    torch.manual_seed(0)
    matrix, added = torch.randn(24, 300), torch.randn(300) if bias else None
    product = packed_product(matrix, added)
    assert product is not None
    with torch.inference_mode():
        for shape in ((1, 24), (17, 24), (3, 5, 24)):
            x = torch.randn(shape)
            expected = x @ matrix if added is None else x @ matrix + added
            assert torch.allclose(product(x), expected, atol=1e-4)


def test_what_cannot_be_packed_is_multiplied_plainly(monkeypatch, tmp_path):
    assert packed_product(torch.randn(4, 6, dtype=torch.float64), None) is None
    base = tiny_llama()
    paths = save_adapters(base, tmp_path, 2)
    packed, _ = both(base, paths)
    monkeypatch.setattr("reticent.models.ensemble.decoder.packed_product", lambda *_: None)
    plain, _ = both(base, paths)
    text = ragged(13, 1, shortest=9)[0]
    assert np.abs(packed.position_log_probs(text) - plain.position_log_probs(text)).max() < CLOSE
