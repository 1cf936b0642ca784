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

Told = Callable[[int], None]  # tokens that were just read or written
Model = TypeVar("Model", bound=TextModel)

CHUNK: Final = 64  # texts after which the caller is told; shards have as many
_CHARACTERS: Final = 4  # of a token, roughly, where only text is seen


def _read(texts: Sequence[Sequence[int]], *_: object) -> int:
    """Tokens of sequences or contexts that a model reads."""
    return sum(map(len, texts))


def _written(*arguments: Any) -> int:
    """Tokens of the answers that a model gave: the last argument, some for each prompt."""
    answers = [answer for row in arguments[-1] for answer in row]
    return sum(len(one) // _CHARACTERS if isinstance(one, str) else len(one) for one in answers)


# For each method, whether its first argument is given in chunks, and the tokens of a call: of arguments and answer.
_WORK: Final[dict[str, tuple[bool, Callable[..., int]]]] = {
    "token_log_probs": (True, _read),
    "position_log_probs": (False, lambda sequence, _: len(sequence)),
    "next_token_log_probs": (False, _read),
    "continuation_log_probs": (False, lambda prefix, rest, _: len(prefix) + _read(rest)),
    "generate": (True, _written),
    "complete": (True, _written),
}


def watched(model: Model, told: Told) -> Model:
    """A copy of the model that tells what it does; the model itself where it cannot be copied so."""
    if not hasattr(model, "__dict__"):
        return model
    copied = copy.copy(model)
    for name in _WORK:
        if (method := getattr(model, name, None)) is not None:
            telling = getattr(method, "telling", None)  # work that is done elsewhere is told by shards
            setattr(copied, name, _telling(name, method, told) if telling is None else telling(told))
    return copied


def _telling(name: str, method: Callable[..., Any], told: Told) -> Callable[..., Any]:
    """A bound method of the original model, so that what it calls inside is told once, and then told of."""
    in_chunks, tokens = _WORK[name]

    def call(first: Sequence[Any], *others: Any, **options: Any) -> Any:
        if not in_chunks:
            answer = method(first, *others, **options)
            told(tokens(first, *others, answer))
            return answer
        result: list[Any] = []
        for start in range(0, len(first), CHUNK):
            chunk = first[start : start + CHUNK]
            answers = method(chunk, *others, **options)
            told(tokens(chunk, *others, answers))
            result += answers
        return result

    return call


def watched_subject(subject: Subject, told: Told) -> Subject:
    """The subject with its model and base watched."""
    base = None if subject.base is None else watched(subject.base, told)
    return replace(subject, model=watched(subject.model, told), base=base)
