"""Fixtures that several folders share, and surroundings that are the same wherever the tests run."""

import gc
import locale
import os
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests import shared_loops
from tests.chance import SAME_CHANCE

# What imports and collection make is kept: a search for garbage among it finds none, and is a fifth of their time.
gc.disable()
# Before torch is imported anywhere: with several threads on a busy machine small tests run many times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# What is printed has one width, and processes that tests start write UTF-8, whatever terminal and locale are.
os.environ["COLUMNS"] = "100"
os.environ["PYTHONUTF8"] = "1"
locale.setlocale(locale.LC_CTYPE, "C.UTF-8")  # and tests read it: src names the encoding of every file it opens
for _name in ("FORCE_COLOR", "CLICOLOR_FORCE", "PYTHONIOENCODING"):
    os.environ.pop(_name, None)

# No test fails by chance: examples, protective noise and keys are the same in every run, and examples may be slow.
# `make search` looks further.
settings.register_profile(
    "same", derandomize=True, deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", parent=settings.get_profile("same"), derandomize=False, max_examples=500)
settings.load_profile("same")
SAME_CHANCE.install()


def pytest_configure(config) -> None:
    """The first process of a run makes the folder in which all of them share compiled loops."""
    if not hasattr(config, "workerinput"):
        folder = shared_loops.folder_of_a_run()
        folder.__enter__()
        config.add_cleanup(lambda: folder.__exit__(None, None, None))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What was imported and collected lives until the end: searching it for garbage is a thirtieth of all work."""
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session) -> Iterator[None]:
    """Before the first test and outside of what catches output: share loops, and fork what forks processes."""
    if session.items and "numba" in sys.modules:
        shared_loops.share()
    if (
        session.items
        and (processes := sys.modules.get("tests.processes"))
        and not session.config.option.collectonly
    ):
        processes.fork_server()
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef, request) -> None:
    """A fixture that several tests share draws the same whichever test comes first."""
    if fixturedef.scope != "function":
        SAME_CHANCE.begin(f"{request.node.nodeid} {fixturedef.argname}")


@pytest.fixture
def systems_own_chance() -> Iterator[None]:
    """The system's generator itself."""
    SAME_CHANCE.remove()
    yield
    SAME_CHANCE.install()


@pytest.fixture(autouse=True)
def same_start(request) -> Iterator[None]:
    """Every test finds all generators, torch's default type and its threads as if it ran alone."""
    SAME_CHANCE.begin(request.node.nodeid)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    # Not `torch.manual_seed`: it also notes the whole stack for every kind of processor that is not there.
    torch.default_generator.manual_seed(0)
    kind, threads, gradients = torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()
    yield
    torch.set_default_dtype(kind)
    torch.set_num_threads(threads)
    torch.set_grad_enabled(gradients)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real test data and models beside the checkout, or where RETICENT_SHARED points."""
    beside = Path(__file__).resolve().parent.parent.parent / "shared"
    folder = Path(os.environ.get("RETICENT_SHARED", beside))
    if not (folder / "data").is_dir():
        pytest.skip("the shared test data is not here; set RETICENT_SHARED to its folder")
    return folder


@pytest.fixture(scope="module")
def browser():
    """Debian's or anybody's Chromium, without a window."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium here")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()
