"""The journey of an audit on n-gram models: what was learnt is found, what was not is not, claims are refuted."""

import dataclasses
import itertools
import json

import numpy as np
import pytest

from reticent.accounting.bounds.ceiling import ceiling
from reticent.auditing.attacks.membership.attack import ONE_RUN_BOUNDS, one_run_findings, why_no_one_run
from reticent.auditing.metrics.intervals import shared_confidence
from reticent.auditing.metrics.one_run import FAIR_COINS
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import ModelPlace, make_subject
from reticent.auditing.targets import Targets, membership_targets
from reticent.core.corpus import Corpus, Record
from reticent.core.errors import ConfigError, DataError
from reticent.core.evidence.individual import IndividualBound, IndividualBounds
from reticent.core.finding import Finding, Verdict
from reticent.core.guarantee import Unit
from reticent.data.canaries import CanaryOwner
from reticent.runs.audit.attacking import audit_to_json, is_cacheable, run_audit, score_key, start_run, write_audit
from reticent.runs.audit.gate import check_gate, parse_limit
from reticent.runs.audit.plan import AuditPlan, Speed, plan_audit
from reticent.runs.audit.score_cache import ScoreCache
from reticent.runs.audit.subject import check_held_out, find_model
from reticent.runs.directory import RunDirectory
from reticent.runs.proofs.ancestry import Ancestry
from tests.claims import certify, claim
from tests.runs.audit.subjects import CANARIES, TextOnly, fit, promise, records, sentences, subject

SMALL = Sizes(records=60, extraction_records=40, candidates=200, search_tokens=20_000, answers=40, texts=192)
SETTINGS = AttackSettings(sizes=SMALL, rates=(0.1,))
MEMBERSHIP = dataclasses.replace(SETTINGS, attacks=("membership",))
FAST = Speed(1e6, 1e5)


def audited(which, settings=SETTINGS, **options):
    return run_audit(which, plan_audit(which, settings, FAST), settings=settings, **options)


def named(audit, metric: str, attack: str | None = None) -> Finding:
    return next(f for f in audit.findings if f.metric == metric and attack in (None, f.attack))


@pytest.fixture(scope="module")
def learnt():
    return subject()


@pytest.fixture(scope="module")
def found(learnt):
    return audited(learnt)


def test_a_model_that_learnt_its_text_is_found_out_by_every_attack(found):
    assert named(found, "auc", "loss").value == 1.0
    for metric, attack in (("auc", "loss"), ("auc", "calibrated"), ("auc", "wbc"), ("emitted_share", None)):
        assert named(found, metric, attack).beats_null, (metric, attack)
    for metric in ("largest_exposure", "code_hit_rate", "np_discoverable_share", "extracted_share"):
        assert named(found, metric).beats_null, metric
    assert found.comparisons == ()
    skipped = [line.name for line in found.attacks if line.skipped and ":" not in line.name]
    assert skipped == ["coins"]  # these canaries have none


def test_a_model_that_never_saw_the_text_is_not(found):
    never = audited(subject(learnt=False))
    assert len(never.findings) == len(found.findings)
    assert [f.metric for f in never.findings if f.beats_null] == []


def test_all_intervals_hold_together_at_the_stated_confidence(found):
    """Bonferroni: the errors of all findings that can be used sum to at most what was stated."""
    spent = sum(1.0 - finding.confidence for finding in found.findings if not finding.void)
    assert spent <= 1.0 - SETTINGS.confidence + 1e-12


def test_members_that_differ_without_the_model_void_the_result(learnt):
    other = [text.replace("late", "delayed") + " sincerely" for text in learnt.held_out.texts]
    shifted = make_subject(learnt.model, None, training=learnt.training, held_out=records("held", other))
    audit = audited(shifted, MEMBERSHIP)
    assert audit.findings
    assert all("differ without the model" in finding.void for finding in audit.findings)
    assert all("60 and 60 texts). Fewer --records would only hide" in finding.void for finding in audit.findings)


