"""The page and the Markdown: whole, self-contained, escaped, and never reassuring."""

import math
import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from reticent.reporting.formats.links import flagged, linked
from reticent.reporting.formats.markdown import render_markdown
from reticent.reporting.formats.page import render_page
from reticent.reporting.outline import headline, sections, title, verdict_lines
from reticent.reporting.questions import answer_of, asked, speaker
from reticent.reporting.report import Utility
from tests.reporting.sample_reports import bare_run, finding, full_run, guarantee, origin, report, risk_map

MOST_BYTES = 1_500_000
KEYS = ["verdicts", "next", "untested", "limits", "proved", "usefulness", "risk", "roc", "exposure", "extraction"]
KEYS += ["leakage", "budget", "records", "policies", "update", "findings", "glossary", "reproduce"]
OPEN = ["verdicts", "next", "untested"]


@pytest.fixture(scope="module")
def page():
    return render_page(report())


def test_every_section_stands_in_its_order_and_all_but_the_first_are_folded(page):
    assert [section.key for section in sections(report())] == KEYS
    places = [page.index(f' id="{key}"') for key in KEYS]
    assert places == sorted(places)
    assert re.findall(r'<section id="(\w+)"', page) == OPEN
    assert re.findall(r'<details class="part" id="(\w+)"', page) == [key for key in KEYS if key not in OPEN]


def test_the_box_says_whether_it_leaks_what_is_proved_and_what_now():
    lines = verdict_lines(report())
    assert [line.partition(":")[0] for line in lines] == ["Leaks", "Proved", "Limits", "Next"]
    assert lines[0].startswith("Leaks: yes, for 2 of 3 questions. At least 5")
    assert lines[2] == "Limits: 1 of 1 failed (1 exceeded)."


def test_the_title_names_the_model_and_its_training_text():
    assert title(report(full_run(model="/runs/plain", corpus="mails.csv"))) == "plain trained on mails.csv"
    assert title(report(full_run(model="org/model"))) == "org/model"
    both = report(full_run("a", corpus="mails.csv"), full_run("b", corpus="mails.csv"))
    assert title(both) == "2 models trained on mails.csv"
    assert title(report(full_run("a", corpus="mails.csv"), full_run("b", corpus=""))) == "2 models"


@pytest.mark.parametrize(("made", "most"), [(report(), 1500), (report(*map(full_run, "abcde")), 2500)])
def test_few_words_are_seen_before_anything_is_unfolded(made, most):
    body = render_page(made).partition("<body>")[2]
    while "<details" in body:  # the innermost first
        body = re.sub(r"<details((?!<details).)*?</details>", " folded ", body, flags=re.DOTALL)
    words = re.sub(r"<script.*?</script>|<[^>]*>", " ", body, flags=re.DOTALL).split()
    assert 100 < len(words) <= most


def test_every_chip_of_the_matrix_is_the_answer_of_its_run():
    made = report(full_run("first"), bare_run("second"))
    for row, question in zip(sections(made)[0].blocks[0].rows, asked(made.runs), strict=False):
        for run, cell in zip(made.runs, row[1:], strict=True):
            assert (cell.chip or cell.text) == answer_of(run, speaker(run, question)).value


def test_the_page_is_one_file_under_one_and_a_half_megabytes_that_may_not_ask_the_network(page):
    assert len(page.encode("utf8")) < MOST_BYTES
    assert "default-src 'none'" in page
    own = page
    assert not re.search(r"https?://", own)
    assert not re.search(r'<(script|link|img|iframe)[^>]*\s(src|href)="(?!data:)', own)


def test_a_large_risk_map_stays_under_one_and_a_half_megabytes():
    group = risk_map().group("training")
    many = tuple(replace(one, id=f"{one.id}-{copy}") for copy in range(60) for one in group.points)
    groups = (replace(group, points=many), replace(group, name="held-out", points=many))
    runs = [full_run(f"run-{place}", risk_map=replace(risk_map(), groups=groups)) for place in range(2)]
    assert len(many) == 2400
    assert len(render_page(report(*runs)).encode("utf8")) < MOST_BYTES


def test_what_was_not_measured_is_one_list_with_what_would_measure_it():
    bare = report(bare_run())
    for text in (re.sub(r"<[^>]*>", "", render_page(bare)), render_markdown(bare).replace("\\", "")):
        assert text.count("Membership: nobody asked for it. Measured by: --attacks membership.") == 1
    assert not {"risk", "roc", "exposure", "budget"} & {section.key for section in sections(bare)}


@pytest.mark.parametrize("made", [report(), report(bare_run()), report(full_run(), bare_run())])
def test_nothing_ever_says_safe(made):
    for text in ((render_page(made)), render_markdown(made)):
        visible = re.sub(r"<(style|script).*?</\1>", "", text, flags=re.DOTALL)
        assert not re.search(r"\b(safe|secure|no leak(s|age)? found)\b", visible, flags=re.IGNORECASE)


