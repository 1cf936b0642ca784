"""Repository tests: what is published: wheel, source distribution, package page and the page of dependencies."""

import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from reticent import __version__
from scripts.package_page import package_page

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
RELATIVE_LINK = re.compile(r"\]\((?![a-z]+:|#)")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Wheel and source distribution, as they would be published."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    (source,) = folder.glob("*.tar.gz")
    return wheel, source


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(built):
    names = {name for name in zipfile.ZipFile(built[0]).namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    files = {path for path in (source / "reticent").rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert names == {str(path.relative_to(source)) for path in files}
    assert "reticent/py.typed" in names


def test_metadata_names_the_version_the_platforms_and_the_extras_and_has_no_dead_link(built):
    wheel = zipfile.ZipFile(built[0])
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = message_from_bytes(wheel.read(name))
    assert metadata["Version"] == __version__
    assert "Operating System :: POSIX :: Linux" in metadata.get_all("Classifier")
    assert set(metadata.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    page = metadata.get_payload(decode=True).decode("utf8")
    assert "measured ≤ true leakage ≤ proved" in page
    assert not RELATIVE_LINK.search(page)


def test_relative_links_of_a_package_page_become_names_of_files():
    assert package_page("see [the rules](docs/a.md#part).") == "see the rules (`docs/a.md`)."
    assert package_page("[docs/a.md](docs/a.md)") == "`docs/a.md`"
    assert (
        package_page("[site](https://example.org) [here](#there)") == "[site](https://example.org) [here](#there)"
    )


def test_the_source_distribution_can_build_test_and_document(built):
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = [
        "Makefile",
        "requirements.lock",
        "requirements-demo.lock",
        "mkdocs.yml",
        "CHANGELOG.md",
        "SECURITY.md",
    ]
    assert {*wanted, "CITATION.cff", "docs/guarantees.md", "scripts/package_page.py", "tests/conftest.py"} <= names
    assert not [name for name in names if name.startswith((".venv", "build/", "dist/", "runs/"))]


@pytest.mark.slow
def test_the_wheel_and_the_source_distribution_install_and_bound_answers_without_torch(built, tmp_path):
    """Needs a package index."""
    for distribution in built:
        folder = tmp_path / distribution.suffix
        venv.create(folder, with_pip=True)
        python = folder / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", distribution], check=True)
        bound = [folder / "bin" / "reticent", "bound", "dp-sgd", "--noise-multiplier", "1"]
        options = ["--sampling-rate", "0.01", "--steps", "1000", "--json"]
        done = subprocess.run([*bound, *options], check=True, capture_output=True, text=True, cwd=tmp_path)
        assert '"epsilon"' in done.stdout
        assert subprocess.run([python, "-c", "import torch"], check=False, capture_output=True).returncode == 1
        assert subprocess.run([python, "-m", "reticent", "--version"], check=True, capture_output=True).stdout


def test_version_of_the_citation_and_the_changelog_is_that_of_the_package():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf8")
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf8"), flags=re.MULTILINE)
    assert newest.group(1) == __version__


def test_every_direct_dependency_stands_on_its_page_and_nothing_else_does():
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    wanted = {re.match(r"[\w.-]+", line).group() for group in groups for line in group} - {"reticent"}
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf8")
    assert set(re.findall(r"^\| ([a-z][\w-]*) \|", page, flags=re.MULTILINE)) == wanted


def test_every_dependency_has_its_own_maker_a_licence_and_a_reason():
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf8")
    rows = re.findall(r"^\| [a-z][\w-]* \|.*", page, flags=re.MULTILINE)
    assert len(rows) > 20
    assert all(cell.strip() for row in rows for cell in row.strip("|").split("|"))
    assert "third party" not in page  # what its maker does not publish is neither installed nor named


def test_every_page_is_in_the_navigation_of_the_site():
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf8")
    linked = set(re.findall(r": (\S+\.md)$", site, flags=re.MULTILINE))
    assert linked == {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
