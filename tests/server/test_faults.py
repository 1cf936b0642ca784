"""Under load, killed, out of disk: what clients received was charged; what could not be charged stayed inside."""

import asyncio
import json
import multiprocessing
import os
import random
import resource
import signal
import statistics
import threading
import time

import httpx
import pytest

from reticent.core.errors import LedgerError
from reticent.ledger.durable import SqliteLedger
from reticent.runs.ensemble.prediction import answers_given
from reticent.server.limits import Limits
from tests.patience import PATIENCE
from tests.server.letters import NAME, LetterEnsemble, make_run, serve_for_ever, serving

BODY = {"model": NAME, "prompt": "ab", "max_tokens": 12}


def charged(run):
    with SqliteLedger.open(run / "ledger.db") as ledger:
        ledger.verify()
        assert max(ledger.spent().values()) <= ledger.budget.limit
        return answers_given(ledger)


async def load(url, clients, seconds, seen):
    """Clients that ask one thing after the other; latencies, tokens and failures go to `seen`."""
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=PATIENCE) as http:
        end = time.monotonic() + seconds

        async def one(number):
            picked = random.Random(number)
            while time.monotonic() < end:
                begun = time.perf_counter()
                body = BODY | {"max_tokens": picked.randint(1, 12), "n": picked.choice([1, 1, 2])}
                answer = await http.post("/v1/completions", json=body)
                seen["status"].append(answer.status_code)
                seen["seconds"].append(time.perf_counter() - begun)
                document = answer.json()
                seen["tokens"] += document["usage"]["completion_tokens"]
                assert (
                    sum(len(choice["text"]) for choice in document["choices"])
                    == (document["usage"]["completion_tokens"])
                )

        await asyncio.gather(*(one(number) for number in range(clients)))


@pytest.mark.parametrize(("clients", "seconds"), [(8, 2.0), pytest.param(64, 120.0, marks=pytest.mark.slow)])
def test_under_load_tokens_released_are_charges_committed_to_the_token(tmp_path, clients, seconds):
    run = make_run(tmp_path / "run")
    seen = {"status": [], "seconds": [], "tokens": 0}
    with serving(run, limits=Limits(batch=64)) as address:
        asyncio.run(load(address.url, clients, seconds, seen))
        assert address.service._scheduler.load == 0
    assert set(seen["status"]) == {200}  # none lost, none refused
    assert charged(run) == seen["tokens"] > 0
    ranks = statistics.quantiles(seen["seconds"], n=100)
    print(f"{clients} clients: {len(seen['status'])} requests, {seen['tokens'] / seconds:.0f} tokens/s,", end=" ")
    print(f"p50 {ranks[49]:.3f} s, p99 {ranks[98]:.3f} s")


class Killed:
    """A server in a process of its own, forked, since two hundred fresh interpreters would take an hour."""

    def __init__(self, run, pause=0.002, **options):
        (run / "port").unlink(missing_ok=True)
        self.process = multiprocessing.get_context("fork").Process(
            target=serve_for_ever, args=(run, pause), kwargs=options, daemon=True
        )
        self.process.start()
        deadline = time.monotonic() + PATIENCE
        while not (run / "port").exists():
            assert self.process.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        self.url = f"http://127.0.0.1:{(run / 'port').read_text()}"

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join(PATIENCE)


def stream_until_cut(url, received):
    """Count letters of streams, one after the other, until the server is gone."""
    with httpx.Client(base_url=url, timeout=PATIENCE) as http:
        while True:
            try:
                with http.stream("POST", "/v1/completions", json=BODY | {"stream": True}) as answer:
                    for line in answer.iter_lines():
                        if line.startswith("data: {"):
                            received.append(len(json.loads(line[6:])["choices"][0]["text"]))
            except httpx.HTTPError:
                return


