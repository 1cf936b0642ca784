"""Count the files and functions of src/reticent that a journey passes through, by `sys.setprofile`.

    python scripts/journeys.py            the table: bound, train, audit, one token
    python scripts/journeys.py bound      one journey in this process, every function in the order of its first call

Each journey runs in a process of its own, on a small embedded corpus. Only functions that are called count; modules
that are merely imported, comprehensions and lambdas do not.
"""

import json
import subprocess
import sys
import tempfile
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType

SOURCE = str(Path(__file__).resolve().parent.parent / "src" / "reticent")
SHORT = ["--model", "embedded", "--batch", "8", "--epochs", "0.5", "--seed", "1"]
DP_SGD = [*SHORT, "--method", "dp-sgd", "--noise-multiplier", "1", "--delta", "1e-3"]
SUBMIX = [*SHORT, "--method", "submix", "--parts", "2", "--lora-rank", "1"]
ASK = ["--prompt", "hello", "--epsilon", "8", "--delta", "1e-3", "--max-tokens", "1"]


def commands(folder: Path) -> dict[str, tuple[list[list[str]], list[str]]]:
    """For every journey: the calls that come before it, and the call that is counted."""
    train, holdout, planted, key = (
        str(folder / name) for name in ("train.jsonl", "hold.jsonl", "p.jsonl", "key.json")
    )
    plant = ["plant", train, "--out", planted, "--key", key, "--count", "2", "--copies", "2", "--seed", "1"]
    sides = ["--train", planted, "--holdout", holdout, "--canaries", key, "--records", "20", "--no-cache"]
    ensemble = str(folder / "ensemble")
    return {
        "bound": ([], ["bound", "dp-sgd", "--noise-multiplier", "1", "--sampling-rate", "0.01", "--steps", "1000"]),
        "train": ([], ["train", "--data", train, *DP_SGD, "--out", str(folder / "run")]),
        "audit": (
            [plant],
            ["audit", "embedded", *sides, "--attacks", "exposure,membership", "--out", str(folder / "audit")],
        ),
        "token": (
            [["train", "--data", train, *SUBMIX, "--out", ensemble]],
            ["predict", ensemble, *ASK],
        ),
    }


def functions_of(name: str) -> list[tuple[str, str]]:
    """The functions that a journey passes through, as file and name, in the order of their first calls."""
    from reticent.cli import main as cli

    touched: dict[tuple[str, str, int], None] = {}

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        is_function = code.co_flags & CO_OPTIMIZED and not code.co_name.startswith("<")  # no class body, no lambda
        if event == "call" and is_function and code.co_filename.startswith(SOURCE):
            touched[code.co_filename, code.co_qualname, code.co_firstlineno] = None

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for side in ("train", "hold"):
            rows = [
                {"id": f"{side}{i}", "owner": f"{side}{i}", "text": f"{side} says hello {i}"} for i in range(40)
            ]
            (folder / f"{side}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf8")
        before, call = commands(folder)[name]
        for each in before:
            assert cli.run(each) == 0, each
        sys.setprofile(profile)
        code = cli.run(call)
        sys.setprofile(None)
        assert code in (0, 1), call
    return [(Path(file).relative_to(SOURCE).as_posix(), function) for file, function, _ in touched]


def main() -> None:
    """Print one journey, or all of them."""
    if len(sys.argv) > 1 and sys.argv[1] not in commands(Path()):
        sys.exit(f"{__doc__}\nno journey '{sys.argv[1]}'; there are {', '.join(commands(Path()))}")
    if len(sys.argv) > 1:
        functions = functions_of(sys.argv[1])
        sys.stdout.writelines(f"{file:50} {function}\n" for file, function in functions)
        files = len({file for file, _ in functions})
        sys.stdout.write(f"\njourney {sys.argv[1]}: {files} files, {len(functions)} functions\n")
        return
    for name in commands(Path()):
        done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("journey ")]
        sys.stdout.write((lines[-1] if lines else f"journey {name}: failed\n{done.stderr[-500:]}") + "\n")


if __name__ == "__main__":
    main()
