"""Perplexity of held-out text against a written-out loop; intervals over seeds; plans from public text alone."""

import math
from dataclasses import replace

import numpy as np
import pytest

from reticent.core.errors import ConfigError
from reticent.core.randomness import Randomness
from reticent.prediction.budgets import MechanismName, MechanismOptions, PredictionTarget, Setup, set_up_mechanism
from reticent.prediction.evaluation import (
    Passage,
    Score,
    evaluate_mechanisms,
    look_up_passages,
    outside_of,
    over_seeds,
    paired_ratio,
    realised_share,
)
from reticent.prediction.mechanisms.mechanism import Layout, Moment
from reticent.prediction.mechanisms.unprotected import NGramIndex
from reticent.prediction.planner import likely_orders, plan
from tests.prediction.tables import FixedTable, RandomTable, TableEnsemble

LAYOUT = Layout.halves(2)
TARGET = PredictionTarget(epsilon=8.0, delta=1e-5, queries=12)
SEED = Randomness.seeded(1)
TEXTS = [(0, 1, 2, 3, 1, 2), (2, 2, 0, 1, 3, 3, 3, 1)]


def models():
    return TableEnsemble(RandomTable(5, rows=4, vocabulary=4), LAYOUT)


def setups(target=TARGET):
    options = MechanismOptions(index=NGramIndex([(0, 1, 2)], 3))
    mixing = [
        kind for kind in MechanismName if kind is not MechanismName.DP_SGD
    ]  # which is one model and no ensemble
    return [set_up_mechanism(kind, target, LAYOUT, options=options) for kind in mixing]


def test_passages_are_cut_at_the_number_of_answers():
    cut = list(look_up_passages(models(), TEXTS, answers=9))
    assert [len(passage.tokens) for passage in cut] == [6, 3]
    assert cut[1].rows.shape == (3, 5, 4)


def test_perplexity_equals_a_written_out_loop_for_every_mechanism():
    sample = list(look_up_passages(models(), TEXTS, answers=12))
    scores = evaluate_mechanisms(setups(), sample, parts=2, queries=12, randomness=SEED)
    assert [score.mechanism for score in scores] == [setup.mechanism.name for setup in setups()]
    for index, (setup, score) in enumerate(zip(setups(), scores, strict=True)):
        randomness = SEED.child(f"{index} {setup.mechanism.name}")
        remaining, losses, stopped = np.full(2, setup.budget.limit if setup.budget else math.inf), [], False
        for passage in sample:
            for place, token in enumerate(passage.tokens):
                moment = Moment(
                    remaining=remaining, left=12 - len(losses), context=passage.tokens[:place], stopped=stopped
                )
                release = setup.mechanism.release(passage.rows[place], moment, randomness=randomness)
                remaining, stopped = remaining - release.costs, stopped or release.stops
                losses.append(-math.log(release.pmf[token]) if release.pmf[token] else math.inf)
        assert score.answers == 12
        assert score.mean_loss == pytest.approx(np.mean(losses))
        if setup.budget:
            assert score.most_spent <= setup.budget.limit


def test_a_token_without_a_chance_makes_perplexity_infinite_and_no_text_is_refused():
    sample = [Passage((0, 1, 2), np.log(np.full((3, 5, 4), 0.25)))]
    memfree = next(setup for setup in setups() if setup.mechanism.name == "memfree")
    assert evaluate_mechanisms([memfree], sample, parts=2, queries=3, randomness=SEED)[0].perplexity == math.inf
    with pytest.raises(ConfigError, match="no held-out"):
        evaluate_mechanisms([memfree], [], parts=2, queries=3, randomness=SEED)


def test_outside_secrets_the_same_answers_are_scored_without_the_tokens_of_secrets():
    sample = list(look_up_passages(models(), TEXTS, answers=9))
    flags = [np.array(row, dtype=bool) for row in ((1, 0, 0, 1, 1, 1), (0, 1, 1, 1, 0, 1, 1, 1))]
    for score in evaluate_mechanisms(setups(), sample, parts=2, queries=12, randomness=SEED):
        first, second = score.losses
        kept = [first[0], *first[3:], *second[1:]]  # the second text was cut after three tokens
        found = outside_of(score, flags)
        assert (found.answers, found.mechanism) == (6, score.mechanism)
        assert found.mean_loss == pytest.approx(np.mean(kept))
        assert outside_of(score, [np.zeros_like(row) for row in flags]) is None
        assert outside_of(score, [np.ones_like(row) for row in flags]).mean_loss == pytest.approx(score.mean_loss)
        with pytest.raises(ValueError, match="more tokens than flags"):
            outside_of(score, [row[:2] for row in flags])


