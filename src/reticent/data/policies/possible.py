"""Whatever could possibly be personal: the conservative policy of confidentially redacted training.

It decides which records are trained with noise, so a miss costs more than a false alarm; but a policy that flags
every line with a capital leaves nothing to train on plainly. It flags shapes (`patterns`), secrets of machines
(`credentials`), numbers of four digits and more, and every word to which the learnt tagger of names gives a small
chance. Words that are common in public text, and the speakers of a chat, have none.

It flags 39 % of the lines of simulated customer chats, 60 % of newsgroup lines and four of five WikiText
paragraphs. Its threshold was picked from such rates and from the recall in the table of docs/personal-data.md.
"""

import re
from collections.abc import Sequence

from reticent.core.corpus import Policy, Span
from reticent.data.policies.combined import UnionPolicy
from reticent.data.policies.shapes.credentials import Credentials
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.data.policies.words.names import Names

CHANCE = 0.05  # of being a name, from which a word is flagged
_ORGANISED = 0.15
_NUMBER = re.compile(r"\d(?:[\d.,/-]{2,30}\d)")


class LongNumbers:
    """Finds numbers of four characters and more, with the marks within them."""

    name = "long numbers"
    kinds = ("NUMBER",)
    is_local = False  # a digit beside a mark is read with it
    fingerprint = "long numbers"

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        return [tuple(Span(*match.span(), "NUMBER") for match in _NUMBER.finditer(text)) for text in texts]


def possible() -> UnionPolicy:
    """The policy, under the name `conservative`."""
    parts: list[Policy] = [
        PatternPolicy(),
        Credentials(),
        LongNumbers(),
        Names(threshold=CHANCE, organised=_ORGANISED),
    ]
    return UnionPolicy(parts, name="conservative")
