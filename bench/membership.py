"""Membership inference where it is hard: which attacks find members of a lightly fine-tuned model at few errors?

A public model is fine-tuned on 2,000 whole dialogues, each of another customer so that targets are independent;
2,000 dialogues of other customers are the non-members. Attacks that compare do so twice: with the untouched base,
and with a reference that the adversary fine-tuned alike on 2,000 dialogues of yet other customers, having text of
the same kind. Each seed has members, non-members and a target of its own; the reference serves them all.

Rates have exact intervals (`roc`); a difference to plain loss is that of the same targets, with the percentile
interval of a bootstrap that draws members and non-members anew for both attacks at once. Intervals hold at 95 %
each, not together. Ends with 1 unless, at 1 % false positives, the calibrated and the windowed attack with the
reference both find more than plain loss, by intervals that exclude 0, for every seed.

    python -m bench.membership [--model DIRECTORY] [--seeds N …]
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from reticent.auditing.attacks.membership.scores import (
    CalibratedScore,
    ErrorZoneScore,
    LossScore,
    LowerCaseScore,
    MembershipScore,
    MinKPlusPlusScore,
    MinKScore,
    WindowScore,
    ZlibScore,
    run_attacks,
)
from reticent.auditing.attacks.membership.target_scores import TargetScores
from reticent.auditing.metrics.roc import Estimate, auc_interval, tpr_at_fpr
from reticent.core.arrays import Floats
from reticent.core.corpus import Corpus, Record
from reticent.core.randomness import Randomness
from reticent.data.generators import generate_dialogues
from reticent.data.writing import write_corpus
from reticent.models.ensemble.allocator import keep_freed_memory
from reticent.models.huggingface.loading import load_model
from reticent.models.huggingface.model import HuggingFaceModel
from reticent.runs.training.run import train
from reticent.runs.training.settings import DataSection, Method, ModelSection, TrainingSection, TrainSettings
from reticent.training.update_rules import Decay

MEMBERS = NON_MEMBERS = 2000
DIALOGUES_A_CUSTOMER = 3.2  # drawn, of which one is kept: a little more than the generator's mean
EPOCHS, BATCH, LEARNING_RATE = 2, 8, 2e-3
REFERENCE_SEED = 1000  # its customers are drawn apart from those of every target
RATES = (0.01, 0.001)
DRAWS = 2000
ALONE: tuple[MembershipScore, ...] = (LossScore(), ZlibScore(), LowerCaseScore(), MinKScore(), MinKPlusPlusScore())
COMPARED: tuple[MembershipScore, ...] = (CalibratedScore(), WindowScore(), ErrorZoneScore())
MUST_BEAT_LOSS = ("calibrated (reference)", "wbc (reference)")


@dataclass(frozen=True, slots=True)
class Row:
    """What one attack reached; None where so few non-members cannot tell."""

    auc: Estimate
    rates: tuple[Estimate | None, ...]  # at RATES
    gain: Estimate  # over plain loss at the first of RATES


def customers(count: int, seed: int) -> list[Record]:
    """One dialogue each of so many customers, in random order."""
    drawn = generate_dialogues(round(count * DIALOGUES_A_CUSTOMER), randomness=Randomness.seeded(seed))
    first: dict[str, Record] = {}
    for record in drawn:
        first.setdefault(record.owner, record)
    if len(first) < count:
        raise RuntimeError(f"{count:,} customers are needed, {len(first):,} were drawn")
    records = list(first.values())
    order = Randomness.seeded(seed).child("order").permutation(len(records))[:count].tolist()
    return [records[place] for place in order]


def fine_tune(corpus: Corpus, source: str, *, seed: int) -> HuggingFaceModel:
    """The model after a few epochs on the corpus, by our own trainer without privacy."""
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(corpus, Path(folder) / "train.jsonl")
        config = TrainSettings(
            data=DataSection(file=str(Path(folder) / "train.jsonl")),
            model=ModelSection(source=source),
            training=TrainingSection(
                method=Method.SGD,
                epochs=EPOCHS,
                batch=BATCH,
                learning_rate=LEARNING_RATE,
                decay=Decay.LINEAR,
            ),
            seed=seed,
        )
        train(config.into(Path(folder) / "run"), observe=lambda *_: True)
        return load_model(Path(folder) / "run" / "model", device="cpu")


def scores_of(
    texts: Sequence[str], model: HuggingFaceModel, *, base: HuggingFaceModel, reference: HuggingFaceModel
) -> dict[str, Floats]:
    """Scores [n] of every attack, those that compare once with each model; the target is read once for all."""
    targets = TargetScores(texts, model, reference=base)
    found = run_attacks(ALONE, targets)
    found |= {f"{name} (base)": values for name, values in run_attacks(COMPARED, targets).items()}
    targets.reference = reference
    for seen in ("reference_log_probs", "differences"):
        vars(targets).pop(seen)
    return found | {f"{name} (reference)": values for name, values in run_attacks(COMPARED, targets).items()}


def rate(members: Floats, others: Floats, *, fpr: float) -> float:
    """Share of members above the least threshold that at most `fpr` of the others pass, as `tpr_at_fpr` has it."""
    allowed = int(fpr * len(others) + 1e-9)
    threshold = np.partition(others, len(others) - 1 - allowed)[len(others) - 1 - allowed]
    return float((members > threshold).mean())


def gain(scores: Floats, plain: Floats, is_member: NDArray[np.bool_], *, fpr: float) -> Estimate:
    """How much higher the rate of `scores` [n] is than that of `plain` [n], with a paired bootstrap interval."""
    inside, outside = np.flatnonzero(is_member), np.flatnonzero(~is_member)

    def difference(members: NDArray[np.int64], others: NDArray[np.int64]) -> float:
        mine, theirs = (rate(values[members], values[others], fpr=fpr) for values in (scores, plain))
        return mine - theirs

    generator = np.random.default_rng(0)
    drawn = [
        difference(generator.choice(inside, len(inside)), generator.choice(outside, len(outside)))
        for _ in range(DRAWS)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Estimate(difference(inside, outside), float(low), float(high))


def rows(scores: Mapping[str, Floats], is_member: NDArray[np.bool_]) -> dict[str, Row]:
    """AUC, rates and gain over plain loss of each attack."""
    measured = {}
    for name, values in scores.items():
        inside, outside = values[is_member], values[~is_member]
        measured[name] = Row(
            auc_interval(inside, outside, confidence=0.95),
            tuple(tpr_at_fpr(inside, outside, fpr=rate, confidence=0.95) for rate in RATES),
            gain(values, scores["loss"], is_member, fpr=RATES[0]),
        )
    return measured


def shown(estimate: Estimate | None, *, sign: str = "") -> str:
    """Value and interval; a dash where so few non-members cannot tell."""
    if estimate is None:
        return "–"
    return f"{estimate.value:{sign}.3f} [{estimate.low:{sign}.3f}, {estimate.high:{sign}.3f}]"


def print_table(measured: Mapping[str, Row], title: str) -> None:
    """One line an attack."""
    table = Table(title=title)
    for column in ("attack", "AUC", *(f"TPR at {rate:.1%} FPR" for rate in RATES), "over loss at 1 %"):
        table.add_column(column, justify="left" if column == "attack" else "right")
    for name, row in measured.items():
        over = "" if name == "loss" else shown(row.gain, sign="+")
        table.add_row(name, shown(row.auc), *map(shown, row.rates), over)
    Console(width=130).print(table)


def attack(source: str, seed: int, *, reference: HuggingFaceModel) -> bool:
    """Fine-tune a target, attack it, print the table; whether the attacks that must beat plain loss do."""
    began = time.perf_counter()
    records = customers(MEMBERS + NON_MEMBERS, seed)
    model = fine_tune(Corpus(records[:MEMBERS]), source, seed=seed)
    trained = time.perf_counter()
    is_member = np.arange(len(records)) < MEMBERS
    base = load_model(source, device="cpu", dtype="float32")
    scores = scores_of([record.text for record in records], model, base=base, reference=reference)
    measured = rows(scores, is_member)
    print_table(
        measured, f"{source}, seed {seed}: fine-tuned on {MEMBERS:,} dialogues, {NON_MEMBERS:,} others held out"
    )
    inside, outside = (-scores["loss"][side].mean() for side in (is_member, ~is_member))
    print(f"mean loss {inside:.3f} of members, {outside:.3f} of non-members")
    print(f"{trained - began:.0f} s training, {time.perf_counter() - trained:.0f} s scoring")
    missed = [name for name in MUST_BEAT_LOSS if measured[name].gain.low <= 0.0]
    if missed:
        print(f"not above plain loss at {RATES[0]:.0%} false positives: {', '.join(missed)}")
    return not missed


def main(arguments: Sequence[str] = ()) -> int:
    """Fine-tune the reference, then attack a target for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--seeds", type=int, nargs="+", default=[2])
    asked = parser.parse_args(list(arguments))
    torch.set_num_threads(1)
    keep_freed_memory()
    reference = fine_tune(Corpus(customers(MEMBERS, REFERENCE_SEED)), asked.model, seed=REFERENCE_SEED)
    met = [attack(asked.model, seed, reference=reference) for seed in asked.seeds]
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
