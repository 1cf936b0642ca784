"""Tiny mechanisms whose best attack is known exactly: it never passes a bound, and passes each bound's broken twin.

Two kinds: random discrete mechanisms, where the optimal test, guess and ranking are sums over outcomes; and whole
transcripts of SubMix and SubMix-F, enumerated.
"""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from reticent.accounting.bounds.ceiling import ceiling
from reticent.core.divergence import log_normalise, renyi_divergence, symmetric_renyi_divergence
from reticent.core.guarantee import Guarantee, Neighbours, Notion, Unit
from tests.accounting.mixing.oracles import (
    fixed_mixture,
    slow_filtered_charges,
    slow_submix_charges,
    submix_mixture,
)

ORDERS = (1.5, 6.0)
EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)

# ---------------------------------------------------------------- the best attack on a discrete mechanism


def best_power(with_it, without, fpr):
    """Neyman and Pearson: the exact TPR of the best randomised test with this FPR."""
    order = np.argsort(-with_it / without)
    left, power = fpr, 0.0
    for y in order:
        share = min(1.0, left / without[y]) if without[y] > 0 else 1.0
        power, left = power + share * with_it[y], left - share * without[y]
        if left <= 0:
            break
    return power


def best_auc(with_it, without):
    """Exact AUC of the likelihood ratio, ties counted half."""
    ratio = with_it / without
    wins = (ratio[:, None] > ratio[None, :]) + 0.5 * (ratio[:, None] == ratio[None, :])
    return float(with_it @ wins @ without)


def best_guess(worlds):
    """Exact success of the best guess at which of m equally likely worlds [m, Y] was seen."""
    return worlds.max(axis=0).sum() / len(worlds)


def best_exposure(worlds):
    """Exact mean exposure in bits when candidates are ranked by likelihood, ties broken at random."""
    m, total = len(worlds), 0.0
    for i, y in itertools.product(range(m), range(worlds.shape[1])):
        above, tied = (worlds[:, y] > worlds[i, y]).sum(), (worlds[:, y] == worlds[i, y]).sum()
        total += worlds[i, y] * (math.log2(m) - np.log2(np.arange(above + 1, above + tied + 1)).mean())
    return float(total / m)


def hockey_stick(pairs, epsilon):
    """Exact δ at ε over all ordered pairs of pmfs."""
    return max(float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) for p, q in pairs)


def proved(worlds, reference, *, points=True, renyi=True):
    """The exact, hence tightest, guarantee between each world [m, Y] and the reference [Y], in both directions."""
    pairs = [pair for w in worlds for pair in ((w, reference), (reference, w))]
    profile = tuple((e, min(1.0, hockey_stick(pairs, e) * (1 + 1e-12))) for e in EPSILONS) if points else ()
    curve = tuple((a, max(float(renyi_divergence(np.log(p), np.log(q), a)) for p, q in pairs)) for a in ORDERS)
    return Guarantee(
        mechanism="tiny", notion=Notion.DIFFERENTIAL_PRIVACY, unit=Unit.RECORD, neighbours=Neighbours.ADD_REMOVE,
        epsilon=math.inf, delta=1.0, covers="one draw", profile=profile, renyi=curve if renyi else (),
    )  # fmt: skip


def mechanisms(seed, count):
    """Random reference pmfs [Y] and m worlds [m, Y], near and far, with common and rare outcomes.

    Every third one names its secret: world i makes outcome i likelier, the rest alike.
    """
    rng = np.random.default_rng(seed)
    for number in range(count):
        if number % 3 == 2:
            m = int(rng.integers(3, 9))
            boost = float(rng.choice([0.5, 1.0, 2.0]))
            yield np.exp(log_normalise(boost * np.eye(m))), np.full(m, 1 / m)
            continue
        outcomes, m = int(rng.integers(2, 7)), int(rng.integers(2, 6))
        reference = log_normalise(rng.normal(scale=rng.choice([0.5, 4.0]), size=outcomes))
        shift = rng.normal(scale=rng.choice([0.1, 1.0, 3.0]), size=(m, outcomes))
        yield np.exp(log_normalise(reference + shift)), np.exp(reference)