def test_rates_that_so_few_records_cannot_show_are_void_and_never_a_passed_gate(found):
    """The n-gram model parts members from non-members wholly, yet 60 of each say little of a rate of 0.1."""
    rate = named(found, "tpr_at_fpr_0.1", "loss")
    assert rate.value == 1.0
    planned = next(line for line in found.attacks if line.name == "membership: tpr_at_fpr_0.1")
    assert "too few" in rate.void
    assert rate.void == planned.skipped  # one reason, with one number of records that are needed
    with pytest.raises(ConfigError, match="void"):
        check_gate([parse_limit("tpr_at_fpr_0.1>0.2")], found.findings)
    settings = dataclasses.replace(MEMBERSHIP, rates=(0.3,))
    assert named(audited(subject(), settings), "tpr_at_fpr_0.3", "loss").beats_null


def test_a_rate_that_no_corpus_can_show_is_void_and_no_crash():
    """The number of records that it takes is beyond what is looked for."""
    settings = dataclasses.replace(MEMBERSHIP, rates=(1e-7,))
    assert (
        "more than 1,000,000 of each are needed"
        in named(audited(subject(), settings), "tpr_at_fpr_1e-07", "loss").void
    )


@pytest.mark.parametrize(("epsilon", "refuted"), [(0.1, True), (20.0, False)])
def test_a_false_claim_is_refuted_and_a_weak_one_is_not(epsilon, refuted):
    audit = audited(subject(guarantee=promise(epsilon)), MEMBERSHIP)
    assert len(audit.comparisons) == len(audit.findings)
    assert bool(audit.refuted) is refuted
    for one in audit.refuted:
        assert one.finding.low > one.ceiling  # the low end refutes, never the value alone


def test_a_claim_for_owners_is_set_beside_findings_on_owners_alone():
    claim = promise(0.1, unit=Unit.OWNER)
    audit = audited(subject(guarantee=claim, per_owner=2), MEMBERSHIP)
    for one in audit.comparisons:
        assert (one.ceiling is not None) == (one.finding.unit is Unit.OWNER)
        assert one.finding.unit is Unit.OWNER or one.verdict is Verdict.NOT_COMPARABLE
    assert {one.finding.attack for one in audit.refuted} >= {"loss, owners"}
    assert named(audit, "auc", "loss, owners").n == 60


@pytest.mark.parametrize(
    ("unit", "owner", "copies"),
    [(Unit.RECORD, CanaryOwner.CANARY, 6), (Unit.OWNER, CanaryOwner.CANARY, 1), (Unit.OWNER, CanaryOwner.COPY, 6)],
)
def test_exposure_is_compared_with_the_units_that_hold_the_secret(unit, owner, copies):
    claim = promise(0.5, unit=unit)
    which = subject(guarantee=claim, owner=owner)
    audit = audited(which, dataclasses.replace(SETTINGS, attacks=("exposure",)))
    one = next(one for one in audit.comparisons if one.finding.metric == "exposure")
    candidates = audit.artefacts["exposure.json"]["exposures"][0]["candidates"]
    assert candidates == 10_000 - len(CANARIES) + 1
    assert one.ceiling == pytest.approx(ceiling("exposure", claim, candidates=candidates, copies=copies))


def test_a_second_run_measures_nothing_and_says_the_same(learnt, found, tmp_path):
    first = audited(learnt, cache=ScoreCache(tmp_path))
    cache = ScoreCache(tmp_path)
    second = audited(learnt, cache=cache)
    assert first.cached == ()
    assert second.cached == ("exposure", "codes", "membership", "lazy", "extraction", "generation")
    assert cache.misses == 0
    assert second.findings == first.findings == found.findings
    assert second.artefacts == first.artefacts


def test_another_model_is_measured_for_itself(learnt, tmp_path):
    audited(learnt, MEMBERSHIP, cache=ScoreCache(tmp_path))
    other = audited(
        dataclasses.replace(learnt, model=fit(sentences(3, 60))), MEMBERSHIP, cache=ScoreCache(tmp_path)
    )
    assert other.cached == ()
    assert named(other, "auc", "loss").value < 0.8


def proved_of_one(epsilon):
    return IndividualBounds(1e-5, 8.0, {"train-1": IndividualBound(epsilon, 1, epsilon)})


