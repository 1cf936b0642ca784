"""The predictor: charge, then draw, from the very array that was charged, with the system's generator."""

import dataclasses
import json
import threading
import time

import numpy as np
import pytest

from reticent.accounting.mixing.curves import Pull
from reticent.core.errors import BudgetExhausted, ConfigError, LedgerError
from reticent.core.randomness import Randomness
from reticent.ledger.durable import SqliteLedger
from reticent.ledger.fixed_point import amount_down, units_down
from reticent.prediction.budgets import MechanismName, MechanismOptions, PredictionTarget, set_up_mechanism
from reticent.prediction.mechanisms.mechanism import Layout
from reticent.prediction.mechanisms.submix import SubMixF
from reticent.prediction.mechanisms.unprotected import PublicModel
from reticent.prediction.memory_ledger import MemoryLedger
from reticent.prediction.predictor import Exhausted, TokenPredictor
from tests.prediction.tables import FixedTable, RandomTable, TableEnsemble

LAYOUT = Layout.single(3)
TARGET = PredictionTarget(epsilon=8.0, delta=1e-5, queries=20)


def ensemble(seed=0, vocabulary=6):
    return TableEnsemble(RandomTable(seed, rows=3, vocabulary=vocabulary), LAYOUT)


def predictor(kind=MechanismName.SUBMIX_F, *, models=None, ledger=None, target=TARGET, **more):
    models = models or ensemble()
    setup = set_up_mechanism(kind, target, LAYOUT)
    ledger = ledger or MemoryLedger(setup.budget, models.parts)
    return TokenPredictor(models, setup.mechanism, ledger=ledger, queries=target.queries, **more), models, ledger


class Recorder:
    """A mechanism that remembers what it released."""

    def __init__(self, inner):
        self.inner, self.releases = inner, []
        self.name, self.measure, self.price, self.layout = inner.name, inner.measure, inner.price, inner.layout

    def release(self, rows, moment, *, randomness):
        self.releases.append(self.inner.release(rows, moment, randomness=randomness))
        return self.releases[-1]


class LoudLedger(MemoryLedger):
    """Writes into a shared list when it charges; may break."""

    def __init__(self, budget, accounts, calls, broken=False):
        super().__init__(budget, accounts)
        self.calls, self.broken = calls, broken

    def charge(self, costs, event):
        self.calls.append(("charge", len(costs)))
        if self.broken:
            raise LedgerError("the disk is full")
        return super().charge(costs, event)


def recording_choice(monkeypatch, calls):
    original = Randomness.choice

    def choice(self, probabilities):
        calls.append(("choice", id(probabilities), self.kind))
        return original(self, probabilities)

    monkeypatch.setattr(Randomness, "choice", choice)


def test_tokens_are_drawn_by_the_system_from_the_very_array_that_was_charged(monkeypatch):
    models = ensemble()
    setup = set_up_mechanism(MechanismName.SUBMIX_F, TARGET, LAYOUT)
    mechanism = Recorder(setup.mechanism)
    recording_choice(monkeypatch, models.calls)
    made = TokenPredictor(
        models, mechanism, ledger=LoudLedger(setup.budget, models.parts, models.calls), queries=TARGET.queries
    )
    handles = [made.open([1]), made.open([2])]
    made.step(handles)
    made.step(handles)
    turn = ["look_up", "charge", "choice", "choice"]
    assert [call[0] for call in models.calls] == [*turn, "append", "append", *turn]
    drawn = [call for call in models.calls if call[0] == "choice"]
    assert [call[1] for call in drawn] == [id(release.pmf) for release in mechanism.releases]
    assert {call[2] for call in drawn} == {"system"}
    assert all(release.pmf.dtype == np.float64 for release in mechanism.releases)


class DrawsFirst(TokenPredictor):
    """Twin: the token exists before its charge does."""

    def _charge(self, handles, rows):
        releases = self._mix(handles, rows, remaining=np.full(3, 1.0))
        self.leaked = [self._randomness.choice(release.pmf) for release in releases]
        return super()._charge(handles, rows)


@pytest.mark.parametrize(("kind", "leaks"), [(TokenPredictor, False), (DrawsFirst, True)])
def test_nothing_is_drawn_when_the_charge_does_not_reach_the_disk(monkeypatch, kind, leaks):
    models = ensemble()
    setup = set_up_mechanism(MechanismName.SUBMIX_F, TARGET, LAYOUT)
    recording_choice(monkeypatch, models.calls)
    ledger = LoudLedger(setup.budget, models.parts, models.calls, broken=True)
    made = kind(models, setup.mechanism, ledger=ledger, queries=TARGET.queries)
    handle = made.open([1])
    with pytest.raises(LedgerError):
        made.step([handle])
    assert ("choice" in {call[0] for call in models.calls}) is leaks
    assert made.answered == 0
    assert made._texts[handle] == [1]


