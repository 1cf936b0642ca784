"""Optional dependencies: which extra of the package brings which module.

`pip install reticent` brings what `bound`, `ledger` and reports need. Everything else is an extra; using something
whose extra is missing raises an error with the one command that installs it. The extras themselves are declared in
pyproject.toml; a test compares both.
"""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from reticent.core.errors import MissingExtra

# Name of the module → extra. What several extras bring is listed under the smallest.
EXTRA_OF: Final = {
    "torch": "train",
    "transformers": "train",
    "peft": "train",
    "safetensors": "train",
    "tokenizers": "train",
    "numba": "train",
    "pyarrow": "train",
    "httpx": "train",
    "faker": "pii",
    "babel": "pii",
    "wordfreq": "pii",
    "simplemma": "pii",
    "spacy": "pii",
    "presidio_analyzer": "pii",
    "phonenumbers": "pii",
    "re2": "pii",
    "fastapi": "serve",
    "uvicorn": "serve",
    "prometheus_client": "serve",
    "psycopg": "postgres",
    "ray": "ray",
    "gguf": "gguf",
    "matplotlib": "plot",
    "tensorboardX": "track",
}


def require(*modules: str, purpose: str) -> None:
    """Raise `MissingExtra` unless every module can be imported; imports none of them."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise MissingExtra(module, EXTRA_OF[module], purpose=purpose)


@contextmanager
def optional_imports(purpose: str) -> Iterator[None]:
    """Turns the failed import of an optional module, however deep, into `MissingExtra`."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRA_OF:
            raise
        raise MissingExtra(module, EXTRA_OF[module], purpose=purpose) from None
