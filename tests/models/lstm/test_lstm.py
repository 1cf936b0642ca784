"""The LSTM: three ways to compute one layer, the state as a cache, padding, and the transformers machinery."""

import copy
import sys

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

from reticent.core.errors import ModelError
from reticent.models.lstm.layer import LSTMLayer
from reticent.models.lstm.model import PRESETS, LSTMConfig, LSTMForCausalLM, LSTMState, register_lstm
from tests.patience import PATIENCE
from tests.processes import PROCESSES

VOCABULARY = 23
PAD = 2


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def small(layers: int = 2, *, tied: bool = False, embedding: int | None = None, dropout: float = 0.0):
    config = LSTMConfig(
        vocab_size=VOCABULARY,
        hidden_size=12,
        num_hidden_layers=layers,
        embedding_size=embedding,
        tie_word_embeddings=tied,
        dropout=dropout,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=PAD,
    )
    return LSTMForCausalLM(config).eval()


def tokens(rows: int, steps: int):
    return torch.randint(3, VOCABULARY, (rows, steps))


def twin(layer: LSTMLayer, input_size: int) -> nn.LSTM:
    """torch's LSTM with the layer's own weights: the oracle."""
    oracle = nn.LSTM(input_size, layer.hidden_size, batch_first=True).to(layer.input.weight.dtype)
    weights = {
        "weight_ih_l0": layer.input.weight,
        "weight_hh_l0": layer.hidden.weight,
        "bias_ih_l0": layer.input.bias,
        "bias_hh_l0": layer.hidden.bias,
    }
    oracle.load_state_dict({name: value.detach() for name, value in weights.items()})
    return oracle


class Wrapped(nn.Module):
    """Something that is not nn.Linear and computes the same, as an adapter layer would."""

    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


def listen(layer: LSTMLayer) -> None:
    for module in (layer.input, layer.hidden):
        module.register_forward_hook(lambda *_: None)


def wrap(layer: LSTMLayer) -> None:
    layer.input, layer.hidden = Wrapped(layer.input), Wrapped(layer.hidden)


@pytest.mark.parametrize("change", [lambda layer: None, listen, wrap], ids=["fused", "linear form", "stepwise"])
def test_each_way_equals_torch_lstm_in_outputs_state_and_every_gradient(change):
    layer = LSTMLayer(5, 7).double()
    oracle = twin(layer, 5)
    linears = (layer.input, layer.hidden)
    change(layer)
    x = torch.randn(3, 6, 5, dtype=torch.float64, requires_grad=True)
    h = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    c = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(3, 6, 7, dtype=torch.float64)

    def everything(run, parameters):
        out, h_end, c_end = run()
        loss = (out * weight).sum() + h_end.square().sum() + (3 * c_end).sin().sum()
        return [out, h_end, c_end, *torch.autograd.grad(loss, [x, h, c, *parameters])]

    def reference():
        out, (h_end, c_end) = oracle(x, (h[None], c[None]))
        return out, h_end[0], c_end[0]

    ours = everything(lambda: layer(x, h, c), [p for linear in linears for p in (linear.weight, linear.bias)])
    theirs = everything(reference, [oracle.weight_ih_l0, oracle.bias_ih_l0, oracle.weight_hh_l0, oracle.bias_hh_l0])
    for mine, true in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, true, rtol=1e-9, atol=1e-10)


def hooked_record_gradients(layer: LSTMLayer, x: torch.Tensor, loss_weight: torch.Tensor):
    """Per-record gradients by the rule for nn.Linear, from what its hooks see, one call each."""
    seen: dict[nn.Module, list[torch.Tensor]] = {layer.input: [], layer.hidden: []}
    deltas: dict[nn.Module, list[torch.Tensor]] = {layer.input: [], layer.hidden: []}

    def forward_hook(module, args, output):
        seen[module].append(args[0].detach())
        output.register_hook(lambda gradient: deltas[module].append(gradient))

    for module in (layer.input, layer.hidden):
        module.register_forward_hook(forward_hook)
    state = x.new_zeros(x.shape[0], layer.hidden_size)
    (layer(x, state, state)[0] * loss_weight).sum().backward()
    assert [len(values) for values in seen.values()] == [1, 1]
    return [torch.einsum("btg,bti->bgi", deltas[m][0], seen[m][0]) for m in (layer.input, layer.hidden)]


