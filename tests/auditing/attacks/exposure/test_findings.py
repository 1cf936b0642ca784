"""Exposure of canaries: maximal where they were memorised, within the null where they were never shown."""

import dataclasses
import json
import math

import mpmath
import numpy as np
import pytest

from reticent.auditing.attacks.exposure.candidate_search import SearchLimits
from reticent.auditing.attacks.exposure.findings import bounded_mean_limit, exposure_findings, null_sum_survival
from reticent.auditing.attacks.exposure.ranking import Exposure, ExposureSettings, measure_exposures
from reticent.auditing.metrics.intervals import shared_confidence
from reticent.core.finding import Comparison, Finding, Standing, Verdict
from reticent.core.guarantee import Guarantee, Neighbours, Notion, Unit
from reticent.core.model import LanguageModel
from reticent.core.randomness import Randomness
from reticent.core.secret import Canary, CodeSpace
from reticent.data.canaries import make_canaries
from reticent.runs.audit.gate import check_gate, parse_limit
from tests.auditing.attacks.exposure.oracles import (
    CODES,
    MergingModel,
    brute_force_log_probs,
    brute_force_rank,
    make_canary,
    random_model,
)
from tests.models.ngram import NGramModel

TEMPLATE = "i: {}"
SIX_DIGITS = math.log2(10**6)
EXACT = ExposureSettings(samples=50, limits=SearchLimits(tie_tolerance=1e-9))


def ten_canaries(space: CodeSpace, seed: int = 0, template: str = TEMPLATE) -> tuple[Canary, ...]:
    return make_canaries(template, space, count=10, copies=20, randomness=Randomness.seeded(seed))


def measure(
    model: LanguageModel, canaries: tuple[Canary, ...], settings: ExposureSettings = EXACT
) -> list[Exposure]:
    return measure_exposures(model, canaries, randomness=Randomness.seeded(1), settings=settings)


def test_ten_memorised_canaries_have_maximal_exposure_and_the_finding_says_so() -> None:
    canaries = ten_canaries(CodeSpace(6))
    shown = [canary.text() for canary in canaries for _ in range(20)]
    model = NGramModel.fit([*shown, "i: 0123456789"], order=10, smoothing=0.001)
    measured = measure(model, canaries)
    assert all(exposure.is_exact and exposure.least_rank == 1 for exposure in measured)
    assert [exposure.value for exposure in measured] == pytest.approx([SIX_DIGITS] * 10, abs=1e-4)  # 19.93 bits
    assert round(measured[0].value, 2) == 19.93
    mean, largest = exposure_findings(measured, unit=Unit.RECORD)
    assert mean.beats_null
    assert largest.beats_null
    assert mean.low == pytest.approx(SIX_DIGITS * 0.025**0.1, abs=1e-3)  # as Clopper–Pearson at 10 of 10
    assert mean.null == pytest.approx(1.4427, abs=1e-3)
    assert largest.null == pytest.approx(7.61, abs=0.01)
    assert "4.22" in largest.notes[0] or "4.23" in largest.notes[0]


def test_a_model_never_shown_the_canaries_is_within_the_null() -> None:
    """Seeded; the findings' own false-alarm rate is 5 % each."""
    measured = measure(random_model(7), ten_canaries(CODES))
    findings = exposure_findings(measured)
    assert not any(finding.beats_null for finding in findings)
    assert 0.5 < findings[0].value < 3.5  # ± 4.5 standard errors of 1.44/√10 bits


def ranked(bits: float, rank: float) -> Exposure:
    """An exact exposure of a secret of so many bits."""
    value = bits - math.log2(rank)
    return Exposure(
        canary="c",
        candidates=round(2**bits),
        value=value,
        low=value,
        high=value,
        least_rank=round(rank),
        greatest_rank=round(rank),
        tied=0,
        forward_tokens=0,
    )


@pytest.mark.parametrize("attacks", [1, 6])  # alone, and among all that are not opt-in
def test_five_of_ten_fully_exposed_canaries_are_above_null_and_raise_the_alarm(attacks: int) -> None:
    """Mean 10.7 bits of 20: p = 2e-21. The interval alone once said [1.33 … 19.1], not above null."""
    exposures = [ranked(20.0, 1)] * 5 + [ranked(20.0, 2**20 * 2.0**-x) for x in (0.2, 0.7, 1.2, 1.9, 3.0)]
    confidence = shared_confidence(shared_confidence(0.95, attacks), 2)
    mean, largest = exposure_findings(exposures, confidence=confidence)
    assert mean.value == pytest.approx(10.7, abs=0.01)
    assert mean.p_value is not None
    assert mean.p_value < 1e-19
    assert mean.standing is Standing.ABOVE
    assert largest.standing is Standing.ABOVE
    assert mean.low < 10.7 < mean.high
    (result,) = check_gate([parse_limit("exposure>3")], [mean, largest])
    assert result.fails == (mean.low > 3.0)
    assert result.fails


