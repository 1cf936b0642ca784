"""Membership scores: closed forms on the n-gram oracle, one pass for all, the most memorised highest."""

import itertools
import math
import zlib

import numpy as np
import pytest

from reticent.auditing.attacks.membership.neighbourhood import Neighbourhood
from reticent.auditing.attacks.membership.scores import (
    CalibratedScore,
    ErrorZoneScore,
    LossScore,
    LowerCaseScore,
    MembershipScore,
    MinKPlusPlusScore,
    MinKScore,
    WindowScore,
    ZlibScore,
    mean_of_least,
    membership_scores,
    run_attacks,
    why_not,
    windows_won,
)
from reticent.auditing.attacks.membership.target_scores import LEAST_LOG_PROB, TargetScores
from reticent.auditing.metrics.roc import auc_interval
from reticent.core.errors import AccessError, InternalError, ModelError
from reticent.core.model import Access
from tests.models.ngram import END, NGramModel

ATTACKS = [
    LossScore(),
    CalibratedScore(),
    ZlibScore(),
    LowerCaseScore(),
    MinKScore(),
    MinKPlusPlusScore(),
    Neighbourhood(count=4),
    WindowScore(),
    ErrorZoneScore(),
]
LETTERS = [*"ABCDEFGHIJabcdefghij "]
SECRET = "AbCd HgFe JiBa EdCb"


def unigram(**pmf: float) -> NGramModel:
    """A model that draws every token from one distribution; `end` is the end of the text."""
    named = {END if symbol == "end" else symbol: p for symbol, p in pmf.items()}
    return NGramModel.from_table([s for s in named if s != END], {(): named}, order=1)


TARGET = unigram(a=0.5, b=0.25, c=0.125, end=0.125)
BASE = unigram(a=0.25, b=0.25, c=0.25, end=0.25)


def random_texts(count: int, *, seed: int, length: int = 19) -> list[str]:
    generator = np.random.default_rng(seed)
    return ["".join(generator.choice(LETTERS, length)) for _ in range(count)]


@pytest.fixture(scope="module")
def memorising() -> tuple[TargetScores, int]:
    """Twelve texts, one of which the target has seen 300 times and its base never."""
    public = random_texts(60, seed=1)
    base = NGramModel.fit(public, order=4, vocabulary=LETTERS, smoothing=0.05)
    target = NGramModel.fit([*public, *[SECRET] * 300], order=4, vocabulary=LETTERS, smoothing=0.05)
    others = random_texts(11, seed=2)
    return TargetScores([*others[:5], SECRET, *others[5:]], target, reference=base), 5


@pytest.fixture(scope="module")
def certain() -> tuple[TargetScores, int]:
    """Texts of which the target gives one probability 1, token by token, and the others almost none."""
    path = "AbCdeFghIJ"
    table = {(): {path[0]: 1.0}}
    table |= {(one,): {other: 1.0} for one, other in itertools.pairwise(path)}
    table[(path[-1],)] = {END: 1.0}
    symbols = sorted({*LETTERS})
    target = NGramModel.from_table(symbols, table, order=2)
    base = NGramModel.fit(random_texts(30, seed=3), order=2, vocabulary=symbols, smoothing=0.1)
    return TargetScores([*random_texts(4, seed=4), path, "b", ""], target, reference=base), 4


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: a.name)
def test_the_most_memorised_text_scores_highest(attack, memorising):
    targets, place = memorising
    scores = membership_scores(attack, targets)
    assert scores[place] == scores.max()
    assert scores[place] > np.median(scores)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: a.name)
def test_a_text_of_probability_one_scores_highest_and_one_without_tokens_lowest(attack, certain):
    targets, place = certain
    assert targets.log_probs[place].tolist() == [0.0] * 10
    scores = membership_scores(attack, targets)
    assert scores[place] == scores.max()
    assert scores[place] > scores[0]
    assert scores[-1] == -np.inf


