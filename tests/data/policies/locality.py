"""The check of locality that several policies share."""

from reticent.core.corpus import Policy
from reticent.data.redaction.masking import MASK


def broken_locality(policy: Policy, text: str) -> list[tuple[int, int]]:
    """Places of spans whose masking changes what is found elsewhere; empty for a local policy."""
    (spans,) = policy.find([text])
    broken = []
    for masked in spans:
        shift = len(MASK) - (masked.end - masked.start)
        (after,) = policy.find([text[: masked.start] + MASK + text[masked.end :]])
        moved = [
            (s.start + shift * (s.start > masked.start), s.end + shift * (s.start > masked.start))
            for s in spans
            if s != masked
        ]
        if [(s.start, s.end) for s in after] != moved:
            broken.append((masked.start, masked.end))
    return broken
