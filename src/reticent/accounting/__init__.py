"""Layer 1: events priced into curves and guarantees, leakage bounds, ceilings. No torch."""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names, names_by_module

if TYPE_CHECKING:
    from reticent.accounting.bounds.ceiling import ceiling as ceiling
    from reticent.accounting.bounds.ceiling import compare_with_guarantee as compare_with_guarantee
    from reticent.accounting.bounds.confidentiality import Confidentiality as Confidentiality
    from reticent.accounting.bounds.confidentiality import confidentiality as confidentiality
    from reticent.accounting.bounds.confidentiality import missed_secret as missed_secret
    from reticent.accounting.bounds.leakage import LeakageBounds as LeakageBounds
    from reticent.accounting.bounds.leakage import leakage_bounds as leakage_bounds
    from reticent.accounting.bounds.leakage import rdp_leakage as rdp_leakage
    from reticent.accounting.bounds.parts import ExtractionBound as ExtractionBound
    from reticent.accounting.bounds.parts import extraction_success as extraction_success
    from reticent.accounting.bounds.tradeoff import auc_ceiling as auc_ceiling
    from reticent.accounting.bounds.tradeoff import true_positive_rate_ceiling as true_positive_rate_ceiling
    from reticent.accounting.conversion import epsilon_from_renyi as epsilon_from_renyi
    from reticent.accounting.conversion import rdp_epsilon as rdp_epsilon
    from reticent.accounting.curve import RenyiCurve as RenyiCurve
    from reticent.accounting.guarantees import dp_sgd_guarantee as dp_sgd_guarantee
    from reticent.accounting.guarantees import epsilons as epsilons
    from reticent.accounting.guarantees import guarantee_of as guarantee_of

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

if not TYPE_CHECKING:
    __all__ = sorted(_PLACES)
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
