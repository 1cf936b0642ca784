"""Membership inference where it is hard: which attacks find members of a lightly fine-tuned model at few errors?

The embedded public model is fine-tuned on 2,000 generated dialogues; 2,000 dialogues of other customers are the
non-members. Two epochs: long training would let plain loss find everybody and tell attacks apart no more. Attacks
that compare do so twice: with the untouched base, which knows nothing of such dialogues, and with a reference that
was fine-tuned alike on 2,000 dialogues of yet other customers.

Intervals hold at 95 % each, not together. Ends with 1 where, at 1 % false positives, neither the calibrated nor the
windowed attack with the reference has a higher rate than plain loss.

    python -m bench.membership [model directory]
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from reticent.app.training_config import DataSection, DecayName, Method, ModelSection, TrainConfig, TrainingSection
from reticent.app.training_run import start
from reticent.auditing.comparison_scores import ErrorZone, WindowComparison
from reticent.auditing.membership import MembershipAttack, run_attacks
from reticent.auditing.membership_scores import Calibrated, Loss, LowerCase, MinK, MinKPlusPlus, Zlib
from reticent.auditing.roc import Estimate, auc_interval, tpr_at_fpr
from reticent.auditing.target_scores import TargetScores
from reticent.core.corpus import Corpus, Record
from reticent.core.model import Floats
from reticent.core.randomness import Randomness
from reticent.data.generators import generate_dialogues
from reticent.data.writing import write_corpus
from reticent.models.huggingface import HuggingFaceModel
from reticent.models.loading import load_model

MEMBERS = NON_MEMBERS = 2000
CHARACTERS = 240  # of each dialogue: its beginning, with the customer's name and numbers
EPOCHS, BATCH, LEARNING_RATE = 2, 16, 1e-3
RATES = (0.01, 0.001)
ALONE: tuple[MembershipAttack, ...] = (Loss(), Zlib(), LowerCase(), MinK(), MinKPlusPlus())
COMPARED: tuple[MembershipAttack, ...] = (Calibrated(), WindowComparison(), ErrorZone())


def three_corpora() -> tuple[Corpus, Corpus, Corpus]:
    """Members, non-members and the reference's text, no customer in two of them."""
    total = MEMBERS + NON_MEMBERS + MEMBERS
    whole = generate_dialogues(total + total // 10, randomness=Randomness.seeded(1))
    owners = [whole.owners[place] for place in Randomness.seeded(2).permutation(len(whole.owners)).tolist()]
    by_owner: dict[str, list[Record]] = {}
    for record in whole:
        by_owner.setdefault(record.owner, []).append(Record(record.id, record.text[:CHARACTERS], record.owner))
    sides: list[list[Record]] = [[]]
    for owner in owners:
        if len(sides[-1]) >= MEMBERS and len(sides) < 3:
            sides.append([])
        sides[-1] += by_owner[owner]
    members, others, third = (Corpus(side[:MEMBERS]) for side in sides)
    return members, others, third


def fine_tune(corpus: Corpus, source: str) -> HuggingFaceModel:
    """The model after a few epochs on the corpus, by our own trainer without privacy."""
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(corpus, Path(folder) / "train.jsonl")
        config = TrainConfig(
            data=DataSection(file=str(Path(folder) / "train.jsonl")),
            model=ModelSection(source=source),
            training=TrainingSection(
                method=Method.SGD,
                epochs=EPOCHS,
                batch=BATCH,
                learning_rate=LEARNING_RATE,
                decay=DecayName.LINEAR,
            ),
            seed=3,
        )
        start(config, Path(folder) / "run", observe=lambda *_: True)
        return load_model(Path(folder) / "run" / "model", device="cpu")


def scores_of(
    texts: list[str], model: HuggingFaceModel, base: HuggingFaceModel, reference: HuggingFaceModel
) -> dict[str, Floats]:
    """Scores [n] of every attack, those that compare once with each model; the target is read once for all."""
    plain = TargetScores(texts, model, reference=base)
    found = run_attacks(ALONE, plain)
    found |= {f"{name} (base)": values for name, values in run_attacks(COMPARED, plain).items()}
    plain.reference = reference
    for seen in ("reference_log_probs", "differences"):
        vars(plain).pop(seen)
    return found | {f"{name} (reference)": values for name, values in run_attacks(COMPARED, plain).items()}


def rows(scores: dict[str, Floats], is_member: NDArray[np.bool_]) -> dict[str, list[Estimate | None]]:
    """AUC and rates of each attack."""
    measured: dict[str, list[Estimate | None]] = {}
    for name, values in scores.items():
        inside, outside = values[is_member], values[~is_member]
        rates = [tpr_at_fpr(inside, outside, fpr=rate, confidence=0.95) for rate in RATES]
        measured[name] = [auc_interval(inside, outside, confidence=0.95), *rates]
    return measured


def shown(estimate: Estimate | None) -> str:
    """Value and interval; a dash where so few non-members cannot tell."""
    return "–" if estimate is None else f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def main() -> None:
    """Fine-tune twice, attack, print the table."""
    torch.manual_seed(0)
    source = sys.argv[1] if sys.argv[1:] and not sys.argv[1].startswith("-") else "embedded"
    began = time.perf_counter()
    members, others, third = three_corpora()
    model, reference = fine_tune(members, source), fine_tune(third, source)
    trained = time.perf_counter()
    texts = [*members.texts, *others.texts]
    is_member = np.arange(len(texts)) < len(members)
    scores = scores_of(texts, model, load_model(source, device="cpu", dtype="float32"), reference)
    measured = rows(scores, is_member)
    table = Table(title=f"{source} fine-tuned on {len(members):,} dialogues, {len(others):,} others held out")
    for column in ("attack", "AUC", *(f"TPR at {rate:.1%} FPR" for rate in RATES), "× loss at 1 %"):
        table.add_column(column, justify="left" if column == "attack" else "right")
    plain = measured["loss"][1]
    assert plain is not None
    for name, estimates in measured.items():
        at_one = estimates[1]
        times = "–" if at_one is None or plain.value == 0.0 else f"{at_one.value / plain.value:.1f}"
        table.add_row(name, *map(shown, estimates), times)
    console = Console(width=130)
    console.print(table)
    inside, outside = (-scores["loss"][side].mean() for side in (is_member, ~is_member))
    console.print(f"mean loss {inside:.3f} of members, {outside:.3f} of non-members", highlight=False)
    console.print(f"{trained - began:.0f} s training, {time.perf_counter() - trained:.0f} s scoring")
    best = [measured[f"{name} (reference)"][1] for name in ("calibrated", "wbc")]
    if not any(one is not None and one.value > plain.value for one in best):
        sys.exit(1)


if __name__ == "__main__":
    main()
