"""Plans: the event follows from what is done, a plan that is not private cannot be built, ε so far is a bound."""

from dataclasses import replace

import pytest

from reticent.accounting.bounds.ceiling import ceiling
from reticent.accounting.bounds.leakage import leakage_bounds
from reticent.accounting.conversion import rdp_epsilon
from reticent.accounting.curve import RenyiCurve
from reticent.core.errors import ConfigError
from reticent.core.event import Repeated, SampledGaussian
from reticent.core.guarantee import Neighbours, Unit
from reticent.training.plans.plan import SEEDED, DpSgd, PlainPlan, plan_from_json
from reticent.training.plans.sampler import PoissonSampler, ShuffledEpochs


class Shuffling(PoissonSampler):
    """Broken twin: claims a rate and shuffles."""

    def draw(self, randomness):
        return randomness.permutation(self.units)[: self.batch]


PLAN = DpSgd(sampler=PoissonSampler(10_000, 100), clip_norm=1.0, noise_multiplier=1.0, steps=1000, delta=8e-5)


def test_the_event_is_what_sampler_and_noise_do():
    assert PLAN.event == Repeated(SampledGaussian(1.0, 0.01), 1000)
    assert replace(PLAN, noise_multiplier=2.0).event == Repeated(SampledGaussian(2.0, 0.01), 1000)
    assert replace(PLAN, sampler=PoissonSampler(10_000, 200)).round_event.sampling_rate == 0.02


def test_the_normaliser_is_the_expected_batch_whatever_the_corpus():
    assert PLAN.normaliser == 100.0
    assert replace(PLAN, sampler=PoissonSampler(9_999, 100)).normaliser == 100.0


@pytest.mark.parametrize(
    ("neighbours", "expected"),
    # q = 0.01, σ = 1, 1000 steps, δ = 8e-5: `spec` section 5, by privacy loss distributions.
    [(Neighbours.ADD_REMOVE, 1.544), (Neighbours.REPLACE, 2.474)],
)
def test_guarantee_of_a_known_setting(neighbours, expected):
    guarantee = replace(PLAN, neighbours=neighbours).guarantee()
    assert guarantee.epsilon == pytest.approx(expected, abs=2e-3)
    assert guarantee.neighbours is neighbours
    assert guarantee.unit is Unit.RECORD


def test_guarantee_lists_what_it_rests_on_and_a_seed_is_confessed():
    plan = replace(PLAN, steps=1, unit=Unit.OWNER)
    plain, seeded = plan.guarantee(), plan.guarantee(is_seeded=True)
    text = " ".join(plain.assumes)
    for word in ("Poisson", "clipped", "tokenizer", "hyper-parameters", "number of owners", "owner name"):
        assert word in text
    assert SEEDED not in plain.assumes
    assert SEEDED in seeded.assumes
    assert plan.budget(is_seeded=True).guarantee == seeded


@pytest.mark.parametrize(
    "wrong",
    [
        {"noise_multiplier": 0.0},
        {"noise_multiplier": float("nan")},
        {"noise_multiplier": float("inf")},
        {"clip_norm": 0.0},
        {"clip_norm": float("inf")},
        {"steps": 0},
        {"delta": 0.0},
        {"delta": 1e-4},  # 1 / units
        {"delta": 1.0},
        {"unit": Unit.PART},
        {"texts_per_unit": 2},
        {"sampler": Shuffling(10_000, 100)},
        {"sampler": ShuffledEpochs(10_000, 100, seed=0)},
    ],
    ids=lambda wrong: "-".join(map(str, wrong)),
)
def test_a_plan_that_would_not_be_private_cannot_be_built(wrong):
    with pytest.raises(ConfigError):
        replace(PLAN, **wrong)


def test_calibration_meets_the_target_from_below():
    plan = DpSgd.for_target(epsilon=4.0, delta=1e-4, units=500, batch=50, epochs=0.4)
    assert plan.steps == 4
    assert 3.95 < plan.guarantee().epsilon <= 4.0


