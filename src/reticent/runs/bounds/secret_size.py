"""Secrets described in words and how many bits they have: "16 digits", "4 letters", "9 hex digits", "1 of 5000"."""

import math
import re

from reticent.core.errors import ConfigError

_ALPHABETS = {
    "digit": 10,
    "letter": 26,
    "hex digit": 16,
    "letter or digit": 36,
    "character": 95,
    "bit": 2,
    "byte": 256,
}
_COUNTED = re.compile(r"(\d+)\s+(" + "|".join(sorted(_ALPHABETS, key=len, reverse=True)) + r")s?")
_CHOSEN = re.compile(r"1 of (\d[\d,_]*)")


def bits_of(description: str) -> float:
    """log2 of the number of equally likely secrets that the words describe."""
    words = " ".join(description.lower().split())
    if counted := _COUNTED.fullmatch(words):
        return int(counted[1]) * math.log2(_ALPHABETS[counted[2]])
    if chosen := _CHOSEN.fullmatch(words):
        return math.log2(int(re.sub("[,_]", "", chosen[1])))
    kinds = ", ".join(f"{kind}s" for kind in _ALPHABETS)
    raise ConfigError(
        "cannot tell how many bits this secret has", found=repr(description), expected=f"N {kinds}, or 1 of M"
    )


def parse_bits(listed: str) -> list[float]:
    """Comma-separated numbers of bits."""
    try:
        bits = [float(part) for part in listed.split(",") if part.strip()]
    except ValueError:
        raise ConfigError(
            "--secret-bits is a list of numbers", found=repr(listed), expected="20,53.15,60"
        ) from None
    if not bits or not all(0.0 < b <= 1e4 for b in bits):
        raise ConfigError("a secret has between 0 and 10,000 bits", found=repr(listed))
    return bits
