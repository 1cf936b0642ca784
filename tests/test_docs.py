"""The documentation is run: every marked block of the tutorials, the examples, the links and the generated page.

A block runs where an HTML comment `<!-- run -->` stands right before it; `<!-- run: exit 0 or 1 -->` allows more
exit codes. Blocks of one page share a folder and run in their order. `console` blocks hold `$ reticent …` lines,
run through the entry point of the command line; `python` blocks are run as they stand.
"""

import json
import re
import runpy
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from reticent.cli import main as cli
from reticent.runs.audit.gate import LimitKind, parse_limit

ROOT = Path(__file__).resolve().parent.parent
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])
_BLOCK = re.compile(r"(?:<!-- run(?:: exit ([0-9 or]+))? -->\n)?```(\w+)\n(.*?)```", re.DOTALL)
_MARKED = re.compile(
    r"<!-- run(?:: exit (?P<codes>[0-9 or]+))? -->\n```(?P<language>\w+)\n(?P<body>.*?)```", re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """One marked block: its language, its text and the exit codes it may have."""

    language: str
    body: str
    codes: tuple[int, ...]


def blocks(text: str) -> list[Block]:
    """The marked blocks of a page, in order."""
    found = []
    for match in _MARKED.finditer(text):
        codes = tuple(int(code) for code in (match["codes"] or "0").split(" or "))
        found.append(Block(match["language"], match["body"], codes))
    return found


def commands(body: str) -> list[list[str]]:
    """The words of every `$ …` line, without the prompt; a backslash at the end joins lines."""
    joined = body.replace("\\\n", " ")
    return [shlex.split(line[2:]) for line in joined.splitlines() if line.startswith("$ ")]


def run_block(block: Block, name: str) -> None:
    """Run one block in the current folder."""
    if block.language == "python":
        exec(compile(block.body, name, "exec"), {"__name__": "__main__"})
        return
    listed = commands(block.body)
    assert listed, f"{name}: a marked block without a command"
    for words in listed:
        assert words[0] == "reticent", f"{name}: only reticent is run here, found {words[0]}"
        code = cli.run(words[1:])
        assert code in block.codes, f"{name}: exit code {code} of {' '.join(words)}"


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_commands_of_a_tutorial_run_as_they_stand(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listed = blocks(page.read_text(encoding="utf8"))
    assert listed
    for number, block in enumerate(listed):
        run_block(block, f"{page.name}, block {number}")


def test_every_journey_has_a_tutorial_and_the_index_names_every_page():
    assert {page.stem for page in TUTORIALS} == {"audit", "train", "serve", "bound", "update"}
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf8")
    for page in ROOT.glob("docs/*.md"):
        assert page.name == "index.md" or f"({page.name})" in index, page.name


def test_console_blocks_of_tutorials_that_name_our_commands_are_marked():
    for page in TUTORIALS:
        text = page.read_text(encoding="utf8")
        assert len(_MARKED.findall(text)) == len(_BLOCK.findall(text)), f"{page.name}: a block is not run"


def test_a_block_that_fails_is_caught(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    twin = "<!-- run -->\n```console\n$ reticent scan no-such-file.jsonl\n```\n"
    (block,) = blocks(twin)
    with pytest.raises(AssertionError, match="exit code 2"):
        run_block(block, "a twin")
    assert "error:" in capsys.readouterr().err
    with pytest.raises(AssertionError, match="only reticent"):
        run_block(Block("console", "$ rm -r /nowhere\n", (0,)), "a twin")


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings make, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_and_anchors_lead_somewhere():
    links = 0
    for page in PAGES:
        text = page.read_text(encoding="utf8")
        for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", text):
            place = page if not target else page.parent / target
            assert place.exists(), f"{page.name}: {target}"
            if anchor and place.suffix == ".md":
                assert anchor in anchors(place.read_text(encoding="utf8")), f"{page.name}: #{anchor}"
            links += 1
    assert links > 30


def test_the_api_page_is_what_the_source_says():
    done = subprocess.run([sys.executable, ROOT / "scripts" / "write_api_page.py", "--check"], check=False)
    assert done.returncode == 0, "run: make docs"


def test_the_gates_of_the_examples_are_limits_and_options_that_exist():
    action = yaml.safe_load((ROOT / "examples" / "github-action.yml").read_text())
    steps = " ".join(step.get("run", "") for step in action["jobs"]["audit"]["steps"])
    hooks = yaml.safe_load((ROOT / "examples" / "pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    entry = ROOT / hooks[0]["entry"]
    assert entry.is_file()
    script = entry.read_text()
    known = (ROOT / "docs" / "cli.md").read_text(encoding="utf8").partition("reticent audit`")[2]
    for text in (steps, script):
        limits = re.findall(r'--require "([^"]+)"', text)
        assert limits
        assert "--fail-if" not in text  # an alarm is no release gate: a wide interval would open it
        plain = [re.sub(r"\$\{\w+:-([^}]+)\}", r"\1", limit) for limit in limits]
        assert all(parse_limit(limit, LimitKind.REQUIRE).end == "high" for limit in plain)
        assert all(option in known for option in re.findall(r"--[a-z][a-z-]+", text))


def test_the_gate_script_is_a_shell_script():
    assert subprocess.run(["sh", "-n", ROOT / "examples" / "audit_gate.sh"], check=False).returncode == 0


def test_the_cells_of_the_notebook_run_in_their_order(capsys):
    notebook = json.loads((ROOT / "examples" / "notebook.ipynb").read_text(encoding="utf8"))
    assert notebook["nbformat"] == 4
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    state: dict[str, object] = {}
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, source in enumerate(code):
        exec(compile(source, f"cell {number}", "exec"), state)
    said = capsys.readouterr().out
    assert "bits" in said
    assert all(not cell.get("outputs") for cell in notebook["cells"])


def test_a_model_of_the_transformers_trainer_is_audited_and_gated(tmp_path, capsys):
    example = runpy.run_path(str(ROOT / "examples" / "trainer.py"))
    code = example["main"](tmp_path, dialogues=18, steps=2)
    assert code in (0, 1)
    said = capsys.readouterr().out
    assert "exposure" in said
    assert (tmp_path / "audit" / "findings.json").is_file()
