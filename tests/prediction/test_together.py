"""Texts of one turn mixed together: what they mean one by one, never more than remains, whatever was looked up."""

import dataclasses
import math

import numpy as np
import pytest

from reticent.core.ensemble import MassStreams
from reticent.core.randomness import Randomness
from reticent.prediction.budgets import MechanismName, PredictionTarget, set_up_mechanism
from reticent.prediction.mechanisms import submix
from reticent.prediction.mechanisms.mechanism import Layout, Moment, TogetherMechanism, in_units
from reticent.prediction.mechanisms.shaping import Masses, Shaping
from reticent.prediction.mechanisms.submix import SubMix, SubMixF
from reticent.prediction.mechanisms.unprotected import PublicModel
from reticent.prediction.memory_ledger import MemoryLedger
from reticent.prediction.predictor import TokenPredictor
from tests.prediction.tables import RandomTable, TableEnsemble, TableStreams, random_pmfs

SEED = Randomness.seeded(0)
SHAPINGS = (Shaping(), Shaping(0.7), Shaping(1.0, top_k=4), Shaping(1.2, top_p=0.9))


def one_by_one(mechanisms, rows, moment):
    """The oracle: each text against what those before it leave."""
    releases, now = [], moment
    for number, mechanism in enumerate(mechanisms):
        releases.append(mechanism.release(rows[number], now, randomness=SEED))
        now = dataclasses.replace(
            now,
            remaining=now.remaining - in_units(releases[-1].costs),
            left=max(1, now.left - 1),
            stopped=now.stopped or releases[-1].stops,
        )
    return releases


def together(mechanisms, rows, moment):
    return mechanisms[0].release_together(rows, [mechanism.shaping for mechanism in mechanisms], moment)