def test_more_budget_helps_and_less_reaches_the_public_model():
    # Parts that know the text: SubMix-F lies between the public and the non-private loss, and moves with ε.
    public, part = [0.25] * 4, [0.05, 0.85, 0.05, 0.05]
    ensemble = TableEnsemble(FixedTable([public, *[part] * 4]), LAYOUT)
    sample = list(look_up_passages(ensemble, [(1,) * 40], answers=40))
    losses = []
    for epsilon in (0.1, 2.0, 8.0, 30.0):
        setup = set_up_mechanism(
            MechanismName.SUBMIX_F, PredictionTarget(epsilon=epsilon, delta=1e-5, queries=40), LAYOUT
        )
        losses.append(evaluate_mechanisms([setup], sample, parts=2, queries=40, randomness=SEED)[0].mean_loss)
    assert losses == sorted(losses, reverse=True)
    assert losses[0] == pytest.approx(math.log(4), abs=0.05)
    assert losses[-1] < losses[0] - 0.3


def score(loss):
    return Score("submix-f", 10, loss, 0.0, 0.0)


def test_intervals_over_seeds_are_students():
    # t(0.975, 2) = 4.3027 (table), losses 1, 2, 3: mean 2, standard error 1/√3.
    spread = over_seeds([score(1.0), score(2.0), score(3.0)])
    assert spread.value == pytest.approx(math.exp(2.0))
    assert math.log(spread.high) == pytest.approx(2.0 + 4.3027 / math.sqrt(3), rel=1e-4)
    assert math.log(spread.low) == pytest.approx(2.0 - 4.3027 / math.sqrt(3), rel=1e-3)
    alone = over_seeds([replace(score(1.0), loss_interval=(0.5, 1.5))])
    assert (alone.seeds, alone.low, alone.high) == (1, pytest.approx(math.exp(0.5)), pytest.approx(math.exp(1.5)))
    unknown = over_seeds([score(1.0)])  # never a point
    assert (unknown.low, unknown.high) == (0.0, math.inf)
    assert over_seeds([score(math.inf), score(1.0)]).high == math.inf
    with pytest.raises(ConfigError):
        over_seeds([])


def test_the_share_of_the_gap_is_on_losses():
    assert realised_share(16.0, 8.0, 4.0) == pytest.approx(0.5)
    assert realised_share(4.0, 4.0, 4.0) is None


def test_mechanisms_are_compared_within_each_seed():
    def scores(name, losses):
        return [Score(name, 10, loss, 0.0, 0.0) for loss in losses]

    # Seeds 2 nats apart, ours 0.1 better in each: separate intervals overlap widely, the paired one has no width.
    ours, theirs = scores("ours", [1.0, 3.0, 5.0]), scores("theirs", [1.1, 3.1, 5.1])
    assert over_seeds(ours).high > over_seeds(theirs).low
    ratio = paired_ratio(ours, theirs)
    assert [ratio.low, ratio.value, ratio.high] == pytest.approx([math.exp(-0.1)] * 3)
    noise = paired_ratio(ours, scores("theirs", [1.2, 2.9, 5.0]))
    assert noise.low < 1.0 < noise.high
    with pytest.raises(ConfigError, match="same"):
        paired_ratio(ours, theirs[:2])


# ---------------------------------------------------------------- planning


def test_the_plan_is_the_best_of_what_the_mechanism_does_on_the_sample():
    target = PredictionTarget(epsilon=8.0, delta=1e-5, queries=100)
    rng = np.random.default_rng(0)
    public = np.log(rng.dirichlet(np.ones(6), size=20))
    tokens = rng.integers(0, 6, size=20)
    rows = np.repeat(public[:, None, :], 5, axis=1)  # four parts that give the true token about one nat more
    rows[np.arange(20)[:, None], np.arange(1, 5), tokens[:, None]] += 1.0 + 0.5 * rng.normal(size=(20, 4))
    sample = [Passage(tuple(tokens.tolist()), rows - np.log(np.exp(rows).sum(axis=-1, keepdims=True)))]
    plans = plan(sample, target, layout=Layout.single(4), orders=[4.0, 6.0], limits=[0.2, 0.6])
    assert [p.perplexity for p in plans] == sorted(p.perplexity for p in plans)
    assert len(plans) == 4
    best = plans[0]
    assert best.non_private < best.perplexity < best.public
    assert 0.0 < best.realised < 1.0
    options = MechanismOptions(order=best.order, weight_limit=best.weight_limit)
    setup = set_up_mechanism(MechanismName.SUBMIX_F, target, Layout.single(4), options=options)
    again = evaluate_mechanisms([setup], sample, parts=4, queries=100, randomness=SEED)[0]
    assert again.perplexity == pytest.approx(best.perplexity)


def test_a_plan_without_text_is_refused():
    with pytest.raises(ConfigError, match="held-out token"):
        plan([], TARGET, layout=LAYOUT)


def test_likely_orders_prove_something():
    assert likely_orders(TARGET)[0] == 3.0
    assert likely_orders(PredictionTarget(epsilon=1.0, delta=0.0, queries=1)) == [math.inf]
    assert likely_orders(PredictionTarget(epsilon=1e-4, delta=1e-12, queries=1)) == [math.inf]
    assert all(isinstance(Setup(setup.mechanism, None), Setup) for setup in setups())
