"""Running the command line as a user does: in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path


def reticent(*arguments: object, cwd: Path | None = None, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run `reticent ARGUMENTS`; the caller looks at exit code, stdout and stderr."""
    command = [sys.executable, "-c", "from reticent.cli.main import main; main()", *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, timeout=timeout, env=environment, check=False
    )
