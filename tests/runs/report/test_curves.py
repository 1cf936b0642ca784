"""The curves of a report against slow, obvious versions; covered texts; the recorded command."""

import json
import math
import shlex

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.cli import main as cli
from reticent.core.corpus import Corpus, Record, Span
from reticent.core.event import SampledGaussian
from reticent.core.guarantee import Notion
from reticent.core.ledger import Budget
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.ledger.durable import SqliteLedger
from reticent.runs.audit.settings import AuditSettings
from reticent.runs.report.command import command_of
from reticent.runs.report.curves import budget_use, extraction_curves, leakage_points, roc_curves
from reticent.runs.report.texts import covered, record_facts
from reticent.runs.settings.declaration import declared_in
from reticent.runs.update.settings import DiffSettings
from tests.reporting.sample_reports import guarantee


def test_roc_equals_counting_at_every_threshold():
    generator = np.random.default_rng(3)
    scores, is_member = generator.integers(0, 12, 60).astype(float), generator.random(60) < 0.5
    document = {"is_member": is_member.tolist(), "scores": {"loss": ["-inf", *scores.tolist()[1:]]}}
    (curve,) = roc_curves(document)
    scores[0] = -math.inf
    for place, threshold in enumerate(sorted(set(scores.tolist()), reverse=True)):
        assert curve.y[place] == pytest.approx(np.mean(scores[is_member] >= threshold))
        assert curve.x[place] == pytest.approx(np.mean(scores[~is_member] >= threshold))
    assert (curve.x[-1], curve.y[-1]) == (1.0, 1.0)
    assert curve.n == 60


def test_a_long_roc_is_thinned_and_keeps_its_beginning():
    document = {"is_member": [place % 2 == 1 for place in range(5000)], "scores": {"loss": list(range(5000))}}
    (curve,) = roc_curves(document)
    assert len(curve.x) <= 400
    assert curve.x[0] == 0.0
    assert curve.y[-1] > 0.9


def test_extraction_counts_records_whose_chance_reaches_one_half():
    emission = [math.log(1e-3), math.log(1e-20), "-inf"]
    document = {
        "groups": [{"name": "training", "ids": ["a", "b", "c"], "owners": ["a", "b", "c"], "emission": emission}]
    }
    (curve,) = extraction_curves(document, confidence=0.95)
    share = dict(zip(curve.x, curve.y, strict=True))
    # 1 − (1 − p)^n ≥ 1/2 from n = ln 2 / p on: 693 samples for 1e-3.
    assert share[10.0**2.75] == 0.0
    assert share[1000.0] == pytest.approx(1 / 3)
    assert share[1e12] == pytest.approx(1 / 3)
    assert all(low <= y <= high for low, y, high in zip(curve.low, curve.y, curve.high, strict=True))


def test_leakage_stays_below_the_secret_and_is_none_where_nothing_is_promised():
    points, why = leakage_points(guarantee())
    assert why == ""
    assert all(0.0 < one.most <= one.secret_bits for one in points)
    assert points[0].most < points[0].secret_bits
    assert leakage_points(None) == ((), "nothing was proved of this run")
    assert leakage_points(guarantee(notion=Notion.OPERATIONAL_PRIVACY))[0] == ()
    assert leakage_points(guarantee(epsilon=math.inf))[0] == ()


def test_the_budget_curve_ends_where_the_ledger_stands(tmp_path):
    with SqliteLedger.create(
        tmp_path / "ledger.db", Budget("steps", 10.0, guarantee()), accounts=["model"]
    ) as ledger:
        event = SampledGaussian(1.0, 0.1)
        for _ in range(3):
            ledger.charge({"model": 1.5}, event)
        ledger.charge({"model": 4.0}, event)
        spent = ledger.spent()
    use = budget_use(tmp_path / "ledger.db")
    assert use.accounts[0].y[:4] == (1.5, 3.0, 4.5, 8.5)
    assert use.accounts[0].y[-1] == spent["model"]
    assert (use.limit, use.measure, use.rows) == (10.0, "steps", len(use.accounts[0].y))


