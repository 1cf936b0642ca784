"""kill -9 at random moments: each resume works, the ledger never counts less than was released, the model loads."""

import json
import random
import time
from pathlib import Path

import pytest

from reticent.ledger.durable import SqliteLedger
from reticent.training.gradients.source import TRAINING_ACCOUNT
from tests.models.tiny import tiny_gpt2, tiny_tokenizer
from tests.patience import PATIENCE
from tests.processes import PROCESSES
from tests.training.killed_run import work


@pytest.fixture
def folder(tmp_path):
    tiny_gpt2().save_pretrained(tmp_path / "start")
    tiny_tokenizer().save_pretrained(tmp_path / "start")
    (tmp_path / "corpus.txt").write_text("".join(f"the number of person {i} is {i * 7919}.\n" for i in range(16)))
    (tmp_path / "names.txt").write_text("person 3\nperson 4\n")
    return tmp_path


def lines(folder: Path) -> list[int]:
    """All acknowledged steps, of all lives of the run; a line cut short by the kill was not acknowledged."""
    texts = [path.read_text() for path in sorted(folder.glob("*.acknowledged"))]
    return [int(line) for text in texts for line in text.split("\n")[:-1]]


def begin(folder: Path, life: int, *, steps: int, twin: bool = False, method: str = "dp-sgd"):
    arguments = (str(folder), str(folder / f"{life:03d}.acknowledged"), steps, twin, method)
    child = PROCESSES.Process(target=work, args=arguments)
    child.start()
    return child


def wait_for(child, condition, *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while child.is_alive() and not condition() and time.monotonic() < deadline:
        time.sleep(0.005)


def violations(folder: Path) -> list[str]:
    """In which ways the ledger says less than what was released."""
    if not (folder / "run" / "ledger.db").exists():
        return ["released without a ledger"] if lines(folder) else []
    with SqliteLedger.open(folder / "run" / "ledger.db") as ledger:
        spent = round(ledger.spent()[TRAINING_ACCOUNT])
    released = lines(folder)
    found = []
    if len(released) > spent:
        found.append("under-counted")
    if len(set(released)) != len(released):
        found.append("a step was released twice")
    return found


def run_under_fire(folder: Path, *, kills: int, steps: int, method: str, pause: float) -> int:
    """Kill the run at random moments, half of them soon after a step, then let it finish; how many kills hit."""
    generator = random.Random(kills)
    hit = 0
    for life in range(kills):
        child = begin(folder, life, steps=steps, method=method)
        before = len(lines(folder))
        if life % 2:
            wanted = before + generator.randint(1, 4)
            wait_for(child, lambda wanted=wanted: len(lines(folder)) >= wanted, seconds=PATIENCE)
            time.sleep(generator.uniform(0.0, 0.05))
        else:  # at any time, but before so many steps that a fast machine would be done
            most = before + steps // (2 * kills)
            wait_for(child, lambda most=most: len(lines(folder)) >= most, seconds=generator.uniform(0.0, pause))
        child.kill()
        child.join(PATIENCE)
        assert child.exitcode in (0, -9), f"life {life} failed by itself"
        hit += child.exitcode == -9
        assert violations(folder) == []
    child = begin(folder, kills, steps=steps, method=method)
    child.join(PATIENCE)
    assert child.exitcode == 0
    return hit


def check_kills(folder: Path, *, kills: int, steps: int, method: str = "dp-sgd", pause: float = 3.0) -> None:
    hit = run_under_fire(folder, kills=kills, steps=steps, method=method, pause=pause)
    assert hit > kills // 2
    assert violations(folder) == []
    run = folder / "run"
    with SqliteLedger.open(run / "ledger.db") as ledger:
        ledger.verify()
        assert ledger.spent() == {TRAINING_ACCOUNT: ledger.budget.limit}
    assert json.loads((run / "run.json").read_text())["finished"]
    from transformers import AutoModelForCausalLM

    AutoModelForCausalLM.from_pretrained(run / "model")
    assert json.loads((run / "model" / "guarantee.json").read_text())["epsilon"] > 0


def test_a_run_survives_kills_at_random_moments(folder):
    check_kills(folder, kills=5, steps=240, pause=1.0)


@pytest.mark.slow
def test_a_run_survives_a_hundred_kills(folder):
    check_kills(folder, kills=100, steps=3000)


@pytest.mark.slow
def test_a_run_with_correlated_noise_survives_kills_and_leaves_no_noise_behind(folder):
    check_kills(folder, kills=20, steps=800, method="banded")
    assert not list(folder.glob("run/checkpoints/*/noise.safetensors"))


@pytest.mark.slow
def test_a_run_whose_clip_norm_follows_a_quantile_survives_kills_and_never_forgets_its_norm(folder):
    check_kills(folder, kills=6, steps=240, method="quantile")
    states = sorted(folder.glob("run/checkpoints/step-*/state.json"))
    last = json.loads(states[-1].read_text())["source"]["clip_norm"]
    assert last > 1.5  # every gradient is longer than the first norm of 1, and half of all steps were lost at most


@pytest.mark.slow
def test_redacted_training_survives_kills_between_its_public_and_private_steps(folder):
    check_kills(folder, kills=20, steps=800, method="crt")


def test_the_check_catches_a_run_that_charges_later(folder):
    child = begin(folder, 0, steps=40, twin=True)
    wait_for(child, lambda: len(lines(folder)) >= 2, seconds=PATIENCE)
    child.kill()
    child.join(PATIENCE)
    assert lines(folder)
    assert "under-counted" in violations(folder)
