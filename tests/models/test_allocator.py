"""Blocks that are freed and taken again are not faulted in anew."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from reticent.models.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def token():
    blocks = [np.ones(200_000) for _ in range(6)]
    return sum(block[-1] for block in blocks)
for _ in range(3):
    token()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    token()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(choice):
    done = subprocess.run([sys.executable, "-c", PROGRAM, choice], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the GNU C library's allocator")
def test_memory_of_a_token_is_kept_for_the_next():
    assert faults("keep") < 200  # 10 tokens of 2,300 pages each
    assert faults("default") > 2_000
