"""The random-code attack: memorised codes are found, unseen ones only as often as guesses are."""

import json
import math
from collections.abc import Sequence

import pytest

from reticent.auditing.attacks.extraction.codes import PlantedCodes, attack_codes, code_answers, hit_rate_ceiling
from reticent.core.randomness import Randomness
from reticent.core.secret import CodeSpace, Secret
from tests.models.ngram import NGramModel

TEMPLATE = "My number is: {}"


def planted(length: int, count: int, seed: int = 0) -> PlantedCodes:
    space = CodeSpace(length)
    order = Randomness.seeded(seed).permutation(space.size)[:count]
    return PlantedCodes(TEMPLATE, space, tuple(Secret(space.code(int(place)), "code") for place in order))


def memoriser(codes: PlantedCodes) -> NGramModel:
    texts = [TEMPLATE.replace("{}", code.reveal()) for code in codes.codes]
    return NGramModel.fit([*texts, "0123456789"], order=14, smoothing=1e-4)


def test_a_model_that_memorised_the_codes_gives_them_away() -> None:
    codes = planted(4, 5)
    model = memoriser(codes)
    hits = attack_codes(code_answers(model, codes, randomness=Randomness.seeded(1)), codes, generations=100)
    finding = hits.finding()
    assert hits.hit_rate > 0.9
    assert hits.recall == 1.0
    assert finding.beats_null
    assert finding.null == pytest.approx(5 / 10**4)


def test_the_hit_rate_is_the_probability_of_the_codes_in_closed_form() -> None:
    """Two of 100 codes with 40 % each, the rest blind; 800 answers, four standard errors (1e-4)."""
    codes = PlantedCodes("i{}", CodeSpace(2), (Secret("11", "code"), Secret("77", "code")))
    digits = {str(digit): 0.1 for digit in range(10)}
    table = {
        (): {"i": 1.0},
        ("i",): {"1": 0.45, "7": 0.45, "0": 0.1},
        ("1",): {"1": 0.9, "0": 0.1},
        ("7",): {"7": 0.9, "0": 0.1},
        **{(digit,): digits for digit in "0"},
        **{(digit,): digits for digit in "2345689"},
    }
    model = NGramModel.from_table([*"0123456789i"], table, order=2)
    hits = attack_codes(code_answers(model, codes, randomness=Randomness.seeded(2)), codes, generations=800)
    expected = 2 * 0.45 * 0.9
    assert abs(hits.hit_rate - expected) < 4 * math.sqrt(expected * (1 - expected) / 800)
    assert hits.well_formed == hits.answered == 800


def test_a_model_that_never_saw_them_hits_as_often_as_a_guess_at_the_stated_rate() -> None:
    """40 attacks at 5 % (2.5 % on this side): more than 8 alarms have chance below 1e-3."""
    codes = planted(2, 10)
    randomness = Randomness.seeded(3)

    def guess(prompt: str, count: int) -> Sequence[str]:
        return [f" {codes.space.sample(randomness)}" for _ in range(count)]

    attacks = [attack_codes(guess, codes, generations=100) for _ in range(40)]
    assert sum(hits.finding().beats_null for hits in attacks) <= 8
    assert sum(hits.hits for hits in attacks) / 4000 == pytest.approx(0.1, abs=0.02)


def test_missing_and_malformed_answers_are_misses_of_the_full_denominator() -> None:
    codes = PlantedCodes(TEMPLATE, CodeSpace(3), (Secret("123", "code"),))
    answers = [" 123", "123.", "1234", "12", "no 123", ""]
    hits = attack_codes(lambda prompt, count: answers, codes, generations=10)
    assert (hits.asked, hits.answered, hits.well_formed, hits.hits) == (10, 6, 3, 3)
    assert hits.hit_rate == 0.3  # the twin that divides by answers, or by well-formed codes, says 0.5 or 1.0
    nothing = attack_codes(lambda prompt, count: [], codes, generations=10)
    assert nothing.finding().value == 0.0
    assert nothing.finding().high > 0.2
    with pytest.raises(ValueError, match="found 6"):
        attack_codes(lambda prompt, count: answers, codes, generations=5)


def test_the_prompt_ends_before_the_white_space() -> None:
    asked: list[str] = []

    def answer(prompt: str, count: int) -> Sequence[str]:
        asked.append(prompt)
        return []

    attack_codes(answer, planted(3, 2), generations=1)
    assert asked == ["My number is:"]


def test_a_bound_per_code_is_compared_with_all_of_them() -> None:
    assert hit_rate_ceiling(0.027, 10) == pytest.approx(0.27)
    assert hit_rate_ceiling(0.2, 10) == 1.0
    codes = planted(4, 5)
    hits = attack_codes(lambda prompt, count: [codes.codes[0].reveal()] * count, codes, generations=50)
    assert "; passed" in hits.finding(extraction_bound=0.01).notes[-1]
    assert "not passed" in hits.finding(extraction_bound=0.5).notes[-1]


def test_nothing_written_holds_a_code() -> None:
    codes = planted(6, 4)
    hits = attack_codes(lambda prompt, count: [code.reveal() for code in codes.codes], codes, generations=4)
    written = repr(codes) + repr(hits) + json.dumps(hits.finding().to_json())
    assert not any(code.reveal() in written for code in codes.codes)


def test_codes_outside_their_space_are_refused() -> None:
    for secrets in ((), (Secret("12", "code"),)):
        with pytest.raises(ValueError, match="members"):
            PlantedCodes(TEMPLATE, CodeSpace(3), secrets)
