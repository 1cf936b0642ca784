"""Servers on several machines and one ledger in PostgreSQL: killed, and the database killed, under load."""

import json
import random
import shutil
import threading
import time

import httpx
import pytest

from reticent.cli import main as cli
from reticent.core.errors import ConfigError, LedgerError
from reticent.ledger.durable import DurableLedger, witness_path
from reticent.ledger.postgres.store import PostgresStore
from reticent.runs.ensemble.prediction import answers_given
from reticent.runs.ledger_place import LedgerPlace
from reticent.server.launching import Serving
from tests.ledger.conftest import postgres  # noqa: F401
from tests.ledger.postgres.server import PASSWORD, USER
from tests.patience import PATIENCE
from tests.server.letters import ASKED, NAME, LetterEnsemble, make_run, opened, serving
from tests.server.test_faults import BODY, Killed

SMALL = ASKED | {"queries": 200}  # far fewer than are asked for: the budget is used up under load
CLIENTS = 3  # a server


@pytest.fixture
def place(request, postgres):  # noqa: F811
    """A ledger that nobody has made."""
    return LedgerPlace(f"{postgres.url}#{request.node.name[:40].replace('[', '-').replace(']', '')}")


def joining(place):
    return LedgerPlace(place.address, joins=True)


def answers(run, place):
    """How many answers were charged, after a check of everything."""
    with place.open(run) as ledger:
        ledger.verify()
        assert max(ledger.spent().values()) <= ledger.budget.limit
        return answers_given(ledger)


# ---------------------------------------------------------------- what a start refuses


@pytest.fixture
def run(tmp_path, place):
    """A run that has answered from the ledger in the database."""
    run = make_run(tmp_path / "run")
    with opened(run, place=place) as backend:
        backend.predictor.generate([1], 5)
    return run


def test_a_second_machine_joins_once_and_both_spend_one_budget(run, tmp_path, place):
    other = make_run(tmp_path / "other")
    with pytest.raises(LedgerError, match="a ledger already exists here") as caught, opened(other, place=place):
        pass
    assert "--join" in caught.value.hint
    with opened(other, place=joining(place)) as there, opened(run, place=place) as here:
        there.predictor.generate([1], 4)
        here.predictor.generate([2], 3)
    assert answers(run, place) == answers(other, place) == 12
    with pytest.raises(LedgerError, match="used the ledger before"), opened(other, place=joining(place)):
        pass
    assert not (run / "ledger.db").exists()


def drop(place, postgres):  # noqa: F811
    """Remove the ledger as its owner could."""
    name = place.address.rpartition("#")[2]
    off, on = (
        [
            f"ALTER TABLE reticent.{table} {how} TRIGGER {trigger}"
            for table, trigger in (("charges", "charges_stay"), ("ledgers", "ledgers_stay"))
        ]
        for how in ("DISABLE", "ENABLE ALWAYS")
    )
    rows = [
        f"DELETE FROM reticent.charges WHERE ledger = '{name}'",
        f"DELETE FROM reticent.ledgers WHERE name = '{name}'",
    ]
    postgres.execute(*off, *rows, *on)


def test_a_ledger_that_is_missing_for_a_served_run_is_refused(run, place, postgres):  # noqa: F811
    drop(place, postgres)
    with pytest.raises(LedgerError, match="missing"), opened(run, place=place):
        pass
    (run / "prediction.json").unlink()  # nor does forgetting the settings open a second budget
    with pytest.raises(LedgerError, match="a ledger was here"), opened(run, place=place):
        pass


def test_a_ledger_made_anew_under_the_same_name_is_refused(run, tmp_path, place, postgres):  # noqa: F811
    drop(place, postgres)
    with opened(make_run(tmp_path / "again"), place=place) as backend:
        backend.predictor.generate([1], 9)
    with pytest.raises(LedgerError, match="not the one its witness saw"), opened(run, place=place):
        pass