@pytest.mark.slow
def test_replacing_needs_more_noise_than_adding_or_removing():
    def calibrated(relation):
        return DpSgd.for_target(epsilon=4.0, delta=1e-4, units=500, batch=50, epochs=1.0, neighbours=relation)

    plans = {relation: calibrated(relation) for relation in (Neighbours.ADD_REMOVE, Neighbours.REPLACE)}
    assert plans[Neighbours.REPLACE].noise_multiplier > plans[Neighbours.ADD_REMOVE].noise_multiplier
    assert plans[Neighbours.REPLACE].guarantee().epsilon <= 4.0


def test_a_meaningless_delta_is_refused_before_the_calibration():
    with pytest.raises(ConfigError, match="delta promises nothing"):
        DpSgd.for_target(epsilon=4.0, delta=0.01, units=500, batch=50, epochs=1.0)


def test_a_plan_says_what_it_leaks_and_what_an_attack_may_reach():
    plan = DpSgd.for_target(epsilon=2.0, delta=1e-4, units=500, batch=50, epochs=0.4, sampler="poisson")
    assert plan.leakage(20).least == leakage_bounds(plan.event, 20).least < 20
    assert 0.5 < plan.ceiling("auc") == ceiling("auc", plan.guarantee()) < 0.9
    assert plan.ceiling("pii_recall") is None  # no guarantee speaks of it
    with pytest.raises(ConfigError, match="unknown metric"):
        plan.ceiling("no such metric")
    assert plan.ceiling("exposure", secret_bits=10.0) < 10.0


def test_a_sampler_that_no_accountant_prices_is_refused():
    with pytest.raises(ConfigError, match="no accountant"):
        DpSgd.for_target(epsilon=2.0, delta=1e-4, units=500, batch=50, epochs=1.0, sampler="shuffled")


def under_counts(epsilon_after) -> bool:
    """Whether ε so far ever falls below what the Rényi accountant proves at best for so many steps."""
    for steps in (1, 100, 500):
        curve = RenyiCurve(Repeated(PLAN.round_event, steps), PLAN.neighbours)
        if epsilon_after(steps) < rdp_epsilon(curve, delta=PLAN.delta).value * (1 - 1e-9):
            return True
    return False


def test_epsilon_so_far_is_an_upper_bound_that_grows_to_the_whole():
    spending = PLAN.spending(1.55)
    found = [spending.epsilon(steps) for steps in (0, 1, 10, 100, 500, 1000)]
    assert found[0] == 0.0
    assert found == sorted(found)
    assert found[-1] == 1.55
    assert not under_counts(spending.epsilon)
    with pytest.raises(ValueError):
        spending.epsilon(1001)


def test_the_check_catches_an_epsilon_that_is_spread_evenly_over_the_steps():
    assert under_counts(lambda steps: 1.55 * steps / 1000)


@pytest.mark.parametrize("plan", [PLAN, PlainPlan(units=10, batch=3, epochs=2.5, seed=4)], ids=["private", "plain"])
def test_saved_then_loaded_is_the_identity(plan):
    assert plan_from_json(plan.to_json()) == plan
    with pytest.raises(ConfigError, match="schema"):
        plan_from_json(plan.to_json() | {"schema_version": 99})
    with pytest.raises(ConfigError, match="kind"):
        plan_from_json(plan.to_json() | {"kind": "other"})


def test_the_ledger_name_changes_with_plan_and_corpus():
    names = {PLAN.ledger_name("a"), PLAN.ledger_name("b"), replace(PLAN, steps=7).ledger_name("a")}
    assert len(names) == 3


def test_plain_plans_count_their_steps():
    assert PlainPlan(units=10, batch=3, epochs=2.0, seed=0).steps == 8
    assert PlainPlan(units=10, batch=3, epochs=0.5, seed=0).steps == 2
    with pytest.raises(ConfigError):
        PlainPlan(units=10, batch=3, epochs=0.0, seed=0)
