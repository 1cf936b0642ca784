"""Look for known vulnerabilities in every pinned version, with pip-audit; `make audit`.

Exit code 1 where there are some, where pip-audit fails, and where some pins could not be looked up. Only where the
database cannot be reached, or knows none of the pins (a mirror without advisories), it says so and the code is 0.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
UNREACHABLE = re.compile(
    r"Could not connect to \S+ vulnerability feed|^requests\.exceptions\.(ConnectionError|ProxyError|\w*Timeout)\b",
    flags=re.MULTILINE,
)


def pins() -> list[str]:
    """`name==version` of the lock, and torch, which the Makefile pins."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf8")
    torch = re.findall(r"^TORCH *:= *(\S+)", makefile, flags=re.MULTILINE)
    return [*re.findall(r"^[\w.-]+==[\w.!+]+", lock, flags=re.MULTILINE), *torch]


def rounds(listed: Iterable[str]) -> list[list[str]]:
    """The pins in as few lists as hold every package once: pip-audit refuses two versions of one package.

    The lock has two where the version depends on Python's.
    """
    lists: list[dict[str, str]] = []
    for pin in listed:
        name = pin.partition("==")[0]
        free = next((one for one in lists if name not in one), None)
        if free is None:
            lists.append(free := {})
        free[name] = pin
    return [list(one.values()) for one in lists]


def looked_up(listed: list[str]) -> list[dict[str, Any]] | None:
    """What pip-audit says of each pin, None where the database cannot be reached; its own failure raises."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pins.txt")
        path.write_text("\n".join(listed), encoding="utf8")
        command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "-r", str(path)]
        options = ["--progress-spinner", "off", "--format", "json"]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    if done.stdout.strip():
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
        return found
    if UNREACHABLE.search(done.stderr):
        return None
    raise RuntimeError(f"pip-audit failed:\n{done.stderr}")


def judged(answers: list[dict[str, Any]]) -> tuple[int, str]:
    """The exit code and what to print for the answers to all pins."""
    known = [answer for answer in answers if "skip_reason" not in answer]
    if not known:
        return 0, "skipped: the advisory database knows none of the pinned packages\n"
    lines = [
        f"{answer['name']} {answer['version']}: {flaw['id']}, fixed in {', '.join(flaw['fix_versions']) or '–'}\n"
        for answer in known
        for flaw in answer["vulns"]
    ]
    lines += [
        f"{answer['name']}: not looked up: {answer['skip_reason']}\n"
        for answer in answers
        if "skip_reason" in answer
    ]
    return (1 if lines else 0), "".join(lines) or f"no known vulnerability in {len(known)} pinned versions\n"


def main() -> int:
    """Look up all pins."""
    answers: list[dict[str, Any]] = []
    for listed in rounds(pins()):
        found = looked_up(listed)
        if found is None:
            sys.stdout.write("skipped: the advisory database cannot be reached\n")
            return 0
        answers += found
    code, said = judged(answers)
    sys.stdout.write(said)
    return code


if __name__ == "__main__":
    sys.exit(main())
