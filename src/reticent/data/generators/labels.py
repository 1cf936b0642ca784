"""Texts with exact labels: writing them from templates, and counting the secrets they hold.

A template is a string with slots, "Your parcel is {tracking}."; a slot's value is a `Secret`, which gets a span
of its kind, or a plain string, which gets none. A draft grows from left to right, so every span is exact by
construction: text[start:end] is the secret. Does not find secrets in texts that were written elsewhere: that is a
policy's work.
"""

import re
from collections.abc import Mapping

from reticent.core.corpus import Corpus, Record, Span
from reticent.core.secret import Secret

_SLOT = re.compile(r"\{(\w+)\}")
_QUASI = frozenset({"DATE", "LOC"})  # identify a person only together with other facts


class Draft:
    """A text under construction, with the spans of its secrets."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._spans: list[Span] = []

    def write(self, template: str, slots: Mapping[str, Secret | str]) -> None:
        """Append `template` with its slots filled. A slot without a value is a KeyError that names the slot."""
        position = 0
        for match in _SLOT.finditer(template):
            self._append(template[position : match.start()])
            value = slots[match.group(1)]
            if isinstance(value, Secret):
                self._label(value)
            else:
                self._append(value)
            position = match.end()
        self._append(template[position:])

    def _append(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)

    def _label(self, secret: Secret) -> None:
        end = self._length + len(secret.value)
        identifier = "quasi" if secret.kind in _QUASI else "direct"
        self._spans.append(Span(self._length, end, secret.kind, identifier))
        self._append(secret.value)

    def record(self, record_id: str, owner: str) -> Record:
        """The finished record."""
        return Record(record_id, "".join(self._parts), owner, tuple(self._spans))


def without_labels(corpus: Corpus) -> Corpus:
    """The same texts with no spans: what the public half gives out, since nothing in it is secret."""
    return Corpus(Record(record.id, record.text, record.owner) for record in corpus)


def secrets_of(corpus: Corpus) -> dict[Secret, int]:
    """Ground truth: every distinct labelled secret and the number of records that hold it, in order of appearance.

    Reads the spans: a record counts once however often it repeats the secret, and a corpus without labels has none.
    """
    counts: dict[Secret, int] = {}
    for record in corpus:
        held = dict.fromkeys(Secret(record.text[s.start : s.end], s.kind) for s in record.spans)
        for secret in held:
            counts[secret] = counts.get(secret, 0) + 1
    return counts
