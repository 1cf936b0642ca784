"""Answers in OpenAI's form: whole documents and the events of a stream. Tokens and their number, nothing else.

`completion_tokens` counts every token that was drawn and charged, the end token included, which has no text.
"""

import json
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from reticent.server.refusal import Refusal
from reticent.server.requests.asking import Asked
from reticent.server.scheduling.jobs import Piece


class Form(Protocol):
    """How one of the two kinds of answers is written."""

    prefix: str
    whole: str
    part: str

    def choice(self, index: int, text: str, finish: str) -> dict[str, Any]:
        """One whole answer."""
        ...

    def change(self, index: int, text: str, finish: str | None) -> dict[str, Any]:
        """What one piece adds to an answer."""
        ...

    def opening(self, index: int) -> dict[str, Any] | None:
        """What a stream says before the first piece."""
        ...


class CompletionForm:
    """`/v1/completions`."""

    prefix, whole, part = "cmpl-", "text_completion", "text_completion"

    def choice(self, index: int, text: str, finish: str) -> dict[str, Any]:
        """One whole answer."""
        return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}

    def change(self, index: int, text: str, finish: str | None) -> dict[str, Any]:
        """What one piece adds."""
        return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}

    def opening(self, index: int) -> dict[str, Any] | None:  # noqa: ARG002
        """Nothing."""
        return None


class ChatForm:
    """`/v1/chat/completions`."""

    prefix, whole, part = "chatcmpl-", "chat.completion", "chat.completion.chunk"

    def choice(self, index: int, text: str, finish: str) -> dict[str, Any]:
        """One whole answer."""
        message = {"role": "assistant", "content": text, "refusal": None}
        return {"index": index, "message": message, "logprobs": None, "finish_reason": finish}

    def change(self, index: int, text: str, finish: str | None) -> dict[str, Any]:
        """What one piece adds."""
        delta = {"content": text} if text or finish is None else {}
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}

    def opening(self, index: int) -> dict[str, Any] | None:
        """The role."""
        delta = {"role": "assistant", "content": ""}
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}


def head(form: Form, kind: str, model: str) -> dict[str, Any]:
    """What every document of an answer begins with; the id is random and says nothing."""
    return {
        "id": form.prefix + secrets.token_hex(12),
        "object": kind,
        "created": int(time.time()),
        "model": model,
    }


def usage(asked: Asked, drawn: int) -> dict[str, int]:
    """Counts of tokens: public."""
    return {
        "prompt_tokens": asked.prompt_tokens,
        "completion_tokens": drawn,
        "total_tokens": asked.prompt_tokens + drawn,
    }


def whole_answer(form: Form, asked: Asked, answers: Sequence[Sequence[Piece]], *, model: str) -> dict[str, Any]:
    """The document of an answer that is not streamed."""
    choices = []
    for index, pieces in enumerate(answers):
        text = asked.echoes[index] + "".join(piece.text for piece in pieces)
        choices.append(form.choice(index, text, pieces[-1].finish or "length"))
    document = head(form, form.whole, model)
    return document | {"choices": choices, "usage": usage(asked, sum(map(len, answers)))}


async def events(
    form: Form, asked: Asked, pieces: AsyncGenerator[Piece], *, model: str, with_usage: bool
) -> AsyncGenerator[str]:
    """Server-sent events: a piece each, then the end; an error in the middle ends the stream with its document."""
    start = head(form, form.part, model)
    rest: dict[str, Any] = {"usage": None} if with_usage else {}
    drawn = 0
    for index, echo in enumerate(asked.echoes):
        opening = form.opening(index)
        if opening is not None:
            yield _event(start | {"choices": [opening]} | rest)
        if echo:
            yield _event(start | {"choices": [form.change(index, echo, None)]} | rest)
    try:
        async with aclosing(pieces) as source:
            async for piece in source:
                drawn += 1
                yield _event(start | {"choices": [form.change(piece.index, piece.text, piece.finish)]} | rest)
    except Refusal as refusal:
        yield _event(refusal.document())
        return
    if with_usage:
        yield _event(start | {"choices": [], "usage": usage(asked, drawn)})
    yield "data: [DONE]\n\n"


def _event(document: dict[str, Any]) -> str:
    return f"data: {json.dumps(document, separators=(',', ':'))}\n\n"
