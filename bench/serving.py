"""What serving costs: batched answers against one request at a time, and what mixing and ledger take of a token.

    python bench/serving.py [--clients N] [--prompt N] [--tokens N] [--top-p P] [--model DIR …]

The real server on a loopback port, an ensemble of eight LoRA adapters of rank 8, SubMix-F, the durable ledger on
this disk. The same requests are sent one after the other and by all clients at once. A second server answers all at
once by the public model alone, from the same look-ups of the same rows, without mixing and without a ledger.

What mixing and ledger take is the time that a turn spends in them, with the check of the chances and the wait for
the disk, over the time of a private token. How much slower private tokens are than the second server's is shown
beside it, pair by pair, the median of twenty-five: it has the noise of two look-ups. Rounds take turns, as the
machine may be busy. The query budget is large: near its end texts of one turn are mixed with one more look at the
vocabulary.

Mixing costs the vocabulary times the parts, whatever the model; a look-up costs its weights times the parts, and a
longer prompt is more to read before the first token. So the share depends on the model and on what is asked. Short
prompts, as by default, and small models are the hard case: the embedded one has 1 million weights and 1,024 tokens,
stories15m of the folder `shared` beside the checkout (or RETICENT_SHARED), where it is there, 15 million, most of
them for its 32,000 tokens. Ends with code 1 where a limit is missed.
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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
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
from reticent.models.embedded import embedded_model_path  # noqa: E402
from reticent.models.ensemble.allocator import keep_freed_memory  # noqa: E402
from reticent.prediction.budgets import MechanismName  # noqa: E402
from reticent.prediction.predictor import TokenPredictor  # noqa: E402
from reticent.runs.directory import RunDirectory  # noqa: E402
from reticent.runs.ensemble.prediction import PredictionSettings  # noqa: E402
from reticent.server.access.keys import KeyFile  # noqa: E402
from reticent.server.access.quotas import Quotas  # noqa: E402
from reticent.server.backends.backend import Backend, open_ensemble  # noqa: E402
from reticent.server.http.api import create_app  # noqa: E402
from reticent.server.launching import long_lived_memory, web_config  # noqa: E402
from reticent.server.limits import Limits  # noqa: E402
from reticent.server.service import Service  # noqa: E402

ROUNDS = 5
PAIRS = 5  # of private and public answers in a round
LEAST_GAIN = 3.0
MOST_TAKEN = 0.15
PIECES = ("look-up", "mixing", "ledger")


@dataclass(slots=True)
class Rounds:
    """Tokens a second of each way, round by round, the answers' seconds, and the milliseconds a token by piece."""

    alone: list[float] = field(default_factory=list)
    together: list[float] = field(default_factory=list)
    public: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    pieces: list[dict[str, float]] = field(default_factory=list)

    @property
    def gain(self) -> float:
        """Batched over one at a time."""
        rounds = [self.together[start : start + PAIRS] for start in range(0, len(self.together), PAIRS)]
        return statistics.median(
            statistics.median(each) / one for each, one in zip(rounds, self.alone, strict=True)
        )

    @property
    def taken(self) -> float:
        """What mixing and ledger take of a token's time."""
        return statistics.median(
            (one["mixing"] + one["ledger"]) * speed / 1e3
            for one, speed in zip(self.pieces, self.together, strict=True)
        )

    @property
    def slower(self) -> float:
        """How much slower private tokens come than the public model's."""
        return statistics.median(1 - one / other for one, other in zip(self.together, self.public, strict=True))