def test_whatever_changes_a_measurement_changes_its_key(learnt, tmp_path):
    cache = ScoreCache(tmp_path)

    def name(which=learnt, settings=SETTINGS, sizes=SMALL, attack="membership"):
        return cache.name(score_key(attack, which, settings, sizes=sizes))

    others = [
        name(attack="lazy"),
        name(sizes=dataclasses.replace(SMALL, records=59)),
        name(dataclasses.replace(learnt, model=learnt.base)),
        name(dataclasses.replace(learnt, base=None)),
        name(dataclasses.replace(learnt, training=learnt.training[1:])),
        name(dataclasses.replace(learnt, held_out=learnt.held_out[1:])),
        name(dataclasses.replace(learnt, canaries=CANARIES[:2])),
        name(dataclasses.replace(learnt, repeated=frozenset(["train-1"]))),
        name(dataclasses.replace(learnt, twins=frozenset(["train-1"]))),
        *(name(dataclasses.replace(learnt, individual=proved_of_one(epsilon))) for epsilon in (1.0, 2.0)),
        name(dataclasses.replace(learnt, guarantee=promise(1.0))),
        name(dataclasses.replace(learnt, guarantee=promise(1.0, unit=Unit.OWNER))),
        name(settings=dataclasses.replace(SETTINGS, seed=1)),
        name(settings=dataclasses.replace(SETTINGS, rates=(0.05,))),
        name(settings=dataclasses.replace(SETTINGS, samples=7)),
        name(settings=dataclasses.replace(SETTINGS, by_coin=True)),
        name(settings=dataclasses.replace(SETTINGS, confidence=0.9)),
    ]
    assert len({name(), *others}) == 1 + len(others)
    # What a finding is only set beside is no part of it.
    assert name(dataclasses.replace(learnt, guarantee=promise(1.0))) == name(
        dataclasses.replace(learnt, guarantee=promise(2.0))
    )


def test_a_model_of_text_alone_is_attacked_by_text_and_never_cached(learnt, tmp_path):
    hidden = dataclasses.replace(learnt, model=TextOnly(learnt.model))
    assert not is_cacheable(hidden)
    audit = audited(hidden, cache=ScoreCache(tmp_path))
    assert {finding.metric for finding in audit.findings} == {
        *("code_hit_rate", "discoverable_share", "near_discoverable_share", "sampled_share"),
        *("extracted_share", "extraction_rate", "extraction_precision_repeats"),
    }
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_coins_bound_epsilon_from_below_and_find_nothing_in_noise():
    generator = np.random.default_rng(8)
    texts = sentences(1, 160)
    coins = generator.random(160) < 0.5
    inside = records("in", [text for text, coin in zip(texts, coins, strict=True) if coin])
    outside = records("out", [text for text, coin in zip(texts, coins, strict=True) if not coin])
    settings = dataclasses.replace(MEMBERSHIP, by_coin=True, sizes=dataclasses.replace(SMALL, records=200))
    metric = "epsilon_lower_bound_at_delta_1e-05"
    for model, is_found in ((fit(inside.texts), True), (fit(sentences(3, 60)), False)):
        which = make_subject(model, None, training=inside, held_out=outside, place=ModelPlace("", promise(0.3)))
        audit = audited(which, settings)
        for attack in ("one run, loss", "one run by curve, loss"):
            epsilon = named(audit, metric, attack)
            assert (epsilon.value > 0.3) is is_found
            assert epsilon.n == 160
            assert FAIR_COINS in epsilon.notes
        assert (named(audit, "gaussian_mu_lower_bound", "one run by curve, loss").value > 0.1) is is_found
        verdicts = [one.verdict for one in audit.comparisons if one.finding.metric == metric]
        assert verdicts == 2 * [Verdict.REFUTED if is_found else Verdict.CONSISTENT]
        assert {finding.metric for finding in audit.findings} == set(plan_audit(which, settings, FAST).metrics)


