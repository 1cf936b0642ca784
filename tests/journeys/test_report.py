"""The report through the command line, from real runs, and opened in a real browser."""

import json
import re
from pathlib import Path

import pytest

from reticent.cli import main as cli
from reticent.core.corpus import Corpus, Record
from reticent.core.randomness import Randomness
from reticent.core.secret import CodeSpace
from reticent.data.canaries import make_canaries, plant_canaries, read_key, write_key
from reticent.data.generators import generate_dialogues
from reticent.data.writing import write_corpus

DIALOGUES = 24
BUILD = Path(__file__).resolve().parent.parent.parent / "build"
PLOTS = ("risk-0", "roc-0", "exposure-0", "extraction-0", "leakage-1", "budget-1")


def run(*words: object) -> int:
    return cli.run([str(word) for word in words])


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A model trained privately in three steps, one trained plainly, and an audit of each."""
    folder = tmp_path_factory.mktemp("report")
    randomness = Randomness.seeded(5)
    whole = generate_dialogues(2 * DIALOGUES, randomness=randomness.child("dialogues"))
    corpus = Corpus(Record(one.id, one.text[:100], owner=one.owner) for one in whole)
    canaries = make_canaries(
        "USR: Hello, my customer ID is {}.", CodeSpace(6), count=2, copies=4, randomness=randomness.child("codes")
    )
    write_corpus(
        plant_canaries(corpus[:DIALOGUES], canaries, randomness=randomness.child("places")), folder / "train.jsonl"
    )
    write_corpus(corpus[DIALOGUES:], folder / "holdout.jsonl")
    write_key(canaries, folder / "key.json")
    texts = ("--data", folder / "train.jsonl", "--holdout", folder / "holdout.jsonl", "--model", "embedded")
    shared = (*texts, "--seed", 3, "--learning-rate", 2e-3)
    private = ("--method", "dp-sgd", "--target-epsilon", 4, "--delta", 1e-4, "--epochs", 1, "--batch", 10)
    assert run("train", *private, *shared, "--out", folder / "private") == 0
    assert run("train", "--method", "sgd", "--epochs", 3, "--batch", 8, *shared, "--out", folder / "plain") == 0
    for name, attacks in (("private", "membership,lazy"), ("plain", "exposure,membership,lazy")):
        sides = ("--train", folder / "train.jsonl", "--holdout", folder / "holdout.jsonl")
        what = ("--attacks", attacks, "--texts", 16, "--canaries", folder / "key.json")
        limit = ("--fail-if", "auc>0.99", "--no-cache", "--seed", 1, "--out", folder / f"audit-{name}")
        assert run("audit", folder / name, *sides, *what, *limit) in (0, 1)
    return folder


@pytest.fixture(scope="module")
def page(story):
    """The report of one run."""
    out = story / "one.html"
    assert run("report", story / "audit-plain", "--out", out) == 0
    return out


@pytest.fixture(scope="module")
def both(story):
    """The report of two runs side by side, with the corpus beside them."""
    out = story / "both.html"
    runs = (story / "audit-plain", story / "audit-private")
    assert run("report", *runs, "--out", out, "--corpus", story / "train.jsonl") == 0
    return out


def visible(page: Path) -> str:
    """All of the page."""
    return page.read_text(encoding="utf8")


def test_the_report_holds_no_secret_and_no_text(story, page, both):
    secrets = [canary.secret.reveal() for canary in read_key(story / "key.json")]
    records = [json.loads(line)["text"] for line in (story / "train.jsonl").read_text().splitlines()]
    held_out = [json.loads(line)["text"] for line in (story / "holdout.jsonl").read_text().splitlines()]
    pieces = {text[start : start + 16] for text in records + held_out for start in range(0, len(text) - 16, 4)}
    for path in (page, both, page.with_suffix(".md"), both.with_suffix(".md")):
        written = visible(path) if path.suffix == ".html" else path.read_text(encoding="utf8")
        tokens = set(re.findall(r"\w+", written))
        assert not [secret for secret in secrets if secret in tokens]
        assert not [piece for piece in pieces if piece in written]
        assert path.stat().st_mode & 0o077 == 0
    assert "•••" in visible(both)  # covered text is there all the same


def test_a_leak_into_the_page_would_be_caught(story, page):
    """Broken twin of the test above: one record's text in the page is found."""
    text = json.loads((story / "train.jsonl").read_text().splitlines()[0])["text"]
    pieces = {text[start : start + 16] for start in range(0, len(text) - 16, 4)}
    assert [piece for piece in pieces if piece in visible(page) + text]


