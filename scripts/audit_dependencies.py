"""Look for known vulnerabilities in every pinned version, with pip-audit; `make audit`.

Exit code 1 where there are some. Without a network nothing can be looked up: that is said, and the exit code is 0.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def pins() -> list[str]:
    """`name==version` of the lock, and torch, which the Makefile pins."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf8")
    torch = re.findall(r"^TORCH *:= *(\S+)", makefile, flags=re.MULTILINE)
    return [*re.findall(r"^[\w.-]+==[\w.!+]+", lock, flags=re.MULTILINE), *torch]


def main() -> int:
    """Run pip-audit over the pins."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder, "pins.txt")
        listed.write_text("\n".join(pins()), encoding="utf8")
        command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "-r", str(listed)]
        done = subprocess.run([*command, "--progress-spinner", "off"], capture_output=True, text=True, check=False)
    if "ConnectionError" in done.stderr or "Max retries" in done.stderr or "ServiceError" in done.stderr:
        sys.stdout.write("skipped: the advisory database cannot be reached\n")
        return 0
    sys.stdout.write(done.stdout + done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
