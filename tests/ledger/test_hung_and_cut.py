"""A database that hangs, and files that are cut off or taken away under a running ledger: nothing is charged."""

import os
import signal
import threading
import time

import httpx
import pytest

from reticent.core.errors import LedgerError
from reticent.ledger.sqlite import SqliteStore
from reticent.runs.ledger_place import LedgerPlace
from reticent.server.scheduling import scheduler
from tests.ledger.ledgers import EVENT, PostgresLedgers, SqliteLedgers
from tests.ledger.postgres.server import _children
from tests.patience import PATIENCE
from tests.server.letters import NAME, make_run, serving

ASK = {"model": NAME, "prompt": "ab", "max_tokens": 2}


def cut(path):
    os.truncate(path, 0)


def cut_a_page(path):
    os.truncate(path, path.stat().st_size - 4096)


def remove(path):
    path.unlink()


def replace(path):
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


DAMAGES = [
    (name, damage) for name in ("ledger.db", "ledger.db-wal") for damage in (cut, cut_a_page, remove, replace)
]


@pytest.mark.parametrize(("name", "damage"), DAMAGES, ids=lambda each: getattr(each, "__name__", each))
def test_a_file_that_is_cut_off_or_taken_away_stops_the_next_charge(tmp_path, name, damage):
    ledgers = SqliteLedgers()
    with ledgers.new(tmp_path, limit=100.0) as ledger:
        for _ in range(4):
            ledger.charge({"a": 0.5}, EVENT)
        damage(tmp_path / name)
        with pytest.raises(LedgerError, match="replaced or removed"):
            ledger.charge({"a": 0.5}, EVENT)
        with pytest.raises(LedgerError):
            ledger.remaining()


@pytest.mark.parametrize(("name", "damage"), [("ledger.db", cut), ("ledger.db-wal", remove)])
def test_an_idle_server_notices_within_a_second_and_releases_nothing(tmp_path, name, damage):
    run = make_run(tmp_path / "run")
    with serving(run) as address:
        assert httpx.post(address.url + "/v1/completions", json=ASK, timeout=PATIENCE).status_code == 200
        damage(run / name)
        wait_for(address, 503)
        answer = httpx.post(address.url + "/v1/completions", json=ASK, timeout=PATIENCE)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")


def test_an_idle_server_looks_at_its_ledger_twice_a_second_and_a_charge_before_and_after(tmp_path, monkeypatch):
    """By what is done and not by the clock, so that a loaded machine fails no test."""
    assert scheduler._LOOK <= 0.5
    looks, look = [], SqliteStore.is_in_place
    monkeypatch.setattr(SqliteStore, "is_in_place", lambda store: looks.append(len(store.page(1))) or look(store))
    with SqliteLedgers().new(tmp_path, limit=100.0) as ledger:
        looks.clear()
        ledger.charge({"a": 0.5}, EVENT)
    assert {0, 1} <= set(looks)  # the rows that there were at each look


def wait_for(address, status):
    """Until /readyz says so."""
    while httpx.get(address.url + "/readyz", timeout=PATIENCE).status_code != status:
        time.sleep(0.02)


class Stopped:
    """PostgreSQL and all its processes, stopped as by a debugger or a frozen disk."""

    def __init__(self, server):
        self._everyone = [server._process.pid, *_children(server._process.pid)]

    def __enter__(self):
        for process in self._everyone:
            os.kill(process, signal.SIGSTOP)

    def __exit__(self, *_):
        for process in self._everyone:
            os.kill(process, signal.SIGCONT)


def test_a_charge_on_a_stopped_database_ends_by_itself_and_lets_go_of_the_lock(tmp_path, postgres):
    ledgers = PostgresLedgers(postgres.url)
    path = ledgers.used(tmp_path)
    with ledgers.open(path, timeout=1.0) as ledger:
        before = ledger.spent()
        with Stopped(postgres):
            waited, ended = [0.0], threading.Event()

            def watch():
                while not ended.wait(0.01):
                    waited.append(ledger.busy_seconds)

            watcher = threading.Thread(target=watch)
            watcher.start()
            with pytest.raises(LedgerError):
                ledger.charge({"a": 0.5}, EVENT)
            ended.set()
            watcher.join()
            assert max(waited) > 0.3
            assert ledger.busy_seconds == 0.0
            with ledger._witness.locked(0.1):  # free again
                pass
        deadline = time.monotonic() + PATIENCE
        while True:  # the database comes to and the ledger goes on by itself
            try:
                ledger.charge({"a": 0.5}, EVENT)
                break
            except LedgerError:
                assert time.monotonic() < deadline
        assert before["a"] < ledger.spent()["a"] <= before["a"] + 1.0
        ledger.verify()


def test_a_server_on_a_stopped_database_says_503_in_time_and_recovers(tmp_path, postgres):
    run = make_run(tmp_path / "run")
    place = LedgerPlace(f"{postgres.url}#hung", timeout=1.0)
    with serving(run, place=place) as address:
        assert httpx.post(address.url + "/v1/completions", json=ASK, timeout=PATIENCE).status_code == 200
        with Stopped(postgres):
            answer = httpx.post(address.url + "/v1/completions", json=ASK, timeout=PATIENCE)
            assert answer.status_code == 503
            wait_for(address, 503)
            assert httpx.post(address.url + "/v1/completions", json=ASK, timeout=PATIENCE).status_code == 503
        wait_for(address, 200)
        assert httpx.post(address.url + "/v1/completions", json=ASK, timeout=PATIENCE).status_code == 200
