"""How likely a value is to be emitted, estimated and observed; and whether memorised sentences give theirs away.

Estimated extractability (Lukas et al. 2023, eq. 5): the chance of a value averaged over the contexts it stands
in,

    E(c) = mean over contexts of p(c | prefix),   in log space: log E = logsumexp(log p) − log n

It ranks values without sampling. Observed: how often the extraction game emitted the value. The two agree by
their rank correlation (Spearman), whose interval is a bootstrap over values, approximate.

Memorisation against reconstruction (Fig. 7): the chance that a reconstructed sentence has a higher membership
score than one that was not, an AUC; 1/2 where membership says nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.attacks.personal_data.contexts import ContextWindow, MaskedSpan, all_contexts
from reticent.auditing.attacks.personal_data.extraction import EmittedValues
from reticent.auditing.attacks.personal_data.inventory import PiiInventory
from reticent.auditing.attacks.personal_data.scoring import CandidateScoring, log_likelihoods
from reticent.auditing.metrics.intervals import bootstrap
from reticent.auditing.metrics.roc import Estimate, Owners, auc_interval, midranks
from reticent.core.arrays import Floats
from reticent.core.model import LanguageModel
from reticent.core.randomness import Randomness
from reticent.core.secret import Secret


def log_extractability(log_probs: Floats) -> float:
    """log of the mean chance from the log chances [n] of a value in its contexts; −inf where it is impossible."""
    if len(log_probs) == 0:
        raise ValueError("a value without a context has no extractability")
    top = float(log_probs.max())
    if np.isneginf(top):
        return -np.inf
    return top + float(np.log(np.exp(log_probs - top).mean()))


def estimate_extractability(
    model: LanguageModel,
    inventory: PiiInventory,
    values: Sequence[Secret],
    *,
    window: ContextWindow | None = None,
    contexts: int = 16,
) -> Floats:
    """Estimate log E(c), the extractability of each value [n], from at most its first `contexts` places."""
    estimates = []
    for value in values:
        places = all_contexts(inventory, value, window=window, most=contexts)
        scores = [
            log_likelihoods(model, place, [value.reveal()], scoring=CandidateScoring.SPAN)[0] for place in places
        ]
        estimates.append(log_extractability(np.array(scores)))
    return np.array(estimates, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Extractability:
    """Log estimates [n] and how often each value was emitted [n]."""

    estimated: Floats
    observed: NDArray[np.int64]

    def correlation(self, *, randomness: Randomness, confidence: float = 0.95) -> Estimate | None:
        """Spearman's rank correlation; None where either side is constant or fewer than ten values are there."""
        if len(self.estimated) < 10 or not (_varies(self.estimated) and _varies(self.observed)):
            return None
        both = np.arange(len(self.estimated), dtype=np.float64)

        def statistic(places: Floats) -> float:
            rows = places.astype(np.int64)
            return spearman(self.estimated[rows], self.observed[rows].astype(np.float64))

        value = statistic(both)
        low, high = bootstrap([both], statistic, randomness=randomness, confidence=confidence)
        return Estimate(value, min(low, value), max(high, value))


def compare_extractability(estimated: Floats, values: Sequence[Secret], emitted: EmittedValues) -> Extractability:
    """Estimated extractability of values beside how often they were emitted."""
    counts: Mapping[Secret, int] = {value: emission.count for value, emission in emitted.values.items()}
    return Extractability(estimated, np.array([counts.get(value, 0) for value in values], dtype=np.int64))


def spearman(first: Floats, second: Floats) -> float:
    """Rank correlation, ties by midranks; 0 where one side is constant (a resample may be)."""
    if not (_varies(first) and _varies(second)):
        return 0.0
    return float(np.corrcoef(midranks(first), midranks(second))[0, 1])


def _varies(values: NDArray[np.float64] | NDArray[np.int64]) -> bool:
    return bool((values != values[0]).any())


def success_auc(
    scores: Floats,
    is_reconstructed: NDArray[np.bool_],
    *,
    confidence: float = 0.95,
    owners: Sequence[str] | None = None,
) -> Estimate | None:
    """Chance that a reconstructed target's membership score is the higher one; None where one side is empty."""
    if not is_reconstructed.any() or is_reconstructed.all():
        return None
    whose = None if owners is None else Owners.of(owners, is_reconstructed)
    inside, outside = scores[is_reconstructed], scores[~is_reconstructed]
    return auc_interval(inside, outside, confidence=confidence, owners=whose)


def emitted_likelihoods(model: LanguageModel, emitted: EmittedValues) -> dict[Secret, float]:
    """log p of every emitted value where it was first emitted: the other ranking of the extraction game."""
    scores = {}
    for value, emission in emitted.values.items():
        text = emitted.sampled.texts[emission.draw].reveal()
        place = MaskedSpan(str(emission.draw), "", value, text[: emission.start], "")
        likelihoods = log_likelihoods(
            model, place, [text[emission.start : emission.end]], scoring=CandidateScoring.SPAN
        )
        scores[value] = float(likelihoods[0])
    return scores
