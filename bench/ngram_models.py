"""N-gram canary models: all at once, against one by one with Opacus.

    python bench/ngram_models.py [--rounds N] [--alone N]

Both train the models of RDP-reconstruction, section 4.1: ten digits, one canary, full batch, clip norm 1, one step
and five. Ours trains 10,000 at once (`reproductions.rdp.digit_models`); Opacus trains them one by one as the
paper did, an embedding of [10, 10] logits, made private by its engine. Fifty are timed and the rest extrapolated.
Processor time of one thread on both sides, in turns; the ratio is the median over rounds. That both train the same
models is checked by their mean log-probability of the canary. Ends with 1 where ours is less than 1,000 times as
fast, or the two disagree.
"""

import argparse
import math
import os
import statistics
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from opacus import PrivacyEngine  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from reproductions.rdp.digit_models import Clipping, DigitTraining, canary_log_probs  # noqa: E402
from reticent.core.randomness import Randomness  # noqa: E402

MODELS = 10_000
REQUIRED_RATIO = 1000.0
NOISE = 2.875


class Digits(nn.Module):
    """Logits [T, D] of every position, as an embedding of positions, which Opacus knows."""

    def __init__(self, length: int, digits: int) -> None:
        super().__init__()
        self.logits = nn.Embedding(length, digits)
        nn.init.zeros_(self.logits.weight)

    def forward(self, positions: torch.Tensor) -> torch.Tensor:
        """[B, T] → [B, T, D]."""
        return self.logits(positions)


def train_with_opacus(training: DigitTraining) -> float:
    """One model; log-probability of the canary of zeros."""
    model = Digits(training.length, training.digits)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5 / training.noise_multiplier)
    positions = torch.arange(training.length)[None, :]
    loader = DataLoader(TensorDataset(positions, torch.zeros_like(positions)), batch_size=1)
    private, optimiser, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=optimiser,
        data_loader=loader,
        noise_multiplier=training.noise_multiplier,
        max_grad_norm=training.clip_norm,
        poisson_sampling=False,
    )
    for _ in range(training.steps):
        for inputs, targets in loader:
            optimiser.zero_grad()
            scores = private(inputs)
            loss = nn.functional.cross_entropy(scores[0], targets[0], reduction="sum")
            loss.backward()
            optimiser.step()
    rows = torch.log_softmax(model.logits.weight.detach().double(), dim=1)
    return float(rows[:, 0].sum())


def measure(training: DigitTraining, *, rounds: int, alone: int) -> tuple[float, float, float, float, float]:
    """Seconds a model of ours and of Opacus, their ratio, and both means of log p."""
    own, other, ours_mean, theirs = [], [], 0.0, []
    canary_log_probs(training, 1000, randomness=Randomness.seeded(0))
    train_with_opacus(training)
    for number in range(rounds):
        begin = time.process_time()
        ours_mean = float(canary_log_probs(training, MODELS, randomness=Randomness.seeded(number)).mean())
        middle = time.process_time()
        theirs += [train_with_opacus(training) for _ in range(alone)]
        own.append((middle - begin) / MODELS)
        other.append((time.process_time() - middle) / alone)
    ratio = statistics.median(b / a for a, b in zip(own, other, strict=True))
    return statistics.median(own), statistics.median(other), ratio, ours_mean, statistics.fmean(theirs)


def main(arguments: Sequence[str] = ()) -> int:
    """Print the table; 1 where something is not as required."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", type=int, default=50)
    asked = parser.parse_args(list(arguments))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    table = Table(title=f"{MODELS:,} models of ten digits, σ = {NOISE}, one thread, {asked.rounds} rounds")
    for column in ("steps", "ours, 10,000", "Opacus, 10,000 (extrapolated)", "ratio", "mean log p", "by Opacus"):
        table.add_column(column, justify="right")
    failed = False
    for steps in (1, 5):
        training = DigitTraining(noise_multiplier=NOISE, clipping=Clipping.RECORD, steps=steps)
        own, other, ratio, mean, opacus_mean = measure(training, rounds=asked.rounds, alone=asked.alone)
        # Standard deviations of log p are below 1.6 √steps; five standard errors alarm falsely with chance 6e-7.
        allowed = 5.0 * 1.6 * math.sqrt(steps / (asked.alone * asked.rounds))
        failed = failed or ratio < REQUIRED_RATIO or abs(mean - opacus_mean) > allowed
        seconds = [f"{MODELS * one:,.2f} s" for one in (own, other)]
        table.add_row(str(steps), *seconds, f"{ratio:,.0f} ×", f"{mean:.2f}", f"{opacus_mean:.2f}")
    Console(width=110).print(table)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
