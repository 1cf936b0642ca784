"""How many weights a stored model has, by the headers of its safetensors files: reads no weight, loads no torch.

A file starts with the length of its header (8 bytes, little-endian) and the header, JSON with the shape of every
tensor (https://huggingface.co/docs/safetensors).
"""

import json
import math
from pathlib import Path
from typing import Final

_MOST_HEADER: Final = 100_000_000  # bytes, the format's own limit


def stored_parameters(folder: Path) -> int | None:
    """The number of weights in a model's folder; None where there is no safetensors file that can be read."""
    files = sorted(folder.glob("*.safetensors")) if folder.is_dir() else []
    try:
        return sum(_weights_in(file) for file in files) if files else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # a damaged file is for whoever loads the model to complain about


def _weights_in(path: Path) -> int:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _MOST_HEADER:
            raise ValueError(path.name)
        header = json.loads(file.read(length))
    return sum(math.prod(about["shape"]) for name, about in header.items() if name != "__metadata__")
