"""What a client is told when it does not get an answer: an error in OpenAI's form, a status and a reason.

    {"error": {"message": …, "type": …, "param": …, "code": …}}

A refusal depends on the request, the key, the public limits and the load alone, never on what was spent or learnt.
It never repeats a prompt; a parameter's name is shown only where it is a plain word.
"""

from typing import Any, Final

INVALID: Final = "invalid_request_error"
SERVER: Final = "server_error"

# Why a parameter that other servers know is refused here.
REASONS: Final = {
    "logprobs": "log-probabilities are not released: they would reveal private text without a charge",
    "top_logprobs": "log-probabilities are not released: they would reveal private text without a charge",
    "seed": "a seed from outside would make released tokens predictable; tokens come from the system's generator",
    "best_of": "the best of several answers is chosen by their log-probabilities, which are not released; use n",
    "logit_bias": "biased logits are not part of the mechanism that is accounted for",
    "presence_penalty": "penalties are not part of the mechanism that is accounted for",
    "frequency_penalty": "penalties are not part of the mechanism that is accounted for",
    "suffix": "the model only continues a text",
    "tools": "this server answers with text alone",
    "tool_choice": "this server answers with text alone",
    "functions": "this server answers with text alone",
    "function_call": "this server answers with text alone",
    "response_format": "constrained answers are not part of the mechanism that is accounted for",
}


class Refusal(Exception):
    """An answer that is not given: an HTTP status and an OpenAI-style error."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = INVALID,
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type
        self.param = plain(param)
        self.code = code

    def document(self) -> dict[str, Any]:
        """The body of the response."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return {"error": error}

    @property
    def headers(self) -> dict[str, str]:
        """Headers beside the body."""
        if self.status == 401:
            return {"WWW-Authenticate": "Bearer"}
        return {"Retry-After": "1"} if self.status in (429, 503) else {}


def plain(name: str | None) -> str | None:
    """A parameter's name where it is a plain word, else None: names come from the client."""
    if name is None or len(name) > 64 or not name.isascii():
        return None
    return name if name.replace(".", "").replace("_", "").isalnum() else None


def unsupported(param: str, reason: str | None = None) -> Refusal:
    """A parameter, or a value of it, that would leave what is accounted for."""
    return Refusal(400, f"{param}: {reason or REASONS[param]}", param=param, code="unsupported_parameter")


def overloaded() -> Refusal:
    """Too many answers are being written: by load alone."""
    return Refusal(429, "the server is busy, try again", type="rate_limit_error", code="rate_limit_exceeded")


def over_quota() -> Refusal:
    """The key's ration is used up: a count of tokens, not of privacy."""
    return Refusal(
        429, "this key's quota of tokens is used up", type="insufficient_quota", code="insufficient_quota"
    )


def unavailable() -> Refusal:
    """Charges cannot be made durable, or the server is stopping: nothing is released."""
    return Refusal(503, "the server cannot answer now", type=SERVER, code="unavailable")


def timed_out() -> Refusal:
    """The answer took longer than the public limit."""
    return Refusal(504, "the answer took too long", type=SERVER, code="timeout")


def broken() -> Refusal:
    """A fault of the server: what it was stands in the operator's log, by type and place alone."""
    return Refusal(500, "internal server error", type=SERVER, code="internal_error")
