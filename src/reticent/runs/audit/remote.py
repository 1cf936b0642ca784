"""A served model as an audit's subject: `reticent audit http://host:8000#name`, seen as far as its server lets us.

A server that scores prompts and tells token ids, as vLLM does, is audited by its log-probabilities. Scores are
those of the same weights here; whole next-token distributions are what is missing (`gives_distributions`). Any
other one is audited by its text alone. Which it is, is asked, not configured.

The name may be left out where the server lists one model. The API key, where one is needed, is read from the
environment, since an argument is seen by everybody on the machine. With a journal every score is kept as it comes,
and an audit that was cut off asks for the rest alone (`models.remote.journal`).
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn
from urllib.parse import urldefrag

from reticent.core.arrays import Floats
from reticent.core.errors import AccessError, ConfigError, ModelError
from reticent.core.model import Access, TextModel, Tokens
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.core.secret import Secret

if TYPE_CHECKING:
    from reticent.models.remote.model import RemoteModel

API_KEY: Final = "RETICENT_API_KEY"


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
        """The server's word for it: cannot tell when someone swaps the weights."""
        return self._model.fingerprint

    def complete(
        self, prompts: Sequence[str], sampling: Sampling, *, count: int, randomness: Randomness
    ) -> list[list[str]]:
        """`count` continuations of each prompt."""
        return self._model.complete(prompts, sampling, count=count, randomness=randomness)


class SeenThroughScores(SeenThroughText):
    """A model whose scores of prompts are used as well: a `LanguageModel` without whole distributions."""

    access: Final = Access.LOGPROBS  # type: ignore[misc]
    gives_distributions: ClassVar[bool] = False

    def __init__(self, model: "RemoteModel", *, journal: Path | None = None) -> None:
        from reticent.models.remote.journal import JournalledModel

        super().__init__(model)
        self._remote = model
        self._scores = model if journal is None else JournalledModel(model, journal)

    @property
    def vocabulary_size(self) -> int:
        """Entries of the tokenizer's vocabulary; 0 where the server alone knows."""
        try:
            return self._remote.vocabulary_size
        except AccessError:
            return 0

    @property
    def context_length(self) -> int | None:
        """Longest sequence that can be scored, start token included, where the server tells it."""
        return self._remote.context_length

    @property
    def start_token(self) -> int:
        """The token every sequence is conditioned on."""
        return self._remote.start_token

    @property
    def end_token(self) -> int | None:
        """The token that ends a text, where the tokenizer tells it."""
        return self._remote.end_token

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, without special tokens."""
        return self._remote.encode(texts)

    def decode(self, sequences: Sequence[Tokens]) -> list[str]:
        """Text of each sequence of token ids."""
        return self._remote.decode(sequences)

    def token_log_probs(self, sequences: Sequence[Tokens]) -> list[Floats]:
        """log p of every token of every sequence, kept in the journal where there is one."""
        return self._scores.token_log_probs(sequences)

    def continuation_log_probs(self, prefix: Tokens, continuations: Sequence[Tokens]) -> list[Floats]:
        """log p of every token of every continuation of one prefix; one request each, kept likewise."""
        whole = self.token_log_probs([[*prefix, *continuation] for continuation in continuations])
        return [scores[len(prefix) :] for scores in whole]

    def next_token_log_probs(self, contexts: Sequence[Tokens]) -> NoReturn:
        """Refused: no such server tells a whole distribution."""
        self._remote.next_token_log_probs(contexts)
        raise AccessError("a server gave a whole distribution")  # it never does

    def generate(
        self, prompts: Sequence[Tokens], sampling: Sampling, *, count: int, randomness: Randomness
    ) -> list[list[list[int]]]:
        """`count` sampled continuations of each prompt, without the prompt, cut before the end token."""
        return self._remote.generate(prompts, sampling, count=count, randomness=randomness)


def open_remote(source: str, *, chat: bool, tokenizer: Path | None, journal: Path | None) -> SeenThroughText:
    """The model behind an address, asked once what it offers.

    `tokenizer` is the directory of its tokenizer here, `journal` a file that keeps its scores.
    """
    from reticent.models.remote.model import RemoteModel
    from reticent.models.remote.transport import JsonTransport, RemoteOptions

    url, name = urldefrag(source)
    key = os.environ.get(API_KEY)
    secret = None if not key else Secret(key, "API key")
    if not name:
        transport = JsonTransport(url, api_key=secret, options=RemoteOptions())
        try:
            name = only_model(transport.get("/v1/models"), url)
        finally:
            transport.close()
    model = RemoteModel(url, name, api_key=secret, tokenizer=tokenizer, chat=chat)
    offered = model.probe()
    if offered.access >= Access.LOGPROBS and offered.token_output:
        return SeenThroughScores(model, journal=journal)
    if journal is not None or tokenizer is not None:
        raise ConfigError(
            f"{url} returns text only: there are no scores to compute or store",
            found="no scores of prompts" if offered.access < Access.LOGPROBS else "no ids of sampled tokens",
            hint="a chat returns text only: leave --chat out"
            if chat
            else "serve the model with vLLM, or leave --journal and --tokenizer out",
        )
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