def test_the_page_is_small_and_complete(story, page, both):
    for path in (page, both):
        assert path.stat().st_size < 1_500_000
    own = visible(both)
    for said in ("What leaks", "ε ≤", "Bits leaked by secret length", "What was not measured", "reticent audit"):
        assert said in own
    information = json.loads((story / "audit-private" / "run.json").read_text())
    assert information["corpora"]["training"] not in own  # guesses could be tested by it
    assert information["versions"]["torch"] in own


def test_without_out_the_page_stands_in_the_run_and_json_says_so(story, capsys):
    assert run("report", story / "private", "--json", "--fingerprints") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["page"] == str(story / "private" / "report.html")
    assert document["findings"] == 0
    own = visible(story / "private" / "report.html")
    assert "only an audit measures it" in own
    assert json.loads((story / "private" / "run.json").read_text())["corpora"]["training"] in own


def test_a_scan_sets_its_recall_beside_the_other_runs(story, tmp_path):
    text = "mail ann@example.org"
    record = {"text": text, "spans": [{"start": 5, "end": len(text), "kind": "email"}]}
    lines = [json.dumps(record | {"id": str(place)}) + "\n" for place in range(5)]
    (tmp_path / "labelled.jsonl").write_text("".join(lines))
    assert run("scan", tmp_path / "labelled.jsonl", "--labels", "--out", tmp_path / "scan") == 0
    assert run("report", story / "audit-private", tmp_path / "scan", "--out", tmp_path / "r.html") == 0
    own = visible(tmp_path / "r.html")
    assert "recall of distinct secrets" in own
    assert "Runs side by side" not in own


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere",), "not a run directory"),
        (("audit-private", "audit-private"), "given twice"),
        (("audit-private", "--out", "page.txt"), "ends in .html"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(story, capsys, monkeypatch, words, said):
    monkeypatch.chdir(story)
    assert run("report", *words) == 2
    complaint = capsys.readouterr().err
    assert said in complaint
    assert len(complaint.splitlines()) == 1


class Visit:
    """A page opened from disk, with everything that it complained of or asked for."""

    def __init__(self, browser, path: Path, *, width: int = 1280, scheme: str = "light") -> None:
        self.tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.tab.set_default_timeout(0)  # a busy machine is slow, not wrong
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.tab.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.goto(path.as_uri())
        self.tab.wait_for_function("document.documentElement.dataset.theme !== undefined")

    def unfold(self) -> None:
        """Open everything that is folded."""
        self.tab.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")

    def picture(self, name: str) -> None:
        """Keep a screenshot of the first screen under build/, which is not committed."""
        BUILD.mkdir(exist_ok=True)
        self.tab.screenshot(path=BUILD / f"report-{name}.png")


def test_the_page_opens_from_disk_with_charts_hover_and_sorting(browser, both):
    visit = Visit(browser, both)
    tab = visit.tab
    assert len(tab.inner_text("body").split()) <= 2500
    visit.unfold()
    for key in PLOTS:
        assert tab.locator(f"#{key} .curve, #{key} .points, #{key} .ring").count() > 0, key
    said = tab.locator("#risk-0 .ring title").first.text_content()
    assert "samples" in said
    assert "•" in said
    table = tab.locator("#findings table")
    heads = table.locator("thead th")
    place = heads.all_text_contents().index("value")
    before = table.locator("tbody tr").all_text_contents()
    heads.nth(place).locator("button").focus()
    tab.keyboard.press("Enter")
    assert heads.nth(place).get_attribute("aria-sort") == "ascending"
    cells = f"tbody tr > *:nth-child({place + 1})"
    shown = table.locator(cells).evaluate_all("all => all.map(one => one.dataset.value)")
    values = [float(value) for value in shown]
    assert values == sorted(values)
    heads.nth(place).locator("button").click()
    assert heads.nth(place).get_attribute("aria-sort") == "descending"
    assert sorted(table.locator("tbody tr").all_text_contents()) == sorted(before)
    visit.picture("light")
    assert visit.complaints == []
    assert visit.requests == [both.as_uri()]


def test_dark_mode_follows_the_system_and_the_toggle(browser, page):
    visit = Visit(browser, page, scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    visit.unfold()
    dark = visit.tab.evaluate(colour)
    line = "getComputedStyle(document.querySelector('#roc-0 .curve')).stroke"
    drawn = visit.tab.evaluate(line)
    visit.picture("dark")
    visit.tab.locator("#theme").click()
    assert visit.tab.evaluate(colour) != dark
    assert visit.tab.evaluate(line) != drawn
    assert visit.tab.locator("#theme").get_attribute("aria-pressed") == "false"
    assert visit.complaints == []


def test_390_pixels_are_enough(browser, both):
    visit = Visit(browser, both, width=390)
    assert visit.tab.evaluate("document.documentElement.scrollWidth") <= 390
    visit.unfold()
    assert visit.tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert visit.tab.locator(".scroll:has(> #risk-0)").bounding_box()["width"] <= 390  # the chart scrolls inside it
    visit.picture("390")
    assert visit.complaints == []


def test_the_first_screen_answers_in_at_most_1500_words(browser, page):
    visit = Visit(browser, page)
    assert len(visit.tab.inner_text("body").split()) <= 1500
    box = visit.tab.locator(".box")
    assert box.bounding_box()["y"] + box.bounding_box()["height"] < 900
    assert {"Leaks", "Proved", "Limits", "Next"} == set(box.locator("strong").all_text_contents())
    visit.tab.locator("a[href='#glossary']").click()
    glossary = visit.tab.locator("#glossary table")
    glossary.wait_for(timeout=600_000)  # the fold opens by an event of its own, after the click
    assert glossary.is_visible()


def test_the_page_can_be_read_without_a_mouse_and_on_paper(browser, page):
    visit = Visit(browser, page)
    visit.tab.keyboard.press("Tab")
    assert visit.tab.evaluate("document.activeElement.textContent") == "Skip to the content"
    bad = visit.tab.evaluate(
        """() => [
            ...[...document.querySelectorAll('table')].filter(one => !one.caption),
            ...[...document.querySelectorAll('[role=img]')].filter(
                one => !one.getAttribute('aria-label') && !one.getAttribute('aria-labelledby')),
            ...[...document.querySelectorAll('[aria-labelledby],[aria-describedby]')].filter(one =>
                ['aria-labelledby', 'aria-describedby'].some(name =>
                    one.hasAttribute(name) && !document.getElementById(one.getAttribute(name)))),
            ...[...document.querySelectorAll('button')].filter(
                one => !one.textContent.trim() && !one.getAttribute('aria-label')),
        ].map(one => one.outerHTML.slice(0, 80))"""
    )
    assert bad == []
    ids = visit.tab.evaluate("[...document.querySelectorAll('main [id]')].map(one => one.id)")
    assert len(ids) == len(set(ids))
    BUILD.mkdir(exist_ok=True)
    visit.tab.pdf(path=BUILD / "report.pdf", format="A4")  # and it prints
    assert (BUILD / "report.pdf").stat().st_size > 50_000
    assert visit.complaints == []


def test_a_report_is_a_gate_and_writes_what_builds_hubs_and_officers_read(story, capsys):
    """Limits of its own decide the exit code; the files agree with it, and hold no secret."""
    import junitparser
    import yaml

    out = story / "gated.html"
    files = {name: story / "for-others" / name for name in ("junit.xml", "run.sarif", "card.md", "annex.md")}
    flags = zip(("--junit", "--sarif", "--model-card", "--annex"), files.values(), strict=True)
    written = [word for pair in flags for word in pair]
    assert run("report", story / "audit-plain", "--out", out, "--require", "auc<=0.51", *written) == 1
    said = capsys.readouterr().out
    assert "--require auc<=0.51: " in said
    suites = junitparser.JUnitXml.fromstring(files["junit.xml"].read_bytes())
    assert (suites.tests, suites.failures) == (1, 1)
    (sarif,) = json.loads(files["run.sarif"].read_text(encoding="utf8"))["runs"]
    assert sarif["results"][0]["level"] == "error"
    metadata = yaml.safe_load(files["card.md"].read_text(encoding="utf8").split("---\n")[1])
    measured = {one["type"] for one in metadata["model-index"][0]["results"][0]["metrics"]}
    assert {"exposure", "perplexity"} <= measured
    assert "EDPB Opinion 28/2024" in files["annex.md"].read_text(encoding="utf8")
    secrets = [canary.secret.reveal() for canary in read_key(story / "key.json")]
    assert not [name for name, path in files.items() for secret in secrets if secret in path.read_text("utf8")]
    assert run("report", story / "audit-plain", "--out", out, "--fail-if", "auc>0.9999", *written[:2]) == 0
    assert junitparser.JUnitXml.fromstring(files["junit.xml"].read_bytes()).failures == 0


def test_a_card_speaks_of_one_run_and_a_gate_needs_an_audit(story, capsys):
    runs = (story / "audit-plain", story / "audit-private")
    assert run("report", *runs, "--out", story / "x.html", "--model-card", story / "card.md") == 2
    assert "--model-card describes one run" in capsys.readouterr().err
    assert run("report", story / "plain", "--out", story / "x.html", "--require", "auc<=0.9") == 2
    assert "need a run that was audited" in capsys.readouterr().err
