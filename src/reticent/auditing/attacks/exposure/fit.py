"""Exposure by extrapolation: a skew-normal fitted to the losses of sampled candidates (Carlini et al. 2019, 4.3).

    exposure ≈ −log2 F(loss of the canary),   F the fitted distribution of the candidates' losses

An estimate without an interval, for canaries likelier than every sampled candidate where no exact rank can be
had. Its goodness of fit is Kolmogorov and Smirnov's, of a fit on one half of the sample against the other half:
tested on the data it was fitted to, every fit looks too good. The test sees the bulk; below 1/samples nothing
supports the tail, and `is_extrapolated` says so. Never the value of a finding.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from reticent.core.document import JsonObject, called, fields_to_json

LEAST_SAMPLES: Final = 40
POOR_FIT: Final = 0.01  # p-value below which the fit is called poor: one good fit in a hundred is, too


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewNormalFit(JsonObject):
    """The estimate in bits, capped at what the space holds, and how well the distribution fits."""

    bits: float
    statistic: float = field(metadata=called("ks_statistic"))
    p_value: float = field(metadata=called("ks_p_value"))
    samples: int
    is_extrapolated: bool

    @property
    def is_poor(self) -> bool:
        """Whether the held-out half contradicts the fit: then the estimate means nothing."""
        return self.p_value < POOR_FIT

    def to_json(self) -> dict[str, Any]:
        """For a document."""
        return fields_to_json(self, is_poor=self.is_poor)


def fit_exposure(losses: ArrayLike, loss: float, *, most_bits: float) -> SkewNormalFit | None:
    """The estimate for a canary of `loss` from independent candidates' `losses`; None where no fit is possible.

    None: fewer than `LEAST_SAMPLES`, losses that are infinite, or (nearly) all equal.
    """
    sample = np.asarray(losses, dtype=np.float64)  # [m]
    if len(sample) < LEAST_SAMPLES or not np.isfinite(sample).all() or not math.isfinite(loss):
        return None
    if float(np.ptp(sample)) <= 1e-9 * (1.0 + abs(float(sample.mean()))):
        return None
    from scipy.stats import kstest, skewnorm  # deferred: slow to import

    half = len(sample) // 2
    tried = kstest(sample[half:], skewnorm(*skewnorm.fit(sample[:half])).cdf)
    log_tail = float(skewnorm(*skewnorm.fit(sample)).logcdf(loss))
    # A tail that underflows is −inf (or nan): the space holds no more bits than it has.
    bits = -log_tail / math.log(2.0) if math.isfinite(log_tail) else most_bits
    return SkewNormalFit(
        bits=min(max(bits, 0.0), most_bits),
        statistic=float(tried.statistic),
        p_value=float(tried.pvalue),
        samples=len(sample),
        is_extrapolated=bool(loss < sample.min()),
    )
