"""Closing the loop: an audit of DP-SGD stays below what was proved, and passes it when a safeguard is taken away.

Canaries (texts of random tokens) are included by fair coins. The adversary sees every noisy gradient, which the
guarantee covers, of a model that is held still, explains their sum by the canaries' own gradients (ridge
regression), and guesses the coins from the weight of each; a one-run audit (Steinke et al. 2023) turns the guesses
into a lower bound on ε. All is seeded; the audit itself alarms falsely in at most 1 of 100 runs.
"""

import numpy as np
import pytest
import torch

from reticent.auditing.one_run import one_run_epsilon
from reticent.core.guarantee import Unit
from reticent.core.randomness import Randomness
from reticent.training import gradient_source
from reticent.training.batches import TokenTexts
from reticent.training.gradient_source import PrivateGradients
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.plan import PrivatePlan
from reticent.training.sampler import PoissonSampler
from tests.training.oracles import record_gradients
from tests.training.small_models import START, VOCABULARY, gpt2
from tests.training.small_runs import new_ledger, private_source

CANARIES = 240
CONFIDENCE = 0.99
INCLUDED = Randomness.seeded(15).uniform(CANARIES) < 0.5
PLAN = PrivatePlan(
    sampler=PoissonSampler(int(INCLUDED.sum()), 6),
    clip_norm=0.1,
    noise_multiplier=1.5,
    steps=60,
    delta=1e-5,
    unit=Unit.RECORD,
)


def flat(gradient: dict[str, torch.Tensor]) -> torch.Tensor:
    """All parameters in one row, in the order of their names."""
    return torch.cat([gradient[name].flatten().float() for name in sorted(gradient)])


@pytest.fixture(scope="module")
def canaries() -> list[list[int]]:
    draws = Randomness.seeded(11).integers(VOCABULARY - 2, (CANARIES, 10)) + 1
    return draws.tolist()


@pytest.fixture(scope="module")
def directions(canaries) -> torch.Tensor:
    """Each canary's own gradient at unit length: [n, parameters]."""
    gradients = record_gradients(gpt2(), [[text] for text in canaries], START)
    rows = torch.stack([flat(gradient) for gradient in gradients])
    return rows / rows.norm(dim=1, keepdim=True)


@pytest.fixture(scope="module")
def proved() -> float:
    return PLAN.guarantee(is_seeded=True).epsilon


def audited(folder, canaries, directions, *, kind=PrivateGradients) -> float:
    """Run the plan's steps on the included canaries and bound ε from below."""
    chosen = [np.array(text, dtype=np.int32) for text, is_in in zip(canaries, INCLUDED, strict=True) if is_in]
    corpus = TokenTexts(tuple(chosen), tuple(str(i) for i in range(len(chosen))), START, 0)
    total = torch.zeros(directions.shape[1])
    with new_ledger(folder, PLAN) as ledger, private_source(gpt2(), corpus, PLAN, ledger, kind=kind) as source:
        for _ in range(PLAN.steps):
            total += flat(source.next().values)
    gram = directions @ directions.T  # [n, n]
    scores = torch.linalg.solve(gram + 1e-2 * torch.eye(CANARIES), directions @ total).numpy()
    return one_run_epsilon(scores, INCLUDED, delta=PLAN.delta, confidence=CONFIDENCE).epsilon


class WithoutClipping(PrivateGradients):
    """Broken twin: adds noise for a clip norm that it does not enforce."""

    def __init__(self, module, *arguments, **more) -> None:
        super().__init__(module, *arguments, **more)
        self._engine = PerRecordGradients(module, 1e6, losses=self._meter)


def test_with_every_safeguard_the_audit_stays_below_what_was_proved(tmp_path, canaries, directions, proved):
    assert proved < 2.0
    assert audited(tmp_path, canaries, directions) <= proved


def test_without_noise_the_audit_passes_what_was_proved(tmp_path, canaries, directions, proved, monkeypatch):
    monkeypatch.setattr(gradient_source, "add_noise", lambda gradients, deviation, randomness: dict(gradients))
    assert audited(tmp_path, canaries, directions) > proved


def test_without_clipping_the_audit_passes_what_was_proved(tmp_path, canaries, directions, proved):
    assert audited(tmp_path, canaries, directions, kind=WithoutClipping) > proved


def test_without_sampling_the_audit_passes_what_was_proved_for_samples(
    tmp_path, canaries, directions, proved, monkeypatch
):
    monkeypatch.setattr(PoissonSampler, "draw", lambda sampler, randomness: np.arange(sampler.units))
    assert audited(tmp_path, canaries, directions) > proved
