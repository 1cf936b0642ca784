"""How far an attack is, told by the work its models do: tokens read and written, against what was planned.

`watched` gives a copy of a model whose methods also tell how many tokens went through them, a chunk of texts at a
time. The copy shares the weights and answers as the model does. No attack needs to know.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from reticent.auditing.subject import Subject
from reticent.core.model import TextModel
from reticent.core.sampling import Sampling

Told = Callable[[int], None]  # tokens that were just read or written
Model = TypeVar("Model", bound=TextModel)

CHUNK: Final = 64  # texts after which the caller is told; shards have as many
_CHARACTERS: Final = 4  # of a token, roughly, where only text is seen


def watched(model: Model, told: Told) -> Model:
    """A copy of the model that tells what it does; the model itself where it cannot be copied so."""
    if not hasattr(model, "__dict__"):
        return model
    copied = copy.copy(model)
    teller = _Teller(told)
    for name, chunked in (
        ("token_log_probs", teller.sequences),
        ("position_log_probs", teller.sequence),
        ("next_token_log_probs", teller.contexts),
        ("continuation_log_probs", teller.continuations),
        ("generate", teller.samples),
        ("complete", teller.samples),
    ):
        if (method := getattr(model, name, None)) is not None:
            telling = getattr(method, "telling", None)  # work that is done elsewhere is told by shards
            setattr(copied, name, chunked(method) if telling is None else telling(told))
    return copied


def watched_subject(subject: Subject, told: Told) -> Subject:
    """The subject with its model and base watched."""
    base = None if subject.base is None else watched(subject.base, told)
    return replace(subject, model=watched(subject.model, told), base=base)


class _Teller:
    """Wraps bound methods of the original model, so that what one calls inside another is told once."""

    def __init__(self, told: Told) -> None:
        self._told = told

    def sequences(self, method: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def call(sequences: Sequence[Sequence[int]]) -> list[Any]:
            result = []
            for start in range(0, len(sequences), CHUNK):
                chunk = sequences[start : start + CHUNK]
                result += method(chunk)
                self._told(sum(map(len, chunk)))
            return result

        return call

    def sequence(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(sequence: Sequence[int]) -> Any:
            result = method(sequence)
            self._told(len(sequence))
            return result

        return call

    def contexts(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(contexts: Sequence[Sequence[int]]) -> Any:
            result = method(contexts)
            self._told(sum(map(len, contexts)))
            return result

        return call

    def continuations(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(prefix: Sequence[int], continuations: Sequence[Sequence[int]]) -> Any:
            result = method(prefix, continuations)
            self._told(len(prefix) + sum(map(len, continuations)))
            return result

        return call

    def samples(self, method: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def call(prompts: Sequence[Any], sampling: Sampling, **options: Any) -> list[Any]:
            result = []
            for start in range(0, len(prompts), CHUNK):
                answers = method(prompts[start : start + CHUNK], sampling, **options)
                result += answers
                self._told(sum(_length(answer) for row in answers for answer in row))
            return result

        return call


def _length(answer: Sequence[int] | str) -> int:
    """Tokens of an answer."""
    return len(answer) // _CHARACTERS if isinstance(answer, str) else len(answer)
