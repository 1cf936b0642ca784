"""The plan: what runs, what is skipped and why, what it costs, and how it is made to fit a budget."""

import dataclasses
import math

import pytest

from reticent.auditing.settings import AttackSettings, Sizes, parse_budget
from reticent.auditing.subject import ModelPlace, make_subject
from reticent.auditing.targets import sample_records
from reticent.core.errors import ConfigError
from reticent.core.guarantee import Unit
from reticent.core.randomness import Randomness
from reticent.runs.audit.plan import Correction, Speed, measure_speed, plan_audit, try_attack
from reticent.runs.audit.registry import OPT_IN, every_attack, parse_attacks
from tests.runs.audit.subjects import CANARIES, TextOnly, fit, promise, records, sentences, subject

SUBJECT = subject()
FAST = Speed(forward=1e6, generated=1e5)


def skipped(plan) -> dict[str, str]:
    return {line.name: line.skipped for line in plan.attacks if line.skipped}


def test_everything_that_can_run_is_planned_with_what_it_measures():
    plan = plan_audit(SUBJECT, AttackSettings(), FAST)
    assert [line.name for line in plan.running] == [
        "exposure",
        "codes",
        "membership",
        "lazy",
        "extraction",
        "generation",
    ]
    assert {"exposure", "code_hit_rate", "auc", "tpr_at_fpr_0.01", "emitted_share"} <= set(plan.metrics)
    assert all(line.n > 0 and line.seconds > 0.0 for line in plan.running)


def test_scores_that_need_what_is_missing_are_skipped_with_the_reason():
    alone = dataclasses.replace(SUBJECT, base=None, canaries=(), planted={})
    reasons = skipped(plan_audit(alone, AttackSettings(), FAST))
    assert "--canaries" in reasons["exposure"]
    assert "--canaries" in reasons["codes"]
    assert "--base" in reasons["lazy"]
    assert "--base" in reasons["membership: calibrated, wbc, ez"]
    assert "--by-coin" in reasons["membership: ε lower bound"]
    assert "one position at a time" in reasons["membership: min-k++"]


def test_a_base_with_another_tokenizer_compares_no_losses():
    other = dataclasses.replace(
        SUBJECT, base=type(SUBJECT.base).fit(sentences(5, 9), order=2, level="word", unknown="?")
    )
    reasons = skipped(plan_audit(other, AttackSettings(), FAST))
    assert "tokenizer" in reasons["membership: calibrated, wbc, ez"]
    assert "lazy" not in reasons  # which compares whole texts


def test_a_model_of_text_alone_is_asked_for_text():
    hidden = dataclasses.replace(SUBJECT, model=TextOnly(SUBJECT.model))
    plan = plan_audit(hidden, AttackSettings(), measure_speed(hidden))
    assert [line.name for line in plan.running] == ["codes", "extraction", "generation"]
    assert "sampled_share" in plan.metrics
    assert all("text only" in reason for name, reason in skipped(plan).items() if name != "codes")


def test_a_budget_halves_sizes_before_it_leaves_attacks_out():
    slow = Speed(forward=20_000.0, generated=2_000.0)
    whole = plan_audit(SUBJECT, AttackSettings(), slow)
    half = plan_audit(SUBJECT, AttackSettings(budget=whole.seconds / 3), slow)
    assert half.seconds <= whole.seconds / 3
    assert half.sizes.search_tokens < whole.sizes.search_tokens
    assert len(half.running) == len(whole.running)
    little = plan_audit(SUBJECT, AttackSettings(budget=2.5), slow)
    assert little.seconds <= 2.5
    assert any("budget" in reason for reason in skipped(little).values())


def test_what_was_measured_before_costs_nothing():
    plan = plan_audit(SUBJECT, AttackSettings(), FAST, is_cached=lambda name, sizes: name == "exposure")
    (line,) = [line for line in plan.running if line.name == "exposure"]
    assert line.is_cached
    assert line.seconds == 0.0


def test_owners_on_both_sides_are_told():
    mixed = make_subject(
        SUBJECT.model,
        None,
        training=records("same", sentences(1, 20)),
        held_out=records("same", sentences(2, 20)),
        place=ModelPlace("", promise(1.0, unit=Unit.OWNER)),
    )
    reasons = skipped(plan_audit(mixed, AttackSettings(attacks=("membership",)), FAST))
    assert "split by owner" in reasons["membership: owners"]


def test_the_estimate_of_forward_tokens_is_what_scoring_reads():
    plan = plan_audit(SUBJECT, AttackSettings(attacks=("lazy",)), FAST)
    texts = [*SUBJECT.training.texts, *SUBJECT.held_out.texts]
    assert plan.attacks[0].forward_tokens == 2 * sum(len(text) for text in texts)  # a token a character, two models


def test_targets_that_would_spoil_the_comparison_are_left_out():
    text = sentences(1, 20)
    planted = [canary.text() for canary in CANARIES]
    made = make_subject(
        fit(text),
        None,
        training=records("train", [*text, text[0], *planted, planted[0]]),
        held_out=records("held", [*sentences(7, 5), text[3]]),
        canaries=CANARIES,
    )
    assert len(made.training) == 21
    assert len(made.held_out) == 5
    assert made.repeated == {"train-0", "train-20"}
    assert made.planted == {Unit.RECORD: 2, Unit.SECRET: 2, Unit.OWNER: 2}
    assert len(made.notes) == 3
    with pytest.raises(ConfigError, match="held-out"):
        make_subject(fit(text), None, training=records("t", text), held_out=records("h", text[:3]))


