"""Private answers as text: an ensemble that is opened once and asked many times, on one ledger.

What `reticent predict` does for one prompt. The first use of an ensemble fixes mechanism, (ε, δ), unit and query
budget; later ones may leave them out (`runs.ensemble.prediction`).
"""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from reticent.core.guarantee import Guarantee
from reticent.prediction.mechanisms.shaping import Shaping
from reticent.prediction.predictor import Exhausted
from reticent.runs.ensemble.manifest import Manifest
from reticent.runs.ensemble.prediction import Answer, answering, ledger_identity
from reticent.runs.ensemble.settings import PredictSettings
from reticent.runs.ensemble.transcript import Request, Transcript
from reticent.runs.ledger_place import LedgerPlace

if TYPE_CHECKING:
    from reticent.runs.training.result import TrainedRun


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
        self._settings = settings.of_run(settings.run)
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


def predict(settings: PredictSettings, prompt: str) -> Answer:
    """Continue one prompt."""
    with Predictor(settings) as predictor:
        return predictor.generate(prompt, max_tokens=settings.max_tokens)