def test_text_of_a_run_cannot_become_markup():
    nasty = '<img src=x onerror="alert(1)"></script><b>'
    group = risk_map().groups[0]
    points = (replace(group.points[0], id=nasty), *group.points[1:])
    drawn = replace(risk_map(), groups=(replace(group, points=points), risk_map().groups[1]))
    found = finding(nasty, attack=nasty, void=nasty, notes=(nasty,))
    run = full_run(nasty, model=nasty, risk_map=drawn, findings=(found,), comparisons=(), notes=(nasty,))
    own = render_page(report(run))
    assert "<img src=x" not in own
    assert "</script><b>" not in own
    assert "&lt;img" in own[own.index('id="risk-0"') :]
    assert "<img src=x" not in render_markdown(report(run))


def test_every_chart_has_words_and_a_table(page):
    own = page
    plots = re.findall(
        r'<svg class="plot" id="([\w-]+)" role="img" aria-labelledby="[\w-]+" aria-describedby="([\w-]+)"', own
    )
    assert [key for key, _ in plots] == ["risk-0", "roc-0", "exposure-0", "extraction-0", "leakage-0", "budget-0"]
    for key, words in plots:
        assert f'id="{words}">' in own
        assert f'id="{key}-data-caption"' in own


def test_one_run_says_how_useful_it_is_inside_and_outside_of_secrets_and_several_do_so_side_by_side():
    outside = Utility(name="held-out perplexity outside secrets", value=2.1, low=2.0, high=2.2, n=7)
    run = full_run(utility=(*full_run().utility, outside))
    one, several = render_markdown(report(run)), render_markdown(report(run, bare_run()))
    for said in (one, several):
        assert "| held-out perplexity |" in said
        assert "| held-out perplexity outside secrets |" in said
    assert "## How useful the model is" in one
    assert "## How useful the model is" not in several
    assert "## How useful the model is" not in render_markdown(report(bare_run()))


@pytest.mark.parametrize(
    ("epsilon", "delta", "is_empty"), [(20.0, 1.0, True), (math.inf, 0.0, True), (20.0, 0.5, False)]
)
def test_a_guarantee_that_allows_everything_is_said_to_prove_nothing(epsilon, delta, is_empty):
    empty = replace(guarantee(), epsilon=epsilon, delta=delta, profile=())
    said = render_markdown(report(full_run(other_guarantees={"group": empty})))
    (row,) = (line for line in said.splitlines() if line.startswith("| full | group |"))
    assert ("(nothing is proved)" in row) == is_empty


def test_several_runs_stand_side_by_side():
    made = report(full_run("first"), full_run("second"), bare_run("third"))
    assert sections(made)[0].key == "runs"
    table = sections(made)[0].blocks[0]
    assert table.columns == ("question", "first", "second", "third")
    own = render_page(made)
    assert 'id="roc-1"' in own
    assert "<h3>second</h3>" in own
    assert own.count("<h3>third</h3>") == 1  # it measured nothing, and can be repeated
    assert "3.2 (2.9–3.6)" in own


def test_a_refutation_leads_the_headline():
    run = full_run()
    low = replace(run.comparisons[0], ceiling=0.55)
    said = headline(report(replace(run, comparisons=(low,))))
    assert said.startswith("Leaks: more than was proved possible, by 1 finding.")
    assert headline(report(bare_run())).startswith("Leaks: nothing was measured")


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
    for written in (text, (render_page(made))):
        assert not {"\x1b", "\x07", "\u202e"} & set(written)


def _headings(text):
    tokens = MarkdownIt("commonmark").parse(text)
    return [tokens[place + 1] for place, token in enumerate(tokens) if token.type == "heading_open"]


def test_words_of_the_glossary_are_links_once_a_paragraph_and_flags_are_code():
    found = linked("ε and ε again, 3 bits of canaries; give --fail-if or non-members, <b>δ</b>")
    assert found == (
        '<a class="term" href="#term-epsilon">ε</a> and ε again, 3 <a class="term" href="#term-bits">bits</a> of '
        '<a class="term" href="#term-canary">canaries</a>; give <code>--fail-if</code> or non-members, '
        '&lt;b&gt;<a class="term" href="#term-delta">δ</a>&lt;/b&gt;'
    )
    assert flagged("ε by --seed -- and a--b") == "ε by <code>--seed</code> -- and a--b"
    assert flagged("take --method dp-sgd, not --all") == "take <code>--method dp-sgd</code>, not <code>--all</code>"


def test_every_link_of_the_page_leads_somewhere():
    own = render_page(report(full_run()))
    anchors = set(re.findall(r'\bid="([^"]+)"', own))
    links = set(re.findall(r'href="#([^"]+)"', own))
    assert {"term-epsilon", "term-interval", "term-canary"} < links
    assert links <= anchors
