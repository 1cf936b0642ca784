"""A tiny Transformer over-trained on ten canaries gives each away exactly; before training it knows none."""

import math

import numpy as np
import pytest
import torch

from reticent.auditing.attacks.exposure.candidate_search import SearchLimits
from reticent.auditing.attacks.exposure.findings import exposure_findings
from reticent.auditing.attacks.exposure.ranking import ExposureSettings, measure_exposures
from reticent.core.randomness import Randomness
from reticent.core.secret import Canary, CodeSpace
from reticent.data.canaries import make_canaries
from reticent.models.huggingface.model import HuggingFaceModel
from tests.models.tiny import tiny_gpt2, tiny_tokenizer


def ten_canaries(length: int) -> tuple[Canary, ...]:
    return make_canaries("id: {}.", CodeSpace(length), count=10, copies=1, randomness=Randomness.seeded(5))


def over_train(model: HuggingFaceModel, canaries: tuple[Canary, ...], steps: int) -> None:
    """Full batches of the ten texts, plain Adam."""
    tokens = torch.tensor([[model.start_token, *row] for row in model.encode([c.text() for c in canaries])])
    optimiser = torch.optim.Adam(model.module.parameters(), lr=3e-3)
    model.module.train()
    for _ in range(steps):
        optimiser.zero_grad()
        model.module(input_ids=tokens, labels=tokens).loss.backward()
        optimiser.step()
    model.module.eval()


def test_ten_canaries_are_exposed_by_training_and_within_the_null_before() -> None:
    torch.manual_seed(0)
    canaries = ten_canaries(6)
    model = HuggingFaceModel(tiny_gpt2(), tiny_tokenizer(), name="tiny")
    settings = ExposureSettings(samples=200, limits=SearchLimits(max_tokens=5_000))
    before = measure_exposures(model, canaries, randomness=Randomness.seeded(0), settings=settings)
    over_train(model, canaries, steps=250)
    after = measure_exposures(model, canaries, randomness=Randomness.seeded(0), settings=settings)
    assert not any(finding.beats_null for finding in exposure_findings(before))
    assert [exposure.least_rank for exposure in after] == [1] * 10
    assert all(exposure.is_exact for exposure in after)
    assert [round(exposure.value, 2) for exposure in after] == [19.93] * 10
    assert max(exposure.forward_tokens for exposure in after) <= 10**6 * 6 // 50
    assert all(finding.beats_null for finding in exposure_findings(after))


def test_the_rank_equals_scoring_every_candidate() -> None:
    """1,000 candidates through both routes; ties within what float32 tells apart count against the canary."""
    model = HuggingFaceModel(tiny_gpt2(3), tiny_tokenizer(), name="tiny", token_budget=4096)
    (canary, *_) = ten_canaries(3)
    sequences = model.encode([canary.text(candidate) for candidate in canary.space])
    totals = np.array([float(row.sum()) for row in model.token_log_probs(sequences)])
    own = totals[int(canary.secret.reveal())]
    (found,) = measure_exposures(model, [canary], randomness=Randomness.seeded(0))
    assert found.is_exact
    assert int((totals >= own).sum()) <= found.least_rank <= int((totals >= own - 2e-4).sum())
    assert found.value == pytest.approx(math.log2(1000) - math.log2(found.least_rank))
