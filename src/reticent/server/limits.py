"""The public limits of a server: what a request may ask for, how many are answered at once, and for how long."""

import math
from typing import Any

from reticent.core.errors import ConfigError
from reticent.runs.settings.declaration import Settings


class Limits(Settings):
    """All of them public: a refusal by one of them says nothing of private data. They stand in the file alone.

    `batch` continuations go through the ensemble in one turn; `capacity` are held at once, in `memory_bytes` of
    keys and values, beyond which requests get 429. One key never gets more than half of what is free (`scheduler`).
    `prompt_characters` is looked at before a prompt is read in tokens. Temperatures outside the range and top_p
    below its least value are refused. A client has `patience` seconds to send a request and to take each piece of
    the answer.
    """

    batch: int = 32
    capacity: int = 256
    choices: int = 16
    max_tokens: int = 1024
    prompt_tokens: int = 8192
    prompt_characters: int = 65_536
    memory_bytes: int = 2 * 2**30
    connections: int = 1024
    patience: float = 20.0
    timeout: float = 300.0
    least_temperature: float = 0.1
    most_temperature: float = 2.0
    least_top_p: float = 0.01
    body_bytes: int = 1_000_000

    def model_post_init(self, _: Any) -> None:
        """Refuse limits that nobody could serve within."""
        sizes = (self.prompt_tokens, self.prompt_characters, self.memory_bytes, self.connections, self.body_bytes)
        counts = (self.batch, self.capacity, self.choices, self.max_tokens, *sizes)
        if min(counts) < 1:
            raise ConfigError("a server's limits must be at least 1", found=min(counts))
        if not 0.0 < min(self.timeout, self.patience) <= max(self.timeout, self.patience) < math.inf:
            raise ConfigError("time-outs must be positive", found=f"{self.timeout} and {self.patience}")
        if not 0.0 < self.least_temperature <= self.most_temperature < math.inf:
            raise ConfigError(
                "the range of temperatures must be positive and not empty",
                found=f"{self.least_temperature} to {self.most_temperature}",
                hint="greedy decoding, temperature 0, has no finite charge",
            )
        if not 0.0 < self.least_top_p <= 1.0:
            raise ConfigError("the least top_p must be in (0, 1]", found=self.least_top_p)
