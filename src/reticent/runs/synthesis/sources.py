"""What synthetic texts are drawn from: weights that were trained privately, or an ensemble within its budget.

    weights    every text is post-processing of released weights: it costs nothing, and temperature is free
    ensemble   every token is charged to the run's ledger before it is drawn; temperature is inside the accounting

Both draw by the system's generator. A run without a guarantee, with an edited one, or with other weights than were
proved private is refused (`runs.proofs.certificates`), and so is a mechanism whose numbers may not be published.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reticent.core.document import read_document
from reticent.core.errors import BudgetExhausted, ConfigError, ModelError
from reticent.core.guarantee import Guarantee
from reticent.core.model import LanguageModel, Tokens
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.prediction.mechanisms.mechanism import Layout
from reticent.prediction.predictor import Exhausted
from reticent.runs.directory import MANIFEST, TRAINING
from reticent.runs.ensemble.manifest import Manifest
from reticent.runs.ensemble.prediction import (
    Answering,
    PredictionSettings,
    answering,
    ledger_identity,
    settings_of,
)
from reticent.runs.ledger_place import LedgerPlace
from reticent.runs.proofs.ancestry import ANCESTRY, Ancestry, seen_in_training
from reticent.runs.proofs.certificates import read_certificate, read_other_guarantees, weights_guarantee
from reticent.runs.synthesis.settings import SynthesizeSettings

if TYPE_CHECKING:
    from reticent.models.huggingface.model import HuggingFaceModel

_TOGETHER: Final = 64  # texts that are drawn from weights between two rows of the draft
_STREAMS: Final = 16  # texts that an ensemble grows side by side


@dataclass(frozen=True, slots=True)
class Drawn:
    """One text as it was drawn, its prompt included; `is_whole`: the model ended it by itself."""

    text: str = field(repr=False)
    tokens: int
    is_whole: bool

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read."""
        return not self.text.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What covers every text: the guarantee, what else is proved beside it, and what both are bound to.

    `bound_to` is public. The weights of an ensemble have no digest there: its members are private, and whoever
    knows all of a text but one value could test guesses by it. A training is named by its random key instead.
    """

    guarantee: Guarantee
    other_guarantees: dict[str, Guarantee] = field(default_factory=dict)
    bound_to: dict[str, Any] = field(default_factory=dict)


@contextmanager
def open_source(settings: SynthesizeSettings, prompts: Sequence[str]) -> "Iterator[Source]":
    """The weights or the ensemble of a run; `prompts` are all that will be asked for."""
    if (settings.run / MANIFEST).is_file():
        asked, place = settings_of(settings.run, settings.asked()), LedgerPlace(settings.ledger)
        _require_publishable(settings.run, asked)
        with answering(
            settings.run, asked, shaping=settings.shaping, exhausted=Exhausted.REFUSE, place=place
        ) as opened:
            yield EnsembleSource(settings, opened, prompts)
        return
    given = [name for name, value in settings.asked().items() if value is not None]
    guarantee = weights_guarantee(settings.run)
    if given or settings.ledger is not None:
        raise ConfigError(
            "a model whose weights are protected has nothing to charge",
            found=f"--{given[0].replace('_', '-')}" if given else "--ledger",
            hint="leave it out: the guarantee of the weights covers every text",
        )
    yield WeightsSource(settings, guarantee, prompts)


class WeightsSource:
    """A model that was trained privately.

    Guarantee: a text is a function of the released weights, of public prompts and of fresh randomness. So it is
    post-processing, and the guarantee of the weights is that of all texts together, however many.
    """

    def __init__(self, settings: SynthesizeSettings, guarantee: Guarantee, prompts: Sequence[str]) -> None:
        from reticent.models.huggingface.loading import load_model  # torch, only where something is drawn

        run, folder, shaping = settings.run, settings.run / "model", settings.shaping
        self._model: HuggingFaceModel = load_model(folder, dtype="float32", name=run.name)
        most = _room(self._model, prompts, settings.max_tokens)
        self._sampling = Sampling(most, shaping.temperature, shaping.top_k, shaping.top_p)
        stated = read_document(run / TRAINING).get("guarantees", {}) if (run / TRAINING).is_file() else {}
        released = read_certificate(folder).released
        self.proof = Proof(
            guarantee=guarantee,
            other_guarantees=read_other_guarantees(stated, guarantee, where=str(run / TRAINING)),
            bound_to={"kind": "weights", "weights": released, "training": _training(run)},
        )
        # Which weights and settings the texts come from: for the draft alone, since an ensemble's is private.
        self.identity = f"weights {released}"

    def draw(self, prompts: Sequence[str]) -> list[Drawn]:
        """Up to 64 texts, read in one batch."""
        contexts = self._model.encode(prompts[:_TOGETHER])
        made = self._model.generate(contexts, self._sampling, count=1, randomness=Randomness.system())
        most = self._sampling.max_tokens
        return [
            _drawn(self._model, context, tokens, is_whole=len(tokens) < most)
            for context, (tokens,) in zip(contexts, made, strict=True)
        ]


class EnsembleSource:
    """An ensemble on its ledger.

    Guarantee: every token is one of `TokenPredictor.step`, charged before it is drawn. So all texts, with all other
    answers on the same ledger, have the ledger's guarantee.
    """

    def __init__(self, settings: SynthesizeSettings, opened: Answering, prompts: Sequence[str]) -> None:
        assert opened.guarantee is not None  # or nothing could be published
        self._predictor = opened.predictor
        self._public = opened.predictor.ensemble.public
        self._most = _room(self._public, prompts, settings.max_tokens)
        stored = opened.settings
        facts = {"mechanism": stored.mechanism.value, "unit": stored.unit.value, "queries": stored.queries}
        self.proof = Proof(
            guarantee=opened.guarantee,
            bound_to={"kind": "ensemble", "training": _training(settings.run), **facts},
        )
        self.identity = f"ensemble {ledger_identity(opened.predictor.ensemble, stored)}"

    def draw(self, prompts: Sequence[str]) -> list[Drawn]:
        """As many texts side by side as surely fit into the budget; the last one is cut short where it ends."""
        together = max(1, min(_STREAMS, self._predictor.affordable // self._most))
        contexts = self._public.encode(prompts[:together])
        handles = [self._predictor.open(context) for context in contexts]
        made: dict[int, list[int]] = {handle: [] for handle in handles}
        growing, ended = list(handles), set()
        try:
            while growing:
                for handle, token in zip(growing, self._predictor.step(growing), strict=True):
                    if token == self._public.end_token:
                        ended.add(handle)
                    else:
                        made[handle].append(token)
                growing = [each for each in growing if each not in ended and len(made[each]) < self._most]
        except BudgetExhausted:
            if not any(made.values()):
                return []
        finally:
            for handle in handles:
                self._predictor.close(handle)
        return [
            _drawn(self._public, context, made[handle], is_whole=handle in ended)
            for context, handle in zip(contexts, handles, strict=True)
            if made[handle] or handle in ended
        ]


Source = WeightsSource | EnsembleSource  # `draw` gives texts for the first prompts; none where the budget is spent


def _require_publishable(run: Path, settings: PredictionSettings) -> None:
    """Refuse a mechanism that proves nothing, or whose numbers are private, before its first use fixes anything."""
    manifest = Manifest.read(run)
    layout = Layout.halves(manifest.parts) if manifest.halves else Layout.single(manifest.parts)
    budget = settings.set_up(layout).budget
    if budget is None or budget.guarantee.data_dependent:
        raise ConfigError(
            f"{settings.mechanism.value} has no guarantee that a datasheet could publish",
            hint="use submix-f, pmixed or gnmax",
        )


def public_prompts(settings: SynthesizeSettings) -> tuple[list[str], tuple[str, ...]]:
    """The prompts, and what must be believed of them; refused where training has seen any, or nobody can tell."""
    if settings.prompts is None:
        return [""], ()
    corpus = settings.corpus(settings.prompts).load()
    shared = seen_in_training(settings.run, corpus, where=settings.prompts, flag="--prompts")
    if shared is not None:
        raise ConfigError(
            f"{settings.prompts}: a prompt is copied into the corpus, and these are text that was trained on",
            found=f"{shared.in_words()} in common",
            hint="prompt with public text",
        )
    near = "they share no equal text with the training text; near copies and parts of texts were not looked for"
    return corpus.texts, (f"the prompts are public: {near}",)


def _room(model: LanguageModel, prompts: Sequence[str], most: int) -> int:
    """How many tokens a text may have after its prompt, the same for all."""
    if model.context_length is None:
        return most
    room = model.context_length - 1 - max(map(len, model.encode(prompts)))
    if room < 1:
        raise ModelError(
            "a prompt is too long for the model",
            found=f"{model.context_length - room} tokens with the start token and one to draw",
            expected=f"at most {model.context_length}",
            hint="shorten the prompts",
        )
    return min(most, room)


def _drawn(model: LanguageModel, context: Tokens, tokens: Tokens, *, is_whole: bool) -> Drawn:
    (text,) = model.decode([[*context, *tokens]])
    return Drawn(text if tokens else "", len(tokens), is_whole)


def _training(run: Path) -> str | None:
    """A name of the training that says nothing of its text; None where older versions kept none."""
    if not (run / ANCESTRY).is_file():
        return None
    trained = Ancestry.read(run).runs
    return trained[-1].identity if trained else None
