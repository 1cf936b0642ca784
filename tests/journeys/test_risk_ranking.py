"""The texts at most risk, on the embedded model after fine-tuning: what was planted comes first."""

import json

import numpy as np
import pytest

from reticent.cli import main as cli
from reticent.core.corpus import Corpus, Record
from reticent.core.randomness import Randomness
from reticent.data.generators import generate_dialogues
from reticent.data.writing import write_corpus


def write_story(folder, seed: int) -> None:
    """Dialogues once, three of them twelve times, and three short numbers ten times; as many are held out."""
    whole = generate_dialogues(60, randomness=Randomness.seeded(seed))
    digits = np.random.default_rng(seed).integers(0, 10, (3, 5)).tolist()
    numbers = [f"The locker number is {''.join(map(str, row))}." for row in digits]
    planted = [*numbers * 10, *[record.text for record in whole[:3]] * 12]
    training = [Record(f"once-{place}", record.text) for place, record in enumerate(whole[3:30])]
    training += [Record(f"planted-{place}", text) for place, text in enumerate(planted)]
    write_corpus(Corpus(training), folder / "train.jsonl")
    write_corpus(whole[30:], folder / "held-out.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_texts_of_ten_copies_and_more_lead_the_list_of_a_fine_tuned_model(seed, tmp_path, capsys):
    write_story(tmp_path, seed)
    train = ["train", "--method", "sgd", "--model", "embedded", "--data", tmp_path / "train.jsonl", "--epochs", 3]
    train += ["--batch", 8, "--learning-rate", 1e-3, "--max-length", 256, "--seed", seed, "--out", tmp_path / "run"]
    assert cli.run([str(word) for word in train]) == 0
    audit = [
        "audit",
        tmp_path / "run",
        "--train",
        tmp_path / "train.jsonl",
        "--holdout",
        tmp_path / "held-out.jsonl",
    ]
    audit += ["--attacks", "lazy", "--base", "embedded", "--no-cache", "--out", tmp_path / "audit"]
    assert cli.run([str(word) for word in audit]) == 0
    capsys.readouterr()
    worst = json.loads((tmp_path / "audit" / "risk_map.json").read_text())["worst"]
    assert all(row["id"].startswith("planted") for row in worst[:6])
    assert sorted(row["copies"] for row in worst[:6]) == [10] * 3 + [12] * 3
    assert min(row["tokens"] for row in worst[:2]) < 30  # a number of 14 tokens, before longer dialogues
