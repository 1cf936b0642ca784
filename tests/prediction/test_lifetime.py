"""The answers that are still to come, by public counts and the clock; budgets hold whatever they are said to be."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core.errors import ConfigError
from reticent.core.guarantee import Unit
from reticent.core.ledger import Budget
from reticent.core.randomness import Randomness
from reticent.prediction import predictor as predicting
from reticent.prediction.budgets import PredictionTarget, filter_guarantee
from reticent.prediction.lifetime import Lifetime
from reticent.prediction.mechanisms.mechanism import Layout
from reticent.prediction.mechanisms.submix import SubMixF
from reticent.prediction.memory_ledger import MemoryLedger
from reticent.prediction.predictor import TokenPredictor
from tests.prediction.tables import FixedTable, RandomTable, TableEnsemble
from tests.prediction.test_transcripts import worst_ratio

DAYS = Lifetime(date(2027, 1, 1), date(2027, 4, 10))  # a hundred days
START = datetime(2027, 1, 1, tzinfo=UTC)


def after(days: float) -> datetime:
    return START + timedelta(days=days)


def test_who_is_used_as_planned_has_what_the_query_budget_leaves():
    for day in (0, 10, 50, 90, 99):
        assert DAYS.left(1000, 10 * day, after(day)) == 1000 - 10 * day


def test_half_of_the_use_by_half_of_the_time_by_hand():
    # (250 + 100) / (0.5 + 0.1) · 0.5 = 291.67, where the query budget alone leaves 750.
    assert DAYS.left(1000, 250, after(50)) == 292
    # Nothing asked for until the last day but one: 100 / (0.99 + 0.1) · 0.01 = 0.92.
    assert DAYS.left(1000, 0, after(99)) == 1


def test_never_more_than_the_query_budget_leaves_nor_less_than_one():
    assert DAYS.left(1000, 900, after(10)) == 100
    assert DAYS.left(1000, 5000, after(10)) == 1
    assert DAYS.left(1000, 10, after(500)) == 1
    assert DAYS.left(1000, 0, after(-3)) == 1000


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.floats(-10.0, 200.0))
def test_less_use_is_never_planned_with_more_answers(queries, answered, day):
    found = DAYS.left(queries, answered, after(day))
    assert 1 <= found <= max(1, queries - answered)


def test_minutes_do_not_count():
    assert DAYS.left(10**6, 7, after(33.0)) == DAYS.left(10**6, 7, after(33.0) + timedelta(minutes=59))


def test_a_day_that_is_over_is_refused():
    with pytest.raises(ConfigError, match="over"):
        Lifetime(date(2027, 1, 2), date(2027, 1, 1))


class Clock(datetime):
    """A clock that stands still."""

    day = 0.0

    @classmethod
    def now(cls, _tz=None):
        return after(cls.day)


def spent_by(lifetime, *, day, monkeypatch):
    """What a part has spent after twenty answers of a query budget of a thousand, all given on one day."""
    monkeypatch.setattr(predicting, "datetime", Clock)
    Clock.day = day
    target = PredictionTarget(epsilon=8.0, delta=1e-5, queries=1000, unit=Unit.PART)
    mechanism = SubMixF(Layout.single(2), 2.0, 0.8)
    ensemble = TableEnsemble(RandomTable(3, rows=2, vocabulary=5, scale=3.0), mechanism.layout)
    ledger = MemoryLedger(Budget(str(mechanism.measure), 1.0, filter_guarantee(target, 2.0, 1.0)), ensemble.parts)
    randomness = Randomness.seeded(1)
    predictor = TokenPredictor(
        ensemble, mechanism, ledger=ledger, queries=1000, lifetime=lifetime, randomness=randomness
    )
    predictor.generate([], 20)
    return min(ledger.spent().values())


def test_an_ensemble_that_is_hardly_used_spends_more_on_each_answer(monkeypatch):
    plain = spent_by(None, day=90.0, monkeypatch=monkeypatch)
    planned = spent_by(DAYS, day=0.0, monkeypatch=monkeypatch)
    late = spent_by(DAYS, day=90.0, monkeypatch=monkeypatch)
    assert planned == pytest.approx(plain, rel=0.05)
    assert 5.0 * plain < late <= 1.0


class PacedByTheTranscript(SubMixF):
    """Expects the fewer answers the more often the text says 1: any rule of public facts."""

    __slots__ = ()

    def release(self, rows, moment, *, randomness):
        left = max(1, moment.left - 2 * moment.context.count(1))
        return SubMixF.release(self, rows, _with(moment, left), randomness=randomness)


class PacedByOthers(SubMixF):
    """Expects few answers where the first part is sure of itself: what its text decides."""

    __slots__ = ()

    def release(self, rows, moment, *, randomness):
        is_sure = np.abs(rows[1] - rows[0]).max() > 0.01
        return SubMixF.release(self, rows, _with(moment, 1 if is_sure else 1000), randomness=randomness)


def _with(moment, left):
    return type(moment)(remaining=moment.remaining, left=left, context=moment.context, stopped=moment.stopped)


@pytest.mark.parametrize("order", [2.0, 4.0, 20.5])
def test_any_pace_that_is_public_keeps_the_budget_over_every_transcript(order):
    for seed in range(2):
        table = RandomTable(seed, rows=2, vocabulary=2, scale=3.0)
        mechanism = PacedByTheTranscript(Layout.single(2), order, 0.8)
        assert worst_ratio(mechanism, table, budget=0.4 + seed, queries=5, order=order) <= 1.0 + 1e-9


def test_a_pace_that_follows_a_parts_text_is_caught():
    """Without the first part the three others fall nearly silent too: it gives away what all four know."""
    table = FixedTable([[0.5, 0.5], *[[0.98, 0.02]] * 4])
    setting = {"budget": 0.02, "queries": 4, "order": 2.0}
    assert worst_ratio(SubMixF(Layout.single(4), 2.0, 0.9), table, **setting) <= 1.0
    assert worst_ratio(PacedByOthers(Layout.single(4), 2.0, 0.9), table, **setting) > 2.0
