"""Layer 2: private prediction mechanisms as pure functions on arrays, and the predictor."""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names, names_by_module

if TYPE_CHECKING:
    from reticent.prediction.budgets import MechanismName, MechanismOptions, PredictionTarget, set_up_mechanism
    from reticent.prediction.evaluation import Passage, evaluate_mechanisms, look_up_passages, realised_share
    from reticent.prediction.mechanisms.mechanism import Layout, Mechanism
    from reticent.prediction.memory_ledger import MemoryLedger
    from reticent.prediction.predictor import TokenPredictor

_PLACES = names_by_module(
    __name__,
    {
        "budgets": "MechanismName MechanismOptions PredictionTarget set_up_mechanism",
        "evaluation": "Passage evaluate_mechanisms look_up_passages realised_share",
        "mechanisms.mechanism": "Layout Mechanism",
        "memory_ledger": "MemoryLedger",
        "predictor": "TokenPredictor",
    },
)

__all__ = [
    "Layout",
    "Mechanism",
    "MechanismName",
    "MechanismOptions",
    "MemoryLedger",
    "Passage",
    "PredictionTarget",
    "TokenPredictor",
    "evaluate_mechanisms",
    "look_up_passages",
    "realised_share",
    "set_up_mechanism",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
