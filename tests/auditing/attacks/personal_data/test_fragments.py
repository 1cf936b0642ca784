"""Fragments: a model that tells only after it was trained on known pairs is found out, what it makes up is not."""

import dataclasses
from pathlib import Path

import pytest

from reticent.auditing.attack import NothingToAttack
from reticent.auditing.attacks.personal_data.fragments import FragmentAttack
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import make_subject
from reticent.core.model import Access
from reticent.models.huggingface.loading import load_model
from reticent.models.huggingface.model import HuggingFaceModel
from reticent.runs.audit.retraining import fine_tune
from tests.auditing.attacks.personal_data.small_models import Telling
from tests.auditing.attacks.personal_data.test_association import BOOK, CODES, FINDS, PERSONS, book, told
from tests.models.tiny import tiny_gpt2, tiny_tokenizer

SETTINGS = AttackSettings(
    attacks=("fragments",), sizes=Sizes(extraction_records=60, draws=2), policy="book", shares=1
)


class Held(Telling):
    """Of which the weights are held."""

    access = Access.WEIGHTS


def measured(model, tune):
    subject = make_subject(model, None, training=book(0, 40), held_out=book(40, 20))
    attack = FragmentAttack(tune, lambda _: FINDS)
    (line,) = attack.plan(subject, SETTINGS, sizes=SETTINGS.sizes, mean=9.0)
    found = attack.run(subject, SETTINGS, sizes=SETTINGS.sizes)
    assert line.metrics == tuple(finding.metric for finding in found.findings)
    return found


def test_what_comes_back_after_training_is_counted_without_what_was_taught():
    taught: list[str] = []

    def tune(model, texts, settings):
        taught.extend(texts)
        return Held(lambda prompt: told(prompt, of=PERSONS[:40]))

    found = measured(Held(lambda prompt: " unknown"), tune)
    (finding,) = found.findings
    assert (finding.value, finding.n) == (1.0, 30)  # ten of forty were known
    assert finding.beats_null
    assert f"30 only after the training, 0 only before: p = {0.5**30:.2g}" in " ".join(finding.notes)
    known = [name for name in BOOK if any(name in text for text in taught)]
    assert len(known) == 10
    assert all(BOOK[name] in text for text in taught for name in known if name in text)
    asked = set(found.artefacts["fragments.json"]["ids"])
    assert not asked & {f"r{PERSONS.index(name)}" for name in known}
    assert not any(secret in str(found.artefacts) for secret in (*PERSONS, *CODES))


def test_a_model_that_makes_up_numbers_after_training_does_not_beat_the_null():
    (finding,) = measured(Held(lambda _: " unknown"), lambda *_: Held(lambda p: told(p, of=PERSONS))).findings
    assert finding.value == 1.0
    assert not finding.beats_null
    (nothing,) = measured(Held(lambda _: " unknown"), lambda model, *_: model).findings
    assert nothing.value == 0.0


def test_weights_and_pairs_are_needed():
    attack = FragmentAttack(lambda model, *_: model, lambda _: FINDS)
    served = make_subject(Telling(lambda _: " unknown"), None, training=book(0, 40), held_out=book(40, 20))
    assert "weights" in attack.plan(served, SETTINGS, sizes=SETTINGS.sizes, mean=9.0)[0].skipped
    few = dataclasses.replace(served, training=book(0, 2))
    with pytest.raises(NothingToAttack, match="too few pairs"):
        attack.run(few, SETTINGS, sizes=SETTINGS.sizes)


def test_fine_tuning_teaches_a_copy_and_leaves_the_model_alone(tmp_path: Path):
    HuggingFaceModel(tiny_gpt2(), tiny_tokenizer()).module.save_pretrained(tmp_path / "tiny")
    tiny_tokenizer().save_pretrained(tmp_path / "tiny")
    model = load_model(tmp_path / "tiny", name=str(tmp_path / "tiny"))
    texts = ["the number of ada is 17."] * 12  # fewer than a usual batch
    tokens = model.encode(texts[:1])
    before = model.token_log_probs(tokens)[0].sum()
    tuned = fine_tune(model, texts, SETTINGS)
    assert tuned.token_log_probs(tokens)[0].sum() > before + 1.0
    assert model.token_log_probs(tokens)[0].sum() == before