def test_a_batch_is_one_look_up_and_one_charge_and_costs_what_single_steps_cost():
    together, models, ledger = predictor()
    together.step([together.open([token]) for token in range(4)])
    assert [call for call in models.calls if call[0] == "look_up"] == [("look_up", 4)]
    one_by_one, _, other = predictor()
    for token in range(4):
        one_by_one.step([one_by_one.open([token])])
    assert ledger.spent() == pytest.approx(other.spent(), rel=1e-9)
    assert ledger._charges == 1
    assert together.answered == one_by_one.answered == 4


def test_a_durable_ledger_holds_every_charge(tmp_path):
    models = ensemble()
    setup = set_up_mechanism(MechanismName.SUBMIX_F, TARGET, LAYOUT)
    path = tmp_path / "ledger.db"
    with SqliteLedger.create(path, setup.budget, accounts=models.parts, identity=models.fingerprint) as ledger:
        made = TokenPredictor(models, setup.mechanism, ledger=ledger, queries=20)
        assert len(made.generate([1, 2], 5)) == 5
        spent = ledger.spent()
    with SqliteLedger.open(path, identity=models.fingerprint) as again:
        assert again.spent() == spent
        assert again.head().sequence == 5
        assert min(spent.values()) > 0


def test_the_budget_is_never_passed_and_the_public_model_remains():
    table = FixedTable([[0.5, 0.5], [0.999, 0.001], [0.5, 0.5], [0.5, 0.5]])
    models = TableEnsemble(table, LAYOUT)
    made, _, ledger = predictor(models=models, target=PredictionTarget(epsilon=8.0, delta=1e-5, queries=5))
    handle = made.open([])
    for _ in range(200):  # at λmax 0.3 each costs a hundredth of the budget at most
        made.step([handle])
    assert max(ledger.spent().values()) <= ledger.budget.limit
    assert ledger.remaining()["part 0"] < 1e-3 * ledger.budget.limit
    assert made.answered == 200


def test_spent_and_healthy_predictors_do_the_same_work(monkeypatch):
    work, looks = [], (Pull.forward, Pull.nearly_reverse, Pull.reverse)

    for look in looks:

        def counted(self, theta, look=look, **options):
            work[-1].append(look.__name__)
            return look(self, theta, **options)

        monkeypatch.setattr(Pull, look.__name__, counted)
    seen = []
    for limit in (1.0, 0.0):
        made, models, ledger = predictor()
        if not limit:
            ledger.charge(ledger.remaining(), None)
        work.append([])
        made.step([made.open([1])])
        seen.append([*models.calls, ledger._charges - (not limit)])
    assert seen[0] == seen[1]
    assert work[0] == work[1]
    assert {*work[0]} == {look.__name__ for look in looks}


@pytest.mark.parametrize(
    "kind", [MechanismName.SUBMIX_F, MechanismName.PMIXED, MechanismName.CLIPPED_DIFFERENCES, MechanismName.GNMAX]
)
def test_a_rehearsal_charges_and_releases_nothing(kind):
    made, models, ledger = predictor(kind)
    before = ledger.remaining()
    made.rehearse()
    assert models.calls == []
    assert made.answered == 0
    assert ledger.remaining() == before


def test_nobody_charges_between_the_look_at_what_is_left_and_the_charge(tmp_path):
    """Two processes on one file: each mixes from exactly what its own charge is taken from, and none is refused."""
    models = ensemble()
    target = PredictionTarget(epsilon=8.0, delta=1e-5, queries=24)
    setup = set_up_mechanism(MechanismName.SUBMIX_F, target, LAYOUT)
    SqliteLedger.create(tmp_path / "ledger.db", setup.budget, accounts=models.parts).close()
    seen: dict[int, dict[str, float]] = {}

    class Watched(SqliteLedger):
        def charge_decided(self, decide):
            looks = []

            def look(left):
                looks.append(dict(left))
                time.sleep(0.005)  # long enough for the other one to come between, if it could
                return decide(left)

            receipt = super().charge_decided(look)
            (seen[receipt.sequence],) = looks  # decided once
            return receipt

    def work():
        with Watched.open(tmp_path / "ledger.db") as ledger:
            made = TokenPredictor(ensemble(), setup.mechanism, ledger=ledger, queries=24)
            handle = made.open([])
            for _ in range(12):
                made.step([handle])

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with SqliteLedger.open(tmp_path / "ledger.db") as ledger:
        assert len(seen) == ledger.head().sequence == 24
        before = dict.fromkeys(models.parts, 0)
        limit = units_down(setup.budget.limit)
        for row in ledger.rows():
            assert seen[row.sequence] == {part: amount_down(limit - units) for part, units in before.items()}
            for part, units in json.loads(row.costs).items():
                before[part] += int(units)