def turns(seed, count, texts=5, parts=3):
    """Look-ups [n, 1 + parts, V] of parts near and far, and moments rich and poor."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        rows = np.stack([random_pmfs(rng, 1 + parts, 8, scale=rng.choice([0.05, 0.5, 2.0])) for _ in range(texts)])
        remaining = in_units(rng.choice([0.0, 1e-13, 1e-4, 0.05, 1.0], size=parts))  # as ledgers count
        yield rows, Moment(remaining=remaining, left=int(rng.choice([1, 3, 20, 50])))


def assert_alike(found, slow, moment):
    """Costs and pmfs are the same, up to what is left of an account once its last text aimed below it by 1e-9."""
    assert found.costs == pytest.approx(slow.costs, rel=1e-7, abs=1e-8)
    if moment.left > 10:
        assert found.pmf == pytest.approx(slow.pmf, rel=1e-7)
    else:
        assert found.pmf == pytest.approx(slow.pmf, abs=3e-4)  # a weight goes with the root of its cost


@pytest.mark.parametrize("parts", [3, 8])
@pytest.mark.parametrize("order", [2.0, 4.0, 2.5, math.inf])
def test_a_turn_of_submix_f_is_its_texts_one_by_one(order, parts):
    bound, free = 0, 0
    for rows, moment in turns(1, 40, parts=parts):
        mechanisms = [SubMixF(Layout.single(parts), order, 0.6)] * len(rows)
        expected = one_by_one(mechanisms, rows, moment)
        for found, slow in zip(together(mechanisms, rows, moment), expected, strict=True):
            assert_alike(found, slow, moment)
            bound, free = bound + (slow.costs > 0).sum(), free + (slow.costs == 0).sum()
    assert bound > 50
    assert free > 50


def test_while_the_end_of_the_query_budget_is_far_a_text_gets_at_most_a_twentieth_less_than_one_by_one():
    shorter = 0
    for rows, moment in turns(6, 40):
        far = dataclasses.replace(moment, left=400)
        mechanisms = [SubMixF(Layout.single(3), 4.0, 0.6)] * len(rows)
        expected = one_by_one(mechanisms, rows, far)
        for found, slow in zip(together(mechanisms, rows, far), expected, strict=True):
            assert (found.costs <= slow.costs * (1.0 + 1e-7) + 1e-11).all()
            assert (found.costs >= slow.costs * (1.0 - 0.05) - 1e-11).all()
            shorter += (found.costs < slow.costs * (1.0 - 1e-5)).sum()
    assert shorter > 20  # the look ahead was spared


def test_wide_texts_are_mixed_one_by_one():
    rng = np.random.default_rng(8)
    rows = np.stack([random_pmfs(rng, 4, 200_000, scale=0.5) for _ in range(2)])
    mechanisms = [SubMixF(Layout.single(3), 4.0, 0.6)] * 2
    moment = Moment(remaining=np.full(3, 0.05), left=400)
    for found, slow in zip(together(mechanisms, rows, moment), one_by_one(mechanisms, rows, moment), strict=True):
        np.testing.assert_array_equal(found.costs, slow.costs)
        np.testing.assert_array_equal(found.pmf, slow.pmf)


def test_texts_shaped_each_in_their_own_way_are_mixed_together():
    for rows, moment in turns(2, 10, texts=8):
        mechanisms = [SubMixF(Layout.single(3), 4.0, 0.6, SHAPINGS[i // 2]) for i in range(8)]
        assert all(mechanisms[0].is_like(each) for each in mechanisms)
        for found, slow in zip(
            together(mechanisms, rows, moment), one_by_one(mechanisms, rows, moment), strict=True
        ):
            assert_alike(found, slow, moment)
    assert not mechanisms[0].is_like(SubMixF(Layout.single(3), 2.0, 0.6))
    assert not mechanisms[0].is_like(PublicModel(Layout.single(3)))


def test_a_turn_of_submix_is_its_texts_one_by_one_and_stops_with_the_first_that_would_pass():
    rng = np.random.default_rng(3)
    rows = np.stack([random_pmfs(rng, 5, 6) for _ in range(6)])
    mechanisms = [SubMix(Layout.halves(2), 0.05)] * 6
    moment = Moment(remaining=np.full(2, 0.05), left=9)
    expected = one_by_one(mechanisms, rows, moment)
    found = together(mechanisms, rows, moment)
    assert [each.stops for each in found] == [each.stops for each in expected]
    assert {each.stops for each in found} == {True, False}
    for own, slow in zip(found, expected, strict=True):
        np.testing.assert_array_equal(own.costs, slow.costs)
        np.testing.assert_array_equal(own.pmf, slow.pmf)


@pytest.mark.parametrize(
    "mechanism", [PublicModel(Layout.halves(2)), SubMix(Layout.halves(2), 0.05), SubMixF(Layout.halves(2), 4.0)]
)
def test_masses_are_mixed_as_their_logarithms_are(mechanism):
    rng = np.random.default_rng(12)
    rows = np.stack([random_pmfs(rng, 5, 6) for _ in range(4)])
    moment = Moment(remaining=np.full(2, 9.0), left=400)
    shapings = [Shaping(), Shaping(), Shaping(0.7), Shaping(top_k=3)]
    for own in (shapings, shapings[:1] * 4):
        pairs = (mechanism.release_together(each, own, moment) for each in (Masses(np.exp(rows)), rows))
        for found, slow in zip(*pairs, strict=True):
            np.testing.assert_allclose(found.pmf, slow.pmf, rtol=1e-9)
            np.testing.assert_allclose(found.costs, slow.costs, rtol=1e-7)


def test_as_many_ways_to_shape_as_texts_and_look_ups_with_three_axes():
    mechanism, rows = SubMixF(Layout.single(2)), np.ones((3, 3, 4))
    moment = Moment(remaining=np.ones(2))
    with pytest.raises(ValueError, match="2 ways"):
        mechanism.release_together(Masses(rows), [Shaping()] * 2, moment)
    with pytest.raises(ValueError, match="needs 3 rows"):
        mechanism.release_together(Masses(rows[0]), [Shaping()] * 3, moment)


def overspent(mechanism):
    """By how much a turn passes what remains on any account, at most, over many turns."""
    worst = -math.inf
    for rows, near in turns(4, 60, texts=6, parts=mechanism.layout.parts):
        for moment in (near, dataclasses.replace(near, left=400)):
            spent = sum(in_units(each.costs) for each in together([mechanism] * 6, rows, moment))
            worst = max(worst, float((spent - moment.remaining).max()))
    return worst


def test_a_turn_never_passes_what_remains():
    assert overspent(SubMixF(Layout.single(3), 4.0, 0.6)) <= 0.0
    assert overspent(SubMixF(Layout.single(8), 4.0, 0.5)) <= 0.0


def test_texts_that_do_not_know_of_each_other_are_caught(monkeypatch):
    # Twin: every text of a turn takes its cap from, and is held against, what was there before the first.
    monkeypatch.setattr(submix, "in_units", np.zeros_like)
    assert overspent(SubMixF(Layout.single(3), 4.0, 0.6)) > 0.05


def test_what_is_held_against_an_account_is_what_is_really_left(monkeypatch):
    # Whatever the caps: here all texts aim at the whole account, and all but the first that fit fall silent.
    for name in ("_caps", "_even_caps"):
        monkeypatch.setattr(submix, name, lambda remaining, paces, *_: np.tile(remaining, (len(paces), 1)))
    assert overspent(SubMixF(Layout.single(3), 4.0, 0.6)) <= 0.0
    assert overspent(SubMixF(Layout.single(8), 4.0, 0.5)) <= 0.0


class MassTableStreams(TableStreams):
    """A table that also gives masses, in single precision."""

    def look_up_masses(self, handles):
        self.calls.append(("masses", len(handles)))
        return np.exp(super().look_up(handles)).astype(np.float32)


class MassTableEnsemble(TableEnsemble):
    def streams(self):
        return MassTableStreams(self.table, self.calls)


def test_masses_are_asked_for_where_both_sides_know_them():
    layout, target = Layout.single(3), PredictionTarget(epsilon=8.0, delta=1e-5, queries=20)
    assert isinstance(MassTableStreams(None, []), MassStreams)
    assert not isinstance(TableStreams(None, []), MassStreams)
    spent = []
    for kind in (MassTableEnsemble, TableEnsemble):
        models = kind(RandomTable(0, rows=3, vocabulary=6), layout)
        setup = set_up_mechanism(MechanismName.SUBMIX_F, target, layout)
        assert isinstance(setup.mechanism, TogetherMechanism)
        tally = MemoryLedger(setup.budget, models.parts)
        made = TokenPredictor(models, setup.mechanism, ledger=tally, queries=20)
        warm = dataclasses.replace(setup.mechanism, shaping=Shaping(1.3))
        made.step([made.open([1]), made.open([2], mechanism=warm)])
        assert (("masses", 2) in models.calls) is (kind is MassTableEnsemble)
        spent.append(list(tally.spent().values()))
    assert spent[0] == pytest.approx(spent[1], rel=1e-4)
    public = TokenPredictor(models, PublicModel(layout), ledger=None, queries=20)
    assert len(public.step([public.open([1])])) == 1


def test_tokens_of_a_turn_are_drawn_from_the_very_arrays_that_were_charged(monkeypatch):
    layout, drawn, released = Layout.single(3), [], []
    models = TableEnsemble(RandomTable(0, rows=3, vocabulary=6), layout)
    setup = set_up_mechanism(MechanismName.SUBMIX_F, PredictionTarget(epsilon=8.0, delta=1e-5, queries=20), layout)
    choice, release_together = Randomness.choice, SubMixF.release_together

    def choosing(self, pmf):
        drawn.append(id(pmf))
        return choice(self, pmf)

    def releasing(self, rows, shapings, moment):
        released.extend(release_together(self, rows, shapings, moment))
        return released

    monkeypatch.setattr(Randomness, "choice", choosing)
    monkeypatch.setattr(SubMixF, "release_together", releasing)
    made = TokenPredictor(models, setup.mechanism, ledger=MemoryLedger(setup.budget, models.parts), queries=20)
    made.step([made.open([token]) for token in range(3)])
    assert drawn == [id(each.pmf) for each in released]
    assert all(each.pmf.dtype == np.float64 for each in released)
