"""A cautious policy: runs of words with a capital letter or a digit, whatever they mean.

In English nearly every name, place, organisation, date, code and sum is such a run: "Mr Edgar Klein", "Moers
District Court (Amtsgericht)", "31 May 1991", "80 DEM". Much that is harmless is one too; precision is the price,
and `measurement` states it. Meant for the conservative policy of confidentially redacted training, and for unions.

A run is as long as it can be: such words, joined by blanks, hyphens, full stops of initials, slashes or brackets,
or by up to two joining words ("of the", "de", "van"). Words of grammar ("The", "In", "However") are no names: they
are not taken at the edges of a run, nor alone. The list is fixed, so that nothing depends on where a sentence
starts.

Local: a run is decided by its own characters and by whether what stands beside it could prolong it, which a mask
never can. Does not find names that are written in small letters: a dictionary does.
"""

import re
from collections.abc import Sequence

from reticent.core.corpus import Span
from reticent.data.policies.shapes import circumstances, patterns
from reticent.data.redaction.masking import MASK, mask_for

CAPITALS = "CAPITALS"

_WORD = re.compile(r"[^\W_]+(?:['’_][^\W_]+)*")
# What may stand between two words of a run: blanks (and a single line break), and the marks names are written with.
_BETWEEN = re.compile(
    r"[.)”\"’']?,?(?:[ \u00a0]{0,2}|\.)"  # blanks, after a full stop, a closing mark or a comma
    r"|\.?[ \u00a0]?[-‑–/&.§][ \u00a0]?"
    r"|[.,]?[ \u00a0]?[(\[“\"‘'][ \u00a0]?"
    r"|[.,](?=\d)"
)
_CLOSING = {")": "(", "]": "[", "”": "“"}
_JOINED = "of the and for de la le du des del della di da dos van von der den zu zum al el bin ben y e i"
_JOINING = frozenset(_JOINED.split())
# Words of grammar, of court routine and of address that start sentences or stand in names of nothing in particular.
_GRAMMAR_WORDS = """
a about above according accordingly additionally admittedly after afterwards again all also although among an and
another any are as assuming at be because been before being below besides between both but by can concerning
consequently considering could currently despite did do does done due during each either even eventually every
finally first firstly following for from further furthermore given had has have having he hence her here him his how
however i if in indeed instead into is it its itself last lastly later likewise many may meanwhile moreover most my
nevertheless no none nor not notwithstanding now of on once one only or other others otherwise our out over
particularly please previously provided rather referring regarding relying second secondly shall she should
similarly since so some still subsequently such than that the their them then there thereafter thereby therefore
these they third thirdly this those though through thus to today together turning two under unfortunately unless
until up upon was we were what when where whereas whereby whether which while who whom whose why will with within
without would yes yet you your
"""
# Words of the law and its procedure: a run of nothing but these and short numbers names nobody.
_LEGAL = """
act acts additional administrative agent agents annex appeal appellate application applications article articles
assembly assize authorities bar cassation chamber chancellor chapter circumstances civil code committee commission
complaint constitution constitutional contracting convention conclusion costs council court courts criminal damage
default delegates department deputy district division domestic enforcement european expenses facts federal first
freedoms fundamental government governments grand ground grounds high human instance interest interior
introduction judge judgment judgments judges judicial justice just law laws merits minister ministers ministry
municipal national no nos non note office operative order paragraph parliament parties party pecuniary penal
police practice preliminary president prime procedure proceedings prosecutor prosecutors protection protocol
protocols provisions public reasons regional registrar registry regulation regulations relevant republic
respondent rights rule rules satisfaction secretary section sections senate series state states supreme treaty
tribunal unanimously union vice v
"""
_GRAMMAR = frozenset(_GRAMMAR_WORDS.split())
LEGAL_WORDS = frozenset(_LEGAL.split())
_NUMERAL = re.compile(r"\d{1,2}|[ivxabc]{1,4}")


class CapitalRuns:
    """Finds runs of words with a capital letter or a digit; `digits=False` leaves words of digits alone out.

    With `ordinary` words (in small letters), runs of these, words of grammar and short numerals alone are left.
    """

    is_local = True

    def __init__(
        self, *, digits: bool = True, ordinary: frozenset[str] = frozenset(), kind: str = CAPITALS
    ) -> None:
        self._digits = digits
        self._ordinary = ordinary
        self._kind = kind
        self.kinds = (kind,)
        masks = (MASK, *(mask_for(known) for known in (kind, *patterns.KINDS, *circumstances.KINDS)))
        self._masks = re.compile("|".join(map(re.escape, masks)))
        self.name = "capitals" if digits else "capitals without numbers"

    def __repr__(self) -> str:
        return f"CapitalRuns({self.name})"

    @property
    def fingerprint(self) -> str:
        """Names what decides the findings, together with the version of the code."""
        return f"capitals {self._digits} {self._kind} {','.join(sorted(self._ordinary))}"

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text.

        Guarantee: masking one of them leaves the others as they are, in the same places of the rest.
        """
        return [self._find(text) for text in texts]

    def _find(self, text: str) -> tuple[Span, ...]:
        if "<" in text:
            text = self._masks.sub(lambda mask: "<" * len(mask.group()), text)
        spans: list[Span] = []
        run: list[tuple[int, int]] = []  # words of the current run; joining words wait in `waiting`
        waiting = 0
        last = 0
        for match in _WORD.finditer(text):
            start, end = match.span()
            word = match.group()
            if run and not _BETWEEN.fullmatch(text, last, start):
                self._close(text, run, spans)
                run, waiting = [], 0
            last = end
            if self._is_sensitive(word):
                run.append((start, end))
                waiting = 0
            elif run and word in _JOINING and waiting < 2:
                waiting += 1
            elif run:
                self._close(text, run, spans)
                run, waiting = [], 0
        if run:
            self._close(text, run, spans)
        return tuple(spans)

    def _is_sensitive(self, word: str) -> bool:
        if any(symbol.isupper() for symbol in word):
            return True
        return self._digits and any(symbol.isdigit() for symbol in word)

    def _close(self, text: str, run: list[tuple[int, int]], spans: list[Span]) -> None:
        """Keep the run without words of grammar at its edges."""
        first, last = 0, len(run) - 1
        while first <= last and text[slice(*run[first])].lower() in _GRAMMAR:
            first += 1
        while first <= last and text[slice(*run[last])].lower() in _GRAMMAR:
            last -= 1
        if first <= last and not self._is_ordinary([text[slice(*word)].lower() for word in run[first : last + 1]]):
            start, end = run[first][0], run[last][1]
            if text[end : end + 1] == "." and text[end - 1 : end].isupper() and end - run[last][0] == 1:
                end += 1  # the full stop of an initial
            while (closing := text[end : end + 1]) in _CLOSING:
                inside = text[start:end]
                if inside.count(_CLOSING[closing]) <= inside.count(closing):
                    if text[start - 1 : start] != _CLOSING[closing]:
                        break
                    start -= 1
                end += 1
            spans.append(Span(start, end, self._kind))

    def _is_ordinary(self, words: list[str]) -> bool:
        """Whether nothing in a run names anybody. True of every piece of such a run too: what another policy masks
        of it leaves nothing to be found in the rest."""
        if not self._ordinary:
            return False
        return all(word in self._ordinary or word in _GRAMMAR or _NUMERAL.fullmatch(word) for word in words)
