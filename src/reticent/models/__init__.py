"""Layer 1: adapters behind the LanguageModel protocol: Hugging Face, LSTM, n-gram, remote."""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names, names_by_module

if TYPE_CHECKING:
    from reticent.models.embedded import embedded_model_path as embedded_model_path
    from reticent.models.ensemble.adapters import AdapterEnsemble as AdapterEnsemble
    from reticent.models.ensemble.adapters import EnsembleMember as EnsembleMember
    from reticent.models.huggingface.model import HuggingFaceModel as HuggingFaceModel
    from reticent.models.lstm.model import LSTMConfig as LSTMConfig
    from reticent.models.lstm.model import LSTMForCausalLM as LSTMForCausalLM

_PLACES = names_by_module(
    __name__,
    {
        "embedded": "embedded_model_path",
        "ensemble.adapters": "AdapterEnsemble EnsembleMember",
        "huggingface.model": "HuggingFaceModel",
        "lstm.model": "LSTMConfig LSTMForCausalLM",
    },
)

if not TYPE_CHECKING:
    __all__ = sorted(_PLACES)
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
