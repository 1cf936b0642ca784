"""Why a section of a report is empty: the true reason of each run, and none for what is there."""

import pytest

from reticent.core.document import read_document, write_document
from reticent.core.event import Gaussian
from reticent.core.ledger import Budget
from reticent.ledger.durable import SqliteLedger
from reticent.runs.directory import RunDirectory
from reticent.runs.report.reading import read_report
from tests.claims import claim
from tests.reporting.sample_reports import finding, guarantee
from tests.reporting.test_sentences import said

SCORES = {"schema_version": 1, "is_member": [True, False], "scores": {"loss": [0.9, 0.1]}}
EXPOSURES = {"exposures": [{"canary": "c", "value": 3.0, "low": 2.0, "high": 4.0, "candidates": 1000}]}
PLAN = {"needs": "nothing", "n": 2, "seconds": 1.0}


def audit(folder, *, attacks: dict[str, str], documents: dict[str, dict] | None = None, **found):
    """The directory of an audit with this plan (an attack, and why it was skipped)."""
    run = RunDirectory.for_new_run(folder)
    run.start("audit", config={"model": "m"}, seed=0, corpora={})
    lines = [{"attack": name, "skipped": why, **PLAN} for name, why in attacks.items()]
    document = {"schema_version": 1, "attacks": lines, "findings": [finding().to_json()], **found}
    write_document(run.path / "findings.json", document)
    for name, each in (documents or {}).items():
        write_document(run.path / name, {"schema_version": 1, **each})
    run.finish()
    return run.path


def other(folder, command: str):
    run = RunDirectory.for_new_run(folder)
    run.start(command, config={}, seed=0, corpora={})
    return run.path


NOT_ASKED = "the attack “membership” was not requested"
SKIPPED = "Membership: the model returns text only."
GONE = "the attack “membership” ran and its results are not in the run directory"


@pytest.mark.parametrize(
    ("attacks", "documents", "reason"),
    [
        ({"membership": ""}, {"membership.json": SCORES}, None),
        ({"lazy": ""}, {}, NOT_ASKED),
        ({"membership": "the model returns text only"}, {}, SKIPPED),
        ({"membership": ""}, {}, GONE),
    ],
)
def test_the_reason_for_no_membership_chart_is_the_true_one(tmp_path, attacks, documents, reason):
    """Of attacks that ran the page once said that they had not been asked for."""
    text = said(read_report([audit(tmp_path / "run", attacks=attacks, documents=documents)]))
    for each in (NOT_ASKED, SKIPPED, GONE, "Measured by: --attacks membership"):
        assert (each in text) == (
            reason is not None and (each == reason or each == "Measured by: --attacks membership")
        )


def test_an_attack_that_ran_is_not_told_as_missing(tmp_path):
    documents = {"membership.json": SCORES, "exposure.json": EXPOSURES}
    made = read_report([audit(tmp_path / "run", attacks={"membership": "", "exposure": ""}, documents=documents)])
    assert not {"roc", "exposure"} & set(made.runs[0].absent)
    assert "reticent audit --canaries FILE" not in said(made)
    assert "Risk of each record: the attack “lazy” was not requested." in said(made)


@pytest.mark.parametrize("command", ["train", "diff", "predict"])
def test_a_run_that_is_no_audit_says_so_and_has_no_plan(tmp_path, command):
    text = said(read_report([other(tmp_path / "run", command)]))
    assert f"this is a run of “{command}”; only an audit measures it" in text
    assert "Audit the model: reticent audit MODEL" in text
    assert "only an audit measures it" not in said(read_report([audit(tmp_path / "audit", attacks={"lazy": ""})]))


def test_scores_of_every_attack_on_membership_are_drawn(tmp_path):
    documents = {"neighbourhood.json": SCORES, "lazy.json": {"groups": []}}
    made = read_report([audit(tmp_path / "run", attacks={"neighbourhood": "", "lazy": ""}, documents=documents)])
    assert [curve.name for curve in made.runs[0].roc] == ["loss"]
    assert "roc" not in made.runs[0].absent
    named_outside = audit(tmp_path / "inner" / "run", attacks={"../scores": ""})
    write_document(tmp_path / "inner" / "scores.json", SCORES)
    assert read_report([named_outside]).runs[0].roc == ()


def test_a_run_whose_audit_is_in_the_report_is_not_to_be_audited_again(tmp_path):
    trained = other(tmp_path / "trained", "train")
    measured = audit(tmp_path / "audit", attacks={"lazy": ""}, model=None)
    information = read_document(measured / "run.json")
    write_document(measured / "run.json", information | {"config": {"model": str(trained)}})
    advice = "Audit the model: reticent audit MODEL"
    assert advice in said(read_report([trained]))
    assert advice not in said(read_report([trained, measured]))
    assert advice in said(read_report([trained, measured, other(tmp_path / "not-audited", "train")]))