@given(st.text(min_size=1, max_size=80))
def test_a_covered_text_holds_no_letter_and_no_digit(text):
    shown = covered(Record("id", text, owner="id"), ())
    assert not any(letter.isalnum() for letter in shown)


def test_a_span_is_named_by_its_kind():
    record = Record("id", "USR: call 0123 now", owner="id")
    assert covered(record, (Span(10, 14, "phone"),)) == "•••: •••• <phone> •••"


def test_facts_count_copies_and_name_kinds():
    texts = ["Write to ann@example.org please", "Write to ann@example.org please", "nothing here"]
    corpus = Corpus(Record(f"r{place}", text, owner=f"r{place}") for place, text in enumerate(texts))
    facts = record_facts(corpus, PatternPolicy(), ids=frozenset({"r0", "r2"}))
    assert set(facts) == {"r0", "r2"}
    assert (facts["r0"].copies, facts["r2"].copies) == (2, 1)
    assert facts["r0"].kinds
    assert "ann" not in facts["r0"].masked


def test_the_command_of_a_training_run_is_what_was_typed(tmp_path):
    lines = "".join(f'{{"id": "r{place}", "text": "some words {place}"}}\n' for place in range(100))
    (tmp_path / "data.jsonl").write_text(lines)
    config = {
        "data": {"file": str(tmp_path / "my data.jsonl"), "text_field": "text", "holdout": None},
        "model": {"source": "embedded", "lora_rank": 0, "merge": False},
        "training": {"method": "dp-sgd", "epochs": 2.0, "batch": 32, "target_epsilon": 8.0, "delta": 1e-5},
    }
    words = shlex.split(command_of({"command": "train", "config": config, "seed": 3}, tmp_path / "run"))
    assert words[:4] == ["reticent", "train", "--method", "dp-sgd"]
    assert words[words.index("--data") + 1].endswith("my data.jsonl")
    assert "--batch" not in words  # the default
    assert "--merge" not in words
    assert words[-4:] == ["--seed", "3", "--out", str(tmp_path / "run")]
    given = [*words[1:-2], "--dry-run"]
    given[given.index("--data") + 1] = str(tmp_path / "data.jsonl")
    assert cli.run(given) == 0  # the command line still accepts every flag


def test_the_command_of_an_audit_repeats_its_limits():
    config = {"model": "m", "train": "a", "attacks": ["lazy", "codes"], "by_coin": False, "fail_if": ["auc>0.6"]}
    words = shlex.split(command_of({"command": "audit", "config": config, "seed": 1}, "out"))
    said = "reticent audit m --train a --attacks lazy,codes --fail-if auc>0.6 --seed 1 --out out"
    assert words == said.split()


def test_the_command_of_an_update_names_its_snapshots_first():
    config = {"snapshots": ["a", "b"], "data": "d", "prefixes_given": 1, "reveal": False, "top": 5}
    words = shlex.split(command_of({"command": "diff", "config": config, "seed": 0}, "out"))
    assert words == ["reticent", "diff", "a", "b", "--data", "d", "--top", "5", "--seed", "0", "--out", "out"]


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (
            DiffSettings,
            {"before": "a", "after": "b", "then": ["c"], "relative": True, "width": 4, "prefix": ["a secret"]},
            "diff a b --width 4 --relative --then c",
        ),
        (
            AuditSettings,
            {
                "model": "m",
                "train": "t",
                "holdout": "h",
                "text_field": "body",
                "attacks": "lazy",
                "others": "masked",
            },
            "audit m --text-field body --train t --holdout h --attacks lazy --others masked",
        ),
    ],
)
def test_what_is_recorded_of_a_run_is_enough_to_type_its_command_again(kind, options, said):
    settings = kind.of(out="out", seed=3, **options)
    config = settings.recorded() if kind is DiffSettings else settings.recorded(None)
    command = command_of({"command": said.split()[0], "config": json.loads(json.dumps(config)), "seed": 3}, "out")
    assert command == f"reticent {said} --seed 3 --out out"
    known = {each.flag for each in declared_in(kind)}
    assert {word for word in shlex.split(command) if word.startswith("--")} <= known