def test_canaries_that_are_not_in_the_text_have_no_unit():
    made = make_subject(
        fit(sentences(1, 9)),
        None,
        training=records("t", sentences(1, 9)),
        held_out=records("h", sentences(2, 9)),
        canaries=CANARIES,
    )
    assert made.planted == {}
    assert made.secret_unit is Unit.SECRET


def test_a_sample_is_uniform_and_repeatable():
    corpus = records("r", sentences(1, 12))
    drawn = sample_records(corpus, 4, randomness=Randomness.seeded(1))
    assert drawn == sample_records(corpus, 4, randomness=Randomness.seeded(1))
    assert sample_records(corpus, 12, randomness=Randomness.seeded(1)) is corpus
    counts = dict.fromkeys((record.id for record in corpus), 0)
    for seed in range(600):
        for record in sample_records(corpus, 4, randomness=Randomness.seeded(seed)):
            counts[record.id] += 1
    # Each is in with chance 1/3: 200 ± 11.5; five deviations either way have chance 1e-5 for all twelve.
    assert all(abs(count - 200) < 58 for count in counts.values())


def test_sizes_never_shrink_to_nothing():
    sizes = Sizes()
    for _ in range(30):
        sizes = sizes.smaller()
    assert sizes.records == 20
    assert sizes.answers == 20
    small = Sizes(records=5, extraction_records=3, texts=8, choices=2, draws=1)
    for _ in range(30):
        small = small.smaller()
    assert (small.records, small.extraction_records, small.texts, small.choices, small.draws) == (5, 3, 8, 2, 1)


def test_what_is_spent_on_a_target_shrinks_before_targets_do():
    sizes, seen = Sizes(), []
    while sizes.smaller() != sizes:
        seen.append((sizes.search_tokens + sizes.choices + sizes.draws, sizes.records + sizes.extraction_records))
        sizes = sizes.smaller()
    spent, targets = zip(*seen, strict=True)
    first = next(place for place, each in enumerate(targets) if each < targets[0])
    assert spent[first] == spent[-1] < spent[0]
    assert all(each == targets[0] for each in targets[:first])


def test_a_trial_corrects_estimates_that_are_too_high_so_that_targets_stay():
    """The estimate is five times what the attack takes: alone it would cut 200 targets, corrected it cuts none."""
    slow = Speed(forward=2_000.0, generated=math.inf)
    asked = AttackSettings(attacks=("pii",), sizes=Sizes(extraction_records=200, choices=20, draws=4, texts=32))
    whole = plan_audit(SUBJECT, asked, slow).seconds
    settings = dataclasses.replace(asked, budget=whole / 2)
    tried = []

    def trial(name, sizes):
        tried.append(sizes)
        (line,) = plan_audit(SUBJECT, dataclasses.replace(asked, sizes=sizes), slow).running
        return 0.5 + line.seconds / 5.0

    alone, corrected = (plan_audit(SUBJECT, settings, slow, trial=each) for each in (lambda _, __: None, trial))
    assert alone.sizes.extraction_records < 200
    assert corrected.sizes.extraction_records == 200
    assert corrected.seconds == pytest.approx(0.5 + whole / 5.0)
    assert max(sizes.extraction_records for sizes in tried) <= 20
    assert not tried[3:]
    plan_audit(SUBJECT, dataclasses.replace(asked, budget=None), slow, trial=trial)
    plan_audit(SUBJECT, dataclasses.replace(asked, budget=1.0), slow, trial=trial)
    assert not tried[3:]  # without a budget nothing is tried, nor where a trial would take too much of it


def test_the_line_through_two_trials_has_what_is_fixed_and_what_grows():
    assert Correction.through((1.0, 3.0), (2.0, 4.0)) == Correction(2.0, 1.0)
    assert Correction.through((1.0, 0.5), (2.0, 2.0)) == Correction(0.0, 1.5)  # nothing is fixed below 0
    assert Correction.through((1.0, 5.0), (2.0, 4.0)) == Correction(0.0, 2.0)  # no slope: the larger one's ratio


def test_a_trial_runs_the_attack_and_gives_its_time():
    assert try_attack(SUBJECT, AttackSettings(attacks=("lazy",)), "lazy", Sizes(records=5, texts=2)) > 0.0
    nobody = dataclasses.replace(SUBJECT, training=records("t", [""] * 3))
    assert try_attack(nobody, AttackSettings(attacks=("lazy",)), "lazy", Sizes(records=5, texts=2)) is None


def test_attacks_and_budgets_are_read_strictly():
    assert parse_attacks("all") == tuple(name for name in every_attack() if name not in OPT_IN)
    assert parse_attacks("lazy, exposure") == ("exposure", "lazy")
    with pytest.raises(ConfigError, match="unknown attack 'exposre', did you mean 'exposure'"):
        parse_attacks("exposre")
    with pytest.raises(ConfigError, match="all, exposure, codes, coins, membership, lazy, extraction, generation"):
        parse_attacks("zzz")
    assert parse_budget("90s") == 90.0
    assert parse_budget("1.5h") == 5400.0
    for wrong in ("", "10", "m", "-3m", "10 parsecs", "nanm", "infh", "0s"):
        with pytest.raises(ConfigError):
            parse_budget(wrong)


def test_speeds_are_positive():
    speed = measure_speed(SUBJECT)
    assert 0.0 < speed.generated < math.inf
    assert 0.0 < speed.forward < math.inf
