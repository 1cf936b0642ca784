"""The verbs from Python: what they say to the wrong thing, and how their results show themselves."""

from dataclasses import replace

import pytest
import torch

import reticent
from reticent.core.randomness import Randomness
from reticent.data.generators import generate_dialogues
from reticent.data.reading.corpus_file import CorpusFile
from reticent.data.writing import write_corpus
from reticent.runs.audit.settings import AuditSettings
from reticent.runs.bounds.settings import DpSgdBoundSettings
from reticent.runs.ensemble.settings import EvaluateSettings
from reticent.runs.report.run import ReportSettings
from reticent.training.private_step import UPDATES_ALONE

PLACES = {"model": "embedded", "train": "a.jsonl", "holdout": "b.jsonl", "out": "audit"}
CORPUS = reticent.Corpus([reticent.Record("1", "Good morning."), reticent.Record("2", "How can I help?")])


def test_a_report_about_no_run_is_refused():
    with pytest.raises(reticent.UsageError, match="at least one run"):
        reticent.report(out="page.html")


def test_a_model_in_memory_is_refused_with_what_to_give_instead(tmp_path):
    with pytest.raises(reticent.UsageError, match="given by its place; found Linear") as caught:
        reticent.audit(torch.nn.Linear(1, 1), train="a.jsonl", holdout="b.jsonl", out=tmp_path / "audit")
    assert "release" in caught.value.hint


@pytest.mark.parametrize(
    "call",
    [
        lambda out: reticent.train(CORPUS, model="embedded", method="sgd", out=out),
        lambda out: reticent.audit("embedded", train=CORPUS, holdout=CORPUS, out=out),
        lambda out: reticent.scan(CORPUS),
    ],
)
def test_a_corpus_in_memory_is_refused_with_how_to_write_it(tmp_path, call):
    with pytest.raises(reticent.UsageError, match="found Corpus") as caught:
        call(tmp_path / "run")
    assert "write_corpus" in caught.value.hint


def test_what_a_flag_lists_with_commas_may_be_a_list():
    assert AuditSettings.of(**PLACES, attacks=["membership", "lazy"]).attacks == "membership,lazy"
    assert EvaluateSettings.of(run="r", data="d", epsilon=8).epsilons == (8.0,)
    assert EvaluateSettings.of(run="r", data="d", epsilon=[2, 8.125]).epsilons == (2.0, 8.125)
    known = {"noise_multiplier": 1.0, "sampling_rate": 0.01, "steps": 5, "delta": 1e-6}
    assert DpSgdBoundSettings.of(**known, secret_bits=[20, 53.15234567]).secret_bits == "20,53.15234567"
    with pytest.raises(reticent.UsageError, match="loss"):
        AuditSettings.of(**PLACES, attacks=["loss"])


def test_a_choice_that_is_nearly_one_is_asked_for_by_its_name():
    with pytest.raises(reticent.UsageError, match=r"others: should be one of .*; did you mean 'known'"):
        AuditSettings.of(**PLACES, others="knwon")


def test_a_wrong_option_is_named_by_its_keyword_in_python_and_by_its_flag_on_the_command_line():
    for wrong, said in [
        ({"records": "many"}, "records: input should be a valid integer"),
        ({"records": 1}, "records is out of range: found 1, expected 2 to"),
        ({"top_k": 1.5}, "top_k: "),
        ({"others": "some"}, "others: should be one of "),
    ]:
        with pytest.raises(reticent.UsageError) as in_python:
            AuditSettings.of(**PLACES, **wrong)
        with pytest.raises(reticent.UsageError) as on_the_command_line:
            AuditSettings.of_flags(**PLACES, **wrong)
        assert str(in_python.value).startswith(said)
        by_flag = str(in_python.value).replace("top_k", "top-k")
        assert str(on_the_command_line.value) == f"the command line: --{by_flag}"
    with pytest.raises(reticent.UsageError, match=r"^holdout is missing$"):
        AuditSettings.of(**{name: value for name, value in PLACES.items() if name != "holdout"})


