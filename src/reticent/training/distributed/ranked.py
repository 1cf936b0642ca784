"""One private training run on several processes: the same mechanism, so the same account, for any number of them.

    rank 0   draw the sample of the whole step, hand it out             → every unit is on exactly one rank
    all      per-record gradients of one's share, clipped and summed
    rank 0   total of the sums → charge, durably → add noise once → divide → hand out
    all      move the weights by the same gradient

What is released is what one process would release: a unit is clipped once and stands in one share, so adding it
moves the total by at most C; the sample is one draw over all units, not one a rank; the noise is one Gaussian of
σC on the total, drawn by rank 0 from the system's generator. Shares of noise, σ/√k on each of k ranks, would have
the same distribution while all are alive and honest, but a rank that leaves would take its share with it, and what
is rounded before it is summed is no longer a function of the noisy total alone (`clipping.add_noise`). The plan and
its event know nothing of ranks.

One ledger, one set of checkpoints: rank 0's. The others hear of a receipt before they hear of a noisy gradient.
When a process dies all stop; a resumed run, on any number of processes, goes on from the last checkpoint, and what
was charged since stays spent. Sums of floats depend on their order: weights agree with one process's to rounding.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from reticent.core.event import Event
from reticent.core.ledger import Budget, Ledger, Receipt
from reticent.training.batches import TokenArray
from reticent.training.checkpoint import Checkpoint, Checkpoints, Learnt
from reticent.training.distributed.ranks import Ranks
from reticent.training.gradients.source import Gradient, PrivateGradients


class RankedLedger:
    """Rank 0's ledger, seen by all: every rank calls `charge` and `holds`, rank 0 does it, the others wait."""

    def __init__(self, ranks: Ranks, ledger: Ledger | None) -> None:
        """`ledger` is the open one on rank 0 and None elsewhere."""
        self.ranks = ranks
        self._ledger = ledger
        told = ranks.tell(self._opening)
        self.budget = Budget.from_json(told["budget"])
        self.accounts = tuple(told["accounts"])
        self._amounts: dict[str, dict[str, float]] = told["amounts"]

    def charge(self, costs: Mapping[str, float], event: Event) -> Receipt:
        """The receipt of rank 0's charge, on every rank, once it is durable; a refusal stops them all.

        Guarantee: no rank returns before the charge is on disk.
        """

        def make() -> dict[str, Any]:
            receipt = self._first().charge(costs, event)
            return {"sequence": receipt.sequence, "digest": receipt.digest, "amounts": self._read()}

        told = self.ranks.tell(make)
        self._amounts = told["amounts"]
        return Receipt(told["sequence"], told["digest"])

    def spent(self) -> dict[str, float]:
        """What was spent when the ledger was opened or last charged: this run alone charges it."""
        return dict(self._amounts["spent"])

    def remaining(self) -> dict[str, float]:
        """What remained then."""
        return dict(self._amounts["remaining"])

    def head(self) -> Receipt:
        """The last place of the chain. Rank 0 alone may ask: it is the one that releases the model."""
        return self._first().head()

    def holds(self, receipt: Receipt) -> bool:
        """Whether the charge stands in rank 0's ledger."""
        return bool(self.ranks.tell(lambda: self._first().holds(receipt)))

    def _first(self) -> Ledger:
        assert self._ledger is not None
        return self._ledger

    def _read(self) -> dict[str, dict[str, float]]:
        return {"spent": self._first().spent(), "remaining": self._first().remaining()}

    def _opening(self) -> dict[str, Any]:
        ledger = self._first()
        return {"budget": ledger.budget.to_json(), "accounts": list(ledger.accounts), "amounts": self._read()}


class RankedGradients(PrivateGradients):
    """DP-SGD's noisy sums over several ranks.

    Guarantee: what all ranks together release is `plan.guarantee()`, whatever their number: one sample a step,
    every unit clipped on one rank, noise drawn once, all after the one charge.
    """

    _tokens = 0  # of the whole step

    @property
    def _ranks(self) -> Ranks:
        assert isinstance(self._ledger, RankedLedger)  # the one ledger that all ranks see
        return self._ledger.ranks

    def next(self) -> Gradient:
        """The same gradient on every rank; the loss is that of this rank's share, the tokens are all."""
        return replace(super().next(), tokens=self._tokens)

    def __enter__(self) -> "RankedGradients":
        """Begin with the weights of rank 0 everywhere."""
        state = self._module.state_dict()
        with torch.no_grad():
            for name, value in self._ranks.copy(state).items():
                state[name].copy_(value)
        super().__enter__()
        return self

    def draw(self) -> list[list[TokenArray]]:
        """The texts of this rank's share of the sample."""
        # Places and no text travel: every rank holds the corpus.
        drawn = self._units.texts_at(self._ranks.tell(lambda: PrivateGradients._draw_places(self)))
        self._tokens = sum(len(text) for group in drawn for text in group)
        return share(drawn, self._ranks)

    def _total(self, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        return self._ranks.total(gradients)

    def _noisy_mean(self, total: dict[str, Tensor], receipt: Receipt) -> dict[str, Tensor]:
        return self._ranks.copy(super()._noisy_mean(total, receipt) if self._ranks.is_first else total)

    def _next_norm(self, count: Tensor, receipt: Receipt) -> float:
        return float(self._ranks.tell(lambda: PrivateGradients._next_norm(self, count, receipt)))


class RankedCheckpoints(Checkpoints):
    """Rank 0's checkpoints: it alone locks, reads and writes; the others get what it read."""

    def __init__(self, folder: Path, ranks: Ranks) -> None:
        super().__init__(folder)
        self._ranks = ranks

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run, on rank 0."""
        with ExitStack() as stack:
            self._ranks.tell(lambda: stack.enter_context(Checkpoints.locked(self)))
            yield

    def agree(self, is_due: bool) -> bool:
        """As rank 0's clock says: sharded weights are put together by all ranks at once."""
        return bool(self._ranks.tell(lambda: is_due))

    def save(self, learner: Learnt, *, step: int, source: Mapping[str, Any]) -> Path:
        """Write a checkpoint, on rank 0, of weights that every rank takes part in putting together."""
        taken = _Taken(learner.weights(), learner.optimiser_state())
        return super().save(taken, step=step, source=source) if self._ranks.is_first else self.folder

    def latest(self) -> Checkpoint | None:
        """Rank 0's newest checkpoint."""

        def read() -> dict[str, Any] | None:
            found = Checkpoints.latest(self)
            if found is None:
                return None
            return {"path": str(found.path), "step": found.step, "source": found.source, "digests": found.digests}

        told = self._ranks.tell(read)
        return None if told is None else RankedCheckpoint(Path(told.pop("path")), **told, ranks=self._ranks)


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a learner knew at one moment."""

    parameters: dict[str, Tensor]
    state: dict[str, Tensor]

    def weights(self) -> dict[str, Tensor]:
        return self.parameters

    def optimiser_state(self) -> dict[str, Tensor]:
        return self.state


@dataclass(frozen=True, slots=True)
class RankedCheckpoint(Checkpoint):
    """A checkpoint on rank 0's disk; restoring it restores it on every rank."""

    ranks: Ranks

    def _tensors(self, name: str) -> dict[str, Tensor]:
        return load(self.ranks.tell_bytes(lambda: save(Checkpoint._tensors(self, name))))


def share(drawn: Sequence[list[TokenArray]], ranks: Ranks) -> list[list[TokenArray]]:
    """The units of a step that this rank works on.

    Guarantee: every drawn unit is in the share of exactly one rank.
    """
    return list(drawn[ranks.rank :: ranks.size])
