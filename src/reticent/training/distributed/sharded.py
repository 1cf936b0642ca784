"""One private training run whose weights are sharded over its ranks (FSDP2); its mechanism is `distributed`'s.

Every rank stores its part of every parameter, and of the optimiser's state. A block's weights are put together for
its forward and its backward and let go again. A rank computes whole gradients of its own records, so that the norm
of a record is complete where the record is: nothing is summed over shards before clipping, and sample, noise and
ledger are those of `distributed`. What each rank holds whole is the clipped sum, 8 bytes a trained parameter.

Putting weights together takes all ranks at once. So they go through as many micro-batches each, the ones with fewer
through empty ones, whose gradient is exactly zero; how many there are follows from the sample alone.

    shard(module, ranks, sample)       rank 0's weights everywhere, the self check on the whole model, then shards
    ShardedGradients(module, …)        as RankedGradients; gradients come as shards of the parameters

Checkpoints and the released model are whole: rank 0 writes what all ranks put together (`optimiser.Learner`), so a
run goes on with another number of ranks. Not done here: loading a model that fits on no rank, and recomputed
activations.
"""

from collections.abc import Iterator
from contextlib import suppress

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from transformers.modeling_layers import GradientCheckpointingLayer

from reticent.core.errors import ConfigError, ModelError
from reticent.core.ledger import Receipt
from reticent.core.randomness import Randomness
from reticent.training.batches import TokenArray, Units
from reticent.training.distributed.ranked import RankedGradients, RankedLedger
from reticent.training.distributed.ranks import Ranks
from reticent.training.gradients.clipping import NonFiniteGradient
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.record_loss import IGNORED, TokenBatch
from reticent.training.gradients.rounding_bound import Rounding
from reticent.training.gradients.source import Computation, PrivateGradients
from reticent.training.optimiser import like_parameter
from reticent.training.plans.plan import DpSgd


def shard(module: nn.Module, ranks: Ranks, sample: TokenBatch) -> None:
    """Give every rank its part of the weights of rank 0, after the self check on the records of `sample`.

    The check needs whole gradients of single records, which sharded parameters do not give.
    """
    if ranks.size == 1:
        raise ConfigError("weights are sharded over several processes", found="one", hint="start with torchrun")
    state = module.state_dict()
    with torch.no_grad():
        for name, value in ranks.copy(state).items():
            state[name].copy_(value)
    with PerRecordGradients(module, 1.0) as engine, suppress(NonFiniteGradient):
        engine.accumulate(sample)
    blocks = [block for block in module.modules() if isinstance(block, GradientCheckpointingLayer)]
    if not blocks:
        raise ModelError("the model has no transformer blocks to shard", hint="leave --shard-weights out")
    mesh = init_device_mesh(next(module.parameters()).device.type, (ranks.size,))
    for block in blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(module, mesh=mesh)


class ShardedGradients(RankedGradients):
    """DP-SGD's noisy sums over several ranks, each of which stores its part of the weights.

    Guarantee: what all ranks together release is `plan.guarantee()`, as with `RankedGradients`: where weights are
    stored changes neither sample, clipping, charge nor noise, and an empty micro-batch adds nothing to the sum.
    """

    def __init__(
        self,
        module: nn.Module,
        units: Units,
        plan: DpSgd,
        *,
        ledger: RankedLedger,
        randomness: Randomness,
        computation: Computation,
    ) -> None:
        if computation.recomputes:
            raise ConfigError(
                "sharded weights and recomputed activations cannot be combined yet",
                hint="leave one of them out; a smaller token_budget saves memory as well",
            )
        if plan.rounding is Rounding.PROVED:
            raise ConfigError(
                "sharded weights and proved rounding cannot be combined yet",
                hint="leave out --shard-weights, or let rounding be tested (--rounding tested)",
            )
        if plan.clip_quantile is not None:  # an empty micro-batch would count as a short gradient
            raise ConfigError(
                "sharded weights and a clip norm that follows a quantile cannot be combined yet",
                hint="leave out --shard-weights, or --clip-quantile",
            )
        if not any(isinstance(parameter, DTensor) for parameter in module.parameters()):
            raise ModelError("the weights are not sharded", hint="call shard(module, ranks, sample) first")
        super().__init__(module, units, plan, ledger=ledger, randomness=randomness, computation=computation)
        self._engine = PerRecordGradients(
            module, plan.clip_norm, losses=self._meter, compute_dtype=computation.dtype, is_checked=False
        )

    def __enter__(self) -> "ShardedGradients":
        """Attach; `shard` gave everybody the weights of rank 0."""
        PrivateGradients.__enter__(self)
        return self

    def _test_rounding(self) -> None:
        """Closely packed batches alone: the test of a shape would need all ranks to try the same one."""
        super()._test_rounding()
        if not self._packs_closely:
            raise ConfigError(
                "sharded weights need float32: in this precision one record would round the others differently",
                found=f"more than the noise of a batch of {self.plan.sampler.batch} has room for",
                hint="leave the computation's dtype out, or train without sharding",
            )

    def _batches(self, groups: list[list[TokenArray]]) -> Iterator[TokenBatch]:
        mine = list(super()._batches(groups))
        rounds = self._ranks.most(
            len(mine)
        )  # asked first: a rank that is done would wait here, the others in a batch
        yield from mine
        for _ in range(rounds - len(mine)):
            yield self._nothing()

    def _accumulate(self, batch: TokenBatch) -> None:
        """As in one process; where one rank has to go record by record, the others go along."""
        singles: list[TokenBatch] = []
        try:
            self._engine.accumulate(batch)
        except NonFiniteGradient:
            singles = batch.split(1)
        for place in range(self._ranks.most(len(singles))):
            with suppress(NonFiniteGradient):
                self._engine.accumulate(singles[place] if place < len(singles) else self._nothing())

    def _noisy_mean(self, total: dict[str, Tensor], receipt: Receipt) -> dict[str, Tensor]:
        whole = super()._noisy_mean(total, receipt)
        return {name: like_parameter(value, self._module.get_parameter(name)) for name, value in whole.items()}

    def _nothing(self) -> TokenBatch:
        """One row without a target: its loss and its gradient are zero."""
        inputs = torch.full((1, 1), self._units.start_token, dtype=torch.long)
        device = next(self._module.parameters()).device
        return TokenBatch(inputs.to(device), torch.full_like(inputs, IGNORED).to(device))
