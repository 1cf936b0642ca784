"""Corpora from files: records streamed one by one, checked, never loaded whole unless asked.

`open_corpus(path)` gives a `CorpusFile`, which can be read any number of times. Each bad input is a `DataError`
that names file and line and never shows text: neither in its message nor in the chain of causes.

An optional field (id, owner, spans) is in every record or in none: a record without an owner in a corpus with
owners would silently be protected alone. To find duplicate ids, an eight-byte digest of each is kept in memory; a
hit is confirmed by reading the file once more, which also tells the first line.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reticent.core.corpus import Corpus, Fingerprint, Record, Span
from reticent.core.errors import DataError
from reticent.data.duplicates.digest_counts import DigestSet
from reticent.data.reading.chats import chat_text, is_chat
from reticent.data.reading.formats import (
    Fields,
    Format,
    Row,
    parse_json,
    read_rows,
    recognise,
    show_names,
    type_name,
)

_ONE_OWNER = (
    "a record has one owner: give all records that share an owner, directly or through others, one common name; "
    "what is promised for all of these together holds for each owner"
)
_SKIP = "remove the record, or skip empty ones with --skip-empty"
_USUAL = ("text", "id", "owner", "spans")  # a field of another name was asked for, and must be there
_KIND_NAMES = ("type", "kind", "label")
# The Text Anonymization Benchmark writes NO_MASK for what annotators saw and chose to leave in clear.
_IDENTIFIERS = {"": "", "direct": "direct", "quasi": "quasi", "no_mask": "none", "none": "none"}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CorpusFile:
    """A corpus on disk: iterate to stream its records, as often as needed."""

    path: Path
    format: Format
    fields: Fields
    skip_empty: bool = False

    def __repr__(self) -> str:
        return f"CorpusFile({str(self.path)!r}, {self.format})"

    def __iter__(self) -> Iterator[Record]:
        """Records in stored order; every check is made on the way, and no record at all is an error."""
        return (record for _, record in self.rows())

    def rows(self, *, whole: bool = False) -> Iterator[tuple[Row, Record]]:
        """Each record with the row that it was read from, checked; `whole` rows of tables have every column."""
        seen = DigestSet()
        present: frozenset[str] | None = None
        for row in self._rows(whole=whole):
            now = _present(row, self.fields)
            if present is None:
                present = now
            elif now != present:
                raise _uneven(row, now ^ present)
            record = _record(row, self.fields)
            if self.fields.id in present and not seen.add(record.id):
                self._refuse_duplicate(record.id, row)
            yield row, record
        if present is None:
            raise DataError("no records", path=self.path, expected="at least one")

    def load(self) -> Corpus:
        """All records in memory."""
        return Corpus(self)

    def count(self) -> int:
        """Number of records, every one checked."""
        return sum(1 for _ in self)

    def fingerprint(self) -> str:
        """The fingerprint of the corpus that `load` would give."""
        running = Fingerprint()
        for record in self:
            running.add(record)
        return running.hexdigest()

    def present(self) -> frozenset[str]:
        """Which of "text", "id", "owner" and "spans" the file has, told by its first record."""
        first = next(self._rows(), None)
        if first is None:
            raise DataError("no records", path=self.path, expected="at least one")
        there = _present(first, self.fields)
        return frozenset(role for role in _USUAL if getattr(self.fields, role) in there)

    def _rows(self, *, whole: bool = False) -> Iterator[Row]:
        rows = read_rows(self.path, self.format, fields=self.fields, whole=whole)
        return (row for row in rows if not _is_empty(row, self.fields)) if self.skip_empty else rows

    def _refuse_duplicate(self, identity: str, second: Row) -> None:
        """Raise unless the two ids only share their eight bytes."""
        for row in self._rows():
            if (row.path, row.line) == (second.path, second.line):
                return
            if str(row.get(self.fields.id)) == identity:
                raise DataError(
                    f"the id of line {row.line} again",
                    path=second.path,
                    line=second.line,
                    hint="ids must differ; rename one, or name another field with --id-field",
                )


def open_corpus(
    path: Path | str,
    fields: Fields | None = None,
    *,
    format: Format | str | None = None,
    skip_empty: bool = False,
) -> CorpusFile:
    """Open the corpus at `path`; its format is recognised unless given. Only file names are read at first.

    A record whose text is empty or blank is an error, unless `skip_empty` says to leave such records out.

    >>> corpus = reticent.open_corpus("mails.jsonl").load()
    >>> len(corpus)
    60
    """
    place = Path(path)
    stored = recognise(place) if format is None else _format(format, place)
    return CorpusFile(place, stored, fields or Fields(), skip_empty)


def _format(name: Format | str, path: Path) -> Format:
    try:
        return Format(name)
    except ValueError:
        raise DataError("unknown format", path=path, found=repr(name), expected=", ".join(Format)) from None


def _is_empty(row: Row, fields: Fields) -> bool:
    """Whether the field is there and holds no text; a field that is not there is another mistake."""
    name = fields.text_of(row)
    text = row.get(name)
    return name in row.values if text is None else isinstance(text, str) and not text.strip()


def _present(row: Row, fields: Fields) -> frozenset[str]:
    """The names among `fields` for which the row has a value; those that must be there are."""
    wanted = (fields.text, fields.id, fields.owner, fields.spans)
    stored = (fields.text_of(row), *wanted[1:])
    there = frozenset(name for name, field in zip(wanted, stored, strict=True) if row.get(field) is not None)
    missing = [name for name in wanted if name not in there and (name == fields.text or name not in _USUAL)]
    if missing:
        name = min(missing)
        if name == fields.text and name in row.values and row.values[name] is None:
            raise DataError(
                f"the field {name!r} is empty",
                path=row.path,
                line=row.line,
                expected="a text",
                hint=_SKIP,
            )
        raise DataError(
            f"the field {name!r} is missing",
            path=row.path,
            line=row.line,
            found=show_names(row.values),
            hint=_which_flag(name, fields),
        )
    return there


def _which_flag(name: str, fields: Fields) -> str:
    """How to say which field holds what, in the words of the command line."""
    flags = {fields.id: "--id-field", fields.owner: "--owner-field", fields.text: "--text-field"}
    return f"name the field that is there with {flags[name]}" if name in flags else "name a field that is there"


def _uneven(row: Row, names: frozenset[str]) -> DataError:
    listed = ", ".join(repr(name) for name in sorted(names))
    return DataError(
        f"the field {listed} is in some records and not in others",
        path=row.path,
        line=row.line,
        expected="in every record, or in none",
        hint="a record without a value is not skipped and not guessed",
    )


def _record(row: Row, fields: Fields) -> Record:
    text = row.get(fields.text_of(row))
    if is_chat(text):
        text = chat_text(text)
    if not isinstance(text, str):
        raise _wrong_type(row, fields.text_of(row), "a string, or a list of messages with roles and contents")
    if not text.strip():
        raise DataError(
            "the text is empty",
            path=row.path,
            line=row.line,
            hint=_SKIP,
        )
    if not _is_unicode(text):
        raise DataError("the text holds half a surrogate pair: it is not Unicode", path=row.path, line=row.line)
    identity = _name(row, fields.id) or f"line {row.line}"
    owner = _name(row, fields.owner, of_list=_ONE_OWNER)
    return Record(identity, text, owner=owner or identity, spans=_spans(row, fields, len(text)))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _name(row: Row, field: str, *, of_list: str | None = None) -> str:
    """An id or owner as a string, "" where there is none; `of_list` is what to do with a list."""
    value = row.get(field)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _wrong_type(
            row, field, "a string or a whole number", hint=of_list if isinstance(value, list) else None
        )
    name = str(value)
    if not name.strip() or not _is_unicode(name):
        raise DataError(f"the field {field!r} is empty or not Unicode", path=row.path, line=row.line)
    return name


def _wrong_type(row: Row, field: str, expected: str, *, hint: str | None = None) -> DataError:
    return DataError(
        f"the field {field!r} has the wrong type",
        path=row.path,
        line=row.line,
        found=type_name(row.get(field)),
        expected=expected,
        hint=hint,
    )


def _spans(row: Row, fields: Fields, length: int) -> tuple[Span, ...]:
    """The row's spans, sorted: a list of objects, or (CSV) the same as a JSON string."""
    value = row.get(fields.spans)
    if isinstance(value, str):
        value = parse_json(value, path=row.path, line=row.line, what=f"the field {fields.spans!r}")
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _wrong_type(row, fields.spans, "a list of spans")
    return tuple(sorted(_span(entry, row, length) for entry in value))


def _span(entry: object, row: Row, length: int) -> Span:
    if not isinstance(entry, dict):
        raise DataError("a span is not an object", path=row.path, line=row.line, found=type_name(entry))
    start: Any = entry.get("start")
    end: Any = entry.get("end")
    kind = next((entry[name] for name in _KIND_NAMES if entry.get(name)), None)
    identifier = entry.get("identifier") or ""
    whole = all(isinstance(edge, int) and not isinstance(edge, bool) for edge in (start, end))
    if not whole or not isinstance(kind, str) or not isinstance(identifier, str):
        raise DataError(
            "a span lacks a part or has the wrong type",
            path=row.path,
            line=row.line,
            expected="whole numbers start and end, and a string type",
        )
    if not 0 <= start < end <= length:
        raise DataError(
            "a span is out of range",
            path=row.path,
            line=row.line,
            found=f"[{start}, {end})",
            expected=f"0 <= start < end <= {length}, in characters",
        )
    if identifier.lower() not in _IDENTIFIERS:
        raise DataError(
            "unknown identifier class of a span", path=row.path, line=row.line, expected="direct, quasi, none"
        )
    return Span(start, end, kind, _IDENTIFIERS[identifier.lower()])
