"""What lies in a model's directory, and what of it is refused before a byte of it is used.

Weights must be safetensors (or GGUF): a pickled checkpoint runs code of its author when it is opened. A
configuration that names its own Python code (`auto_map`) is refused for the same reason. Reads JSON and file names
only.
"""

import json
from pathlib import Path
from typing import Any, Final

from reticent.core.errors import ModelError

PICKLED: Final = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"}
_NOT_WEIGHTS: Final = {"training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scheduler.bin"}
CONFIG: Final = "config.json"
ADAPTER_CONFIG: Final = "adapter_config.json"
TOKENIZER_FILES: Final = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "tokenizer_config.json")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object in a file of a model's directory."""
    try:
        document = json.loads(path.read_text(encoding="utf8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ModelError(f"{path}: cannot be read as JSON", found=type(error).__name__) from None
    if not isinstance(document, dict):
        raise ModelError(f"{path}: not a JSON object")
    return document


def is_adapter(directory: Path) -> bool:
    """Whether a directory holds a PEFT adapter rather than a whole model."""
    return (directory / ADAPTER_CONFIG).is_file()


def has_tokenizer(directory: Path) -> bool:
    """Whether a directory holds files of a tokenizer."""
    return any((directory / name).is_file() for name in TOKENIZER_FILES)


def check_directory(directory: Path) -> None:
    """Refuse a directory that holds no model, that wants to run its own code, or that is pickled."""
    if not is_adapter(directory) and not (directory / CONFIG).is_file():
        found = sorted(path.name for path in directory.glob("*.gguf"))
        raise ModelError(
            f"{directory}: no model in this directory",
            expected=f"a {CONFIG}, or an {ADAPTER_CONFIG} for an adapter",
            hint=f"give the GGUF file itself: {directory / found[0]}"
            if found
            else "save it with save_pretrained()",
        )
    for name in (CONFIG, ADAPTER_CONFIG, "tokenizer_config.json"):
        path = directory / name
        if path.is_file():
            check_no_code(read_json(path), path)
    weights = ("adapter_model",) if is_adapter(directory) else ("model", "pytorch_model", "")
    check_weights(directory, weights)


def check_no_code(config: dict[str, Any], path: Path) -> None:
    """Refuse a configuration that names Python code to be run."""
    if config.get("auto_map") or config.get("trust_remote_code"):
        raise ModelError(
            f"{path}: the model wants to run Python code of its own (auto_map), which is refused",
            hint="where transformers knows the architecture itself, delete the entry 'auto_map' from the file",
        )


def check_weights(directory: Path, stems: tuple[str, ...]) -> None:
    """Refuse a directory without safetensors weights, and say so when it has pickled ones."""
    files = [path for path in directory.iterdir() if path.is_file() and path.name not in _NOT_WEIGHTS]
    if any(path.suffix == ".safetensors" and path.name.startswith(stems) for path in files):
        return
    pickled = sorted(path.name for path in files if path.suffix in PICKLED)
    if pickled:
        raise ModelError(
            f"{directory}: pickled weights are refused, since opening them can run code",
            found=pickled[0],
            expected="safetensors",
            hint="convert them once where you trust their author: load the model with transformers and "
            "save_pretrained() it, which writes safetensors",
        )
    raise ModelError(
        f"{directory}: no weights in this directory", expected="safetensors", hint="save the model again"
    )
