"""Reports made by hand, opened in Chromium: every chip equals its finding, nothing asks the network, all fits."""

import importlib.util
from pathlib import Path

import pytest

from reticent.core.finding import Comparison
from reticent.core.metric import question_of
from reticent.reporting.formats.page import render_page
from reticent.reporting.report import Report, RunReport
from tests.reporting.sample_reports import bare_run, finding, full_run, guarantee, report

MOST_WORDS_OF_ONE = 1500  # visible before anything is unfolded
MOST_WORDS_OF_SEVERAL = 2500
MOST_BYTES = 1_500_000
# All rules are run; what passes them is not described, which takes long.
VIOLATIONS = "axe.run({resultTypes: ['violations']}).then(found => found.violations)"
# What is measured, and the chip that it must have.
FINDINGS = (
    (finding("auc", low=0.8, value=0.85, high=0.9), "refuted"),  # above the ceiling of 0.75
    (finding("exposure", low=5.0, value=9.0, high=13.0, null=1.44), "leak found"),
    (finding("code_hit_rate", low=0.0, value=0.0, high=0.03, null=1e-6), "none found"),
    (finding("emitted_share", low=0.0, value=0.5, high=1.0, null=0.1, could_pass=False), "too few to tell"),
    (finding("association_share", low=0.1, value=0.2, high=0.3, null=None), "measured"),
    (finding("inference_accuracy", void="words alone tell them apart"), "not measured"),
)


def run_of(name: str, chosen=FINDINGS) -> RunReport:
    """A run with these findings; the area is held against 0.75."""
    promise, measured = guarantee(), tuple(one for one, _ in chosen)
    compared = tuple(
        Comparison(one, promise, 0.75, 1.0)
        if one.metric == "auc"
        else Comparison(one, promise, None, reason="none")
        for one in measured
    )
    return bare_run(name, findings=measured, comparisons=compared, guarantee=promise)


class Window:
    """One tab that shows page after page: a tab for each of them would start as many processes."""

    def __init__(self, browser) -> None:
        self.tab = browser.new_page()
        self.tab.set_default_timeout(0)  # a busy machine is slow, not wrong
        self._address = ""
        self._heard: list[str] = []
        self.tab.on("console", lambda message: self._heard.append(message.text))
        self.tab.on("pageerror", lambda error: self._heard.append(str(error)))
        self.tab.on("request", lambda request: self._note(request.url))

    def show(self, path: Path, *, width: int, scheme: str) -> list[str]:
        """Open the page; what it asks for or complains of, until the next one is opened."""
        self._address, self._heard = path.as_uri(), []
        self.tab.set_viewport_size({"width": width, "height": 900})
        self.tab.emulate_media(color_scheme=scheme)
        self.tab.goto(self._address)
        return self._heard

    def _note(self, address: str) -> None:
        if address != self._address:
            self._heard.append(address)


@pytest.fixture(scope="module")
def window(browser) -> Window:
    return Window(browser)


def opened(window: Window, folder: Path, made: Report, *, width: int = 1280, scheme: str = "light"):
    """The page of a report, and what it asked for or complained of."""
    path = folder / "page.html"
    path.write_text(render_page(made), encoding="utf8")
    return window.tab, window.show(path, width=width, scheme=scheme)


def test_every_chip_of_one_run_equals_its_finding(window, tmp_path):
    tab, heard = opened(window, tmp_path, report(run_of("only")))
    rows = tab.locator(".row").evaluate_all(
        "all => all.map(row => [row.querySelector('h3').textContent, row.querySelector('.chip').textContent])"
    )
    assert dict(rows) == {question_of(one.metric).text: chip for one, chip in FINDINGS}
    assert heard == []


def test_the_box_keeps_the_letters_of_ε_and_of_names(window, tmp_path):
    for runs in (("only",), ("undefended", "private")):
        tab, _ = opened(window, tmp_path, report(*(run_of(name) for name in runs)))
        lines = dict(line.split(None, 1) for line in tab.locator(".box p").all_inner_texts())
        assert "ε ≤ 2" in lines["Proved"]
        assert lines["Proved"].startswith("ε ≤ 2" if len(runs) == 1 else "undefended, private: ε ≤ 2")
        assert lines["Leaks"][0].isupper()


