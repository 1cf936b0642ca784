"""Corpora as runs are told of them: a path and the names of its fields; and how two corpora may differ."""

from enum import StrEnum
from pathlib import Path

from reticent.core.errors import ConfigError
from reticent.data.reading.corpus_file import CorpusFile, open_corpus
from reticent.data.reading.formats import Fields, Format


class Relation(StrEnum):
    """How two corpora that must look alike may differ."""

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"


def corpus_at(
    path: Path, *, text: str, id: str, owner: str, format: Format | None, skip_empty: bool = False
) -> CorpusFile:
    """The corpus that the shared options describe."""
    try:
        fields = Fields(text=text, id=id, owner=owner)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return open_corpus(path, fields=fields, format=format, skip_empty=skip_empty)
