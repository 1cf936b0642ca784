"""Engines: the same results however many workers, each landing once; failures tried again; sums of progress."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reticent.core.errors import ConfigError, InternalError, MissingExtra, UsageError
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.engine.policy import EnginePolicy
from reticent.engine.work import (
    Advanced,
    Began,
    EngineName,
    EngineSettings,
    Failed,
    Landed,
    gather,
    open_engine,
    run_pieces,
)
from reticent.runs.settings.shared import EngineOptions
from tests.engine import work as work


@pytest.fixture(scope="module")
def two():
    with open_engine(EngineSettings(workers=2)) as engine:
        yield engine


def test_results_come_in_the_order_of_the_pieces_and_equal_those_of_one_process(two):
    expected = [work.digest(number, lambda _: None) for number in range(7)]
    assert gather(work.pieces(7), work.digest, engine=two) == expected
    with open_engine(EngineSettings(workers=1)) as one:
        assert gather(work.pieces(7), work.digest, engine=one) == expected


def test_workers_compute_with_one_thread_so_that_sums_are_equal_bit_for_bit(two):
    results = gather(work.pieces(3), work.float_sum, engine=two)
    assert [threads for _, threads in results] == [1, 1, 1]
    assert gather(work.pieces(3), work.float_sum, engine=two) == results


def test_a_worker_that_dies_is_replaced_and_what_it_told_is_taken_back(two, tmp_path):
    heard, landed = [], []
    pieces = [type(p)(p.name, (str(tmp_path / "mark"), p.argument)) for p in work.pieces(4)]
    finished = run_pieces(
        pieces,
        work.die_once,
        engine=two,
        land=lambda name, result: landed.append((name, result)),
        observe=lambda total: heard.append(total) is None,
    )
    assert finished
    assert (tmp_path / "mark").exists()
    assert sorted(landed) == [(f"piece-{number:02d}", number) for number in range(4)]
    assert heard[-1] == 4 * 7


def test_a_piece_that_always_kills_its_worker_is_given_up_after_its_tries():
    with open_engine(EngineSettings(workers=1, tries=2)) as engine, pytest.raises(UsageError) as caught:
        gather(work.pieces(1), work.always_die, engine=engine)
    assert "died, 2 times" in str(caught.value)
    assert "memory" in caught.value.hint


def test_messages_of_foreign_errors_do_not_travel(two):
    with pytest.raises(UsageError) as caught:
        gather([type(p)(p.name, "4711") for p in work.pieces(1)], work.raise_with_text, engine=two)
    assert "ValueError at work.py" in str(caught.value)
    assert "4711" not in str(caught.value)


def test_an_error_that_the_user_must_fix_keeps_its_words_and_is_not_tried_again(two, tmp_path):
    mark = tmp_path / "tries"
    with pytest.raises(UsageError, match="no records") as caught:
        gather([type(p)(p.name, str(mark)) for p in work.pieces(1)], work.complain, engine=two)
    assert caught.value.hint == "bring some"
    assert mark.read_text() == "x"


def test_pieces_are_read_as_workers_become_free(two):
    taken = []

    def endless():
        for piece in work.pieces(100):
            taken.append(piece.name)
            yield piece

    landed = []
    finished = run_pieces(
        endless(),
        work.digest,
        engine=two,
        land=lambda name, _: landed.append(name),
        observe=lambda _: len(landed) < 3,
    )
    assert not finished
    assert len(taken) <= len(landed) + 4
    assert gather(work.pieces(2), work.digest, engine=two)  # the engine works on after it was stopped


class Scripted:
    """An engine that tells what a test wants, to hold the book-keeping to its word."""

    workers = 1

    def __init__(self, *events):
        self.events = events

    def run(self, pieces, work):
        list(pieces)
        yield from self.events


def book(*events, count=1):
    landed, heard = [], []
    run_pieces(
        work.pieces(count),
        work.digest,
        engine=Scripted(*events),
        land=lambda *what: landed.append(what),
        observe=lambda total: heard.append(total) is None,
    )
    return landed, heard


def test_a_piece_that_was_computed_twice_lands_once():
    name = "piece-00"
    landed, heard = book(Began(name), Advanced(name, 3), Landed(name, "a"), Advanced(name, 5), Landed(name, "b"))
    assert landed == [(name, "a")]
    assert heard[-1] == 3


def test_progress_of_a_lost_try_is_taken_back():
    name = "piece-00"
    assert book(Began(name), Advanced(name, 3), Began(name), Advanced(name, 4), Landed(name, 0))[1] == [
        0,
        3,
        0,
        4,
        4,
    ]


def test_an_engine_that_loses_a_piece_or_gets_a_name_twice_is_caught():
    with pytest.raises(InternalError, match="lost 1 of 2"):
        book(Landed("piece-00", 0), count=2)
    with pytest.raises(InternalError, match="one name"):
        run_pieces([*work.pieces(1), *work.pieces(1)], work.digest, engine=Scripted(), land=print)
    with pytest.raises(UsageError, match="gone"):
        book(Failed("piece-00", "gone"))


def test_a_policy_on_an_engine_finds_what_it_finds_alone(two):
    texts = [f"call 415-555-01{number:02d} or a{number}@example.org" for number in range(9)]
    policy = PatternPolicy()
    spread = EnginePolicy(policy, two)
    assert spread.find(texts) == policy.find(texts)
    assert (spread.name, spread.fingerprint, spread.kinds) == (policy.name, policy.fingerprint, policy.kinds)


def test_what_is_asked_of_an_engine_is_checked():
    assert EngineOptions().engine_settings is None
    assert EngineOptions(workers=2).engine_settings == EngineSettings(workers=2)
    assert EngineOptions(ray_address="host:6379").engine_settings.name is EngineName.RAY
    with pytest.raises(ConfigError, match="--ray-address"):
        _ = EngineOptions(engine=EngineName.LOCAL, ray_address="host:6379").engine_settings
    with pytest.raises(ConfigError, match="at least one worker"):
        EngineSettings(workers=0)


def test_without_ray_the_install_command_is_said(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra) as caught, open_engine(EngineSettings(name=EngineName.RAY)):
        pass
    assert "reticent[ray]" in caught.value.hint


def test_a_script_without_a_guard_runs_once_however_many_workers_it_starts(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from pathlib import Path\n"
        "from reticent.engine.work import EngineSettings, gather, open_engine\n"
        "from tests.engine import work\n"
        f"with Path({str(tmp_path / 'runs')!r}).open('a') as runs:\n"
        "    runs.write('x')\n"
        "with open_engine(EngineSettings(workers=2)) as engine:\n"
        "    print(len(gather(work.pieces(3), work.digest, engine=engine)))\n"
    )
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("3\n", "")
    assert (tmp_path / "runs").read_text() == "x"
