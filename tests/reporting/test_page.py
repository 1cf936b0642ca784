"""The page and the Markdown: whole, self-contained, escaped, and never reassuring."""

import json
import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from reticent.reporting.markdown import render_markdown
from reticent.reporting.outline import headline, sections
from reticent.reporting.page import render_page
from tests.reporting.sample_reports import bare_run, finding, full_run, origin, report, risk_map

MEGABYTES = 6_000_000
KEYS = ["verdicts", "limits", "proved", "risk", "roc", "exposure", "extraction", "leakage", "budget", "records"]
KEYS += ["policies", "update", "findings", "untested", "reproduce"]


@pytest.fixture(scope="module")
def page():
    return render_page(report())


def own_markup(page: str) -> str:
    """The page without the charting library."""
    scripts = re.findall(r"<script>.*?</script>", page, flags=re.DOTALL)
    longest = max(scripts, key=len)
    assert len(longest) > 4_000_000
    return page.replace(longest, "")


def test_every_section_stands_in_its_order_and_in_the_contents(page):
    assert [section.key for section in sections(report())] == KEYS
    places = [page.index(f'<section id="{key}"') for key in KEYS]
    assert places == sorted(places)
    assert all(f'href="#{key}"' in page for key in KEYS)


def test_the_page_is_one_file_under_six_megabytes_that_may_not_ask_the_network(page):
    assert len(page.encode("utf8")) < MEGABYTES
    assert "default-src 'none'" in page
    own = own_markup(page)
    assert not re.search(r"https?://", own)
    assert not re.search(r'<(script|link|img|iframe)[^>]*\s(src|href)="(?!data:)', own)


def test_a_large_risk_map_stays_under_six_megabytes():
    group = risk_map().group("training")
    many = tuple(replace(one, id=f"{one.id}-{copy}") for copy in range(60) for one in group.points)
    groups = (replace(group, points=many), replace(group, name="held-out", points=many))
    runs = [full_run(f"run-{place}", risk_map=replace(risk_map(), groups=groups)) for place in range(2)]
    assert len(many) == 2400
    assert len(render_page(report(*runs)).encode("utf8")) < MEGABYTES


def test_what_was_not_measured_is_told_with_its_reason():
    bare = report(bare_run())
    own = own_markup(render_page(bare))
    assert own.count("Nobody asked for it.") >= 6
    assert "no data" in render_markdown(bare)
    assert [section.key for section in sections(bare)] == KEYS


@pytest.mark.parametrize("made", [report(), report(bare_run()), report(full_run(), bare_run())])
def test_nothing_ever_says_safe(made):
    for text in (own_markup(render_page(made)), render_markdown(made)):
        visible = re.sub(r"<(style|script).*?</\1>", "", text, flags=re.DOTALL)
        assert not re.search(r"\b(safe|secure|no leak(s|age)? found)\b", visible, flags=re.IGNORECASE)


def test_text_of_a_run_cannot_become_markup():
    nasty = '<img src=x onerror="alert(1)"></script><b>'
    group = risk_map().groups[0]
    points = (replace(group.points[0], id=nasty), *group.points[1:])
    drawn = replace(risk_map(), groups=(replace(group, points=points), risk_map().groups[1]))
    found = finding(nasty, attack=nasty, void=nasty, notes=(nasty,))
    run = full_run(nasty, model=nasty, risk_map=drawn, findings=(found,), comparisons=(), notes=(nasty,))
    own = own_markup(render_page(report(run)))
    assert "<img src=x" not in own
    assert "</script><b>" not in own
    figures = json.loads(re.search(r'id="figures">(.*?)</script>', own, flags=re.DOTALL)[1])
    hovers = [trace["customdata"] for trace in figures["risk-0"]["data"]]
    assert nasty[:4] not in str(hovers)
    assert "&lt;img" in str(hovers)
    assert "<img src=x" not in render_markdown(report(run))


def test_every_chart_has_words_and_a_table(page):
    own = own_markup(page)
    plots = re.findall(
        r'class="plot" id="([\w-]+)" role="img" aria-labelledby="[\w-]+" aria-describedby="([\w-]+)"', own
    )
    assert [key for key, _ in plots] == ["risk-0", "roc-0", "exposure-0", "extraction-0", "leakage-0", "budget-0"]
    for key, words in plots:
        assert f'id="{words}">' in own
        assert f'id="{key}-data-caption"' in own


def test_several_runs_stand_side_by_side():
    made = report(full_run("first"), full_run("second"), bare_run("third"))
    assert sections(made)[0].key == "runs"
    table = sections(made)[0].blocks[0]
    assert table.columns == ("metric", "first", "second", "third")
    own = own_markup(render_page(made))
    assert 'id="roc-1"' in own
    assert "<h3>third</h3>" in own
    assert "3.2 (2.9–3.6, n = 10 tokens)" in own


def test_the_headline_counts_and_a_refutation_leads():
    assert headline(report()) == "2 of 4 findings lie above chance; 1 is void. 1 of 1 limits failed (1 exceeded)."
    run = full_run()
    low = replace(run.comparisons[0], ceiling=0.55)
    assert headline(report(replace(run, comparisons=(low,)))) == (
        "A guarantee is refuted by 1 of 4 findings. 1 of 1 limits failed (1 exceeded)."
    )
    assert headline(report(bare_run())).startswith("No attack was run")


def test_markdown_has_the_same_sections_and_tables_of_equal_width():
    text = render_markdown(report())
    assert re.findall(r"^## (.*)$", text, flags=re.MULTILINE) == [section.title for section in sections(report())]
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, block


def test_a_report_names_every_run_differently():
    with pytest.raises(ValueError, match="distinct"):
        report(full_run(), full_run())


def test_a_crafted_run_cannot_break_out_of_the_markdown_or_hide_text():
    nasty = "x\n```\n# Nothing leaks\n<b>\x1b]0;t\x07\u202e"
    run = full_run(
        model=nasty,
        origin=replace(origin(), command=nasty),
        findings=(finding(nasty, attack=nasty),),
        notes=(nasty,),
    )
    made = report(replace(run, comparisons=()))
    text = render_markdown(made)
    assert "# Nothing leaks" not in text.splitlines()
    titles = [token.content for token in _headings(text)]
    assert not [title for title in titles if title.startswith("Nothing")]
    for written in (text, own_markup(render_page(made))):
        assert not {"\x1b", "\x07", "\u202e"} & set(written)


def _headings(text):
    tokens = MarkdownIt("commonmark").parse(text)
    return [tokens[place + 1] for place, token in enumerate(tokens) if token.type == "heading_open"]