def attacks(worlds, reference):
    """Metric → exact value of the best attack on the worst world, with the context that its ceiling needs."""
    m = len(worlds)
    yield "auc", max(best_auc(world, reference) for world in worlds), {}
    yield "advantage", max(0.5 * float(np.abs(world - reference).sum()) for world in worlds), {}
    for fpr in (0.0, 0.001, 0.1, 0.5):
        yield f"tpr_at_fpr_{fpr}", max(best_power(world, reference, fpr) for world in worlds), {}
    yield "inference_accuracy", best_guess(worlds), {"candidates": m}
    yield "exposure", best_exposure(worlds), {"candidates": m}


@pytest.mark.parametrize(
    ("evidence", "count"), [({"renyi": False}, 60), ({"points": False}, 6)], ids=["epsilon-delta", "renyi"]
)
def test_the_best_attack_never_passes_a_ceiling(evidence, count):
    tightest = {}
    for number, (worlds, reference) in enumerate(mechanisms(seed=11, count=count)):
        promise = proved(worlds, reference, **evidence)
        for metric, value, context in attacks(worlds, reference):
            if metric == "auc" and promise.renyi and number:
                continue  # hundreds of root searches: one mechanism is enough
            limit = ceiling(metric, promise, **context)
            assert value <= limit * (1 + 1e-9) + 1e-12, metric
            tightest[metric] = max(tightest.get(metric, 0.0), value / limit if limit > 0 else 1.0)
    assert min(tightest.values()) > 0.6, tightest  # each ceiling is nearly reached by some mechanism


def changed(promise, *, profile=(), renyi=()):
    """A twin of the promise with other evidence."""
    return dataclasses.replace(promise, mechanism="twin", profile=tuple(profile), renyi=tuple(renyi))


TWINS = {
    "half the epsilon": lambda g: changed(g, profile=[(e / 2, d) for e, d in g.profile]),
    "delta forgotten": lambda g: changed(g, profile=[(e, 0.0) for e, d in g.profile if d < 0.1]),
    "half the sensitivity": lambda g: changed(g, renyi=[(a, e / 4) for a, e in g.renyi]),
}


@pytest.mark.parametrize("twin", TWINS)
def test_the_best_attack_passes_the_ceiling_of_a_broken_guarantee(twin):
    caught = dict.fromkeys(["auc", "advantage", "tpr_at_fpr_0.1", "inference_accuracy", "exposure"], 0)
    if twin == "half the sensitivity":
        del caught["auc"]  # 200 Rényi root searches a ceiling: the other twins have it
    for worlds, reference in mechanisms(seed=12, count=12):
        broken = TWINS[twin](proved(worlds, reference))
        for name, value, context in attacks(worlds, reference):
            if name in caught:
                caught[name] += value > ceiling(name, broken, **context) * (1 + 1e-9)
    assert all(caught.values()), caught


def test_one_sided_evidence_is_caught():
    # Twin: only D_a(world‖reference) was computed. A world that lacks an outcome is told apart by its absence.
    world, reference = np.array([1 - 1e-9, 1e-9]), np.array([0.5, 0.5])
    forward = tuple((a, float(renyi_divergence(np.log(world), np.log(reference), a))) for a in ORDERS)
    promise = proved(world[None], reference, points=False)
    one_sided = changed(promise, renyi=forward)
    power = best_power(reference, world, 0.01)  # the test for the other world is an attack too
    assert power > ceiling("tpr_at_fpr_0.01", one_sided)
    assert power <= ceiling("tpr_at_fpr_0.01", promise)


# ---------------------------------------------------------------- whole transcripts of SubMix-F


