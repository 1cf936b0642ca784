"""Public counters in Prometheus' form: requests, tokens, load, turns. Nothing of spend, parts or keys.

Every number here follows from what clients sent and received. With several worker processes the values lie in
files of a folder that PROMETHEUS_MULTIPROC_DIR names before the library is imported, and a scrape of any worker
sums them up.
"""

import os
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The counters of one process, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "reticent_requests", "Requests answered, by route and status.", ("route", "status"), registry=registry
        )
        self.seconds = Histogram(
            "reticent_request_seconds", "Seconds an answer took.", ("route",), buckets=_SECONDS, registry=registry
        )
        self.prompt_tokens = Counter("reticent_prompt_tokens", "Tokens of prompts.", registry=registry)
        self.tokens = Counter("reticent_completion_tokens", "Tokens drawn.", registry=registry)
        self.overloads = Counter("reticent_overloads", "Requests refused by load.", registry=registry)
        self.load = Gauge("reticent_load", "Texts being written.", registry=registry, multiprocess_mode="livesum")
        self.turn_sizes = Histogram(
            "reticent_turn_texts", "Texts that got a token in one turn.", buckets=_SIZES, registry=registry
        )
        self.turn_seconds = Histogram(
            "reticent_turn_seconds", "Seconds a turn took.", buckets=_SECONDS, registry=registry
        )

    def observe_turn(self, size: int, seconds: float) -> None:
        """A turn gave `size` tokens."""
        self.tokens.inc(size)
        self.turn_sizes.observe(size)
        self.turn_seconds.observe(seconds)

    def observe_request(self, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def exposition(self) -> bytes:
        """The page that Prometheus reads."""
        if not os.environ.get(FOLDER):
            return bytes(generate_latest(self._registry))
        shared = CollectorRegistry()
        MultiProcessCollector(shared)
        return bytes(generate_latest(shared))
