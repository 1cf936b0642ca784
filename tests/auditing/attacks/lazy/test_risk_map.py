"""The risk map: closed forms, which texts come first, and nothing but numbers in what leaves."""

import functools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from reticent.auditing.attacks.lazy.emission import emission_log_prob
from reticent.auditing.attacks.lazy.risk_map import (
    GENERATED,
    HELD_OUT,
    TRAINING,
    RiskMap,
    draw_risk_map,
    emission_finding,
    gained,
)
from reticent.core.corpus import Record
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.data.generators import generate_dialogues
from tests.auditing.attacks.lazy.risk_worlds import TWELVE, copies_map
from tests.models.ngram import NGramModel

ALPHABET = list("abcdefghij ")


def texts(seed: int, count: int, length: int = 12) -> list[str]:
    rows = np.random.default_rng(seed).integers(0, len(ALPHABET), (count, length))
    return ["".join(ALPHABET[token] for token in row) for row in rows]


def records(kind: str, written: list[str]) -> list[Record]:
    return [Record(f"{kind}-{place}", text) for place, text in enumerate(written)]


def trained(written: list[str]) -> NGramModel:
    return NGramModel.fit(written, order=4, smoothing=0.01, vocabulary=ALPHABET)


MEMORISED = "abcdefghijab"
COMMON = "a a a a a a "
SEEN = texts(0, 30)
UNSEEN = texts(1, 30)
REFERENCE = trained([*texts(2, 30), *[COMMON] * 200])
TARGET = trained([*SEEN, *[COMMON] * 200, *[MEMORISED] * 200])


def make_map(sampling: Sampling | None = None, samples: int = 1000) -> RiskMap:
    drawn = TARGET.generate([[]], Sampling(max_tokens=12), count=10, randomness=Randomness.seeded(0))[0]
    groups = {
        TRAINING: records("train", [*SEEN, COMMON, MEMORISED]),
        HELD_OUT: records("held", UNSEEN),
        GENERATED: records("made", TARGET.decode(drawn)),
    }
    return draw_risk_map(TARGET, REFERENCE, groups=groups, sampling=sampling, samples=samples)


def test_every_record_has_its_log_probability_and_calibrated_loss() -> None:
    drawn = make_map()
    group = drawn.group(TRAINING)
    for place, text in enumerate([*SEEN, COMMON, MEMORISED]):
        target = float(TARGET.token_log_probs(TARGET.encode([text]))[0].sum())
        reference = float(REFERENCE.token_log_probs(REFERENCE.encode([text]))[0].sum())
        assert group.emission[place] == pytest.approx(target)
        assert group.calibrated[place] == pytest.approx(-target + reference)
        assert group.calibrated_per_token[place] == pytest.approx((reference - target) / 12)
        exact = -math.expm1(1000 * math.log1p(-math.exp(target)))
        assert math.exp(drawn.log_chance(TRAINING)[place]) == pytest.approx(exact)


def test_the_memorised_record_is_worst_and_the_common_one_is_not() -> None:
    drawn = make_map()
    worst = drawn.worst(40)
    assert worst[0].id == f"train-{len(SEEN) + 1}"
    common = drawn.group(TRAINING).ids.index(f"train-{len(SEEN)}")
    assert drawn.group(TRAINING).emission[common] > -3.0  # as likely to be seen
    assert np.isneginf(drawn.gain(TRAINING)[common])  # but others know it as well
    assert len(worst) == len(SEEN) + 2


