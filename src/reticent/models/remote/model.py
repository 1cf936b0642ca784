"""A model behind an OpenAI-compatible API, seen as far as the server lets us see.

With text alone it completes prompts (`Access.TEXT`). As a `chat` it is asked by a user's messages and shows text
alone. Where the server also scores prompts, as vLLM does, and the
tokens are known, by a local tokenizer or the server's own, it grants log-probabilities (`Access.LOGPROBS`). Which
it is, `probe` finds out once by asking the server. Whole next-token distributions no such API offers.

Prompts are sent to the server: whoever runs it reads them. The fingerprint is **weak**: it holds the address, the
model's name and what `/v1/models` says of it, and cannot change when someone swaps the weights behind them.
"""

import hashlib
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from reticent.core.arrays import Floats
from reticent.core.errors import AccessError, ModelError
from reticent.core.model import Access, Tokens
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.core.secret import Secret
from reticent.models.remote import protocol
from reticent.models.remote.probe import Capabilities, honours_top_k, probe_server
from reticent.models.remote.tokenizer import LocalTokenizer, RemoteTokenizer
from reticent.models.remote.transport import JsonTransport, RemoteOptions

_MOST_CHOICES: Final = 32  # continuations asked for in one request; servers limit `n`


class RemoteModel:
    """A remote model. Making one sends nothing; the first use probes the server.

    Ask `access` what it grants before asking for more: log-probabilities of a text-only server are an AccessError.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: Secret | None = None,
        tokenizer: RemoteTokenizer | Path | None = None,
        options: RemoteOptions | None = None,
        chat: bool = False,
    ) -> None:
        self._transport = JsonTransport(url, api_key=api_key, options=options or RemoteOptions())
        self._model = model
        self._chat = chat
        given = LocalTokenizer.from_directory(tokenizer) if isinstance(tokenizer, Path) else tokenizer
        self._given_tokenizer = given
        self._capabilities: Capabilities | None = None
        self._honours_top_k: bool | None = None
        self._probing = threading.RLock()

    def __repr__(self) -> str:
        return f"RemoteModel({self._transport.url}, {self._model!r})"

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        self._transport.close()

    def probe(self) -> Capabilities:
        """Ask the server, once, what it offers."""
        with self._probing:
            if self._capabilities is None:
                self._capabilities = probe_server(
                    self._transport, self._model, tokenizer=self._given_tokenizer, chat=self._chat
                )
            return self._capabilities

    @property
    def name(self) -> str:
        """The model's name on its server."""
        return self._model

    @property
    def access(self) -> Access:
        """What the server grants, by `probe`."""
        return self.probe().access

    @property
    def fingerprint(self) -> str:
        """Hash of address, name, what the server says of the model, and the local tokenizer. Weak: see above."""
        parts = [
            self._transport.url,
            self._model,
            self.probe().card,
            self._chat,
            getattr(self._given_tokenizer, "fingerprint", ""),
        ]
        return hashlib.blake2b(json.dumps(parts, default=str).encode(), digest_size=16).hexdigest()

    @property
    def vocabulary_size(self) -> int:
        """Entries of the local tokenizer's vocabulary; a server does not tell its own."""
        size = getattr(self._tokenizer(), "vocabulary_size", None)
        if size is None:
            self._lacks("the size of its vocabulary")
        return int(size)

    @property
    def context_length(self) -> int | None:
        """Longest sequence that can be scored, start token included, where the server tells it."""
        return self.probe().context_length

    @property
    def start_token(self) -> int:
        """The token every sequence is conditioned on."""
        start = self._tokenizer().start_token
        if start is None:
            self._lacks("its start token")
        return start

    @property
    def end_token(self) -> int | None:
        """The token that ends a text, where the tokenizer tells it."""
        return self._tokenizer().end_token

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, without special tokens."""
        return self._tokenizer().encode(texts)

    def decode(self, sequences: Sequence[Tokens]) -> list[str]:
        """Text of each sequence of token ids."""
        return self._tokenizer().decode(sequences)

    def token_log_probs(self, sequences: Sequence[Tokens]) -> list[Floats]:
        """log p(x_t | start, x_<t) for every token of every sequence: one [T_i] array each."""
        return self._transport.each(self._score, [list(sequence) for sequence in sequences])

    def continuation_log_probs(self, prefix: Tokens, continuations: Sequence[Tokens]) -> list[Floats]:
        """log p of every token of every continuation of one prefix, one request each."""
        whole = self.token_log_probs([[*prefix, *continuation] for continuation in continuations])
        return [scores[len(prefix) :] for scores in whole]

    def next_token_log_probs(self, contexts: Sequence[Tokens]) -> Floats:  # noqa: ARG002  (the protocol's signature)
        """Refused: no such API tells a whole distribution."""
        self._lacks("whole next-token distributions")

    def generate(
        self, prompts: Sequence[Tokens], sampling: Sampling, *, count: int, randomness: Randomness
    ) -> list[list[list[int]]]:
        """`count` sampled continuations of each prompt, without the prompt, cut before the end token."""
        start, end = self.start_token, self.end_token
        if not self.probe().token_output:
            self._lacks("the ids of the tokens it samples")
        extra = {"logprobs": 0, "return_tokens_as_token_ids": True}
        starts = [[start, *prompt] for prompt in prompts]
        sampled = self._sample(starts, sampling, count=count, randomness=randomness, extra=extra)
        return [[_cut(self._ids(choice), end) for choice in row] for row in sampled]

    def complete(
        self, prompts: Sequence[str], sampling: Sampling, *, count: int, randomness: Randomness
    ) -> list[list[str]]:
        """`count` continuations of each prompt as text. A seeded source asks the server for its seeds."""
        sampled = self._sample(list(prompts), sampling, count=count, randomness=randomness, extra={})
        return [[protocol.text_of(choice) for choice in row] for row in sampled]

    def _sample(
        self,
        prompts: Sequence[Any],
        sampling: Sampling,
        *,
        count: int,
        randomness: Randomness,
        extra: dict[str, Any],
    ) -> list[list[dict[str, Any]]]:
        """The choices for each prompt, a few of them a request."""
        if count < 1:
            raise ValueError("count must be at least 1")
        fields = protocol.sampling_fields(sampling, extensions=self.probe().extensions) | extra
        is_greedy = sampling.temperature_at(0) == 0.0
        if sampling.top_k is not None and not is_greedy and not self._top_k_works():
            raise AccessError("this server ignores top_k", hint="use top_p, or a server such as vLLM")
        copies = count if is_greedy else 1  # greedy decoding has one answer, and servers refuse to give it twice
        sizes = [min(_MOST_CHOICES, left) for left in range(count // copies, 0, -_MOST_CHOICES)]
        jobs = [(index, size, self._seed(randomness)) for index in range(len(prompts)) for size in sizes]

        def run(job: tuple[int, int, dict[str, int]]) -> list[dict[str, Any]]:
            index, size, seed = job
            return protocol.choices(self._ask(prompts[index], {**fields, **seed, "n": size}), size)

        results: list[list[dict[str, Any]]] = [[] for _ in prompts]
        for (index, _, _), found in zip(jobs, self._transport.each(run, jobs), strict=True):
            results[index] += found * copies
        return results

    def _seed(self, randomness: Randomness) -> dict[str, int]:
        """A seed for the server where an experiment is to be repeated; 32 bits survive every JSON reader."""
        return {} if randomness.protects else {"seed": randomness.fresh_seed() >> 31}

    def _score(self, tokens: list[int]) -> Floats:
        """log p of every token after the start token."""
        capabilities = self.probe()
        if capabilities.scoring is None:
            self._lacks("log-probabilities of prompts")
        prompt = [self.start_token, *tokens]
        if capabilities.context_length is not None and len(prompt) > capabilities.context_length:
            raise ModelError(
                "a sequence is longer than the remote model reads",
                found=f"{len(prompt)} tokens",
                expected=f"at most {capabilities.context_length}",
            )
        fields = protocol.scoring_fields(capabilities.scoring, extensions=capabilities.extensions)
        return protocol.prompt_scores(self._ask(prompt, fields), prompt, capabilities.scoring)

    def _ask(self, prompt: str | list[int], fields: dict[str, Any]) -> Any:
        path, asked = protocol.request(prompt, chat=self._chat)
        return self._transport.post(path, {"model": self._model, **asked, **fields})

    def _top_k_works(self) -> bool:
        """Whether `top_k` has an effect; asked once, when first needed."""
        with self._probing:
            if self._honours_top_k is None:
                self._honours_top_k = honours_top_k(
                    self._transport, self._model, tokenizer=self.probe().tokenizer, chat=self._chat
                )
            return self._honours_top_k

    def _tokenizer(self) -> RemoteTokenizer:
        tokenizer = self._given_tokenizer or self.probe().tokenizer
        if tokenizer is None:
            self._lacks("its tokenizer")
        return tokenizer

    def _ids(self, choice: dict[str, Any]) -> list[int]:
        tokens = protocol.tokens_of(choice)
        if tokens is None:
            raise ModelError("a completion does not tell its token ids, though the server did when it was probed")
        return tokens

    def _lacks(self, what: str) -> NoReturn:
        raise AccessError(
            f"the remote model '{self._model}' does not provide {what}",
            hint="serve it with vLLM and give its tokenizer's directory, or audit the weights themselves",
        )


def _cut(tokens: list[int], end: int | None) -> list[int]:
    """The tokens before the first end token."""
    return tokens[: tokens.index(end)] if end is not None and end in tokens else tokens