def test_an_update_without_phrases_is_no_single_snapshot(tmp_path):
    run = other(tmp_path / "run", "diff")
    write_document(run / "findings.json", {"schema_version": 1, "findings": [], "updates": [{"phrases": []}]})
    text = said(read_report([run]))
    assert "no phrase was found" in text
    assert "a single snapshot" not in text
    assert "a single snapshot" in said(read_report([other(tmp_path / "single", "train")]))


def test_what_a_promise_does_not_bound_is_said_of_its_notion(tmp_path):
    private, plain = claim(2.0).to_json(), None
    for name, promise, why in (
        ("private", private, ""),
        ("plain", plain, "nothing was proved of this run"),
        ("unbounded", guarantee(epsilon=float("inf"), delta=0.0).to_json(), "the guarantee's ε is unbounded"),
    ):
        run = read_report([audit(tmp_path / name, attacks={"lazy": ""}, guarantee=promise)]).runs[0]
        assert run.absent.get("leakage", "") == why
        assert bool(run.leakage) == (why == "")


def test_a_gate_that_an_older_version_wrote_is_worked_out_again(tmp_path):
    """It wrote "passed" for what was exceeded, and nothing of an interval that holds the limit."""
    wide = finding(value=0.5, low=0.0, high=0.977)
    old = [
        {"limit": "auc>0.6", "end": "low", "passed": False, "by": [], "undecided": []},
        {"limit": "auc<60", "end": "low", "passed": True, "by": [{"attack": "loss", "low": 0.0}], "undecided": []},
    ]
    path = audit(tmp_path / "run", attacks={"lazy": ""}, findings=[wide.to_json()], gate=old)
    lines = read_report([path]).runs[0].gate
    assert [(line.option, line.outcome, line.fails) for line in lines] == [
        ("--fail-if", "undecided", False),
        ("--fail-if", "exceeded", True),
    ]
    assert "passed" not in said(read_report([path]))


def test_a_rate_that_the_plan_said_is_void_is_told_once(tmp_path):
    one = finding().to_json() | {"metric": "tpr_at_fpr_0.01", "void": "10 and 10 are too few"}
    other = finding().to_json() | {"void": "their words tell them apart"}
    plan = {"membership: tpr_at_fpr_0.01": "10 and 10 are too few"}
    text = said(read_report([audit(tmp_path / "run", attacks=plan, findings=[one, other])]))
    assert "void measurement: 10 and 10" not in text
    assert "1 void measurement: their words tell them apart." in text


def test_a_comparison_that_an_older_version_wrote_knows_a_ceiling_of_everything(tmp_path):
    entry = {"finding": 0, "ceiling": 1.0, "verdict": "consistent"}
    promise = claim(2.0).to_json()
    path = audit(tmp_path / "run", attacks={"lazy": ""}, guarantee=promise, comparisons=[entry])
    assert "1 with a vacuous ceiling" in said(read_report([path]))


def test_an_audit_that_measured_nothing_says_so_and_another_does_not(tmp_path):
    empty = audit(tmp_path / "empty", attacks={"membership": "the model shows text alone"}, findings=[])
    assert "no attack of the plan measured anything" in said(read_report([empty]))
    measured = read_report([audit(tmp_path / "measured", attacks={"membership": ""})])
    assert "no attack of the plan measured anything" not in said(measured)


NO_LEDGER = "no ledger beside this run: nothing was charged, or the training run is elsewhere"


def test_a_missing_and_a_refused_ledger_are_told_apart_and_neither_is_said_of_one_that_is_there(tmp_path):
    bare, spent, damaged = (other(tmp_path / name, "train") for name in ("bare", "spent", "damaged"))
    budget = Budget("steps", 2.0, claim(2.0))
    for place in (spent, damaged):
        with SqliteLedger.create(place / "ledger.db", budget, accounts=["training"]) as ledger:
            ledger.charge({"training": 1.0}, Gaussian(1.0))
    (damaged / "ledger.db").write_bytes(b"no database at all" * 99)
    texts = [said(read_report([place])) for place in (bare, spent, damaged)]
    assert [NO_LEDGER in text for text in texts] == [True, False, False]
    assert ["the ledger is refused: " in text for text in texts] == [False, False, True]
    assert ["Charges in the ledger" in text for text in texts] == [False, True, False]


def test_where_fingerprints_of_a_corpus_stand_is_said_unless_they_are_shown(tmp_path):
    run = RunDirectory.for_new_run(tmp_path / "run")
    run.start("train", config={}, seed=0, corpora={"training": "0123abcd"})
    hidden, shown = (said(read_report([run.path], with_fingerprints=shows)) for shows in (False, True))
    assert ("0123abcd" in hidden, "0123abcd" in shown) == (False, True)
    where = "in run.json (--fingerprints shows it here)"
    assert (where in hidden, where in shown) == (True, False)