def test_the_gain_is_the_chance_beyond_a_strangers() -> None:
    drawn = make_map()
    group, others = drawn.group(TRAINING), drawn.group(HELD_OUT)
    usual = max(0.0, float(np.mean((others.log_probs - others.reference_log_probs) / others.tokens)))
    for place, found in enumerate(drawn.gain(TRAINING).tolist()):
        stranger = math.exp(group.reference_log_probs[place] + group.tokens[place] * usual)
        chance = math.exp(group.emission[place])
        assert found == pytest.approx(math.log(chance - stranger) if chance > stranger else -math.inf)
    alone = draw_risk_map(TARGET, REFERENCE, groups={TRAINING: records("train", [MEMORISED])})
    expected = math.exp(group.log_probs[-1]) - math.exp(group.reference_log_probs[-1])
    assert alone.gain(TRAINING)[0] == pytest.approx(math.log(expected))


def test_texts_are_ranked_by_what_a_stretch_of_them_gains_and_commonplaces_come_last() -> None:
    target = NGramModel.from_table(["a", "b", "c"], {(): {"a": 0.9, "b": 0.05, "c": 0.05}}, order=1)
    reference = NGramModel.from_table(["a", "b", "c"], {(): {"a": 0.5, "b": 0.45, "c": 0.05}}, order=1)
    written = ["b", "a" * 40 + "cc", "a" * 2, "a" * 60, "a" * 10, "a" * 100 + "c" * 4]
    groups = {TRAINING: records("train", written)}
    drawn = draw_risk_map(target, reference, groups=groups, samples=100)
    assert drawn.ranks(TRAINING).tolist() == [5, 3, 0, 2, 1, 4]
    assert [row.id for row in drawn.worst(3)] == ["train-2", "train-4", "train-3"]
    assert np.isneginf(drawn.gain(TRAINING)[0])  # "b": likely as it is, the reference says it oftener
    whole, stretch = (gained(drawn.group(TRAINING), None, of_stretch=part) for part in (False, True))
    assert whole[4] == stretch[4] == pytest.approx(math.log(0.9**10 - 0.5**10))
    assert stretch[3] == pytest.approx(math.log(0.9**30 - 0.5**30))  # √(15 · 60) tokens
    assert whole[3] == pytest.approx(math.log(0.9**60 - 0.5**60))


def test_strangers_are_compared_with_texts_of_their_length() -> None:
    """Short held-out texts gain much here and long ones little: a long text is measured by the long ones."""
    target = NGramModel.from_table(["a", "b"], {(): {"a": 0.9, "b": 0.1}}, order=1)
    reference = NGramModel.from_table(["a", "b"], {(): {"a": 0.5, "b": 0.5}}, order=1)
    others = [*["aa"] * 60, *["ab" * 20] * 60]
    groups = {TRAINING: records("train", ["aa", "a" * 20 + "b" * 4]), HELD_OUT: records("held", others)}
    gain = draw_risk_map(target, reference, groups=groups).gain(TRAINING)
    assert np.isneginf(gain[0])  # every short stranger gains as much
    assert np.isfinite(gain[1])  # no long one does


def test_copies_of_a_text_have_one_row() -> None:
    written = [*SEEN[:5], MEMORISED, *SEEN[:5], MEMORISED, MEMORISED]
    drawn = draw_risk_map(TARGET, REFERENCE, groups={TRAINING: records("train", written)})
    worst = drawn.worst()
    assert [(row.id, row.copies) for row in worst[:1]] == [("train-5", 3)]
    assert sorted(row.copies for row in worst) == [2, 2, 2, 2, 2, 3]
    assert drawn.to_json()["worst"][0]["copies"] == 3


@functools.cache
def dialogue_map(seed: int) -> tuple[RiskMap, set[str]]:
    """Long dialogues, numbers held ten times, dialogues held twelve times, and what all models say."""
    whole = generate_dialogues(123, randomness=Randomness.seeded(seed))
    digits = np.random.default_rng(seed).integers(0, 10, (3, 6)).tolist()
    numbers = [f"My number is {''.join(map(str, row))}." for row in digits]
    often = [record.text for record in whole[:3]]
    once, strangers, base = whole.texts[3:43], whole[43:83], whole.texts[83:]
    common = ["Thank you."] * 8
    planted = [*numbers * 10, *often * 12]
    letters = sorted(set("".join([*whole.texts, *numbers, *common])))
    target, reference = (
        NGramModel.fit(some, order=8, smoothing=0.002, vocabulary=letters)
        for some in ([*once, *common, *planted], [*base, *common * 2])
    )
    training = [Record(f"once-{place}", text) for place, text in enumerate([*once, common[0]])]
    training += [Record(f"planted-{place}", text) for place, text in enumerate(planted)]
    drawn = draw_risk_map(target, reference, groups={TRAINING: training, HELD_OUT: list(strangers)})
    return drawn, {row.id for row in drawn.worst(1000) if row.id.startswith("planted")}


