"""Words of a page as markup: a flag is code, a word of the glossary a link to it; all else is escaped."""

import re
from typing import Final

from markupsafe import Markup, escape

from reticent.core.printing.safe_text import for_terminal
from reticent.reporting.sections.glossary import anchor_of

# How the words of a page, in any number, name a term; the longer before the shorter.
_SPELLED: Final = {
    "false-positive rate": r"false-positive rates?|false positives?",
    "proved at most": r"ceilings?",
    "perplexity": r"perplexit(?:y|ies)",
    "exposure": r"exposures?",
    "interval": r"intervals?|[Cc]onfidence",
    "canary": r"[Cc]anar(?:y|ies)|planted (?:secret|code|number)s?",
    "member": r"members?",
    "bits": r"bits?",
    "AUC": r"AUC",
    "ε (epsilon)": "ε",
    "δ (delta)": "δ",
}
# A flag is code, with the method that it names, and never broken across lines; a word of the glossary is a link,
# once in a paragraph.
_FLAG: Final = re.compile(r"(?<![\w-])(?P<flag>--method [a-z-]*[a-z]|--[a-z][a-z-]*[a-z])")
_TERMS: Final = "|".join(f"(?P<t{place}>{spelled})" for place, spelled in enumerate(_SPELLED.values()))
_MARKED: Final = re.compile(rf"{_FLAG.pattern}|(?<![\w-])(?:{_TERMS})(?![\w-])")


def flagged(text: str) -> Markup:
    """The text with its flags as code."""
    return _marked(text, _FLAG)


def linked(text: str) -> Markup:
    """The text with its flags as code, and the first use of each word of the glossary as a link to it."""
    return _marked(text, _MARKED)


def _marked(text: str, pattern: re.Pattern[str]) -> Markup:
    pieces, last, seen = [], 0, set[str]()
    text = for_terminal(str(text))
    for found in pattern.finditer(text):
        kind, word = found.lastgroup or "", escape(found.group())
        if kind in seen:
            continue
        pieces.append(escape(text[last : found.start()]))
        if kind == "flag":
            pieces.append(Markup("<code>{}</code>").format(word))
        else:
            seen.add(kind)
            anchor = anchor_of(list(_SPELLED)[int(kind[1:])])
            pieces.append(Markup('<a class="term" href="#{}">{}</a>').format(anchor, word))
        last = found.end()
    return Markup("").join([*pieces, escape(text[last:])])
