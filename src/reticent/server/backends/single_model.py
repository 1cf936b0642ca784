"""One model behind the protocol of ensembles: row 0 alone, no parts; many texts in one forward where possible."""

import numpy as np

from reticent.core.arrays import Floats
from reticent.core.ensemble import Ensemble, Streams
from reticent.core.errors import ModelError
from reticent.core.model import Tokens
from reticent.models.ensemble.decoder import BatchedDecoder
from reticent.models.ensemble.separate import SeparateEnsemble
from reticent.models.ensemble.streams import AdapterStreams
from reticent.models.ensemble.weights import read_decoder
from reticent.models.huggingface.model import HuggingFaceModel, unwrap

_REMEMBERED = 4  # prompts
_TOLERANCE = 1e-3  # nats by which the batched forward may differ from the model's own


class SingleModel:
    """A model whose texts are read in one batch."""

    def __init__(self, model: HuggingFaceModel) -> None:
        self.public = model
        self.fingerprint = model.fingerprint
        self.parts: tuple[str, ...] = ()
        self.rows: tuple[int, ...] = ()
        weights = read_decoder(unwrap(model.module))
        self._decoder = BatchedDecoder(weights, (None,) * len(weights.layers))
        self._check()

    def streams(self) -> Streams:
        """A fresh set of texts, none open."""
        return AdapterStreams(self._decoder, self.public, remembered=_REMEMBERED)

    def position_log_probs(self, tokens: Tokens) -> Floats:
        """log-pmfs [T, 1, V] before each of T tokens."""
        return np.asarray(self.public.position_log_probs(tokens))[:, None]

    def _check(self) -> None:
        """Refuse a model whose batched arithmetic is not its own: an adapter, or what no setting names."""
        text = [1 + (37 * place) % (self.public.vocabulary_size - 1) for place in range(6)]
        streams = self.streams()
        found = streams.look_up([streams.open(text)])[0, 0]
        apart = np.abs(found - self.public.next_token_log_probs([text])[0])
        if not apart.max() < _TOLERANCE:
            raise ModelError(f"{self.public.name}: the batched forward does not repeat the model's own")


def single_model(model: HuggingFaceModel) -> Ensemble:
    """The model in one batch, or text by text where its architecture does not allow it."""
    try:
        return SingleModel(model)
    except ModelError:
        return SeparateEnsemble(model, [], rows=(), parts=())
