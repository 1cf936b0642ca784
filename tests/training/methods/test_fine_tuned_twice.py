"""Just Fine-tune Twice (Shi et al. 2022), the rival of redacted training: what its first pass reads, and proves."""

import pytest
import torch

from bench import defences
from bench.defences import METHODS, Setup, twice
from reticent.core.corpus import Corpus, Record
from reticent.data.policies.combined import Dictionary
from reticent.training.gradients.source import PrivateGradients
from tests.models.tiny import tiny_model

FOUND, MISSED = "4711", "0815"
TEXTS = ["my pin is 4711.", "my pin is 0815.", "it rains a lot.", "so be it."] * 4


def after_first_pass(texts, folder) -> tuple[dict[str, torch.Tensor], PrivateGradients, object]:
    """Weights once the plain pass is done, the source of the private one, and what is proved."""
    records = Corpus(Record(str(place), text) for place, text in enumerate(texts))
    listed = Dictionary(dict.fromkeys((FOUND, "1234"), "PIN"))
    setup = Setup(records, records, (), listed, listed, 0, epochs=1, seed=3, epsilon=4.0)
    model = tiny_model()
    folder.mkdir()
    source, proved = twice(model, setup, folder)
    return {name: each.detach().clone() for name, each in model.module.named_parameters()}, source, proved


def same(first, second) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.fixture(autouse=True)
def few_records(monkeypatch):
    monkeypatch.setattr(defences, "PRIVATE_BATCH", 4)


def test_the_first_pass_reads_masks_for_what_is_found_and_in_clear_what_is_missed(tmp_path):
    start = {name: each.detach().clone() for name, each in tiny_model().module.named_parameters()}
    here, source, proved = after_first_pass(TEXTS, tmp_path / "a")
    assert not same(here, start)
    other_pin = [text.replace(FOUND, "1234") for text in TEXTS]
    other_missed = [text.replace(MISSED, "9999") for text in TEXTS]
    assert same(after_first_pass(other_pin, tmp_path / "b")[0], here)
    assert not same(after_first_pass(other_missed, tmp_path / "c")[0], here)
    assert proved is None  # of a secret that the policy misses nothing is proved, whatever the second pass does
    assert isinstance(source, PrivateGradients)  # the second pass: DP-SGD on everything


def test_every_rival_has_a_row_for_the_transformer_and_every_method_one_for_the_lstm():
    rows = {method.name for method in METHODS}
    assert {f"GPT-2 {name}" for name in ("undefended", "DP-SGD", "CRT", "twice")} <= rows
    assert {f"LSTM {name}" for name in ("undefended", "DP-SGD", "CRT", "selective")} <= rows
