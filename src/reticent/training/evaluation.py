"""Perplexity and top-1 accuracy on held-out text.

    perplexity = exp(−(1/n) Σ log p(x_t | start, x_<t)),  top-1 = share of t where x_t is the likeliest token

over all n tokens of all texts, the end token of each text among them, in float64, each with an interval at 95 %
over the texts (`core.statistics.estimate`). Texts are cut as for training (`batches`). What it says of the
*held-out* text is not covered by any guarantee about the training text.

**Outside secrets**: the same over the tokens that share no character with a secret, each predicted after the whole
text before it. Text that is redacted before training teaches no secret, so only this number tells how well the rest
was learnt.

Tokens that the model will never be let say (`silent`: the mask of redacted training) have chance 0, and the others
share what they had: a model is judged by what it says.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from reticent.core.arrays import Flags, Floats
from reticent.core.corpus import Span
from reticent.core.document import ADDED_LATER, UNLESS_DEFAULT, JsonObject, fields_from_json
from reticent.core.errors import UsageError
from reticent.core.statistics.estimate import mean_per_token
from reticent.models.huggingface.batching import choose_budget
from reticent.training.batches import TokenTexts, micro_batches
from reticent.training.gradients.record_loss import IGNORED, TokenBatch


@dataclass(frozen=True, slots=True)
class Evaluation(JsonObject):
    """How well a model predicts a corpus; one text alone has intervals that say nothing: [1, ∞] and [0, 1].

    `trained_on` counts the texts that are not held out: the training corpus holds them too.
    """

    perplexity: float
    top1: float
    tokens: int
    texts: int
    perplexity_interval: tuple[float, float] = field(default=(1.0, math.inf), metadata=ADDED_LATER)
    top1_interval: tuple[float, float] = field(default=(0.0, 1.0), metadata=ADDED_LATER)
    # The same outside secrets, where someone said what these are.
    outside: "Evaluation | None" = field(default=None, metadata=ADDED_LATER)
    trained_on: int = field(default=0, metadata=UNLESS_DEFAULT)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Evaluation":
        """What `to_json` wrote."""
        return fields_from_json(cls, values)


def evaluate_model(
    module: nn.Module,
    texts: TokenTexts,
    *,
    token_budget: int | None = None,
    silent: Sequence[int] = (),
    outside: Sequence[Flags] | None = None,
) -> Evaluation:
    """Perplexity and top-1 accuracy of a module on encoded texts; dropout is off meanwhile.

    `token_budget` is the most padded tokens of one forward; None chooses by vocabulary and device. `outside` says
    of each token of each text whether it is outside secrets.
    """
    if not texts.tokens:
        raise UsageError("there is no token to evaluate on")
    if texts.hold(silent):
        raise UsageError("the text to evaluate on holds a token that the model never says")
    device, config = next(module.parameters()).device, cast(Any, module).config
    budget = token_budget or choose_budget(config.get_text_config().vocab_size, device)
    places = [place for place, text in enumerate(texts.texts) if len(text)]
    places.sort(key=lambda place: len(texts.texts[place]), reverse=True)  # as batches take them
    groups = [[texts.texts[place]] for place in places]
    was_training = module.training
    module.eval()
    losses: list[Floats] = []  # of each text, by token
    hits: list[Floats] = []
    try:
        for batch in micro_batches(groups, texts.start_token, token_budget=budget, device=str(device)):
            scored = _score(module, batch, list(silent))
            ends = batch.tokens.cumsum(0)[:-1].tolist()
            losses += np.split(scored[0].cpu().numpy(), ends)
            hits += np.split(scored[1].cpu().numpy(), ends)
    finally:
        module.train(was_training)
    whole = _evaluation(losses, hits, texts=len(texts))
    if outside is None:
        return whole
    kept = [outside[place] for place in places]
    pairs = [(loss[flags], hit[flags]) for loss, hit, flags in zip(losses, hits, kept, strict=True) if flags.any()]
    if not pairs:
        return whole
    rest = _evaluation([loss for loss, _ in pairs], [hit for _, hit in pairs], texts=len(pairs))
    return replace(whole, outside=rest)


def _evaluation(losses: Sequence[Floats], hits: Sequence[Floats], *, texts: int) -> Evaluation:
    """From the negative log-likelihood of each token of each text, and whether it was the likeliest."""
    sizes = [len(each) for each in losses]
    loss = mean_per_token([float(each.sum()) for each in losses], sizes)
    right = mean_per_token([float(each.sum()) for each in hits], sizes)
    return Evaluation(
        _exp(loss.value),
        right.value,
        sum(sizes),
        texts,
        perplexity_interval=(max(1.0, _exp(loss.low)), _exp(loss.high)),
        top1_interval=(max(0.0, right.low), min(1.0, right.high)),
    )


def outside_spans(places: Sequence[Sequence[tuple[int, int]]], found: Iterable[Sequence[Span]]) -> list[Flags]:
    """Of each token of each text, by its characters (start, end), whether it shares none with a span."""
    return [
        np.array([not any(s.start < end and start < s.end for s in spans) for start, end in text], dtype=bool)
        for text, spans in zip(places, found, strict=True)
    ]


def outside_secrets(
    texts: TokenTexts, places: Sequence[Sequence[tuple[int, int]]], found: Iterable[Sequence[Span]]
) -> list[Flags]:
    """The same for encoded texts: cut as they are, and the end token behind a text is no secret."""
    flags = outside_spans(places, found)
    return [np.append(each, True)[: len(text)] for each, text in zip(flags, texts.texts, strict=True)]


@torch.inference_mode()
def _score(module: nn.Module, batch: TokenBatch, silent: list[int]) -> tuple[Tensor, Tensor]:
    """Of every token, text by text, its negative log-likelihood and whether it was the likeliest, both [n]."""
    output = module(input_ids=batch.inputs)
    logits = output if isinstance(output, torch.Tensor) else output.logits  # [R, T, V]
    scored = batch.targets != IGNORED
    rows, targets = logits[scored].float(), batch.targets[scored]  # [n, V], [n]
    rows[:, silent] = -math.inf
    losses = nn.functional.cross_entropy(rows, targets, reduction="none").double()
    return losses, (rows.argmax(-1) == targets).double()


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700.0 else math.inf
