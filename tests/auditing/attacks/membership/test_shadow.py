"""Shadow attacks: the Gaussian formulas, the parabola's traps, RMIA's definition, null data."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from reticent.auditing.attacks.membership.shadow import _moments, lira_online, rmia, shadow_scores
from reticent.auditing.metrics.roc import auc, auc_interval
from tests.models.ngram import END, NGramModel


def world(generator, *, n=60, shadows=40, gain=1.0):
    """Target scores, labels, shadow scores and who saw what: a text's difficulty, plus `gain` where it was seen."""
    difficulty = generator.normal(0, 3, n)
    is_member = generator.random(n) < 0.5
    trained_on = generator.random((shadows, n)) < 0.5
    trained_on[:2] = [[True] * n, [False] * n]  # every text is seen and unseen at least once
    scores = difficulty + gain * is_member + generator.normal(0, 0.5, n)
    matrix = difficulty + gain * trained_on + generator.normal(0, 0.5, (shadows, n))
    return scores, is_member, matrix, trained_on


def test_online_lira_is_the_log_likelihood_ratio_where_it_is_monotone():
    generator = np.random.default_rng(0)
    matrix = np.concatenate([generator.normal(2, 1, (40, 1)), generator.normal(0, 1, (40, 1))])
    trained_on = np.arange(80)[:, None] < 40
    inside, outside = matrix[:40, 0], matrix[40:, 0]
    expected = norm.logpdf(1.0, inside.mean(), inside.std(ddof=1)) - norm.logpdf(
        1.0, outside.mean(), outside.std(ddof=1)
    )
    assert lira_online([1.0], matrix, trained_on)[0] == pytest.approx(expected)


def test_few_shadows_share_one_deviation():
    matrix = np.array([[0.0, 10.0], [2.0, 10.0], [0.0, 10.0]])
    mean, deviation = _moments(matrix, np.ones(matrix.shape, dtype=bool))
    pooled = math.sqrt((matrix[:, 0].var() * 3 + 0.0) / 4)
    np.testing.assert_allclose(mean, [2 / 3, 10.0])
    np.testing.assert_allclose(deviation, [pooled, pooled])


@pytest.mark.parametrize(("sd_in", "sd_out"), [(0.2, 1.0), (1.0, 0.2), (0.5, 0.5)])
def test_a_higher_score_never_lowers_the_suspicion(sd_in, sd_out):
    generator = np.random.default_rng(1)
    inside, outside = generator.normal(1, sd_in, (30, 1)), generator.normal(0, sd_out, (30, 1))
    matrix, trained_on = np.concatenate([inside, outside]), np.arange(60)[:, None] < 30
    grid = np.linspace(-20, 20, 81)
    found = np.array([lira_online([phi], matrix, trained_on)[0] for phi in grid])
    assert (np.diff(found) >= -1e-9).all()
    published = norm.logpdf(grid, 1, sd_in) - norm.logpdf(grid, 0, sd_out)
    assert sd_in == sd_out or (np.diff(published) < 0).any()  # the trap that the published ratio falls into


def test_text_remembered_better_than_any_shadow_is_not_called_a_nonmember():
    generator = np.random.default_rng(2)
    matrix = np.concatenate([generator.normal(-0.5, 0.01, (30, 2)), generator.normal(-3, 1.0, (30, 2))])
    trained_on = np.repeat(np.arange(60)[:, None] < 30, 2, axis=1)
    best, typical = lira_online([0.0, -3.0], matrix, trained_on)
    assert best > 0 > typical


def test_shadows_that_say_nothing_give_nothing():
    matrix = np.full((40, 1), -2.0)
    trained_on = np.arange(40)[:, None] < 20
    assert lira_online([0.0], matrix, trained_on).tolist() == [0.0]


@pytest.mark.parametrize("attack", ["online", "rmia", "rmia online"])
def test_members_are_found_and_null_data_is_not(attack):
    generator = np.random.default_rng(3)
    for gain in (1.0, 0.0):
        scores, is_member, matrix, trained_on = world(generator, n=200, gain=gain)
        population = world(generator, n=100, gain=0.0)
        found = {
            "online": lambda s=scores, m=matrix, t=trained_on: lira_online(s, m, t),
            "rmia": lambda s=scores, m=matrix, p=population: rmia(s, m, population=(p[0], p[2])),
            "rmia online": lambda s=scores, m=matrix, t=trained_on, p=population: rmia(
                s, m, population=(p[0], p[2]), trained_on=t
            ),
        }[attack]()
        interval = auc_interval(found[is_member], found[~is_member], confidence=0.999)
        plain = auc(scores[is_member], scores[~is_member])
        if gain:
            assert interval.low > 0.6
            assert interval.value > plain + 0.1  # difficulty is taken out
        else:
            assert interval.low <= 0.5 <= interval.high


def slow_rmia(scores, matrix, population, population_matrix, gamma):
    ratio = [math.exp(s) / np.mean(np.exp(column)) for s, column in zip(scores, matrix.T, strict=True)]
    ratio_z = [math.exp(s) / np.mean(np.exp(c)) for s, c in zip(population, population_matrix.T, strict=True)]
    return [np.mean([x / z >= gamma for z in ratio_z]) for x in ratio]


