"""Regular expressions of somebody else, by RE2: time is linear in the text whatever the expression.

A backtracking engine may take longer than the universe lasts over `(a+)+$`; RE2 (Cox 2010) runs every expression
as an automaton and refuses what no automaton can do (look-around, back-references).
"""

from typing import Any

from reticent.core.extras import optional_imports


def linear_regex(expression: str, *, purpose: str) -> Any:
    """The compiled expression; ValueError with RE2's reason where it has no automaton."""
    with optional_imports(purpose):
        import re2
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except re2.error as problem:
        reason = problem.args[0] if problem.args else ""
        told = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(told or "an error") from None
