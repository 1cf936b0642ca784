"""What lies in a model's directory, and what of it is refused before a byte of it is used.

Weights must be safetensors (or GGUF): a pickled checkpoint runs code of its author when it is opened. A
configuration that names its own Python code (`auto_map`), or kernels to fetch, is refused for the same reason. A
file that an index, a configuration or a tokenizer names must be a plain name in the directory itself, since the
libraries follow such names wherever they lead; for the same reason no file may be a link out of it. Reads JSON and
file names only; `require_finite` looks at numbers.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reticent.core.errors import ModelError
from reticent.models.huggingface.adapter_config import MOST_LAYERS, check_adapter_config

if TYPE_CHECKING:
    import torch

PICKLED: Final = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"}
_NOT_WEIGHTS: Final = {"training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scheduler.bin"}
CONFIG: Final = "config.json"
ADAPTER_CONFIG: Final = "adapter_config.json"
TOKENIZER_CONFIG: Final = "tokenizer_config.json"
_WEIGHTS: Final = "model.safetensors"
_ADAPTER_WEIGHTS: Final = "adapter_model.safetensors"
_INDEX: Final = ".index.json"
_LAYERS: Final = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
TOKENIZER_FILES: Final = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", TOKENIZER_CONFIG)
_READ: Final = {
    ".json",
    ".txt",
    ".model",
    ".spm",
    ".tiktoken",
    ".jinja",
}  # by the libraries, under names of their own


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object in a file of a model's directory."""
    try:
        document = json.loads(path.read_text(encoding="utf8"))
    except (OSError, ValueError, RecursionError) as error:
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


def _where_the_model_is(directory: Path) -> str:
    """What to give instead of a directory that holds no model itself."""
    inner = directory / "model"
    if is_adapter(inner) or (inner / CONFIG).is_file():
        return f"give the model of this run: {inner}"
    found = sorted(path.name for path in directory.glob("*.gguf"))
    return f"give the GGUF file itself: {directory / found[0]}" if found else "save it with save_pretrained()"


def check_directory(directory: Path) -> None:
    """Refuse a directory that holds no model, that wants to run its own code, or that is pickled."""
    if not is_adapter(directory) and not (directory / CONFIG).is_file():
        raise ModelError(
            f"{directory}: no model in this directory",
            expected=f"a {CONFIG}, or an {ADAPTER_CONFIG} for an adapter",
            hint=_where_the_model_is(directory),
        )
    for name in (CONFIG, ADAPTER_CONFIG, TOKENIZER_CONFIG):
        path = directory / name
        if path.is_file():
            document = read_json(path)
            check_no_code(document, path)
            _check_layers(document, path)
            if name == ADAPTER_CONFIG:
                check_adapter_config(document, path)
            for key, named in _named_files(document):
                _require_plain(named, path, where=f"'{key}'")
    check_weights(directory)
    for index in sorted(directory.glob(f"*{_INDEX}")):
        _check_index(index)
    for path in sorted(directory.iterdir()):
        if path.is_symlink() and path.suffix in _READ:
            _require_inside(path)


def check_no_code(config: dict[str, Any], path: Path) -> None:
    """Refuse a configuration that names Python code to be run."""
    if config.get("auto_map") or config.get("trust_remote_code"):
        raise ModelError(
            f"{path}: the model wants to run Python code of its own (auto_map), which is refused",
            hint="where transformers knows the architecture itself, delete the entry 'auto_map' from the file",
        )
    kernels = [key for key, value in config.items() if key.endswith("attn_implementation") and "/" in str(value)]
    if kernels:
        raise ModelError(
            f"{path}: the model wants to fetch code for its attention, which is refused",
            found=kernels[0],
            hint="delete the entry from the file",
        )


def check_weights(directory: Path) -> None:
    """Refuse a directory whose weights the libraries would not read as safetensors, and say when they are pickled.

    Only the very names that transformers and PEFT look for count: beside any other file they go on to pickled ones.
    """
    names = (_ADAPTER_WEIGHTS,) if is_adapter(directory) else (_WEIGHTS, _WEIGHTS + _INDEX)
    read = next((directory / name for name in names if (directory / name).is_file()), None)
    if read is not None:
        _require_inside(read)
        return
    files = [path for path in directory.iterdir() if path.is_file() and path.name not in _NOT_WEIGHTS]
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
        f"{directory}: no weights in this directory", expected=" or ".join(names), hint="save the model again"
    )


def require_finite(tensors: "Iterable[tuple[str, torch.Tensor]]", where: object) -> None:
    """Refuse weights that hold NaN or an infinity, by the tensor's name: every number after them is nonsense."""
    for name, tensor in tensors:
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ModelError(
                f"{where}: the weights hold numbers that are not finite",
                found=f"NaN or an infinity in {name}",
                hint="save the model again, or use an earlier checkpoint",
            )


def _named_files(document: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Files that a configuration tells the libraries to read: key and name."""
    for key, value in document.items():
        if key == "transformers_weights" or (key.endswith("_file") and value is not None):
            yield key, value
        elif key == "fast_tokenizer_files":
            yield from ((key, each) for each in (value if isinstance(value, list) else [value]))


def _check_layers(document: dict[str, Any], path: Path) -> None:
    for key in _LAYERS:
        count = document.get(key, 0)
        if isinstance(count, int) and count > MOST_LAYERS:
            raise ModelError(
                f"{path}: more layers than any model has", found=key, expected=f"at most {MOST_LAYERS}"
            )


def _check_index(path: Path) -> None:
    """Refuse an index of shards that leads anywhere but to safetensors beside it."""
    shards = read_json(path).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise ModelError(f"{path}: not an index of weights", expected="an object 'weight_map' of names and files")
    for name in sorted({str(shard) for shard in shards.values()}):
        _require_plain(name, path, where="'weight_map'", suffix=".safetensors")


def _require_plain(name: object, path: Path, *, where: str, suffix: str = "") -> None:
    """Refuse a name that is not that of a regular file in the directory."""
    is_plain = isinstance(name, str) and name == Path(name).name and name not in ("", ".", "..")
    if not is_plain or not str(name).endswith(suffix) or "\\" in str(name):
        raise ModelError(
            f"{path}: {where} names a file that is refused",
            expected=f"a plain name{f' that ends in {suffix}' if suffix else ''}, of a file in this directory",
            hint="save the model again with save_pretrained()",
        )
    if not (path.parent / str(name)).is_file():
        raise ModelError(f"{path}: {where} names a file that is missing", hint="save or download the model again")
    _require_inside(path.parent / str(name))


def _require_inside(path: Path) -> None:
    """Refuse a link out of the directory; the hub's own cache keeps its files in `blobs` above the snapshot."""
    directory = path.parent.resolve()
    blobs = directory.parents[1] / "blobs" if len(directory.parents) > 1 else directory
    found = path.resolve()
    if not (found.is_relative_to(directory) or found.is_relative_to(blobs)):
        raise ModelError(f"{path}: a link that leads out of the model's directory is refused")