def test_a_cost_decided_before_the_others_charged_would_be_caught(tmp_path):
    """Broken twin: looks first, and mixes again when it was overtaken; then a look is not what was charged from."""
    setup = set_up_mechanism(MechanismName.SUBMIX_F, TARGET, LAYOUT)
    models = ensemble()

    class LooksFirst(MemoryLedger):
        looks = 0

        def charge_decided(self, decide):
            while True:
                costs, event = decide(self.remaining())
                self.looks += 1
                if self.looks == 1:  # another process takes what part 0 has left
                    super().charge({"part 0": self.remaining()["part 0"]}, event)
                try:
                    return super().charge(costs, event)
                except BudgetExhausted:
                    continue

    mechanism = Recorder(setup.mechanism)
    ledger = LooksFirst(setup.budget, models.parts)
    made = TokenPredictor(models, mechanism, ledger=ledger, queries=20)
    made.step([made.open([])])
    assert ledger.looks == 2  # what part 0 had spent decided that everybody was mixed twice


def test_a_mechanism_that_passes_its_budget_is_refused_not_repeated():
    class Spender(Recorder):
        def release(self, rows, moment, *, randomness):
            release = super().release(rows, moment, randomness=randomness)
            return dataclasses.replace(release, costs=moment.remaining + 1.0)

    models = ensemble()
    setup = set_up_mechanism(MechanismName.SUBMIX_F, TARGET, LAYOUT)
    made = TokenPredictor(
        models, Spender(setup.mechanism), ledger=MemoryLedger(setup.budget, models.parts), queries=9
    )
    with pytest.raises(BudgetExhausted):
        made.step([made.open([])])
    assert made.answered == 0


@pytest.mark.parametrize("kind", [MechanismName.SUBMIX_F, MechanismName.CLIPPED_DIFFERENCES])
def test_refusal_comes_by_public_counts_alone(kind):
    made, _, ledger = predictor(
        kind, exhausted=Exhausted.REFUSE, target=PredictionTarget(epsilon=8.0, delta=1e-5, queries=3)
    )
    handle = made.open([])
    for number in range(3):
        assert made.affordable == 3 - number
        made.step([handle])
    assert made.affordable == 0
    before = ledger.spent()
    with pytest.raises(BudgetExhausted):
        made.step([handle])
    assert ledger.spent() == before
    kind_of_data, _, spent = predictor(exhausted=Exhausted.REFUSE)
    spent.charge(spent.remaining(), None)  # every part spent: private, so it must not show
    if kind is MechanismName.SUBMIX_F:
        assert len(kind_of_data.step([kind_of_data.open([])])) == 1


def test_tokens_that_were_paid_for_are_answered_where_the_budget_ends_on_the_way():
    made, _, ledger = predictor(
        exhausted=Exhausted.REFUSE, target=PredictionTarget(epsilon=8.0, delta=1e-5, queries=3)
    )
    text = made.generate([], 10)
    assert len(text) <= 3
    while made.affordable:  # the end token, where it was drawn, ends a text but costs as much as any other
        made.generate([], 10)
    assert made.answered == 3
    before = ledger.spent()
    with pytest.raises(BudgetExhausted, match="query budget is used up: 3 tokens"):
        made.generate([], 10)
    assert ledger.spent() == before


def test_submix_stops_for_good_once_a_charge_would_not_fit():
    layout = Layout.halves(2)
    models = TableEnsemble(FixedTable([[0.5, 0.5], *[[0.97, 0.03]] * 2, *[[0.03, 0.97]] * 2]), layout)
    target = PredictionTarget(epsilon=12.0, delta=1e-5, queries=4)
    setup = set_up_mechanism(MechanismName.SUBMIX, target, layout, options=MechanismOptions(order=2.0))
    ledger = MemoryLedger(setup.budget, models.parts)
    made = TokenPredictor(models, setup.mechanism, ledger=ledger, queries=4)
    handle = made.open([])
    spent = []
    for _ in range(6):
        made.step([handle])
        spent.append(max(ledger.spent().values()))
    assert made._stopped
    assert spent[-1] == spent[-2]
    assert max(ledger.remaining().values()) == 0.0  # that it stopped stands in the ledger
    later = TokenPredictor(models, setup.mechanism, ledger=ledger, queries=4)  # another process, or the next start
    mechanism = Recorder(setup.mechanism)
    later._mechanism = mechanism
    later.step([later.open([])])
    np.testing.assert_array_equal(mechanism.releases[0].pmf, [0.5, 0.5])
    assert mechanism.releases[0].costs.max() == 0.0


