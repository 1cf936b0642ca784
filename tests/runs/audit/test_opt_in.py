"""Attacks that run only where they are named: neighbourhood, novelty, divergence; and shadows of our own."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from reticent.auditing.attacks.extraction.attack import DivergenceAttack
from reticent.auditing.attacks.membership.neighbourhood import NeighbourhoodAttack
from reticent.auditing.attacks.membership.shadow_models import _Split
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import make_subject
from reticent.core.corpus import Corpus, Record
from reticent.core.document import write_document
from reticent.core.errors import ConfigError
from reticent.core.randomness import Randomness
from reticent.data.generators import generate_dialogues
from reticent.data.writing import write_corpus
from reticent.runs.audit.attacking import run_audit
from reticent.runs.audit.plan import Speed, plan_audit
from reticent.runs.audit.registry import parse_attacks
from reticent.runs.audit.settings import AuditSettings
from reticent.runs.audit.subject import find_model, open_models
from reticent.runs.directory import RunDirectory
from reticent.runs.training.run import train
from reticent.runs.training.settings import DataSection, Method, ModelSection, TrainingSection, TrainSettings
from tests.claims import claim
from tests.runs.audit.subjects import TextOnly, subject

FAST = Speed(1e6, 1e5)
SMALL = Sizes(records=40, extraction_records=20, candidates=50, search_tokens=5_000, answers=20, texts=64)


def audited(which, attack: str, **settings):
    chosen = AttackSettings(attacks=(attack,), sizes=SMALL, rates=(0.3,), **settings)
    plan = plan_audit(which, chosen, FAST)
    audit = run_audit(which, plan, settings=chosen)
    assert {finding.metric for finding in audit.findings} <= set(plan.metrics)
    return audit


def test_all_leaves_out_what_is_opt_in():
    usual = parse_attacks("all")
    assert not {"neighbourhood", "shadow", "dataset", "novelty", "divergence"} & set(usual)
    assert parse_attacks("all,novelty") == (*usual, "novelty")


def test_all_includes_personal_data_where_a_policy_is_given():
    assert "pii" not in parse_attacks("all")
    assert parse_attacks("all", with_policy=True) == (*parse_attacks("all"), "pii")
    assert parse_attacks("exposure", with_policy=True) == ("exposure",)
    places = {"model": "m", "train": Path("t"), "holdout": Path("h"), "out": Path("o")}
    plain, with_policy = AuditSettings(**places), AuditSettings(**places, policy="patterns")
    assert (plain.attack_settings().attacks, plain.attack_settings().policy) == (parse_attacks("all"), "union")
    assert "pii" in with_policy.attack_settings().attacks
    assert with_policy.attack_settings().policy == "patterns"


@pytest.mark.parametrize(("named", "found"), [("../base", "adapter/../base"), ("org/model", "org/model")])
def test_an_adapter_is_audited_beside_the_base_that_its_configuration_names(tmp_path, named, found):
    (tmp_path / "base").mkdir()
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": named}))
    expected = str(tmp_path / found) if named.startswith("..") else found
    assert find_model(str(tmp_path / "adapter")).started_from == expected


@pytest.mark.parametrize("learnt", [True, False])
def test_neighbourhood_finds_what_was_learnt_and_nothing_else(learnt):
    """Without leakage, at 95 % over 16 shares and two intervals, a false alarm has chance 0.003."""
    audit = audited(subject(learnt=learnt, count=40), NeighbourhoodAttack.name)
    (auc,) = (finding for finding in audit.findings if finding.metric == "auc")
    assert auc.beats_null is learnt
    assert len(audit.artefacts["neighbourhood.json"]["ids"]) == 80


@pytest.mark.parametrize("learnt", [True, False])
def test_dataset_inference_says_whether_the_corpus_was_used(learnt):
    """Of a model that knows the corpus by heart every tested record is told: p is the least there is. Else at
    random; p is fixed by the seeds."""
    (finding,) = audited(subject(learnt=learnt, count=40), "dataset").findings
    assert finding.metric == "dataset_auc"
    assert finding.beats_null is learnt
    assert finding.n == 40
    assert not learnt or (finding.value == 1.0 and finding.p_value == 1e-4)


@pytest.mark.parametrize("learnt", [True, False])
def test_novelty_tells_copied_text_from_text_of_its_own(learnt):
    audit = audited(subject(learnt=learnt), "novelty")
    gaps = {finding.metric: finding for finding in audit.findings}
    assert set(gaps) == {"novelty_gap_5", "novelty_gap_7", "novelty_gap_10"}
    assert gaps["novelty_gap_7"].beats_null is learnt


def test_divergence_asks_for_text_alone():
    hidden = subject(count=20)
    hidden = dataclasses.replace(hidden, model=TextOnly(_Reciting(hidden.training.texts[0])))
    audit = audited(hidden, DivergenceAttack.name)
    (finding,) = audit.findings
    assert finding.value == 1.0
    assert finding.n == 64
    silent = dataclasses.replace(hidden, model=TextOnly(_Reciting("")))
    assert audited(silent, DivergenceAttack.name).findings[0].value == 0.0


class _Reciting:
    """Repeats the word twice, then says its text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def complete(self, prompts, sampling, *, count, randomness):
        del sampling, randomness
        return [[f"{prompt.split()[-1]} {prompt.split()[-1]} {self._text}"] * count for prompt in prompts]