def test_every_chip_of_several_runs_equals_its_finding(window, tmp_path):
    runs = (run_of("first"), run_of("second", FINDINGS[1:3]), bare_run("third"))
    tab, heard = opened(window, tmp_path, report(*runs))
    cells = tab.locator("#runs tbody tr").evaluate_all(
        "all => all.map(row => [...row.cells].map("
        "cell => cell.querySelector('.chip') ? cell.querySelector('.chip').textContent : cell.textContent))"
    )
    shown = {row[0]: row[1:] for row in cells}
    for one, chip in FINDINGS:
        second = chip if (one, chip) in FINDINGS[1:3] else "not measured"
        assert shown[question_of(one.metric).text] == [chip, second, "not measured"]
    assert heard == []


@pytest.mark.parametrize("width", [1280, 768, 390])
@pytest.mark.parametrize("runs", [("one",), ("first", "second", "third")])
def test_nothing_is_wider_than_the_window_and_the_box_is_on_the_first_screen(window, tmp_path, width, runs):
    made = report(*(full_run(name) for name in runs))
    tab, heard = opened(window, tmp_path, made, width=width)
    box = tab.locator(".box").bounding_box()
    assert box["y"] + box["height"] < 900
    tab.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    # A part that is wider than the window scrolls inside itself, and says so by a focusable region.
    wider = tab.evaluate(
        "[...document.querySelectorAll('main *')].filter(one => one.scrollWidth > one.clientWidth + 1 "
        "&& getComputedStyle(one).overflowX !== 'visible' && one.tabIndex < 0 && one.clientWidth > 0)"
        ".map(one => one.className)"
    )
    assert wider == []
    assert heard == []


def test_the_theme_follows_the_system(window, tmp_path):
    colour = "getComputedStyle(document.body).backgroundColor"
    seen = [
        opened(window, tmp_path, report(run_of("only")), scheme=scheme)[0].evaluate(colour)
        for scheme in ("light", "dark")
    ]
    assert len(set(seen)) == 2


@pytest.fixture(scope="module")
def axe() -> str:
    """The rules of axe-core, as a script."""
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or not found.submodule_search_locations:
        pytest.skip("axe-playwright-python is not installed")
    return (Path(found.submodule_search_locations[0]) / "axe.min.js").read_text(encoding="utf8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("runs", [("one",), ("first", "second", "third")])
def test_axe_finds_no_serious_violation(window, tmp_path, axe, runs, scheme):
    tab, _ = opened(window, tmp_path, report(*(full_run(name) for name in runs)), scheme=scheme)
    tab.evaluate(axe)
    for unfold in ("0", "document.querySelectorAll('details').forEach(one => { one.open = true; })"):
        tab.evaluate(unfold)
        found = tab.evaluate(VIOLATIONS)
        assert [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] != "minor"] == []


def test_axe_finds_the_violation_of_a_broken_twin(window, tmp_path, axe):
    tab, _ = opened(window, tmp_path, report(full_run("one")))
    tab.evaluate("document.querySelector('.box').style.color = '#ccc'")
    tab.evaluate("document.querySelector('.box').style.background = '#fff'")
    tab.evaluate(axe)
    assert "color-contrast" in {one["id"] for one in tab.evaluate(VIOLATIONS)}


@pytest.mark.parametrize(("runs", "words"), [(1, MOST_WORDS_OF_ONE), (7, MOST_WORDS_OF_SEVERAL)])
def test_a_page_is_short_before_it_is_unfolded_and_small(window, tmp_path, runs, words):
    made = report(*(full_run(f"run {number}") for number in range(runs)))
    tab, _ = opened(window, tmp_path, made)
    assert len(tab.locator("body").inner_text().split()) <= words
    assert (tmp_path / "page.html").stat().st_size < MOST_BYTES
