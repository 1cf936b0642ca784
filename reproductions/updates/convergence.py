"""When a training has converged: the loss on held-out text no longer falls.

After every epoch the model is scored on text that no training sees. The training ends once the loss has not fallen
for `patience` epochs, and the weights of the least loss are put back, those of the first epoch at the earliest.
So updates of unequal size are compared: neither by equal epochs nor by equal steps, but each when it has learnt
what generalises (Zanella-Béguelin et al. 2020 train "to convergence", section 3.2).

Stopping looks at held-out text without an account of it: for plain training alone.
"""

import copy
import math
from typing import Any

from reticent import Corpus
from reticent.models import HuggingFaceModel
from reticent.training import Progress, encode_texts, evaluate_model


class Convergence:
    """Watches one training, `every` steps an epoch."""

    def __init__(self, model: HuggingFaceModel, held_out: Corpus, *, every: int, patience: int) -> None:
        if min(every, patience) < 1:
            raise ValueError("an epoch has steps, and patience is at least one epoch")
        self._module = model.module
        self._texts = encode_texts(model, held_out)
        self._every = every
        self._patience = patience
        self.losses: list[float] = []  # nats per token, one an epoch
        self._best: dict[str, Any] | None = None

    @property
    def best_epoch(self) -> int:
        """The epoch of the least loss, the first being 1."""
        return self.losses.index(min(self.losses)) + 1

    def __call__(self, progress: Progress) -> bool:
        """Whether to train on."""
        if progress.step % self._every:
            return True
        self.losses.append(math.log(evaluate_model(self._module, self._texts).perplexity))
        if self.best_epoch == len(self.losses):
            self._best = copy.deepcopy(self._module.state_dict())
        return len(self.losses) - self.best_epoch < self._patience

    def restore(self) -> None:
        """Put the weights of the least loss back."""
        if self._best is not None:
            self._module.load_state_dict(self._best)
