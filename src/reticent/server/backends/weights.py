"""A model that was trained privately behind the server: nothing to charge, the guarantee is the weights'.

**MemFree** may be put before it: a token that would complete an n-gram of the training text is not drawn. The
filter reads the training text itself, so that what it lets through depends on it in a way that no proof covers:
with the filter the *answers* have no guarantee, though the weights keep theirs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from reticent.core.arrays import Floats
from reticent.core.ensemble import Ensemble
from reticent.core.guarantee import Guarantee
from reticent.core.printing.numbers import at_most
from reticent.core.randomness import Randomness
from reticent.prediction.mechanisms.mechanism import Layout, Mechanism, Moment, Release
from reticent.prediction.mechanisms.shaping import Shaping
from reticent.prediction.mechanisms.unprotected import NGramIndex, PublicModel
from reticent.prediction.predictor import TokenPredictor
from reticent.runs.directory import RunDirectory
from reticent.runs.proofs.certificates import weights_guarantee
from reticent.server.backends.backend import Backend
from reticent.server.requests.chat import ChatFormat

MEMFREE_NOTE = (
    "MemFree reads the training text to refuse its n-grams, so the answers have no guarantee; the weights keep"
    " theirs, which is"
)
_LAYOUT = Layout.single(1)


@dataclass(frozen=True, slots=True)
class FilteredModel:
    """The model without the tokens that would complete an n-gram of its training text. No guarantee."""

    name: ClassVar[str] = "memfree"
    measure: ClassVar[str | None] = None
    price: ClassVar[float | None] = 0.0

    index: NGramIndex
    shaping: Shaping = field(default_factory=Shaping)

    def release(self, rows: Floats, moment: Moment, *, randomness: Randomness) -> Release:
        """A token of the filtered model; where the filter leaves nothing, of the model."""
        plain = PublicModel(_LAYOUT, self.shaping).release(rows, moment, randomness=randomness)
        kept = self.index.filtered(plain.pmf, moment.context)
        return plain if kept is None else replace(plain, pmf=kept)


@contextmanager
def open_weights(
    run: Path, *, name: str, index: NGramIndex | None = None, ensemble: Ensemble | None = None
) -> Iterator[Backend]:
    """The model of a run. `index` puts MemFree before it."""
    guarantee = weights_guarantee(run)
    models = ensemble or _alone(run)

    def mechanism(shaping: Shaping) -> Mechanism:
        return PublicModel(_LAYOUT, shaping) if index is None else FilteredModel(index, shaping)

    yield Backend(
        name=name,
        predictor=TokenPredictor(models, mechanism(Shaping()), ledger=None, queries=1),
        mechanism=mechanism,
        chat=ChatFormat(getattr(models.public, "tokenizer", None)),
        guarantee=guarantee if index is None else None,
        notes=weights_notes(guarantee, is_filtered=index is not None),
    )


def weights_notes(guarantee: Guarantee, *, is_filtered: bool) -> tuple[str, ...]:
    """What a reader must know beside the guarantee."""
    if not is_filtered:
        return ("the guarantee is that of the weights: any number of answers costs nothing more",)
    return (f"{MEMFREE_NOTE} ε = {at_most(guarantee.epsilon)} for one {guarantee.unit.value}",)


def _alone(run: Path) -> Ensemble:
    """One model as an ensemble without parts."""
    from reticent.models.huggingface.loading import load_model
    from reticent.server.backends.single_model import single_model

    return single_model(load_model(RunDirectory(run).model, dtype="float32", name=run.name))


def n_gram_index(run: Path, texts: Iterator[str], length: int) -> NGramIndex:
    """The n-grams of the training text in the tokens of a run's model."""
    from reticent.models.huggingface.loading import load_model

    model = load_model(RunDirectory(run).model, dtype="float32")
    return NGramIndex((model.encode([text])[0] for text in texts), length)
