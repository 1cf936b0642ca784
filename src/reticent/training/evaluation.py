"""Perplexity and top-1 accuracy on held-out text.

    perplexity = exp(−(1/n) Σ log p(x_t | start, x_<t)),  top-1 = share of t where x_t is the likeliest token

over all n tokens of all texts, the end token of each text among them, in float64, each with an interval at 95 %
over the texts (`core.estimate`). Texts are cut as for training (`batches`). What it says of the *held-out* text is
not covered by any guarantee about the training text.

Tokens that the model will never be let say (`silent`: the mask of redacted training) have chance 0, and the others
share what they had: a model is judged by what it says.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from reticent.core.document import number_from_json, number_to_json
from reticent.core.errors import UsageError
from reticent.core.estimate import mean_per_token
from reticent.models.huggingface.batching import choose_budget
from reticent.training.batches import TokenTexts, micro_batches
from reticent.training.gradients.record_loss import IGNORED, TokenBatch


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How well a model predicts a corpus; one text alone has intervals that say nothing: [1, ∞] and [0, 1]."""

    perplexity: float
    top1: float
    tokens: int
    texts: int
    perplexity_interval: tuple[float, float] = (1.0, math.inf)
    top1_interval: tuple[float, float] = (0.0, 1.0)

    def to_json(self) -> dict[str, Any]:
        """JSON values; the document that holds them carries the schema version."""
        return {
            "perplexity": number_to_json(self.perplexity),
            "perplexity_interval": [number_to_json(end) for end in self.perplexity_interval],
            "top1": self.top1,
            "top1_interval": list(self.top1_interval),
            "tokens": self.tokens,
            "texts": self.texts,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Evaluation":
        """What `to_json` wrote."""
        names = ("perplexity_interval", "top1_interval")
        pairs = {name: tuple(number_from_json(end) for end in values[name]) for name in names if name in values}
        return cls(**{**values, **pairs, "perplexity": number_from_json(values["perplexity"])})


def evaluate(
    module: nn.Module, texts: TokenTexts, *, token_budget: int | None = None, silent: Sequence[int] = ()
) -> Evaluation:
    """Perplexity and top-1 accuracy of a module on encoded texts; dropout is off meanwhile.

    `token_budget` is the most padded tokens of one forward; None chooses by vocabulary and device.
    """
    if not texts.tokens:
        raise UsageError("there is no token to evaluate on")
    if texts.hold(silent):
        raise UsageError("the text to evaluate on holds a token that the model never says")
    device, config = next(module.parameters()).device, cast(Any, module).config
    budget = token_budget or choose_budget(config.get_text_config().vocab_size, device)
    groups = [[text] for text in texts.texts if len(text)]
    was_training = module.training
    module.eval()
    losses: list[float] = []
    hits: list[float] = []
    sizes: list[int] = []
    try:
        for batch in micro_batches(groups, texts.start_token, token_budget=budget, device=str(device)):
            batch_losses, batch_hits = _score(module, batch, list(silent))
            losses += batch_losses.tolist()
            hits += batch_hits.tolist()
            sizes += batch.tokens.tolist()
    finally:
        module.train(was_training)
    loss, right = mean_per_token(losses, sizes), mean_per_token(hits, sizes)
    return Evaluation(
        _exp(loss.value),
        right.value,
        texts.tokens,
        len(texts),
        perplexity_interval=(max(1.0, _exp(loss.low)), _exp(loss.high)),
        top1_interval=(max(0.0, right.low), min(1.0, right.high)),
    )


@torch.inference_mode()
def _score(module: nn.Module, batch: TokenBatch, silent: list[int]) -> tuple[Tensor, Tensor]:
    """Of every text, its summed negative log-likelihood and how many likeliest tokens were right [R]."""
    output = module(input_ids=batch.inputs)
    logits = output if isinstance(output, torch.Tensor) else output.logits  # [R, T, V]
    scored = batch.targets != IGNORED
    rows, targets = logits[scored].float(), batch.targets[scored]  # [n, V], [n]
    rows[:, silent] = -math.inf
    losses = nn.functional.cross_entropy(rows, targets, reduction="none").double()
    text_of = scored.nonzero()[:, 0]  # [n]
    sums = torch.zeros(len(batch.targets), dtype=torch.float64, device=rows.device)
    return sums.index_add(0, text_of, losses), sums.index_add(0, text_of, (rows.argmax(-1) == targets).double())


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700.0 else math.inf