@pytest.mark.parametrize("times", [3, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_killed_at_random_moments_no_received_token_is_uncharged(tmp_path, times):
    run = make_run(tmp_path / "run")
    moments = random.Random(5)
    received = []
    for _ in range(times):
        server = Killed(run)
        threads = [threading.Thread(target=stream_until_cut, args=(server.url, received)) for _ in range(4)]
        for thread in threads:
            thread.start()
        known, is_early = len(received), moments.random() < 0.2
        while not is_early and len(received) == known:  # mostly once tokens flow, sometimes before
            time.sleep(0.01)
        time.sleep(moments.uniform(0.0, 0.3))
        server.kill()
        for thread in threads:
            thread.join(PATIENCE)
        # At most a turn of each kill was charged and never received, and no more is lost.
        assert sum(received) <= charged(run) <= sum(received) + 4 * times * 64
    assert sum(received) > 0


def test_the_counter_of_the_kill_test_sees_a_server_that_releases_before_it_charges(tmp_path, monkeypatch):
    # Twin: every third charge is acknowledged and not written, as a cache that is lost with the process would.
    original, count = SqliteLedger.charge_decided, [0]

    def forgetful(self, decide):
        count[0] += 1
        if count[0] % 3:
            return original(self, decide)
        decide(self.remaining())
        return self.head()

    monkeypatch.setattr(SqliteLedger, "charge_decided", forgetful)
    run = make_run(tmp_path / "run")
    with serving(run) as address:
        answer = httpx.post(address.url + "/v1/completions", json=BODY, timeout=PATIENCE).json()
    assert charged(run) < answer["usage"]["completion_tokens"]


def ask(address):
    answer = httpx.post(address.url + "/v1/completions", json=BODY, timeout=PATIENCE)
    return answer.status_code, answer.text


def recovers(address):
    """Whether the server finds out by itself that the ledger can be used again."""
    deadline = time.monotonic() + PATIENCE
    while ask(address)[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return True


def test_a_full_disk_refuses_and_releases_nothing(tmp_path):
    run = make_run(tmp_path / "run")
    with serving(run) as address:
        assert ask(address)[0] == 200
        before = charged(run)
        previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))  # no file grows: writes fail as on a full disk
            status, text = ask(address)
            assert httpx.get(address.url + "/readyz", timeout=PATIENCE).status_code == 503
            with pytest.raises(LedgerError):  # it can still be read, which says nothing about the next charge
                address.service.backend.predictor.check(by_writing=True)
            address.service.backend.predictor.check()
            address.service._scheduler._look_again()
            assert httpx.get(address.url + "/readyz", timeout=PATIENCE).status_code == 503
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, previous)
        assert status == 503
        assert json.loads(text)["error"]["code"] == "unavailable"
        assert "ledger" not in text
        assert charged(run) - before <= 1  # what was being charged may count as spent; nothing was released
        assert recovers(address)
        assert httpx.get(address.url + "/readyz", timeout=PATIENCE).status_code == 200


def test_a_ledger_that_cannot_be_written_or_was_replaced_refuses(tmp_path):
    run = make_run(tmp_path / "run")
    with serving(run) as address:
        assert ask(address)[0] == 200
        ledger = run / "ledger.db"
        ledger.rename(run / "away.db")
        assert ask(address)[0] == 503
        (run / "away.db").rename(ledger)
        assert recovers(address)
        address.service.backend.predictor._ledger._store._connection.execute("PRAGMA query_only=ON")
        status, text = ask(address)
        assert (status, json.loads(text)["error"]["type"]) == (503, "server_error")
        with httpx.stream(
            "POST", address.url + "/v1/completions", json=BODY | {"stream": True}, timeout=PATIENCE
        ) as answer:
            assert answer.status_code == 503  # before a stream begins


def test_a_client_that_leaves_stops_the_charges(tmp_path):
    run = make_run(tmp_path / "run")
    body = BODY | {"max_tokens": 150}
    with serving(run, ensemble=LetterEnsemble(pause=0.02)) as address:
        scheduler = address.service._scheduler
        with httpx.stream(
            "POST", address.url + "/v1/completions", json=body | {"stream": True}, timeout=PATIENCE
        ) as answer:
            next(answer.iter_lines())
        with pytest.raises(httpx.ReadTimeout):  # and one that waits for the whole answer
            httpx.post(address.url + "/v1/completions", json=body, timeout=httpx.Timeout(PATIENCE, read=0.3))
        deadline = time.monotonic() + PATIENCE
        while scheduler.load and time.monotonic() < deadline:
            time.sleep(0.02)
        assert scheduler.load == 0
        spent = charged(run)
        assert spent < 150
        time.sleep(0.2)
        assert charged(run) == spent


def test_load_refuses_by_429_and_time_outs_by_504(tmp_path):
    run = make_run(tmp_path / "run")
    slow = LetterEnsemble(pause=0.1)
    with serving(run, ensemble=slow, limits=Limits(capacity=2, timeout=3.0)) as address:
        body = BODY | {"max_tokens": 100}

        async def three():
            async with httpx.AsyncClient(base_url=address.url, timeout=PATIENCE) as http:
                first = [asyncio.create_task(http.post("/v1/completions", json=body)) for _ in range(2)]
                while address.service._scheduler.load < 2:
                    await asyncio.sleep(0.01)
                return await asyncio.gather(*first, http.post("/v1/completions", json=body))

        answers = asyncio.run(three())
        assert sorted(answer.status_code for answer in answers) == [429, 504, 504]
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert refused.headers["retry-after"] == "1"
