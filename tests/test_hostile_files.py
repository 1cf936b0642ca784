"""Every file reader meets edited files: an answer or one line, never a traceback, a hang or a flood of memory.

The long run is `python -m bench.fuzzing --minutes 60`.
"""

import random
import threading

import pytest

from tests.hostile_files import MEMORY, Target, attempt, mutated, targets

SECONDS = 60.0  # of work; the long run allows two


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    return targets(tmp_path_factory.mktemp("hostile"))


def test_good_files_are_read(readers):
    for target in readers:
        assert target.read() != 2, target.name


def test_edited_files_are_answered_or_refused_in_one_line(readers):
    faults = []
    for target in readers:
        content = target.file.read_bytes()
        for seed in range(target.times):
            fault = attempt(target, mutated(content, random.Random(f"{target.name} {seed}")), seconds=SECONDS)
            faults += [f"{target.name}, {seed}: {fault}"] if fault else []
    assert faults == []


def test_files_that_are_nested_too_deep_are_refused_in_one_line(readers):
    """Python's parsers give up on them by RecursionError, which is no ValueError."""
    faults = []
    for target in readers:
        whole = [b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000]
        if target.file.suffix == ".toml":
            whole = [b"x = " + b"[" * 5000 + b"]" * 5000]
        for content in whole:
            fault = attempt(target, content, seconds=SECONDS)
            faults += [f"{target.name}: {fault}"] if fault else []
    assert faults == []


def test_the_attempt_sees_a_reader_that_breaks_hangs_or_swallows_memory(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"good")

    def hangs():
        while True:
            pass

    def floods():
        return b"x" * (MEMORY + (64 << 20))

    for read, seconds, patience, what in (
        (lambda: 1 / 0, 60, 600, "ZeroDivisionError"),
        (hangs, 0.2, 600, "of work"),
        (threading.Event().wait, 60, 0.2, "of waiting"),
        (floods, 600, 600, "MiB"),
    ):
        fault = attempt(Target("twin", file, read), b"bad", seconds=seconds, patience=patience)
        assert what in (fault or "")
        assert file.read_bytes() == b"good"
    assert attempt(Target("fine", file, lambda: file.read_bytes()), b"bad", seconds=60.0) is None
