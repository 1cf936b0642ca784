"""From a request to what is drawn: contexts in tokens, shaping, lengths, stop strings, within the public limits.

What costs nothing is looked at first (`tokens_asked`): counts, ranges, characters. Only a request that passes it,
and whose key has the quota, is read in tokens (`completion_asked`, `chat_asked`), which takes time that grows with
it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from reticent.prediction.mechanisms.shaping import Shaping
from reticent.server.backends.backend import Backend
from reticent.server.limits import Limits
from reticent.server.refusal import Refusal, unsupported
from reticent.server.requests.protocol import ChatRequest, CompletionRequest, Drawing

_COMPLETION_TOKENS = 16  # what OpenAI's completions give where nothing is said
_CHAT_TOKENS = 256
_MESSAGES = 1024  # of a conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a request asks for, checked. `contexts` has one entry a continuation, `echoes` what stands before it."""

    contexts: Sequence[Sequence[int]] = field(repr=False)
    echoes: Sequence[str] = field(repr=False)
    prompt_tokens: int
    max_tokens: int
    shaping: Shaping
    stops: tuple[str, ...] = field(repr=False)


def tokens_asked(request: CompletionRequest | ChatRequest, limits: Limits) -> int:
    """The most tokens that a request may draw, without reading its prompts; Refusal where it asks for too much."""
    texts, prompts = _texts(request, limits)
    for text in (*texts, *_stops(request)):
        if not _is_text(text):
            where = "messages" if isinstance(request, ChatRequest) else "prompt"
            raise Refusal(400, f"{where}: a lone surrogate is not valid text", param=where)
    characters = sum(map(len, texts))
    if characters > limits.prompt_characters:
        raise _too_long(f"the prompt has {characters} characters, this server takes {limits.prompt_characters}")
    _shaping(request, limits)
    count = _choices(request, prompts, limits) * prompts
    if isinstance(request, ChatRequest):
        return count * _most(request.max_completion_tokens or request.max_tokens, _CHAT_TOKENS, limits)
    return count * _most(request.max_tokens, _COMPLETION_TOKENS, limits)


def _texts(request: CompletionRequest | ChatRequest, limits: Limits) -> tuple[list[str], int]:
    """Every text of a request, and how many prompts it has; prompts in tokens are counted here."""
    if isinstance(request, ChatRequest):
        if len(request.messages) > _MESSAGES:
            raise Refusal(400, f"messages: at most {_MESSAGES}", param="messages")
        return [message.text for message in request.messages], 1
    if isinstance(request.prompt, str):
        return [request.prompt], 1
    texts = [item for item in request.prompt if isinstance(item, str)]
    lists = [item for item in request.prompt if isinstance(item, list)]
    longest = max((len(item) for item in lists), default=0 if texts else len(request.prompt))
    if longest > limits.prompt_tokens:
        raise _too_long(f"the prompt has {longest} tokens, this server takes {limits.prompt_tokens}")
    return texts, max(1, len(texts) + len(lists))


def _is_text(text: str) -> bool:
    try:
        text.encode("utf8")
    except UnicodeEncodeError:
        return False
    return True


def _most(asked: int | None, usual: int, limits: Limits) -> int:
    """How many tokens an answer has at most; Refusal where more are asked for."""
    if asked is not None and asked > limits.max_tokens:
        what = f"max_tokens: this server gives at most {limits.max_tokens} tokens"
        raise Refusal(400, what, param="max_tokens")
    return asked or min(usual, limits.max_tokens)


def completion_asked(request: CompletionRequest, backend: Backend, limits: Limits) -> Asked:
    """What `POST /v1/completions` asks for; Refusal where it may not."""
    prompts = _prompts(request, backend)
    count = _choices(request, len(prompts), limits)
    shaping = _shaping(request, limits)
    max_tokens = _length(request.max_tokens, _COMPLETION_TOKENS, prompts, backend=backend, limits=limits)
    echoes = [backend.decode(prompt) if request.echo else "" for prompt in prompts]
    return Asked(
        contexts=[prompt for prompt in prompts for _ in range(count)],
        echoes=[echo for echo in echoes for _ in range(count)],
        prompt_tokens=sum(map(len, prompts)),
        max_tokens=max_tokens,
        shaping=shaping,
        stops=_stops(request),
    )


