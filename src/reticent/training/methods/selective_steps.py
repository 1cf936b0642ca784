"""The steps of selective DP-SGD (Shi et al. 2021) on the LSTM; the rules are in `selective`.

    charge → states between the runs, noised where they leave a sensitive one → ordinary gradient of the other runs
           → clipped, noised gradient of the sensitive runs → one update with both

Runs are trained from the state they start with as a constant: back-propagation through time ends at their edges, as
it must where the state is a noisy release. All runs of a batch are then rows that need nothing of each other.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from reticent.core.errors import LedgerError, ModelError, UsageError
from reticent.core.ledger import Ledger, Receipt
from reticent.core.randomness import Randomness
from reticent.models.lstm.model import LSTMForCausalLM, LSTMState
from reticent.training.checkpoint import receipt_state, restored_receipt
from reticent.training.gradients.clipping import NonFiniteGradient, add_noise, clip_factors
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.record_loss import IGNORED, TokenBatch
from reticent.training.gradients.source import TRAINING_ACCOUNT, Computation, Gradient
from reticent.training.methods.selective import Run, RunText, SelectivePlan
from reticent.training.plans.plan import MEASURE, SEEDED


@dataclass(frozen=True, slots=True)
class Start:
    """A run and the state [L, H] that it starts from, hidden and cell."""

    run: Run
    hidden: Tensor
    cell: Tensor


@dataclass(frozen=True, slots=True, repr=False)
class RunBatch(TokenBatch):
    """Runs as rows [R, T], each with the state it starts from: `hidden` and `cell` are [L, R, H]."""

    hidden: Tensor | None = None
    cell: Tensor | None = None

    @classmethod
    def of_starts(cls, groups: Sequence[Sequence[Start]], shape: tuple[int, int]) -> "RunBatch":
        """As many rows per record as the largest group has runs; `shape` is (L, H)."""
        rows = max((len(group) for group in groups), default=1) or 1
        width = max((len(start.run) for group in groups for start in group), default=1) or 1
        inputs = torch.zeros(len(groups) * rows, width, dtype=torch.long)
        targets = torch.full_like(inputs, IGNORED)
        hidden = torch.zeros(shape[0], len(inputs), shape[1])
        cell = torch.zeros_like(hidden)
        for record, group in enumerate(groups):
            for place, start in enumerate(group):
                row, length = record * rows + place, len(start.run)
                inputs[row, :length] = torch.from_numpy(start.run.inputs)
                targets[row, :length] = torch.from_numpy(start.run.targets)
                hidden[:, row], cell[:, row] = start.hidden, start.cell
        return cls(inputs, targets, rows, hidden=hidden, cell=cell)

    @property
    def state(self) -> LSTMState:
        """What the rows start from."""
        assert self.hidden is not None
        assert self.cell is not None
        return LSTMState(self.hidden, self.cell, 0)

    def select(self, records: Sequence[int], *, width: int | None = None) -> "RunBatch":
        """The batch of these records alone, in this order, as wide as the longest run of theirs unless told."""
        rows, state = self._rows_of(records), self.state
        chosen = TokenBatch.select(self, records, width=width)
        parts = chosen.inputs, chosen.targets
        return RunBatch(*parts, self.rows_per_record, hidden=state.hidden[:, rows], cell=state.cell[:, rows])


def run_losses(module: nn.Module, batch: TokenBatch) -> Tensor:
    """Negative log-likelihood of every target [R, T], each row from its own state; 0 at padding."""
    assert isinstance(batch, RunBatch)
    logits = module(input_ids=batch.inputs, past_key_values=batch.state, use_cache=False).logits  # [R, T, V]
    losses = functional.cross_entropy(
        logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED, reduction="none"
    )
    return losses.view(batch.inputs.shape)


def record_run_losses(module: nn.Module, batch: TokenBatch) -> Tensor:
    """The mean loss [B] of each record over its own tokens in the batch."""
    summed = run_losses(module, batch).view(len(batch), -1).sum(1)
    return summed / batch.tokens.clamp_min(1)


def noisy_states(hidden: Tensor, cell: Tensor, *, norm: float, deviation: float, randomness: Randomness) -> Tensor:
    """States [2, L, R, H] that may be read by anyone: hidden and cell clipped together, row by row, and noised.

    Guarantee: replacing what a row has read moves its state by at most 2 × `norm` before the noise.
    """
    both = torch.stack([hidden, cell])
    factors = clip_factors(both.double().square().sum((0, 1, 3)).sqrt().to(both.dtype), norm)  # [R]
    noise = torch.from_numpy(randomness.normal(tuple(both.shape))).to(both.dtype)
    return both * factors.view(1, 1, -1, 1) + deviation * noise


def recurrent(module: nn.Module) -> LSTMForCausalLM:
    """The module, if it has a state that can be noised."""
    if isinstance(module, LSTMForCausalLM):
        return module
    raise ModelError(
        "selective DP-SGD noises the state between segments, which a recurrent model alone has",
        found=type(module).__name__,
        hint="use --model lstm:1x200, or --method crt for other models",
    )


class SelectiveGradients:
    """Gradients of selective DP-SGD, each step charged before anything noisy of it exists.

    Guarantee: all that depends on marked tokens are the noisy states and the noisy clipped sums, at most
    `plan.releases` of them for one record; what the policy does not mark is not protected.
    """

    def __init__(
        self,
        module: nn.Module,
        texts: Sequence[RunText],
        plan: SelectivePlan,
        *,
        ledger: Ledger,
        randomness: Randomness,
        computation: Computation,
    ) -> None:
        if len(texts) != plan.units or any(sum(r.is_sensitive for r in t) > plan.sensitive_runs for t in texts):
            raise UsageError("the plan was made for another corpus", hint="make it from the runs of this one")
        budget = ledger.budget
        if budget.measure != MEASURE or budget.limit != plan.steps or tuple(ledger.accounts) != (TRAINING_ACCOUNT,):
            raise LedgerError("the ledger does not meter this plan", hint="open the ledger of this run")
        if not randomness.protects and SEEDED not in budget.guarantee.assumes:
            raise UsageError("noise from a seed protects nothing", hint="use Randomness.system()")
        self._module = recurrent(module)
        self._texts = texts
        self._plan = plan
        self._ledger = ledger
        self._randomness = randomness
        self._budget = computation.token_budget
        self._shape = (self._module.config.num_hidden_layers, self._module.config.hidden_size)
        self._engine = PerRecordGradients(module, plan.clip_norm, losses=record_run_losses)
        self._receipt: Receipt | None = None

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return self._plan.steps

    @property
    def position(self) -> int:
        """Steps that were charged, whether their weights survived or not: no record is read twice in an epoch."""
        return round(self._ledger.spent()[TRAINING_ACCOUNT])

    def next(self) -> Gradient:
        """Charge, noise the states, then one gradient of both kinds of runs."""
        self._module.eval()  # no dropout: the length of a secret would shift the masks of what is not noised
        drawn = [self._texts[unit] for unit in self._plan.sampler.batch_at(self.position).tolist()]
        self._receipt = self._ledger.charge({TRAINING_ACCOUNT: 1.0}, self._plan.step_event)
        fresh = self._randomness.child(f"noise {self._receipt.sequence}")
        starts = self._starts(drawn, fresh.child("states"))
        values, loss, tokens = self._plain(starts)
        noisy = add_noise(self._clipped(starts), self._plan.deviation(self._plan.clip_norm), fresh)
        for name, gradient in noisy.items():
            values[name] += gradient / self._plan.batch
        return Gradient(values, loss, tokens)

    @torch.no_grad()
    def _starts(self, texts: Sequence[RunText], randomness: Randomness) -> list[list[Start]]:
        """The state that each run of each text starts from; those after a sensitive run are noisy releases."""
        layers, width = self._shape
        states = torch.zeros(2, layers, len(texts), width)
        starts: list[list[Start]] = [[] for _ in texts]
        for turn in range(max((len(text) for text in texts), default=0)):
            for row, text in enumerate(texts):
                if turn < len(text):
                    starts[row].append(Start(text[turn], states[0, :, row].clone(), states[1, :, row].clone()))
            read = [row for row, text in enumerate(texts) if turn + 1 < len(text)]
            if not read:
                break
            batch = RunBatch.of_starts([starts[row][-1:] for row in read], self._shape)
            seen = (batch.targets != IGNORED).long()
            end = self._module(
                input_ids=batch.inputs, attention_mask=seen, past_key_values=batch.state, use_cache=True
            ).past_key_values
            states[0][:, read], states[1][:, read] = end.hidden, end.cell
            private = [row for row in read if texts[row][turn].is_sensitive]
            if private:
                states[:, :, private] = noisy_states(
                    states[0][:, private],
                    states[1][:, private],
                    norm=self._plan.state_norm,
                    deviation=self._plan.deviation(self._plan.state_norm),
                    randomness=randomness.child(f"turn {turn}"),
                )
        return starts

    def _plain(self, starts: Sequence[Sequence[Start]]) -> tuple[dict[str, Tensor], float | None, int]:
        """The ordinary gradient of the mean loss over tokens of other runs, that loss, and all tokens read."""
        parameters = {name: p for name, p in self._module.named_parameters() if p.requires_grad}
        total = {name: torch.zeros_like(p) for name, p in parameters.items()}
        rows = [[start] for group in starts for start in group if not start.run.is_sensitive]
        tokens = sum(len(start.run) for (start,) in rows)
        loss = 0.0
        for batch in self._batches(rows):
            with torch.enable_grad():
                mean = run_losses(self._module, batch).sum() / max(1, tokens)
            found = torch.autograd.grad(mean, list(parameters.values()), allow_unused=True)
            for summed, gradient in zip(total.values(), found, strict=True):
                if gradient is not None:
                    summed.add_(gradient)
            loss += float(mean.detach())
        everything = sum(len(start.run) for group in starts for start in group)
        return total, loss if tokens else None, everything

    def _clipped(self, starts: Sequence[Sequence[Start]]) -> dict[str, Tensor]:
        """The clipped sum of the records' gradients at sensitive runs; one that is not finite adds nothing."""
        groups = [[start for start in group if start.run.is_sensitive] for group in starts]
        with self._engine as engine:
            for batch in self._batches([group for group in groups if group]):
                try:
                    engine.accumulate(batch)
                except NonFiniteGradient:
                    for single in batch.split(1):
                        with suppress(NonFiniteGradient):
                            engine.accumulate(single)
            return engine.take().gradients

    def _batches(self, groups: Sequence[Sequence[Start]]) -> Iterator[RunBatch]:
        """Groups of like size together, within the token budget."""
        shapes = {i: (len(group), max(len(start.run) for start in group)) for i, group in enumerate(groups)}
        batch: list[int] = []
        for index in sorted(shapes, key=lambda i: shapes[i], reverse=True):
            chosen = [*batch, index]
            rows, width = max(shapes[i][0] for i in chosen), max(shapes[i][1] for i in chosen)
            if batch and len(chosen) * rows * width > self._budget:
                yield RunBatch.of_starts([groups[i] for i in batch], self._shape)
                chosen = [index]
            batch = chosen
        if batch:
            yield RunBatch.of_starts([groups[i] for i in batch], self._shape)

    def state(self) -> dict[str, Any]:
        """The ledger's place at the last step."""
        return receipt_state(self._receipt)

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint whose last charge stands in the ledger; what was charged since stays spent."""
        self._receipt = restored_receipt(state, self._ledger) or self._receipt

    def __enter__(self) -> "SelectiveGradients":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing stays attached between steps."""
