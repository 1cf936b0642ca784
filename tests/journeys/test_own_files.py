"""A CSV of mails with columns of other names: train, audit, gate and report by the commands of the README alone."""

import csv
import re
import shlex
from pathlib import Path

import pytest

from reticent.core.randomness import Randomness
from reticent.data.generators import generate_dialogues
from tests.journeys.commands import reticent

README = Path(__file__).resolve().parent.parent.parent / "README.md"
MAILS = 24


def readme_commands() -> list[list[str]]:
    """The commands of the block of the README that reads mails.csv."""
    blocks = re.findall(r"```console\n(.*?)```", README.read_text(encoding="utf8"), re.DOTALL)
    (block,) = [block for block in blocks if "mails.csv" in block]
    return [shlex.split(line.removeprefix("$ "))[1:] for line in block.splitlines() if line.startswith("$ ")]


def write_mails(path: Path, seed: int) -> None:
    """Mails with a sender and a body, as a spreadsheet writes them: semicolons, and a column that nobody reads."""
    dialogues = generate_dialogues(MAILS, randomness=Randomness.seeded(seed))
    with path.open("w", encoding="utf8", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["Sent on", "sender", "body"])
        for place, one in enumerate(dialogues):
            writer.writerow([f"day {place}", f"{seed}/{one.owner}", one.text[:80]])


def test_the_readme_has_the_three_commands():
    assert [words[0] for words in readme_commands()] == ["train", "audit", "report"]


@pytest.mark.slow
def test_mails_in_a_csv_go_through_the_readme_without_an_error(tmp_path):
    write_mails(tmp_path / "mails.csv", 1)
    write_mails(tmp_path / "other-mails.csv", 2)
    train, audit, report = (reticent(*words, cwd=tmp_path) for words in readme_commands())
    assert train.returncode == 0, train.stderr
    assert audit.returncode in (0, 1), audit.stderr  # so few mails need not meet the requirement
    assert "--require auc<=0.7: " in audit.stdout
    assert report.returncode == 0, report.stderr
    assert (tmp_path / "runs" / "mails-audit" / "report.html").is_file()
