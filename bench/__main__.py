"""Run the measurements named on the command line, or all of them: each is a module of this folder with a `main`."""

import importlib
import sys
from pathlib import Path

import bench


def main(names: list[str]) -> None:
    """Run each measurement; without names all, with --list none but their names."""
    folder = Path(bench.__path__[0])
    known = sorted(
        path.stem for path in folder.glob("[!_]*.py") if "\ndef main(" in path.read_text(encoding="utf8")
    )
    if names == ["--list"]:
        print("\n".join(known))
        return
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"no such measurement: {', '.join(unknown)}; there are {', '.join(known)}")
    sys.argv[1:] = []  # some measurements read a model's directory there, not these names
    missed = [name for name in names or known if measured(name)]
    if missed:  # the others were measured all the same
        sys.exit(f"missed a limit: {', '.join(missed)}")


def measured(name: str) -> bool:
    """Run one measurement; whether it ended with a fault."""
    try:
        return bool(importlib.import_module(f"bench.{name}").main())
    except SystemExit as ended:
        return bool(ended.code)


if __name__ == "__main__":
    main(sys.argv[1:])
