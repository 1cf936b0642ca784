"""The requests and answers of an OpenAI-compatible server, as pure functions on JSON.

Text goes to `/v1/completions`, or, as a user's message, to `/v1/chat/completions`, which never scores a prompt.

Two ways to score a prompt are known; vLLM offers both, other servers the second at most:

- **prompt_logprobs**: a list with, for each prompt token, null or {token id: {"logprob": …}};
- **echo** with `logprobs`: the answer's `token_logprobs` begin with those of the prompt, the first one null.

Sequences go as token ids, start token first, so that nothing depends on how the server would tokenize or which
special tokens it would add. Whatever an answer lacks, or has too much of, is an error: a log-probability that sits
at the wrong token is worse than none. vLLM writes -inf as -9999.0, and so it is read.
"""

import math
from typing import Any, Final, Literal

import numpy as np

from reticent.core.arrays import Floats
from reticent.core.errors import AccessError, ModelError
from reticent.core.model import CHAT_OPENING, Tokens
from reticent.core.sampling import Sampling

Scoring = Literal["echo", "prompt_logprobs"]

COMPLETIONS: Final = "/v1/completions"
CHAT: Final = "/v1/chat/completions"
SCORINGS: Final[tuple[Scoring, ...]] = ("prompt_logprobs", "echo")
# vLLM samples by the model's own `generation_config.json` where a request is silent; these say "unchanged".
EXTENSIONS: Final[dict[str, Any]] = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
_TOKEN_ID: Final = "token_id:"
_MINUS_INFINITY: Final = -9999.0
_ROUNDING: Final = 1e-3  # a log-probability of a half-precision server may come out above 0 by so much


def request(prompt: str | list[int], *, chat: bool) -> tuple[str, dict[str, Any]]:
    """The path and the part of a request that hold the prompt; in a chat nothing is said by asking for any text."""
    if not chat:
        return COMPLETIONS, {"prompt": prompt}
    if not isinstance(prompt, str):
        raise AccessError("a chat takes text, not tokens")
    return CHAT, {"messages": [{"role": "user", "content": prompt or CHAT_OPENING}]}


def sampling_fields(sampling: Sampling, *, extensions: bool) -> dict[str, Any]:
    """The fields that say how to sample; what the server cannot do is an error, never left out."""
    temperature = sampling.temperature_at(0)
    if isinstance(sampling.temperature, tuple) and set(sampling.temperature) != {temperature}:
        raise AccessError("a remote model cannot change its temperature by position", hint="use one temperature")
    fields: dict[str, Any] = {
        "max_tokens": sampling.max_tokens,
        "temperature": temperature,
        "top_p": 1.0 if sampling.top_p is None else sampling.top_p,
    }
    if extensions:
        fields |= EXTENSIONS
    if sampling.top_k is not None and temperature > 0.0:
        if not extensions:
            raise AccessError(
                "this server does not offer top-k sampling", hint="use top_p, or a server such as vLLM"
            )
        fields["top_k"] = sampling.top_k
    return fields


def scoring_fields(scoring: Scoring, *, extensions: bool) -> dict[str, Any]:
    """The fields of a request that scores its prompt; one token is sampled because servers refuse none."""
    fields: dict[str, Any] = {"max_tokens": 1, "temperature": 1.0, "top_p": 1.0}
    if extensions:
        fields |= EXTENSIONS
    if scoring == "echo":
        ids = {"return_tokens_as_token_ids": True} if extensions else {}
        return fields | {"echo": True, "logprobs": 1} | ids
    return fields | {"prompt_logprobs": 0}


def choices(answer: Any, count: int) -> list[dict[str, Any]]:
    """The `count` choices of an answer, by index."""
    found = answer.get("choices") if isinstance(answer, dict) else None
    if not isinstance(found, list) or len(found) != count or not all(isinstance(choice, dict) for choice in found):
        length = len(found) if isinstance(found, list) else "none"
        raise ModelError("the server returned another number of choices", found=length, expected=str(count))
    return sorted(found, key=lambda choice: _integer(choice.get("index", 0)))


def text_of(choice: dict[str, Any]) -> str:
    """The text of a choice; a message without content (a refusal, say) is an empty one."""
    message = choice.get("message")
    text = (message.get("content") or "") if isinstance(message, dict) else choice.get("text")
    if not isinstance(text, str):
        raise ModelError("a completion holds no text")
    return text


def tokens_of(choice: dict[str, Any]) -> list[int] | None:
    """The sampled token ids of a choice, or None where the server does not tell them."""
    logprobs = choice.get("logprobs")
    written = logprobs.get("tokens") if isinstance(logprobs, dict) else None
    return _token_ids(written) if isinstance(written, list) else None


def prompt_scores(answer: Any, prompt: Tokens, scoring: Scoring) -> Floats:
    """log p of prompt[1:], one each, from the answer to a request that scores `prompt`: [len(prompt) - 1]."""
    (choice,) = choices(answer, 1)
    usage = answer.get("usage")
    counted = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    if counted is not None and counted != len(prompt):
        raise ModelError("the server added tokens to the prompt", found=counted, expected=f"{len(prompt)} tokens")
    values = _echoed(choice, prompt) if scoring == "echo" else _listed(choice, prompt)
    if values[0] is not None:
        raise ModelError("the server scored the first token of a prompt", expected="null")
    return np.array([_log_prob(value) for value in values[1:]], dtype=np.float64)


def _echoed(choice: dict[str, Any], prompt: Tokens) -> list[Any]:
    """Log-probabilities of the prompt's tokens from an echo: the prompt's, then at most one sampled token's."""
    logprobs = choice.get("logprobs")
    values = logprobs.get("token_logprobs") if isinstance(logprobs, dict) else None
    if not isinstance(values, list) or not len(prompt) <= len(values) <= len(prompt) + 1:
        raise ModelError("the server's echo does not have one log-probability per token of the prompt")
    written = _token_ids(logprobs.get("tokens")) if isinstance(logprobs, dict) else None
    if written is not None and written[: len(prompt)] != list(prompt):
        raise ModelError("the server's echo shows other tokens than the prompt's")
    return values[: len(prompt)]


def _listed(choice: dict[str, Any], prompt: Tokens) -> list[Any]:
    """Log-probabilities of the prompt's tokens from `prompt_logprobs`."""
    rows = choice.get("prompt_logprobs")
    if not isinstance(rows, list) or len(rows) != len(prompt):
        raise ModelError("the server's prompt_logprobs do not have one entry per token of the prompt")
    values: list[Any] = []
    for token, row in zip(prompt, rows, strict=True):
        entry = row.get(str(token)) if isinstance(row, dict) else None
        if row is not None and not isinstance(entry, dict):
            raise ModelError("the server's prompt_logprobs lack a token of the prompt")
        values.append(entry.get("logprob") if entry is not None else None)
    return values


def _token_ids(written: Any) -> list[int] | None:
    """Ids of tokens written as "token_id:17", or None where they are written as text."""
    if not isinstance(written, list) or not all(isinstance(w, str) and w.startswith(_TOKEN_ID) for w in written):
        return None
    return [_integer(w.removeprefix(_TOKEN_ID)) for w in written]


def _integer(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ModelError("the server's answer holds no integer where one belongs") from None


def _log_prob(value: Any) -> float:
    """A log-probability as JSON tells it."""
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or value > _ROUNDING:
        raise ModelError("the server's answer holds no log-probability where one belongs")
    return -math.inf if value <= _MINUS_INFINITY else min(0.0, float(value))
