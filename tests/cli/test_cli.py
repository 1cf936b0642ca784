"""The command line as a whole: quick, without torch, every failure one line with its exit code."""

import subprocess
import sys

import pytest

from reticent import __version__
from reticent.cli import main as cli
from reticent.core.errors import BudgetExhausted, ConfigError, InternalError, MissingExtra
from tests.test_repository import TORCH, modules_after


def test_help_does_not_import_torch_or_other_heavy_libraries():
    loaded = modules_after("from reticent.cli.main import run; run(['--help'])")
    assert not (TORCH | {"dp_accounting", "scipy", "pyarrow", "matplotlib", "spacy"}) & loaded


def test_help_needs_less_than_a_quarter_of_the_instructions_of_importing_torch():
    # A timed test would depend on the machine; the number of modules it loads does not.
    loaded = modules_after("from reticent.cli.main import run; run(['--help'])")
    assert len(loaded) < 900


def test_version_is_printed(capsys):
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"reticent {__version__}\n"


def test_no_arguments_show_the_help(capsys):
    assert cli.run([]) == 2
    assert "Usage: reticent" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (
            ConfigError("wrong", found="3", expected="4", hint="use 4"),
            2,
            "error: wrong; found 3; expected 4 (hint: use 4)",
        ),
        (MissingExtra("spacy", "pii", purpose="NER"), 2, "pip install 'reticent[pii]'"),
        (BudgetExhausted("spent"), 3, "error: spent"),
        (InternalError("impossible"), 70, "error: impossible"),
        (KeyboardInterrupt(), 130, "error: interrupted"),
        (RuntimeError("my ssn is 078-05-1120"), 70, "error: this is a bug in reticent (RuntimeError)"),
    ],
)
def test_every_failure_is_one_line_with_its_exit_code(error, code, line, capsys, monkeypatch):
    def fail(**_):
        raise error

    monkeypatch.setattr(cli, "app", fail)
    assert cli.run(["scan"]) == code
    written = capsys.readouterr().err
    assert line in written.splitlines()[-1]
    assert "078-05-1120" not in written


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--records", "1,000"], "'--records': not a whole number; expected digits alone, such as 1000 (no commas"),
        (
            ["--records", "1000", "--max-epochs", "2,5"],
            "'--max-epochs': not a number; expected one such as 1000, 0.5",
        ),
    ],
)
def test_a_number_that_cannot_be_read_is_refused_with_how_numbers_are_written(words, said, capsys):
    assert cli.run(["plan", "--target-epsilon", "8", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_reader_that_goes_away_is_not_an_error():
    script = "from reticent.cli.main import main; main(['--help'])"
    done = subprocess.run(
        f'{sys.executable} -c "{script}" | head -1', shell=True, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


def test_cli_page_is_what_help_says():
    done = subprocess.run(
        [sys.executable, "scripts/write_cli_page.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
