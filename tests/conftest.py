"""Fixtures that several folders share."""

import os
from pathlib import Path

import pytest

# Before torch is imported anywhere: with several threads on a busy machine small tests run many times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real test data and models beside the checkout, or where RETICENT_SHARED points."""
    beside = Path(__file__).resolve().parent.parent.parent / "shared"
    folder = Path(os.environ.get("RETICENT_SHARED", beside))
    if not (folder / "data").is_dir():
        pytest.skip("the shared test data is not here; set RETICENT_SHARED to its folder")
    return folder
