"""The ledger in PostgreSQL, where it differs from the file: several machines, a server that may forget or die."""

import shutil
import subprocess
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from reticent.core.errors import BudgetExhausted, ConfigError, LedgerError, MissingExtra
from reticent.ledger.durable import SqliteLedger, witness_path
from reticent.ledger.postgres import session as postgres_session
from reticent.ledger.postgres.address import PostgresAddress
from reticent.ledger.postgres.ledger import PostgresLedger
from reticent.ledger.postgres.store import PostgresStore
from reticent.runs.directory import RunDirectory
from reticent.runs.ledger_place import LedgerPlace
from tests.ledger.ledgers import EVENT, PostgresLedgers, budget_of
from tests.ledger.postgres.server import PASSWORD, USER, PostgresServer
from tests.ledger.test_kills import ACCOUNTS, charge_under_fire, violations, wait_until
from tests.ledger.test_ledger import winners
from tests.patience import PATIENCE


@pytest.fixture(scope="module")
def ledgers(postgres) -> PostgresLedgers:
    return PostgresLedgers(postgres.url)


@pytest.fixture
def path(tmp_path, ledgers) -> Path:
    return ledgers.used(tmp_path)


# ---------------------------------------------------------------- several machines


def test_two_machines_share_one_budget(path, ledgers, tmp_path):
    elsewhere = tmp_path / "other machine" / "head"
    elsewhere.parent.mkdir()
    address = ledgers.address(path)
    with ledgers.open(path) as one, PostgresLedger.join(address, witness=elsewhere, identity="ensemble 1") as two:
        one.charge({"a": 0.5}, EVENT)
        two.charge({"a": 0.5}, EVENT)
        assert one.spent() == two.spent() == {"a": 3.5, "b": 1.25}
        with pytest.raises(BudgetExhausted):
            one.charge({"a": 1.0}, EVENT)
        assert one.verify() == two.verify()
    with pytest.raises(LedgerError, match="used the ledger before"):
        PostgresLedger.join(address, witness=elsewhere)
    PostgresLedger.open(address, witness=elsewhere).close()


@dataclass(frozen=True)
class Machines:
    """Opens every ledger as another machine: no two of them share a lock file."""

    ledgers: PostgresLedgers

    def open(self, path: str) -> PostgresLedger:
        witness = Path(path).with_name(f"{time.monotonic_ns()}-{threading.get_native_id()}.head")
        return PostgresLedger.join(self.ledgers.address(path), witness=witness)


def test_of_machines_that_race_for_the_last_unit_only_one_wins(tmp_path, ledgers):
    ledgers.new(tmp_path, limit=1.0, accounts=("a",)).close()
    assert winners(Machines(ledgers), tmp_path / "ledger.db", racers=4) == 1


def test_rows_cut_off_the_end_are_missed_by_a_machine_that_never_saw_them(path, ledgers, tmp_path, monkeypatch):
    ledgers.edit(path, "DELETE FROM charges WHERE sequence > 3")
    with pytest.raises(LedgerError, match="rolled back"):
        PostgresLedger.join(ledgers.address(path), witness=tmp_path / "new.head")
    monkeypatch.setattr(
        PostgresStore, "remembered", lambda self: None
    )  # broken twin: the database remembers nothing
    PostgresLedger.join(ledgers.address(path), witness=tmp_path / "newer.head").close()


OLDER = [
    "UPDATE header SET sequence = 3, digest = (SELECT digest FROM charges WHERE sequence = 3)",
    "DELETE FROM charges WHERE sequence > 3",
]


def test_a_database_restored_from_an_older_copy_is_refused_until_an_operator_accepts_it(path, ledgers):
    ledgers.edit(path, *OLDER)
    with pytest.raises(LedgerError, match="rolled back"):
        ledgers.open(path)
    ledgers.reanchor(path, identity="ensemble 1")
    with ledgers.open(path) as ledger:
        assert ledger.spent() == {"a": 1.5, "b": 0.75}
        assert list(ledger.rows())[-1].kind == "reanchor"


def test_an_older_copy_that_went_on_by_itself_is_refused(path, ledgers, tmp_path):
    ledgers.edit(path, *OLDER)
    with PostgresLedger.join(ledgers.address(path), witness=tmp_path / "new.head") as other:
        for _ in range(3):
            other.charge({"b": 0.125}, EVENT)
    with pytest.raises(LedgerError, match="not the one its witness saw"):
        ledgers.open(path)


