"""Write the two lock files: exact versions with the hashes of every file of each, for Linux and macOS.

    requirements.lock       everything that `make test` installs (the extra `dev`)
    requirements-demo.lock  the part of it that `make demo` needs (the extra `train`)

Versions that the files already hold stay unless `--upgrade` is given. Torch and what only torch brings (the CUDA
libraries) are not in them: its files differ between the public index and the CPU builds that many machines install
instead, so no hash holds for both. The Makefile pins its version. Needs the package index.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {"requirements.lock": ("dev",), "requirements-demo.lock": ("train",)}
BUILD = ("hatchling", "editables")  # an editable install without a network needs them
TORCH = re.findall(r"^TORCH *:= *(\S+)", (ROOT / "Makefile").read_text(encoding="utf8"), flags=re.MULTILINE)
BROUGHT_BY_TORCH = re.compile(r"(torch|triton|nvidia-.*|cuda-.*)==")
HEADER = """\
# Every version that `make {verb}` installs, transitively, with its hashes; torch is pinned in the Makefile.
# Generated: edit pyproject.toml, then `make lock`.
"""


def resolved(extras: tuple[str, ...], *, known: str, constraints: str, upgrade: bool) -> str:
    """What uv resolves for the extras, keeping the versions of the `known` lock where it may."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "lock").write_text(known, encoding="utf8")
        (folder / "build.in").write_text("\n".join([*BUILD, *TORCH]), encoding="utf8")
        (folder / "constraints").write_text(constraints, encoding="utf8")
        options = ["--universal", "--python-version=3.11", "--generate-hashes", "--no-header", "--no-annotate"]
        chosen = [f"--extra={extra}" for extra in extras] + ["--upgrade"] * upgrade
        files = [
            str(ROOT / "pyproject.toml"),
            str(folder / "build.in"),
            "--constraint",
            str(folder / "constraints"),
        ]
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", *options, *chosen, *files]
        subprocess.run([*command, "--output-file", str(folder / "lock")], check=True, cwd=ROOT)
        return (folder / "lock").read_text(encoding="utf8")


def without_torch(lock: str) -> str:
    """The lock without torch and what only torch brings; an entry starts at the line's start."""
    entries = re.split(r"^(?=[\w.-]+==)", lock, flags=re.MULTILINE)
    return "".join(entry for entry in entries if not BROUGHT_BY_TORCH.match(entry))


def main() -> None:
    """Resolve and write both; the smaller one takes its versions from the larger."""
    constraints = ""
    for name, extras in LOCKS.items():
        path = ROOT / name
        known = path.read_text(encoding="utf8") if path.is_file() else ""
        lock = resolved(extras, known=known, constraints=constraints, upgrade="--upgrade" in sys.argv[1:])
        constraints = constraints or re.sub(r" \\\n( +--hash=\S+( \\)?\n)+", "\n", lock)
        header = HEADER.format(verb="demo" if "demo" in name else "test")
        path.write_text(header + without_torch(lock), encoding="utf8")


if __name__ == "__main__":
    main()
