"""The one error tree.

    ReticentError
    ├── UsageError            the caller must fix something: one line with a hint, exit code 2
    │   ├── ConfigError       a configuration file, flag or combination of them; TargetOutOfReach
    │   ├── DataError         a corpus: names file and line, never shows the text
    │   ├── ModelError        a model that cannot be loaded or does not fit the request
    │   ├── AccessError       an attack needs more access than the model grants
    │   ├── LedgerError       a ledger that is missing, truncated, rolled back or edited; LedgerExists
    │   ├── GuaranteeError    a guarantee that does not follow from its event, or belongs to other weights
    │   └── MissingExtra      an optional dependency, with the exact install command
    ├── BudgetExhausted       a charge that would exceed the budget, refused before the release: exit code 3
    ├── UnsupportedEvent      an event that an accountant cannot price: never guessed
    ├── NotComparable         a finding and a guarantee that speak of different things
    └── InternalError         our bug

A message says what, where, found, expected, and what to do; it never contains corpus text.
"""

from pathlib import Path


class ReticentError(Exception):
    """Root of every error that reticent raises on purpose.

    >>> issubclass(reticent.UsageError, reticent.ReticentError)
    True
    """


class UsageError(ReticentError):
    """Something the caller can fix: `what`, optionally what was found and expected, and a hint.

    >>> try:
    ...     reticent.train("mails.jsonl", model="embedded", method="dp-sgd", out="nowhere")
    ... except reticent.UsageError as error:
    ...     print(error.hint)
    --target-epsilon 8 lets the noise be calibrated; --noise-multiplier 1.0 fixes it
    """

    def __init__(
        self, what: str, *, found: object = None, expected: str | None = None, hint: str | None = None
    ) -> None:
        self.what = what
        self.found = found
        self.expected = expected
        self.hint = hint
        super().__init__(self.line())

    def line(self) -> str:
        """The error as one line without the hint."""
        parts = [self.what]
        if self.found is not None:
            parts.append(f"found {self.found}")
        if self.expected is not None:
            parts.append(f"expected {self.expected}")
        return "; ".join(parts)


class ConfigError(UsageError):
    """A configuration file, a flag, or a combination of them that the caller must change."""


class TargetOutOfReach(ConfigError):
    """A limit on what may leak that no noise is proved to keep."""


class DataError(UsageError):
    """A corpus that cannot be read as asked. Names the file and the line, never the text."""

    def __init__(
        self,
        what: str,
        *,
        path: Path | str,
        line: int | None = None,
        found: object = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.path = Path(path)
        self.line_number = line
        where = str(path) if line is None else f"{path}:{line}"
        super().__init__(f"{where}: {what}", found=found, expected=expected, hint=hint)


class ModelError(UsageError):
    """A model that cannot be loaded or does not fit the request."""


class AccessError(UsageError):
    """An attack needs more access than the model grants."""


class LedgerError(UsageError):
    """A ledger that is missing, truncated, rolled back or edited; nothing may be released from it."""


class LedgerExists(LedgerError):
    """A new ledger was asked for where there is one."""


class GuaranteeError(UsageError):
    """A guarantee whose numbers do not follow from its event, or that was written for other weights."""


class MissingExtra(UsageError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, *, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed",
            hint=f"pip install 'reticent[{extra}]'",
        )


class BudgetExhausted(ReticentError):
    """A charge would exceed the budget. It was not spent and nothing was released.

    >>> issubclass(reticent.BudgetExhausted, reticent.ReticentError)
    True
    """


class UnsupportedEvent(ReticentError):
    """An event that this accountant cannot price. Fail closed: it is never guessed."""


class NotComparable(ReticentError):
    """A finding and a guarantee that speak of different things."""


class InternalError(ReticentError):
    """An invariant of ours does not hold: a bug in reticent."""