def test_a_missing_ledger_is_refused_and_not_made_anew(path, ledgers):
    with ledgers.open(path) as ledger:
        ledgers.edit(path, "DELETE FROM charges", "DELETE FROM header")
        with pytest.raises(LedgerError, match="missing"):
            ledger.charge({"a": 0.5}, EVENT)
    with pytest.raises(LedgerError, match="missing"):
        ledgers.open(path)
    with pytest.raises(LedgerError, match="a ledger was here"):
        ledgers.new(path.parent)


def test_create_never_replaces(path, ledgers):
    witness_path(path).unlink()
    with pytest.raises(LedgerError, match="a ledger already exists"):
        ledgers.new(path.parent)
    assert not witness_path(path).exists()


def test_a_ledger_made_anew_under_the_same_name_stops_whoever_had_it_open(path, ledgers):
    with ledgers.open(path) as ledger:
        ledgers.edit(path, "DELETE FROM charges", "DELETE FROM header")
        witness_path(path).rename(path.with_name("kept"))
        ledgers.new(path.parent).close()
        path.with_name("kept").replace(witness_path(path))
        with pytest.raises(LedgerError, match="replaced"):
            ledger.charge({"a": 0.5}, EVENT)


# ---------------------------------------------------------------- tables and triggers


def test_tables_with_the_column_of_an_older_version_are_used_on(path, ledgers, postgres):
    import psycopg

    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("ALTER TABLE reticent.charges ADD COLUMN lease bigint")
        try:
            with ledgers.open(path) as ledger:
                assert ledger.charge({"a": 0.5}, EVENT).sequence == 6
                ledger.verify()
        finally:
            connection.execute("ALTER TABLE reticent.charges DROP COLUMN lease")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE reticent.charges SET costs = '{}'",
        "DELETE FROM reticent.charges",
        "TRUNCATE reticent.charges",
        "INSERT INTO reticent.charges SELECT ledger, 99, time, '', '', '', '' FROM reticent.charges",
        "UPDATE reticent.ledgers SET document = '{}'",
        "DELETE FROM reticent.ledgers",
        "TRUNCATE reticent.ledgers CASCADE",
    ],
)
def test_rows_cannot_be_changed_by_accident(path, postgres, statement):
    import psycopg

    with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
        postgres.execute(statement)


@pytest.mark.parametrize(
    ("change", "back"),
    [
        (
            "ALTER TABLE reticent.charges DISABLE TRIGGER charges_stay",
            "ALTER TABLE reticent.charges ENABLE ALWAYS TRIGGER charges_stay",
        ),
        ("ALTER TABLE reticent.charges SET UNLOGGED", "ALTER TABLE reticent.charges SET LOGGED"),
        ("ALTER TABLE reticent.charges ADD note text", "ALTER TABLE reticent.charges DROP note"),
        ("ALTER TABLE reticent.charges RENAME TO elsewhere", "ALTER TABLE reticent.elsewhere RENAME TO charges"),
    ],
)
def test_changed_tables_are_noticed(path, ledgers, postgres, change, back):
    postgres.execute(change)
    try:
        with pytest.raises(LedgerError, match=r"tables or triggers were changed|missing"):
            ledgers.open(path)
    finally:
        postgres.execute(back)
    ledgers.open(path).close()


# ---------------------------------------------------------------- a server that may forget


def test_every_commit_is_synced_whatever_the_role_was_told(path, ledgers, postgres, monkeypatch):
    postgres.execute(f"ALTER ROLE {USER} SET synchronous_commit = off")
    try:
        with ledgers.open(path) as ledger:
            store = ledger._store
            assert store._read("SHOW synchronous_commit") == [("off",)]
            with store.transaction():
                assert store._read("SHOW synchronous_commit") == [("on",)]
            ledger.charge({"a": 0.5}, EVENT)
            unset = postgres_session._PREPARE.replace("ELSE 'on'", "ELSE 'off'")
            monkeypatch.setattr(postgres_session, "_PREPARE", unset)  # broken twin: leaves the setting alone
            with pytest.raises(LedgerError, match="synchronous_commit = off"):
                ledger.charge({"a": 0.5}, EVENT)
            assert ledger.spent()["a"] == 3.0
    finally:
        postgres.execute(f"ALTER ROLE {USER} RESET synchronous_commit")


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_may_lose_what_it_acknowledged_is_refused(path, ledgers, postgres, setting):
    with ledgers.open(path) as ledger:
        postgres.execute(f"ALTER SYSTEM SET {setting} = off", "SELECT pg_reload_conf()")
        try:
            deadline = time.monotonic() + PATIENCE
            while ledger._store._read(f"SHOW {setting}") != [("off",)]:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            with pytest.raises(LedgerError, match=f"{setting} = off"):
                ledger.charge({"a": 0.5}, EVENT)
            with pytest.raises(LedgerError, match=f"{setting} = off"):
                ledgers.open(path)
        finally:
            postgres.execute(f"ALTER SYSTEM RESET {setting}", "SELECT pg_reload_conf()")
        while ledger._store._read(f"SHOW {setting}") != [("on",)]:
            time.sleep(0.02)
        assert ledger.charge({"a": 0.5}, EVENT).sequence == 6