class Clock:
    """The time in the pieces of a predictor's turns."""

    def __init__(self, predictor: TokenPredictor) -> None:
        self.seconds = dict.fromkeys(PIECES, 0.0)
        self._time(predictor, "_look_up", {"look-up": 1.0})
        # The charge is written around the mixing: what it takes by itself is the rest.
        self._time(predictor, "_charge", {"ledger": 1.0})
        self._time(predictor, "_mix", {"ledger": -1.0, "mixing": 1.0})

    def _time(self, owner: Any, name: str, pieces: dict[str, float]) -> None:
        plain: Callable[..., Any] = getattr(owner, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            begun = time.perf_counter()
            try:
                return plain(*arguments, **named)
            finally:
                taken = time.perf_counter() - begun
                for piece, sign in pieces.items():
                    self.seconds[piece] += sign * taken

        setattr(owner, name, timed)


@contextmanager
def listening_server(backend: Backend, limits: Limits, keys: KeyFile | None = None) -> Iterator[str]:
    """The server in a thread; its address."""
    service = Service(backend, limits, keys=keys, quotas=Quotas(None))
    web = uvicorn.Server(web_config(create_app(service), host="127.0.0.1", port=0))
    thread = threading.Thread(target=web.run, daemon=True)
    thread.start()
    while not web.started:
        time.sleep(0.01)
    try:
        with long_lived_memory():  # as `serve` has it
            yield f"http://127.0.0.1:{web.servers[0].sockets[0].getsockname()[1]}"
    finally:
        web.should_exit = True
        thread.join(30)


@dataclass(frozen=True, slots=True)
class Load:
    """What clients ask for: `tokens` each, after a prompt of so many."""

    clients: int
    prompt: int
    tokens: int
    top_p: float

    def asked(self, url: str, *, at_once: bool, tokens: int | None = None) -> tuple[float, list[float]]:
        """Tokens a second of one request a client, and each one's seconds."""
        return asyncio.run(self._asked(url, at_once=at_once, tokens=tokens or self.tokens))

    async def _asked(self, url: str, *, at_once: bool, tokens: int) -> tuple[float, list[float]]:
        latencies: list[float] = []
        async with httpx.AsyncClient(base_url=url, timeout=600) as http:

            async def one(number: int) -> int:
                begun = time.perf_counter()
                prompt = [5 + number, *range(30, 29 + self.prompt)]
                body = {"model": "bench", "prompt": prompt, "max_tokens": tokens}
                answer = (await http.post("/v1/completions", json=body | {"top_p": self.top_p})).json()
                latencies.append(time.perf_counter() - begun)
                return int(answer["usage"]["completion_tokens"])

            begun = time.perf_counter()
            if at_once:
                made = sum(await asyncio.gather(*(one(number) for number in range(self.clients))))
            else:
                made = sum([await one(number) for number in range(self.clients)])
            return made / (time.perf_counter() - begun), latencies


def run(source: Path, load: Load) -> Rounds:
    """Measure all three ways in turns."""
    found = Rounds()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reticent-bench-")))
        ensemble = new_ensemble(str(source), save_adapters(str(source), folder, PARTS, layers=0), halves=False)

        def opened(kind: MechanismName) -> Backend:
            directory = RunDirectory.for_new_run(folder / kind.value)
            directory.start("bench", config={}, seed=None, corpora={})
            settings = PredictionSettings(mechanism=kind, epsilon=8.0, delta=1e-5, queries=10_000)
            return stack.enter_context(open_ensemble(directory.path, settings, name="bench", ensemble=ensemble))

        private = opened(MechanismName.SUBMIX_F)
        clock = Clock(private.predictor)
        url, public = (
            stack.enter_context(listening_server(each, Limits(batch=64)))
            for each in (private, opened(MechanismName.PUBLIC))
        )
        for each in (url, public):
            load.asked(each, at_once=True, tokens=4)
        for _ in range(ROUNDS):
            found.alone.append(load.asked(url, at_once=False)[0])
            for _ in range(PAIRS):
                is_first = len(found.public) % 2 == 0  # in turns: the machine may warm up or be taken away
                if is_first:
                    _ask_private(found, clock, load, url)
                found.public.append(load.asked(public, at_once=True)[0])
                if not is_first:
                    _ask_private(found, clock, load, url)
    return found


def _ask_private(found: Rounds, clock: Clock, load: Load, url: str) -> None:
    """One round of private answers, with the milliseconds a token in each piece."""
    begun = dict(clock.seconds)
    speed, seconds = load.asked(url, at_once=True)
    tokens = load.clients * load.tokens
    found.together.append(speed)
    found.latencies += seconds
    found.pieces.append({piece: 1e3 * (clock.seconds[piece] - begun[piece]) / tokens for piece in PIECES})


def shown(source: Path, load: Load, found: Rounds) -> Table:
    """The table of one model."""
    asked = f"{load.clients} clients, {load.tokens} tokens after {load.prompt}, top_p {load.top_p:g}"
    table = Table(title=f"{source.name}, k = {PARTS}, {asked}")
    for column in ("measured", "value", "limit"):
        table.add_column(column, justify="left" if column == "measured" else "right")
    table.add_row("one request at a time, tokens/s", f"{statistics.median(found.alone):.1f}", "")
    table.add_row("all at once, tokens/s", f"{statistics.median(found.together):.1f}", "")
    table.add_row("the public model alone, all at once, tokens/s", f"{statistics.median(found.public):.1f}", "")
    table.add_row("gain of batching", f"{found.gain:.2f} ×", f"≥ {LEAST_GAIN:g} ×")
    table.add_row("mixing and ledger, of a token", f"{100 * found.taken:.1f} %", f"≤ {100 * MOST_TAKEN:g} %")
    table.add_row("slower than the public model alone", f"{100 * found.slower:.1f} %", "")
    ordered = sorted(found.latencies)
    table.add_row("median and longest answer, s", f"{statistics.median(ordered):.2f}, {ordered[-1]:.2f}", "")
    token = 1e3 / statistics.median(found.together)
    for piece in PIECES:
        spent = statistics.median(pieces[piece] for pieces in found.pieces)
        table.add_row(f"{piece}, ms a token", f"{spent:.2f} ({100 * spent / token:.0f} %)", "")
    return table


def main(arguments: Sequence[str] = ()) -> int:
    """Print the tables; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--model", type=Path, action="append")
    chosen = parser.parse_args(list(arguments))
    torch.set_num_threads(1)
    keep_freed_memory()
    load = Load(chosen.clients, chosen.prompt, chosen.tokens, chosen.top_p)
    missed = []
    for source in chosen.model or dict.fromkeys((embedded_model_path(), default_model())):
        found = run(source, load)
        Console(width=100).print(shown(source, load, found))
        if found.gain < LEAST_GAIN:
            missed.append(f"{source.name}: gain of batching {found.gain:.2f} ×")
        if found.taken > MOST_TAKEN:
            missed.append(f"{source.name}: mixing and ledger {100 * found.taken:.1f} % of a token")
    for miss in missed:
        print(f"missed: {miss}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