@pytest.mark.parametrize("seed", range(3))
def test_planted_numbers_come_first_though_long_dialogues_have_larger_sums(seed: int) -> None:
    drawn, planted = dialogue_map(seed)
    worst = drawn.worst(1000)
    assert len(planted) == 6
    assert {row.id for row in worst[:6]} == planted
    assert sorted(row.copies for row in worst[:6]) == [10] * 3 + [12] * 3
    common = [place for place, row in enumerate(worst) if row.tokens == len("Thank you.")]
    assert common[0] > 6


@pytest.mark.parametrize("seed", range(3))
def test_broken_twin_the_corner_of_sums_hides_the_planted_numbers(seed: int) -> None:
    """The lesser of the standings by chance and by the *sum* of gains: the rule that left the numbers out."""
    drawn, _ = dialogue_map(seed)
    group = drawn.group(TRAINING)
    by_sum = np.argsort(np.argsort(-group.calibrated))
    corner = np.minimum(np.argsort(np.argsort(group.emission)), by_sum)
    best = [group.tokens[place] for place in np.argsort(-corner)[:20]]
    assert min(best) > 40  # no number among the first twenty


def test_members_held_out_and_generated_text_differ_as_they_should() -> None:
    drawn = make_map()
    mean = {name: float(drawn.group(name).calibrated.mean()) for name in (TRAINING, HELD_OUT)}
    assert mean[TRAINING] < mean[HELD_OUT] - 5.0
    assert drawn.group(GENERATED).emission.mean() > drawn.group(HELD_OUT).emission.mean()


def test_a_certain_record_comes_first() -> None:
    """The most memorised record must never fall behind by an edge case: p = 1, and 0 elsewhere."""
    target = NGramModel.from_table(["a", "b"], {(): {"a": 1.0}}, order=1)
    reference = NGramModel.from_table(["a", "b"], {(): {"b": 1.0}}, order=1)
    flat = NGramModel.from_table(["a", "b"], {(): {"a": 0.5, "b": 0.5}}, order=1)
    drawn = draw_risk_map(target, flat, groups={TRAINING: records("train", ["a", "ab", "b", "aa"])})
    assert [row.id for row in drawn.worst(2)] == [
        "train-3",
        "train-0",
    ]  # by chance alike: the rarer elsewhere first
    sure = draw_risk_map(target, reference, groups={TRAINING: records("train", ["a", "aa"])})
    assert sure.group(TRAINING).calibrated.tolist() == [-np.inf, -np.inf]
    assert sure.gain(TRAINING).tolist() == [0.0, 0.0]
    assert "-inf" in json.dumps(sure.to_json(), allow_nan=False)


def test_another_sampler_changes_what_is_emitted_and_not_what_is_memorised() -> None:
    plain, cut = make_map(), make_map(Sampling(top_k=2))
    expected = emission_log_prob(TARGET, TARGET.encode(SEEN), Sampling(top_k=2))
    assert cut.group(TRAINING).emission[: len(SEEN)] == pytest.approx(expected)
    assert cut.group(TRAINING).calibrated == pytest.approx(plain.group(TRAINING).calibrated)
    assert np.isneginf(cut.group(HELD_OUT).emission).any()
    json.dumps(cut.to_json(), allow_nan=False)


