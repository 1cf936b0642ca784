"""Write requirements.lock: what pip resolves today for the project with the extras that set-up installs.

Resolves in a throw-away environment, so that nothing installed by hand can slip in.
"""

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("serve", "postgres", "pii", "gguf", "plot", "ray", "dev")
PINNED = ("torch==2.13.0",)
BUILD = ("hatchling", "editables")
HEADER = """\
# Every version that `make` installs, transitively, for Python 3.11 and later on Linux and macOS.
# torch is pinned exactly: a wider request pulls gigabytes of CUDA packages on Linux.
# Renew: edit pyproject.toml, then `make lock`.
"""


def requirements() -> list[str]:
    """The project's requirements with every extra that set-up installs, exact pins first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
    optional = project["optional-dependencies"]
    wanted = list(project["dependencies"])
    for extra in EXTRAS:
        wanted += optional[extra]
    return [*PINNED, *BUILD, *wanted]


def main() -> None:
    """Resolve and write the lock file."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [str(Path(folder, "bin", "python")), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", *requirements()], check=True)
        frozen = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True).stdout
    # A local build tag (2.13.0+cpu) names one machine's file, not a version that others can ask for.
    lines = [line.split("+")[0] for line in frozen.splitlines()]
    (ROOT / "requirements.lock").write_text(HEADER + "\n".join(lines) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
