"""`reticent bound` as calls: settings in, the JSON document out. No model, no data, no torch."""

from typing import Any

from reticent.core.guarantee import Neighbours
from reticent.runs.bounds.document import (
    confidentiality_bound,
    dp_sgd_bound,
    extraction_bound,
    missed_by_promise,
    missed_by_training,
)
from reticent.runs.bounds.settings import (
    ConfidentialityBoundSettings,
    DpSgdBoundSettings,
    ExtractionBoundSettings,
)


def bound_dp_sgd(settings: DpSgdBoundSettings) -> dict[str, Any]:
    """ε of DP-SGD, how many bits of a secret can leak, and what attacks may reach; draws the figure if asked."""
    rate, steps = settings.described()
    target, neighbours = settings.target_epsilon, settings.neighbours
    bits = settings.bits
    training = settings.training(rate=rate, steps=steps, target=target, neighbours=neighbours)
    document = dp_sgd_bound(training, bits, copies=settings.copies)
    if settings.plot is not None:
        from reticent.runs.bounds.figures import draw_dp_sgd

        draw_dp_sgd(training, bits, path=settings.plot, copies=settings.copies)
    return document


def bound_confidentiality(settings: ConfidentialityBoundSettings) -> dict[str, Any]:
    """Confidentiality of secrets under redacted training: on average, at worst, and for groups."""
    if settings.epsilon is not None:
        missed = missed_by_promise(settings.epsilon, settings.delta)
    else:
        rate, steps = settings.sampling_rate, settings.steps
        training = settings.training(rate=rate, steps=steps, target=None, neighbours=Neighbours.REPLACE)
        missed = missed_by_training(training)
    return confidentiality_bound(
        missed,
        miss_rate=settings.miss_rate,
        conservative_miss_rate=settings.conservative_miss_rate,
        group=settings.group,
    )


def bound_extraction(settings: ExtractionBoundSettings) -> dict[str, Any]:
    """Chance to extract a secret under a Rényi guarantee, with owner-level and (ε, δ) conversions."""
    return extraction_bound(
        settings.order,
        settings.epsilon,
        candidates=settings.candidates,
        group=settings.copies,
        delta=settings.delta,
    )