def test_a_ledger_that_was_rolled_back_is_refused_by_the_machine_that_saw_more(run, place, monkeypatch):
    head = witness_path(run / "ledger.db")
    with opened(run, place=place) as backend:
        before = backend.predictor._ledger.head().sequence
        backend.predictor.generate([1], 5)
    page = PostgresStore.page
    monkeypatch.setattr(
        PostgresStore, "page", lambda self, first: [r for r in page(self, first) if r.sequence <= before]
    )
    monkeypatch.setattr(PostgresStore, "remembered", lambda self: None)  # a copy as old as the rows
    with pytest.raises(LedgerError, match="rolled back"), opened(run, place=place):
        pass
    head.unlink()
    with pytest.raises(LedgerError, match="witness is missing"), opened(run, place=place):
        pass


def test_a_ledger_of_another_ensemble_or_other_settings_is_refused(run, tmp_path, place):
    other = LetterEnsemble(seed=1)
    other.fingerprint = "another"
    with pytest.raises(LedgerError, match="something else"), opened(run, ensemble=other, place=place):
        pass
    with (
        pytest.raises(ConfigError, match="already fixed"),
        opened(run, asked=ASKED | {"epsilon": 9.0}, place=place),
    ):
        pass
    elsewhere = make_run(tmp_path / "other")
    with pytest.raises(LedgerError, match="something else"):
        opened(elsewhere, asked=ASKED | {"epsilon": 9.0}, place=joining(place)).__enter__()
    assert not (elsewhere / "prediction.json").exists()


def test_a_run_has_one_ledger_whichever_is_named(run, tmp_path, place):
    with pytest.raises(LedgerError, match="missing") as caught, opened(run):
        pass
    assert "--ledger" in caught.value.hint
    (run / "prediction.json").rename(run / "kept")
    with pytest.raises(LedgerError, match="a ledger was here"), opened(run):
        pass
    in_a_file = make_run(tmp_path / "file")
    with opened(in_a_file) as backend:
        backend.predictor.generate([1], 2)
    for there in (place, LedgerPlace(place.address + "-new")):  # neither an existing nor a new one
        with pytest.raises(LedgerError, match=r"missing|not the one"), opened(in_a_file, place=there):
            pass


