"""The requests that are understood, by OpenAI's names. A field that is not named here is refused.

Fields whose only accepted value is "not asked for" are named so that the refusal can say why (`refusal.REASONS`).
What depends on the server's own limits (ranges, lengths, the model's name) is checked in `asking`.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Zero = Annotated[float, Field(ge=0.0, le=0.0)]
Stop = Annotated[str, Field(min_length=1, max_length=256)]
TokenId = Annotated[int, Field(ge=0, strict=True)]
Text = Annotated[str, Field(strict=True)]


class Strict(BaseModel):
    """Nothing unknown is accepted: it might be meant to change how tokens are drawn."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class StreamOptions(Strict):
    """What a stream carries beside text."""

    include_usage: bool | None = None


class Drawing(Strict):
    """What completions and chat have in common."""

    model: Text = Field(max_length=256)
    temperature: float | None = Field(None, ge=0.0)
    top_p: float | None = Field(None, gt=0.0, le=1.0)
    n: int | None = Field(None, ge=1)
    stop: Stop | Annotated[list[Stop], Field(max_length=4)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: Text | None = Field(None, max_length=256)
    # Accepted only where they ask for nothing.
    seed: None = None
    logit_bias: Annotated[dict[str, Any], Field(max_length=0)] | None = None
    presence_penalty: Zero | None = None
    frequency_penalty: Zero | None = None


class CompletionRequest(Drawing):
    """`POST /v1/completions`."""

    prompt: (
        Text
        | Annotated[list[Text], Field(min_length=1)]
        | Annotated[list[TokenId], Field(min_length=1)]
        | Annotated[list[list[TokenId]], Field(min_length=1)]
    )
    max_tokens: int | None = Field(None, ge=1)
    echo: bool | None = None
    logprobs: None = None
    best_of: None = None
    suffix: None = None


class ContentPart(Strict):
    """A piece of a message."""

    type: Literal["text"]
    text: Text


class Message(Strict):
    """One turn of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Text | Annotated[list[ContentPart], Field(min_length=1)]
    name: Text | None = Field(None, max_length=64)

    @property
    def text(self) -> str:
        """The content as one text."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ResponseFormat(Strict):
    """Plain text is the only one."""

    type: Literal["text"]


class ChatRequest(Drawing):
    """`POST /v1/chat/completions`."""

    messages: list[Message] = Field(min_length=1)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: Literal[False] | None = None
    top_logprobs: None = None
    response_format: ResponseFormat | None = None
    tools: None = None
    tool_choice: None = None
    functions: None = None
    function_call: None = None


class ErrorBody(BaseModel):
    """What is wrong, in OpenAI's form."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorDocument(BaseModel):
    """An error."""

    error: ErrorBody