def test_the_verdict_that_contradicted_its_p_value_had_an_interval_from_below_the_null() -> None:
    """Five of ten fully exposed, p = 1.9e-21, and yet "[1.33 … 19.1] not above null", as it was printed once.

    Broken twin: a verdict by Hoeffding's interval whose error was split over sixteen attacks, two findings and two
    sides again. The p-value is Γ(10, S ln 2)/Γ(10), here by mpmath in fifty digits.
    """
    exposures = [ranked(20.0, 1)] * 5 + [ranked(20.0, 2**20 * 2.0**-x) for x in (0.2, 0.7, 1.2, 1.9, 2.39)]
    mean, _ = exposure_findings(exposures)
    with mpmath.workdps(50):
        total = mpmath.mpf(sum(exposure.value for exposure in exposures))
        exact = float(mpmath.gammainc(10, total * mpmath.log(2)) / mpmath.gamma(10))
    assert mean.p_value == pytest.approx(exact, rel=1e-9)
    assert mean.p_value == pytest.approx(1.9e-21, rel=0.01)
    assert mean.standing is Standing.ABOVE
    old = [
        20.0 * bounded_mean_limit(mean.value / 20.0, 10, alpha=0.05 / 128, upper=upper) for upper in (False, True)
    ]
    assert old == pytest.approx([1.33, 19.1], abs=0.006)
    assert mean.null is not None
    assert old[0] < mean.null < 3.0 < mean.low  # nothing would have been above the null, nor the gate fired


def test_the_exact_null_decides_at_the_stated_rate_and_a_single_canary_is_too_few() -> None:
    """2,000 null means of ten at 5 %: fewer than 60 or more than 140 alarms have chance 1e-4."""
    generator = np.random.default_rng(11)
    ranks = generator.integers(1, 2**20, size=(2000, 10), endpoint=True)
    alarms = sum(null_sum_survival(float((20.0 - np.log2(row)).sum()), 10) <= 0.05 for row in ranks)
    assert 60 <= alarms <= 140
    few, _ = exposure_findings([ranked(4.0, 1)], confidence=0.99)
    assert few.standing is Standing.TOO_FEW
    alone, _ = exposure_findings([ranked(20.0, 300_000)], confidence=0.99)
    assert alone.standing is Standing.NOT_ABOVE


def test_null_data_beats_the_null_at_most_at_the_stated_rate() -> None:
    """40 measurements at rate 5 %: more than 8 alarms have chance 1e-3; ranks are uniform given the model."""
    space = CodeSpace(3)
    alarms = {"exposure": 0, "largest_exposure": 0}
    ranks = []
    for seed in range(40):
        canaries = make_canaries(TEMPLATE, space, count=4, copies=1, randomness=Randomness.seeded(100 + seed))
        measured = measure(random_model(seed % 4), canaries)
        ranks += [exposure.least_rank / exposure.candidates for exposure in measured]
        for finding in exposure_findings(measured):
            alarms[finding.metric] += finding.beats_null
    assert max(alarms.values()) <= 8
    distance = np.abs(np.sort(ranks) - np.arange(1, len(ranks) + 1) / len(ranks)).max()
    assert distance < 1.95 / math.sqrt(len(ranks))  # Kolmogorov–Smirnov at 1e-3


def test_exposure_equals_brute_force_in_every_template() -> None:
    model = random_model(11)
    canaries = tuple(
        make_canary(CODES.code(97 * index), CODES, template, name=f"canary-{index}")
        for index, template in enumerate(["i: {}", "{}.", ": {} i", "i: {}."])
    )
    for canary in canaries:
        (exposure,) = measure(model, (canary,))
        rank = brute_force_rank(model, canary)
        assert exposure.canary == canary.name
        assert exposure.value == pytest.approx(math.log2(1000) - math.log2(rank))


def test_canaries_of_one_space_are_ranked_without_each_other() -> None:
    """Counted against each other, ten memorised canaries would have ranks 1 to 10 and lose up to 3.3 bits."""
    canaries = ten_canaries(CODES)
    texts = [canary.text() for place, canary in enumerate(canaries) for _ in range(20 + place)]
    model = NGramModel.fit(["i: 0123456789", *texts], order=10, smoothing=0.001)
    assert [exposure.least_rank for exposure in measure(model, canaries)] == [1] * 10
    assert sorted(brute_force_rank(model, canary) for canary in canaries) == list(range(1, 11))
    halves = (*canaries[:5], *(make_canary(c.secret.reveal(), CODES, "i: {} ", name=c.name) for c in canaries[5:]))
    assert [exposure.least_rank for exposure in measure(model, halves)] == [1] * 10


def test_without_search_the_intervals_of_the_sample_hold_the_true_exposures() -> None:
    """Joint confidence 97.5 % for the twenty; seeded."""
    settings = ExposureSettings(samples=400, limits=SearchLimits(max_tokens=1, tie_tolerance=1e-9))
    model, space = random_model(13), CodeSpace(4)
    canaries = tuple(make_canary(space.code(499 * index), space, name=f"{index}") for index in range(20))
    scores = brute_force_log_probs(model, canaries[0])
    own = [scores.pop(canary.secret.reveal()) for canary in canaries]
    others = np.array(list(scores.values()))
    for log_prob, exposure in zip(own, measure(model, canaries, settings), strict=True):
        truth = math.log2(len(others) + 1) - math.log2(1 + int((others >= log_prob - 1e-9).sum()))
        assert not exposure.is_exact
        assert exposure.low <= truth <= exposure.high
        assert exposure.low <= exposure.value <= exposure.high
        assert exposure.fit is not None
        assert "sampled" in exposure.notes[0]