class FilteredWorld:
    """SubMix-F on a tiny ensemble: pmfs depend on the transcript so far; a removed part answers as the public."""

    def __init__(self, models, *, order, budget, limit, horizon, charge=slow_filtered_charges, charged_parts=None):
        self.models, self.order, self.budget, self.limit, self.horizon = models, order, budget, limit, horizon
        self.charge, self.charged_parts = charge, charged_parts or models.parts

    def log_pmf(self, transcript, spent, removed):
        """Log-pmf [V] of the next token, and what each part has spent after it [k]."""
        public = self.models.public(transcript)
        weights, after = np.zeros(self.models.parts), list(spent)
        rows = np.stack([self.models.part(i, transcript) for i in range(self.models.parts)])
        for i in range(self.models.parts):
            if i != removed:
                weights[i], cost = self._choose(rows[i], public, self.budget - spent[i], len(transcript))
                after[i] = spent[i] + cost
        return fixed_mixture(rows, public, weights), tuple(after)

    def _choose(self, row, public, left, position):
        """About the largest λ whose charge fits both the rolling cap and what is left; and that charge."""
        cap = min(left, 1.5 * left / (self.horizon - position))
        setting = {"order": self.order, "parts": self.charged_parts, "weight_limit": self.limit}
        low, high, paid = 0.0, 2.0 * self.limit, 0.0  # the first middle is the limit itself
        for _ in range(8):
            middle = 0.5 * (low + high)
            cost = float(self.charge(row, public, middle, **setting))
            if cost > cap:
                high = middle
            elif middle == self.limit:
                return middle, cost
            else:
                low, paid = middle, cost
        return low, paid

    def transcripts(self, removed):
        """Log-probability of every transcript [V^horizon]."""
        level = [((), 0.0, (0.0,) * self.models.parts)]
        for _ in range(self.horizon):
            grown = []
            for transcript, log_p, spent in level:
                pmf, after = self.log_pmf(transcript, spent, removed)
                grown += [((*transcript, y), log_p + pmf[y], after) for y in range(len(pmf))]
            level = grown
        return np.array([log_p for _, log_p, _ in level])

    def worst_ratio(self):
        """D/ε over every part removed, both directions: at most 1 if the filter keeps its promise."""
        everyone = self.transcripts(removed=None)
        pairs = [(everyone, self.transcripts(removed=i)) for i in range(self.models.parts)]
        return max(float(symmetric_renyi_divergence(p, q, self.order)) for p, q in pairs) / self.budget


class RandomModels:
    """Random pmfs that depend on the whole transcript: adaptive contexts."""

    def __init__(self, seed, *, parts, vocabulary, scale):
        self.seed, self.parts, self.vocabulary, self.scale = seed, parts, vocabulary, scale

    def _row(self, who, transcript, scale):
        rng = np.random.default_rng([self.seed, who, len(transcript), *transcript])
        return log_normalise(rng.normal(scale=scale, size=self.vocabulary))

    def public(self, transcript):
        return self._row(0, transcript, 1.0)

    def part(self, i, transcript):
        return self._row(i + 1, transcript, self.scale)


class FixedModels:
    """The same pmfs at every step: part 0 loud, the others hostile."""

    def __init__(self, public, rows):
        self.parts, self._public, self._rows = len(rows), np.log(public), np.log(rows)

    def public(self, transcript):
        return self._public

    def part(self, i, transcript):
        return self._rows[i]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("parts", "vocabulary", "horizon"), [(2, 2, 6), (3, 2, 5), (2, 3, 4)])
def test_submix_f_keeps_its_budget_over_every_transcript(seed, parts, vocabulary, horizon):
    models = RandomModels(seed, parts=parts, vocabulary=vocabulary, scale=4.0)
    world = FilteredWorld(models, order=2.0 + seed, budget=0.5 + 0.5 * seed, limit=0.8, horizon=horizon)
    assert world.worst_ratio() <= 1.0 + 1e-9


def hostile_models():
    """The bound's worst case: the other part stands where the public model has next to nothing."""
    rare = 1e-6
    public = [0.5, 0.5 - rare, rare]
    return FixedModels(public, [[1 - 2 * rare, rare, rare], [rare, rare, 1 - 2 * rare]])


def test_submix_f_comes_near_its_budget_in_the_worst_case():
    alone = FixedModels([0.5, 0.4, 0.1], [[0.05, 0.05, 0.9]])
    assert 0.9 < FilteredWorld(alone, order=2.0, budget=0.4, limit=0.9, horizon=4).worst_ratio() <= 1.0 + 1e-9
    assert 0.4 < FilteredWorld(hostile_models(), order=2.0, budget=0.4, limit=0.9, horizon=4).worst_ratio() <= 1.0


def test_vocabulary_size_in_place_of_the_number_of_parts_is_caught_over_transcripts():
    # k = 1, V = 3: the charge is computed as if three parts stood beside each other.
    models = FixedModels([0.5, 0.4, 0.1], [[0.05, 0.05, 0.9]])
    honest = FilteredWorld(models, order=2.0, budget=0.6, limit=0.9, horizon=5)
    twin = FilteredWorld(models, order=2.0, budget=0.6, limit=0.9, horizon=5, charged_parts=3)
    assert honest.worst_ratio() <= 1.0 + 1e-9
    assert twin.worst_ratio() > 1.5


