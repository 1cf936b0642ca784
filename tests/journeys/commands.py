"""Running the command line as a user does, inside this process: starting Python and torch costs seconds each time.

What a process of its own adds (the entry point, encodings, broken pipes, kills) has tests in tests/cli and
tests/runs/test_faults.py.
"""

import contextlib
import io
import subprocess
from pathlib import Path

from reticent.cli import main as cli


def reticent(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `reticent ARGUMENTS`; the caller looks at exit code, stdout and stderr."""
    words = [str(argument) for argument in arguments]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd or Path.cwd()), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.run(words)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