def test_a_space_that_can_neither_be_split_nor_listed_is_sampled_with_a_note() -> None:
    model = random_model(0, MergingModel)
    settings = ExposureSettings(samples=60)
    (exposure,) = measure(model, (make_canary("1" * 9, CodeSpace(9)),), settings)
    assert "tokenizer" in exposure.notes[0]
    assert exposure.low < exposure.high
    mean, largest = exposure_findings([exposure])
    assert exposure.notes[0] in mean.notes
    assert largest.null == pytest.approx(-math.log2(0.025))  # half of the rate was spent on the rank


def test_a_sample_that_holds_no_likelier_candidate_claims_no_more_than_it_saw() -> None:
    settings = ExposureSettings(samples=200, limits=SearchLimits(max_tokens=1))
    secret = "407183"
    model = NGramModel.fit([f"i: {secret}"] * 50 + ["i: 0123456789"], order=8, smoothing=0.01)
    (exposure,) = measure(model, (make_canary(secret, CodeSpace(6)),), settings)
    assert exposure.value == pytest.approx(math.log2(201), abs=0.01)  # 1 of 201
    assert exposure.high == pytest.approx(SIX_DIGITS)
    assert exposure.low < exposure.value


def test_an_exposure_holds_no_secret() -> None:
    canaries = ten_canaries(CodeSpace(6), template="i: {}.")
    model = NGramModel.fit([canary.text() for canary in canaries] + ["i: 0123456789"], order=10, smoothing=0.01)
    measured = measure(model, canaries)
    written = json.dumps([exposure.to_json() for exposure in measured]) + repr(measured)
    written += json.dumps([finding.to_json() for finding in exposure_findings(measured)])
    assert not any(canary.secret.reveal() in written for canary in canaries)


def test_the_limit_of_a_bounded_mean_covers_whatever_the_distribution() -> None:
    """2,000 means of 10 values from skewed distributions; 2.5 % a side, alarm above 4 % (chance below 1e-4)."""
    generator = np.random.default_rng(0)
    for draws, truth in (
        (generator.random((2000, 10)) ** 8, 1 / 9),
        ((generator.random((2000, 10)) < 0.3).astype(float), 0.3),
        (np.minimum(1.0, generator.exponential(0.072, (2000, 10))), 0.072 * (1 - math.exp(-1 / 0.072))),
    ):
        low = [bounded_mean_limit(float(row.mean()), 10, alpha=0.025, upper=False) for row in draws]
        high = [bounded_mean_limit(float(row.mean()), 10, alpha=0.025, upper=True) for row in draws]
        assert np.mean(np.array(low) > truth) < 0.04
        assert np.mean(np.array(high) < truth) < 0.04
    # Broken twin: the normal approximation, which is a point where all values are equal.
    coin = (generator.random((2000, 10)) < 0.05).astype(float)
    naive = coin.mean(axis=1) + 1.96 * coin.std(axis=1) / math.sqrt(10)
    assert np.mean(naive < 0.05) > 0.5


def test_no_canary_is_not_a_finding() -> None:
    with pytest.raises(ValueError, match="no canary"):
        exposure_findings([])
    assert measure(random_model(0), ()) == []


def test_a_guarantee_is_refuted_by_the_proved_low_end_alone() -> None:
    """Gaffke's low end (3.5 bits) is a conjecture: between it and Hoeffding's (2.3 bits) nothing is refuted."""
    exposures = [ranked(20.0, 1)] * 5 + [ranked(20.0, 2**20 * 2.0**-x) for x in (0.2, 0.7, 1.2, 1.9, 3.0)]
    mean, _ = exposure_findings(exposures, confidence=0.99)
    promise = Guarantee(
        mechanism="DP-SGD",
        notion=Notion.DIFFERENTIAL_PRIVACY,
        unit=Unit.SECRET,
        neighbours=Neighbours.ADD_REMOVE,
        epsilon=1.0,
        covers="one secret",
    )
    assert mean.proved_low is not None
    proved = 20.0 * bounded_mean_limit(mean.value / 20.0, 10, alpha=0.005, upper=False)
    assert mean.proved_low == pytest.approx(proved, rel=1e-12)
    assert mean.proved_low + 0.5 < mean.low
    between = 0.5 * (mean.proved_low + mean.low)
    assert Comparison(mean, promise, between, 20.0).verdict is Verdict.CONSISTENT
    assert Comparison(mean, promise, mean.proved_low - 0.01, 20.0).verdict is Verdict.REFUTED
    again = Finding.from_json(mean.to_json())
    assert again == mean
    with pytest.raises(ValueError, match="proved_low"):
        dataclasses.replace(mean, proved_low=mean.value + 1.0)
