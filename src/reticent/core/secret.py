"""Sensitive strings whose `repr` is masked, the spaces they are drawn from, and canaries we plant.

A secret shows itself only through `reveal()`. Files refer to a planted one by its canary's name, never by a hash:
a hash of a six-digit number is the number, since whoever has the file can try all 10^6.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from reticent.core.randomness import Randomness


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A sensitive string with its kind ("phone", "name", "code"); masked in every `repr` and `str`."""

    value: str
    kind: str

    def __repr__(self) -> str:
        return f"Secret({self.kind}, {len(self.value)} characters)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def reveal(self) -> str:
        """The string itself. Call it only where the operator asked to see or use it."""
        return self.value


@runtime_checkable
class SecretSpace(Protocol):
    """The set a secret is drawn from uniformly: what an attacker knows before the attack."""

    @property
    def size(self) -> int:
        """Number of candidates."""
        ...

    def __iter__(self) -> Iterator[str]: ...

    def __contains__(self, candidate: object) -> bool: ...

    def sample(self, randomness: Randomness) -> str:
        """One candidate, uniformly."""
        ...


@dataclass(frozen=True, slots=True)
class CodeSpace:
    """All strings of `length` symbols over `alphabet`; 10 digits and length 6 make 10^6 codes."""

    length: int
    alphabet: str = "0123456789"

    def __post_init__(self) -> None:
        if self.length < 1 or not self.alphabet or len(set(self.alphabet)) != len(self.alphabet):
            raise ValueError("a code space needs a positive length and distinct symbols")

    @property
    def size(self) -> int:
        """Number of codes."""
        return int(len(self.alphabet) ** self.length)

    def __iter__(self) -> Iterator[str]:
        for index in range(self.size):
            yield self.code(index)

    def __contains__(self, candidate: object) -> bool:
        return isinstance(candidate, str) and len(candidate) == self.length and set(candidate) <= set(self.alphabet)

    def code(self, index: int) -> str:
        """The code at `index` in lexicographic order of the alphabet."""
        symbols = []
        for _ in range(self.length):
            index, digit = divmod(index, len(self.alphabet))
            symbols.append(self.alphabet[digit])
        return "".join(reversed(symbols))

    def sample(self, randomness: Randomness) -> str:
        """One code, uniformly, symbol by symbol (the space may be larger than 64 bits)."""
        digits = randomness.integers(len(self.alphabet), self.length)
        return "".join(self.alphabet[int(digit)] for digit in digits)


@dataclass(frozen=True, slots=True, repr=False)
class ListedSpace:
    """An explicit list of candidates, such as names or phrases."""

    candidates: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.candidates or len(set(self.candidates)) != len(self.candidates):
            raise ValueError("a listed space needs distinct candidates")

    def __repr__(self) -> str:
        return f"ListedSpace({len(self.candidates)} candidates)"

    @property
    def size(self) -> int:
        """Number of candidates."""
        return len(self.candidates)

    def __iter__(self) -> Iterator[str]:
        return iter(self.candidates)

    def __contains__(self, candidate: object) -> bool:
        return candidate in self.candidates

    def sample(self, randomness: Randomness) -> str:
        """One candidate, uniformly."""
        return self.candidates[int(randomness.integers(self.size, 1)[0])]


PLACEHOLDER = "{}"


@dataclass(frozen=True, slots=True)
class Canary:
    """A secret we planted: where it stands (`template`), what it was drawn from, how often it was planted."""

    name: str
    template: str
    secret: Secret
    space: SecretSpace
    copies: int

    def __post_init__(self) -> None:
        if self.template.count(PLACEHOLDER) != 1:
            raise ValueError(f"a canary's template needs exactly one {PLACEHOLDER}")
        if self.secret.value not in self.space:
            raise ValueError("a canary's secret must be a member of its space")

    @property
    def bits(self) -> float:
        """Secrecy before the attack: log2 of the size of the space."""
        return math.log2(self.space.size)

    @property
    def prefix(self) -> str:
        """What stands before the secret."""
        return self.template.split(PLACEHOLDER)[0]

    @property
    def suffix(self) -> str:
        """What stands after the secret."""
        return self.template.split(PLACEHOLDER)[1]

    def text(self, candidate: str | None = None) -> str:
        """The planted text, or the same text with another candidate in the secret's place."""
        return self.template.replace(PLACEHOLDER, self.secret.value if candidate is None else candidate)
