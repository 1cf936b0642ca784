"""A conversation as the text that the model continues: by the base model's own chat template, or a plain one.

The template runs in a process with limits on time, memory and output (`template_process`). The start token is put
in front by the model itself, so that a template's own is taken off. The plain form, for a model without a template,
is one line a turn:

    user: …
    assistant:
"""

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from reticent.server.refusal import Refusal
from reticent.server.requests import template_process
from reticent.server.requests.protocol import Message

SECONDS: Final = 2.0  # that a template may take
STARTING: Final = 20.0  # that its process may take to start
LONGEST: Final = 262_144  # characters that it may make


class ChatFormat:
    """How a model wants conversations written."""

    def __init__(self, tokenizer: Any = None) -> None:
        self._template = _template_of(tokenizer)
        self._special = {} if tokenizer is None else dict(getattr(tokenizer, "special_tokens_map", {}))
        self._start = getattr(tokenizer, "bos_token", None)
        self._renderer = Renderer()

    def text(self, messages: Sequence[Message]) -> str:
        """The conversation up to where the assistant speaks; Refusal where the template does not take it."""
        if self._template is None:
            return "".join(f"{message.role}: {message.text}\n" for message in messages) + "assistant:"
        turns = [{"role": message.role, "content": message.text} for message in messages]
        values = {"messages": turns, "tools": None, "documents": None, "add_generation_prompt": True}
        written = self._renderer.render(self._template, self._special | values)
        if written is None:
            raise Refusal(400, "messages: the model's chat template does not take these turns", param="messages")
        return written.removeprefix(self._start) if self._start else written

    def close(self) -> None:
        """End the template's process."""
        self._renderer.close()


def _template_of(tokenizer: Any) -> str | None:
    """The template of a tokenizer; of several the default one."""
    found = getattr(tokenizer, "chat_template", None)
    if isinstance(found, dict):
        found = found.get("default")
    return found if isinstance(found, str) and found else None


class Renderer:
    """The process of templates: started when needed, ended when it takes too long, and then started again."""

    def __init__(self, *, seconds: float = SECONDS, longest: int = LONGEST) -> None:
        self._seconds, self._longest = seconds, longest
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def render(self, template: str, values: dict[str, Any]) -> str | None:
        """What the template makes of the values; None where it fails, takes too long or makes too much."""
        with self._lock:
            said = self._ask({"template": template, "values": values, "most": self._longest})
        text = None if said is None else said.get("text")
        return text if isinstance(text, str) and len(text) <= self._longest else None

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _ask(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        seconds = self._seconds
        if self._process is None or self._process.poll() is not None:
            self._end()
            command = [sys.executable, "-m", template_process.__name__]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
            seconds += STARTING
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            self._process.stdin.flush()
            line = _line(self._process.stdout.fileno(), seconds)
            if line is not None:
                said: dict[str, Any] = json.loads(line)
                return said
        except (OSError, ValueError, RecursionError):
            pass
        self._end()
        return None

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _line(descriptor: int, seconds: float) -> bytes | None:
    """A whole line, or None where it does not come in time or the writer is gone."""
    deadline = time.monotonic() + seconds
    line = b""
    ready = select.poll()  # unlike select(), takes descriptors above 1023
    ready.register(descriptor, select.POLLIN)
    while not line.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not ready.poll(1000 * left):
            return None
        piece = os.read(descriptor, 65_536)
        if not piece:
            return None
        line += piece
    return line
