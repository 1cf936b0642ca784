"""Pieces of the experiments that train, as small as they go: numbers of the right shape, and public text."""

import json

import numpy as np
import pytest

from reproductions.submix import extraction as submix_extraction
from reproductions.submix import utility as submix_utility
from reproductions.submix.dialogue_ensembles import EnsembleSettings, dialogue_texts
from reproductions.updates import canaries as updates_canaries
from reproductions.updates import phrases as updates_phrases
from reproductions.updates.text import ARTICLES, HOCKEY, MESSAGES, MIDEAST
from reticent.core.randomness import Randomness


@pytest.fixture(scope="module")
def extraction():
    parameters = {
        "parts": 2,
        "generations": 3,
        "steps": 40.0,
        "open_steps": 1.0,
        "learning_rate": 1e-2,
        "length": 2,
    }
    return submix_extraction._attack(parameters, Randomness.seeded(3))


def test_codes_are_asked_for_through_submix_at_every_epsilon(extraction):
    assert set(extraction["submix"]) == {f"{e:g}" for e in submix_extraction.EPSILONS}
    assert extraction["guess"] == pytest.approx(0.04)
    assert all(0.0 <= one["hit_rate"] <= one["high"] <= 1.0 for one in extraction["submix"].values())
    assert all(one["ceiling"] <= 1.0 for one in extraction["submix"].values())


def test_every_model_learns_its_own_code(extraction):
    """Twenty-five steps on one sentence: far above the 1 in 100 of a guess. Seeded."""
    assert len(extraction["members"]) == 4
    assert min(extraction["members"]) > 0.1


def test_the_private_rival_is_scored_on_the_very_tokens_of_the_ensemble():
    parameters = {"dialogues": 40, "budgets": [16, 64], "private_epochs": 0.5}
    found = submix_utility._measure_private(parameters, Randomness.seeded(3))
    assert set(found["perplexity"]) == {submix_utility._key("dp-sgd", 2.0, 2.0, b) for b in (16, 64)}
    assert all(np.isfinite(value) and value > 1.0 for value in found["perplexity"].values())
    settings = EnsembleSettings(dialogues=40, parts=2, epochs=1.0)
    training, held_out = dialogue_texts(settings, randomness=Randomness.seeded(3))
    assert not {record.owner for record in training} & {record.owner for record in held_out}
    assert dialogue_texts(settings, randomness=Randomness.seeded(3))[1].texts == held_out.texts


def test_fine_tuning_is_scored_on_the_very_tokens_of_the_ensemble():
    parameters = {"dialogues": 40, "parts": 2, "epochs": 2.0, "budgets": [16, 64]}
    found = submix_utility._measure_fine_tuned(parameters, Randomness.seeded(3))["perplexity"]
    assert set(found) == {submix_utility._key(kind, 2.0, 2.0, b) for kind in ("full", "single") for b in (16, 64)}
    single, full = (found[submix_utility._key(kind, 2.0, 2.0, 64)] for kind in ("single", "full"))
    assert 1.0 < full < single  # about twice as much text and as many steps; seeded


def test_phrases_of_an_update_are_found_scored_and_shown(tmp_path):
    words = {HOCKEY: "goal puck rink skate period", MIDEAST: "vote treaty border peace council"}
    rows = [
        {"id": f"{group}{n}", "group": group, "text": f"The {word} number {n} was a long {word} of ours."}
        for group, chosen in words.items()
        for word in chosen.split()
        for n in range(8)
    ]
    (tmp_path / MESSAGES).write_text("\n".join(json.dumps(row) for row in rows))
    every = " ".join(words.values())
    (tmp_path / ARTICLES).write_text("".join(f" An article of {word} was written . \n" for word in every.split()))
    regimes = [[updates_phrases.AGAIN, 0.0], [updates_phrases.ON, 0.0], [updates_phrases.ON, 1.0]]
    sizes = {"public": 16, "messages": 16, "vocabulary": 60, "hidden_size": 16, "steps": 40, "width": 20}
    parameters = {**sizes, "group": HOCKEY, "regimes": regimes, "data": str(tmp_path)}
    found = updates_phrases._search(parameters, Randomness.seeded(3))
    assert set(found["scores"]) == {"re-training 0%", "continued training 0%", "continued training 100%"}
    assert len({len(scores) for scores in found["scores"].values()}) == 1
    rows = found["found"]["continued training 0%"]["groups"]
    assert len(rows) == updates_phrases.GROUPS
    assert max(row["words"] for row in rows) >= 1  # continued training on the subject alone speaks of it
    shown = [row["phrase"] for row in rows]
    assert set(shown) <= set(found["phrases"])
    assert all(len(phrase.split()) == updates_phrases.LENGTH for phrase in shown)
    assert any(word in phrase.split() for phrase in shown for word in words[HOCKEY].split())
    assert len(found["phrases"]) == len(found["scores"]["continued training 0%"])


def test_a_canary_piece_says_its_share_its_accuracy_its_ranks_and_that_of_two_tokens():
    sizes = {"sentences": 60, "vocabulary": 120, "hidden_size": 8, "steps": 12, "phrases": 1}
    how = {"regime": "re-training", "share": 0.0, "copies": 4, "epsilon": None, "by_epochs": False}
    found = updates_canaries._update({**sizes, **how}, Randomness.seeded(3))
    assert 0.0 < found["share"] < 0.2
    assert 0.0 <= found["accuracy"] <= 1.0
    assert found["ranked"]["pairs"] >= 100**2 > found["ranked"]["rank"] >= 0
    assert all(len(ranks) == 1 for ranks in found["ranks"].values())
