"""Findings of other people's taggers made fit for masking: whole words, no blanks at the edges, no overlaps.

Taggers on sub-words return "Kl" of "Klein", or " Klein\\n" with the blanks beside it; several recognisers return
the same characters twice. Masking "Kl" leaves "ein" in clear, and two findings of one secret count it twice. So
every finding loses the blanks at its edges, grows to the edges of the words it touches, and is merged with what it
overlaps.
"""

from collections.abc import Iterable

from reticent.core.corpus import Span
from reticent.data.redaction.masking import merge_spans


def whole_words(text: str, spans: Iterable[Span]) -> tuple[Span, ...]:
    """Sorted, non-overlapping spans of whole words that cover every visible character of `spans`."""
    grown = []
    for span in spans:
        start, end = span.start, min(span.end, len(text))
        while start < end and text[start].isspace():
            start += 1
        while start < end and text[end - 1].isspace():
            end -= 1
        if start == end:
            continue
        while start > 0 and text[start].isalnum() and text[start - 1].isalnum():
            start -= 1
        while end < len(text) and text[end - 1].isalnum() and text[end].isalnum():
            end += 1
        grown.append(Span(start, end, span.kind, span.identifier))
    return merge_spans(grown)
