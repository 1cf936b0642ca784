"""Where a model stands: a directory, a GGUF file, or a hub id, which is downloaded. Loads no model and no torch.

A path that leads nowhere is said here, at once, before the libraries that would read it are loaded. So is how many
weights are stored there, by the headers of safetensors files: the length of the header (8 bytes, little-endian) and
the header, JSON with the shape of every tensor (https://huggingface.co/docs/safetensors).
"""

import json
import re
from pathlib import Path
from typing import Final

from reticent.core.choice import meant
from reticent.core.document import MALFORMED
from reticent.core.errors import ModelError
from reticent.models.embedded import EMBEDDED, embedded_model_path

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
_HUB_IGNORED = ["*/*", "consolidated*"]
_MOST_HEADER: Final = 100_000_000  # bytes, the format's own limit


def locate(source: str | Path) -> Path:
    """The local directory or GGUF file of a source; a hub id is downloaded, or found in the hub's own cache."""
    return find_local(source) or _download(str(source))


def find_local(source: str | Path) -> Path | None:
    """The local directory or GGUF file of a source; None for a hub id, which is not looked for.

    The word "embedded" is the public model that ships with the package, unless a folder of that name stands here.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if source == EMBEDDED:
        return embedded_model_path()
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise ModelError(f"{path}: not a model", expected="a directory, a .gguf file or a hub id")
        return path
    is_hub_id = isinstance(source, str) and _HUB_ID.fullmatch(source) is not None
    if not is_hub_id or path.suffix.lower() == ".gguf":
        raise ModelError(f"{path}: no such file or directory", hint="check the path of the model")
    return None


def _download(hub_id: str) -> Path:
    """The hub's snapshot of a model: configuration, tokenizer, safetensors."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    try:
        return Path(snapshot_download(hub_id, allow_patterns=_HUB_FILES, ignore_patterns=_HUB_IGNORED))
    except (OSError, ValueError, HfHubHTTPError, HFValidationError) as error:
        found = type(error).__name__
        if isinstance(error, LocalEntryNotFoundError):
            found = "no copy on this machine, and no connection"
        elif isinstance(error, RepositoryNotFoundError):
            found = "no model of that name there, or a private one"
        hint = "check the spelling and the connection, or give the path of a directory with the model"
        raise ModelError(
            f"'{hub_id}' is not a local directory, and could not be fetched from the hub",
            found=found,
            hint=meant_embedded(hub_id) or hint,
        ) from None


def meant_embedded(source: str) -> str | None:
    """A question where a source that is no model here is nearly the word "embedded"."""
    return meant(source, [EMBEDDED], alike=0.7)


def stored_shapes(folder: Path) -> tuple[tuple[int, ...], ...] | None:
    """The shapes of all weights in a model's folder; None where there is no safetensors file that can be read."""
    files = sorted(folder.glob("*.safetensors")) if folder.is_dir() else []
    try:
        return tuple(shape for file in files for shape in _shapes_in(file)) or None
    except (OSError, *MALFORMED):
        return None  # a damaged file is for whoever loads the model to complain about


def _shapes_in(path: Path) -> list[tuple[int, ...]]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _MOST_HEADER:
            raise ValueError(path.name)
        header = json.loads(file.read(length))
    return [tuple(map(int, about["shape"])) for name, about in header.items() if name != "__metadata__"]