def test_an_address_is_checked_and_never_shown(run, place, capsys, monkeypatch):
    with pytest.raises(ConfigError, match="not shown"):
        LedgerPlace("mysql://me:secret@host/db")
    with pytest.raises(ConfigError, match="nothing to join"):
        LedgerPlace(None, joins=True)
    with pytest.raises(ConfigError, match="nothing to charge"):
        Serving(run=run, name=NAME, settings=None, ledger=place).check()
    assert PASSWORD not in repr(place)
    monkeypatch.setenv("RETICENT_LEDGER", place.address)
    assert cli.run(["ledger", "show", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answers"] == 5
    assert cli.run(["ledger", "verify", str(run), "--ledger", place.address + "-other"]) == 2
    said = "".join(capsys.readouterr())
    assert "missing" in said
    assert PASSWORD not in said
    assert USER not in said


# ---------------------------------------------------------------- under load


class Client(threading.Thread):
    """Streams from one server, again and again, whatever happens to it; counts what it received."""

    def __init__(self, run, ending):
        super().__init__(daemon=True)
        self.run_directory, self.ending = run, ending
        self.received, self.statuses = 0, set()

    def run(self):
        while not self.ending.is_set():
            try:
                port = (self.run_directory / "port").read_text()
                self.stream(f"http://127.0.0.1:{port}")
            except (httpx.HTTPError, OSError):
                time.sleep(0.02)  # the server is gone: another is being started

    def stream(self, url):
        with (
            httpx.Client(base_url=url, timeout=PATIENCE) as http,
            http.stream("POST", "/v1/completions", json=BODY | {"stream": True}) as answer,
        ):
            self.statuses.add(answer.status_code)
            for line in answer.iter_lines():
                document = json.loads(line[6:]) if line.startswith("data: {") else {}
                if "choices" in document:
                    self.received += len(document["choices"][0]["text"])
                elif "error" in document:  # in the midst of a stream
                    assert document["error"]["code"] == "unavailable"
        if answer.status_code != 200:
            time.sleep(0.02)


class Fleet:
    """Two servers with a machine's files each, on one ledger, and clients of both."""

    def __init__(self, folder, place):
        self.runs = [make_run(folder / name) for name in ("one", "two")]
        self.place, self.ending = place, threading.Event()
        self.servers = [self.start(0), self.start(1, joins=True)]
        self.clients = [Client(run, self.ending) for run in self.runs for _ in range(CLIENTS)]
        for client in self.clients:
            client.start()

    def start(self, number, *, joins=False):
        return Killed(self.runs[number], asked=SMALL, place=joining(self.place) if joins else self.place)

    def received(self, number=None):
        chosen = [client for client in self.clients if number is None or client.run_directory == self.runs[number]]
        return sum(client.received for client in chosen)

    def wait_for_tokens(self):
        """Both servers answer."""
        for number in (0, 1):
            goal, deadline = self.received(number) + 12, time.monotonic() + PATIENCE
            while self.received(number) < goal:
                assert time.monotonic() < deadline, f"server {number} does not answer"
                time.sleep(0.01)

    def stop(self):
        self.ending.set()
        for client in self.clients:
            client.join(60)
            assert not client.is_alive()
        for server in self.servers:
            server.kill()


def refused(url):
    """Whether a request is refused by availability alone."""
    answer = httpx.post(url + "/v1/completions", json=BODY, timeout=PATIENCE)
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "unavailable"
    assert "ledger" not in answer.text
    assert "postgres" not in answer.text.lower()
    return httpx.get(url + "/readyz", timeout=PATIENCE).status_code == 503


@pytest.mark.parametrize("rounds", [1, pytest.param(12, marks=pytest.mark.slow)])
def test_no_received_token_is_uncharged_when_servers_and_database_are_killed(tmp_path, place, postgres, rounds):  # noqa: F811
    moments = random.Random(3)
    fleet = Fleet(tmp_path, place)
    try:
        for _ in range(rounds):
            for number in (0, 1):  # either server
                fleet.wait_for_tokens()
                time.sleep(moments.uniform(0.0, 0.2))
                fleet.servers[number].kill()
                fleet.servers[number] = fleet.start(number)
            fleet.wait_for_tokens()
            time.sleep(moments.uniform(0.0, 0.2))
            postgres.kill()
            for server in fleet.servers:
                assert refused(server.url)
            still = fleet.received()
            time.sleep(0.2)
            assert fleet.received() == still  # nothing is released
            postgres.start()
        fleet.wait_for_tokens()  # by the same servers as before
    finally:
        fleet.stop()
    assert set().union(*(client.statuses for client in fleet.clients)) == {200, 503}
    charged = [answers(run, place) for run in fleet.runs]
    print(f"{fleet.received()} tokens received, {charged[0]} charged, {3 * rounds} kills")
    assert charged[0] == charged[1]
    # Of each kill, at most what was under way was charged and never received: a token a client and turn.
    assert fleet.received() <= charged[0] <= fleet.received() + (3 * rounds + 1) * 2 * CLIENTS
    with place.open(fleet.runs[0]) as ledger:
        assert max(ledger.spent().values()) > 0.9 * ledger.budget.limit  # the budget was met, and held


def test_the_count_sees_a_server_that_releases_before_the_database_has_the_charge(tmp_path, place, monkeypatch):
    # Twin: every third charge is acknowledged and never sent to the database.
    original, count = DurableLedger.charge_decided, [0]

    def forgetful(self, decide):
        count[0] += 1
        if count[0] % 3:
            return original(self, decide)
        decide(self.remaining())
        return self.head()

    monkeypatch.setattr(DurableLedger, "charge_decided", forgetful)
    run = make_run(tmp_path / "run")
    with serving(run, place=place) as address:
        answer = httpx.post(address.url + "/v1/completions", json=BODY, timeout=PATIENCE).json()
    assert answers(run, place) < answer["usage"]["completion_tokens"]


def test_a_server_says_by_itself_when_the_database_is_back(tmp_path, place, postgres):  # noqa: F811
    run = make_run(tmp_path / "run")
    with serving(run, place=place) as address:
        assert httpx.post(address.url + "/v1/completions", json=BODY, timeout=PATIENCE).status_code == 200
        postgres.kill()
        try:
            assert refused(address.url)
        finally:
            postgres.start()
        deadline = time.monotonic() + PATIENCE
        while (
            httpx.get(address.url + "/readyz", timeout=PATIENCE).status_code != 200
        ):  # nobody asks for a token meanwhile
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert httpx.post(address.url + "/v1/completions", json=BODY, timeout=PATIENCE).status_code == 200
    shutil.rmtree(run)