def test_a_key_that_is_not_for_the_file_is_asked_for_as_it_is_given(tmp_path):
    (tmp_path / "run.toml").write_text('out = "x"\n', encoding="utf8")
    from reticent.runs.training.settings import TrainSettings

    for read, said in ((TrainSettings.of, "give out=…"), (TrainSettings.of_flags, "give --out")):
        with pytest.raises(reticent.UsageError, match="not for the file") as caught:
            read(config=tmp_path / "run.toml")
        assert caught.value.hint == said


def test_an_unknown_metric_has_no_ceiling_but_a_suggestion():
    plan = reticent.DpSgd.for_target(epsilon=8, delta=1e-5, units=1000, batch=200, epochs=1)
    with pytest.raises(reticent.UsageError, match="unknown metric 'acu', did you mean 'auc'"):
        plan.ceiling("acu")
    with pytest.raises(reticent.UsageError, match=r"did you mean 'tpr_at_fpr_0\.01'"):
        plan.ceiling("tpr_at_fpr")
    with pytest.raises(reticent.UsageError, match=r"known: .*auc"):
        plan.ceiling("zzz")
    assert 0.5 < plan.ceiling("auc") < 1.0
    assert plan.ceiling("extraction_rate") is None  # a metric without a ceiling


def test_a_plan_for_another_number_of_records_is_refused_and_the_corpus_is_read_once(tmp_path, monkeypatch):
    write_corpus(generate_dialogues(20, randomness=Randomness.seeded(5)), tmp_path / "train.jsonl")
    read, load = [], CorpusFile.load
    monkeypatch.setattr(CorpusFile, "load", lambda self: (read.append(self.path.name), load(self))[1])
    plan = reticent.DpSgd.for_target(epsilon=8, delta=1e-3, units=21, batch=10, epochs=1)
    with pytest.raises(reticent.UsageError, match="the plan is for 21 records, the corpus has 20"):
        reticent.train(tmp_path / "train.jsonl", model="embedded", method=plan, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert read == ["train.jsonl"]


def test_own_weights_are_released_and_audited_against_their_guarantee(tmp_path):
    corpus = generate_dialogues(60, randomness=Randomness.seeded(5))
    (tmp_path / "own").mkdir()
    write_corpus(corpus[:40], tmp_path / "train.jsonl")
    write_corpus(corpus[40:], tmp_path / "holdout.jsonl")
    plan = reticent.DpSgd.for_target(epsilon=2, delta=1e-3, units=40, batch=20, epochs=1)
    model = reticent.load_model("embedded")
    optimizer = torch.optim.AdamW(model.module.parameters(), lr=1e-3)
    with reticent.PrivateStep(model, plan, ledger=tmp_path / "own" / "ledger.db") as step:
        for batch in step.batches(reticent.open_corpus(tmp_path / "train.jsonl").load(), max_length=16):
            step.accumulate(batch)
            step.update(optimizer)
        released = step.release(tmp_path / "own" / "model")
    again = reticent.load_model(released)
    assert again.fingerprint == model.fingerprint
    found = reticent.audit(
        released,
        train=tmp_path / "train.jsonl",
        holdout=tmp_path / "holdout.jsonl",
        out=tmp_path / "audit",
        attacks=["membership"],
        records=10,
    )
    compared = {one.finding.metric: one for one in found.audit.comparisons}
    proved = plan.guarantee()
    assert compared["auc"].guarantee == replace(proved, assumes=(*proved.assumes, UPDATES_ALONE))
    assert compared["auc"].ceiling == pytest.approx(plan.ceiling("auc"))
    assert not found.refuted
    written = reticent.report(found, out=tmp_path / "page.html")
    assert len(repr(written)) < 1000
    assert len(repr(plan.guarantee())) < 2500
    assert "page.html" in repr(written)


def test_the_settings_of_a_report_still_take_runs():
    assert [run.name for run in ReportSettings.of(runs=["a", "b"]).runs] == ["a", "b"]