def one_sided_charge(row, public, weight, *, order, parts, weight_limit):
    """Twin: I_a(G‖r) alone."""
    share = 1 / parts + (1 - 1 / parts) * (1 - weight_limit)
    mixing = weight / (parts * share)
    shifted = np.log(mixing * np.exp(row) + (1 - mixing) * np.exp(public))
    moment = float(renyi_divergence(shifted, public, order)) * (order - 1)
    return math.log1p(share * math.expm1(moment)) / (order - 1)


def test_a_one_sided_charge_is_caught_over_transcripts():
    # The part never says what the public model says half the time: r against G is far greater than G against r.
    models = FixedModels([0.5, 0.5], [[1 - 1e-9, 1e-9]])
    honest = FilteredWorld(models, order=4.0, budget=3.0, limit=0.95, horizon=6)
    twin = FilteredWorld(models, order=4.0, budget=3.0, limit=0.95, horizon=6, charge=one_sided_charge)
    assert honest.worst_ratio() <= 1.0 + 1e-9
    assert twin.worst_ratio() > 1.5


# ---------------------------------------------------------------- SubMix's Algorithm 2 with its own STOP


PUBLIC = np.log([0.5, 0.5])
PARTS = np.log([[0.97, 0.03], [0.97, 0.03], [0.03, 0.97]])  # two parts agree, the third does not; λ = 1


def submix_run(keep, *, budget, horizon):
    """Algorithm 2 on the kept parts: its pmf before STOP [V], and how many tokens it answers before STOP."""
    rows, weights = PARTS[keep], np.ones(len(keep))
    charges = slow_submix_charges(rows, PUBLIC, weights, order=2.0, common=True)
    answered, spent = 0, np.zeros(len(keep))
    while answered < horizon and (spent + charges < budget).all():  # strictly, as printed; a stop is not spent
        spent, answered = spent + charges, answered + 1
    return np.exp(submix_mixture(rows, PUBLIC, weights, common=True)), answered


def transcript_pmf(pmf, answered, horizon):
    """Probability of every transcript [2^horizon]: the mixture for `answered` tokens, then the public model."""
    total = np.ones(1)
    for t in range(horizon):
        total = np.outer(total, pmf if t < answered else np.exp(PUBLIC)).ravel()
    return total


def divergence(p, q):
    return float(symmetric_renyi_divergence(np.log(p), np.log(q), 2.0))


def test_algorithm_two_with_its_own_stop_passes_its_budget():
    # spec 2: k=3, a=2, ε=2: D_2 of the 16-token transcripts is 33.7. The full ensemble stops after one token; the
    # two parts that agree charge each other nothing and go on.
    full, short = submix_run([0, 1, 2], budget=2.0, horizon=16)
    rest, long = submix_run([0, 1], budget=2.0, horizon=16)
    assert (short, long) == (1, 16)
    found = divergence(transcript_pmf(full, short, 16), transcript_pmf(rest, long, 16))
    assert found == pytest.approx(33.7, abs=0.05)


def test_algorithm_two_keeps_its_budget_up_to_the_stopping_time_of_the_actual_partition():
    full, stop = submix_run([0, 1, 2], budget=2.0, horizon=16)
    for removed in range(3):
        rest, _ = submix_run([i for i in range(3) if i != removed], budget=2.0, horizon=16)
        assert divergence(transcript_pmf(full, stop, 6), transcript_pmf(rest, stop, 6)) <= 2.0


def test_random_stopping_does_not_make_it_private():
    # spec 2: Proposition C.3(1) is false, B=14, C=2: 7.38 > ε + log(CB) = 5.33.
    answers, expansion = 14, 2

    def stopped(pmf, answered):
        times = range(1, answers * expansion + 1)
        return sum(transcript_pmf(pmf, min(answered, tau - 1), answers) for tau in times) / len(times)

    worlds = [stopped(*submix_run(keep, budget=2.0, horizon=answers)) for keep in ([0, 1, 2], [0, 1])]
    assert divergence(*worlds) == pytest.approx(7.38, abs=0.01)
    assert divergence(*worlds) > 2.0 + math.log(answers * expansion)


def test_transcripts_of_the_recursion_and_of_the_outer_product_agree():
    models = FixedModels([0.5, 0.5], [[0.9, 0.1]])
    world = FilteredWorld(models, order=2.0, budget=100.0, limit=0.5, horizon=3)
    pmf = np.array([0.7, 0.3])  # 0.5·0.9 + 0.5·0.5
    expected = [math.prod(pmf[list(y)]) for y in itertools.product(range(2), repeat=3)]
    np.testing.assert_allclose(np.exp(world.transcripts(removed=None)), expected)
