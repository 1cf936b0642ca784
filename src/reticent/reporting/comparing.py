"""Findings beside a guarantee, counted: how many could refute it, how many do, and why the others cannot."""

from collections import Counter
from collections.abc import Sequence

from reticent.core.finding import Comparison, Verdict


def comparison_sentences(comparisons: Sequence[Comparison]) -> str:
    """Of the findings that could refute the guarantee, how many do; then what was not counted, and why.

    A vacuous ceiling and a missing one are never counted: no finding could have been above them.
    """
    counts = Counter(one.verdict for one in comparisons)
    refuted, comparable = counts[Verdict.REFUTED], counts[Verdict.REFUTED] + counts[Verdict.CONSISTENT]
    first = "No finding could have refuted the guarantee."
    if comparable:
        verb = "refutes" if refuted == 1 else "refute"
        first = f"{refuted} of {comparable} comparable findings {verb} the guarantee."
        if comparable == 1:
            first = f"The one comparable finding {'refutes' if refuted else 'does not refute'} the guarantee."
    left_out = []
    if vacuous := counts[Verdict.VACUOUS]:
        left_out.append(f"{vacuous} with a vacuous ceiling (one that allows everything)")
    if missing := counts[Verdict.NOT_COMPARABLE]:
        reasons = Counter(one.why_not for one in comparisons if one.verdict is Verdict.NOT_COMPARABLE)
        why = "; ".join(f"{count}: {reason}" for reason, count in reasons.most_common())
        left_out.append(f"{missing} not comparable ({why})")
    return f"{first} Not counted: {', and '.join(left_out)}." if left_out else first
