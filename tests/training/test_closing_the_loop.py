"""Closing the loop: an audit of DP-SGD stays below what was proved, and passes it when a safeguard is taken away.

Canaries (texts of random tokens) are included by fair coins. The adversary sees every noisy gradient, which the
guarantee covers, of a model that is held still, explains their sum by the canaries' own gradients (ridge
regression), and guesses the coins from the weight of each; a one-run audit (Steinke et al. 2023) turns the guesses
into a lower bound on ε. All is seeded; the audit itself alarms falsely in at most 1 of 100 runs.

Shuffled batches with the account of Poisson samples matter most in one epoch with little noise: a Poisson sample
leaves a record out of the whole epoch with chance 1/e, which caps the power of any test; a shuffled epoch holds
every record. There the adversary looks at the largest weight over steps, and power is set against the ceiling.
"""

import numpy as np
import pytest
import torch

from reticent.accounting.bounds.tradeoff import true_positive_rate_ceiling
from reticent.auditing.metrics.one_run import one_run_epsilon
from reticent.core.guarantee import Unit
from reticent.core.randomness import Randomness
from reticent.core.statistics.proportion import rate_lower, rate_upper
from reticent.training.batches import TokenTexts
from reticent.training.gradients import source as gradient_source
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.source import PrivateGradients
from reticent.training.plans.plan import DpSgd
from reticent.training.plans.sampler import PoissonSampler, ShuffledEpochs
from tests.training.gradients.oracles import record_gradients
from tests.training.small_models import START, VOCABULARY, gpt2
from tests.training.small_runs import new_ledger, private_source

CANARIES = 240
CONFIDENCE = 0.99
INCLUDED = Randomness.seeded(15).uniform(CANARIES) < 0.5
PLAN = DpSgd(
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


def released(folder, canaries, *, plan=PLAN, kind=PrivateGradients) -> torch.Tensor:
    """The noisy gradients of all steps on the included canaries: [steps, parameters]."""
    chosen = [np.array(text, dtype=np.int32) for text, is_in in zip(canaries, INCLUDED, strict=True) if is_in]
    corpus = TokenTexts(tuple(chosen), tuple(str(i) for i in range(len(chosen))), START, 0)
    with new_ledger(folder, plan) as ledger, private_source(gpt2(), corpus, plan, ledger, kind=kind) as source:
        return torch.stack([flat(source.next().values) for _ in range(plan.steps)])


def weights(directions, gradients) -> np.ndarray:
    """How much of each canary explains each gradient, by ridge regression: [gradients, n]."""
    gram = directions @ directions.T  # [n, n]
    return torch.linalg.solve(gram + 1e-2 * torch.eye(CANARIES), directions @ gradients.T).T.numpy()


def audited(folder, canaries, directions, *, kind=PrivateGradients) -> float:
    """Run the plan's steps on the included canaries and bound ε from below."""
    total = released(folder, canaries, kind=kind).sum(0, keepdim=True)
    scores = weights(directions, total)[0]
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
    monkeypatch.setattr(gradient_source, "add_noise", lambda gradients, *_, **__: dict(gradients))
    assert audited(tmp_path, canaries, directions) > proved


def test_without_clipping_the_audit_passes_what_was_proved(tmp_path, canaries, directions, proved):
    assert audited(tmp_path, canaries, directions, kind=WithoutClipping) > proved


class WithoutSampling(PrivateGradients):
    """Broken twin: takes everybody into every step. The model stands still, so that all clipped sums are equal."""

    summed = None

    def clipped_sum(self, *arguments, **more):
        if self.summed is None:
            self.summed = super().clipped_sum(*arguments, **more)
        return {name: value.clone() for name, value in self.summed.items()}


def test_without_sampling_the_audit_passes_what_was_proved_for_samples(
    tmp_path, canaries, directions, proved, monkeypatch
):
    monkeypatch.setattr(PoissonSampler, "draw_round", lambda sampler, randomness: (np.arange(sampler.units),))
    assert audited(tmp_path, canaries, directions, kind=WithoutSampling) > proved


EPOCH = DpSgd(
    sampler=PoissonSampler(int(INCLUDED.sum()), int(INCLUDED.sum()) // 5),
    clip_norm=0.1,
    noise_multiplier=0.1,
    steps=5,
    delta=1e-5,
    unit=Unit.RECORD,
)
HALF_A_CANARY = 0.5 * EPOCH.clip_norm / EPOCH.sampler.batch  # a threshold fixed beforehand


def power_and_ceiling(folder, canaries, directions) -> tuple[float, float]:
    """Surely reached true-positive rate of one epoch's audit, and the proved ceiling at its false-positive rate."""
    scores = weights(directions, released(folder, canaries, plan=EPOCH)).max(axis=0)  # [n]
    guessed = scores > HALF_A_CANARY
    tail = (1.0 - CONFIDENCE) / 2.0
    power = rate_lower(int(guessed[INCLUDED].sum()), int(INCLUDED.sum()), tail=tail)
    alarms = rate_upper(int(guessed[~INCLUDED].sum()), int((~INCLUDED).sum()), tail=tail)
    return power, true_positive_rate_ceiling(EPOCH.guarantee(is_seeded=True), alarms)


def test_one_epoch_of_poisson_samples_stays_below_its_ceiling_though_the_noise_hides_nothing(
    tmp_path, canaries, directions
):
    power, ceiling = power_and_ceiling(tmp_path, canaries, directions)
    assert 0.4 < power <= ceiling < 0.9


def test_with_shuffled_batches_the_audit_passes_the_ceiling_of_poisson_samples(
    tmp_path, canaries, directions, monkeypatch
):
    steps = iter(range(EPOCH.steps))
    shuffled = ShuffledEpochs(EPOCH.sampler.units, EPOCH.sampler.batch, seed=3)
    monkeypatch.setattr(PoissonSampler, "draw_round", lambda *_: (np.sort(shuffled.batch_at(next(steps))),))
    power, ceiling = power_and_ceiling(tmp_path, canaries, directions)
    assert power > ceiling + 0.1