def test_combinations_without_a_guarantee_are_refused(tmp_path):
    models = ensemble()
    setup = set_up_mechanism(MechanismName.SUBMIX_F, TARGET, LAYOUT)
    other = set_up_mechanism(MechanismName.PMIXED, TARGET, LAYOUT)
    tally = MemoryLedger(setup.budget, models.parts)
    with pytest.raises(ConfigError, match="charged"):
        TokenPredictor(models, setup.mechanism, ledger=None, queries=1)
    with pytest.raises(ConfigError, match="meter"):
        TokenPredictor(models, other.mechanism, ledger=tally, queries=1)
    with pytest.raises(ConfigError, match="meter"):  # another order
        TokenPredictor(models, SubMixF(LAYOUT, 7.0), ledger=tally, queries=1)
    with pytest.raises(ConfigError, match="parts"):
        TokenPredictor(models, setup.mechanism, ledger=MemoryLedger(setup.budget, ["a"]), queries=1)
    with (
        SqliteLedger.create(tmp_path / "l.db", setup.budget, accounts=models.parts) as ledger,
        pytest.raises(ConfigError, match="seed"),
    ):
        TokenPredictor(models, setup.mechanism, ledger=ledger, queries=1, randomness=Randomness.seeded(1))
    free = TokenPredictor(models, PublicModel(LAYOUT), ledger=None, queries=1)
    assert 0 <= free.step([free.open([])])[0] < 6
    with pytest.raises(ConfigError, match="handles"):
        free.step([99])


def test_tokens_follow_the_accounted_distribution():
    # χ² with 2 degrees of freedom on 4,000 seeded draws; the bound 18.4 has a false-alarm rate of 1e-4.
    table = FixedTable([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])
    models = TableEnsemble(table, LAYOUT)
    made = TokenPredictor(models, PublicModel(LAYOUT), ledger=None, queries=1, randomness=Randomness.seeded(3))
    handles = [made.open([]) for _ in range(4000)]
    counts = np.bincount(made.step(handles), minlength=3)
    expected = 4000 * np.array([0.5, 0.3, 0.2])
    assert ((counts - expected) ** 2 / expected).sum() < 18.4


def test_a_tally_charges_all_accounts_or_none():
    budget = set_up_mechanism(MechanismName.CLIPPED_DIFFERENCES, TARGET, LAYOUT).budget  # 20 answers
    tally = MemoryLedger(budget, ["a", "b"])
    tally.charge({"a": 19.0, "b": 3.0}, None)
    for costs in ({"a": 1.5, "b": 1.0}, {"a": float("inf")}):
        with pytest.raises(BudgetExhausted):
            tally.charge(costs, None)
    assert tally.spent() == {"a": 19.0, "b": 3.0}
    tally.charge(tally.remaining(), None)  # exactly what remains is accepted
    assert set(tally.remaining().values()) == {0.0}
    with pytest.raises(LedgerError):
        tally.charge({"c": 1.0}, None)


def test_a_batch_may_take_the_last_answers_exactly():
    made, _, ledger = predictor(
        MechanismName.CLIPPED_DIFFERENCES, target=PredictionTarget(epsilon=8.0, delta=1e-5, queries=3)
    )
    made.step([made.open([token]) for token in range(5)])  # three private answers, two of the public model
    assert set(ledger.spent().values()) == {3.0}


def test_pure_differential_privacy_is_charged_durably_as_well(tmp_path):
    models = ensemble()
    setup = set_up_mechanism(MechanismName.SUBMIX_F, PredictionTarget(epsilon=2.0, delta=0.0, queries=4), LAYOUT)
    with SqliteLedger.create(tmp_path / "ledger.db", setup.budget, accounts=models.parts) as ledger:
        made = TokenPredictor(models, setup.mechanism, ledger=ledger, queries=4)
        made.step([made.open([1]), made.open([2])])
        assert 0 < max(ledger.spent().values()) <= 2.0
