"""Whole rows scrubbed: every string of every field, at any depth; ids and owners become pseudonyms.

What becomes of a value is told by where it stands:

    ids and owners          a pseudonym (`scrub_key`), the same wherever the value is an id: references stay
    fields named for what   "name", "email", "phone", "address", "dob", …: replaced as a whole, whatever the policy
    they hold               says of it; numbers by others (masks: by 1 and zeros), dates by moved ones (1900)
    every other string      scrubbed by the policy; keys that are no field names too
    labelled spans          moved along with their text; those that were replaced go
    everything else         left as it is, save a long number whose digits are a value that was found in the record

A value that is found anywhere in a record, and its owner's name, are looked for in all of its fields.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import islice
from typing import Any

from reticent.core.corpus import Record
from reticent.data.kinds import TITLES
from reticent.data.policies.words.vocabulary import commonness
from reticent.data.reading.chats import Path, chat_pieces, is_chat
from reticent.data.reading.formats import Fields, Row
from reticent.data.redaction.masking import Redaction, Replacement
from reticent.data.redaction.scrub_key import ScrubKey, is_pseudonym
from reticent.data.redaction.scrubbing import Group, Replace, Scrubber

_BATCH = 128
_ID = re.compile(r"(?:^|_)(?:id|ids|uid|uuid|guid)$")
_FIELD_NAME = re.compile(r"[A-Za-z_$@][A-Za-z0-9_.$-]{0,39}")
_FEWEST_DIGITS = 5
_COMMON = 5.0  # Zipf value from which a word of an owner's name is too common to look for by itself
_NAMED_LIST = {
    "PERSON": "name first_name last_name full_name surname given_name family_name middle_name customer_name "
    "user_name username login nickname author_name contact_name display_name maiden_name vorname nachname",
    "EMAIL": "email e_mail mail email_address",
    "PHONE": "phone phone_number mobile telephone tel fax cell mobile_number telefon",
    "ADDRESS": "address street street_address postal_address home_address adresse anschrift strasse",
    "LOC": "city town birthplace place_of_birth hometown",
    "ZIP": "zip zip_code zipcode postcode postal_code plz",
    "SSN": "ssn social_security_number national_id passport passport_number tax_id",
    "IBAN": "iban bank_account account_number",
    "CARD": "credit_card card_number credit_card_number",
    "IP": "ip ip_address",
    "DATE": "dob date_of_birth birth_date birthday birthdate geburtsdatum",
    "PASSWORD": "password passwd passwort pin",
    "HANDLE": "handle screen_name twitter",
}
_NAMED = {name: kind for kind, names in _NAMED_LIST.items() for name in names.split()}
_TEXTS = ("text", "content", "value")
_TOOL = frozenset({"arguments", "parameters", "input_schema"})  # beside "name", that of a function


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """Which fields are what: paths of fields to keep and of further ids; `keep_ids` leaves ids and owners."""

    fields: Fields = field(default_factory=Fields)
    keep: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    keep_ids: bool = False

    def is_kept(self, path: str) -> bool:
        """Whether a field, or one that it stands in, is to be left as it is."""
        return any(path == kept or path.startswith(f"{kept}.") for kept in self.keep)

    def is_id(self, path: str) -> bool:
        """Whether a field holds an id or an owner."""
        if path in self.ids:
            return True
        if self.keep_ids:
            return False
        return path in (self.fields.id, self.fields.owner) or _ID.search(_snake(path)) is not None


@dataclass(slots=True)
class _Reading:
    """The strings of one row that the policy reads, with their paths."""

    texts: list[str] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    kinds: dict[int, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)

    def add(self, path: Path, text: str, kind: str | None) -> None:
        if kind is not None and text.strip():
            self.kinds[len(self.texts)] = kind
            self.know(text, kind)
        self.texts.append(text)
        self.paths.append(path)

    def know(self, value: str, kind: str) -> None:
        """Look for a value in the whole row, and for the telling words of a name."""
        words = value.split()
        for one in [value, *(words if kind == "PERSON" else ())]:
            is_rare = one == value and len(words) > 1
            plain = one.strip(".,").casefold()
            if is_rare or (len(plain) > 2 and plain not in TITLES and commonness(plain, "en")[0] < _COMMON):
                self.known[one.strip(".,")] = kind


@dataclass(frozen=True, slots=True)
class _Pass:
    """One way through a row: what becomes of a string and of labels, and the digits that no number may keep."""

    text: Callable[[Path, str, str | None], str]
    labels: Callable[[Path, list[Any]], list[Any]]
    digits: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ScrubbedRow:
    """A scrubbed row: its values, its id, and where each replacement came from, in its text and by path."""

    values: dict[str, Any]
    id: str
    redaction: Redaction
    moves: dict[str, Redaction]

    def __repr__(self) -> str:
        return f"ScrubbedRow({len(self.moves)} fields changed)"

    def offsets_to_json(self) -> dict[str, Any]:
        """The map from scrubbed to original offsets, of the text and by field: numbers and types, no characters."""
        fields = {path: _moves(redaction) for path, redaction in self.moves.items()}
        return {"id": self.id, "replacements": _moves(self.redaction), "fields": fields}


class RowScrubber:
    """Scrubs rows by a `scrubber`, under a key."""

    def __init__(self, scrubber: Scrubber, key: ScrubKey, *, treatment: Treatment | None = None) -> None:
        self._scrubber = scrubber
        self._key = key
        self._treatment = treatment or Treatment()
        # Fakes look real, so that only the key's memory tells what was scrubbed before.
        self._remembers = scrubber.replace is Replace.FAKE

    def __repr__(self) -> str:
        return f"RowScrubber({self._scrubber!r})"

    def scrub(self, rows: Iterable[tuple[Row, Record]]) -> Iterator[ScrubbedRow]:
        """Every row scrubbed, streamed in batches.

        Guarantee: no character of a span that the policy finds is left in any field, save where a fake has the same
        one, and in fields that are kept.
        """
        remaining = iter(rows)
        while batch := list(islice(remaining, _BATCH)):
            readings = [self._read(row, record) for row, record in batch]
            groups = [Group(reading.texts, reading.kinds, reading.known) for reading in readings]
            for (row, record), reading, redactions in zip(
                batch, readings, self._scrubber.redactions(groups), strict=True
            ):
                self._scrubber.tally.add(zip(reading.texts, redactions, strict=True))
                yield self._rewritten(row, record, reading=reading, redactions=redactions)

    def _read(self, row: Row, record: Record) -> _Reading:
        reading = _Reading()
        if record.owner != record.id and not self._treatment.keep_ids and not is_pseudonym(record.owner):
            reading.know(record.owner, "PERSON")

        def read(path: Path, text: str, kind: str | None) -> str:
            reading.add(path, text, kind)
            return text

        self._walk(row.values, (), _Pass(read, lambda _path, entries: entries))
        return reading

    def _rewritten(
        self, row: Row, record: Record, *, reading: _Reading, redactions: list[Redaction]
    ) -> ScrubbedRow:
        made = dict(zip(reading.paths, redactions, strict=True))
        if self._remembers:
            for text, redaction in zip(reading.texts, redactions, strict=True):
                if redaction.text != text:
                    self._key.remember(redaction.text)
        whole = self._of_text(row, made)

        def labels(path: Path, entries: list[Any]) -> list[Any]:
            return _moved(entries, whole if not path else made.get(path))

        write = _Pass(lambda path, _text, _kind: made[path].text, labels, _digits_of(reading, redactions))
        values = self._walk(row.values, (), write)
        has_id = row.get(self._treatment.fields.id) is not None and not self._treatment.keep_ids
        identity = self._key.pseudonym(record.id) if has_id else record.id
        moves = {_shown(path): redaction for path, redaction in made.items() if redaction.replacements}
        return ScrubbedRow(values, identity, whole, moves)

    def _of_text(self, row: Row, made: Mapping[Path, Redaction]) -> Redaction:
        """What became of the record's text, a chat read as one."""
        name = self._treatment.fields.text_of(row)
        start: Path = tuple(name.split(".")) if name not in row.values else (name,)
        text = row.get(name)
        if not is_chat(text):
            assert isinstance(text, str)
            return made.get(start) or Redaction(text, ())
        replacements = []
        pieces: list[str] = []
        before = after = 0
        for piece, path in chat_pieces(text):
            redaction = None if path is None else made.get((*start, *path))
            for r in redaction.replacements if redaction else ():
                edges = (before + r.start, before + r.end, after + r.new_start, after + r.new_end)
                replacements.append(Replacement(*edges, r.kind))
            pieces.append(redaction.text if redaction else piece)
            before += len(piece)
            after += len(pieces[-1])
        return Redaction("".join(pieces), tuple(replacements))

    def _walk(self, value: Any, path: Path, now: _Pass, *, kind: str | None = None) -> Any:
        """`value` with every string that the policy reads replaced by what the pass says of it."""
        name = ".".join(part for part in path if isinstance(part, str))
        if path and self._treatment.is_kept(name):
            return value
        if isinstance(value, Mapping):
            return self._walk_fields(value, path, now, kind=kind)
        if isinstance(value, list):
            return [self._walk(one, (*path, n), now, kind=kind) for n, one in enumerate(value)]
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, str | int) and self._treatment.is_id(name):
            return self._key.pseudonym(value)
        if isinstance(value, str):
            is_done = is_pseudonym(value) or (self._remembers and self._key.is_done(value))
            return value if is_done or not value.strip() else now.text(path, value, kind)
        if isinstance(value, int | date) and (kind or str(value).lstrip("-") in now.digits):
            return self._number(value)
        return value

    def _number(self, value: int | date) -> int | date:
        """What stands for a number or a date that is no text: it has to fit into the same column."""
        if self._remembers and self._key.is_done(str(value)):
            return value
        if not self._remembers:
            return (
                value.replace(1900, 1, 1)
                if isinstance(value, date)
                else int("1" + "0" * (len(str(abs(value))) - 1))
            )
        made = value + timedelta(self._key.fakes.days) if isinstance(value, date) else self._key.number(value)
        self._key.remember(str(made))
        return made

    def _walk_fields(
        self, values: Mapping[str, Any], path: Path, now: _Pass, *, kind: str | None
    ) -> dict[str, Any]:
        made: dict[str, Any] = {}
        is_tool = not _TOOL.isdisjoint(values)
        for key, value in values.items():
            here = (*path, key)
            if key == self._treatment.fields.spans and (entries := _labels(value)) is not None:
                beside = next(((*path, name) for name in _TEXTS if isinstance(values.get(name), str)), None)
                moved = now.labels(beside if path and beside else (), entries)
                made[key] = json.dumps(moved, ensure_ascii=False) if isinstance(value, str) else moved
                continue
            is_name = not path or _FIELD_NAME.fullmatch(key)
            written = key if is_name else self._walk(key, (*here, "(key)"), now)
            while written in made:
                written += "_"
            inner = None if is_tool and key == "name" else _NAMED.get(_snake(key), kind)
            made[written] = self._walk(value, here, now, kind=inner)
        return made