def test_an_error_zone_that_scores_flawless_texts_as_zero_would_be_caught(certain):
    targets, place = certain
    is_wrong = targets.log_probs[place] < targets.positions[place].top
    published = 0.0 if not is_wrong.any() else 1.0
    assert published == 0.0  # as published code has it: the least score of all
    assert ErrorZoneScore().score(targets)[place] == 2.0


def test_every_attack_keeps_the_protocol():
    for attack in ATTACKS:
        assert isinstance(attack, MembershipScore)
        assert attack.access is Access.LOGPROBS
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


def test_scores_equal_their_closed_forms_on_a_unigram_model():
    texts = ["aab", "cc", "b"]
    targets = TargetScores(texts, TARGET, reference=BASE)
    ln2 = math.log(2)
    losses = np.array([4 / 3, 3.0, 2.0]) * ln2
    np.testing.assert_allclose(LossScore().score(targets), -losses)
    np.testing.assert_allclose(CalibratedScore().score(targets), 2 * ln2 - losses)
    sizes = [len(zlib.compress(text.encode())) for text in texts]
    np.testing.assert_allclose(ZlibScore().score(targets), -losses / sizes)
    np.testing.assert_allclose(MinKScore(0.5).score(targets), [-2 * ln2, -3 * ln2, -2 * ln2])
    np.testing.assert_allclose(MinKScore(1.0).score(targets), -losses)


def test_min_k_plus_plus_equals_its_closed_form():
    targets = TargetScores(["aac"], TARGET)
    p = np.array([0.5, 0.25, 0.125, 0.125])
    mean = (p * np.log(p)).sum()
    deviation = math.sqrt((p * (np.log(p) - mean) ** 2).sum())
    expected = (math.log(0.125) - mean) / deviation
    np.testing.assert_allclose(MinKPlusPlusScore(0.34).score(targets), [expected])
    assert MinKPlusPlusScore(1.0).score(targets)[0] == pytest.approx(
        (2 * math.log(0.5) + math.log(0.125) - 3 * mean) / (3 * deviation)
    )


def test_min_k_plus_plus_of_a_flat_distribution_is_neutral():
    assert MinKPlusPlusScore().score(TargetScores(["abc"], BASE)).tolist() == [0.0]


def test_lower_case_is_the_ratio_of_losses():
    model = unigram(A=0.5, a=0.125, b=0.25, end=0.125)
    targets = TargetScores(["AA", "ab", "Ab"], model)
    np.testing.assert_allclose(LowerCaseScore().score(targets), [3.0, 1.0, (3 + 2) / (1 + 2)])


def test_windows_are_counted_as_defined():
    differences = np.array([1.0, -2.0, 3.0, 0.0])
    # windows of 2: −1, 1, 3 → 2/3; of 3: 2, 1 → 1; longer ones do not fit
    assert windows_won(differences, (2, 3, 9)) == pytest.approx((2 / 3 + 1) / 2)
    assert windows_won(np.array([0.4]), (2, 3)) == 1.0
    assert windows_won(np.zeros(5), (2,)) == 0.5


def test_windows_of_random_text_are_won_as_often_as_enumeration_says():
    # d is log 5/3, log 5/6, log 5/8 for a, b, c: no two windows of two or three tie by rounding.
    base = unigram(a=0.3, b=0.3, c=0.2, end=0.2)
    gains = [math.log(0.5 / 0.3), math.log(0.25 / 0.3), math.log(0.125 / 0.2)]
    shares = [np.mean([sum(window) > 0 for window in itertools.product(gains, repeat=size)]) for size in (2, 3)]
    generator = np.random.default_rng(6)
    texts = ["".join(generator.choice([*"abc"], 60)) for _ in range(300)]
    scores = WindowScore((2, 3)).score(TargetScores(texts, TARGET, reference=base))
    # The mean of 300 texts has a standard error of 0.005: one false alarm in 16,000 seeds at four of them.
    error = scores.std(ddof=1) / math.sqrt(len(texts))
    assert error < 0.006
    assert abs(scores.mean() - np.mean(shares)) < 4 * error


