"""Where a verb that rewrites a corpus may write: nowhere that something stands, and never over the corpus."""

from pathlib import Path

from reticent.core.errors import DataError


def require_apart(*places: Path | None, names: str) -> None:
    """Refuse one place under two names; `names` are the options, for the hint."""
    given = [place for place in places if place is not None]
    if len({place.absolute() for place in given}) < len(given):
        raise DataError("named twice", path=given[0], hint=f"{names} are different files")


def require_free(*places: Path | None, corpus: Path) -> None:
    """Refuse to overwrite; nobody is told to remove the corpus that is read."""
    for place in places:
        if place is None or not place.exists():
            continue
        if corpus.exists() and place.samefile(corpus):
            raise DataError("is the corpus itself", path=place, hint="choose another name")
        raise DataError("already exists", path=place, hint="choose another name, or remove it first")
