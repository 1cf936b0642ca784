"""The ledger: charges, races, and broken twins that must be caught."""

import json
import math
import os
import sqlite3
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.core.errors import BudgetExhausted, LedgerError
from reticent.core.event import Gaussian, NonPrivate, event_from_json
from reticent.core.guarantee import Basis
from reticent.core.ledger import Receipt
from reticent.ledger import chain as ledger_chain
from reticent.ledger import sqlite as sqlite_store
from reticent.ledger.chain import Chain, Header, Row, RowKind, cost_units, row_digest
from reticent.ledger.durable import SqliteLedger, witness_path
from reticent.ledger.fixed_point import UNIT, units_up
from reticent.ledger.sqlite import _SCHEMA
from tests.ledger.ledgers import EVENT, SqliteLedgers, budget_of
from tests.patience import PATIENCE
from tests.processes import PROCESSES


@pytest.fixture
def path(tmp_path, ledgers) -> Path:
    return ledgers.used(tmp_path)


@pytest.fixture
def sqlite_path(tmp_path) -> Path:
    return SqliteLedgers().used(tmp_path)


def test_charge_is_refused_when_it_would_pass_the_budget_and_then_nothing_is_spent(tmp_path, ledgers):
    with ledgers.new(tmp_path, limit=1.0) as ledger:
        ledger.charge({"a": 0.5, "b": 0.25}, EVENT)
        before = (ledger.spent(), ledger.head())
        with pytest.raises(BudgetExhausted, match="'a'"):
            ledger.charge({"b": 0.25, "a": 0.75}, EVENT)  # b has room, a has not: neither is charged
        assert (ledger.spent(), ledger.head()) == before
        ledger.charge({"a": 0.5}, EVENT)  # the limit itself may be reached
        assert ledger.remaining() == {"a": 0.0, "b": 0.75}
        with pytest.raises(BudgetExhausted):
            ledger.charge({"a": 1e-300}, EVENT)
        ledger.charge({"a": 0.0, "b": 0.75}, EVENT)
        assert ledger.spent() == {"a": 1.0, "b": 1.0}


def test_refusal_does_not_say_what_was_spent(tmp_path, ledgers):
    with ledgers.new(tmp_path, limit=1.0) as ledger:
        ledger.charge({"a": 0.8125}, EVENT)
        with pytest.raises(BudgetExhausted) as caught:
            ledger.charge({"a": 0.4375}, EVENT)
    assert not {"8125", "1875", "4375"} & set(str(caught.value).replace(".", " ").split())


@pytest.mark.parametrize("cost", [math.nan, -0.1, -math.inf])
def test_a_cost_that_is_no_amount_is_refused(tmp_path, cost, ledgers):
    with ledgers.new(tmp_path) as ledger:
        with pytest.raises(ValueError, match="at least 0"):
            ledger.charge({"a": cost}, EVENT)
        with pytest.raises(ValueError, match="at least one account"):
            ledger.charge({}, EVENT)
        with pytest.raises(LedgerError, match="no such account"):
            ledger.charge({"c": 0.1}, EVENT)
        assert ledger.head().sequence == 0


def test_an_infinite_price_passes_every_budget(tmp_path, ledgers):
    with ledgers.new(tmp_path) as ledger, pytest.raises(BudgetExhausted):
        ledger.charge({"a": math.inf}, NonPrivate())
    with ledgers.open(tmp_path / "ledger.db") as ledger, pytest.raises(BudgetExhausted):
        ledger.charge({"a": 1e308}, EVENT)


def test_what_was_charged_is_there_after_opening_again(path, ledgers):
    with ledgers.open(path, identity="ensemble 1") as ledger:
        assert ledger.spent() == {"a": 2.5, "b": 1.25}
        assert ledger.remaining() == {"a": 1.5, "b": 2.75}
        assert ledger.budget == budget_of(4.0)
        assert (ledger.accounts, ledger.identity) == (("a", "b"), "ensemble 1")
        assert ledger.verify() == ledger.head()
        receipt = ledger.charge({"a": 0.5}, EVENT)
        assert receipt.sequence == 6
        assert ledger.holds(receipt)
        assert not ledger.holds(Receipt(6, "0" * 64))
        assert not ledger.holds(Receipt(7, receipt.digest))


def test_export_is_json_lines_from_which_the_totals_follow(path, ledgers):
    with ledgers.open(path) as ledger:
        header, *rows = [json.loads(line) for line in ledger.export()]
        assert sum(row["units"]["a"] for row in rows) == units_up(ledger.spent()["a"])
    assert header["schema_version"] == 1
    assert [row["sequence"] for row in rows] == [1, 2, 3, 4, 5]
    assert all(row["time"].endswith("+00:00") and row["kind"] == "charge" for row in rows)
    assert event_from_json(rows[0]["event"]) == EVENT