def test_a_commit_that_the_server_turned_into_a_roll_back_is_no_commit(path, ledgers):
    with ledgers.open(path) as ledger:
        store = ledger._store
        with pytest.raises(LedgerError, match="not committed"), store.transaction(), suppress(Exception):
            store._connection.execute("SELECT 1/0")
        assert ledger.charge({"a": 0.5}, EVENT).sequence == 6


# ---------------------------------------------------------------- locks, kills, restarts


def test_a_lock_that_is_never_given_back_is_an_error_and_not_a_hang(path, ledgers, tmp_path):
    joined = PostgresLedger.join(ledgers.address(path), witness=tmp_path / "other.head", timeout=0.2)
    with joined, ledgers.open(path, timeout=2.0) as holder:
        with holder._store.transaction(), pytest.raises(LedgerError, match="LockNotAvailable"):
            joined.charge({"a": 0.5}, EVENT)
        assert joined.charge({"a": 0.5}, EVENT).sequence == 6


def test_a_holder_that_stops_in_the_middle_loses_its_lock_and_its_charge(path, ledgers, tmp_path):
    joined = PostgresLedger.join(ledgers.address(path), witness=tmp_path / "other.head", timeout=5.0)
    with joined, ledgers.open(path, timeout=0.2) as stopped:
        with pytest.raises(LedgerError), stopped._store.transaction():
            assert joined.charge({"a": 0.5}, EVENT).sequence == 6  # waits until the server gives up the holder
        assert stopped.charge({"a": 0.5}, EVENT).sequence == 7  # over a new connection


def test_charging_goes_on_after_the_server_was_killed_and_started_again(path, ledgers, postgres):
    with ledgers.open(path) as ledger:
        receipt = ledger.charge({"a": 0.5}, EVENT)
        postgres.kill()
        with pytest.raises(LedgerError, match="cannot be used"):
            ledger.charge({"a": 0.5}, EVENT)
        postgres.start()
        assert ledger.holds(receipt)
        assert ledger.charge({"a": 0.5}, EVENT).sequence == 7
        postgres.kill()
        postgres.start()
        assert ledger.charge({"a": 0.25}, EVENT).sequence == 8  # nobody asked in between: it is not even noticed
    with ledgers.open(path) as ledger:
        ledger.verify()
        assert ledger.spent() == {"a": 3.75, "b": 1.25}


@dataclass(frozen=True)
class Patient:
    """Workers that wait for a dead server and go on; what failed is not acknowledged."""

    ledgers: PostgresLedgers

    def open(self, path: str) -> "PatientLedger":
        return PatientLedger(self.ledgers, path)


class PatientLedger:
    def __init__(self, ledgers: PostgresLedgers, path: str) -> None:
        self._ledger = self._again(lambda: ledgers.open(path))

    def charge(self, costs, event):
        try:
            return self._ledger.charge(costs, event)
        except LedgerError as error:
            if "cannot be used" not in str(error):
                raise
            raise BudgetExhausted from error  # for the worker: not charged, as far as anybody knows

    def remaining(self):
        return self._again(self._ledger.remaining)

    def _again(self, act):
        while True:
            try:
                return act()
            except LedgerError as error:
                if "cannot be used" not in str(error):
                    raise
                time.sleep(0.05)


@pytest.mark.parametrize(
    ("seconds", "kills", "deaths"),
    [(2.0, 4, 2), pytest.param(60.0, 60, 20, marks=pytest.mark.slow)],
    ids=["short", "minute"],
)
def test_nothing_acknowledged_is_missing_when_server_and_clients_are_killed(
    tmp_path, ledgers, postgres, seconds, kills, deaths
):
    ledgers.new(tmp_path, limit=30.0, accounts=ACCOUNTS).close()

    def acknowledged() -> int:
        return sum(path.read_bytes().count(b"\n") for path in tmp_path.glob("*.acknowledged"))

    def kill_the_server() -> None:
        for death in range(1 + deaths):
            goal = acknowledged() + 20  # charging goes on after every death
            wait_until(lambda goal=goal: acknowledged() > goal, what="more was charged")
            if death < deaths:
                postgres.kill()
                postgres.start()
                survived.append(death)

    survived: list[int] = []
    killer = threading.Thread(target=kill_the_server)
    killer.start()
    killed = charge_under_fire(
        Patient(ledgers), tmp_path, seconds=seconds, kills=kills, workers=4, until=lambda: not killer.is_alive()
    )
    killer.join(120)
    assert len(survived) == deaths
    assert killed == kills
    assert violations(ledgers, tmp_path) == []


