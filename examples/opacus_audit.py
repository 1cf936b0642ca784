"""Is an Opacus optimiser as private as its plan says? Drives one with canaries and measures ε from below.

pip install opacus
python examples/opacus_audit.py            as claimed
python examples/opacus_audit.py 0.5        with half of the claimed noise: refuted
"""

import sys

import torch
from torch import Tensor

from reticent import DpSgd, verify
from reticent.runs import CanaryModule, noisy_sum_of_update

CANARIES, RATE = 1000, 1.0


def opacus_step(plan: DpSgd, noise: float):
    """One step of Opacus on a Poisson sample: weights before and after tell the noisy sum."""
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    module = GradSampleModule(CanaryModule(CANARIES))
    optimizer = DPOptimizer(
        torch.optim.SGD(module.parameters(), lr=RATE),
        noise_multiplier=noise,
        max_grad_norm=plan.clip_norm,
        expected_batch_size=plan.sampler.batch,
    )
    (weights,) = module.parameters()

    def step(records: Tensor) -> Tensor:
        optimizer.zero_grad()
        # A row of zeros has no gradient: it stands for the empty sample, which Opacus does not take.
        module(torch.cat([records, torch.zeros(1, CANARIES)])).mean().backward()
        before = weights.detach().clone()
        optimizer.step()
        return noisy_sum_of_update(before, weights, learning_rate=RATE, normaliser=plan.sampler.batch)

    return step


if __name__ == "__main__":
    claimed = DpSgd.for_target(epsilon=8.0, delta=1e-5, units=CANARIES, batch=50, epochs=3)
    share = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    print(verify(opacus_step(claimed, share * claimed.noise_multiplier), claimed, canaries=CANARIES))
