"""The error of an audit is split over the attacks that can run, and all intervals of an audit hold together."""

import dataclasses

import numpy as np
import pytest

from reticent.auditing.attacks.personal_data.attack import intervals_of
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import make_subject
from reticent.core.finding import Finding, Standing
from reticent.runs.audit.attacking import run_audit, score_key
from reticent.runs.audit.plan import Speed, plan_audit, share_error
from tests.runs.audit.subjects import TextOnly, fit, records, sentences, subject

SUBJECT = subject()
FAST = Speed(forward=1e6, generated=1e5)
SMALL = Sizes(records=20, extraction_records=10, candidates=50, search_tokens=2_000, answers=20, texts=32)


def test_attacks_that_cannot_run_take_no_share_of_the_error():
    assert share_error(SUBJECT, AttackSettings()).shares == 6
    assert share_error(SUBJECT, AttackSettings(attacks=("exposure",))).attack_confidence == 0.95
    alone = dataclasses.replace(SUBJECT, base=None, canaries=(), planted={})
    assert share_error(alone, AttackSettings()).shares == 3  # membership, extraction, generation
    text = dataclasses.replace(alone, model=TextOnly(SUBJECT.model))
    assert share_error(text, AttackSettings()).shares == 2
    assert share_error(text, AttackSettings(attacks=("lazy",))).shares == 1  # nothing runs: no division by 0


def test_neither_budget_nor_results_change_the_shares():
    cramped = AttackSettings(attacks=("exposure", "lazy"), budget=1e-3)
    assert share_error(SUBJECT, cramped).shares == 2
    assert not plan_audit(SUBJECT, cramped, FAST).running
    again = share_error(SUBJECT, share_error(SUBJECT, cramped))
    assert again.shares == 2


def test_what_was_measured_at_another_confidence_is_not_taken_from_the_cache():
    alone, among = AttackSettings(attacks=("lazy",)), AttackSettings(attacks=("lazy", "exposure"))
    keys = [score_key("lazy", SUBJECT, one, sizes=SMALL).material() for one in (alone, among)]
    assert keys[0] != keys[1]
    assert score_key("lazy", SUBJECT, share_error(SUBJECT, alone), sizes=SMALL).material() == keys[0]


def null_world(seed: int):
    """A model that saw neither side; the sides are one sample of sentences, parted at random."""
    texts = sentences(1000 + seed, 60)
    order = np.random.default_rng(seed).permutation(60)
    return make_subject(
        fit(sentences(3000 + seed, 30), order=4),
        fit(sentences(5, 40), order=3),
        training=records("train", [texts[place] for place in order[:30]]),
        held_out=records("held", [texts[place] for place in order[30:]]),
    )


@pytest.mark.parametrize("attacks", [("lazy",), ("membership", "lazy", "extraction")])
def test_the_errors_of_all_findings_of_an_audit_sum_to_its_error_at_most(attacks):
    settings = AttackSettings(attacks=attacks, sizes=SMALL, rates=(0.1,))
    world = null_world(0)
    found = run_audit(world, plan_audit(world, settings, FAST), settings=settings)
    assert {finding.confidence for finding in found.findings}
    usable = [one for one in found.findings if not one.void]
    assert sum(1.0 - finding.confidence for finding in usable) <= 0.05 + 1e-12


@pytest.mark.slow
def test_an_audit_of_null_data_raises_an_alarm_no_more_often_than_stated():
    """40 audits of three attacks at 80 %, so that alarms are frequent enough to count.

    Exposure has no canaries here, so the plan skips it and its share goes to the others. At a true rate of 20 %,
    more than 17 audits with an alarm have chance 1e-3.
    """
    settings = AttackSettings(attacks=("exposure", "membership", "lazy", "extraction"), sizes=SMALL, confidence=0.8)
    settings = dataclasses.replace(settings, rates=(0.1,))
    alarms = 0
    for seed in range(40):
        world = null_world(seed)
        plan = plan_audit(world, settings, FAST)
        assert [line.name for line in plan.running] == ["membership", "lazy", "extraction"]
        found = run_audit(world, plan, settings=settings)
        alarms += any(finding.beats_null for finding in found.findings)
    assert alarms <= 17


def test_games_that_are_not_played_take_no_share():
    assert intervals_of(SUBJECT, with_pairs=True, drawn=2) == 13
    assert intervals_of(SUBJECT, with_pairs=False, drawn=0) == 10
    alone = dataclasses.replace(SUBJECT, base=None)
    assert intervals_of(alone, with_pairs=True, drawn=2) == 11
    assert intervals_of(dataclasses.replace(alone, model=TextOnly(SUBJECT.model)), with_pairs=False, drawn=0) == 2


def test_a_perfect_score_of_too_few_targets_is_too_few_to_tell():
    settings = AttackSettings(attacks=("lazy", "membership"), sizes=SMALL, rates=(0.1,))
    few = make_subject(
        fit(sentences(1, 4) * 3),
        fit(sentences(5, 40), order=3),
        training=records("train", sentences(1, 4)),
        held_out=records("held", sentences(2, 3)),
    )
    found = run_audit(few, plan_audit(few, settings, FAST), settings=settings)
    (emitted,) = (finding for finding in found.findings if finding.metric == "emitted_share")
    assert emitted.value == 1.0
    assert emitted.standing is Standing.TOO_FEW


def test_standings_and_their_json_survive_the_disk():
    known = run_audit(
        SUBJECT,
        plan_audit(SUBJECT, AttackSettings(attacks=("exposure",), sizes=SMALL), FAST),
        settings=AttackSettings(attacks=("exposure",), sizes=SMALL),
    ).findings[0]
    assert known.p_value is not None
    assert Finding.from_json(known.to_json()) == known
    older = {key: value for key, value in known.to_json().items() if key not in ("p_value", "could_pass")}
    assert Finding.from_json(older).could_pass
