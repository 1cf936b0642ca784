"""Pieces of a private step that are broken on purpose, put in the place of the real ones by monkeypatch."""

import numpy as np
import torch

from reticent.core.randomness import Randomness
from reticent.training.gradients import clipping, contribution, engine, source
from reticent.training.plans.sampler import AllocationSampler, BandedSampler, PoissonSampler, ShuffledEpochs


def half_the_noise(patch):
    def too_little(total, size, fresh, **more):
        return clipping.add_noise(total, size / 2.0, fresh, **more)

    patch.setattr(source, "add_noise", too_little)


def no_clipping(patch):
    patch.setattr(engine, "clip_factors", lambda norms, *_: torch.ones_like(norms))


def noise_of_pairs(patch):
    """Every second step gets the noise of the step before."""
    calls, first = iter(range(1_000_000)), Randomness.system().fresh_seed()

    def reused(total, size, _, **more):
        return clipping.add_noise(total, size, Randomness.seeded(first).child(f"pair {next(calls) // 2}"), **more)

    patch.setattr(source, "add_noise", reused)


def one_noise_for_micro_batches(patch):
    """One Poisson sample is cut into two micro-batches, and both are released under the same noise."""
    noise_of_pairs(patch)
    waiting = []

    def halves(sampler, randomness):
        if not waiting:
            drawn = randomness.bernoulli(sampler.rate, sampler.units)
            first = randomness.child("halves").uniform(len(drawn)) < 0.5
            waiting.extend([drawn[first], drawn[~first]])
        return (waiting.pop(0),)

    patch.setattr(PoissonSampler, "draw_round", halves)


def twice_as_often(patch):
    def twice(sampler, randomness):
        return (randomness.bernoulli(2.0 * sampler.rate, sampler.units),)

    patch.setattr(PoissonSampler, "draw_round", twice)


def no_cross_term(patch):
    patch.setattr(contribution.ParameterGradient, "_cross", lambda _: 0.0)
    # The comparison with plain autograd at the start of every run sees it at once: here it shall not look.
    patch.setattr(engine.PerRecordGradients, "_check", lambda own, _: setattr(own, "_awaits_check", False))


def shuffled(patch):
    """Batches of one size from a shuffled order: what nearly every loader does."""
    calls, seed = iter(range(1_000_000)), Randomness.system().fresh_seed()

    def batch(sampler, _):
        return (np.sort(ShuffledEpochs(sampler.units, sampler.batch, seed).batch_at(next(calls))),)

    patch.setattr(PoissonSampler, "draw_round", batch)


def two_batches_an_epoch(patch):
    """Every unit is allocated twice."""
    once = AllocationSampler.draw_round

    def twice(sampler, randomness):
        draws = once(sampler, randomness), once(sampler, randomness.child("again"))
        return tuple(np.union1d(*batches) for batches in zip(*draws, strict=True))

    patch.setattr(AllocationSampler, "draw_round", twice)


def every_step_of_a_cycle(patch):
    """Units are drawn for all steps of a cycle, so that their columns overlap."""

    def everywhere(sampler, randomness, _):
        return tuple(
            randomness.child(f"step {step}").bernoulli(sampler.rate, sampler.units) for step in range(sampler.bands)
        )

    patch.setattr(BandedSampler, "draw_round", everywhere)


TWINS_OF_SAMPLERS = {
    ("allocation", "half the noise"): half_the_noise,
    ("allocation", "no clipping"): no_clipping,
    ("allocation", "two batches an epoch"): two_batches_an_epoch,
    ("banded", "half the noise"): half_the_noise,
    ("banded", "no clipping"): no_clipping,
    ("banded", "every step of a cycle"): every_step_of_a_cycle,
}
TWINS = {
    "half the noise": half_the_noise,
    "no clipping": no_clipping,
    "noise used for two steps": noise_of_pairs,
    "one noise for two micro-batches": one_noise_for_micro_batches,
    "members drawn twice as often": twice_as_often,
    "no cross term of a tied weight": no_cross_term,
    "shuffled, priced as Poisson": shuffled,
}
