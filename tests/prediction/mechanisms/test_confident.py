"""Confident-GNMax against its definition; whole transcripts enumerated, checks included, for every neighbour."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from reticent.accounting.curve import renyi_epsilon
from reticent.core.divergence import symmetric_renyi_divergence
from reticent.core.errors import ConfigError
from reticent.core.event import Composed, NoisyCheck, NoisyVote, Repeated
from reticent.core.guarantee import Neighbours, Unit
from reticent.core.randomness import Randomness
from reticent.prediction.budgets import SERVED, MechanismName, PredictionTarget, set_up_mechanism
from reticent.prediction.mechanisms.confident import ConfidentGNMax
from reticent.prediction.mechanisms.mechanism import Layout, Moment
from reticent.prediction.mechanisms.shaping import Shaping
from reticent.runs.ensemble.comparison import mechanisms_for
from reticent.runs.ensemble.prediction import PredictionSettings
from tests.prediction.mechanisms.test_rivals import winner_chance
from tests.prediction.tables import FixedTable, RandomTable, TableEnsemble, random_pmfs

ORDERS = (1.1, 2.0, 5.0, 20.0)
BELOW, PASSED = 0, 1


class Drawn(Randomness):
    """A source whose check comes out as said; it remembers the chances it was asked to draw from."""

    def __init__(self, outcome):
        super().__init__("seeded", 0)
        self.outcome, self.chances = outcome, None

    def choice(self, probabilities):
        self.chances = np.asarray(probabilities)
        return self.outcome


def both_outcomes(mechanism, rows, moment):
    """(chance, release) of each outcome of the check; one alone where nothing is checked."""
    for outcome in (BELOW, PASSED):
        source = Drawn(outcome)
        release = mechanism.release(rows, moment, randomness=source)
        if source.chances is None:
            yield 1.0, release
            return
        yield float(source.chances[outcome]), release


def transcripts(mechanism, table, *, budget, queries, change=lambda rows: rows):
    """Log-probability of every transcript of checks and tokens, in the order of the actual budget."""
    level = [((), 0.0, np.full(mechanism.layout.parts, budget), ())]
    for place in range(queries):
        grown = []
        for text, log_p, remaining, seen in level:
            moment = Moment(remaining=remaining, left=queries - place, context=text)
            rows = change(table(text).copy())
            for number, (chance, release) in enumerate(both_outcomes(mechanism, rows, moment)):
                with np.errstate(divide="ignore"):
                    log_pmf = np.log(chance) + release.log_pmf
                after = remaining - release.costs
                grown += [((*text, y), log_p + log_pmf[y], after, (*seen, number, y)) for y in range(len(log_pmf))]
        level = grown
    return {seen: log_p for _, log_p, _, seen in level}


def exact_divergences(mechanism, table, *, budget, queries, orders, changes):
    """The largest symmetric D at each order over the changes of one part, from all transcripts."""
    here = transcripts(mechanism, table, budget=budget, queries=queries)
    found = dict.fromkeys(orders, 0.0)
    for change in changes:
        there = transcripts(mechanism, table, budget=budget, queries=queries, change=change)
        assert there.keys() == here.keys()  # what is left follows from what was released
        one, other = np.array([[here[seen], there[seen]] for seen in here]).T
        for order in orders:
            found[order] = max(found[order], float(symmetric_renyi_divergence(one, other, order)))
    return found


def public_instead(part):
    def change(rows):
        rows[1 + part] = rows[0]
        return rows

    return change


def another_instead(part, seed):
    def change(rows):
        rows[1 + part] = random_pmfs(np.random.default_rng(seed), 1, rows.shape[1], 6.0)[0]
        return rows

    return change


def every_change(parts):
    return [public_instead(part) for part in range(parts)] + [another_instead(part, part) for part in range(parts)]


def allowed(mechanism, budget, order):
    """The price of so many answers whose votes may move: what the promise rests on."""
    return budget * renyi_epsilon(mechanism.answer, order, Neighbours.REPLACE)


# ---------------------------------------------------------------- what it does


@pytest.mark.parametrize(
    "shaping", [Shaping(), Shaping(0.7), Shaping(1.2, top_k=3)], ids=["plain", "cold", "top-3"]
)
def test_a_question_is_checked_and_answered_as_the_definition_has_it(shaping):
    rng = np.random.default_rng(1)
    for _ in range(2):
        rows = random_pmfs(rng, 4, 4, 1.5)
        mechanism = ConfidentGNMax(Layout.single(3), 0.8, 1.3, 1.9, 0.2, shaping)
        pmfs = np.exp(rows / shaping.temperature)
        if shaping.top_k:
            pmfs[:, np.argsort(-rows[0])[shaping.top_k :]] = 0.0
        pmfs /= pmfs.sum(axis=1, keepdims=True)
        kept = np.flatnonzero(pmfs[0])
        votes = [sum(int(kept[pmfs[i, kept].argmax()] == y) for i in (1, 2, 3)) for y in kept]
        winner = np.zeros(4)
        winner[kept] = [winner_chance(votes, 1.3, place) for place in range(len(kept))]
        (fails, below), (passes, passed) = both_outcomes(mechanism, rows, Moment(remaining=np.full(3, 9.0)))
        assert passes == pytest.approx(norm.sf(1.9, max(votes), 0.8), rel=1e-9)
        assert fails == pytest.approx(norm.cdf(1.9, max(votes), 0.8), rel=1e-9)
        assert below.pmf == pytest.approx(pmfs[0], abs=1e-12)
        assert passed.pmf == pytest.approx(0.2 * pmfs[0] + 0.8 * winner, abs=1e-8)
        check = 1.3**2 / (2 * 0.8**2)  # 1/(2σ₁²) over 1/σ₂²
        assert below.costs == pytest.approx([check] * 3)
        assert passed.costs == pytest.approx([1.0 + check] * 3)
        assert below.event == NoisyCheck(0.8)
        assert passed.event == Composed((NoisyCheck(0.8), NoisyVote(1.3)))


def test_the_check_is_drawn_with_its_chance():
    rows = np.log([[0.5, 0.5], *[[0.9, 0.1]] * 3])
    mechanism = ConfidentGNMax(Layout.single(3), 1.0, 1.3, 3.3)
    source, moment, draws = Randomness.seeded(3), Moment(remaining=np.full(3, 9.0)), 1000
    passed = sum(
        mechanism.release(rows, moment, randomness=source).costs[0] > mechanism.check_cost for _ in range(draws)
    )
    chance = norm.sf(3.3, 3.0, 1.0)
    # Five standard errors: false alarm below 1e-6.
    assert abs(passed - draws * chance) < 5 * math.sqrt(draws * chance * (1 - chance))


def test_nothing_is_checked_once_the_budget_does_not_hold_a_check_and_an_answer():
    rows = random_pmfs(np.random.default_rng(0), 4, 5)
    mechanism = ConfidentGNMax(Layout.single(3), 2.0, 1.3, 1.0)
    almost = np.full(3, 1.0 + mechanism.check_cost) - [0.0, 1e-9, 0.0]
    [(chance, release)] = both_outcomes(mechanism, rows, Moment(remaining=almost))
    assert chance == 1.0
    assert release.log_pmf == pytest.approx(rows[0])
    assert not release.costs.any()


@pytest.mark.parametrize(
    "wrong", [{"check_noise": 0.0}, {"noise": -1.0}, {"threshold": math.nan}, {"public_share": 2}]
)
def test_settings_that_protect_nothing_are_refused(wrong):
    with pytest.raises((ConfigError, ValueError)):
        ConfidentGNMax(Layout.single(3), **{"check_noise": 1.0, "noise": 1.0, "threshold": 1.0} | wrong)


# ---------------------------------------------------------------- what it costs

# Both parts agree, and not with the public model: one that becomes public leaves a tie.
TELLING = FixedTable([[0.001, 0.999], [0.999, 0.001], [0.999, 0.001]])


@pytest.mark.parametrize(("parts", "vocabulary", "queries"), [(2, 2, 3), (3, 2, 3), (2, 3, 2)])
def test_transcripts_never_pass_the_price_of_the_budget(parts, vocabulary, queries):
    for seed in range(2):
        table = RandomTable(seed, rows=parts, vocabulary=vocabulary, scale=3.0)
        mechanism = ConfidentGNMax(Layout.single(parts), 0.9, 1.1, 0.8 * parts, 0.0)
        budget = 1.0 + seed + queries * mechanism.check_cost
        setting = {"budget": budget, "queries": queries, "orders": ORDERS}
        found = exact_divergences(mechanism, table, changes=every_change(parts), **setting)
        for order in ORDERS:
            assert 0.0 < found[order] <= allowed(mechanism, budget, order) * (1.0 + 1e-9)


def test_checks_alone_come_near_their_price():
    # Votes are so noisy that they tell nothing: the transcript is about the checks.
    mechanism, queries = ConfidentGNMax(Layout.single(2), 4.0, 200.0, 1.5), 3
    setting = {"budget": queries * (1.0 + mechanism.check_cost), "queries": queries, "orders": ORDERS}
    found = exact_divergences(mechanism, TELLING, changes=[public_instead(0)], **setting)
    for order in ORDERS[:2]:  # two outcomes show little of a Gaussian at high orders
        checks = queries * renyi_epsilon(mechanism.check, order, Neighbours.REPLACE)
        assert 0.5 * checks < found[order] <= 1.01 * checks  # of a Gaussian a threshold shows 2/π about


class WithoutNoise(ConfidentGNMax):
    """Checks the votes themselves."""

    __slots__ = ()

    def check_pmf(self, counts):
        return np.round(ConfidentGNMax.check_pmf(self, counts))


class ChecksForFree(ConfidentGNMax):
    """Charges answers alone."""

    __slots__ = ()

    @property
    def check_cost(self):
        return 0.0


class HalfTheDistance(ConfidentGNMax):
    """Prices votes of a leader that one part moves by a half."""

    __slots__ = ()

    @property
    def check_cost(self):
        return 0.25 * self.noise**2 / (2.0 * self.check_noise**2)


def is_passed(mechanism, table, *, budget, queries, order, changes):
    """Whether transcripts differ by more than the price of the budget."""
    setting = {"budget": budget, "queries": queries, "orders": [order], "changes": changes}
    return exact_divergences(mechanism, table, **setting)[order] > allowed(mechanism, budget, order)


def test_a_check_without_noise_is_caught():
    setting = {"budget": 4.0, "queries": 3, "order": 2.0, "changes": [public_instead(0)]}
    values = Layout.single(2), 1.0, 1.1, 1.5
    assert not is_passed(ConfidentGNMax(*values), TELLING, **setting)
    assert is_passed(WithoutNoise(*values), TELLING, **setting)


@pytest.mark.parametrize("broken", [ChecksForFree, HalfTheDistance])
def test_a_check_that_is_not_charged_in_full_is_caught(broken):
    # A vote tells next to nothing and a check much: with a budget of one check and one answer, checks must end.
    values = Layout.single(2), 1.0, 20.0, 3.0  # few questions pass, so few answers are charged
    honest = ConfidentGNMax(*values)
    setting = {"budget": 1.0 + honest.check_cost, "queries": 5, "order": 1.5, "changes": [public_instead(0)]}
    assert not is_passed(honest, TELLING, **setting)
    assert is_passed(broken(*values), TELLING, **setting)


# ---------------------------------------------------------------- its budget


@pytest.mark.parametrize("unit", [Unit.PART, Unit.OWNER])
@pytest.mark.parametrize("queries", [1, 64, 1024])
def test_checks_and_answers_share_one_budget_that_spends_what_was_asked_for(unit, queries):
    target = PredictionTarget(epsilon=8.0, delta=1e-5, queries=queries, unit=unit)
    setup = set_up_mechanism(MechanismName.CONFIDENT_GNMAX, target, Layout.single(128))
    mechanism, promise = setup.mechanism, setup.budget.guarantee
    assert 0.99 * 8.0 < promise.epsilon <= 8.0
    assert (promise.unit, promise.neighbours, promise.data_dependent) == (unit, Neighbours.REPLACE, False)
    checks, answers = promise.basis.event.events
    assert checks == Repeated(mechanism.check, queries)
    assert answers.event == mechanism.answer
    # In answers, the budget is the price of what is proved, at every order.
    for order in (1.5, 4.0, 32.0):
        whole = renyi_epsilon(promise.basis.event, order, Neighbours.REPLACE)
        assert allowed(mechanism, setup.budget.limit, order) == pytest.approx(whole, rel=1e-9)
    assert setup.budget.measure == mechanism.measure


@pytest.mark.parametrize(("parts", "is_there"), [(99, False), (100, True)])
def test_all_mechanisms_are_compared_with_it_from_a_hundred_parts_on(parts, is_there):
    ensemble = TableEnsemble(FixedTable([[0.5, 0.5]] * (1 + parts)), Layout.single(parts))
    assert (MechanismName.CONFIDENT_GNMAX in mechanisms_for("all", ensemble, has_index=False)) is is_there
    assert mechanisms_for("confident-gnmax", ensemble, has_index=False) == (MechanismName.CONFIDENT_GNMAX,)


def test_it_is_compared_and_not_served():
    assert MechanismName.CONFIDENT_GNMAX not in SERVED
    with pytest.raises(ConfigError, match="a rival to compare"):
        PredictionSettings(mechanism=MechanismName.CONFIDENT_GNMAX, epsilon=8.0, delta=1e-5)
