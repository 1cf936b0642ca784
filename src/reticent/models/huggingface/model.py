"""Any Hugging Face causal language model behind the `LanguageModel` protocol, weights included.

Sequences are token ids without special tokens. The start token (BOS, else EOS) is put in front of each and never
scored; the end token is scored only where the caller appends it; sampled continuations stop before it. Batches are
sorted by length, packed by a token budget and padded on the right (`batching`), so the token in column p has
position p. Logits become log-probabilities by a float32 log-softmax at least (`scoring`). Everything comes back in
the order in which it was asked for and does not depend on what else is in the batch, up to floating point.

A model may be in training between calls: dropout is off during a call, and the mode is put back afterwards.
Does not load anything (`loading`), does not download, does not truncate: what is too long is an error.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from reticent.core.arrays import Floats
from reticent.core.errors import ModelError
from reticent.core.model import Access, Tokens
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.models.huggingface.batching import choose_budget, map_batches, pack, pad_right
from reticent.models.huggingface.branches import CachedBranches
from reticent.models.huggingface.decoding import Row, plan_batches, sample_batch
from reticent.models.huggingface.fingerprint import fingerprint, mark
from reticent.models.huggingface.packed_continuations import can_pack, groups, packed_scores, pays
from reticent.models.huggingface.scoring import exact_log_softmax, finite, score
from reticent.models.huggingface.stream import Stream

_PACKED = 256  # tokens of several continuations that share a row, at least
_GROWTH = 16  # cached tokens per token of the budget: keys and values are far smaller than activations and logits


class HuggingFaceModel:
    """A causal `PreTrainedModel` and its tokenizer as a `LanguageModel`.

    `module` is used as it is, where it is; a `PeftModel` counts as well (LoRA and the like, not prompt tuning).
    `token_budget` is the most padded tokens of one forward; None chooses by vocabulary and device.

    `vocabulary_size` is the number of logits (V), which may exceed the tokenizer's vocabulary where the embedding
    is padded; `context_length` the longest sequence, start token included, None for recurrent and other models
    without a position limit; `start_token` what every sequence is conditioned on: BOS, else EOS.
    """

    def __init__(
        self, module: torch.nn.Module, tokenizer: Any, *, name: str = "model", token_budget: int | None = None
    ) -> None:
        base = unwrap(module)
        self.module = module
        self.tokenizer = tokenizer
        self.name = name
        self._core = base
        head, about = base.get_output_embeddings(), base.config.get_text_config()
        self.vocabulary_size = int(about.vocab_size if head is None else head.weight.shape[0])
        self.start_token, self.end_token = special_tokens(base.config, tokenizer, self.vocabulary_size)
        self._token_budget = token_budget or choose_budget(self.vocabulary_size, self.device)
        limit = getattr(about, "max_position_embeddings", None)
        self.context_length = None if limit is None else int(limit)
        self._marked: tuple[object, str] | None = None
        self._can_pack: bool | None = None

    def __repr__(self) -> str:
        return f"HuggingFaceModel({self.name}, {type(self._core).__name__}, {self.device})"

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(iter(self._core.parameters())).device  # type: ignore[no-any-return]

    @property
    def access(self) -> Access:
        """Everything: text, log-probabilities and weights."""
        return Access.WEIGHTS

    @property
    def fingerprint(self) -> str:
        """Hash of weights, configuration, adapter and tokenizer; computed again when weights change in place."""
        marked = (mark(self._core), len(self.tokenizer))
        if self._marked is None or self._marked[0] != marked:
            self._marked = (marked, fingerprint(self._core, self.tokenizer))
        return self._marked[1]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, without special tokens."""
        if not texts:
            return []
        encoded = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return [list(map(int, row)) for row in encoded]

    def token_places(self, texts: Sequence[str]) -> list[list[tuple[int, int]]] | None:
        """The characters (start, end) of each token that `encode` gives; None where the tokenizer cannot tell."""
        if not getattr(self.tokenizer, "is_fast", False):
            return None
        if not texts:
            return []
        asked = {"add_special_tokens": False, "verbose": False, "return_offsets_mapping": True}
        return [list(map(tuple, row)) for row in self.tokenizer(list(texts), **asked)["offset_mapping"]]

    def decode(self, sequences: Sequence[Tokens]) -> list[str]:
        """Text of each sequence, special tokens shown where there are any."""
        return [
            self.tokenizer.decode(list(row), skip_special_tokens=False, clean_up_tokenization_spaces=False)
            for row in sequences
        ]

    def token_log_probs(self, sequences: Sequence[Tokens]) -> list[Floats]:
        """log p(x_t | start, x_<t) for every token of every sequence: one [T_i] array each."""
        self._check(sequences)
        scores: list[Floats] = [np.empty(0) for _ in sequences]
        filled = [index for index, sequence in enumerate(sequences) if len(sequence) > 0]
        batches = [
            [filled[place] for place in batch]
            for batch in pack([len(sequences[index]) for index in filled], self._token_budget)
        ]

        def work(rows: list[int]) -> list[Floats]:
            inputs = [[self.start_token, *sequences[index][:-1]] for index in rows]
            return self._score(Stream(self._core), inputs, [list(sequences[index]) for index in rows])

        with self._inference():
            for rows, values in zip(batches, map_batches(work, batches, device=self.device), strict=True):
                for index, score_of_row in zip(rows, values, strict=True):
                    scores[index] = score_of_row
        return scores

    def next_token_log_probs(self, contexts: Sequence[Tokens]) -> Floats:
        """Next-token log-pmfs [n, V] after each context; an empty context is the start token alone."""
        self._check(contexts)
        result: Floats = np.empty((len(contexts), self.vocabulary_size))
        with self._inference():
            for batch in pack([len(context) + 1 for context in contexts], self._token_budget):
                rows = [[self.start_token, *contexts[index]] for index in batch]
                ends = torch.tensor([len(row) - 1 for row in rows], device=self.device)
                columns, place = torch.unique(ends, return_inverse=True)  # few: neighbours in length share a batch
                logits = Stream(self._core).advance(self._padded(rows), keep=columns, is_last=True)
                last = logits[torch.arange(len(rows), device=self.device), place]  # [n, V]
                result[batch] = exact_log_softmax(last).cpu().numpy()
        return finite(result)

    def position_log_probs(self, sequence: Tokens) -> Floats:
        """Next-token log-pmfs [T, V] before each token of one sequence, from one forward."""
        if len(sequence) == 0:
            return np.empty((0, self.vocabulary_size))
        self._check([sequence])
        with self._inference():
            rows = self._padded([[self.start_token, *sequence[:-1]]])
            logits = Stream(self._core).advance(rows, is_last=True)  # [1, T, V]
            return finite(exact_log_softmax(logits[0]).cpu().numpy())

    def continuation_log_probs(self, prefix: Tokens, continuations: Sequence[Tokens]) -> list[Floats]:
        """log p of every token of every continuation of one prefix, the prefix computed once."""
        return self.opened(prefix).log_probs(continuations)

    def opened(self, prefix: Tokens) -> "OpenedPrefix":
        """The prefix read once, for several calls about what may follow it; good until the weights change."""
        self._check([prefix])
        with self._inference():
            stream = Stream(self._core)
            return OpenedPrefix(self, stream, self._read(stream, [self.start_token, *prefix]))

    def _continue(self, stream: Stream, first: torch.Tensor, continuations: Sequence[Tokens]) -> list[Floats]:
        """Scores of continuations of what `stream` has read, `first` [V] the logits after it."""
        self._check(continuations, room=stream.columns - 1)
        with self._inference():
            if pays(continuations, stream.columns) and self._packs():
                return self._packed(stream, first, continuations)
            return self._by_rows(stream, first, continuations)

    def _packs(self) -> bool:
        """Whether continuations may share one row; tried once, on the device where the model is."""
        if self._can_pack is None:
            self._can_pack = can_pack(self._core, self.vocabulary_size)
        return self._can_pack

    def _packed(self, stream: Stream, first: torch.Tensor, continuations: Sequence[Tokens]) -> list[Floats]:
        """Scores of all continuations, as many in one row as pay: attention grows with the square of the row."""
        scores: list[Floats] = [np.empty(0) for _ in continuations]
        most = max(_PACKED, 4 * stream.columns)
        for group in groups(continuations, min(most, self._token_budget)):
            found = packed_scores(stream, first, [continuations[index] for index in group])
            for index, values in zip(group, found, strict=True):
                scores[index] = values
        return scores

    def _by_rows(self, stream: Stream, first: torch.Tensor, continuations: Sequence[Tokens]) -> list[Floats]:
        """The same with a row for every continuation, for models that take no mask of ours."""
        scores: list[Floats] = [np.empty(len(continuation)) for continuation in continuations]
        start = finite(exact_log_softmax(first).cpu().numpy())  # [V]
        for index, continuation in enumerate(continuations):
            scores[index][:1] = start[list(continuation[:1])]
        longer = [index for index, continuation in enumerate(continuations) if len(continuation) > 1]
        most_rows = max(1, self._token_budget * _GROWTH // stream.columns)
        lengths = [len(continuations[index]) - 1 for index in longer]
        for batch in pack(lengths, self._token_budget, most_rows=most_rows):
            rows = [longer[place] for place in batch]
            fork = stream.copy()
            fork.select(torch.zeros(len(rows), dtype=torch.long, device=self.device))
            inputs = [list(continuations[index][:-1]) for index in rows]
            targets = [list(continuations[index][1:]) for index in rows]
            for index, values in zip(rows, self._score(fork, inputs, targets), strict=True):
                scores[index][1:] = values
        return scores

    def branches(self, prefix: Tokens) -> CachedBranches:
        """Short continuations of one prefix that grow together through the cache, for searches."""
        self._check([prefix])
        return CachedBranches(self._core, [self.start_token, *prefix], inference=self._inference)

    def generate(
        self, prompts: Sequence[Tokens], sampling: Sampling, *, count: int, randomness: Randomness
    ) -> list[list[list[int]]]:
        """`count` sampled continuations of each prompt, without the prompt, cut before the end token.

        Draws come from `randomness` alone, one a token, so that a seeded source repeats itself.
        """
        if count < 1:
            raise ValueError("count must be at least 1")
        self._check(prompts, room=sampling.max_tokens)
        starts = [(self.start_token, *prompt) for prompt in prompts]
        rows = [Row(start, index) for index, start in enumerate(starts) for _ in range(count)]
        results: list[list[list[int]]] = [[] for _ in prompts]
        budget = self._token_budget * _GROWTH
        batches = plan_batches(rows, token_budget=budget, max_tokens=sampling.max_tokens)
        with self._inference():
            for batch in batches:
                uniforms = randomness.uniform((len(batch), sampling.max_tokens))
                stream = Stream(self._core)
                sampled = sample_batch(stream, batch, sampling, end_token=self.end_token, uniforms=uniforms)
                for row, tokens in zip(batch, sampled, strict=True):
                    results[row.prompt_index].append(tokens)
        return results

    def complete(
        self, prompts: Sequence[str], sampling: Sampling, *, count: int, randomness: Randomness
    ) -> list[list[str]]:
        """`count` continuations of each prompt as text, without the prompt."""
        encoded = self.encode(prompts)
        sampled = self.generate(encoded, sampling, count=count, randomness=randomness)
        return [self._texts_after(prompt, rows) for prompt, rows in zip(encoded, sampled, strict=True)]

    def _texts_after(self, prompt: Tokens, continuations: Sequence[Tokens]) -> list[str]:
        """Continuations as text. Decoded with the prompt: some tokenizers drop the space a text begins with."""
        (before,) = self.decode([prompt])
        whole = self.decode([[*prompt, *tokens] for tokens in continuations])
        alone = self.decode(continuations)
        return [
            text.removeprefix(before) if text.startswith(before) else plain
            for text, plain in zip(whole, alone, strict=True)
        ]

    @contextmanager
    def _inference(self) -> Iterator[None]:
        """No gradients and no dropout; the mode the module was in is put back."""
        was_training = self._core.training
        # Setting the mode of every layer takes as long as a small model does for a token: only where it is needed.
        if any(layer.training for layer in self._core.modules()):
            self._core.eval()
        try:
            with torch.inference_mode():
                yield
        finally:
            if was_training:
                self._core.train()

    def _padded(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        return pad_right(rows, self.start_token, device=self.device)

    def _score(self, stream: Stream, inputs: list[list[int]], targets: list[list[int]]) -> list[Floats]:
        """Scores of ragged rows, each cut to its own length."""
        values = score(
            stream, self._padded(inputs), self._padded(targets), vocabulary_size=self.vocabulary_size
        )  # [n, T]
        return [row[: len(wanted)].copy() for row, wanted in zip(values, targets, strict=True)]

    def _read(self, stream: Stream, tokens: Sequence[int]) -> torch.Tensor:
        """Read one row, a piece at a time, and give the logits [V] after its last token."""
        columns = self._padded([tokens])
        for piece in torch.split(columns, self._token_budget, dim=1):
            keep = torch.tensor([piece.shape[1] - 1], device=self.device)
            logits = stream.advance(piece, keep=keep)
        return logits[0, -1]

    def _check(self, sequences: Sequence[Tokens], *, room: int = 0) -> None:
        """Refuse what does not fit the context with `room` more tokens, and ids that are none."""
        limit = self.context_length
        for index, sequence in enumerate(sequences):
            length = len(sequence) + 1 + room
            if limit is not None and length > limit:
                raise ModelError(
                    f"sequence {index} is too long for the model '{self.name}'",
                    found=f"{length} tokens ({len(sequence)}, the start token"
                    + (f" and {room} before or after it)" if room else ")"),
                    expected=f"at most {limit}",
                    hint="split the text into shorter pieces, or ask for fewer tokens",
                )
            if len(sequence) > 0 and not 0 <= min(sequence) <= max(sequence) < self.vocabulary_size:
                raise ModelError(
                    f"sequence {index} has a token id that the model '{self.name}' does not have",
                    expected=f"ids from 0 to {self.vocabulary_size - 1}",
                    hint="encode the text with this model's own tokenizer",
                )


class OpenedPrefix:
    """A prefix that a model has read: scores of continuations, in as many calls as there are questions."""

    def __init__(self, model: HuggingFaceModel, stream: Stream, first: torch.Tensor) -> None:
        self._model, self._stream, self._first = model, stream, first

    def log_probs(self, continuations: Sequence[Tokens]) -> list[Floats]:
        """log p of every token of every continuation."""
        return self._model._continue(self._stream, self._first, continuations)


def unwrap(module: Any) -> Any:
    """The `PreTrainedModel` inside a `PeftModel`, adapters in its layers; any other module as it is.

    Prompt tuning is refused: its virtual tokens stand in the wrapper's forward, not in the layers.
    """
    if not hasattr(module, "get_base_model"):
        return module
    if any(settings.is_prompt_learning for settings in module.peft_config.values()):
        raise ModelError("prompt tuning is not supported", expected="an adapter inside the weights, such as LoRA")
    return module.get_base_model()


def special_tokens(config: Any, tokenizer: Any, vocabulary_size: int) -> tuple[int, int | None]:
    """Start token (BOS, else EOS) and end token; the tokenizer's word counts before the configuration's."""

    def first(attribute: str) -> int | None:
        for source in (tokenizer, config.get_text_config()):
            value = getattr(source, attribute, None)
            value = value[0] if isinstance(value, list | tuple) and value else value
            if isinstance(value, int) and 0 <= value < vocabulary_size:
                return value
        return None

    end = first("eos_token_id")
    start = first("bos_token_id")
    start = end if start is None else start
    if start is None:
        raise ModelError(
            "the model has no start token: neither its tokenizer nor its configuration names a BOS or EOS token",
            hint="set bos_token in the model's tokenizer_config.json to the token its training texts began with",
        )
    return start, end
