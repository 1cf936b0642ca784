"""Policies by name: what `--policy` accepts.

patterns                    shapes with checksums: e-mails, phones, cards, order numbers, dates, ...
dictionary:FILE             phrases of a file, one a line, optionally `kind<TAB>phrase`
patterns,dictionary:FILE    what any of them finds
"""

from pathlib import Path

from reticent.core.corpus import Policy
from reticent.core.errors import ConfigError, DataError
from reticent.data.patterns import PatternPolicy
from reticent.data.policies import Dictionary, Union


def policy_named(name: str) -> Policy:
    """The policy that `name` describes."""
    parts = [part.strip() for part in name.split(",") if part.strip()]
    if not parts:
        raise ConfigError("--policy is empty", expected="patterns, dictionary:FILE, or several joined by commas")
    policies = [_single(part) for part in parts]
    return policies[0] if len(policies) == 1 else Union(policies)


def _single(name: str) -> Policy:
    if name == "patterns":
        return PatternPolicy()
    kind, _, argument = name.partition(":")
    if kind == "dictionary" and argument:
        return _dictionary(Path(argument))
    raise ConfigError("unknown policy", found=repr(name), expected="patterns or dictionary:FILE")


def _dictionary(path: Path) -> Dictionary:
    try:
        lines = path.read_text(encoding="utf8").splitlines()
    except FileNotFoundError:
        raise DataError("no such file", path=path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError("cannot be read as UTF-8 text", path=path, found=type(error).__name__) from None
    entries = {}
    for number, line in enumerate(lines, start=1):
        kind, tab, phrase = line.partition("\t")
        kind, phrase = (kind, phrase) if tab else ("LISTED", line)
        if not line.strip():
            continue
        if not any(character.isalnum() for character in phrase) or not kind.strip():
            raise DataError("an entry needs a kind and a phrase with a letter or digit", path=path, line=number)
        entries[phrase] = kind.strip()
    if not entries:
        raise DataError("no entries", path=path, expected="one phrase a line")
    return Dictionary(entries, name=path.stem)