def test_shadows_need_the_run_that_trained_the_model():
    lines = plan_audit(subject(), AttackSettings(attacks=("shadow",)), FAST).attacks
    assert "not the directory of a training run" in lines[0].skipped
    with pytest.raises(ConfigError, match="pairs"):
        AttackSettings(shadow_models=5)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """The embedded model trained on 24 short dialogues until it knows them by heart, with 32 others."""
    folder = tmp_path_factory.mktemp("shadow")
    whole = generate_dialogues(56, randomness=Randomness.seeded(3))
    corpus = Corpus(Record(one.id, one.text[-80:]) for one in whole)
    write_corpus(corpus[:24], folder / "train.jsonl")
    write_corpus(corpus[24:], folder / "holdout.jsonl")
    config = TrainSettings(
        data=DataSection(file=str(folder / "train.jsonl")),
        model=ModelSection(source="embedded"),
        training=TrainingSection(method=Method.SGD, epochs=6, batch=8, learning_rate=3e-3),
        seed=1,
    )
    train(config.into(folder / "run"), observe=lambda *_: True)
    return folder


def opened(folder: Path):
    from reticent.data.reading.corpus_file import open_corpus

    found = open_models(str(folder / "run"), None)
    training, held_out = (open_corpus(folder / f"{name}.jsonl").load() for name in ("train", "holdout"))
    return make_subject(found.model, found.base, training=training, held_out=held_out, place=found.place)


@pytest.mark.slow
def test_shadows_trained_by_the_recipe_of_the_run_find_its_members(trained):
    which = opened(trained)
    told = []
    settings = AttackSettings(attacks=("shadow",), sizes=SMALL, rates=(0.3,), shadow_models=4)
    plan = plan_audit(which, settings, FAST)
    assert plan.attacks[0].forward_tokens > 4 * 3 * 6 * 12 * 20  # four trainings of six epochs, at least
    audit = run_audit(which, plan, settings=settings, observe=lambda line, share: told.append(share))
    aucs = {finding.attack: finding for finding in audit.findings if finding.metric == "auc"}
    assert set(aucs) == {"lira", "rmia"}
    assert all(finding.beats_null for finding in aucs.values())
    assert told == sorted(told)
    assert told[-1] > 0.5
    document = audit.artefacts["shadow.json"]
    assert document["shadows"] == 4
    assert not [record for record in which.training if record.text in json.dumps(document)]


def test_every_target_is_in_half_of_the_shadows_and_the_population_in_none():
    which = subject(count=50)
    settings = AttackSettings(shadow_models=6)
    split = _Split.of(which, settings, SMALL)
    halves = split.halves(settings)
    assert halves.shape == (6, len(split.targets.records))
    assert (halves.sum(axis=0) == 3).all()
    assert not np.array_equal(halves[0], halves[2])
    names = {record.id for record in split.targets.records}
    assert names.isdisjoint(record.id for record in split.population)
    assert names.isdisjoint(record.id for record in split.background)
    assert len(split.population) == SMALL.records // 4


def test_the_recipe_and_what_else_is_proved_are_read_from_the_run(tmp_path):
    run = RunDirectory.for_new_run(tmp_path / "run")
    run.start("train", config={"model": {"source": "embedded"}, "training": {"epochs": 6}}, seed=0, corpora={})
    run.model.mkdir()
    assert find_model(str(run.path)).other_guarantees == {}
    proved = claim(2.0)
    write_document(run.path / "training.json", {"guarantees": {"missed": proved.to_json()}})
    place = find_model(str(run.path))
    assert place.recipe is not None
    assert place.recipe["training"]["epochs"] == 6
    assert place.other_guarantees == {"missed": proved}
