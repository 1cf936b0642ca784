"""Guarantees derived again from what was done: every kind of statement, sums of releases, and edited numbers."""

import json
import math
from dataclasses import replace

import pytest

from reticent.accounting.bounds.confidentiality import confidentiality, missed_secret_of
from reticent.accounting.derivation import agrees, composed, derived, require_derivable
from reticent.accounting.guarantees import dp_sgd_guarantee, guarantee_of
from reticent.core.errors import GuaranteeError
from reticent.core.event import (
    Composed,
    ExponentialSampling,
    FilteredCharge,
    Gaussian,
    Laplace,
    NoisyCheck,
    NoisyVote,
    RealisedCharge,
    Repeated,
    SampledGaussian,
    SubsampledMixture,
)
from reticent.core.guarantee import Guarantee, Neighbours, Unit

TRAINING = Repeated(SampledGaussian(1.0, 0.01), 1000)
MISSED = missed_secret_of(TRAINING, 8e-5)
SECRETS = confidentiality(MISSED, 5, miss_rate=0.1, conservative_miss_rate=0.01)

STATED = {
    "dp-sgd": dp_sgd_guarantee(TRAINING, delta=1e-5),
    "dp-sgd, owner, replace": dp_sgd_guarantee(
        TRAINING, delta=1e-5, unit=Unit.OWNER, neighbours=Neighbours.REPLACE
    ),
    "two trainings": dp_sgd_guarantee(Composed((TRAINING, Repeated(Gaussian(9.0), 3))), delta=1e-5),
    "a missed secret": SECRETS.missed,
    "a group of secrets": SECRETS.group,
    "secrets on average": SECRETS.bayesian,
    "the worst secret": SECRETS.worst_case,
    "a filter, part": guarantee_of(FilteredCharge(8.0, 0.5), delta=1e-5, unit=Unit.PART),
    "a filter, owner": guarantee_of(FilteredCharge(8.0, 0.5), delta=1e-5, unit=Unit.OWNER),
    "a pure filter, owner": guarantee_of(FilteredCharge(math.inf, 0.5), delta=1e-5, unit=Unit.OWNER),
    "algorithm 2": guarantee_of(RealisedCharge(2.0, 2.0), delta=0.0, unit=Unit.PART),
    "votes": guarantee_of(Repeated(NoisyVote(30.0), 64), delta=1e-5, unit=Unit.PART, neighbours=Neighbours.REPLACE),
    "checks and votes": guarantee_of(
        Composed((Repeated(NoisyCheck(40.0), 64), Repeated(NoisyVote(30.0), 16))),
        delta=1e-5,
        unit=Unit.OWNER,
        neighbours=Neighbours.REPLACE,
    ),
    "pmixed": guarantee_of(
        Repeated(SubsampledMixture(16, 0.5, 3.0, 0.01), 64),
        delta=1e-5,
        unit=Unit.OWNER,
        neighbours=Neighbours.REPLACE,
    ),
    "clipped logits": guarantee_of(Repeated(ExponentialSampling(0.1), 64), delta=1e-5, unit=Unit.PART),
    "laplace": guarantee_of(Laplace(2.0), delta=1e-5, unit=Unit.RECORD),
}


@pytest.mark.parametrize("stated", STATED.values(), ids=STATED)
def test_every_kind_of_guarantee_is_derived_again_from_its_own_file(stated: Guarantee) -> None:
    read = Guarantee.from_json(json.loads(json.dumps(stated.to_json(), allow_nan=False)))
    assert read == stated
    assert agrees(stated, derived(read))
    if stated.epsilon < math.inf:
        assert derived(read) == stated
        assert require_derivable(read, where="file") == stated


@pytest.mark.parametrize("stated", [g for g in STATED.values() if g.epsilon < math.inf])
@pytest.mark.parametrize("factor", [0.0, 0.5, 0.999, 1.001, 2.0])
def test_an_edited_epsilon_is_refused_however_it_was_edited(stated: Guarantee, factor: float) -> None:
    edited = replace(stated, epsilon=factor * stated.epsilon)
    with pytest.raises(GuaranteeError, match="does not follow"):
        require_derivable(edited, where="file")


def test_an_edited_delta_or_order_is_refused() -> None:
    for edited in (
        replace(STATED["dp-sgd"], delta=1e-9),
        replace(STATED["algorithm 2"], order=8.0),
        replace(STATED["secrets on average"], delta=0.0),
    ):
        with pytest.raises(GuaranteeError, match="does not follow"):
            require_derivable(edited, where="file")


def test_edited_evidence_is_not_read_but_derived() -> None:
    """Ceilings are taken from the points, so points that somebody lowered must not survive reading."""
    honest = STATED["dp-sgd"]
    edited = replace(honest, profile=((0.0, 1e-12),), renyi=((2.0, 1e-9),))
    assert require_derivable(edited, where="file") == honest


def test_a_guarantee_that_does_not_say_what_was_done_is_refused() -> None:
    with pytest.raises(GuaranteeError, match="does not say what was done"):
        derived(replace(STATED["dp-sgd"], basis=None))


def test_epsilon_infinity_needs_no_derivation_and_keeps_no_points() -> None:
    claims_nothing = replace(STATED["dp-sgd"], epsilon=math.inf, basis=None)
    assert derived(claims_nothing).points == ((math.inf, 1e-5),)


def test_earlier_releases_are_added_and_derived_with_the_rest() -> None:
    answers, base = STATED["a filter, owner"], STATED["dp-sgd, owner, replace"]
    whole = composed(answers, (base,))
    assert whole.epsilon == pytest.approx(answers.epsilon + base.epsilon)
    assert whole.delta == pytest.approx(answers.delta + base.delta)
    assert whole.profile == whole.renyi == ()  # points of one release say nothing of both
    assert require_derivable(Guarantee.from_json(whole.to_json()), where="file") == whole
    forgetful = replace(whole, epsilon=answers.epsilon, delta=answers.delta)  # the twin that forgets its base
    with pytest.raises(GuaranteeError, match="does not follow"):
        require_derivable(forgetful, where="file")
    assert composed(answers, ()) == answers
    with pytest.raises(GuaranteeError, match="not added up"):
        composed(STATED["algorithm 2"], (base,))


def test_composing_two_trainings_costs_more_than_one_and_no_more_than_their_sum() -> None:
    one = dp_sgd_guarantee(TRAINING, delta=1e-5)
    both = dp_sgd_guarantee(Composed((TRAINING, TRAINING)), delta=1e-5)
    assert one.epsilon < both.epsilon <= 2.0 * one.epsilon
    assert both.epsilon == pytest.approx(dp_sgd_guarantee(Repeated(TRAINING, 2), delta=1e-5).epsilon, rel=1e-6)
