"""What one key's flood costs another key: the calm key's time for 16 tokens, idle and under the flood.

    python -m bench.fairness [--flood 250] [--requests 200] [--model DIR]

The real server with its default limits, an ensemble of eight LoRA adapters, SubMix-F and the durable ledger. The
flooding key keeps 250 requests under way, each of 16 answers after a prompt that nearly fills the context.
The calm key asks for 16 tokens again and again: half of its idle requests before the flood, half after it, so that
a machine which others slow down in the course of the run slows both. Clients are processes of their own. Ends with
code 1 where the calm key's 99th percentile under the flood is more than three times the idle one, or where it is
refused.
"""

import argparse
import asyncio
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import torch

from bench.serving import listening_server
from bench.submix import PARTS, new_ensemble, save_adapters
from reticent.models.embedded import embedded_model_path
from reticent.models.ensemble.allocator import keep_freed_memory
from reticent.prediction.budgets import MechanismName
from reticent.runs.directory import RunDirectory
from reticent.runs.ensemble.prediction import PredictionSettings
from reticent.server.access.keys import KeyFile, add_key
from reticent.server.backends.backend import open_ensemble
from reticent.server.limits import Limits

MOST = 3.0
TOKENS = 16
RAMP = 15.0  # seconds until the flood has filled its share
DRAIN = 5.0  # seconds until nothing of it is left


def calm(url: str, key: str, requests: int) -> tuple[list[float], Counter[int]]:
    """Seconds of each answer, one after the other, and the statuses."""
    seconds, statuses = [], Counter[int]()
    body = {"model": "bench", "prompt": [5, *range(30, 45)], "max_tokens": TOKENS}
    with httpx.Client(base_url=url, timeout=120, headers={"Authorization": f"Bearer {key}"}) as http:
        for _ in range(requests):
            begun = time.perf_counter()
            statuses[http.post("/v1/completions", json=body).status_code] += 1
            seconds.append(time.perf_counter() - begun)
            time.sleep(0.05)
    return seconds, statuses


def flood(url: str, key: str, count: int, context: int) -> None:
    """So many requests at any time, until the process is ended."""

    async def one(http: httpx.AsyncClient, number: int) -> None:
        prompt = [5 + number % 20, *range(30, 30 + context - 70)]
        body: dict[str, Any] = {"model": "bench", "prompt": prompt, "max_tokens": 64, "n": 16}
        while True:
            try:
                answer = await http.post("/v1/completions", json=body)
            except httpx.HTTPError:
                await asyncio.sleep(0.1)
                continue
            await asyncio.sleep(0.1 if answer.status_code != 200 else 0.0)

    async def everyone() -> None:
        limits = httpx.Limits(max_connections=count)
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits, headers=headers) as http:
            await asyncio.gather(*(one(http, number) for number in range(count)))

    asyncio.run(everyone())


def p99(seconds: list[float]) -> float:
    """The 99th percentile."""
    return statistics.quantiles(seconds, n=100)[98]


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flood", type=int, default=250)
    parser.add_argument("--requests", type=int, default=200, help="under the flood, and as many idle")
    parser.add_argument("--model", type=Path, default=embedded_model_path())
    asked = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reticent-fairness-")))
        source = str(asked.model)
        ensemble = new_ensemble(source, save_adapters(source, folder, PARTS, layers=0), halves=False)
        directory = RunDirectory.for_new_run(folder / "run")
        directory.start("bench", config={}, seed=None, corpora={})
        settings = PredictionSettings(mechanism=MechanismName.SUBMIX_F, epsilon=8.0, delta=1e-5, queries=1_000_000)
        backend = stack.enter_context(open_ensemble(directory.path, settings, name="bench", ensemble=ensemble))
        names = ("calm", "flood")
        keys = dict(zip(names, (add_key(folder / "keys.json", name) for name in names), strict=True))
        url = stack.enter_context(listening_server(backend, Limits(), KeyFile(folder / "keys.json")))
        spawned = multiprocessing.get_context("spawn")
        pool = stack.enter_context(spawned.Pool(1))
        pool.apply(calm, (url, keys["calm"], 5))
        idle, statuses = pool.apply(calm, (url, keys["calm"], asked.requests // 2))
        context = ensemble.public.context_length or 512
        flooding = spawned.Process(target=flood, args=(url, keys["flood"], asked.flood, context), daemon=True)
        flooding.start()
        time.sleep(RAMP)
        busy, more = pool.apply(calm, (url, keys["calm"], asked.requests))
        flooding.kill()
        time.sleep(DRAIN)
        later, last = pool.apply(calm, (url, keys["calm"], asked.requests - len(idle)))
    idle += later
    statuses += more + last
    ratio = p99(busy) / p99(idle)
    for name, seconds in (("idle", idle), ("under the flood", busy)):
        print(f"{name}: median {statistics.median(seconds):.3f} s, p99 {p99(seconds):.3f} s, n = {len(seconds)}")
    print(f"p99 under the flood over idle: {ratio:.2f} (limit {MOST:g}); statuses of the calm key {dict(statuses)}")
    return bool(ratio > MOST or set(statuses) != {200})


if __name__ == "__main__":
    sys.exit(main())
