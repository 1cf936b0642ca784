"""Text to token ids and back, for a model that runs elsewhere: with a local tokenizer, or the server's own.

vLLM's `/tokenize` and `/detokenize` are used as they are documented, without special tokens. Nothing here guesses a
start token: a local directory names it (its BOS, else its EOS), a server shows it by the tokens it adds to a text.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import tokenizers

from reticent.core.errors import ModelError
from reticent.core.model import Tokens
from reticent.models.remote.transport import JsonTransport, RefusedRequest

# Statuses by which a server says that it does not offer something.
NOT_OFFERED: Final = {400, 404, 405, 422, 501}
PROBE_TEXT: Final = "Hello"


class RemoteTokenizer(Protocol):
    """What a remote model needs to speak in token ids."""

    @property
    def start_token(self) -> int | None:
        """The token every sequence is conditioned on, where it is known."""
        ...

    @property
    def end_token(self) -> int | None:
        """The token that ends a text, where it is known."""
        ...

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, without special tokens."""
        ...

    def decode(self, sequences: Sequence[Tokens]) -> list[str]:
        """Text of each sequence of token ids."""
        ...


class LocalTokenizer:
    """A tokenizer of the `tokenizers` library with its two special tokens."""

    def __init__(
        self, tokenizer: tokenizers.Tokenizer, *, start_token: int | None, end_token: int | None = None
    ) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self.start_token = start_token
        self.end_token = end_token

    @classmethod
    def from_directory(cls, directory: Path) -> "LocalTokenizer":
        """The `tokenizer.json` of a model's directory, special tokens as its `tokenizer_config.json` names them."""
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
            settings = json.loads((directory / "tokenizer_config.json").read_text(encoding="utf8"))
        except Exception as error:  # the library raises bare Exception for a file it cannot read
            raise ModelError(
                f"{directory}: no tokenizer can be read here",
                found=type(error).__name__,
                expected="tokenizer.json and tokenizer_config.json",
            ) from None
        first, last = (_special(tokenizer, settings, key) for key in ("bos_token", "eos_token"))
        return cls(tokenizer, start_token=last if first is None else first, end_token=last)

    @property
    def vocabulary_size(self) -> int:
        """Entries of the vocabulary, added ones included."""
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    @property
    def fingerprint(self) -> str:
        """Hash of the whole tokenizer."""
        return hashlib.blake2b(self._tokenizer.to_str().encode(), digest_size=16).hexdigest()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, without special tokens."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def decode(self, sequences: Sequence[Tokens]) -> list[str]:
        """Text of each sequence, special tokens shown where there are any."""
        return self._tokenizer.decode_batch([list(row) for row in sequences], skip_special_tokens=False)


class ServerTokenizer:
    """The server's own tokenizer, by `/tokenize` and `/detokenize`."""

    def __init__(self, transport: JsonTransport, model: str) -> None:
        """Ask for the tokens of a greeting with and without special tokens: what is added is start and end."""
        self._transport = transport
        self._model = model
        plain = self._tokens(PROBE_TEXT, special=False)
        dressed = self._tokens(PROBE_TEXT, special=True)
        places = [place for place in range(2) if dressed[place : place + len(plain)] == plain]
        before, after = (dressed[: places[0]], dressed[places[0] + len(plain) :]) if places else ([], [])
        self.end_token = after[0] if after else None
        self.start_token = before[0] if before else self.end_token

    @classmethod
    def connect(cls, transport: JsonTransport, model: str) -> "ServerTokenizer | None":
        """The server's tokenizer, or None where the server offers none."""
        try:
            return cls(transport, model)
        except RefusedRequest as error:
            if error.status in NOT_OFFERED:
                return None
            raise

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, without special tokens; one request a text."""
        return self._transport.each(lambda text: self._tokens(text, special=False), texts)

    def decode(self, sequences: Sequence[Tokens]) -> list[str]:
        """Text of each sequence; one request a sequence."""
        return self._transport.each(self._text, sequences)

    def _tokens(self, text: str, *, special: bool) -> list[int]:
        body = {"model": self._model, "prompt": text, "add_special_tokens": special}
        answer = self._transport.post("/tokenize", body)
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        if not isinstance(tokens, list) or any(type(token) is not int for token in tokens):
            raise ModelError(f"{self._transport.url}/tokenize: the answer holds no list of token ids")
        return tokens

    def _text(self, tokens: Tokens) -> str:
        answer = self._transport.post("/detokenize", {"model": self._model, "tokens": list(tokens)})
        text = answer.get("prompt") if isinstance(answer, dict) else None
        if not isinstance(text, str):
            raise ModelError(f"{self._transport.url}/detokenize: the answer holds no text")
        return text


def _special(tokenizer: tokenizers.Tokenizer, settings: dict[str, Any], key: str) -> int | None:
    """Id of a special token that `tokenizer_config.json` names, as a string or as an object with its content."""
    named = settings.get(key)
    content = named.get("content") if isinstance(named, dict) else named
    return tokenizer.token_to_id(content) if isinstance(content, str) else None
