"""A soak of the server: two workers, PostgreSQL, many clients, and everything that can go wrong meanwhile.

    python -m bench.soak [--minutes 30] [--clients 64]

Two servers of letters share one ledger in a PostgreSQL of their own. Clients stream, cancel, read slowly, ask
for 16 answers, send long prompts. Meanwhile a worker or the database is killed, the database is stopped
(SIGSTOP), a worker's clock jumps (its calendar time; a charge is never decided by it) and the disk of the
witness refuses to be written. Each fault is followed by a rest in which the servers must be ready again by
themselves; one that is not says what its threads are doing.

Held at the end: tokens received ≤ tokens charged, the chain verifies, no answer had a status of 500, every
outage was answered by 503 within five seconds, memory of surviving workers is flat. Ends with code 1 where one
of them fails.
"""

import argparse
import asyncio
import faulthandler
import json
import logging
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from reticent.runs.ensemble.prediction import answers_given
from reticent.runs.ledger_place import LedgerPlace
from reticent.server.limits import Limits
from tests.ledger.postgres.server import PostgresServer, _children
from tests.server.letters import ASKED, NAME, LetterEnsemble, make_run, serving

FAULTS = ("kill worker", "kill database", "stop database", "clock jump", "disk full")
REST = 6.0  # seconds between two faults
LONG = {"queries": 10_000_000}


def work(run: Path, place: LedgerPlace) -> None:
    """A server in a process of its own. SIGUSR1: the clock jumps."""
    jumps = [0.0]
    plain = time.time
    time.time = lambda: plain() + jumps[0]  # type: ignore[method-assign]
    signal.signal(signal.SIGUSR1, lambda *_: jumps.__setitem__(0, random.choice([-86_400.0, 0.0, 86_400.0])))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    faulthandler.register(signal.SIGUSR2)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(process)d %(message)s")
    limits = Limits(max_tokens=64, patience=5.0, timeout=30.0)
    ensemble = LetterEnsemble(pause=0.002)
    with serving(run, ensemble=ensemble, asked=ASKED | LONG, place=place, limits=limits) as address:
        (run / "port.new").write_text(str(address.port))
        (run / "port.new").rename(run / "port")
        while True:
            time.sleep(3600)


class Worker:
    """A server that is started again when it was killed."""

    def __init__(self, run: Path, place: LedgerPlace) -> None:
        self.run, self.place = run, place
        self.start()

    def start(self) -> None:
        (self.run / "port").unlink(missing_ok=True)
        context = multiprocessing.get_context("spawn")
        self.process = context.Process(target=work, args=(self.run, self.place), daemon=True)
        self.process.start()
        self.memory: list[tuple[float, int]] = []
        self.begun = time.monotonic()

    @property
    def url(self) -> str | None:
        with suppress(OSError):
            return f"http://127.0.0.1:{(self.run / 'port').read_text()}"
        return None

    def look(self) -> None:
        with suppress(psutil.Error):
            self.memory.append((time.monotonic() - self.begun, psutil.Process(self.process.pid).memory_info().rss))

    def send(self, number: int) -> None:
        os.kill(self.process.pid or 0, number)

    def set_disk(self, *, is_full: bool) -> None:
        """No file of the server may grow, or again may: set from outside, as a busy server takes signals late."""
        _, hard = resource.prlimit(self.process.pid or 0, resource.RLIMIT_FSIZE)
        resource.prlimit(self.process.pid or 0, resource.RLIMIT_FSIZE, (0 if is_full else hard, hard))


class Seen:
    """What clients saw."""

    def __init__(self) -> None:
        self.tokens = 0
        self.statuses: Counter[int] = Counter()
        self.slowest_503 = 0.0
        self.outage = 0.0  # when the last fault began
        self.lost = 0  # connections that ended in the midst: a worker was killed


async def client(number: int, workers: list[Worker], seen: Seen, end: float) -> None:
    """Ask in ever other ways until the end."""
    picked = random.Random(number)
    async with httpx.AsyncClient(timeout=40) as http:
        while time.monotonic() < end:
            url = workers[number % len(workers)].url
            if url is None:
                await asyncio.sleep(0.2)
                continue
            kind = picked.choice(["plain", "plain", "stream", "cancel", "slow", "many", "long"])
            body: dict[str, Any] = {"model": NAME, "prompt": "ab", "max_tokens": picked.randint(1, 24)}
            body |= {"n": 16} if kind == "many" else {}
            body |= {"prompt": "a" * picked.randint(50, 170), "max_tokens": 8} if kind == "long" else {}
            begun = time.monotonic()
            try:
                if kind in ("stream", "cancel", "slow"):
                    status = await stream(http, url, body, kind, seen)
                else:
                    answer = await http.post(f"{url}/v1/completions", json=body)
                    status = answer.status_code
                    if status == 200:
                        seen.tokens += answer.json()["usage"]["completion_tokens"]
            except (httpx.HTTPError, OSError):
                seen.lost += 1
                await asyncio.sleep(0.2)
                continue
            seen.statuses[status] += 1
            if status == 503:
                seen.slowest_503 = max(seen.slowest_503, time.monotonic() - max(begun, seen.outage))
            if status != 200:
                await asyncio.sleep(0.2)


async def stream(http: httpx.AsyncClient, url: str, body: dict[str, Any], kind: str, seen: Seen) -> int:
    """A stream that is read whole, slowly, or left in the midst."""
    async with http.stream("POST", f"{url}/v1/completions", json=body | {"stream": True}) as answer:
        if answer.status_code != 200:
            await answer.aread()
            return answer.status_code
        read = 0
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                document = json.loads(line[6:])
                if "error" in document:
                    return {"unavailable": 503, "timeout": 504}.get(document["error"]["code"], 500)
                seen.tokens += len(document["choices"])
                read += 1
            if kind == "slow":
                await asyncio.sleep(0.05)
            if kind == "cancel" and read >= 3:
                return 499
    return 200