def slow_windows(differences, sizes):
    shares = []
    for size in [s for s in sizes if s <= len(differences)]:
        votes = [sum(differences[i : i + size]) for i in range(len(differences) - size + 1)]
        shares.append(np.mean([v > 0 for v in votes]))
    return np.mean(shares)


def test_windows_equal_a_slow_count():
    generator = np.random.default_rng(9)
    for length in (2, 5, 30, 60):
        differences = generator.normal(size=length)
        sizes = WindowScore().sizes
        assert windows_won(differences, sizes) == pytest.approx(slow_windows(differences, sizes))


def test_error_zone_equals_its_closed_form():
    # The likeliest token is "a"; b and c are wrong positions, with d = 0 and −log 2.
    target = unigram(a=0.4, b=0.35, c=0.125, end=0.125)
    targets = TargetScores(["abc", "aab", "bb", "aa"], target, reference=BASE)
    gain, loss = math.log(0.35 / 0.25), math.log(2.0)
    np.testing.assert_allclose(ErrorZoneScore().score(targets), [gain / (gain + loss), 1.0, 1.0, 1.4])


def test_neighbours_differ_in_as_many_tokens_as_asked_and_never_hold_special_ones():
    attack = Neighbourhood(count=20, swaps=2)
    texts = TARGET.encode(["abcab", "ca"])
    around = attack.neighbours(texts, BASE, [np.random.default_rng(0), np.random.default_rng(1)])
    assert [len(copies) for copies in around] == [20, 20]
    for tokens, copies in zip(texts, around, strict=True):
        for copy in copies:
            assert sum(a != b for a, b in zip(copy, tokens, strict=True)) == 2
            assert TARGET.end_token not in copy


def test_the_neighbours_of_a_text_do_not_depend_on_the_other_targets():
    together = Neighbourhood().score(TargetScores(["abc", "aab"], TARGET, reference=BASE))
    alone = Neighbourhood().score(TargetScores(["abc"], TARGET, reference=BASE))
    assert together[0] == alone[0]


def test_neighbourhood_equals_its_closed_form_for_one_token():
    # Swaps of "a" for b or c, equally likely under BASE: the mean loss gained is log 2 or 2 log 2.
    score = Neighbourhood(count=400).score(TargetScores(["a"], TARGET, reference=BASE))[0]
    assert score == pytest.approx(1.5 * math.log(2), abs=0.1)  # standard error 0.017


def test_neighbourhood_is_repeatable_and_needs_no_reference():
    targets = TargetScores(["abc", "aab"], TARGET)
    np.testing.assert_array_equal(Neighbourhood(seed=3).score(targets), Neighbourhood(seed=3).score(targets))


class Counting:
    """An n-gram model that counts how many sequences it is asked to score."""

    def __init__(self, model: NGramModel) -> None:
        self._model = model
        self.sequences = 0

    def __getattr__(self, name):
        return getattr(self._model, name)

    def token_log_probs(self, sequences):
        self.sequences += len(sequences)
        return self._model.token_log_probs(sequences)


def test_target_and_reference_are_scored_once_for_all_attacks():
    target, base = Counting(TARGET), Counting(BASE)
    targets = TargetScores(["aab", "cc", "", "b"], target, reference=base)
    found = run_attacks([attack for attack in ATTACKS if attack.name != "neighbourhood"], targets)
    assert len(found) == 8
    assert target.sequences == base.sequences == 3  # none is upper-case, so lower-casing costs nothing


def test_attacks_that_lack_a_reference_are_named_and_skipped():
    targets = TargetScores(["ab"], TARGET)
    assert why_not(WindowScore(), targets) == "needs a reference model"
    assert set(run_attacks(ATTACKS, targets)) == {"loss", "zlib", "lower-case", "min-k", "min-k++", "neighbourhood"}
    with pytest.raises(AccessError, match="reference"):
        membership_scores(CalibratedScore(), targets)