def test_the_document_holds_ids_and_no_text() -> None:
    written = json.dumps(make_map().to_json(), allow_nan=False) + repr(make_map())
    assert "train-0" in written
    assert not any(text in written for text in [*SEEN, *UNSEEN, MEMORISED, COMMON])


def test_empty_records_are_counted_and_not_drawn() -> None:
    """An empty text has probability 1: drawn, it would be the worst of all."""
    drawn = draw_risk_map(TARGET, REFERENCE, groups={TRAINING: records("train", ["", "abc", ""])})
    assert drawn.group(TRAINING).ids == ("train-1",)
    assert drawn.group(TRAINING).skipped == 2


class ShortModel(NGramModel):
    """A model that reads eight tokens at most, its start token included."""

    @property
    def context_length(self) -> int | None:
        return 8


def test_long_records_are_priced_by_what_fits_by_both_models() -> None:
    short = ShortModel.fit([*SEEN, MEMORISED], order=4, smoothing=0.01, vocabulary=ALPHABET)
    drawn = draw_risk_map(short, REFERENCE, groups={TRAINING: records("train", [MEMORISED, "abc"])})
    group = drawn.group(TRAINING)
    assert group.tokens.tolist() == [7, 3]
    assert group.cut == 1
    expected = REFERENCE.token_log_probs(REFERENCE.encode([MEMORISED[:7]]))[0].sum()
    assert group.reference_log_probs[0] == pytest.approx(float(expected))


def test_the_finding_counts_records_that_will_be_seen() -> None:
    finding = emission_finding(make_map(samples=100), chance=0.9)
    assert finding.value == pytest.approx(2 / 32)  # the memorised and the common one
    assert finding.low < 2 / 32 < finding.high
    assert finding.null is not None
    assert not finding.beats_null
    several = SEEN[:12]
    model = trained(several * 50)
    groups = {TRAINING: records("train", several), HELD_OUT: records("held", UNSEEN)}
    found = emission_finding(draw_risk_map(model, REFERENCE, groups=groups, samples=1000), chance=0.9)
    assert found.value == 1.0
    assert found.beats_null


def test_null_data_is_not_called_emitted() -> None:
    """Both groups unseen, 30 repetitions at 5 %: more than 6 alarms have chance 1e-3."""
    alarms = 0
    for seed in range(30):
        groups = {
            TRAINING: records("train", texts(10 + seed, 40, length=2)),
            HELD_OUT: records("held", texts(500 + seed, 40, length=2)),
        }
        alarms += emission_finding(draw_risk_map(TARGET, REFERENCE, groups=groups, samples=200)).beats_null
    assert alarms <= 6


def test_no_training_record_is_not_a_finding() -> None:
    drawn = draw_risk_map(TARGET, REFERENCE, groups={TRAINING: []})
    with pytest.raises(ValueError, match="not a finding"):
        emission_finding(drawn)
    with pytest.raises(KeyError):
        drawn.group(HELD_OUT)
    assert drawn.to_json()["worst"] == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [707, 808, 909])
def test_texts_in_twelve_copies_lead_the_map_of_a_fine_tuned_transformer(shared: Path, seed: int) -> None:
    """The seeds are fresh: no part of the ranking was chosen on them."""
    drawn = copies_map(shared, seed)
    group = drawn.group(TRAINING)
    places, copies = drawn.ranks(TRAINING)[group.first], group.copies[group.first]
    often, others = places[copies == 12], places[copies != 12]
    assert len(often) == TWELVE
    area = float((often[:, None] < others[None, :]).mean())  # no two texts share a place
    print(f"seed {seed}: AUC {area:.4f}, places of the texts in twelve copies {sorted(often.tolist())}")
    assert area >= 0.99
    assert len({row.id for row in drawn.worst(20)}) == 20
    assert len({group.texts[group.ids.index(row.id)] for row in drawn.worst(20)}) == 20
