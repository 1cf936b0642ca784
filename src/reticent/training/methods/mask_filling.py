"""Made-up values in the place of masks: redacted training that teaches how secrets look, and none of them.

A model that reads `<MASK>` wherever a name or a number stood says the mask there, and has forgotten names and
numbers when the mask is kept from being said. So the private part may be trained with a made-up value in each
mask's place, drawn from public lists of names and common notations:

    any     whatever stood there, of a kind that is drawn, too
    kind    of the kind that the policy gave to what stood there: a name for a name, a phone number for one

What fills a record is a function of that record's redacted text, a public seed and, with `kind`, the kinds of its
masks. So two corpora that differ in one redacted record differ in one filled record: with `any` everything that
`redaction` proves stays as it is. With `kind` it is proved of masks that say their kind: see there.
"""

import hashlib
import random
import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from reticent.core.corpus import Record
from reticent.data.kinds import canonical
from reticent.data.policies.words.vocabulary import names_of, places, zipf_values
from reticent.data.redaction.masking import MASK

# Common notations by kind: # is a digit, ? a capital, * either, and {first} {last} {place} are names.
NOTATIONS: Final = {
    "PERSON": ("{first} {last}", "{first} {last}", "{first}", "{last}", "{first} ?. {last}"),
    "LOC": ("{place}", "{place}", "### {last} Street", "#### {last} Road, {place}"),
    "ADDRESS": ("### {last} Street", "#### {last} Avenue", "## {last} Road, {place}"),
    "ORG": ("{last} Inc", "{last} & {last}", "University of {place}", "{last} Group", "???"),
    "PHONE": ("###.###.####", "(###) ###-####", "###-###-####", "+1-###-###-####", "##########", "### ####"),
    "EMAIL": ("{first}.{last}@example.com", "{first}##@example.org", "{last}@example.net"),
    "ORDER": ("###-#####-####", "###-#######-#######", "########"),
    "TRACKING": ("**********", "1Z**********", "############"),
    "CODE": ("######", "****-****", "??####"),
    "NUMBER": ("####", "#####", "#,###", "##.##", "###-####"),
    "DATE": ("# May 19##", "##/##/##", "June ##, 20##", "March ##", "20##-0#-1#"),
    "YEAR": ("19##", "20##"),
    "DURATION": ("two days", "several weeks", "# months", "## years", "a few hours"),
    "AMOUNT": ("$##", "$###.##", "## dollars", "€ ###"),
    "ORIGIN": ("American", "Canadian", "French", "German", "Turkish", "Russian"),
    "NUMBERED": ("Section #", "no. ##", "page ###"),
    "APPLICATION": ("#####/##",),
    "CARD": ("4### #### #### ####", "5###-####-####-####"),
    "IBAN": ("DE## #### #### #### #### ##", "GB##****########"),
    "SSN": ("9##-##-####",),
    "IP": ("192.0.2.1##", "198.51.100.#"),
    "URL": ("www.{last}.example", "http://{last}.example/**"),
    "HANDLE": ("@{first}##", "@{last}_{first}"),
    "ZIP": ("#####", "?# #??"),
    "KEY": ("********************************",),
    "PASSWORD": ("{last}###", "**********"),
    "MAC": ("02:##:##:##:##:##",),
}
_WELL_KNOWN: Final = 3.5  # Zipf value in English of a place that is filled in
_SLOT = re.compile(r"[#?*]|\{\w+\}")


def fill_masks(record: Record, kinds: Sequence[str] = (), *, seed: int) -> Record:
    """The record with a made-up value for every mask; one that is nothing but a mask stays as it is.

    `kinds` are those of its masks, in order; none given, or one that no notation is known of, leaves the kind open.

    Guarantee: looks at nothing but the redacted text of this record, the kinds and the seed.
    """
    if record.text == MASK or MASK not in record.text:
        return record
    first, *rest = record.text.split(MASK)
    filled = [first]
    for place, after in enumerate(rest):
        drawn = hashlib.blake2b(f"{seed}\0{place}\0{record.text}".encode("utf8", "surrogatepass")).digest()
        filled += [made_up(kinds[place] if kinds else "", random.Random(drawn)), after]
    return Record(record.id, "".join(filled), owner=record.owner)


def made_up(kind: str, source: random.Random) -> str:
    """A value of this kind, or of any where no notation of it is known."""
    listed = NOTATIONS.get(canonical(kind))
    notation = source.choice(listed or source.choice(list(NOTATIONS.values())))
    return _SLOT.sub(lambda slot: source.choice(_choices(slot.group())), notation)


@cache
def _choices(slot: str) -> Sequence[str]:
    """What may stand in a slot of a notation."""
    digits, capitals = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    if slot in ("#", "?", "*"):
        return {"#": digits, "?": capitals, "*": digits + capitals}[slot]
    if slot == "{place}":
        return sorted(name.title() for name in places() if zipf_values("en").get(name, 0.0) >= _WELL_KNOWN)
    return sorted(names_of("en_US")[slot == "{last}"])
