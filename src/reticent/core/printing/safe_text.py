"""Text from outside made safe for the medium it is shown in: a terminal, JSON on a terminal, Markdown, HTML.

File names, labels, key names, run files and revealed text come from someone else. On a terminal an escape
sequence moves the cursor, sets the window's title or hides what follows; a bidirectional override (U+202E) shows
text in another order than it is stored; Markdown and HTML have markup of their own. Every medium first shows such
characters as visible escapes (`\\x1b`, `\\u202e`), then escapes its own markup, so that the text means itself.

Harmless text is unchanged on a terminal. Nothing here decides what may be shown: it only makes showing it safe.
"""

import html
import re
from typing import Final

# Controls of C0 and C1, DEL, soft hyphen, marks that reorder or join text, line separators, invisible operators,
# byte order mark, annotation and tag characters, lone surrogates and noncharacters.
_UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_UNSAFE_ON_LINES: Final = re.compile(_UNSAFE.pattern.replace("\x00-\x1f", "\x00-\x09\x0b-\x1f"))
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]|#~$!@])")
_AUTOMATIC_LINK: Final = re.compile(r"(?i)\b(https?|ftp|mailto|xmpp|www)([:.])")
_OPENS_BLOCK: Final = re.compile(r"^([-+=>]|\d+[.)])")
_BACKTICKS: Final = re.compile(r"`+")


def for_terminal(text: str) -> str:
    """Lines of text whose only control character is the line feed."""
    return _UNSAFE_ON_LINES.sub(_visible, text)


def on_one_line(text: str) -> str:
    """Text without any control character: for a cell of a table, a label, a log line."""
    return _UNSAFE.sub(_visible, text)


def for_json(document: str) -> str:
    """A JSON document that a terminal shows as it is: unsafe characters stand in strings alone, so as escapes."""
    return _UNSAFE_ON_LINES.sub(_json_escape, document)


def for_markdown(text: str) -> str:
    """Text on one line that means itself in Markdown: no link, image, heading, list, table or HTML comes of it."""
    flat = on_one_line(" ".join(text.split()))
    escaped = _MARKDOWN.sub(r"\\\1", flat).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = _AUTOMATIC_LINK.sub(r"\1\\\2", escaped)
    return _OPENS_BLOCK.sub(lambda found: found[0][:-1] + "\\" + found[0][-1], escaped)


def fenced(lines: tuple[str, ...], *, language: str) -> list[str]:
    """A code block of Markdown that none of its lines can end."""
    safe = [on_one_line(line) for line in lines]
    longest = max((len(run) for line in safe for run in _BACKTICKS.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence + language, *safe, fence]


def for_html(text: str) -> str:
    """Text that means itself in HTML, in an attribute too, and in labels of charts, which know some HTML."""
    return html.escape(for_terminal(text))


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
