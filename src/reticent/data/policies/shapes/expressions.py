"""Regular expressions of the operator as a policy, in linear time (`core.linear_regex`).

A group named `secret` marks the part of a match that is sensitive; without one it is the whole match. An expression
may read what stands around a span, so the policy is not taken to be local.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reticent.core.corpus import Span
from reticent.core.errors import ConfigError, DataError
from reticent.core.linear_regex import linear_regex
from reticent.data.redaction.masking import merge_spans

_PART = "secret"


class Expressions:
    """Finds what any of the expressions matches; each has a kind."""

    is_local = False

    def __init__(self, expressions: Mapping[str, Sequence[str]], *, name: str = "expressions") -> None:
        """`expressions` gives for each kind what finds it."""
        if not any(expressions.values()):
            raise ConfigError("a policy of regular expressions needs at least one")
        self._sources = {kind: tuple(patterns) for kind, patterns in expressions.items()}
        self._compiled = [(kind, _compiled(pattern, kind)) for kind, ps in self._sources.items() for pattern in ps]
        self.kinds = tuple(self._sources)
        self.name = name
        self.reads_context = True

    def __repr__(self) -> str:
        return f"Expressions({self.name}, {len(self._compiled)} expressions)"

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process compiles its own."""
        return _rebuilt, (self._sources, self.name)

    @property
    def fingerprint(self) -> str:
        """The expressions themselves: they decide the findings."""
        return f"expressions {self._sources!r}"

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        return [merge_spans(self._found(text)) for text in texts]

    def _found(self, text: str) -> list[Span]:
        spans = []
        for kind, expression in self._compiled:
            part = expression.groupindex.get(_PART, 0)
            for match in expression.finditer(text):
                start, end = match.span(part)
                if start < end:
                    spans.append(Span(start, end, kind))
        return spans


def _rebuilt(sources: Mapping[str, Sequence[str]], name: str) -> Expressions:
    return Expressions(sources, name=name)


def _compiled(pattern: str, kind: str) -> Any:
    try:
        return linear_regex(pattern, purpose="policies of regular expressions")
    except ValueError as reason:
        raise ConfigError(
            f"the expression for {kind} cannot be compiled",
            found=str(reason),
            hint="RE2 has no look-around and no back-references; it runs in linear time for that",
        ) from None


def read_lines(path: Path) -> list[str]:
    """The lines of a list that an operator wrote."""
    try:
        return path.read_text(encoding="utf8").splitlines()
    except FileNotFoundError:
        raise DataError("no such file", path=path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError("cannot be read as UTF-8 text", path=path, found=type(error).__name__) from None


def read_expressions(path: Path) -> Expressions:
    """A file with a line `KIND<TAB>expression` for each; lines that start with # and empty lines are skipped."""
    expressions: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        kind, tab, pattern = line.partition("\t")
        if not tab or not kind.strip() or not pattern:
            raise DataError("a line needs a kind, a tab and an expression", path=path, line=number)
        expressions.setdefault(kind.strip(), []).append(pattern)
    if not expressions:
        raise DataError("no expressions", path=path, expected="lines of a kind, a tab and an expression")
    return Expressions(expressions, name=path.stem)
