"""Ledgers that must not be used: edited, cut, rolled back, of another ensemble, on a disk that fails."""

import os
import re
import resource
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from reticent.core.errors import LedgerError
from reticent.ledger.durable import SqliteLedger, witness_path
from tests.ledger.ledgers import EVENT, SqliteLedgers, in_child

FILES = SqliteLedgers()


@pytest.fixture
def path(tmp_path) -> Path:
    return FILES.used(tmp_path)


@pytest.fixture
def any_path(tmp_path, ledgers) -> Path:
    return ledgers.used(tmp_path)


def copy_ledger(path: Path, folder: Path, *, with_witness: bool = False) -> None:
    folder.mkdir(exist_ok=True)
    for name in (path.name, path.name + "-wal", *([path.name + ".head"] if with_witness else [])):
        (folder / name).unlink(missing_ok=True)
        if (path.parent / name).exists():
            shutil.copy(path.parent / name, folder / name)


EDITS = {
    "a cheaper row": ["UPDATE charges SET costs = replace(costs, ':', ':1') WHERE sequence = 2"],
    "another time": ["UPDATE charges SET time = '2020-01-01T00:00:00.000000+00:00' WHERE sequence = 2"],
    "another event": ["UPDATE charges SET event = 'null' WHERE sequence = 3"],
    "the last row deleted": ["DELETE FROM charges WHERE sequence = 5"],
    "a middle row deleted": ["DELETE FROM charges WHERE sequence = 3"],
    "a middle row deleted, the rest moved up": [
        "DELETE FROM charges WHERE sequence = 3",
        "UPDATE charges SET sequence = sequence - 1 WHERE sequence > 3",
    ],
    "two rows swapped": [
        "UPDATE charges SET sequence = -2 WHERE sequence = 2",
        "UPDATE charges SET sequence = 2 WHERE sequence = 3",
        "UPDATE charges SET sequence = 3 WHERE sequence = -2",
    ],
    "all rows deleted": ["DELETE FROM charges"],
    "a larger budget": ["""UPDATE header SET document = replace(document, '"limit":4.0', '"limit":9.0')"""],
    "no header": ["DELETE FROM header"],
    "another header version": [
        """UPDATE header SET document = replace(document, '"schema_version":1', '"schema_version":2')"""
    ],
}
FILE_EDITS = {
    "two headers": ["INSERT INTO header SELECT document FROM header"],
    "bytes for text": ["UPDATE charges SET costs = CAST(costs AS BLOB) WHERE sequence = 2"],
    "text that is none": ["UPDATE charges SET event = CAST(x'ff' AS TEXT) WHERE sequence = 2"],
    "another version": ["PRAGMA user_version = 2"],
    "another program's file": ["PRAGMA application_id = 0"],
    "another table": ["CREATE TABLE notes (text TEXT)"],
    "no write-ahead log": ["PRAGMA journal_mode = DELETE"],
}


@pytest.mark.parametrize("statements", EDITS.values(), ids=EDITS)
def test_an_edited_ledger_is_refused(any_path, ledgers, statements):
    ledgers.edit(any_path, *statements)
    with pytest.raises(LedgerError) as caught:
        ledgers.open(any_path)
    assert caught.value.hint
    assert re.match(r"/.*/ledger\.db: |postgresql:///postgres#\w+: ", str(caught.value))


@pytest.mark.parametrize("statements", FILE_EDITS.values(), ids=FILE_EDITS)
def test_an_edited_file_is_refused(path, statements):
    FILES.edit(path, *statements)
    with pytest.raises(LedgerError) as caught:
        SqliteLedger.open(path)
    assert caught.value.hint
    assert str(path) in str(caught.value)


def test_the_edits_themselves_are_what_is_caught(any_path, ledgers):
    ledgers.edit(any_path, "SELECT 1")
    with ledgers.open(any_path) as ledger:
        assert ledger.verify() == ledger.head()


def test_rows_cannot_be_changed_by_accident(path):
    with closing(sqlite3.connect(path)) as connection:
        row = "9, time, kind, costs, event, digest FROM charges WHERE sequence = 1"
        for statement in (
            "UPDATE charges SET costs = '{}'",
            "DELETE FROM charges",
            f"INSERT INTO charges SELECT {row}",
            f"INSERT OR REPLACE INTO charges SELECT {row.replace('9', '2', 1)}",
            "UPDATE header SET document = '{}'",
            "DELETE FROM header",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(statement)


def test_dropped_triggers_are_noticed(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER charges_stay")
    with pytest.raises(LedgerError, match="triggers"):
        SqliteLedger.open(path)


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.9])
def test_a_truncated_file_is_refused(path, kept):
    with path.open("r+b") as file:
        file.truncate(int(kept * path.stat().st_size))
    with pytest.raises(LedgerError):
        SqliteLedger.open(path)


