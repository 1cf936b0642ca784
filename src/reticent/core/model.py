"""What a language model offers to the rest of the system, by how much access there is to it.

Conventions every adapter keeps:

- A sequence is a list of token ids **without** special tokens; `encode` adds none and `decode` expects none.
- Every sequence is conditioned on the model's start token (`start_token`: its BOS, else its EOS), which the adapter
  puts in front and never scores. So token 0 has a log-probability as well, and n tokens have n of them.
- The end token is scored only where the caller appends `end_token` to the sequence.
- Log-probabilities are natural logarithms, computed by a float32 log-softmax at least, returned as float64.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, Protocol, runtime_checkable

from reticent.core.arrays import Floats
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling

Tokens = Sequence[int]
"""A text as a model reads it: the numbers of its tokens."""

CHAT_OPENING: Final = "Write a text."  # what a user of a chat says who asks for anything


def common_length(first: Tokens, second: Tokens) -> int:
    """How many tokens the two begin with in common."""
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))


class Access(IntEnum):
    """How much an adversary sees of a model; each level includes those below it.

    STEPS is every released step of its training: what no finished model grants.
    """

    TEXT = 1
    LOGPROBS = 2
    WEIGHTS = 3
    STEPS = 4


@runtime_checkable
class TextModel(Protocol):
    """A model seen through its text alone."""

    @property
    def name(self) -> str:
        """A short name for tables and messages."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever the weights or the tokenizer do: the model's part of every cache key."""
        ...

    @property
    def access(self) -> Access:
        """What this adapter grants."""
        ...

    def complete(
        self, prompts: Sequence[str], sampling: Sampling, *, count: int, randomness: Randomness
    ) -> list[list[str]]:
        """`count` continuations of each prompt, without the prompt."""
        ...


@runtime_checkable
class LanguageModel(TextModel, Protocol):
    """A model seen through its tokens and their log-probabilities."""

    @property
    def vocabulary_size(self) -> int:
        """Number of entries of a next-token distribution (V)."""
        ...

    @property
    def context_length(self) -> int | None:
        """Longest sequence, start token included, or None without limit."""
        ...

    @property
    def start_token(self) -> int:
        """The token every sequence is conditioned on."""
        ...

    @property
    def end_token(self) -> int | None:
        """The token that ends a text, where the model has one."""
        ...

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, without special tokens."""
        ...

    def decode(self, sequences: Sequence[Tokens]) -> list[str]:
        """Text of each sequence of token ids."""
        ...

    def token_log_probs(self, sequences: Sequence[Tokens]) -> list[Floats]:
        """log p(x_t | start, x_<t) for every token of every sequence: one [T_i] array each."""
        ...

    def next_token_log_probs(self, contexts: Sequence[Tokens]) -> Floats:
        """Next-token log-pmfs [n, V] after each context; an empty context is the start token alone."""
        ...

    def continuation_log_probs(self, prefix: Tokens, continuations: Sequence[Tokens]) -> list[Floats]:
        """log p of every token of every continuation of one prefix, the prefix computed once."""
        ...

    def generate(
        self, prompts: Sequence[Tokens], sampling: Sampling, *, count: int, randomness: Randomness
    ) -> list[list[list[int]]]:
        """`count` sampled continuations of each prompt, without the prompt, cut at the end token."""
        ...
