"""Scoring 2,000 texts of mixed length: the adapter's packed batches against one text at a time.

Both score the same texts, tokenizing included, with the same model in the same process, turn about, and must agree
to 1e-4. The other side is the plain loop that scripts of the field use: one text, one forward, log-softmax,
gather. What is reported is the ratio of the two times, which depends less on the machine than either. Lengths are
log-normal, about 5 to 200 tokens around the middle of that range in logarithms.

    python -m bench.scoring [model directory]
"""

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from reticent.core.arrays import Floats
from reticent.models.huggingface.loading import load_model
from reticent.models.huggingface.model import HuggingFaceModel

TEXTS = 2000
ROUNDS = 3
REQUIRED_RATIO = 5.0

STORY = """once upon a time there was little girl boy dog cat big red ball park house tree sun happy sad play went
saw her his they mom dad friend and the to in with very day night water food bird sky small liked wanted found"""


def one_at_a_time(model: HuggingFaceModel, texts: Sequence[str]) -> list[Floats]:
    """The plain loop: one forward a text."""
    module: Any = model.module
    scores = []
    with torch.inference_mode():
        for text in texts:
            sequence = model.tokenizer(text, add_special_tokens=False)["input_ids"]
            tokens = torch.tensor([[model.start_token, *sequence]], device=model.device)
            log_probs = torch.log_softmax(module(input_ids=tokens).logits[0, :-1].float(), dim=-1)
            scores.append(log_probs.gather(1, tokens[0, 1:, None])[:, 0].double().cpu().numpy())
    return scores


def packed(model: HuggingFaceModel, texts: Sequence[str]) -> list[Floats]:
    """What reticent does."""
    return model.token_log_probs(model.encode(texts))


def mixed_texts(model: HuggingFaceModel) -> list[str]:
    """Random words, cut to log-normal token lengths (median 32, σ 0.9, from 5 to 200)."""
    generator = np.random.default_rng(0)
    lengths = np.clip(np.exp(generator.normal(np.log(32), 0.9, TEXTS)).astype(int), 5, 200)
    drawn = [" ".join(generator.choice(STORY.split(), length)) for length in lengths]  # a word has a token at least
    cut = [row[:length] for row, length in zip(model.encode(drawn), lengths, strict=True)]
    return model.decode(cut)


def subject(arguments: Sequence[str]) -> HuggingFaceModel:
    """The model named on the command line, else stories260k beside the checkout, else one of its shape."""
    beside = Path(__file__).resolve().parent.parent.parent / "shared"
    stories = Path(os.environ.get("RETICENT_SHARED", beside)) / "models" / "stories260k"
    if arguments:
        return load_model(arguments[0], device="cpu")
    if stories.is_dir():
        return load_model(stories, device="cpu")
    return untrained()


def untrained() -> HuggingFaceModel:
    """A random model of the shape of stories260k: it takes as long to score as the trained one."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import WordLevel
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    names = ["<unk>", "<s>", "</s>", *dict.fromkeys(STORY.split())]
    words = Tokenizer(WordLevel({name: index for index, name in enumerate(names)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.decoder = decoders.WordPiece(prefix="##")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="</s>")
    config = LlamaConfig(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=172,
        num_hidden_layers=5,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=512,
    )
    return HuggingFaceModel(LlamaForCausalLM(config).eval(), tokenizer, name="untrained")


def with_threads(count: int, work: Callable[[], list[Floats]]) -> Callable[[], list[Floats]]:
    """The same work with so many torch threads; a single small text is read fastest by one."""

    def run() -> list[Floats]:
        torch.set_num_threads(count)
        return work()

    return run


def timed(work: Callable[[], list[Floats]]) -> tuple[float, list[Floats]]:
    """Seconds and result of one call."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def main() -> None:
    """Measure, print a table, and end with 1 where the ratio is below what is required."""
    model = subject(sys.argv[1:])
    texts = mixed_texts(model)
    cores = os.cpu_count() or 1
    torch.set_num_threads(1)
    sides: dict[str, Callable[[], list[Floats]]] = {
        "one at a time": with_threads(1, lambda: one_at_a_time(model, texts)),
        "reticent": with_threads(cores, lambda: packed(model, texts)),
    }
    one_at_a_time(model, texts[:50])
    packed(model, texts[:50])
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    results: dict[str, list[Floats]] = {}
    for _ in range(ROUNDS):
        for name, work in sides.items():
            duration, results[name] = timed(work)
            seconds[name].append(duration)
    gap = max(float(np.abs(a - b).max()) for a, b in zip(*results.values(), strict=True))
    ratios = [slow / fast for slow, fast in zip(*seconds.values(), strict=True)]
    tokens = sum(map(len, results["reticent"]))
    table = Table(title=f"{model.name}: {TEXTS} texts, {tokens} tokens, {cores} cores")
    for column in ("", "seconds (median)", "tokens/s"):
        table.add_column(column, justify="right")
    for name, durations in seconds.items():
        middle = statistics.median(durations)
        table.add_row(name, f"{middle:.2f}", f"{tokens / middle:,.0f}")
    console = Console()
    console.print(table)
    ratio = statistics.median(ratios)
    console.print(f"ratio {ratio:.1f} (each round: {', '.join(f'{r:.1f}' for r in ratios)}); largest gap {gap:.1e}")
    if ratio < REQUIRED_RATIO or gap > 1e-4:
        sys.exit(1)


if __name__ == "__main__":
    main()