def coin_bounds(scores, coins, confidence):
    """What one run says of these scores: the three bounds, as an audit takes them."""
    which = Targets(tuple(Record(str(n), f"text {n}") for n in range(len(coins))), coins)
    bounds = {"scores": {"loss": scores}, "confidence": confidence}
    return [finding.low for finding in one_run_findings(COIN_SUBJECT, SETTINGS, which, **bounds)]


COIN_SUBJECT = make_subject(fit(["late"]), None, training=records("t", ["late"]), held_out=records("h", ["paid"]))


def test_the_bounds_of_one_run_find_nothing_in_noise_at_their_common_confidence():
    # 300 repetitions at 95 %: more than 27 false alarms has chance 1e-3 at the stated rate.
    generator, each = np.random.default_rng(21), shared_confidence(0.95, ONE_RUN_BOUNDS)
    alarms = 0
    for _ in range(300):
        coins = generator.random(96) < 0.5
        found = coin_bounds(generator.normal(size=96), coins, each)
        assert len(found) == ONE_RUN_BOUNDS  # every bound has its share of the error
        alarms += any(found)
    assert alarms <= 27
    assert all(coin_bounds(generator.normal(size=96) + 4.0 * coins, coins, each))  # and signal is found by each


def test_coins_do_not_decide_which_records_are_targets():
    """Else the coins of the targets are not fair: of two equal texts a lone one would surely be a member."""
    texts = ["a", "a", "b", "c", "c", "c", "d", "e"]
    everything = records("r", texts)
    settings = dataclasses.replace(MEMBERSHIP, by_coin=True)
    chosen, kept_by_sides = set(), set()
    for coins in itertools.product((False, True), repeat=len(texts)):
        if len(set(coins)) == 1:
            continue
        inside = Corpus(record for record, coin in zip(everything, coins, strict=True) if coin)
        outside = Corpus(record for record, coin in zip(everything, coins, strict=True) if not coin)
        try:
            which = make_subject(COIN_SUBJECT.model, None, training=inside, held_out=outside)
        except ConfigError:  # every held-out text is a training text as well
            continue
        targets = membership_targets(which, settings, 100)
        chosen.add(frozenset(record.id for record in targets.records))
        by_id = {record.id: record for record in everything}
        assert [by_id[r.id] in inside for r in targets.records] == targets.is_member.tolist()
        unchecked = membership_targets(which, MEMBERSHIP, 100)  # the broken twin: sides made comparable by label
        kept_by_sides.add(frozenset(record.id for record in unchecked.records))
    assert chosen == {frozenset({"r-2", "r-6", "r-7"})}
    assert len(kept_by_sides) > 10


def test_intervals_are_by_owner_where_an_owner_has_several_records_and_say_so():
    by_owner, by_record = (named(audited(subject(per_owner=count), MEMBERSHIP), "auc", "loss") for count in (2, 1))
    assert any("owners, assumed independent" in note for note in by_owner.notes)
    assert any("records are assumed independent" in note for note in by_record.notes)
    assert by_owner.value == by_record.value
    assert by_owner.low < by_record.low


def test_coins_that_were_thrown_for_owners_bound_no_epsilon_of_records():
    settings = dataclasses.replace(MEMBERSHIP, by_coin=True)
    assert "coins were flipped per owner" in why_no_one_run(subject(per_owner=2), settings)
    assert why_no_one_run(subject(), settings) == ""


def test_a_spent_budget_skips_what_is_left(learnt):
    plan = plan_audit(learnt, MEMBERSHIP, FAST)
    audit = run_audit(learnt, plan, settings=dataclasses.replace(MEMBERSHIP, budget=1e-9))
    assert audit.findings == ()
    assert "budget was spent" in audit.attacks[0].skipped


def test_records_too_short_to_be_cut_are_told(learnt):
    short = make_subject(
        learnt.model, None, training=records("t", ["late box", "paid"]), held_out=records("h", ["lost"])
    )
    settings = dataclasses.replace(SETTINGS, attacks=("extraction",))
    audit = audited(short, settings)
    assert audit.findings == ()
    assert "long enough" in audit.attacks[0].skipped


