"""An LSTM language model as a `PreTrainedModel`: embedding, LSTM layers, linear head (Zaremba et al. 2014).

Dropout stands on the non-recurrent connections: after the embedding and after every layer. A tied head shares its
matrix with the embedding, through a projection where the two sizes differ (Press and Wolf 2017). The named sizes
are those of the papers that are reproduced (layers × hidden units; embeddings as wide, 160 for 1×512).

The recurrent state is the cache: `past_key_values` is an `LSTMState`, a *new* one from every forward, and passing
it back continues the sequence. Positions that `attention_mask` hides do not touch the state, wherever they stand,
and their logits are those of the last visible position. Without a mask every position counts.

Importing this module registers nothing: call `register_lstm` before the Auto classes are to know the model. There
is no attention, no position ids (the state knows where it is; they are accepted and unused), no longest context.
"""

from typing import Any, ClassVar, Final

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils.generic import can_return_tuple

from reticent.core.errors import ModelError
from reticent.models.lstm.layer import LSTMLayer

# layers, hidden units, embedding, dropout
PRESETS: Final[dict[str, tuple[int, int, int, float]]] = {
    "1x200": (1, 200, 200, 0.0),  # Zhao et al. 2022 (CRT), appendix A.3
    "2x200": (2, 200, 200, 0.0),  # Zanella-Béguelin et al. 2020, Penn Treebank ("small" of Zaremba et al. 2014)
    "1x512": (1, 512, 160, 0.1),  # Zanella-Béguelin et al. 2020, Reddit
    "2x512": (2, 512, 512, 0.1),  # Zanella-Béguelin et al. 2020, WikiText-103
}


class LSTMConfig(PretrainedConfig):  # type: ignore[misc]
    """Sizes of an LSTM language model. `embedding_size` None means as wide as the hidden state."""

    model_type: ClassVar[str] = "reticent_lstm"

    vocab_size: int = 10_000
    hidden_size: int = 200
    num_hidden_layers: int = 1
    embedding_size: int | None = None
    dropout: float = 0.0
    tie_word_embeddings: bool = False
    initializer_range: float = 0.1
    use_cache: bool = True
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    pad_token_id: int | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        """Refuse sizes that make no model."""
        if self.embedding_size is None:
            self.embedding_size = self.hidden_size
        sizes = {
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "num_hidden_layers": self.num_hidden_layers,
            "embedding_size": self.embedding_size,
        }
        for name, size in sizes.items():
            if size < 1:
                raise ModelError(f"an LSTM's {name} is too small", found=size, expected="at least 1")
        if not 0.0 <= self.dropout < 1.0:
            raise ModelError("an LSTM's dropout is a probability", found=self.dropout, expected="0 <= dropout < 1")
        super().__post_init__(**kwargs)

    @classmethod
    def preset(
        cls, name: str, vocab_size: int, *, tied: bool = False, dropout: float | None = None, **tokens: int
    ) -> "LSTMConfig":
        """One of the papers' sizes; `dropout` None is the paper's, `tokens` are `bos_token_id` and the like."""
        if name not in PRESETS:
            raise ModelError("unknown LSTM size", found=repr(name), expected=", ".join(PRESETS))
        layers, hidden, embedding, usual = PRESETS[name]
        return cls(
            vocab_size=vocab_size,
            hidden_size=hidden,
            num_hidden_layers=layers,
            embedding_size=embedding,
            dropout=usual if dropout is None else dropout,
            tie_word_embeddings=tied,
            **tokens,
        )


