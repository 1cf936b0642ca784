"""A conversation as the text that the model continues: by the base model's own chat template, or a plain one.

The start token is put in front by the model itself, so that a template's own is taken off. The plain form, for a
model without a template, is one line a turn:

    user: …
    assistant:
"""

from collections.abc import Sequence
from typing import Any

from reticent.server.protocol import Message
from reticent.server.refusal import Refusal


class ChatFormat:
    """How a model wants conversations written."""

    def __init__(self, tokenizer: Any = None) -> None:
        self._tokenizer = tokenizer
        self.has_template = bool(getattr(tokenizer, "chat_template", None))

    def text(self, messages: Sequence[Message]) -> str:
        """The conversation up to where the assistant speaks; Refusal where the template does not take it."""
        if not self.has_template:
            return "".join(f"{message.role}: {message.text}\n" for message in messages) + "assistant:"
        turns = [{"role": message.role, "content": message.text} for message in messages]
        try:
            written = self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        except Exception:  # templates raise what they like: wrong order of roles, a missing system turn
            raise Refusal(
                400, "messages: the model's chat template does not take these turns", param="messages"
            ) from None
        start = getattr(self._tokenizer, "bos_token", None)
        return str(written).removeprefix(start) if start else str(written)