def _labels(value: object) -> list[Any] | None:
    """Labelled spans: a list of objects with a start and an end, or (CSV) the same as JSON; None if it is not."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    is_labels = isinstance(value, list) and all(
        isinstance(entry, Mapping) and isinstance(entry.get("start"), int) and isinstance(entry.get("end"), int)
        for entry in value
    )
    return list(value) if is_labels and isinstance(value, list) else None


def _moved(entries: list[Any], redaction: Redaction | None) -> list[Any]:
    """The labels that are not wholly replaced, where they stand now."""
    if redaction is None:
        return entries
    left = []
    for entry in entries:
        if not any(r.start <= entry["start"] and entry["end"] <= r.end for r in redaction.replacements):
            start, end = redaction.to_redacted(entry["start"], entry["end"])
            left.append({**entry, "start": start, "end": end})
    return left


def _shown(path: Path) -> str:
    """A path without what is no field name: a key may hold a value."""
    return ".".join(str(part) if not isinstance(part, str) or _FIELD_NAME.fullmatch(part) else "*" for part in path)


def _moves(redaction: Redaction) -> list[list[object]]:
    return [[r.new_start, r.new_end, r.start, r.end, r.kind] for r in redaction.replacements]


def _digits_of(reading: _Reading, redactions: Iterable[Redaction]) -> frozenset[str]:
    """The digits of what was replaced, of values with enough of them."""
    found = (
        re.sub(r"\D", "", text[r.start : r.end])
        for text, redaction in zip(reading.texts, redactions, strict=True)
        for r in redaction.replacements
    )
    return frozenset(digits for digits in found if len(digits) >= _FEWEST_DIGITS)


def _snake(name: str) -> str:
    """A field's name in small letters with underscores: "firstName" and "First-Name" are "first_name"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.rpartition(".")[2]).replace("-", "_").replace(" ", "_").lower()
