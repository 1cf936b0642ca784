"""Answers that an ensemble has given, so that the same request can have the same answer again, free of charge.

    RUN/transcript.json   {digest of the request: the tokens that were released}     mode 0600

A request is the prompt and every public parameter: the ledger's identity (weights, mechanism, ε, δ, …), the most
tokens, temperature and truncation. A prompt may be private: its digest is kept, never its text.

Guarantee: a replayed answer depends on the request and on tokens that were charged and released before, and on
nothing else. It is post-processing of the transcript, for which nothing more is paid. Whatever is not in the
transcript is drawn afresh and charged; a lost transcript costs budget, never privacy.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from reticent.core.document import check_schema, read_document, write_document
from reticent.core.model import Tokens
from reticent.prediction.mechanisms.shaping import Shaping

SCHEMA_VERSION: Final = 1
TRANSCRIPT: Final = "transcript.json"


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked, by public facts alone."""

    identity: str  # of the ledger
    prompt: Tokens
    max_tokens: int
    shaping: Shaping

    def __repr__(self) -> str:
        return f"Request({len(self.prompt)} tokens)"

    @property
    def digest(self) -> str:
        """A name of the request that does not show its prompt."""
        parts = [self.identity, list(map(int, self.prompt)), self.max_tokens, asdict(self.shaping)]
        return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=32).hexdigest()


class Transcript:
    """The answers of one run."""

    def __init__(self, run: Path) -> None:
        self._path = run / TRANSCRIPT

    def find(self, request: Request) -> list[int] | None:
        """The tokens that this very request was answered with; None where it has no answer yet."""
        tokens = self._answers().get(request.digest)
        return None if tokens is None else list(tokens)

    def add(self, request: Request, tokens: Tokens) -> None:
        """Keep an answer that was charged and drawn."""
        answers = self._answers() | {request.digest: list(map(int, tokens))}
        write_document(self._path, {"schema_version": SCHEMA_VERSION, "answers": answers}, mode=0o600)

    def _answers(self) -> dict[str, list[int]]:
        if not self._path.is_file():
            return {}
        document = read_document(self._path)
        check_schema(document, SCHEMA_VERSION, kind="transcript")
        found: dict[str, list[int]] = document["answers"]
        return found
