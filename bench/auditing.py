"""Measured beside proved: ε from below by gradient canaries in real DP-SGD runs, and what the canaries cost.

For each target ε and seed a model is trained privately on generated dialogues, once with canaries and once without:
same corpus, same plan but for the canaries. Printed are the measured ε (95 %) by the plan's own test, by Steinke
et al. 2023 and by Mahloujifar et al. 2024 on the same scores, and the held-out perplexity of both runs. Sampling,
noise and coins come from the system's generator; the seed draws the corpus.

Ends with 1 if a run is refuted or measures less than half of it at ε = 4 or 8 or a third at ε = 1 in the
mean over seeds, or if the mean perplexity with canaries lies more than 2 % above that without.

    python -m bench.auditing [--model embedded] [--lora-rank 0] [--canaries 4000] [--seeds 5] [--epsilons 1 4 8]
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from reticent.core.corpus import Corpus
from reticent.core.randomness import Randomness
from reticent.data.generators import generate_dialogues
from reticent.data.writing import write_corpus
from reticent.runs.training.result import TrainedRun
from reticent.runs.training.run import train
from reticent.runs.training.settings import DataSection, Method, ModelSection, TrainingSection, TrainSettings

RECORDS, HELD_OUT, BATCH, EPOCHS, LENGTH, DELTA = 600, 100, 30, 1.5, 24, 1e-5
LEAST = {1.0: 1 / 3, 4.0: 1 / 2, 8.0: 1 / 2}  # of the proved ε
DEAREST = 1.02  # perplexity with canaries over that without


def config(folder: Path, arguments: argparse.Namespace, *, epsilon: float, audit: int | None) -> TrainSettings:
    """One private run."""
    return TrainSettings(
        data=DataSection(
            file=str(folder / "train.jsonl"), holdout=str(folder / "held-out.jsonl"), max_length=LENGTH
        ),
        model=ModelSection(source=arguments.model, lora_rank=arguments.lora_rank),
        training=TrainingSection(
            method=Method.DP_SGD,
            epochs=EPOCHS,
            batch=BATCH,
            learning_rate=arguments.learning_rate,
            target_epsilon=epsilon,
            delta=DELTA,
            audit=audit,
        ),
    )


def trained(
    folder: Path, arguments: argparse.Namespace, *, epsilon: float, audit: int | None
) -> tuple[TrainedRun, float]:
    """A run and the seconds that it took."""
    began = time.monotonic()
    settings = config(folder, arguments, epsilon=epsilon, audit=audit)
    result = train(settings.model_copy(update={"out": folder / f"run-{epsilon:g}-{audit}"}))
    return result, time.monotonic() - began


def main() -> int:
    """Print a line a run and the means; 1 where a limit is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--lora-rank", type=int, default=0)
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--canaries", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0, 8.0])
    arguments = parser.parse_args()
    faults = []
    for epsilon in arguments.epsilons:
        found, ratios = [], []
        for seed in range(arguments.seeds):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                records = list(generate_dialogues(RECORDS + HELD_OUT, randomness=Randomness.seeded(seed)))
                write_corpus(Corpus(records[:RECORDS]), folder / "train.jsonl")
                write_corpus(Corpus(records[RECORDS : RECORDS + HELD_OUT]), folder / "held-out.jsonl")
                audited, seconds = trained(folder, arguments, epsilon=epsilon, audit=arguments.canaries)
                plain, without = trained(folder, arguments, epsilon=epsilon, audit=None)
            measured = audited.measured
            assert measured is not None
            assert audited.evaluation is not None
            assert plain.evaluation is not None
            ratio = audited.evaluation.perplexity / plain.evaluation.perplexity
            found.append(measured.epsilon)
            ratios.append(ratio)
            print(
                f"ε {epsilon:g} seed {seed}: measured {measured.epsilon:.2f} of {measured.claimed:.2f} "
                f"({measured.verdict}); Steinke {measured.by_count.epsilon:.2f}, curve "
                f"{measured.by_curve.epsilon:.2f}; perplexity {audited.evaluation.perplexity:.3f} / "
                f"{plain.evaluation.perplexity:.3f} = {ratio:.4f}; {seconds:.0f} s / {without:.0f} s",
                flush=True,
            )
            if measured.is_refuted:
                faults.append(f"ε {epsilon:g} seed {seed}: refuted")
        share, cost = np.mean(found) / epsilon, np.mean(ratios)
        least, most = min(found), max(found)
        print(f"ε {epsilon:g}: mean {np.mean(found):.2f} ({least:.2f} to {most:.2f}), perplexity × {cost:.4f}")
        if share < LEAST.get(epsilon, 0.0):
            faults.append(f"ε {epsilon:g}: {share:.2f} of the proved ε")
        if cost > DEAREST:
            faults.append(f"ε {epsilon:g}: perplexity × {cost:.4f}")
    print(*faults, sep="\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