def test_the_run_directory_holds_the_findings_and_no_secret_or_text(learnt, tmp_path):
    which = dataclasses.replace(learnt, guarantee=promise(0.1))
    audit = audited(which)
    gate = check_gate([parse_limit("auc>0.6"), parse_limit("auc>0.9999")], audit.findings)
    run = start_run(tmp_path / "run", subject=which, settings=SETTINGS, config={})
    write_audit(run, audit, subject=which, settings=SETTINGS, gate=gate)
    document = json.loads((run.path / "findings.json").read_text())
    assert document == json.loads(json.dumps(audit_to_json(audit, subject=which, settings=SETTINGS, gate=gate)))
    assert tuple(Finding.from_json(entry) for entry in document["findings"]) == audit.findings
    assert [(result["outcome"], result["fails"]) for result in document["gate"]] == [
        ("exceeded", True),
        ("undecided", False),
    ]
    for stored, one in zip(document["comparisons"], audit.comparisons, strict=True):
        assert document["findings"][stored["finding"]] == one.finding.to_json()
    assert RunDirectory.open(run.path).information()["results"]["refuted"] == len(audit.refuted) > 0
    assert {path.name for path in run.path.iterdir()} == {
        *("run.json", "findings.json", "exposure.json", "membership.json", "risk_map.json")
    }
    written = "".join(path.read_text() for path in run.path.iterdir())
    assert not [canary for canary in CANARIES if f'"{canary.secret.reveal()}"' in written]
    assert not [word for word in ("my id is", "refund", "monday") if word in written]


def test_a_run_names_its_model_its_guarantee_and_its_start(tmp_path):
    run = RunDirectory.for_new_run(tmp_path / "run")
    run.start("train", config={"model": {"source": "embedded"}}, seed=0, corpora={})
    with pytest.raises(ConfigError, match="no model"):
        find_model(str(run.path))
    run.model.mkdir()
    proved = claim(2.0)
    certify(run.model, proved)
    for named_by in (run.path, run.model):
        place = find_model(str(named_by))
        assert place.source == str(run.model)
        assert place.guarantee == proved
        assert place.started_from == "embedded"
    (tmp_path / "plain").mkdir()
    assert find_model(str(tmp_path / "plain")).guarantee is None
    assert find_model("some/hub-id").source == "some/hub-id"
    assert find_model("embedded").source.endswith("embedded")


def test_the_plan_names_every_metric_that_is_measured(learnt, found):
    """Limits are checked against the plan, so it must know them all."""
    for which, settings, audit in (
        (learnt, SETTINGS, found),
        (text_only := dataclasses.replace(learnt, model=TextOnly(learnt.model)), SETTINGS, audited(text_only)),
    ):
        measured = {finding.metric for finding in audit.findings}
        assert measured == set(plan_audit(which, settings, FAST).metrics)


def test_an_empty_plan_finds_nothing(learnt):
    assert run_audit(learnt, AuditPlan((), SMALL), settings=SETTINGS).findings == ()


def test_the_corpus_that_a_run_was_trained_on_is_not_held_out(tmp_path):
    trained_on, other = records("a", sentences(1, 4)), records("b", sentences(2, 4))
    run = RunDirectory.for_new_run(tmp_path / "run")
    run.start("train", config={}, seed=None, corpora={"training": trained_on.fingerprint})
    with pytest.raises(ConfigError, match="trained on this corpus"):
        check_held_out(str(run.path), trained_on, tmp_path / "train.jsonl")
    check_held_out(str(run.path), other, tmp_path / "other.jsonl")
    copy = Corpus(Record(f"copy {n}", record.text) for n, record in enumerate(reversed(trained_on[1:])))
    check_held_out(str(run.path), copy, tmp_path / "copy.jsonl")  # of an older run the fingerprint alone is known
    Ancestry("embedded").followed_by("run", None, trained_on).write(run.path)
    with pytest.raises(DataError, match="the held-out text was trained on"):
        check_held_out(str(run.path), copy, tmp_path / "copy.jsonl")
    check_held_out(
        str(run.path), Corpus([*copy, *other]), tmp_path / "mixed.jsonl"
    )  # attacks leave shared texts out
    check_held_out("embedded", trained_on, tmp_path / "train.jsonl")  # nobody says what it was trained on
