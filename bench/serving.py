"""What serving costs: batched answers against one request at a time, and the share of mixing and ledger in a token.

    python bench/serving.py [--clients N] [--tokens N] [--top-p P] [--model DIR]

The real server on a loopback port, an ensemble of eight LoRA adapters of rank 8, SubMix-F, the durable ledger on
this disk. The same requests are sent twice, one after the other and by all clients at once; rounds take turns, as
the machine may be busy. The share is taken inside a turn: look-up and mixing by the processor's clock,
the durable charge by wall time, since it waits for the disk. Model: stories15m of the folder `shared` beside the
checkout (or RETICENT_SHARED), else the embedded model.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import httpx  # noqa: E402
import torch  # noqa: E402
import uvicorn  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from bench.submix import PARTS, default_model, new_ensemble, save_adapters  # noqa: E402
from reticent.app.ensemble_prediction import PredictionSettings  # noqa: E402
from reticent.app.run_directory import RunDirectory  # noqa: E402
from reticent.app.server.api import create_app  # noqa: E402
from reticent.app.server.backend import Backend, open_ensemble  # noqa: E402
from reticent.app.server.launching import web_config  # noqa: E402
from reticent.app.server.limits import Limits  # noqa: E402
from reticent.app.server.quotas import Quotas  # noqa: E402
from reticent.app.server.service import Service  # noqa: E402
from reticent.prediction.budgets import Kind  # noqa: E402
from reticent.prediction.predictor import Predictor  # noqa: E402

ROUNDS = 3
LEAST_GAIN = 3.0
MOST_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class Result:
    """Tokens a second both ways, latencies of the batched one, and where a turn's time goes."""

    alone: float
    together: float
    median: float
    worst: float
    shares: dict[str, float]

    @property
    def gain(self) -> float:
        """Batched over one at a time."""
        return self.together / self.alone


class Clock:
    """Seconds spent in the pieces of a turn."""

    def __init__(self, predictor: Predictor) -> None:
        self.seconds = {"look-up": 0.0, "mixing": 0.0, "ledger": 0.0}
        streams, ledger = predictor._streams, predictor._ledger
        self._time(streams, "look_up", {"look-up": 1.0}, time.thread_time)
        # The charge is written around the mixing: what it takes by itself is the rest, by wall time.
        self._time(ledger, "charge_decided", {"ledger": 1.0}, time.perf_counter)
        self._time(predictor, "_mix", {"ledger": -1.0}, time.perf_counter)
        self._time(predictor, "_mix", {"mixing": 1.0}, time.thread_time)

    def _time(self, owner: Any, name: str, pieces: dict[str, float], clock: Callable[[], float]) -> None:
        plain = getattr(owner, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            begun = clock()
            try:
                return plain(*arguments, **named)
            finally:
                taken = clock() - begun
                for piece, sign in pieces.items():
                    self.seconds[piece] += sign * taken

        setattr(owner, name, timed)

    def shares(self) -> dict[str, float]:
        """Each piece's part of the whole."""
        whole = sum(self.seconds.values())
        return {piece: seconds / whole for piece, seconds in self.seconds.items()}


@contextmanager
def served(backend: Backend) -> Iterator[str]:
    """The server in a thread; its address."""
    service = Service(backend, Limits(batch=64), keys=None, quotas=Quotas(None))
    web = uvicorn.Server(web_config(create_app(service), host="127.0.0.1", port=0))
    thread = threading.Thread(target=web.run, daemon=True)
    thread.start()
    while not web.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{web.servers[0].sockets[0].getsockname()[1]}"
    finally:
        web.should_exit = True
        thread.join(30)


async def asked(url: str, clients: int, tokens: int, *, at_once: bool, top_p: float) -> tuple[float, list[float]]:
    """Tokens a second of one request a client, and each one's seconds."""
    latencies: list[float] = []
    async with httpx.AsyncClient(base_url=url, timeout=600) as http:

        async def one(number: int) -> int:
            begun = time.perf_counter()
            body = {"model": "bench", "prompt": [5 + number, 9, 30, 31], "max_tokens": tokens, "top_p": top_p}
            answer = (await http.post("/v1/completions", json=body)).json()
            latencies.append(time.perf_counter() - begun)
            return int(answer["usage"]["completion_tokens"])

        begun = time.perf_counter()
        if at_once:
            made = sum(await asyncio.gather(*(one(number) for number in range(clients))))
        else:
            made = sum([await one(number) for number in range(clients)])
        return made / (time.perf_counter() - begun), latencies


def run(source: Path, *, clients: int, tokens: int, top_p: float) -> Result:
    """Measure both ways in turns."""
    with tempfile.TemporaryDirectory(prefix="reticent-bench-") as name:
        folder = Path(name)
        ensemble = new_ensemble(str(source), save_adapters(str(source), folder, PARTS, layers=0), halves=False)
        directory = RunDirectory.create(folder / "run")
        directory.start("bench", config={}, seed=None, corpora={})
        settings = PredictionSettings(mechanism=Kind.SUBMIX_F, epsilon=8.0, delta=1e-5, horizon=10_000)
        with open_ensemble(directory.path, settings, name="bench", ensemble=ensemble) as backend:
            clock = Clock(backend.predictor)
            with served(backend) as url:
                asyncio.run(asked(url, clients, 2, at_once=True, top_p=top_p))
                alone, together, latencies, shares = [], [], [], []
                for _ in range(ROUNDS):
                    alone.append(asyncio.run(asked(url, clients, tokens, at_once=False, top_p=top_p))[0])
                    clock.seconds = dict.fromkeys(clock.seconds, 0.0)
                    speed, seconds = asyncio.run(asked(url, clients, tokens, at_once=True, top_p=top_p))
                    together.append(speed)
                    latencies += seconds
                    shares.append(clock.shares())
    best = {piece: statistics.median(share[piece] for share in shares) for piece in shares[0]}
    ordered = sorted(latencies)
    return Result(
        statistics.median(alone), statistics.median(together), statistics.median(ordered), ordered[-1], best
    )


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--model", type=Path, default=default_model())
    chosen = parser.parse_args(list(arguments))
    torch.set_num_threads(1)
    result = run(chosen.model, clients=chosen.clients, tokens=chosen.tokens, top_p=chosen.top_p)
    table = Table(
        title=f"{chosen.model.name}, k = {PARTS}, {chosen.clients} clients, top_p {chosen.top_p:g}, one thread"
    )
    for column in ("measured", "value", "limit"):
        table.add_column(column, justify="left" if column == "measured" else "right")
    table.add_row("one request at a time, tokens/s", f"{result.alone:.1f}", "")
    table.add_row("all at once, tokens/s", f"{result.together:.1f}", "")
    table.add_row("gain of batching", f"{result.gain:.2f} ×", f"≥ {LEAST_GAIN:g} ×")
    table.add_row("median and longest answer, s", f"{result.median:.2f}, {result.worst:.2f}", "")
    for piece, share in result.shares.items():
        table.add_row(f"{piece}, of a token", f"{100 * share:.1f} %", "")
    overhead = result.shares["mixing"] + result.shares["ledger"]
    table.add_row("mixing and ledger, of a token", f"{100 * overhead:.1f} %", f"≤ {100 * MOST_SHARE:g} %")
    Console(width=100).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
