"""A served model as an audit's subject: `reticent audit http://host:8000#name`, seen through its text alone.

Whatever more the server grants is not used: attacks on log-probabilities are run on the weights themselves. The
name may be left out where the server lists one model. The API key, where one is needed, is read from the
environment, since an argument is seen by everybody on the machine.
"""

import os
from collections.abc import Sequence
from typing import Final
from urllib.parse import urldefrag

from reticent.core.errors import ModelError
from reticent.core.model import Access, TextModel
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.core.secret import Secret

API_KEY: Final = "RETICENT_API_KEY"
_SCHEMES: Final = ("http://", "https://")


def is_remote(source: str) -> bool:
    """Whether a model is named by an address."""
    return source.lower().startswith(_SCHEMES)


class SeenThroughText:
    """A model of which nothing but its text is used."""

    access: Final = Access.TEXT

    def __init__(self, model: TextModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """The model's name on its server."""
        return self._model.name

    @property
    def fingerprint(self) -> str:
        """The server's word for it: cannot tell when somebody swaps the weights."""
        return self._model.fingerprint

    def complete(
        self, prompts: Sequence[str], sampling: Sampling, *, count: int, randomness: Randomness
    ) -> list[list[str]]:
        """`count` continuations of each prompt."""
        return self._model.complete(prompts, sampling, count=count, randomness=randomness)


def open_remote(source: str) -> SeenThroughText:
    """The model behind an address, asked once whether it is there."""
    from reticent.models.remote import RemoteModel
    from reticent.models.remote_transport import JsonTransport, RemoteOptions

    url, name = urldefrag(source)
    key = os.environ.get(API_KEY)
    secret = None if not key else Secret(key, "API key")
    if not name:
        transport = JsonTransport(url, api_key=secret, options=RemoteOptions())
        try:
            name = only_model(transport.get("/v1/models"), url)
        finally:
            transport.close()
    model = RemoteModel(url, name, api_key=secret)
    model.probe()
    return SeenThroughText(model)


def only_model(answer: object, url: str) -> str:
    """The name of the one model that the server lists."""
    listed = answer.get("data") if isinstance(answer, dict) else None
    names = [str(card["id"]) for card in listed or [] if isinstance(card, dict) and "id" in card]
    if len(names) != 1:
        raise ModelError(
            f"{url} does not serve exactly one model",
            found=", ".join(names[:5]) or "none listed",
            hint=f"name one: '{url}#NAME'",
        )
    return names[0]
