"""Blocks that are freed and taken again are not faulted in anew."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, threading
import numpy as np
from reticent.models.ensemble import allocator
if sys.argv[1] == "own heap":
    allocator._WANTED = allocator._WANTED[:2]
if sys.argv[1] != "default":
    assert allocator.keep_freed_memory()
def token():
    blocks = [np.ones(200_000) for _ in range(60)]  # more than a thread's own heap takes, none of huge pages
    return sum(block[-1] for block in blocks)
def tokens():
    for _ in range(3):
        token()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        token()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
if sys.argv[2] == "thread":
    worker = threading.Thread(target=tokens)
    worker.start()
    worker.join()
else:
    tokens()
"""


def faults(choice, where):
    command = [sys.executable, "-c", PROGRAM, choice, where]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the GNU C library's allocator")
@pytest.mark.parametrize(("where", "twin"), [("main", "default"), ("thread", "own heap")])
def test_memory_of_a_token_is_kept_for_the_next(where, twin):
    assert faults("keep", where) < 200  # 10 tokens of 23,000 pages each
    assert faults(twin, where) > 2_000
