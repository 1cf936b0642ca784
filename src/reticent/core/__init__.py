"""Layer 0: the nouns and protocols of the system, the Rényi divergence by definition, randomness and errors.

Imports numpy and the standard library, nothing else of ours.
"""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names, names_by_module

if TYPE_CHECKING:
    from reticent.core.corpus import Policy, Span
    from reticent.core.divergence import renyi_divergence
    from reticent.core.document import read_document, write_atomically, write_document
    from reticent.core.ensemble import Ensemble
    from reticent.core.errors import AccessError, ConfigError, DataError, ModelError, UnsupportedEvent
    from reticent.core.event import (
        BandedCycle,
        BestOfRuns,
        Composed,
        ConcentratedRelease,
        Event,
        ExponentialSampling,
        FilteredCharge,
        Gaussian,
        Laplace,
        NoisyCheck,
        NoisyVote,
        NonPrivate,
        RandomAllocation,
        RealisedCharge,
        Repeated,
        SampledGaussian,
        SampledGroup,
        SubsampledMixture,
    )
    from reticent.core.finding import Comparison, Verdict
    from reticent.core.guarantee import Neighbours, Notion, Unit
    from reticent.core.ledger import Budget, Ledger
    from reticent.core.model import Access, LanguageModel, TextModel, Tokens
    from reticent.core.randomness import Randomness
    from reticent.core.ranges import Range
    from reticent.core.sampling import Sampling
    from reticent.core.secret import Canary, CodeSpace, ListedSpace, Secret, SecretSpace
    from reticent.core.statistics.estimate import Estimate

_PLACES = names_by_module(
    __name__,
    {
        "corpus": "Policy Span",
        "divergence": "renyi_divergence",
        "document": "read_document write_atomically write_document",
        "ensemble": "Ensemble",
        "errors": "AccessError ConfigError DataError ModelError UnsupportedEvent",
        "event": "BandedCycle BestOfRuns Composed ConcentratedRelease Event "
        "ExponentialSampling FilteredCharge Gaussian Laplace "
        "NoisyCheck NoisyVote NonPrivate RandomAllocation RealisedCharge "
        "Repeated SampledGaussian SampledGroup SubsampledMixture",
        "finding": "Comparison Verdict",
        "guarantee": "Neighbours Notion Unit",
        "ledger": "Budget Ledger",
        "model": "Access LanguageModel TextModel Tokens",
        "randomness": "Randomness",
        "ranges": "Range",
        "sampling": "Sampling",
        "secret": "Canary CodeSpace ListedSpace Secret SecretSpace",
        "statistics.estimate": "Estimate",
    },
)

__all__ = [
    "Access",
    "AccessError",
    "BandedCycle",
    "BestOfRuns",
    "Budget",
    "Canary",
    "CodeSpace",
    "Comparison",
    "Composed",
    "ConcentratedRelease",
    "ConfigError",
    "DataError",
    "Ensemble",
    "Estimate",
    "Event",
    "ExponentialSampling",
    "FilteredCharge",
    "Gaussian",
    "LanguageModel",
    "Laplace",
    "Ledger",
    "ListedSpace",
    "ModelError",
    "Neighbours",
    "NoisyCheck",
    "NoisyVote",
    "NonPrivate",
    "Notion",
    "Policy",
    "RandomAllocation",
    "Randomness",
    "Range",
    "RealisedCharge",
    "Repeated",
    "SampledGaussian",
    "SampledGroup",
    "Sampling",
    "Secret",
    "SecretSpace",
    "Span",
    "SubsampledMixture",
    "TextModel",
    "Tokens",
    "Unit",
    "UnsupportedEvent",
    "Verdict",
    "read_document",
    "renyi_divergence",
    "write_atomically",
    "write_document",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
