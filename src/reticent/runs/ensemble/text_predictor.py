"""Private answers as text: an ensemble that is opened once and asked many times, on one ledger.

What `reticent predict` does for one prompt. The first use of an ensemble fixes mechanism, (ε, δ), unit and query
budget; later ones may leave them out (`runs.ensemble.prediction`).

With `replay`, answers are kept, so that the same request can have the same answer again, free of charge:

    RUN/transcript.json   {digest of the request: the tokens that were released}     mode 0600

A request is the prompt and every public parameter: the ledger's identity (weights, mechanism, ε, δ, …), the most
tokens, temperature and truncation. A prompt may be private: its digest is kept, never its text.

Guarantee: a replayed answer depends on the request and on tokens that were charged and released before, and on
nothing else. It is post-processing of the transcript, for which nothing more is paid. Whatever is not in the
transcript is drawn afresh and charged; a lost transcript costs budget, never privacy.
"""

import hashlib
import json
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from reticent.core.document import check_schema, read_document, write_document
from reticent.core.guarantee import Guarantee
from reticent.core.model import Tokens
from reticent.prediction.mechanisms.shaping import Shaping
from reticent.prediction.predictor import Exhausted
from reticent.runs.ensemble.manifest import Manifest
from reticent.runs.ensemble.prediction import Answer, answering, ledger_identity, settings_of
from reticent.runs.ensemble.settings import PredictSettings
from reticent.runs.ledger_place import LedgerPlace

if TYPE_CHECKING:
    from reticent.runs.training.result import TrainedRun

SCHEMA_VERSION: Final = 1
TRANSCRIPT: Final = "transcript.json"


class Predictor:
    """An open ensemble: text in, private text out, each token charged before it is drawn. Close it, or use `with`.

    Guarantee: all answers on one ledger are together what `guarantee` says.

    >>> run = reticent.train(
    ...     "mails.jsonl", model="embedded", method="submix", out="ensemble", parts=2, lora_rank=1, max_length=16
    ... )
    >>> with reticent.Predictor.open(run, epsilon=8, delta=1e-5) as predictor:
    ...     answer = predictor.generate("SYS: Good", max_tokens=4)
    >>> answer.tokens, predictor.guarantee.epsilon <= 8
    (4, True)
    """

    def __init__(self, settings: PredictSettings) -> None:
        Manifest.read(settings.run)  # what is no ensemble is said before torch is loaded
        self._settings = settings_of(settings.run, settings.asked())
        self._shaping = Shaping(settings.temperature, settings.top_k, settings.top_p)
        self._transcript = Transcript(settings.run) if settings.replay else None
        self._stack = ExitStack()
        self._open = self._stack.enter_context(
            answering(
                settings.run,
                self._settings,
                shaping=self._shaping,
                exhausted=Exhausted.REFUSE if settings.refuse else Exhausted.PUBLIC,
                place=LedgerPlace(settings.ledger),
            )
        )

    @classmethod
    def open(cls, run: "TrainedRun | Path | str", **options: Any) -> Self:
        """The predictor of a run of method submix; `options` as the flags of `reticent predict`."""
        place = run if isinstance(run, str | Path) else run.path
        return cls(PredictSettings.of(run=str(place), prompt="", **options))

    @property
    def guarantee(self) -> Guarantee | None:
        """What all answers together prove; None where the public model alone answers."""
        return self._open.guarantee

    def generate(self, prompt: str, *, max_tokens: int = 64) -> Answer:
        """Continue a prompt by at most `max_tokens` tokens; fewer if the model's context is full.

        With `replay`, a request that was answered before has the same answer again, and nothing is charged.
        """
        predictor = self._open.predictor
        public = predictor.ensemble.public
        (context,) = public.encode([prompt])
        room = max_tokens if public.context_length is None else public.context_length - 1 - len(context)
        identity = ledger_identity(predictor.ensemble, self._settings)
        request = Request(identity, context, min(max_tokens, max(1, room)), self._shaping)
        made = None if self._transcript is None else self._transcript.find(request)
        is_replayed = made is not None
        if made is None:
            made = predictor.generate(context, request.max_tokens)
            if self._transcript is not None:
                self._transcript.add(request, made)
        (text,) = public.decode([made])
        return Answer(text, len(made), self._settings.mechanism, self.guarantee, is_replayed=is_replayed)

    def close(self) -> None:
        """Close the ledger."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


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