def chat_asked(request: ChatRequest, backend: Backend, limits: Limits) -> Asked:
    """What `POST /v1/chat/completions` asks for; Refusal where it may not."""
    if None not in (request.max_tokens, request.max_completion_tokens):
        raise Refusal(400, "max_tokens: give it or max_completion_tokens, not both", param="max_tokens")
    count = _choices(request, 1, limits)
    shaping = _shaping(request, limits)
    context = backend.encode(backend.chat.text(request.messages))
    asked = request.max_completion_tokens or request.max_tokens
    return Asked(
        contexts=[context] * count,
        echoes=[""] * count,
        prompt_tokens=len(context),
        max_tokens=_length(asked, _CHAT_TOKENS, [context], backend=backend, limits=limits),
        shaping=shaping,
        stops=_stops(request),
    )


def _prompts(request: CompletionRequest, backend: Backend) -> list[list[int]]:
    """Every prompt in tokens."""
    prompt = request.prompt
    if isinstance(prompt, str):
        return [backend.encode(prompt)]
    found: list[list[int]] = []
    alone: list[int] = []
    for item in prompt:
        if isinstance(item, str):
            found.append(backend.encode(item))
        elif isinstance(item, int):
            alone.append(item)
        else:
            found.append(list(item))
    found = [alone] if alone else found
    if max((token for tokens in found for token in tokens), default=0) >= backend.model.vocabulary_size:
        raise Refusal(400, "prompt: a token id that the model does not have", param="prompt")
    return found


def _choices(request: Drawing, prompts: int, limits: Limits) -> int:
    count = 1 if request.n is None else request.n
    if count * prompts > limits.choices:
        raise Refusal(400, f"n: at most {limits.choices} answers a request, over all prompts", param="n")
    return count


def _shaping(request: Drawing, limits: Limits) -> Shaping:
    """Temperature and top_p within the public range: they become part of the mechanism."""
    temperature = 1.0 if request.temperature is None else request.temperature
    if temperature == 0.0:
        raise unsupported("temperature", "greedy decoding, temperature 0, has no finite charge")
    if not limits.least_temperature <= temperature <= limits.most_temperature:
        allowed = f"{limits.least_temperature:g} to {limits.most_temperature:g}"
        raise unsupported("temperature", f"this server takes {allowed}")
    top_p = 1.0 if request.top_p is None else request.top_p
    if top_p < limits.least_top_p:
        raise unsupported("top_p", f"this server takes {limits.least_top_p:g} to 1")
    return Shaping(temperature, top_p=None if top_p == 1.0 else top_p)


def _length(
    asked: int | None, usual: int, prompts: Sequence[Sequence[int]], *, backend: Backend, limits: Limits
) -> int:
    """How many tokens are drawn at most; Refusal where prompt and answer do not fit together."""
    longest = max(map(len, prompts))
    if longest > limits.prompt_tokens:
        raise _too_long(f"the prompt has {longest} tokens, this server takes {limits.prompt_tokens}")
    most = _most(asked, usual, limits)
    context = backend.model.context_length
    room = limits.max_tokens if context is None else context - 1 - longest
    if room < (1 if asked is None else asked):
        raise _too_long(f"prompt and answer must fit in {context} tokens; the prompt has {longest}")
    return min(most, room)


def _too_long(what: str) -> Refusal:
    return Refusal(400, what, param="prompt", code="context_length_exceeded")


def _stops(request: Drawing) -> tuple[str, ...]:
    if request.stop is None:
        return ()
    return (request.stop,) if isinstance(request.stop, str) else tuple(request.stop)