def test_a_file_that_is_no_database_is_refused(path):
    path.write_bytes(b"not a ledger at all " * 1000)
    with pytest.raises(LedgerError):
        SqliteLedger.open(path)


def test_a_missing_ledger_is_refused_and_not_made_anew(path):
    path.unlink()
    with pytest.raises(LedgerError, match="missing"):
        SqliteLedger.open(path)
    assert not path.exists()
    with pytest.raises(LedgerError, match="a ledger was here"):
        FILES.new(path.parent)


def test_create_never_replaces(path):
    with pytest.raises(LedgerError, match="a ledger already exists"):
        FILES.new(path.parent)
    path.unlink()
    witness_path(path).unlink()
    path.with_name(path.name + "-wal").write_bytes(b"rows that a crash left")
    with pytest.raises(LedgerError, match="-wal"):
        FILES.new(path.parent)
    assert not witness_path(path).exists()


def test_another_ensembles_ledger_is_refused(any_path, ledgers):
    with pytest.raises(LedgerError, match="ensemble 1"):
        ledgers.open(any_path, identity="ensemble 2")


def test_an_older_copy_put_in_place_is_refused(path, tmp_path):
    copy_ledger(path, tmp_path / "old")
    with SqliteLedger.open(path) as ledger:
        ledger.charge({"a": 0.5}, EVENT)
    copy_ledger(tmp_path / "old" / path.name, path.parent)
    with pytest.raises(LedgerError, match="rolled back"):
        SqliteLedger.open(path)


def test_an_older_copy_that_went_on_by_itself_is_refused(path, tmp_path):
    copy_ledger(path, tmp_path / "old", with_witness=True)
    with SqliteLedger.open(path) as ledger:
        ledger.charge({"a": 0.5}, EVENT)
    with SqliteLedger.open(tmp_path / "old" / path.name) as ledger:
        for _ in range(3):
            ledger.charge({"b": 0.125}, EVENT)
    copy_ledger(tmp_path / "old" / path.name, path.parent)
    with pytest.raises(LedgerError, match="not the one its witness saw"):
        SqliteLedger.open(path)


def test_a_lost_write_ahead_log_is_a_roll_back(path, tmp_path):
    with SqliteLedger.open(path) as ledger:
        ledger.charge({"a": 0.5}, EVENT)  # lies in the log until it is folded into the database
        copy_ledger(path, tmp_path / "crashed", with_witness=True)
    crashed = tmp_path / "crashed" / path.name
    crashed.with_name(crashed.name + "-wal").unlink()
    with pytest.raises(LedgerError, match="rolled back"):
        SqliteLedger.open(crashed)


def test_a_database_ahead_of_its_witness_is_what_a_crash_leaves(any_path, tmp_path, ledgers):
    shutil.copy(witness_path(any_path), tmp_path / "witness")
    with ledgers.open(any_path) as ledger:
        for _ in range(3):
            ledger.charge({"a": 0.25}, EVENT)
    shutil.copy(tmp_path / "witness", witness_path(any_path))
    with ledgers.open(any_path) as ledger:
        assert ledger.spent()["a"] == 3.25
        ledger.charge({"a": 0.25}, EVENT)
        assert ledger._witness.read() == ledger.verify()


def test_a_ledger_replaced_or_rolled_back_while_open_is_refused(path, tmp_path):
    copy_ledger(path, tmp_path / "old")
    with SqliteLedger.open(path) as ledger:
        ledger.charge({"a": 0.5}, EVENT)
        (tmp_path / "old" / path.name).replace(path)
        with pytest.raises(LedgerError, match="replaced"):
            ledger.charge({"a": 0.5}, EVENT)
        with pytest.raises(LedgerError, match="replaced"):
            ledger.remaining()


def test_rows_that_vanish_while_open_are_missed(any_path, ledgers):
    with ledgers.open(any_path) as ledger:
        ledgers.edit(any_path, "DELETE FROM charges WHERE sequence = 5")
        with pytest.raises(LedgerError, match="rolled back or edited"):
            ledger.charge({"a": 0.5}, EVENT)


def test_a_missing_or_damaged_witness_is_refused_until_an_operator_reanchors(any_path, ledgers):
    for damage in (witness_path(any_path).unlink, lambda: witness_path(any_path).write_bytes(b"0" * 256)):
        damage()
        with pytest.raises(LedgerError) as caught:
            ledgers.open(any_path)
        assert "reanchor" in caught.value.hint
        receipt = ledgers.reanchor(any_path, identity="ensemble 1")
        with ledgers.open(any_path) as ledger:
            assert ledger.verify() == receipt
            assert list(ledger.rows())[-1].kind == "reanchor"
            assert ledger.spent() == {"a": 2.5, "b": 1.25}