def test_linear_rule_gives_per_record_gradients_equal_to_one_record_at_a_time():
    layer = LSTMLayer(5, 7).double()
    x, loss_weight = torch.randn(4, 6, 5, dtype=torch.float64), torch.randn(4, 6, 7, dtype=torch.float64)
    by_rule = hooked_record_gradients(copy.deepcopy(layer), x, loss_weight)
    oracle = twin(layer, 5)
    for record in range(4):
        oracle.zero_grad()
        (oracle(x[record : record + 1])[0] * loss_weight[record]).sum().backward()
        torch.testing.assert_close(by_rule[0][record], oracle.weight_ih_l0.grad, rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(by_rule[1][record], oracle.weight_hh_l0.grad, rtol=1e-9, atol=1e-10)


def test_the_per_record_check_catches_a_recurrence_that_does_not_reach_back_in_time(monkeypatch):
    # The broken twin: with W_hh hidden from the scan, gradients stop at their own step.
    from reticent.models.lstm import layer as lstm_layer

    layer = LSTMLayer(5, 7).double()
    x, loss_weight = torch.randn(4, 6, 5, dtype=torch.float64), torch.randn(4, 6, 7, dtype=torch.float64)
    right = hooked_record_gradients(copy.deepcopy(layer), x, loss_weight)
    scan = lstm_layer._Scan.apply
    monkeypatch.setattr(lstm_layer._Scan, "apply", lambda a, w, h, c: scan(a, torch.zeros_like(w), h, c))
    wrong = hooked_record_gradients(copy.deepcopy(layer), x, loss_weight)
    assert not torch.allclose(right[1], wrong[1], rtol=1e-3)


def test_a_batch_equals_its_rows_one_at_a_time():
    model, ids = small(), tokens(4, 9)
    together = model(ids).logits
    alone = torch.cat([model(ids[row : row + 1]).logits for row in range(4)])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cut", [1, 4, 8])
def test_passing_the_state_back_continues_the_sequence(cut):
    model, ids = small(), tokens(3, 9)
    whole = model(ids)
    first = model(ids[:, :cut])
    second = model(ids[:, cut:], past_key_values=first.past_key_values)
    torch.testing.assert_close(torch.cat([first.logits, second.logits], 1), whole.logits, rtol=1e-5, atol=1e-6)
    assert second.past_key_values.get_seq_length() == 9
    torch.testing.assert_close(second.past_key_values.cell, whole.past_key_values.cell, rtol=1e-5, atol=1e-6)


def test_a_forward_does_not_change_the_state_it_was_given():
    model, ids = small(), tokens(2, 6)
    state = model(ids[:, :3]).past_key_values
    before = state.copy()
    model(ids[:, 3:], past_key_values=state)
    assert torch.equal(state.hidden, before.hidden)
    assert torch.equal(state.cell, before.cell)
    assert state.length == 3


MASKS = {
    "right": [[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0]],
    "left": [[1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 1]],
    "holes": [[1, 1, 0, 1, 1, 0], [0, 1, 0, 1, 0, 1], [0, 0, 1, 0, 0, 0]],
}


@pytest.mark.parametrize("listened", [False, True])
@pytest.mark.parametrize("kind", MASKS)
def test_hidden_positions_touch_neither_logits_nor_state_wherever_they_stand(kind, listened):
    model, ids = small(), tokens(3, 6)
    if listened:
        listen(model.layers[0])
    mask = torch.tensor(MASKS[kind])
    masked = model(ids, attention_mask=mask)
    following = tokens(3, 2)
    continued = model(
        following,
        past_key_values=masked.past_key_values,
        attention_mask=torch.cat([mask, torch.ones(3, 2).long()], 1),
    )
    for row in range(3):
        visible = mask[row].bool()
        alone = model(ids[row][visible][None])
        torch.testing.assert_close(masked.logits[row, visible], alone.logits[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(
            masked.past_key_values.cell[:, row], alone.past_key_values.cell[:, 0], rtol=1e-5, atol=1e-6
        )
        # The last position shows the next-token logits of a ragged row, whatever padding stands there.
        torch.testing.assert_close(masked.logits[row, -1], alone.logits[0, -1], rtol=1e-5, atol=1e-6)
        whole = model(torch.cat([ids[row][visible], following[row]])[None])
        torch.testing.assert_close(continued.logits[row], whole.logits[0, -2:], rtol=1e-5, atol=1e-6)
    assert torch.allclose(model(ids, attention_mask=mask, use_cache=False).logits, masked.logits, atol=1e-6)


def test_the_padding_check_catches_a_model_that_reads_its_padding():
    model, ids = small(), tokens(3, 6)
    mask = torch.tensor(MASKS["left"])
    reading, skipping = model(ids), model(ids, attention_mask=mask)
    assert not torch.allclose(reading.logits[2, -1], skipping.logits[2, -1], atol=1e-4)


def test_a_row_that_is_all_padding_keeps_its_state():
    model, ids = small(), tokens(2, 3)
    state = model(ids).past_key_values
    mask = torch.tensor([[1, 1], [0, 0]])
    after = model(tokens(2, 2), past_key_values=state, attention_mask=mask).past_key_values
    assert torch.equal(after.hidden[:, 1], state.hidden[:, 1])
    assert torch.equal(after.cell[:, 1], state.cell[:, 1])
    assert not torch.equal(after.cell[:, 0], state.cell[:, 0])


def test_state_rows_can_be_repeated_selected_reordered_and_reset():
    model, ids = small(), tokens(3, 4)
    state = model(ids).past_key_values
    repeated = state.copy()
    repeated.batch_repeat_interleave(2)
    assert repeated.batch_size == 6
    assert torch.equal(repeated.hidden[:, 3], state.hidden[:, 1])
    chosen = state.copy()
    chosen.batch_select_indices(torch.tensor([2, 0]))
    assert torch.equal(chosen.cell, state.cell[:, [2, 0]])
    chosen.reorder_cache(torch.tensor([1, 0]))
    assert torch.equal(chosen.cell, state.cell[:, [0, 2]])
    chosen.reset()
    assert chosen.get_seq_length() == 0
    assert not chosen.hidden.any()
    state.crop(0)
    with pytest.raises(ModelError, match="shortened"):
        state.crop(1)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("embedding", [None, 5])
def test_saved_then_loaded_by_the_auto_classes_is_the_identity(tmp_path, tied, embedding):
    model, ids = small(tied=tied, embedding=embedding), tokens(2, 5)
    model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").is_file()
    register_lstm()
    register_lstm()
    assert isinstance(AutoConfig.from_pretrained(tmp_path), LSTMConfig)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert isinstance(loaded, LSTMForCausalLM)
    assert torch.equal(loaded(ids).logits, model(ids).logits)
    shares = loaded.lm_head.weight.data_ptr() == loaded.embed_tokens.weight.data_ptr()
    assert shares == tied


def end_by_what_is_known():
    """Exit code 0 where transformers does not know the LSTM, though the module above is imported."""
    assert "reticent.models.lstm.model" in sys.modules
    try:
        AutoConfig.for_model("reticent_lstm")
    except ValueError:
        sys.exit(0)
    sys.exit(1)


def test_importing_the_module_registers_nothing():
    process = PROCESSES.Process(target=end_by_what_is_known)
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0


# Embedding V·E, layers 4H(E+H)+8H and 4H(2H)+8H, head V·H+V; tied: no second matrix, a projection where E ≠ H.
COUNTS = {
    ("1x200", False): 1000 * 200 + 321_600 + 1000 * 200 + 1000,
    ("2x200", False): 1000 * 200 + 2 * 321_600 + 1000 * 200 + 1000,
    ("1x512", False): 1000 * 160 + 4 * 512 * (160 + 512) + 8 * 512 + 1000 * 512 + 1000,
    ("2x512", False): 1000 * 512 + 2 * (8 * 512 * 512 + 8 * 512) + 1000 * 512 + 1000,
    ("2x200", True): 1000 * 200 + 2 * 321_600 + 1000,
    ("1x512", True): 1000 * 160 + 4 * 512 * (160 + 512) + 8 * 512 + 512 * 160 + 1000,
}


@pytest.mark.parametrize(("name", "tied"), COUNTS)
def test_presets_have_the_papers_sizes(name, tied):
    model = LSTMForCausalLM(LSTMConfig.preset(name, 1000, tied=tied))
    assert sum(parameter.numel() for parameter in model.parameters()) == COUNTS[name, tied]
    assert f"{model.config.num_hidden_layers}x{model.config.hidden_size}" == name
    assert model.config.dropout == PRESETS[name][3]


def test_weights_start_as_those_of_torch_lstm_and_the_head_starts_near_uniform():
    model = LSTMForCausalLM(LSTMConfig.preset("2x200", 500))
    bound = 200**-0.5
    for layer in model.layers:
        for parameter in layer.parameters():
            assert 0.95 * bound < parameter.abs().max().item() <= bound
    assert not model.lm_head.bias.any()
    entropy = torch.distributions.Categorical(logits=model(torch.randint(0, 500, (1, 5))).logits).entropy()
    assert (entropy > 0.99 * torch.log(torch.tensor(500.0))).all()


def test_greedy_generation_equals_a_loop_without_cache_for_left_padded_prompts():
    model = small()
    prompts = torch.tensor([[5, 6, 7, 8], [PAD, PAD, 9, 10]])
    mask = (prompts != PAD).long()
    cached = model.generate(prompts, attention_mask=mask, max_new_tokens=6, do_sample=False, eos_token_id=None)
    for row in range(2):
        sequence = prompts[row][mask[row].bool()]
        for _ in range(6):
            following = model(sequence[None]).logits[0, -1].argmax()
            sequence = torch.cat([sequence, following[None]])
        assert cached[row, 4:].tolist() == sequence[-6:].tolist()


def test_beam_search_with_and_without_the_state_agree():
    model, ids = small(), tokens(2, 4)
    options = {"max_new_tokens": 5, "num_beams": 3, "do_sample": False, "eos_token_id": None}
    assert torch.equal(model.generate(ids, **options), model.generate(ids, use_cache=False, **options))


def test_sampling_draws_several_continuations():
    model, ids = small(), tokens(1, 4)
    drawn = model.generate(ids, do_sample=True, num_return_sequences=4, max_new_tokens=8, eos_token_id=None)
    assert drawn.shape == (4, 12)
    assert len({tuple(row.tolist()) for row in drawn}) > 1


def test_loss_is_the_mean_negative_log_likelihood_of_the_next_tokens():
    model, ids = small(), tokens(2, 7)
    labels = ids.clone()
    labels[1, 4:] = -100
    output = model(ids, labels=labels)
    log_probs = model(ids).logits.log_softmax(-1)
    scored = [log_probs[b, t, ids[b, t + 1]] for b, end in ((0, 7), (1, 4)) for t in range(end - 1)]
    torch.testing.assert_close(output.loss, -torch.stack(scored).mean())


def test_a_few_steps_of_descent_learn_a_sequence():
    model, ids = small(1, dropout=0.1).train(), tokens(1, 10)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(150):
        optimiser.zero_grad()
        model(ids, labels=ids).loss.backward()
        optimiser.step()
    assert model.eval()(ids, labels=ids).loss < 0.1


def test_logits_to_keep_and_embeddings_as_input():
    model, ids = small(), tokens(2, 5)
    everything = model(ids).logits
    assert torch.allclose(model(ids, logits_to_keep=1).logits, everything[:, -1:], atol=1e-6)
    assert torch.allclose(model(ids, logits_to_keep=torch.tensor([0, 3])).logits, everything[:, [0, 3]], atol=1e-6)
    assert torch.equal(model(inputs_embeds=model.embed_tokens(ids)).logits, everything)
    assert isinstance(model(ids, return_dict=False), tuple)
    assert model(ids, use_cache=False).past_key_values is None


def test_lora_on_the_gates_starts_as_the_model_itself_and_trains():
    from peft import LoraConfig, get_peft_model

    model, ids = small(), tokens(2, 5)
    before = model(ids).logits.detach()
    adapted = get_peft_model(model, LoraConfig(r=2, target_modules=["input", "hidden"], task_type="CAUSAL_LM"))
    torch.testing.assert_close(adapted(input_ids=ids).logits, before, rtol=1e-5, atol=1e-6)
    adapted(input_ids=ids, labels=ids).loss.backward()
    gradients = [p.grad for name, p in adapted.named_parameters() if "lora_B" in name]
    assert len(gradients) == 4
    assert all(gradient.abs().sum() > 0 for gradient in gradients)


@pytest.mark.parametrize(
    "call",
    [
        lambda model, ids: model(),
        lambda model, ids: model(ids, inputs_embeds=model.embed_tokens(ids)),
        lambda model, ids: model(ids, past_key_values=DynamicCache()),
        lambda model, ids: model(ids, past_key_values=model(ids[:1]).past_key_values),
        lambda model, ids: model(ids, attention_mask=torch.ones(2, 3)),
        lambda model, ids: model(ids, labels=ids, logits_to_keep=1),
        lambda model, ids: model(ids, output_hidden_states=True),
    ],
    ids=[
        "no input",
        "two inputs",
        "a foreign cache",
        "another batch's state",
        "a short mask",
        "cut loss",
        "extras",
    ],
)
def test_what_cannot_be_done_is_refused_in_words(call):
    with pytest.raises(ModelError):
        call(small(), tokens(2, 5))


@pytest.mark.parametrize(
    "fields", [{"hidden_size": 0}, {"num_hidden_layers": 0}, {"dropout": 1.0}, {"embedding_size": -1}]
)
def test_sizes_that_make_no_model_are_refused(fields):
    with pytest.raises(ModelError):
        LSTMConfig(**fields)


def test_an_unknown_size_is_refused_with_the_known_ones():
    with pytest.raises(ModelError, match="1x200, 2x200, 1x512, 2x512"):
        LSTMConfig.preset("3x100", 10)


def test_the_state_says_its_shape_and_nothing_else():
    assert repr(LSTMState(torch.zeros(2, 3, 4), torch.zeros(2, 3, 4), 7)) == (
        "LSTMState(layers=2, batch_size=3, length=7)"
    )