def test_every_commit_is_synced(sqlite_path):
    with SqliteLedger.open(sqlite_path) as ledger:
        connection = ledger._store._connection
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_only_the_owner_may_read_the_files(sqlite_path):
    assert sqlite_path.stat().st_mode & 0o077 == 0
    assert witness_path(sqlite_path).stat().st_mode & 0o077 == 0


def test_accounts_and_limits_that_make_no_ledger_are_refused(tmp_path, ledgers):
    for accounts in ((), ("a", "a"), ("",)):
        with pytest.raises(ValueError, match="accounts"):
            ledgers.new(tmp_path, accounts=accounts)
    with pytest.raises(ValueError, match="limit"):
        ledgers.new(tmp_path, limit=1e-30)
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_does_not_go_through_a_fork(path, ledgers):
    with ledgers.open(path) as ledger:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                ledger.charge({"a": 0.1}, EVENT)
                answer = b"charged"
            except LedgerError:
                answer = b"refused"
            os.write(writer, answer)
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reader, 8) == b"refused"
        os.close(reader)
        os.close(writer)


def test_a_hundred_thousand_charges_of_a_tenth_never_drift_below_their_sum():
    chain = Chain(Header.new(budget_of(20_000.0), ("a",), identity=""), name="ledger")
    for _ in range(100_000):
        chain.follow(chain.next_row(RowKind.CHARGE, cost_units({"a": 0.1}), event="null"))
    spent = Fraction(chain.totals["a"], UNIT)
    exact = 100_000 * Fraction(0.1)
    assert exact <= spent <= exact + Fraction(100_000, UNIT)
    assert sum([0.1] * 100_000) != float(exact)  # what a running float does


@pytest.mark.parametrize(
    ("kind", "units"), [("charge", {"a": -1}), ("charge", {}), ("reanchor", {"a": 1}), ("lease", {"a": 1})]
)
def test_the_chain_accepts_no_row_that_gives_back_or_that_no_ledger_writes(kind, units):
    chain = Chain(Header.new(budget_of(4.0), ("a", "b"), identity=""), name="ledger")
    chain.follow(chain.next_row(RowKind.CHARGE, {"a": 9, "b": 9}, event="null"))
    row = replace(chain.next_row(RowKind.CHARGE, units, event="null"), kind=kind)
    with pytest.raises(LedgerError, match="rules"):
        chain.follow(replace(row, digest=row_digest(chain.head.digest, row)))
    assert chain.totals == {"a": 9, "b": 9}


def test_a_ledger_with_the_column_of_an_older_version_goes_on(tmp_path, monkeypatch):
    older = tuple(sql.replace("digest TEXT NOT NULL)", "lease INTEGER, digest TEXT NOT NULL)") for sql in _SCHEMA)
    monkeypatch.setattr(sqlite_store, "_SCHEMA", older)
    monkeypatch.setattr(sqlite_store, "_CHARGES", older[1])
    with SqliteLedgers().new(tmp_path) as ledger:
        ledger.charge({"a": 1.0}, EVENT)
    monkeypatch.undo()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as tool:
        assert tool.execute("SELECT lease FROM charges").fetchall() == [(None,)]
    with SqliteLedgers().open(tmp_path / "ledger.db") as ledger:
        ledger.charge({"a": 1.0}, EVENT)
        ledger.verify()
        assert ledger.spent()["a"] == 2.0


AMOUNTS = st.floats(min_value=0.0, max_value=1.5)
CHARGES = st.lists(st.tuples(AMOUNTS, AMOUNTS), max_size=25)


@settings(max_examples=25, deadline=None)
@given(charges=CHARGES, limit=st.floats(min_value=0.5, max_value=4.0))
def test_acknowledged_charges_sum_to_what_is_spent_and_never_pass_the_limit(charges, limit, ledgers):
    with tempfile.TemporaryDirectory() as folder, ledgers.new(Path(folder), limit=limit) as ledger:
        expected = {"a": Fraction(0), "b": Fraction(0)}  # acknowledged
        for a, b in charges:
            costs = {"a": a, "b": b}
            try:
                ledger.charge(costs, EVENT)
            except BudgetExhausted:
                continue
            expected = {c: expected[c] + Fraction(units_up(costs[c]), UNIT) for c in expected}
            assert {c: Fraction(v, UNIT) for c, v in ledger._chain.totals.items()} == expected
            assert max(expected.values()) <= Fraction(limit)
        ledger.verify()


