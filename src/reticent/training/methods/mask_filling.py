"""Made-up values in the place of masks: redacted training that teaches how secrets look, and none of them.

A model that reads `<MASK>` wherever a name or a number stood says the mask there, and has forgotten names and
numbers when the mask is kept from being said. So the private part may be trained with a made-up value in each
mask's place: its kind and shape are drawn from a short public list, whatever stood there.

What fills a record is a function of that record's redacted text and a public seed alone. So two corpora that differ
in one redacted record differ in one filled record, and everything that `redacted` proves stays as it is.
"""

import hashlib
import random

from reticent.core.corpus import Record
from reticent.data.redaction.fakes import Fakes
from reticent.data.redaction.masking import MASK

# Public shapes of what is usually masked; the characters are replaced, every letter and digit of them.
SHAPES = (
    ("PERSON", "Mary Miller"),
    ("PHONE", "555.010.0199"),
    ("PHONE", "(555) 010-0199"),
    ("CODE", "100-20000-3000"),
    ("CODE", "AB12CD34EF"),
    ("CODE", "123456"),
    ("LOC", "100 Main Street"),
    ("EMAIL", "mary@example.com"),
)


def fill_masks(record: Record, *, seed: int) -> Record:
    """The record with a made-up value for every mask; one that is nothing but a mask stays as it is.

    Guarantee: looks at nothing but the redacted text of this record and the seed.
    """
    if record.text == MASK or MASK not in record.text:
        return record
    first, *rest = record.text.split(MASK)
    filled = [first]
    for place, after in enumerate(rest):
        drawn = hashlib.blake2b(f"{seed}\0{place}\0{record.text}".encode("utf8", "surrogatepass")).digest()
        kind, shape = random.Random(drawn).choice(SHAPES)
        filled += [Fakes(drawn[:32]).fake(shape, kind), after]
    return Record(record.id, "".join(filled), owner=record.owner)
