"""Calibration by other places, and candidates shared between targets."""

import numpy as np
import pytest

from reticent.auditing.attacks.personal_data.contexts import MaskedSpan, OtherValues, masked_spans
from reticent.auditing.attacks.personal_data.inference import draw_candidates, infer_values, token_counter
from reticent.auditing.attacks.personal_data.inventory import take_inventory
from reticent.auditing.attacks.personal_data.reconstruction import CandidateSources, gather_candidates
from reticent.auditing.attacks.personal_data.scoring import (
    CandidateScorer,
    CandidateScoring,
    HeldOutPlaces,
    log_likelihoods,
)
from reticent.core.corpus import Corpus, Record, Span
from reticent.core.randomness import Randomness
from reticent.core.secret import Secret
from reticent.models.huggingface.model import HuggingFaceModel
from tests.auditing.attacks.personal_data.small_models import SYMBOLS, Emitting, knows_nothing, names, tagger
from tests.models.ngram import NGramModel
from tests.models.tiny import tiny_gpt2, tiny_tokenizer

PERSONS = names(0, 20)


def place(prefix, suffix="", kind="PERSON"):
    return MaskedSpan("r", "r", Secret("ada abel", kind), prefix, suffix)


def test_scores_less_the_weighted_mean_chance_in_other_places_equal_the_slow_sum():
    model = HuggingFaceModel(tiny_gpt2(), tiny_tokenizer(), name="tiny")
    candidates = [" ada abel", " ben", " cleo cruz"]
    others = (place("the court heard"), place("on that day"), place("lives in", kind="LOC"))
    target = place("case 1 was brought by", ", of town 3.")
    scorer = CandidateScorer(model, elsewhere=HeldOutPlaces(others, 0.3))
    expected = log_likelihoods(model, target, candidates, scoring=CandidateScoring.IN_CONTEXT)
    for index, candidate in enumerate(candidates):  # the place of another kind is no place for a person
        chances = [
            np.exp(log_likelihoods(model, each, [candidate], scoring=CandidateScoring.SPAN)[0])
            for each in others[:2]
        ]
        expected[index] -= 0.3 * np.log(np.mean(chances))
    np.testing.assert_allclose(scorer.score(target, candidates), expected, atol=1e-4)
    both = scorer.scores([target, target], [candidates, candidates[1:]])
    np.testing.assert_allclose(both[1], expected[1:], atol=1e-4)


def test_a_kind_without_other_places_is_scored_as_it_is():
    model = knows_nothing()
    target = place("of ", " and", kind="LOC")
    plain, calibrated = CandidateScorer(model), CandidateScorer(model, elsewhere=HeldOutPlaces((place("by "),)))
    np.testing.assert_array_equal(plain.score(target, ["Abel", "B"]), calibrated.score(target, ["Abel", "B"]))
    assert len(calibrated.score(target, [])) == 0


@pytest.fixture(scope="module")
def popular():
    """Ten people in one record each, and one of them, the first, named in fifty more where nothing tells whom."""
    texts = [f"case {index} by {person}." for index, person in enumerate(PERSONS[:10])]
    records = [
        Record(f"r{index}", text, spans=(Span(10, 10 + len(PERSONS[index]), "PERSON"),))
        for index, text in enumerate(texts)
    ]
    often = [f"it was heard by {PERSONS[0]}."] * 50
    # The last twelve symbols tell the case; half of the mass is given to what any case says.
    return Corpus(records), NGramModel.fit([*texts, *often], order=4, smoothing=0.05, vocabulary=list(SYMBOLS))


def test_a_name_that_is_likely_everywhere_wins_no_place_once_calibrated(popular):
    """The model cannot tell places apart (its memory is three symbols): uncalibrated the popular name wins all."""
    corpus, model = popular
    values = take_inventory(corpus)
    targets = masked_spans(values, others=OtherValues.KNOWN, count=10, randomness=Randomness.seeded(1))
    drawn = draw_candidates(
        targets, values, training=values, size=8, lengths=token_counter(model), randomness=Randomness.seeded(2)
    )
    elsewhere = HeldOutPlaces((place("a matter told by "),), 1.0)
    plain = CandidateScorer(model).scores(drawn.targets, [each.candidates for each in drawn.sets])
    calibrated = CandidateScorer(model, elsewhere=elsewhere).scores(
        drawn.targets, [each.candidates for each in drawn.sets]
    )
    holding = [index for index, each in enumerate(drawn.sets) if PERSONS[0] in each.candidates]
    assert len(holding) >= 5
    wins = [
        sum(drawn.sets[index].candidates[int(np.argmax(rows[index]))] == PERSONS[0] for index in holding)
        for rows in (plain, calibrated)
    ]
    assert wins[0] == len(holding)
    assert wins[1] < len(holding) / 2
    assert infer_values(CandidateScorer(model, elsewhere=elsewhere), drawn).sizes.tolist() == [8] * len(
        drawn.targets
    )


def test_values_drawn_for_one_target_are_candidates_of_the_others_of_its_kind():
    model = Emitting([f" {PERSONS[0]} said", f" {PERSONS[1]} said", f" {PERSONS[1]} left", " nobody"])
    targets = [place("by"), place("with"), place("in", kind="LOC")]
    finds = tagger(PERSONS)

    def gather(shared):
        sources = CandidateSources(prefix=2, shared=shared, pool=0)
        return gather_candidates(model, finds, targets, sources=sources, randomness=Randomness.seeded(0))

    assert gather(0)[:2] == [(PERSONS[0], PERSONS[1]), (PERSONS[1],)]
    model = Emitting([f" {PERSONS[0]} said", f" {PERSONS[1]} said", f" {PERSONS[1]} left", " nobody"])
    assert gather(1)[:2] == [(PERSONS[0], PERSONS[1]), (PERSONS[1],)]  # the most frequent one first
    model = Emitting([f" {PERSONS[0]} said", f" {PERSONS[1]} said", f" {PERSONS[1]} left", " nobody"])
    first, second, town = gather(2)
    assert (set(first), set(second), town) == (set(PERSONS[:2]), set(PERSONS[:2]), ())
