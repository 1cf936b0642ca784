"""Suggested actions follow from a record's numbers."""

from dataclasses import replace

from reticent.reporting.actions import outstanding, worst_records
from reticent.reporting.report import RiskGroup, RiskMap
from tests.reporting.sample_reports import bare_run, full_run, point, risk_map


def mapped(drawn):
    """A run that drew a risk map and measured nothing else."""
    return replace(bare_run(absent={}), risk_map=drawn)


def test_the_worst_record_comes_first_with_what_to_do():
    advice = worst_records(full_run(guarantee=None))[0]
    assert advice.point.id == "worst-record"
    assert advice.stands_out
    said = " ".join(advice.actions)
    for action in ("occurs 3 times", "Redact phone", "Remove it", "--method dp-sgd"):
        assert action in said


def test_with_a_guarantee_the_advice_is_less_epsilon():
    assert "smaller ε" in " ".join(worst_records(full_run())[0].actions)


def test_a_likely_record_of_a_likely_kind_is_a_commonplace():
    likely = [point(place, log_chance=-0.01, emission=-1.0, calibrated=0.0) for place in range(40)]
    drawn = RiskMap((RiskGroup("training", tuple(likely)), RiskGroup("held-out", tuple(likely))), 10, "m", "b")
    advice = worst_records(mapped(drawn))[0]
    assert not advice.stands_out
    assert advice.actions == ("As likely as other texts of its kind: check whether it is a template.",)


def test_strangers_stand_out_at_most_once_in_twenty():
    """Broken twin: comparing with the training side itself would let as many strangers as members stand out."""
    stands_out = outstanding(risk_map())
    held_out = risk_map().group("held-out")
    assert sum(stands_out(one) for one in held_out.points) <= 0.05 * len(held_out.points)
    assert stands_out(risk_map().group("training").points[0])


def test_without_held_out_records_nobody_says_whether_a_record_stands_out():
    alone = replace(risk_map(), groups=(risk_map().groups[0],))
    assert worst_records(mapped(alone))[0].stands_out is None
    assert outstanding(alone) is None


def test_without_a_map_there_is_no_list():
    assert worst_records(bare_run()) == ()
