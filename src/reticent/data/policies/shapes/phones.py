"""Phone numbers by Google's libphonenumber: numbering plans of every country, where patterns know only shapes.

A number without a country code is tried for each of `regions`. Not local: the matcher looks at what stands around a
candidate (a number beside a currency sign, or within a longer run of digits, is refused).
"""

from collections.abc import Sequence

from reticent.core.corpus import Span
from reticent.core.extras import optional_imports
from reticent.data.policies.taggers.word_edges import whole_words

REGIONS = ("US", "GB", "DE", "FR")


class PhoneNumbers:
    """Finds numbers that are valid, or only `possible`, in a region's plan."""

    is_local = False
    name = "phonenumbers"
    kinds = ("PHONE",)

    def __init__(self, regions: Sequence[str] = REGIONS, *, possible: bool = False) -> None:
        with optional_imports("the policy 'phonenumbers'"):
            import phonenumbers
        unknown = sorted(set(regions) - set(phonenumbers.SUPPORTED_REGIONS))
        if unknown or not regions:
            raise ValueError(f"regions are two-letter country codes such as US, found {unknown}")
        self._regions = tuple(regions)
        self._possible = possible

    def __repr__(self) -> str:
        return f"PhoneNumbers({', '.join(self._regions)})"

    @property
    def fingerprint(self) -> str:
        """Names what decides the findings."""
        from importlib.metadata import version

        return f"phonenumbers {version('phonenumbers')} {','.join(self._regions)} {self._possible}"

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        from phonenumbers import Leniency, PhoneNumberMatcher

        leniency = Leniency.POSSIBLE if self._possible else Leniency.VALID
        return [
            whole_words(
                text,
                (
                    Span(match.start, match.end, "PHONE")
                    for region in self._regions
                    for match in PhoneNumberMatcher(text, region, leniency=leniency)
                ),
            )
            for text in texts
        ]