# ---------------------------------------------------------------- addresses and credentials


def shown(error: BaseException) -> str:
    """Everything that a log could hold of an error."""
    return "".join([*traceback.format_exception(error), repr(error), str(error.__dict__)])


@pytest.mark.parametrize(
    "change",
    [
        (PASSWORD, PASSWORD + "-wrong"),
        ("/postgres?", "/nowhere?"),
        ("?host=", "?host=/nowhere"),
        ("?host=", "?nonsense=1&host="),
        ("?host=", "?port=70000&host="),
        (f"{PASSWORD}@", f"{PASSWORD}%ZZ@"),
    ],
    ids=["password", "database", "socket", "option", "port", "escape"],
)
def test_errors_show_no_credentials(path, ledgers, change):
    wrong = ledgers.url.replace(*change)
    assert wrong != ledgers.url
    with pytest.raises(LedgerError, match="no connection") as caught:
        PostgresLedger.open(PostgresAddress.parse(wrong), witness=witness_path(path))
    assert PASSWORD not in shown(caught.value)
    assert USER not in shown(caught.value)


@pytest.mark.parametrize("sign", ["/", "?", "#", "@", " ", "#x/", "/x?", "?x="])
def test_an_address_that_cannot_be_taken_apart_is_not_shown(sign):
    with pytest.raises(ConfigError, match="not shown") as caught:
        PostgresAddress.parse(f"postgresql://operator:first{sign}second@host/database")
    assert "first" not in str(caught.value)
    assert "second" not in str(caught.value)


def test_what_is_shown_of_an_address():
    address = PostgresAddress.parse(
        "postgres://me:secret@db.example:5433/budgets?password=other&sslmode=require#e7"
    )
    assert str(address) == "postgresql://db.example:5433/budgets#e7"
    assert "secret" not in repr(address)
    assert "other" not in repr(address)
    assert PostgresAddress.parse("postgresql://db/budgets").ledger == "ledger"


def test_a_refused_row_is_not_shown(path, ledgers):
    with ledgers.open(path) as ledger:
        row = next(iter(ledger.rows()))
        with pytest.raises(LedgerError) as caught, ledger._store.transaction():
            ledger._store.insert(row)
        assert row.costs not in shown(caught.value)


def test_a_run_charges_the_file_in_it_or_the_database_that_is_named(path, ledgers, tmp_path):
    place = LedgerPlace(f"{ledgers.url}#{ledgers.address(path).ledger}")
    run, other, third, fourth = (tmp_path / name for name in ("run", "other", "third", "fourth"))
    for folder in (run, other, third, fourth):
        RunDirectory.for_new_run(folder).start("train", config={}, seed=None, corpora={})
    shutil.copy(witness_path(path), witness_path(run / "ledger.db"))
    with place.open(run, identity="ensemble 1") as ledger:
        assert isinstance(ledger, PostgresLedger)
        assert PASSWORD not in ledger.name
    with pytest.raises(LedgerError, match="ensemble 1"):
        place.open(run, identity="ensemble 2")
    with pytest.raises(LedgerError, match="witness is missing"):
        place.open(other)
    place.join(other, identity="ensemble 1")
    place.open(other).close()
    with pytest.raises(LedgerError, match="a ledger already exists here") as caught:
        place.create(third, budget_of(1.0), accounts=["a"], identity="ensemble 1")
    assert "--join" in caught.value.hint
    here = LedgerPlace()
    here.create(third, budget_of(1.0), accounts=["a"], identity="file")
    with here.open(third, identity="file") as ledger:
        assert isinstance(ledger, SqliteLedger)
    with pytest.raises(LedgerError, match="not the one"):
        place.open(third)
    new = LedgerPlace(f"{ledgers.url}#by-place")
    new.create(fourth, budget_of(1.0), accounts=["a"], identity="new")
    with new.open(fourth, identity="new") as ledger:
        assert ledger.charge({"a": 1.0}, EVENT).sequence == 1


def test_a_missing_driver_is_named_with_its_install_command(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra) as caught:
        PostgresLedger.open(PostgresAddress.parse("postgresql://host/database"), witness=tmp_path / "head")
    assert caught.value.hint == "pip install 'reticent[postgres]'"


def test_a_ledger_in_a_file_never_imports_the_driver():
    code = "import sys, reticent.accounting, reticent.runs.ledger_place; sys.exit('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_server_is_found_and_answers(postgres: PostgresServer):
    import psycopg

    with psycopg.connect(postgres.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
