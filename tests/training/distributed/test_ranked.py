"""Several processes train one model: the mechanism, its account and its ledger are those of one process."""

import json
import math
import os
import queue
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.cli.console import Output
from reticent.core.errors import UsageError
from reticent.core.guarantee import Unit
from reticent.ledger.durable import SqliteLedger
from reticent.runs.training.launch import is_follower
from reticent.training.distributed.ranked import share
from reticent.training.distributed.ranks import Ranks
from reticent.training.gradients.source import TRAINING_ACCOUNT
from tests.models.tiny import tiny_gpt2, tiny_tokenizer
from tests.patience import PATIENCE
from tests.processes import PROCESSES
from tests.training.distributed.ranked_run import STEPS, alone, free_port, plan, step_together, train_together
from tests.training.small_runs import budget


def new_ledger(folder: Path, unit: Unit = Unit.RECORD) -> Path:
    folder.mkdir(exist_ok=True)
    SqliteLedger.create(folder / "ledger.db", budget(plan(unit)), accounts=[TRAINING_ACCOUNT]).close()
    return folder / "ledger.db"


def together(path: Path, *, size: int, kind: str = "ours", unit: Unit = Unit.RECORD, steps: int = STEPS) -> list:
    """What each of `size` ranks saw, by rank."""
    answers, port = PROCESSES.Queue(), free_port()
    case = (kind, unit.value, steps)
    children = [
        PROCESSES.Process(target=step_together, args=(rank, size, port, str(path), case, answers))
        for rank in range(size)
    ]
    for child in children:
        child.start()
    try:
        found = dict(answers.get(timeout=PATIENCE) for _ in children)
    except queue.Empty:
        pytest.fail("the ranks did not answer")
    finally:
        for child in children:
            child.join(10)
            child.kill()
    return [found[rank] for rank in range(size)]


def distance(ours: list, theirs: list) -> float:
    """The largest difference of any entry of any gradient."""
    return max(
        float(np.abs(np.subtract(mine[name], other[name])).max())
        for mine, other in zip(ours, theirs, strict=True)
        for name in mine
    )


# ---------------------------------------------------------------- the mechanism


@pytest.mark.parametrize(("size", "unit"), [(2, Unit.RECORD), (3, Unit.OWNER)])
def test_gradients_noise_and_charges_are_those_of_one_process(tmp_path, size, unit):
    expected = alone(new_ledger(tmp_path / "alone", unit), unit)
    path = new_ledger(tmp_path / "together", unit)
    ranks = together(path, size=size, unit=unit)
    for found in ranks:
        assert isinstance(found, dict), found
        assert distance(found["gradients"], expected) < 1e-5
        assert found["gradients"] == ranks[0]["gradients"]  # bit for bit, on every rank
        assert found["held"]
        assert found["at"] == STEPS
    assert ranks[0]["draws"] > 0
    assert [found["draws"] for found in ranks[1:]] == [0] * (size - 1)  # neither sample nor noise
    with SqliteLedger.open(path) as one, SqliteLedger.open(tmp_path / "alone" / "ledger.db") as other:
        assert one.spent() == other.spent() == {TRAINING_ACCOUNT: float(STEPS)}
        assert one.budget == other.budget
        assert [row.event for row in one.rows()] == [row.event for row in other.rows()]
        one.verify()


@pytest.mark.parametrize("kind", ["noise", "sample"])
def test_noise_or_samples_on_every_rank_are_caught(tmp_path, kind):
    expected = alone(new_ledger(tmp_path / "alone"), Unit.RECORD)
    found = together(new_ledger(tmp_path / "together"), size=2, kind=kind)[0]
    assert distance(found["gradients"], expected) > 1e-3


@pytest.mark.parametrize(("kind", "is_sound"), [("quantile", True), ("count", False)])
def test_a_clip_norm_follows_the_units_of_all_ranks(tmp_path, kind, is_sound):
    expected = alone(new_ledger(tmp_path / "alone"), Unit.RECORD, kind)
    ranks = together(new_ledger(tmp_path / "together"), size=2, kind=kind)
    for found in ranks:
        assert isinstance(found, dict), found
        assert found["gradients"] == ranks[0]["gradients"]
        assert found["clip_norm"] == ranks[0]["clip_norm"] != 6.0  # bit for bit, on every rank
    assert (distance(ranks[0]["gradients"], expected) < 1e-4) is is_sound
    assert [found["draws"] for found in ranks[1:]] == [0]


def test_a_refused_charge_stops_every_rank(tmp_path):
    first, second = together(new_ledger(tmp_path), size=2, steps=STEPS + 1)
    assert first.startswith("BudgetExhausted")
    assert second.startswith("UsageError: rank 0 stopped")


