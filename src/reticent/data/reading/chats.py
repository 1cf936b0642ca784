"""A chat as one text, a line "role: content" a message, and where each piece of it stands.

A chat is a list of messages, each with a role and a content (`role`, `content`; also `from`, `value`). The content
is a string or a list of parts, of which those with a `text` count.
"""

from collections.abc import Iterator, Mapping

MESSAGES = "messages"
_ROLES = ("role", "from", "speaker")
_CONTENTS = ("content", "value", "text")

Path = tuple[str | int, ...]


def is_chat(value: object) -> bool:
    """Whether a value is a list of messages with contents."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(message, Mapping) and _content(message) for message in value)
    )


def chat_text(messages: object) -> str:
    """A chat as one text."""
    return "".join(piece for piece, _ in chat_pieces(messages))


def chat_pieces(messages: object) -> Iterator[tuple[str, Path | None]]:
    """The pieces of `chat_text` in order, each with its path within the messages; None for what is put between."""
    assert isinstance(messages, list)
    for number, message in enumerate(messages):
        role = next((message[name] for name in _ROLES if isinstance(message.get(name), str)), "")
        yield ("\n" if number else "") + (f"{role}: " if role else ""), None
        name = _content(message)
        content = message[name]
        if isinstance(content, str):
            yield content, (number, name)
        elif isinstance(content, list):
            for place, part in enumerate(content):
                if isinstance(part, str):
                    yield part, (number, name, place)
                elif isinstance(part, Mapping) and isinstance(part.get("text"), str):
                    yield part["text"], (number, name, place, "text")


def _content(message: Mapping[str, object]) -> str:
    """The name of the field that holds what a message says; "" where there is none."""
    return next((name for name in _CONTENTS if name in message), "")
