"""Groups under Poisson sampling: exact by integration, figures of dp_accounting, never looser than one by one."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm

from reticent.accounting.bounds import leakage
from reticent.accounting.bounds.approximate import log_group_delta
from reticent.accounting.bounds.ceiling import ceiling
from reticent.accounting.bounds.leakage import leakage_bounds, leakage_of_guarantee
from reticent.accounting.derivation import require_derivable
from reticent.accounting.groups import group_event
from reticent.accounting.guarantees import dp_sgd_guarantee, guarantee_of, guarantee_of_group, guarantee_of_owner
from reticent.accounting.pld import pld_epsilon, privacy_profile
from reticent.accounting.prices.hockey_stick import Direction, step_delta
from reticent.accounting.prices.sampled_group import group_delta, group_loss_range
from reticent.core.errors import GuaranteeError
from reticent.core.event import Composed, Gaussian, Laplace, Repeated, SampledGaussian, SampledGroup
from reticent.core.guarantee import Neighbours, Unit

ADD_REMOVE = Neighbours.ADD_REMOVE
EPSILONS = np.array([-0.2, -0.01, 0.0, 0.3, 1.0, 2.5])


def integrated(event, epsilon, direction):
    """The hockey-stick divergence by summing densities on a fine line."""
    x = np.linspace(-12 * event.noise_multiplier, event.group + 12 * event.noise_multiplier, 200_001)
    weights = binom.pmf(np.arange(event.group + 1), event.group, event.sampling_rate)
    with_group = sum(w * norm.pdf(x, j, event.noise_multiplier) for j, w in enumerate(weights))
    without = norm.pdf(x, 0.0, event.noise_multiplier)
    p, q = (with_group, without) if direction is Direction.REMOVE else (without, with_group)
    return np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * (x[1] - x[0])


@pytest.mark.parametrize("direction", [Direction.REMOVE, Direction.ADD])
@pytest.mark.parametrize(
    "event", [SampledGroup(1.0, 0.1, 3), SampledGroup(0.6, 0.02, 10), SampledGroup(3.0, 0.5, 2)]
)
def test_a_step_costs_a_group_what_integration_says(event, direction):
    found = group_delta(event, EPSILONS, direction=direction)
    expected = [integrated(event, epsilon, direction) for epsilon in EPSILONS]
    assert found == pytest.approx(expected, abs=1e-8)


def test_a_group_of_one_is_a_sampled_unit_and_without_sampling_a_nearer_gaussian():
    for direction in (Direction.REMOVE, Direction.ADD):
        one = step_delta(EPSILONS, direction, noise_multiplier=1.0, sampling_rate=0.1)
        assert group_delta(SampledGroup(1.0, 0.1, 1), EPSILONS, direction=direction) == pytest.approx(
            one, abs=1e-13
        )
    whole = privacy_profile(SampledGroup(6.0, 1.0, 3), ADD_REMOVE).epsilon(1e-5)
    assert whole == privacy_profile(Gaussian(2.0), ADD_REMOVE).epsilon(1e-5)


def test_the_pair_of_a_replaced_group_is_not_guessed():
    with pytest.raises(ValueError, match="not known"):
        group_delta(SampledGroup(1.0, 0.1, 2), EPSILONS, direction=Direction.REPLACE)
    event = Repeated(SampledGroup(2.0, 0.1, 2), 5)
    removed = privacy_profile(event, ADD_REMOVE)
    assert (
        privacy_profile(event, Neighbours.REPLACE).delta(1.0) <= removed.delta(0.5) * (1.0 + math.exp(0.5)) + 1e-15
    )
    assert privacy_profile(event, Neighbours.REPLACE).delta(1.0) > removed.delta(1.0)


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "copies", "bits", "by_groups"),
    [
        (2.0, 0.02, 500, 10, 13.368, 15.864),
        (1.0, 2.81e-4, 186_000, 20, 15.861, 20.0),
    ],
)
def test_a_secret_in_several_copies_leaks_less_than_black_box_groups_say(
    noise, rate, steps, copies, bits, by_groups, monkeypatch
):
    # Golden: the mixture of Gaussians of dp_accounting 0.6, rounded upwards too, gives 13.368 at a spacing of 1e-3,
    # and 15.873, 15.862 and 15.860 at 1e-3, 5e-4 and 2.5e-4. By groups alone 15.9, and all of the 20: no promise.
    event = Repeated(SampledGaussian(noise, rate), steps)
    assert leakage_bounds(event, 20, copies=copies).least == pytest.approx(bits, abs=0.003)
    monkeypatch.setattr(leakage, "group_event", lambda event, copies: None)  # (ε, δ) of one copy alone
    assert leakage_bounds(event, 20, copies=copies).least == pytest.approx(by_groups, abs=0.003)


def test_the_composed_price_is_that_of_a_public_accountant():
    from dp_accounting.pld import privacy_loss_distribution

    # At this spacing it errs by 1.2e-4 of the price; half of it takes twice as long.
    public = privacy_loss_distribution.from_mixture_gaussian_mechanism(
        1.0, [0, 1, 2], [0.99**2, 2 * 0.01 * 0.99, 0.01**2], value_discretization_interval=2e-3
    ).self_compose(100)
    ours = pld_epsilon(Repeated(SampledGroup(1.0, 0.01, 2), 100), delta=1e-5, neighbours=ADD_REMOVE)
    assert ours == pytest.approx(public.get_epsilon_for_delta(1e-5), rel=1e-3)


def simulated_losses(event, steps, *, draws, seed):
    """Privacy losses of whole runs with the group [draws], from the definition: who takes part, then noise."""
    rng = np.random.default_rng(seed)
    weights = binom.logpmf(np.arange(event.group + 1), event.group, event.sampling_rate)
    total = np.zeros(draws)
    for _ in range(steps):
        drawn = rng.binomial(event.group, event.sampling_rate, draws)
        x = rng.normal(drawn, event.noise_multiplier)
        terms = [w + norm.logpdf(x, j, event.noise_multiplier) for j, w in enumerate(weights)]
        total += np.logaddexp.reduce(terms, axis=0) - norm.logpdf(x, 0.0, event.noise_multiplier)
    return total


@pytest.mark.parametrize("event", [SampledGroup(1.0, 0.1, 3), SampledGroup(1.5, 0.05, 8)])
def test_the_composed_price_lies_in_the_interval_of_a_simulation(event):
    """δ(ε) = E[(1 − e^{ε − L})⁺] over runs with the group. Five standard errors: a false alarm in 1.7 million."""
    steps, draws = 12, 60_000
    losses = simulated_losses(event, steps, draws=draws, seed=7)
    priced = privacy_profile(Repeated(event, steps), ADD_REMOVE)
    alone = privacy_profile(Repeated(replace(event, group=1), steps), ADD_REMOVE)
    for epsilon in (0.5, 1.5):
        seen = np.maximum(-np.expm1(epsilon - losses), 0.0)
        error = 5.0 * seen.std() / math.sqrt(draws)
        assert abs(priced.delta(epsilon) - seen.mean()) < error + 1e-4  # removing costs more than adding here
        assert alone.delta(epsilon) < seen.mean() - error  # the twin that takes the copies for one


def test_a_larger_group_more_steps_and_less_noise_cost_more():
    def epsilon(noise, group, steps):
        return pld_epsilon(Repeated(SampledGroup(noise, 0.05, group), steps), delta=1e-5, neighbours=ADD_REMOVE)

    assert epsilon(2.0, 2, 10) < min(epsilon(2.0, 3, 10), epsilon(2.0, 2, 12), epsilon(1.8, 2, 10))


def test_treating_copies_as_one_unit_would_promise_too_much():
    # Broken twin: the price of one copy for a secret in five. The best test between the worlds refutes it.
    event = SampledGroup(1.0, 0.1, 5)
    truth = integrated(event, 1.0, Direction.REMOVE)
    assert truth > 5.0 * privacy_profile(SampledGaussian(1.0, 0.1), ADD_REMOVE).delta(1.0)
    assert truth <= privacy_profile(event, ADD_REMOVE).delta(1.0)


def test_guarantees_and_ceilings_of_groups_use_their_own_price():
    training = Repeated(SampledGaussian(2.0, 0.02), 100)
    guarantee = dp_sgd_guarantee(training, delta=1e-5)
    grouped = guarantee_of_group(guarantee, 5)
    far = 5.0 * guarantee.epsilon
    black_box = math.exp(log_group_delta(guarantee.epsilon, guarantee.delta, copies=5))
    assert privacy_profile(grouped.basis.event, ADD_REMOVE).delta(far) < 0.8 * black_box
    assert guarantee_of_group(guarantee, 1) is None
    assert guarantee_of_group(guarantee_of(Laplace(1.0), delta=1e-5, unit=Unit.RECORD), 5) is None
    assert leakage_of_guarantee(guarantee, 20, copies=5).least < 10.0
    several = ceiling("extraction_probability", guarantee, secret_bits=20, copies=5)
    assert ceiling("extraction_probability", guarantee, secret_bits=20) < several < 2.0**-10


def test_every_part_of_a_release_is_grouped_or_none_is():
    training = Repeated(SampledGaussian(2.0, 0.1), 3)
    assert group_event(Composed((training, Gaussian(4.0))), 2) == Composed(
        (Repeated(SampledGroup(2.0, 0.1, 2), 3), Gaussian(2.0))
    )
    assert group_event(Composed((training, Laplace(1.0))), 2) is None


def test_a_group_of_hundreds_has_prices_that_fall_and_a_range_that_float64_holds():
    event = SampledGroup(0.7, 0.064, 300)
    low, high = group_loss_range(event)
    assert high == 700.0  # nats: e to it is a float64, and what is above counts as infinite
    grid = np.linspace(low, 1500.0, 60)
    for direction in (Direction.REMOVE, Direction.ADD):
        deltas = group_delta(event, grid if direction is Direction.REMOVE else -grid[::-1], direction=direction)
        assert np.all(np.diff(deltas) <= 1e-15)
        assert np.all((deltas >= 0.0) & (deltas <= 1.0))
    assert group_event(SampledGaussian(1.0, 0.1), 1001) is None  # too many parts: black-box groups are left


def exact_group_delta(places, epsilon, *, noise, rate):
    """The greater δ(ε) of a step in which units at places [κ, 2] of a plane are each drawn with chance `rate`."""
    axis = np.arange(-5.0 * noise, len(places) + 5.0 * noise, 0.05)
    point = np.stack(np.meshgrid(axis, axis, indexing="ij"))  # [2, n, n]

    def density(centre):
        return np.exp(-((point - centre[:, None, None]) ** 2).sum(0) / (2 * noise**2)) / (2 * np.pi * noise**2)

    without, with_group = density(np.zeros(2)), 0.0
    for drawn in itertools.product((0, 1), repeat=len(places)):
        chance = rate ** sum(drawn) * (1 - rate) ** (len(places) - sum(drawn))
        with_group = with_group + chance * density(np.array(drawn) @ places)
    sides = (with_group - math.exp(epsilon) * without, without - math.exp(epsilon) * with_group)
    return max(float(np.maximum(side, 0.0).sum()) * 0.05**2 for side in sides)


@pytest.mark.parametrize("group", [2, 3])
def test_no_other_directions_or_lengths_cost_a_group_more_than_all_the_same_way(group):
    """The worst case that the price rests on, by brute force over contributions in a plane."""
    rng, noise, rate = np.random.default_rng(group), 0.9, 0.3
    for epsilon in (0.2, 1.0):
        event = SampledGroup(noise, rate, group)
        priced = max(
            float(group_delta(event, np.array([epsilon]), direction=direction)[0])
            for direction in (Direction.REMOVE, Direction.ADD)
        )
        together = np.tile([1.0, 0.0], (group, 1))
        assert exact_group_delta(together, epsilon, noise=noise, rate=rate) == pytest.approx(priced, rel=1e-3)
        for _ in range(12):
            angles, lengths = rng.uniform(0.0, math.pi, group), rng.uniform(0.3, 1.0, group) ** 0.3
            places = lengths[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
            assert exact_group_delta(places, epsilon, noise=noise, rate=rate) <= priced * (1 + 1e-3)
        # Twin: contributions that are longer than the clip norm.
        assert exact_group_delta(1.05 * together, epsilon, noise=noise, rate=rate) > 1.01 * priced


def test_an_owner_of_several_records_has_a_statement_of_its_own():
    record = dp_sgd_guarantee(Repeated(SampledGaussian(1.0, 0.01), 300), delta=1e-5)
    owner = guarantee_of_owner(record, 3)
    assert (owner.unit, owner.neighbours) == (Unit.OWNER, Neighbours.ADD_REMOVE)
    assert record.epsilon < owner.epsilon  # the twin that calls a record an owner is refused as edited
    assert "no owner has more than 3 records" in owner.assumes[-1]
    assert owner.covers.endswith("against any adversary, for all records of one owner, at most 3")
    assert "one record" not in owner.covers
    assert require_derivable(owner, where="a file").epsilon == pytest.approx(owner.epsilon)
    with pytest.raises(GuaranteeError, match="does not follow"):
        require_derivable(replace(owner, epsilon=record.epsilon), where="a file")


def test_no_owner_statement_where_it_would_say_nothing_new_or_has_no_price():
    event = Repeated(SampledGaussian(1.0, 0.01), 300)
    assert guarantee_of_owner(dp_sgd_guarantee(event, delta=1e-5), 1) is None
    assert guarantee_of_owner(dp_sgd_guarantee(event, delta=1e-5, unit=Unit.OWNER), 3) is None
    assert guarantee_of_owner(dp_sgd_guarantee(event, delta=1e-5, neighbours=Neighbours.REPLACE), 3) is None
