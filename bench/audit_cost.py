"""What gradient canaries add to a private step: processor time of steps with and without them, in turn, in one run.

    python -m bench.audit_cost [MODEL] [--lora-rank 0] [--canaries 1000] [--batch 16] [--length 64] [--steps 9]

Every unit takes part in every step: all steps do the same work, and every canary that is a member is added to each,
which is the most that canaries can cost. Prints the median of each and their ratio. Processor time, so that other
work on the machine counts little. Ends with 1 if canaries add more than a tenth.
"""

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch

from reticent.core.corpus import Corpus, Record
from reticent.core.randomness import Randomness
from reticent.data.generators import generate_dialogues
from reticent.ledger.durable import SqliteLedger
from reticent.training.batches import Units, encode_texts
from reticent.training.gradients.source import TRAINING_ACCOUNT
from reticent.training.plans.plan import DpSgd
from reticent.training.private_step import PrivateStep
from reticent.training.starting_model import ModelStart, load_for_training

DELTA = 1e-5
MOST = 1.10  # of the time of a step without canaries


def main() -> int:
    """Take steps in turn and print the ratio."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?", default="embedded")
    parser.add_argument("--canaries", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--lora-rank", type=int, default=0)
    asked = parser.parse_args()
    start = ModelStart(source=asked.model, lora_rank=asked.lora_rank)
    models = {name: load_for_training(start, seed=0) for name in ("without", "with")}
    model = models["with"]
    texts = list(generate_dialogues(asked.batch, randomness=Randomness.seeded(0)))
    long = [Record(one.id, f"{one.text} {one.text} {one.text}", owner=one.owner) for one in texts]
    units = Units(encode_texts(model, Corpus(long), max_length=asked.length))
    epochs = float(asked.steps + 1)
    plan = DpSgd.for_target(epsilon=8.0, delta=DELTA, units=len(units), batch=len(units), epochs=epochs)
    plans = {"without": plan, "with": plan.audited(asked.canaries)}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        takers = []
        for name, one in plans.items():
            ledger = SqliteLedger.create(folder / name, one.budget(), accounts=[TRAINING_ACCOUNT], identity=name)
            stack.callback(ledger.close)
            module = models[name].module
            step = stack.enter_context(PrivateStep(module, one, ledger=ledger, audit=one.canaries))
            takers.append((name, step, step.batches(units), torch.optim.SGD(module.parameters(), lr=1e-6)))
        spent: dict[str, list[float]] = {name: [] for name in plans}
        for _ in range(asked.steps + 1):
            for name, step, batches, optimizer in takers:
                began = time.process_time()
                step.accumulate(next(batches))
                step.update(optimizer)
                spent[name].append(time.process_time() - began)
    medians = {name: float(np.median(times[1:])) for name, times in spent.items()}  # the first one tests rounding
    ratio = medians["with"] / medians["without"]
    print({name: [round(one, 2) for one in times] for name, times in spent.items()})
    print(f"without {medians['without']:.2f} s, with {medians['with']:.2f} s: × {ratio:.3f}")
    return int(ratio > MOST)


if __name__ == "__main__":
    sys.exit(main())