def test_a_text_only_model_is_refused():
    class TextOnly(Counting):
        access = Access.TEXT

    with pytest.raises(AccessError, match="logprobs"):
        membership_scores(LossScore(), TargetScores(["ab"], TextOnly(TARGET)))


def test_a_reference_with_another_tokenizer_is_refused_without_showing_text():
    words = NGramModel.fit(["aab"], order=1, level="word", unknown="?")
    with pytest.raises(ModelError, match="split the targets differently") as caught:
        CalibratedScore().score(TargetScores(["aab"], TARGET, reference=words))
    assert "aab" not in str(caught.value)


def test_long_texts_are_cut_to_the_shorter_context_and_counted():
    class Short(Counting):
        context_length = 3

    targets = TargetScores(["abc", "ab"], TARGET, reference=Short(BASE))
    assert [len(tokens) for tokens in targets.tokens] == [2, 2]
    assert targets.truncated == 1
    assert len(targets.reference_log_probs[0]) == 2


def test_impossible_tokens_are_finite_and_cancel():
    impossible = unigram(a=1.0, b=0.0, end=0.0)
    targets = TargetScores(["ab"], impossible, reference=impossible)
    assert targets.log_probs[0].tolist() == [0.0, LEAST_LOG_PROB]
    assert CalibratedScore().score(targets).tolist() == [0.0]


def test_a_model_that_computes_nan_is_refused():
    class Broken(Counting):
        def token_log_probs(self, sequences):
            return [np.full(len(s), np.nan) for s in sequences]

    with pytest.raises(ModelError, match="no log-probability"):
        LossScore().score(TargetScores(["ab"], Broken(TARGET)))


def test_an_attack_that_gives_nan_is_our_bug():
    class Nan(LossScore):
        def score(self, targets):
            return np.full(len(targets), np.nan)

    with pytest.raises(InternalError):
        membership_scores(Nan(), TargetScores(["ab"], TARGET))


def test_short_texts_have_at_least_one_least_token():
    assert mean_of_least(np.array([-1.0, -5.0]), 0.2) == -5.0
    assert mean_of_least(np.arange(10.0), 0.2) == 0.5


def test_a_model_that_gives_all_positions_at_once_is_asked_for_them():
    class Positions(Counting):
        def position_log_probs(self, sequence):
            self.asked = True
            return self._model.next_token_log_probs([sequence[:t] for t in range(len(sequence))])

        def next_token_log_probs(self, contexts):
            raise AssertionError("the slow way")

    model = Positions(TARGET)
    fast, slow = TargetScores(["abc"], model), TargetScores(["abc"], TARGET)
    np.testing.assert_array_equal(MinKPlusPlusScore().score(fast), MinKPlusPlusScore().score(slow))
    assert model.asked


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: a.name)
def test_on_a_model_that_saw_neither_nothing_is_found(attack):
    # One draw per attack at 99.9 %: nine attacks raise a false alarm with chance below 0.005.
    public = random_texts(80, seed=20)
    target = NGramModel.fit(public[:50], order=3, vocabulary=LETTERS, smoothing=0.1)
    base = NGramModel.fit(public[50:], order=3, vocabulary=LETTERS, smoothing=0.1)
    scores = membership_scores(attack, TargetScores(random_texts(120, seed=21), target, reference=base))
    found = auc_interval(scores[:60], scores[60:], confidence=0.999)
    assert found.low <= 0.5 <= found.high


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: a.name)
def test_members_of_an_overfitted_model_are_found(attack):
    texts = random_texts(120, seed=22)
    target = NGramModel.fit(texts[:60], order=3, vocabulary=LETTERS, smoothing=0.05)
    base = NGramModel.fit(random_texts(60, seed=23), order=3, vocabulary=LETTERS, smoothing=0.05)
    scores = membership_scores(attack, TargetScores(texts, target, reference=base))
    assert auc_interval(scores[:60], scores[60:]).low > 0.6