def test_rmia_is_the_share_of_the_population_beaten():
    generator = np.random.default_rng(4)
    scores, matrix = generator.normal(-1, 1, 9), generator.normal(-1, 1, (5, 9))
    z, matrix_z = generator.normal(-1, 1, 7), generator.normal(-1, 1, (5, 7))
    for gamma in (1.0, 2.0):
        found = rmia(scores, matrix, population=(z, matrix_z), gamma=gamma)
        np.testing.assert_allclose(found, slow_rmia(scores, matrix, z, matrix_z, gamma))


def test_offset_of_rmia_follows_the_paper():
    # p(x) = ((1 + a) p_out + 1 − a)/2 with a = 0.3 and p_out = 0.4: 0.61
    found = rmia([math.log(0.61)], [[math.log(0.4)]], population=([math.log(0.61)], [[math.log(0.4)]]), offset=0.3)
    assert found.tolist() == [1.0]
    harder = rmia([math.log(0.6)], [[math.log(0.4)]], population=([math.log(0.61)], [[math.log(0.4)]]), offset=0.3)
    assert harder.tolist() == [0.0]


def test_scores_of_shadow_models_are_mean_log_probabilities():
    models = [NGramModel.fit([text], order=2, vocabulary=[*"ab"]) for text in ("aaaa", "bbbb")]
    matrix = shadow_scores(models, ["aaa", "bb", ""])
    assert matrix.shape == (2, 3)
    assert matrix[0, 0] > matrix[1, 0]
    assert matrix[1, 1] > matrix[0, 1]
    assert np.isneginf(matrix[:, 2]).all()
    assert matrix[0, 0] == pytest.approx(models[0].token_log_probs(models[0].encode(["aaa"]))[0].mean())


def test_text_without_tokens_stays_last_in_every_shadow_attack():
    matrix = np.array([[-1.0, -np.inf], [-2.0, -np.inf], [-1.5, -np.inf]])
    trained_on = np.array([[True, True], [False, False], [True, False]])
    scores = [-0.5, -np.inf]
    for found in (
        lira_online(scores, matrix, trained_on),
        rmia(scores, matrix, population=([-1.0, -2.0], matrix[:, [0, 0]])),
    ):
        assert np.isneginf(found[1])
        assert np.isfinite(found[0])


def test_a_text_that_every_shadow_saw_is_refused():
    with pytest.raises(ValueError, match="for every text"):
        lira_online([0.0], [[1.0], [2.0]], [[True], [True]])
    with pytest.raises(ValueError, match="booleans"):
        lira_online([0.0], [[1.0], [2.0]], [[1], [0]])
    with pytest.raises(ValueError, match="shadows"):
        lira_online([0.0, 1.0], [[1.0]], [[True]])


def letters(seed: int, count: int) -> list[str]:
    generator = np.random.default_rng(seed)
    return ["".join(generator.choice([*"abcdefgh"], 15)) for _ in range(count)]


def test_the_text_that_was_learnt_by_heart_scores_highest_in_every_shadow_attack():
    """Shadows are n-gram models; the target saw one text 300 times, shadows each text at most once."""
    texts, public = letters(1, 12), letters(2, 40)
    trained_on = np.random.default_rng(3).permuted(np.arange(20)[:, None] % 2 == np.zeros(12), axis=0)

    def fitted(seen: list[str]) -> NGramModel:
        return NGramModel.fit([*public, *seen], order=4, vocabulary=[*"abcdefgh"], smoothing=0.05)

    matrix = shadow_scores([fitted([t for t, i in zip(texts, row, strict=True) if i]) for row in trained_on], texts)
    target = fitted([*texts[:6], *[texts[4]] * 300])
    scores = shadow_scores([target], texts)[0]
    unseen = letters(5, 30)
    population = (shadow_scores([target], unseen)[0], np.tile(shadow_scores([fitted([])], unseen), (20, 1)))
    for found in (
        lira_online(scores, matrix, trained_on),
        rmia(scores, matrix, population=population),
        rmia(scores, matrix, population=population, trained_on=trained_on),
    ):
        assert found[4] == found.max()
        assert found[4] > np.median(found[6:])


def unigram(p: float) -> NGramModel:
    return NGramModel.from_table(["a", "b"], {(): {"a": p, "b": 0.5 - p / 2, END: 0.5 - p / 2}}, order=1)


def test_shadow_attacks_have_their_closed_forms_on_unigram_models():
    """φ of "aa" is log p(a): 0.4 and 0.6 for shadows that saw it, 0.2 and 0.3 for others, 0.5 for the target."""
    inside, outside = np.log([0.4, 0.6]), np.log([0.2, 0.3])
    matrix = shadow_scores([unigram(p) for p in (0.4, 0.6, 0.2, 0.3)], ["aa"])
    np.testing.assert_allclose(matrix[:, 0], [*inside, *outside])
    trained_on = np.array([[True], [True], [False], [False]])
    scores = shadow_scores([unigram(0.5)], ["aa"])[0]
    expected = norm.logpdf(math.log(0.5), inside.mean(), inside.std(ddof=1)) - norm.logpdf(
        math.log(0.5), outside.mean(), outside.std(ddof=1)
    )
    assert lira_online(scores, matrix, trained_on)[0] == pytest.approx(expected)
    # p(x) = (0.5 + 0.25)/2 = 0.375, a ratio of 4/3: of three texts z, with ratios 1, 5/4 and 5/3, two are beaten.
    population = (np.log([0.5, 0.5, 0.5]), np.tile(np.log([0.5, 0.4, 0.3]), (4, 1)))
    assert rmia(scores, matrix, population=population, trained_on=trained_on).tolist() == [2 / 3]
