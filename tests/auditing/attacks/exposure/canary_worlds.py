"""Released projections of canaries without any model: the plan as it is, and broken twins of it."""

from reticent.core.event import Repeated, SampledGaussian
from reticent.core.evidence.canary_trace import CanaryTrace

EVENT = Repeated(SampledGaussian(0.64, 0.05), 60)  # ε = 8 at δ = 1e-5
NOISE, RATE, STEPS = 0.64, 0.05, 60


def trace(rng, *, canaries=1000, noise=1.0, length=1.0, rate=RATE, reuses=False, sees=True, event=EVENT):
    """`noise` and `length` are multiples of what the plan says; without `sees` coins are thrown afterwards."""
    steps, deviation = event.count, event.event.noise_multiplier
    coins = rng.random(canaries) < 0.5
    drawn = (rng.random((steps, canaries)) < rate) & coins
    fresh = rng.standard_normal((steps, canaries))
    if reuses:
        fresh[1::2] = fresh[0::2]
    projections = length * drawn + noise * deviation * fresh
    return CanaryTrace(projections, coins if sees else rng.random(canaries) < 0.5)
