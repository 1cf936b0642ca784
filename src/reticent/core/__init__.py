"""Layer 0: the nouns and protocols of the system, the Rényi divergence by definition, randomness and errors.

Imports numpy and the standard library, nothing else of ours.
"""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names, names_by_module

if TYPE_CHECKING:
    from reticent.core.corpus import Policy as Policy
    from reticent.core.corpus import Span as Span
    from reticent.core.divergence import renyi_divergence as renyi_divergence
    from reticent.core.document import read_document as read_document
    from reticent.core.document import write_atomically as write_atomically
    from reticent.core.document import write_document as write_document
    from reticent.core.ensemble import Ensemble as Ensemble
    from reticent.core.errors import AccessError as AccessError
    from reticent.core.errors import ConfigError as ConfigError
    from reticent.core.errors import DataError as DataError
    from reticent.core.errors import ModelError as ModelError
    from reticent.core.errors import UnsupportedEvent as UnsupportedEvent
    from reticent.core.event import BandedCycle as BandedCycle
    from reticent.core.event import BestOfRuns as BestOfRuns
    from reticent.core.event import Composed as Composed
    from reticent.core.event import ConcentratedRelease as ConcentratedRelease
    from reticent.core.event import Event as Event
    from reticent.core.event import ExponentialSampling as ExponentialSampling
    from reticent.core.event import FilteredCharge as FilteredCharge
    from reticent.core.event import Gaussian as Gaussian
    from reticent.core.event import Laplace as Laplace
    from reticent.core.event import NoisyCheck as NoisyCheck
    from reticent.core.event import NoisyVote as NoisyVote
    from reticent.core.event import NonPrivate as NonPrivate
    from reticent.core.event import RandomAllocation as RandomAllocation
    from reticent.core.event import RealisedCharge as RealisedCharge
    from reticent.core.event import Repeated as Repeated
    from reticent.core.event import SampledGaussian as SampledGaussian
    from reticent.core.event import SampledGroup as SampledGroup
    from reticent.core.event import SubsampledMixture as SubsampledMixture
    from reticent.core.finding import Comparison as Comparison
    from reticent.core.finding import Verdict as Verdict
    from reticent.core.guarantee import Neighbours as Neighbours
    from reticent.core.guarantee import Notion as Notion
    from reticent.core.guarantee import Unit as Unit
    from reticent.core.ledger import Budget as Budget
    from reticent.core.ledger import Ledger as Ledger
    from reticent.core.model import Access as Access
    from reticent.core.model import LanguageModel as LanguageModel
    from reticent.core.model import TextModel as TextModel
    from reticent.core.model import Tokens as Tokens
    from reticent.core.printing.numbers import at_least as at_least
    from reticent.core.printing.numbers import at_most as at_most
    from reticent.core.randomness import Randomness as Randomness
    from reticent.core.ranges import Range as Range
    from reticent.core.sampling import Sampling as Sampling
    from reticent.core.secret import Canary as Canary
    from reticent.core.secret import CodeSpace as CodeSpace
    from reticent.core.secret import ListedSpace as ListedSpace
    from reticent.core.secret import Secret as Secret
    from reticent.core.secret import SecretSpace as SecretSpace
    from reticent.core.statistics.estimate import Estimate as Estimate

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
        "printing.numbers": "at_least at_most",
        "randomness": "Randomness",
        "ranges": "Range",
        "sampling": "Sampling",
        "secret": "Canary CodeSpace ListedSpace Secret SecretSpace",
        "statistics.estimate": "Estimate",
    },
)

if not TYPE_CHECKING:
    __all__ = sorted(_PLACES)
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