@given(units=st.integers(0, 30), size=st.integers(1, 5))
def test_every_drawn_unit_is_in_exactly_one_share(units, size):
    drawn = [[np.array([unit], dtype=np.int32)] for unit in range(units)]
    shares = [share(drawn, Ranks(rank, size)) for rank in range(size)]
    assert sorted(int(group[0][0]) for each in shares for group in each) == list(range(units))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_rank_alone_says_nothing_to_anybody():
    ranks = Ranks()
    assert ranks.tell(lambda: 3) == 3
    assert ranks.first(lambda: 4) == 4
    assert ranks.any(True)
    ranks.require_same("x", what="x")
    with pytest.raises(UsageError):
        Ranks(2, 2)


def test_only_the_first_rank_speaks(monkeypatch, capsys):
    assert not is_follower()
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "host", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    assert is_follower()
    monkeypatch.setenv("RANK", "0")
    assert not is_follower()
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert not is_follower()
    Output(as_json=True, is_silent=True).document({"a": 1})
    Output(as_json=False, is_silent=True).show("a")
    assert capsys.readouterr().out == ""


# ---------------------------------------------------------------- whole runs


@pytest.fixture
def folder(tmp_path):
    tiny_gpt2().save_pretrained(tmp_path / "start")
    tiny_tokenizer().save_pretrained(tmp_path / "start")
    (tmp_path / "corpus.txt").write_text("".join(f"the number of person {i} is {i * 7919}.\n" for i in range(16)))
    (tmp_path / "names.txt").write_text("person 3\nperson 4\n")
    return tmp_path


def begin(folder: Path, life: str, *, size: int = 2, steps: int = 8, method: str = "dp-sgd") -> list:
    port, case = free_port(), (life, method, steps)
    children = [
        PROCESSES.Process(target=train_together, args=(rank, size, port, str(folder), case)) for rank in range(size)
    ]
    for child in children:
        child.start()
    return children


def end(children: list) -> list[int]:
    for child in children:
        child.join(PATIENCE)
    return [child.exitcode for child in children]


def steps_of(folder: Path, rank: int) -> list[int]:
    texts = [path.read_text() for path in sorted(folder.glob(f"*-{rank}.steps"))]
    return [int(line) for text in texts for line in text.split("\n")[:-1]]


def spent(folder: Path) -> int:
    with SqliteLedger.open(folder / "run" / "ledger.db") as ledger:
        ledger.verify()
        return round(ledger.spent()[TRAINING_ACCOUNT])


@pytest.mark.parametrize("victim", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_run_goes_on_after_one_of_its_ranks_was_killed(folder, victim):
    children = begin(folder, "1")
    deadline = time.monotonic() + PATIENCE
    while len(steps_of(folder, 0)) < 3 and time.monotonic() < deadline:
        time.sleep(0.002)
    children[victim].kill()
    codes = end(children)
    assert codes[victim] == -9
    assert codes[1 - victim] == 7
    assert "gone" in (folder / f"1-{1 - victim}.error").read_text()
    assert len(steps_of(folder, 0)) <= spent(folder)
    assert end(begin(folder, "2", size=2 if victim else 1)) == ([0, 0] if victim else [0])
    released = steps_of(folder, 0)
    assert len(set(released)) == len(released)  # no step was released twice
    assert spent(folder) == 8
    assert json.loads((folder / "run" / "run.json").read_text())["finished"]
    guarantee = json.loads((folder / "run" / "model" / "guarantee.json").read_text())
    assert math.isfinite(guarantee["epsilon"])
    assert not any("rank" in assumption or "process" in assumption for assumption in guarantee["assumes"])


def test_methods_without_a_private_plan_are_refused(folder):
    assert end(begin(folder, "1", method="crt")) == [7, 7]
    assert "only --method dp-sgd" in (folder / "1-0.error").read_text()
    assert not (folder / "run").exists()


@pytest.mark.slow
def test_torchrun_trains_one_model_with_the_epsilon_of_one_process(folder):
    options = ["--method", "dp-sgd", "--model", "start", "--data", "corpus.txt", "--noise-multiplier", "1"]
    options += ["--delta", "1e-3", "--batch", "4", "--epochs", "1", "--json"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    documents = []
    for name, start in (
        ("one", [sys.executable]),
        ("two", [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]),
    ):
        command = [*start, "-m", "reticent.cli.main", "train", *options, "--out", name]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        documents.append(json.loads(done.stdout))  # rank 0 alone speaks
    one, two = documents
    assert one["guarantee"] == two["guarantee"]
    assert two["finished"]
    assert (one["step"], one["steps"]) == (two["step"], two["steps"])