def test_reanchoring_stops_processes_that_have_the_ledger_open(any_path, ledgers):
    with ledgers.open(any_path) as ledger:
        ledgers.reanchor(any_path)
        with pytest.raises(LedgerError, match="replaced"):
            ledger.charge({"a": 0.5}, EVENT)


def test_reanchoring_never_accepts_an_edited_chain(any_path, ledgers):
    ledgers.edit(any_path, *EDITS["two rows swapped"])
    with pytest.raises(LedgerError):
        ledgers.reanchor(any_path)


def test_a_torn_witness_falls_back_to_the_other_slot(any_path, ledgers):
    with witness_path(any_path).open("r+b") as file:
        content = file.read()
        newest = max((0, 1), key=lambda slot: content[slot * 128 : slot * 128 + 20])
        file.seek(newest * 128 + 40)
        file.write(b"torn")
    with ledgers.open(any_path) as ledger:
        assert ledger._witness.read().sequence == 4
        ledger.charge({"a": 0.5}, EVENT)
        assert ledger._witness.read() == ledger.head()


def charge_on_a_full_disk(path: str, answers) -> None:
    """Forbid files to grow, charge until refused, allow it again, charge once more."""
    ledger = SqliteLedger.open(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))
    acknowledged, error = 0, None
    try:
        while True:
            ledger.charge({"a": 2.0**-20}, EVENT)
            acknowledged += 1
    except LedgerError as caught:
        error = caught.found
    refused_again = False
    try:
        ledger.charge({"a": 2.0**-20}, EVENT)
    except LedgerError:
        refused_again = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    ledger.charge({"a": 2.0**-20}, EVENT)
    answers.put((acknowledged + 1, error, refused_again))
    ledger.close()


def test_a_full_disk_refuses_and_acknowledges_nothing(path):
    acknowledged, error, refused_again = in_child(charge_on_a_full_disk, str(path))
    assert error.startswith("SQLITE_")
    assert refused_again
    assert acknowledged >= 2  # some before the disk was full, one after
    with SqliteLedger.open(path) as ledger:
        ledger.verify()
        assert ledger.spent()["a"] == 2.5 + acknowledged * 2.0**-20


def charge_read_only(path: str, answers) -> None:
    """Open and charge as somebody who may read everything and write nothing."""
    if os.getuid() == 0:  # the superuser may write what is read-only
        os.setuid(65534)
    try:
        SqliteLedger.open(path).charge({"a": 0.5}, EVENT)
        answers.put("charged")
    except LedgerError as error:
        answers.put(str(error))


@pytest.mark.parametrize("writable", ["nothing", "witness"])
def test_a_read_only_ledger_is_refused(writable):
    with tempfile.TemporaryDirectory(prefix="reticent-") as name:
        folder = Path(name)
        FILES.new(folder).close()
        witness_path(folder / "ledger.db").chmod(0o666 if writable == "witness" else 0o444)
        (folder / "ledger.db").chmod(0o444)
        folder.chmod(0o555)
        answer = in_child(charge_read_only, str(folder / "ledger.db"))
        folder.chmod(0o755)
        assert "cannot be used" in answer
        with SqliteLedger.open(folder / "ledger.db") as ledger:
            assert ledger.spent() == {"a": 0.0, "b": 0.0}


def test_a_lock_that_is_never_given_back_is_an_error_and_not_a_hang(path):
    with SqliteLedger.open(path) as holder, SqliteLedger.open(path, timeout=0.05) as other:
        with holder._witness.locked(1.0), pytest.raises(LedgerError, match="lock"):
            other.charge({"a": 0.5}, EVENT)
        with closing(sqlite3.connect(path, isolation_level=None)) as tool:
            tool.execute("BEGIN IMMEDIATE")
            with pytest.raises(LedgerError, match="SQLITE_BUSY"):
                other.charge({"a": 0.5}, EVENT)
        other.charge({"a": 0.5}, EVENT)
        assert holder.spent()["a"] == 3.0


def test_a_schema_that_is_not_text_is_refused_as_damage(tmp_path):
    path = SqliteLedgers().used(tmp_path)
    content = path.read_bytes()
    place = content.index(b"CREATE TABLE")
    path.write_bytes(content[:place] + b"\xff\xfe" + content[place + 2 :])
    with pytest.raises(LedgerError, match="cannot be used"):
        SqliteLedger.open(path)
