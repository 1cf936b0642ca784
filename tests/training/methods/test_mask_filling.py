"""Made-up values for masks: of the redacted record alone, never the same for all, and no mask is left."""

from collections import Counter

import pytest

from reticent.core.corpus import Record
from reticent.data.redaction.masking import MASK
from reticent.training.methods.mask_filling import SHAPES, fill_masks
from reticent.training.methods.redacted import encode_private
from tests.models.tiny import tiny_model

RECORD = Record("a", f"USR: {MASK} is my number, {MASK}.", owner="ann")


def test_every_mask_is_filled_and_the_rest_stays():
    filled = fill_masks(RECORD, seed=1).text
    assert MASK not in filled
    assert filled.startswith("USR: ")
    assert " is my number, " in filled
    assert filled.endswith(".")


def test_what_fills_a_record_depends_on_its_redacted_text_and_the_seed_alone():
    """Neighbours that differ in one redacted record must differ in that filled record alone."""
    again = Record("b", RECORD.text, owner="ben")
    assert fill_masks(again, seed=1).text == fill_masks(RECORD, seed=1).text
    assert fill_masks(RECORD, seed=2).text != fill_masks(RECORD, seed=1).text


def test_a_fill_that_remembers_earlier_records_would_be_caught():
    """Broken twin: numbers the fills through, so that one record more changes all that follow."""
    state = iter(range(100))

    def numbered(record: Record) -> str:
        return record.text.replace(MASK, str(next(state)))

    assert numbered(RECORD) != numbered(RECORD)
    assert fill_masks(RECORD, seed=1) == fill_masks(RECORD, seed=1)


def test_no_public_example_itself_is_ever_filled_in_and_kinds_vary():
    filled = [fill_masks(Record(str(i), f"{i} {MASK} end"), seed=3).text for i in range(300)]
    values = [text.split(" ", 1)[1].removesuffix(" end") for text in filled]
    assert not {shape for _, shape in SHAPES} & set(values)
    assert len(set(values)) > 250
    assert Counter("@" in value for value in values)[True] > 10


@pytest.mark.parametrize("text", [MASK, "nothing to fill"])
def test_an_empty_record_keeps_its_place_and_a_whole_one_its_text(text):
    assert fill_masks(Record("a", text), seed=1).text == text


def test_private_records_are_encoded_filled_and_the_empty_ones_stay_empty():
    model = tiny_model()
    encoded = encode_private(model, [Record("a", MASK), Record("b", f"x {MASK}")], fill_seed=4)
    assert len(encoded.texts[0]) == 0
    expected = [*model.encode([fill_masks(Record("b", f"x {MASK}"), seed=4).text])[0], model.end_token]
    assert encoded.texts[1].tolist() == expected
