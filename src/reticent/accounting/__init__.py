"""Layer 1: events priced into curves and guarantees, leakage bounds, ceilings. No torch."""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names, names_by_module

if TYPE_CHECKING:
    from reticent.accounting.bounds.ceiling import ceiling, compare_with_guarantee
    from reticent.accounting.bounds.confidentiality import Confidentiality, confidentiality, missed_secret
    from reticent.accounting.bounds.leakage import LeakageBounds, leakage_bounds, rdp_leakage
    from reticent.accounting.bounds.parts import ExtractionBound, extraction_success
    from reticent.accounting.bounds.tradeoff import auc_ceiling, true_positive_rate_ceiling
    from reticent.accounting.conversion import epsilon_from_renyi, rdp_epsilon
    from reticent.accounting.curve import RenyiCurve
    from reticent.accounting.guarantees import dp_sgd_guarantee, epsilons, guarantee_of

_PLACES = names_by_module(
    __name__,
    {
        "bounds.ceiling": "ceiling compare_with_guarantee",
        "bounds.confidentiality": "Confidentiality confidentiality missed_secret",
        "bounds.leakage": "LeakageBounds leakage_bounds rdp_leakage",
        "bounds.parts": "ExtractionBound extraction_success",
        "bounds.tradeoff": "auc_ceiling true_positive_rate_ceiling",
        "conversion": "epsilon_from_renyi rdp_epsilon",
        "curve": "RenyiCurve",
        "guarantees": "dp_sgd_guarantee epsilons guarantee_of",
    },
)

__all__ = [
    "Confidentiality",
    "ExtractionBound",
    "LeakageBounds",
    "RenyiCurve",
    "auc_ceiling",
    "ceiling",
    "compare_with_guarantee",
    "confidentiality",
    "dp_sgd_guarantee",
    "epsilon_from_renyi",
    "epsilons",
    "extraction_success",
    "guarantee_of",
    "leakage_bounds",
    "missed_secret",
    "rdp_epsilon",
    "rdp_leakage",
    "true_positive_rate_ceiling",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
