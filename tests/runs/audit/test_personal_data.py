"""The attack `pii` of an audit: what a model knows is found, set beside ceilings, and never written."""

import dataclasses
import json
import re

import pytest

from reticent.auditing.attacks.personal_data.attack import policy_identity
from reticent.auditing.attacks.personal_data.contexts import OtherValues
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import ModelPlace, make_subject
from reticent.core.corpus import Corpus, Record, Span
from reticent.core.errors import ConfigError
from reticent.core.finding import Finding, Verdict
from reticent.runs.audit.attacking import run_audit, score_key, start_run, write_audit
from reticent.runs.audit.plan import Speed, plan_audit
from reticent.runs.audit.settings import AuditSettings
from tests.models.ngram import NGramModel
from tests.runs.audit.subjects import TextOnly, promise

SIZES = Sizes(records=16, extraction_records=16, texts=48)
WORD = re.compile(r"\s*\S+")  # as the model splits


def people(name: str, first: int, count: int) -> Corpus:
    """Records with a number, an e-mail address and an IP address, labelled; no two share a value."""
    records = []
    for i in range(first, first + count):
        mail, address = f"user{7919 * i % 100000:05d}@example.com", f"93.184.{i // 250}.{i % 250}"
        text = f"case {i:03d}: write to {mail} or find {address} at night"
        spans = tuple(
            Span(text.index(value), text.index(value) + len(value), kind)
            for value, kind in ((mail, "EMAIL"), (address, "IP"))
        )
        records.append(Record(f"{name}-{i}", text, spans=spans))
    return Corpus(records)


TRAINING, HELD_OUT, OTHERS = people("train", 0, 30), people("held", 500, 30), people("other", 900, 30)
SECRETS = [r.text[s.start : s.end] for r in (*TRAINING, *HELD_OUT) for s in r.spans]
WORDS = sorted({word for text in (*TRAINING.texts, *HELD_OUT.texts, *OTHERS.texts) for word in WORD.findall(text)})


def fit(texts: list[str], order: int) -> NGramModel:
    """Of words, so that a value is one token: quick."""
    return NGramModel.fit(texts, order=order, level="word", smoothing=1e-6, vocabulary=WORDS, unknown=" unheard-of")


def subject(*, learnt: bool = True, guarantee=None, text_only: bool = False):
    base = fit(["case write to or find at night"] * 2, 2)
    model = fit(TRAINING.texts if learnt else OTHERS.texts, 5)
    shown = TextOnly(model) if text_only else model
    return make_subject(shown, base, training=TRAINING, held_out=HELD_OUT, place=ModelPlace("", guarantee))


def audit(seen, tmp_path, **options):
    settings = AttackSettings(attacks=("pii",), sizes=SIZES, seed=3, **options)
    plan = plan_audit(seen, settings, Speed(1e6, 1e6))
    found = run_audit(seen, plan, settings=settings)
    run = start_run(tmp_path / "run", subject=seen, settings=settings, config={})
    write_audit(run, found, subject=seen, settings=settings)
    return found, {finding.metric: finding for finding in found.findings}


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pii")
    return *audit(subject(), folder), folder


def test_what_the_model_learnt_is_found_by_every_game(learnt):
    _, findings, _ = learnt
    assert findings["pii_recall"].value > 0.5
    assert findings["pii_recall"].beats_null
    assert findings["pii_recall_beyond_base"].n == len(SECRETS) // 2
    assert findings["reconstruction_top1"].beats_null
    assert findings["inference_accuracy"].value > 5 * findings["inference_accuracy"].null
    assert findings["inference_accuracy_trained"].beats_null
    assert any("recall" in note for note in findings["pii_recall"].notes)


def test_no_artefact_holds_a_value(learnt):
    *_, folder = learnt
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"findings.json", "pii.json", "run.json"}
    for path in files:
        written = path.read_bytes().decode("utf8", errors="replace")
        assert not [value for value in SECRETS if value in written], path.name
    assert any(value in json.dumps(TRAINING.texts) for value in SECRETS)  # the search can find one


def test_values_are_written_only_where_reveal_was_asked(tmp_path):
    audit(subject(), tmp_path, reveal=True)
    revealed = (tmp_path / "run" / "revealed.json").read_text(encoding="utf8")
    assert any(value in revealed for value in SECRETS)
    others = [path for path in (tmp_path / "run").rglob("*") if path.is_file() and path.name != "revealed.json"]
    for path in others:
        assert not any(value in path.read_text(encoding="utf8", errors="replace") for value in SECRETS), path.name


