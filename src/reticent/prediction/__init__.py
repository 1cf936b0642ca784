"""Layer 2: private prediction mechanisms as pure functions on arrays, and the predictor."""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names, names_by_module

if TYPE_CHECKING:
    from reticent.prediction.budgets import MechanismName as MechanismName
    from reticent.prediction.budgets import MechanismOptions as MechanismOptions
    from reticent.prediction.budgets import PredictionTarget as PredictionTarget
    from reticent.prediction.budgets import set_up_mechanism as set_up_mechanism
    from reticent.prediction.evaluation import Passage as Passage
    from reticent.prediction.evaluation import evaluate_mechanisms as evaluate_mechanisms
    from reticent.prediction.evaluation import look_up_passages as look_up_passages
    from reticent.prediction.evaluation import realised_share as realised_share
    from reticent.prediction.mechanisms.mechanism import Layout as Layout
    from reticent.prediction.mechanisms.mechanism import Mechanism as Mechanism
    from reticent.prediction.memory_ledger import MemoryLedger as MemoryLedger
    from reticent.prediction.predictor import TokenPredictor as TokenPredictor

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

if not TYPE_CHECKING:
    __all__ = sorted(_PLACES)
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
