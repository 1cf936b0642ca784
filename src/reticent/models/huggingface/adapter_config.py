"""What an adapter's configuration may ask of PEFT: names of modules, and patterns that cannot hang.

PEFT runs the strings of this file as regular expressions over the names of all modules, by an engine that may
backtrack for ever, or letter by letter where it expects a list. So lists hold plain names here, and a pattern of
target modules is matched by RE2, in linear time: PEFT gets the names that it matches.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from reticent.core.errors import ModelError
from reticent.core.linear_regex import linear_regex

ALL_LINEAR: Final = "all-linear"
_PLAIN: Final = re.compile(r"\^?[\w.\-]{1,300}")
_MATCHED: Final = ("target_modules", "exclude_modules")  # may be one pattern
_NAMES: Final = (
    *_MATCHED,
    "modules_to_save",
    "layers_pattern",
    "target_parameters",
    "rank_pattern",
    "alpha_pattern",
)
_MOST: Final = 10_000  # names
MOST_LAYERS: Final = 1000  # a configuration is believed before its weights are seen: a billion layers never end


def check_adapter_config(document: dict[str, Any], path: Path) -> None:
    """Refuse lists of anything but plain names, and layers repeated without end."""
    for key in _NAMES:
        value = document.get(key)
        if value is None or (isinstance(value, str) and key in _MATCHED):
            continue
        names = [value] if isinstance(value, str) and key == "layers_pattern" else value
        if not isinstance(names, list | dict) or len(names) > _MOST or not all(map(_is_plain, names)):
            raise ModelError(
                f"{path}: '{key}' is no list of module names",
                expected="names of letters, digits, dots, dashes and underscores",
                hint="write out the names of the modules",
            )
    repeated = document.get("layer_replication")
    if repeated is not None and not _is_short(repeated):
        raise ModelError(f"{path}: 'layer_replication' is no short list of ranges of layers")


def resolved_modules(document: dict[str, Any], names: Iterable[str], path: Path) -> dict[str, list[str]]:
    """For each pattern of the configuration, the names that it matches; nothing where there is no pattern.

    Guarantee: time is linear in the names, whatever the pattern.
    """
    found = {}
    for key in _MATCHED:
        pattern = document.get(key)
        if isinstance(pattern, str) and pattern not in ("", ALL_LINEAR):
            try:
                compiled = linear_regex(pattern, purpose="an adapter whose modules are named by an expression")
            except ValueError:  # a surrogate in it is one too
                raise ModelError(
                    f"{path}: '{key}' is no expression that runs in linear time",
                    hint="write out the names of the modules",
                ) from None
            found[key] = [name for name in names if compiled.fullmatch(name)]
    return found


def _is_plain(name: object) -> bool:
    return isinstance(name, str) and _PLAIN.fullmatch(name) is not None


def _is_short(ranges: object) -> bool:
    """Whether these are (first, last) pairs of at most a thousand layers in all."""
    if not isinstance(ranges, list) or len(ranges) > MOST_LAYERS:
        return False
    pairs = [each for each in ranges if isinstance(each, list) and len(each) == 2]
    if len(pairs) < len(ranges) or not all(type(end) is int for pair in pairs for end in pair):
        return False
    return all(0 <= first <= last for first, last in pairs) and sum(b - a for a, b in pairs) <= MOST_LAYERS
