"""Guarantees, findings and their comparison: saved then loaded is the identity, directions never mix."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core.errors import ConfigError
from reticent.core.finding import Comparison, Finding, Verdict
from reticent.core.guarantee import Guarantee, Neighbours, Notion, Unit
from reticent.core.model import Access

POSITIVE = st.floats(0, 1e6) | st.just(math.inf)
GUARANTEES = st.builds(
    Guarantee,
    mechanism=st.just("dp-sgd"),
    notion=st.sampled_from(Notion),
    unit=st.sampled_from(Unit),
    neighbours=st.sampled_from(Neighbours),
    epsilon=POSITIVE,
    delta=st.floats(0, 1),
    covers=st.just("the weights"),
    assumes=st.just(("Poisson sampling",)),
    data_dependent=st.booleans(),
    profile=st.lists(st.tuples(POSITIVE, st.floats(0, 1)), max_size=3).map(tuple),
    renyi=st.lists(st.tuples(st.floats(1.01, 100), POSITIVE), max_size=3).map(tuple),
)


def finding(low=0.6, value=0.7, high=0.8, **more):
    given_values = {
        "attack": "loss",
        "metric": "auc",
        "value": value,
        "low": low,
        "high": high,
        "confidence": 0.95,
        "n": 100,
        "measure": "probability",
        "unit": Unit.RECORD,
        "access": Access.LOGPROBS,
        "null": 0.5,
    }
    return Finding(**(given_values | more))


def guarantee(**more):
    given_values = {
        "mechanism": "dp-sgd",
        "notion": Notion.DIFFERENTIAL_PRIVACY,
        "unit": Unit.RECORD,
        "neighbours": Neighbours.ADD_REMOVE,
        "epsilon": 1.0,
        "delta": 1e-5,
        "covers": "the weights",
    }
    return Guarantee(**(given_values | more))


@given(GUARANTEES)
def test_saved_guarantee_loads_as_itself(promise):
    assert Guarantee.from_json(json.loads(json.dumps(promise.to_json(), allow_nan=False))) == promise


def test_saved_finding_loads_as_itself():
    seen = finding(high=math.inf, notes=("a note",), void="no")
    assert Finding.from_json(json.loads(json.dumps(seen.to_json(), allow_nan=False))) == seen


@pytest.mark.parametrize("kind", [finding(), guarantee()], ids=["finding", "guarantee"])
@pytest.mark.parametrize("version", [0, 2, None, "1"])
def test_unknown_schema_version_is_refused(kind, version):
    with pytest.raises(ConfigError, match="schema version"):
        type(kind).from_json(kind.to_json() | {"schema_version": version})


@pytest.mark.parametrize(
    "wrong", [{"epsilon": -1}, {"epsilon": math.nan}, {"delta": 2}, {"order": 1.0, "delta": 0.0}, {"order": 2.0}]
)
def test_impossible_guarantees_are_refused(wrong):
    with pytest.raises(ValueError):
        guarantee(**wrong)


def test_points_hold_the_headline_in_its_own_kind():
    assert guarantee(profile=((2.0, 1e-9),)).points == ((1.0, 1e-5), (2.0, 1e-9))
    assert guarantee(order=2.0, delta=0.0).points == ()
    assert guarantee(order=2.0, delta=0.0).renyi_points == ((2.0, 1.0),)
    assert guarantee(delta=0.0).renyi_points == ((math.inf, 1.0),)
    assert guarantee().renyi_points == ()


@pytest.mark.parametrize("wrong", [{"n": 0}, {"low": 0.75}, {"value": math.nan}, {"confidence": 1.0}])
def test_findings_without_data_or_with_a_crossed_interval_are_refused(wrong):
    with pytest.raises(ValueError):
        finding(**wrong)


def test_a_guarantee_is_refuted_only_by_the_whole_interval():
    assert Comparison(finding(low=0.6), guarantee(), 0.55).verdict is Verdict.REFUTED
    assert Comparison(finding(low=0.6), guarantee(), 0.65).verdict is Verdict.CONSISTENT
    assert Comparison(finding(low=0.6), guarantee(), None).verdict is Verdict.NOT_COMPARABLE
    assert (
        Comparison(finding(low=0.6, void="distribution shift"), guarantee(), 0.55).verdict is Verdict.NOT_COMPARABLE
    )


def test_null_is_beaten_by_the_lower_end_only():
    assert finding(low=0.51).beats_null
    assert not finding(low=0.5).beats_null
    assert not finding(null=None).beats_null
    assert not finding(void="shift").beats_null


BROKEN_POINTS = [
    {"epsilon": math.nan},
    {"epsilon": -0.1},
    {"delta": math.nan},
    {"order": math.nan},
    {"profile": ((math.nan, 1e-5),)},
    {"profile": ((-1.0, 1e-5),)},
    {"profile": ((1.0, 1e-5), (2.0, math.nan))},
    {"profile": ((1.0, 1.5),)},
    {"renyi": ((math.nan, 1.0),)},
    {"renyi": ((1.0, 1.0),)},
    {"renyi": ((2.0, 0.5), (3.0, math.nan))},
    {"renyi": ((2.0, -0.5),)},
]


@pytest.mark.parametrize("broken", BROKEN_POINTS, ids=str)
def test_a_guarantee_with_a_point_that_is_none_is_refused(broken):
    whole = {
        "mechanism": "dp-sgd",
        "notion": Notion.DIFFERENTIAL_PRIVACY,
        "unit": Unit.RECORD,
        "neighbours": Neighbours.ADD_REMOVE,
        "epsilon": 1.0,
        "covers": "the weights",
        "profile": ((math.inf, 0.0), (0.0, 1.0)),
        "renyi": ((math.inf, 1.0), (2.0, math.inf)),
    }
    document = Guarantee(**whole).to_json()
    with pytest.raises(ValueError, match=r"epsilon|order|delta"):
        Guarantee(**{**whole, **broken})
    for name, points in broken.items():  # read from a file
        document[name] = [list(point) for point in points] if isinstance(points, tuple) else points
    with pytest.raises(ValueError, match=r"epsilon|order|delta"):
        Guarantee.from_json(document)