class CheckedBeforeLocked:
    """Broken twin: looks at the total, and only then takes the write lock."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=PATIENCE)

    @classmethod
    def open(cls, path: str) -> "CheckedBeforeLocked":
        return cls(path)

    def charge(self, costs, event) -> None:
        total = self._connection.execute("SELECT coalesce(sum(cost), 0) FROM charges").fetchone()[0]
        if total + costs["a"] > 1.0:
            raise BudgetExhausted
        time.sleep(0.02)
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("INSERT INTO charges VALUES (?)", (costs["a"],))
        self._connection.execute("COMMIT")


def charge_once(kind, path: str, barrier, answers) -> None:
    ledger = kind.open(path)
    barrier.wait(60)
    try:
        ledger.charge({"a": 1.0}, EVENT)
        answers.put(True)
    except BudgetExhausted:
        answers.put(False)


def winners(kind, path: Path, *, racers: int) -> int:
    """How many of several processes get the last unit of a budget."""
    barrier, answers = PROCESSES.Barrier(racers), PROCESSES.Queue()
    children = [
        PROCESSES.Process(target=charge_once, args=(kind, str(path), barrier, answers)) for _ in range(racers)
    ]
    for child in children:
        child.start()
    won = sum(answers.get(timeout=PATIENCE) for _ in children)
    for child in children:
        child.join(60)
    return won


def test_of_processes_that_race_for_the_last_unit_only_one_wins(tmp_path, ledgers):
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        ledgers.new(folder, limit=1.0, accounts=("a",)).close()
        assert winners(ledgers, folder / "ledger.db", racers=3) == 1


def test_the_race_catches_a_ledger_that_checks_before_it_locks(tmp_path):
    with closing(sqlite3.connect(tmp_path / "twin.db")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE charges (cost REAL)")
    assert winners(CheckedBeforeLocked, tmp_path / "twin.db", racers=3) > 1


def test_threads_may_share_a_ledger(tmp_path, ledgers):
    with ledgers.new(tmp_path, limit=1.0) as ledger:

        def charge(_) -> int:
            try:
                return ledger.charge({"a": 0.0625}, EVENT).sequence
            except BudgetExhausted:
                return 0

        with ThreadPoolExecutor(4) as threads:
            places = list(threads.map(charge, range(24)))
        assert sorted(places) == [0] * 8 + list(range(1, 17))
        assert ledger.remaining() == {"a": 0.0, "b": 1.0}


def test_two_ledgers_in_one_process_see_each_other(path, ledgers):
    with ledgers.open(path) as one, ledgers.open(path) as two:
        one.charge({"a": 0.5}, EVENT)
        two.charge({"a": 0.5}, EVENT)
        assert one.spent() == two.spent() == {"a": 3.5, "b": 1.25}
        with pytest.raises(BudgetExhausted):
            one.charge({"a": 1.0}, EVENT)


def released_beyond_budget(release, ledger) -> float:
    """Run a mechanism to the end of its budget; what it released beyond what the limit pays for."""
    released: list[str] = []
    with suppress(BudgetExhausted):
        while True:
            release(ledger, released)
    return len(released) * 0.5 - ledger.budget.limit


def charge_then_release(ledger, released) -> None:
    ledger.charge({"a": 0.5}, EVENT)
    released.append("token")


def release_then_charge(ledger, released) -> None:
    released.append("token")
    ledger.charge({"a": 0.5}, EVENT)


def test_a_mechanism_that_charges_after_the_release_is_caught(tmp_path, ledgers):
    (tmp_path / "good").mkdir()
    with ledgers.new(tmp_path) as twin, ledgers.new(tmp_path / "good") as good:
        assert released_beyond_budget(charge_then_release, good) == 0.0
        assert released_beyond_budget(release_then_charge, twin) > 0.0


def test_a_header_whose_guarantee_rests_on_an_unknown_event_is_refused():
    budget = budget_of(4.0)
    promise = replace(budget.guarantee, basis=Basis(event=Gaussian(1.0), delta=1e-5))
    text = Header.new(replace(budget, guarantee=promise), ("a",), identity="").text
    assert Header.from_text(text, name="ledger").budget.guarantee == promise
    with pytest.raises(LedgerError, match="header cannot be read"):
        Header.from_text(text.replace('"Gaussian"', '"Gaussiam"'), name="ledger")


def forgery_is_caught() -> bool:
    """Whether a chain notices that a row was replaced by a cheaper one with a digest of its own."""
    header = Header.new(budget_of(4.0), ("a",), identity="")
    writer = Chain(header, name="ledger")
    rows: list[Row] = []
    for _ in range(3):
        if len(rows) == 1:
            cheaper = writer.next_row(RowKind.CHARGE, {"a": 1}, event="null")
        rows.append(writer.next_row(RowKind.CHARGE, {"a": 1000}, event="null"))
        writer.follow(rows[-1])
    rows[1] = cheaper
    reader = Chain(header, name="ledger")
    try:
        for row in rows:
            reader.follow(row)
    except LedgerError:
        return True
    return False


def test_a_chain_that_forgets_the_previous_digest_is_caught(monkeypatch):
    assert forgery_is_caught()
    true_digest = ledger_chain.row_digest
    monkeypatch.setattr(ledger_chain, "row_digest", lambda previous, row: true_digest("", row))
    assert not forgery_is_caught()


def test_a_row_beyond_the_budget_is_refused_even_with_a_true_digest():
    chain = Chain(Header.new(budget_of(1.0), ("a",), identity=""), name="ledger")
    with pytest.raises(LedgerError, match="exceeds the budget"):
        chain.follow(chain.next_row(RowKind.CHARGE, {"a": UNIT + 1}, event="null"))