class LSTMState:
    """The recurrent state of a batch, with the methods of a transformers cache that make sense for it.

    `hidden` and `cell` are [layers, B, H]; `length` counts the positions seen, hidden ones included.
    """

    is_compileable: ClassVar[bool] = False
    is_croppable: ClassVar[bool] = False
    is_initialized: ClassVar[bool] = True

    def __init__(self, hidden: Tensor, cell: Tensor, length: int) -> None:
        self.hidden = hidden
        self.cell = cell
        self.length = length

    def __repr__(self) -> str:
        return f"LSTMState(layers={self.hidden.shape[0]}, batch_size={self.batch_size}, length={self.length})"

    @property
    def batch_size(self) -> int:
        """Rows of the batch."""
        return self.hidden.shape[1]

    def get_seq_length(self, layer_idx: int = 0) -> int:  # noqa: ARG002  (the protocol's signature)
        """Positions seen so far, hidden ones included, as the attention mask counts them."""
        return self.length

    def get_max_length(self, layer_idx: int | None = None) -> int:  # noqa: ARG002
        """-1: the state never fills up."""
        return -1

    def copy(self) -> "LSTMState":
        """The same state in its own memory."""
        return LSTMState(self.hidden.clone(), self.cell.clone(), self.length)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep the rows `indices`, in that order, in place."""
        where = indices.to(self.hidden.device)
        self.hidden, self.cell = self.hidden.index_select(1, where), self.cell.index_select(1, where)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Rows in the order of the beams, in place."""
        self.batch_select_indices(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each row `repeats` times, one after another, in place."""
        self.hidden = self.hidden.repeat_interleave(repeats, dim=1)
        self.cell = self.cell.repeat_interleave(repeats, dim=1)

    def reset(self) -> None:
        """Back to the start of a sequence, in place."""
        self.hidden, self.cell, self.length = torch.zeros_like(self.hidden), torch.zeros_like(self.cell), 0

    def crop(self, tokens_to_remove: int) -> None:
        """Refused: a recurrent state cannot forget its last tokens."""
        if tokens_to_remove != 0:
            raise ModelError(
                "an LSTM's state cannot be shortened", hint="keep `state.copy()` from before the tokens instead"
            )


class LSTMForCausalLM(PreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """An LSTM language model: embedding, layers, head."""

    config_class = LSTMConfig
    main_input_name = "input_ids"
    _tied_weights_keys: ClassVar[dict[str, str]] = {"lm_head.weight": "embed_tokens.weight"}
    _no_split_modules: ClassVar[list[str]] = ["LSTMLayer"]

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__(config)
        widths = [config.embedding_size or config.hidden_size] + [config.hidden_size] * config.num_hidden_layers
        self.embed_tokens = nn.Embedding(config.vocab_size, widths[0])
        self.layers = nn.ModuleList(LSTMLayer(width, config.hidden_size) for width in widths[:-1])
        self.dropout = nn.Dropout(config.dropout)
        projects = config.tie_word_embeddings and widths[0] != config.hidden_size
        self.projection = nn.Linear(config.hidden_size, widths[0], bias=False) if projects else nn.Identity()
        self.lm_head = nn.Linear(widths[0] if projects else config.hidden_size, config.vocab_size)
        self.post_init()

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        """False: `generate` must not make a key-value cache; the first forward makes the state."""
        return False

    def _init_weights(self, module: nn.Module) -> None:
        """Layers as `nn.LSTM` (uniform, 1/√H); embedding, projection and head uniform, head bias 0."""
        # By leaf module: transformers passes over a module that has no parameters of its own.
        if not isinstance(module, nn.Linear | nn.Embedding):
            return
        inside = isinstance(module, nn.Linear) and module not in (self.lm_head, self.projection)
        bound = self.config.hidden_size**-0.5 if inside else self.config.initializer_range
        init.uniform_(module.weight, -bound, bound)
        if inside:
            init.uniform_(module.bias, -bound, bound)
        elif module is self.lm_head:
            init.zeros_(module.bias)

    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,  # noqa: ARG002  (see the module's text)
        past_key_values: LSTMState | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> CausalLMOutputWithPast:
        """Logits [B, T, V] (only the last `logits_to_keep` where asked), the loss where labels [B, T] are given."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ModelError("an LSTM's forward takes input_ids or inputs_embeds", expected="exactly one of them")
        if output_attentions or output_hidden_states:
            raise ModelError("an LSTM returns no attentions and no hidden states", hint="leave both options out")
        if labels is not None and not (isinstance(logits_to_keep, int) and logits_to_keep == 0):
            raise ModelError("labels need the logits of all positions", hint="leave logits_to_keep out")
        x = self.dropout(self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds)  # [B, T, E]
        start = self._start(past_key_values, x)
        visible = _visible(attention_mask, x, past=start.length)
        wanted = self.config.use_cache if use_cache is None else use_cache
        outputs, state = self._run(x, start, visible, ends=wanted)
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(self.projection(outputs[:, kept]))
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels, vocab_size=self.config.vocab_size)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=state if wanted else None)

    def _start(self, past: LSTMState | None, x: Tensor) -> LSTMState:
        """The state to start from: zeros, or the one that was passed back."""
        shape = (self.config.num_hidden_layers, x.shape[0], self.config.hidden_size)
        if past is None:
            return LSTMState(x.new_zeros(shape), x.new_zeros(shape), 0)
        if not isinstance(past, LSTMState):
            raise ModelError(
                "an LSTM's past_key_values is its own state",
                found=type(past).__name__,
                expected="LSTMState or None",
                hint="pass None at first, then the past_key_values of the output",
            )
        if past.hidden.shape != shape:
            raise ModelError(
                "the LSTM's state is that of another batch", found=tuple(past.hidden.shape), expected=str(shape)
            )
        return past

    def _run(self, x: Tensor, start: LSTMState, visible: Tensor | None, *, ends: bool) -> tuple[Tensor, LSTMState]:
        """Outputs of the last layer [B, T, H] and the state after each row's last visible position.

        Without `ends` nobody reads that state, and the layers may take their faster way, which does not know it.
        """
        length = start.length + x.shape[1]
        lengths = None
        if visible is not None:  # visible positions to the left, in their order; hidden ones behind them
            lengths = visible.sum(dim=1)  # [B]
            x = _pick(x, visible.logical_not().int().argsort(dim=1, stable=True)[:, : max(1, int(lengths.max()))])
        hidden, cell = [], []
        for layer, h, c in zip(self.layers, start.hidden, start.cell, strict=True):
            x, h_end, c_end = layer(x, h, c, lengths if ends else None)
            x = self.dropout(x)
            hidden.append(h_end)
            cell.append(c_end)
        if visible is not None:  # back to where they stood; a hidden position shows the last visible one before it
            seen = visible.long().cumsum(dim=1)  # [B, T]
            shown = _pick(x, (seen - 1).clamp(min=0))
            x = torch.where((seen > 0).unsqueeze(-1), shown, start.hidden[-1].unsqueeze(1))
        return x, LSTMState(torch.stack(hidden), torch.stack(cell), length)


def _pick(values: Tensor, index: Tensor) -> Tensor:
    """Positions `index` [B, S] of `values` [B, T, W], row by row."""
    return values.gather(1, index.unsqueeze(-1).expand(-1, -1, values.shape[-1]))


def _visible(mask: Tensor | None, x: Tensor, *, past: int) -> Tensor | None:
    """Which of the new positions count [B, T], or None where all do. A mask may cover the past as well."""
    if mask is None:
        return None
    rows, steps = x.shape[:2]
    if tuple(mask.shape) not in ((rows, steps), (rows, past + steps)):
        raise ModelError(
            "an LSTM's attention mask must cover the new positions, or the past and the new ones",
            found=tuple(mask.shape),
            expected=f"({rows}, {steps}) or ({rows}, {past + steps})",
        )
    visible = mask[:, -steps:].to(device=x.device, dtype=torch.bool)
    return None if bool(visible.all()) else visible


def register_lstm() -> None:
    """Let AutoConfig and AutoModelForCausalLM know the LSTM. May be called any number of times."""
    AutoConfig.register(LSTMConfig.model_type, LSTMConfig, exist_ok=True)
    AutoModelForCausalLM.register(LSTMConfig, LSTMForCausalLM, exist_ok=True)
