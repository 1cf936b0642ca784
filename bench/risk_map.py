"""Throughput of the risk map against the two models' plain forward over the same tokens.

Both sides encode and read the same generated dialogues in the same packed batches, turn about, in one process. The
plain side does nothing but the forward of each model: no log-softmax, no scores. What is reported is the ratio of
the two throughputs, in processor time, so that other work on the machine does not count.

    python -m bench.risk_map [model directory]
"""

import statistics
import sys
import time
from collections.abc import Sequence

import torch
from rich.console import Console
from rich.table import Table

from reticent.auditing.attacks.lazy.risk_map import TRAINING, draw_risk_map
from reticent.core.corpus import Record
from reticent.core.randomness import Randomness
from reticent.data.generators.dialogues import generate_dialogues
from reticent.models.embedded import embedded_model_path
from reticent.models.huggingface.batching import choose_budget, pack, pad_right
from reticent.models.huggingface.loading import load_model
from reticent.models.huggingface.model import HuggingFaceModel

RECORDS = 60
ROUNDS = 5
REQUIRED_RATIO = 0.9


def plain_forward(models: Sequence[HuggingFaceModel], texts: Sequence[str]) -> int:
    """Encode, pack, pad and run each module; the logits are dropped. Gives the number of tokens read."""
    read = 0
    with torch.inference_mode():
        for model in models:
            encoded = model.encode(texts)
            room = None if model.context_length is None else model.context_length - 1
            rows = [[model.start_token, *row[:room][:-1]] for row in encoded]
            for batch in pack([len(row) for row in rows], choose_budget(model.vocabulary_size, model.device)):
                padded = pad_right([rows[index] for index in batch], model.start_token, device=model.device)
                model.module(input_ids=padded, use_cache=False)
            read += sum(map(len, rows))
    return read


def main() -> None:
    """Measure turn about, print a table, and end with 1 where the ratio is below what is required."""
    path = sys.argv[1] if sys.argv[1:] and not sys.argv[1].startswith("-") else embedded_model_path()
    target, reference = load_model(path, device="cpu"), load_model(path, device="cpu")
    records: list[Record] = list(generate_dialogues(RECORDS, randomness=Randomness.seeded(0)))
    texts = [record.text for record in records]
    tokens = plain_forward([target, reference], texts)
    draw_risk_map(target, reference, groups={TRAINING: records})
    seconds: dict[str, list[float]] = {"plain forward": [], "risk map": []}
    for _ in range(ROUNDS):
        begin = time.process_time()
        plain_forward([target, reference], texts)
        middle = time.process_time()
        draw_risk_map(target, reference, groups={TRAINING: records})
        seconds["plain forward"].append(middle - begin)
        seconds["risk map"].append(time.process_time() - middle)
    ratios = [plain / ours for plain, ours in zip(*seconds.values(), strict=True)]
    table = Table(title=f"{target.name}: {RECORDS} records, {tokens:,} tokens in all, two models")
    for column in ("", "processor seconds (median)", "tokens/s"):
        table.add_column(column, justify="right")
    for name, durations in seconds.items():
        middle = statistics.median(durations)
        table.add_row(name, f"{middle:.2f}", f"{tokens / middle:,.0f}")
    console = Console()
    console.print(table)
    ratio = statistics.median(ratios)
    console.print(f"ratio {ratio:.2f} (each round: {', '.join(f'{one:.2f}' for one in ratios)})")
    if ratio < REQUIRED_RATIO:
        sys.exit(1)


if __name__ == "__main__":
    main()