def test_a_model_that_never_saw_the_text_beats_no_null(tmp_path):
    """False-alarm rate of each finding that has a null: its confidence leaves 5 % / 12 = 0.4 % or less."""
    _, findings = audit(subject(learnt=False), tmp_path)
    for metric in ("pii_recall", "reconstruction_top1", "reconstruction_top5", "inference_accuracy"):
        assert not findings[metric].beats_null, metric


def test_inference_is_set_beside_its_ceiling_and_refutes_a_false_promise(tmp_path):
    found, _ = audit(subject(guarantee=promise(0.1)), tmp_path)
    verdicts = {one.finding.metric: one for one in found.comparisons}
    inference = verdicts["inference_accuracy"]
    assert inference.ceiling is not None
    assert inference.ceiling < 0.1
    assert inference.verdict is Verdict.REFUTED
    assert verdicts["inference_accuracy_trained"].verdict is Verdict.NOT_COMPARABLE
    assert verdicts["pii_recall"].verdict is Verdict.NOT_COMPARABLE


def test_the_error_is_split_over_the_games_that_were_played(learnt):
    """No record names a person, so nothing is asked by name: 12 intervals of 5 % in all."""
    _, findings, _ = learnt
    assert "association_share" not in findings
    assert {round(1.0 - finding.confidence, 6) for finding in findings.values()} == {round(0.05 / 12, 6)}


def test_candidates_draws_and_masked_others_are_as_asked(tmp_path):
    sizes = dataclasses.replace(SIZES, choices=5, draws=3)
    settings = AttackSettings(attacks=("pii",), sizes=sizes, seed=3, others=OtherValues.MASKED)
    seen = subject()
    found = run_audit(seen, plan_audit(seen, settings, Speed(1e6, 1e6)), settings=settings)
    findings = {finding.metric: finding for finding in found.findings}
    assert findings["inference_accuracy"].null == pytest.approx(0.2)
    assert any("masked" in note for note in findings["reconstruction_top1"].notes)
    gain = findings["reconstruction_gain"]
    assert gain.value == findings["reconstruction_top1"].value - findings["reconstruction_tab"].value
    assert gain.p_value is not None
    assert gain.beats_null is (gain.p_value <= 1.0 - gain.confidence)
    assert score_key("pii", seen, settings, sizes=sizes) != score_key(
        "pii", seen, dataclasses.replace(settings, others=OtherValues.KNOWN), sizes=sizes
    )


def test_the_options_of_the_command_reach_the_games():
    options = AuditSettings.of(
        model="m",
        train="t",
        holdout="h",
        out="o",
        texts=7,
        candidates=500,
        draws=3,
        others="masked",
        policy="union",
    )
    asked = options.attack_settings()
    assert (asked.sizes.texts, asked.sizes.choices, asked.sizes.draws, asked.others) == (
        7,
        500,
        3,
        OtherValues.MASKED,
    )
    assert options.recorded(None)["others"] == "masked"
    with pytest.raises(ConfigError):
        AuditSettings.of(model="m", train="t", holdout="h", out="o", candidates=501)


def test_text_access_plays_extraction_alone(tmp_path):
    found, findings = audit(subject(text_only=True), tmp_path)
    assert "pii_recall" in findings
    assert "inference_accuracy" not in findings
    assert any("text only" in line.skipped for line in found.attacks)
    assert all(isinstance(finding, Finding) for finding in found.findings)


def test_a_policy_that_finds_nothing_is_said_and_an_unknown_one_is_refused(tmp_path):
    (tmp_path / "names.txt").write_text("PERSON\tNobody Known\n", encoding="utf8")
    found, findings = audit(subject(), tmp_path, policy=f"dictionary:{tmp_path / 'names.txt'}")
    assert not findings
    assert re.search("finds nothing", found.attacks[0].skipped)
    with pytest.raises(ConfigError, match="policy"):
        audit(subject(), tmp_path / "second", policy="no such policy")


def test_another_dictionary_under_the_same_name_is_another_measurement(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("Ada", encoding="utf8")
    before = policy_identity(f"patterns+dictionary:{path}")
    path.write_text("Ben", encoding="utf8")
    assert policy_identity(f"patterns+dictionary:{path}") != before
    assert policy_identity("patterns") == ["patterns"]
