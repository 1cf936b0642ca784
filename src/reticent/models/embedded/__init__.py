"""The embedded public model: a small language model that ships with the package, so that everything runs offline.

Trained by scripts/make_public_model.py on generated public text alone; the README beside the weights says how.
Knows only where the files are: load them with any adapter, or
`AutoModelForCausalLM.from_pretrained(embedded_model_path())`.
"""

from importlib.resources import files
from pathlib import Path
from typing import Final

EMBEDDED: Final = "embedded"  # what users call it wherever a model is asked for


def embedded_model_path() -> Path:
    """The folder of the embedded public model: config, weights (safetensors) and tokenizer, for Hugging Face."""
    return Path(str(files("reticent.models.embedded")))
