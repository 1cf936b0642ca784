"""When a training ends: the loss on held-out text decides, and the best weights are kept."""

import pytest
import torch

from reproductions.updates import convergence as update_convergence
from reproductions.updates.convergence import Convergence
from reproductions.updates.regimes import Privacy, UpdateData, UpdateExperiment, UpdateSettings
from reticent.training.loop import Progress
from tests.reproductions.update_stories import experiment, sentences


class Evaluated:
    def __init__(self, perplexity: float) -> None:
        self.perplexity = perplexity


def watched(monkeypatch, perplexities, patience=1) -> tuple[Convergence, list[bool]]:
    """A course of epochs of two steps with these perplexities; each epoch sets all weights to its number."""
    model = experiment().fresh("model")
    convergence = Convergence(model, sentences(3, 5, "h"), every=2, patience=patience)
    left = iter(perplexities)
    monkeypatch.setattr(update_convergence, "evaluate_model", lambda *_: Evaluated(next(left)))
    wishes = []
    for step in range(1, 2 * len(perplexities) + 1):
        with torch.no_grad():
            for parameter in model.module.parameters():
                parameter.fill_(float((step + 1) // 2))
        wishes.append(convergence(Progress(step, 99, None, 1.0)))
        if not wishes[-1]:
            break
    convergence.restore()
    assert {p.flatten()[0].item() for p in model.module.parameters()} == {float(convergence.best_epoch)}
    return convergence, wishes


def test_training_ends_when_the_loss_no_longer_falls_and_the_best_weights_are_put_back(monkeypatch):
    convergence, wishes = watched(monkeypatch, [9.0, 7.0, 8.0, 6.0])
    assert convergence.best_epoch == 2
    assert wishes == [True] * 5 + [False]  # after the third epoch; the fourth is not seen


def test_patience_waits_out_a_worse_epoch(monkeypatch):
    convergence, _ = watched(monkeypatch, [9.0, 7.0, 8.0, 6.0, 6.5, 6.4], patience=2)
    assert convergence.best_epoch == 4
    assert len(convergence.losses) == 6


def test_the_first_epoch_is_kept_at_the_earliest(monkeypatch):
    convergence, _ = watched(monkeypatch, [9.0, 9.5])
    assert convergence.best_epoch == 1


def test_a_training_to_convergence_stops_before_its_most_epochs_and_is_no_worse_than_any_epoch():
    story = experiment(epochs=30.0, patience=1)
    data = story.data
    held_out = UpdateData(data.original, data.extra, data.later, data.tokenizer, sentences(40, 7, "h"))
    work = UpdateExperiment(held_out, story.settings)
    before = work.before
    assert 1 < len(work.watched.losses) < 30
    again = Convergence(before, held_out.held_out, every=1, patience=1)
    again(Progress(1, 1, None, 1.0))
    assert again.losses[0] == pytest.approx(min(work.watched.losses))


def test_convergence_is_for_plain_training_and_needs_its_own_end():
    with pytest.raises(ValueError, match="plain"):
        UpdateSettings(patience=1, privacy=Privacy(epsilon=1.0, delta=1e-5))
    with pytest.raises(ValueError, match="steps"):
        UpdateSettings(patience=1, steps=3)
    with pytest.raises(ValueError, match="patience"):
        Convergence(experiment().fresh("model"), sentences(3, 5, "h"), every=2, patience=0)