async def faults(
    workers: list[Worker], database: PostgresServer, end: float, told: Counter[str], seen: Seen
) -> list[str]:
    """One fault after the other; what did not recover."""
    picked, wrong, number = random.Random(7), [], 0
    while time.monotonic() < end - 30:
        fault = FAULTS[number % len(FAULTS)]
        number += 1
        told[fault] += 1
        seen.outage = time.monotonic()
        worker = picked.choice(workers)
        if fault == "kill worker":
            worker = workers[-1]  # the first one lives through everything, so that its memory can be followed
            worker.process.kill()
            worker.process.join()
            worker.start()
        elif fault == "kill database":
            database.kill()
            await asyncio.sleep(picked.uniform(0.5, 3.0))
            await asyncio.to_thread(database.start)
        elif fault == "stop database":
            everyone = [database._process.pid, *_children(database._process.pid)]  # type: ignore[union-attr]
            for process in everyone:
                os.kill(process, signal.SIGSTOP)
            await asyncio.sleep(picked.uniform(3.0, 8.0))
            for process in everyone:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)
        elif fault == "clock jump":
            worker.send(signal.SIGUSR1)
        else:
            worker.set_disk(is_full=True)
            await asyncio.sleep(3.0)
            worker.set_disk(is_full=False)
        asked = seen.statuses.copy()
        is_ready = await are_ready(workers)
        for each in [] if is_ready else workers:
            print(f"server {each.process.pid}: alive {each.process.is_alive()}, at {each.url}", flush=True)
            with suppress(ProcessLookupError):
                each.send(signal.SIGUSR2)
        took = time.monotonic() - seen.outage
        print(f"{fault}: {'ready' if is_ready else 'NOT ready'} after {took:.0f} s; {dict(asked)}", flush=True)
        wrong += [] if is_ready else [f"after '{fault}' a server was not ready again"]
        for each in workers:
            each.look()
        await asyncio.sleep(REST)
    return wrong


async def are_ready(workers: list[Worker], seconds: float = 60.0) -> bool:
    """Whether all servers say that they are ready, in time."""
    deadline = time.monotonic() + seconds
    async with httpx.AsyncClient(timeout=5) as http:
        for worker in workers:
            while time.monotonic() < deadline:
                with suppress(httpx.HTTPError, OSError):
                    url = worker.url
                    if url is not None and (await http.get(f"{url}/readyz")).status_code == 200:
                        break
                await asyncio.sleep(0.1)
            else:
                return False
    return True


async def soak(minutes: float, clients: int, workers: list[Worker], database: PostgresServer) -> list[str]:
    """The whole course; what went wrong."""
    assert await are_ready(workers, 120.0)
    seen, told = Seen(), Counter[str]()
    end = time.monotonic() + 60.0 * minutes
    asking = [asyncio.create_task(client(number, workers, seen, end)) for number in range(clients)]
    wrong = await faults(workers, database, end, told=told, seen=seen)
    await asyncio.gather(*asking)
    assert await are_ready(workers)
    with workers[0].place.open(workers[0].run) as ledger:
        ledger.verify()
        charged = answers_given(ledger)
    print(f"faults: {dict(told)}")
    print(f"statuses: {dict(sorted(seen.statuses.items()))}; connections lost with a killed worker: {seen.lost}")
    print(f"tokens received {seen.tokens:,} ≤ charged {charged:,}; slowest 503 after {seen.slowest_503:.1f} s")
    wrong += [f"received {seen.tokens} > charged {charged}"] if seen.tokens > charged else []
    wrong += [f"{seen.statuses[500]} answers of status 500"] if seen.statuses[500] else []
    wrong += [f"a 503 took {seen.slowest_503:.1f} s"] if seen.slowest_503 > 5.0 else []
    return wrong + [line for worker in workers for line in growth(worker)]


def growth(worker: Worker) -> list[str]:
    """Whether memory grew by more than a tenth after the worker's first five minutes."""
    late = [rss for age, rss in worker.memory if age > 300.0]
    shown = " → ".join(f"{rss / 2**20:.0f}" for _, rss in worker.memory[:: max(1, len(worker.memory) // 8)])
    print(f"memory of a worker (MiB): {shown}")
    return [f"memory grew from {late[0]} to {max(late)} bytes"] if late and max(late) > 1.1 * late[0] else []


def main() -> int:
    """Set up, soak, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=64)
    asked = parser.parse_args()
    database = PostgresServer().start()
    try:
        with tempfile.TemporaryDirectory(prefix="reticent-soak-") as folder:
            runs = [make_run(Path(folder) / name) for name in ("one", "two")]
            place = LedgerPlace(f"{database.url}#soak", timeout=2.0)
            workers = [Worker(runs[0], place)]
            asyncio.run(are_ready(workers, 120.0))  # it makes the ledger, the other joins
            joining = LedgerPlace(place.address, joins=True, timeout=2.0)
            workers.append(Worker(runs[1], joining))
            asyncio.run(are_ready(workers, 120.0))
            workers[1].place = place
            wrong = asyncio.run(soak(asked.minutes, asked.clients, workers, database))
            for worker in workers:
                worker.process.kill()
    finally:
        database.stop()
    print("\n".join(wrong) or "all held")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
