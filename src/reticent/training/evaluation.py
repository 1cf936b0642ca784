"""Perplexity and top-1 accuracy on held-out text.

    perplexity = exp(−(1/n) Σ log p(x_t | start, x_<t)),  top-1 = share of t where x_t is the likeliest token

over all n tokens of all texts, the end token of each text among them, in float64. Texts are cut as for training
(`batches`). What it says of the *held-out* text is not covered by any guarantee about the training text.

Tokens that the model will never be let say (`silent`: the mask of redacted training) have chance 0, and the others
share what they had: a model is judged by what it says.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn

from reticent.core.errors import UsageError
from reticent.models.batching import choose_budget
from reticent.training.batches import TokenTexts, micro_batches
from reticent.training.record_loss import IGNORED, TokenBatch


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How well a model predicts a corpus."""

    perplexity: float
    top1: float
    tokens: int
    texts: int

    def to_json(self) -> dict[str, Any]:
        """JSON values; the document that holds them carries the schema version."""
        return {"perplexity": self.perplexity, "top1": self.top1, "tokens": self.tokens, "texts": self.texts}


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
    loss, hits = 0.0, 0
    try:
        for batch in micro_batches(groups, texts.start_token, token_budget=budget, device=str(device)):
            batch_loss, batch_hits = _score(module, batch, list(silent))
            loss += batch_loss
            hits += batch_hits
    finally:
        module.train(was_training)
    tokens = texts.tokens
    return Evaluation(math.exp(min(loss / tokens, 700.0)), hits / tokens, tokens, len(texts))


@torch.inference_mode()
def _score(module: nn.Module, batch: TokenBatch, silent: list[int]) -> tuple[float, int]:
    """Summed negative log-likelihood and number of likeliest tokens that were right."""
    output = module(input_ids=batch.inputs)
    logits = output if isinstance(output, torch.Tensor) else output.logits  # [R, T, V]
    scored = batch.targets != IGNORED
    rows, targets = logits[scored].float(), batch.targets[scored]  # [n, V], [n]
    rows[:, silent] = -math.inf
    losses = nn.functional.cross_entropy(rows, targets, reduction="none")
    return float(losses.double().sum()), int((rows.argmax(-1) == targets).sum())
