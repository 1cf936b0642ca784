"""Text from outside in every medium: what is shown means itself, whoever wrote it."""

import io
import json
import re
import unicodedata
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from reticent.cli.console import PlainColumn, table
from reticent.cli.main import run
from reticent.core.printing.safe_text import fenced, for_html, for_json, for_markdown, for_terminal, on_one_line

HOSTILE = (
    "[/x]",
    "[bold red]",
    "\x1b]0;owned\x07",
    "\x1b[2J\x9b31m",
    "abc\u202egpj.exe",
    "a\r\nb\tc",
    "```\n# heading\n<script>alert(1)</script>",
    "![x](https://evil.example/p.png)",
    "</script><img src=x onerror=alert(1)>",
    "| a | b |\n|---|---|",
    "\ud800 lone",
    "&lt;b&gt; &#x1b;",
    "1. one",
    "- item",
    "> quoted",
    "www.evil.example https://evil.example",
)
texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(alphabet="\x00\x1b\x9b\u202e\u200b\ud800[]()<>&`*_#|!~$-+=.:/\\\"'@ \n\r\tab1", max_size=40),
    st.text(max_size=40),
)


def is_unsafe(character: str) -> bool:
    """Controls, format characters and surrogates: what Unicode itself calls not printable."""
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def seen(text: str) -> str:
    """What a reader is meant to see of a text on one line."""
    return on_one_line(" ".join(text.split()))


@given(texts)
def test_a_terminal_gets_no_control_character_but_the_line_feed(text):
    shown = for_terminal(text)
    assert not [each for each in shown if each != "\n" and is_unsafe(each) and ord(each) < 0xE0080]
    assert on_one_line(shown).count("\n") == 0
    shown.encode("utf8")


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "S", "Zs")), max_size=40))
def test_harmless_text_is_unchanged_on_a_terminal(text):
    assert for_terminal(text) == on_one_line(text) == text


@given(texts)
def test_a_table_shows_any_text_as_it_is_written(text):
    stream = io.StringIO()
    console = Console(file=stream, width=400, force_terminal=True, color_system="truecolor")
    console.print(table(text, [text, "n"], [[text, 1]]))
    bold = re.compile(r"\x1b\[[013]?m")  # our own: the heading is bold
    assert not [each for each in bold.sub("", stream.getvalue()) if each != "\n" and is_unsafe(each)]
    if (shown := on_one_line(text)) and len(shown) < 100 and shown.isascii() and "  " not in shown:
        assert shown.strip() in bold.sub("", stream.getvalue())


@given(texts)
def test_json_for_a_terminal_says_the_same(text):
    document = for_json(json.dumps({"a": [text, {text: text}]}, ensure_ascii=False, indent=2))
    assert json.loads(document) == {"a": [text, {text: text}]}
    assert not [each for each in document if each != "\n" and is_unsafe(each) and ord(each) < 0xE0080]


def inline(markdown: str):
    """Text of the only paragraph, and the kinds of markup in it."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)
    kinds = [token.type for token in tokens]
    children = [child for token in tokens for child in token.children or ()]
    return kinds, {child.type for child in children}, "".join(child.content for child in children)


@given(texts)
def test_markdown_shows_any_text_as_one_paragraph_of_that_text(text):
    written = for_markdown(text)
    kinds, marks, content = inline(written)
    if seen(text):
        assert kinds == ["paragraph_open", "inline", "paragraph_close"]
        assert marks <= {"text", "text_special"}
        assert content == seen(text)
    assert not re.search(r"(?i)(https?|ftp)://|www\.", written)
    assert "|" not in re.sub(r"\\\\|\\\|", "", written)


@given(st.lists(texts, min_size=1, max_size=4).map(tuple))
def test_no_line_ends_the_code_block_it_stands_in(lines):
    tokens = MarkdownIt("commonmark").parse("\n".join(fenced(lines, language="sh")) + "\n")
    assert [token.type for token in tokens] == ["fence"]
    assert tokens[0].content == "".join(on_one_line(line) + "\n" for line in lines)


class Reader(HTMLParser):
    """What a browser makes of a page: elements and text."""

    def __init__(self):
        super().__init__()
        self.elements, self.said = [], ""

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.said += data


@given(texts)
def test_html_shows_any_text_as_text_and_in_attributes(text):
    reader = Reader()
    reader.feed(f'<p title="{for_html(text)}">{for_html(text)}</p>')
    reader.close()
    assert reader.elements == [("p", {"title": for_terminal(text)})]
    assert reader.said == for_terminal(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_progress_shows_any_name(text):
    class Task:
        description = text

    shown = PlainColumn("{task.description}").render(Task())
    assert shown.plain == on_one_line(text)
    assert not shown.spans


@pytest.mark.parametrize("name", ["\x1b]0;owned\x07.jsonl", "[/x].jsonl", "a\u202eb.jsonl"])
def test_an_error_shows_the_name_of_a_file_harmlessly(name, tmp_path, capsys):
    assert run(["scan", str(tmp_path / name)]) == 2
    line = capsys.readouterr().err
    assert on_one_line(name) in line
    assert not [each for each in line.rstrip("\n") if is_unsafe(each)]


@pytest.mark.parametrize("name", ["[/x]", "[bold]", "\x1b]0;owned\x07", "a\u202eb"])
def test_the_name_of_a_key_and_the_kind_of_a_label_are_shown_as_they_are_written(name, tmp_path, capsys):
    """Rich took "[/x]" for the end of a style and ended in a traceback; a terminal obeys what follows an escape."""
    keys, labelled = str(tmp_path / "keys.json"), tmp_path / "labelled.jsonl"
    span = {"start": 5, "end": 17, "kind": name}
    labelled.write_text(json.dumps({"id": "1", "text": "call 555-010-0199", "spans": [span]}) + "\n")
    added = 0 if name.isprintable() else 2  # a key is not called by characters that nobody sees
    for arguments, code, says in (
        (["keys", "add", name, "--file", keys], added, False),
        (["keys", "list", "--file", keys], added, added == 0),
        (["scan", str(labelled), "--labels", "--policy", "patterns"], 0, True),
    ):
        assert run(arguments) == code
        shown = capsys.readouterr()
        assert not [each for each in (shown.out + shown.err) if each != "\n" and is_unsafe(each)]
        assert not says or on_one_line(name).lower() in shown.out.lower()
