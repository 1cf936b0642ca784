"""A ledger of a corpus: every release is listed before it is made, and all of them are priced together."""

import json
import math
import threading

import pytest

from reticent.accounting.guarantees import dp_sgd_guarantee, guarantee_of
from reticent.cli import main as cli
from reticent.core.errors import LedgerError
from reticent.core.event import FilteredCharge, Repeated, SampledGaussian
from reticent.core.guarantee import Neighbours, Unit
from reticent.core.printing.numbers import at_most
from reticent.runs.proofs.corpus_ledger import CorpusLedger, _digest, all_together

EVENT = Repeated(SampledGaussian(1.0, 0.05), 100)
RECORD = dp_sgd_guarantee(EVENT, delta=1e-5)
OWNER = dp_sgd_guarantee(EVENT, delta=1e-5, unit=Unit.OWNER)


def test_releases_of_one_corpus_are_priced_as_one(tmp_path):
    ledger = CorpusLedger(tmp_path / "mails.ledger")
    assert ledger.entries() == ()
    for count in (1, 2, 3):
        entries = ledger.enter(f"run-{count}", RECORD)
        whole = all_together(entries, RECORD)
        assert whole.epsilon == pytest.approx(
            dp_sgd_guarantee(Repeated(EVENT, count), delta=1e-5).epsilon, rel=1e-6
        )
    assert ledger.entries() == entries
    assert ledger.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("other", [None, OWNER])
def test_a_plain_release_or_another_unit_leaves_nothing_proved_together(tmp_path, other):
    ledger = CorpusLedger(tmp_path / "mails.ledger")
    ledger.enter("first", other)
    whole = all_together(ledger.enter("second", RECORD), RECORD)
    assert whole.epsilon == math.inf


def test_private_answers_are_added_to_trainings_for_the_same_neighbours(tmp_path):
    ledger = CorpusLedger(tmp_path / "mails.ledger")
    answers = guarantee_of(FilteredCharge(8.0, 0.5), delta=1e-5, unit=Unit.OWNER)
    ledger.enter("training", OWNER)
    whole = all_together(ledger.enter("answers", answers), answers)
    training = dp_sgd_guarantee(EVENT, delta=1e-5, unit=Unit.OWNER, neighbours=Neighbours.REPLACE)
    assert whole.neighbours is Neighbours.REPLACE
    assert whole.epsilon == pytest.approx(answers.epsilon + training.epsilon, rel=1e-6)


def test_answers_alone_keep_their_own_delta(tmp_path):
    answers = guarantee_of(FilteredCharge(8.0, 0.5), delta=1e-5, unit=Unit.OWNER)
    ledger = CorpusLedger(tmp_path / "mails.ledger")
    whole = all_together(ledger.enter("answers", answers), answers)
    assert (whole.epsilon, whole.delta) == (answers.epsilon, answers.delta)
    whole = all_together(ledger.enter("more answers", answers), answers)
    assert (whole.epsilon, whole.delta) == (2 * answers.epsilon, 2 * answers.delta)


def test_parts_of_two_ensembles_are_not_the_same_and_do_not_add_up(tmp_path):
    """The owners of one part of the first ensemble stand in several parts of the second, which is split anew."""
    answers = guarantee_of(FilteredCharge(8.0, 0.5), delta=1e-5, unit=Unit.PART)
    ledger = CorpusLedger(tmp_path / "mails.ledger")
    assert all_together(ledger.enter("one", answers), answers).epsilon == answers.epsilon
    assert all_together(ledger.enter("two", answers), answers).epsilon == math.inf


def said(capsys, path):
    """What `reticent ledger corpus` prints, in one line."""
    assert cli.run(["ledger", "corpus", str(path)]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_the_printed_epsilon_is_never_below_the_proved_one(tmp_path, capsys):
    ledger = CorpusLedger(tmp_path / "mails.ledger")
    proved = next(
        found
        for found in (dp_sgd_guarantee(Repeated(EVENT, n), delta=1e-5) for n in range(1, 50))
        if float(f"{found.epsilon:.4g}") < found.epsilon
    )  # which the nearest number would understate
    ledger.enter("only", proved)
    found = said(capsys, ledger.path)
    assert f"only DP-SGD record {at_most(proved.epsilon)}" in found
    assert (
        f"Proved together: ε = {at_most(proved.epsilon)} at δ = 1e-05 for one record (add or remove one)" in found
    )
    assert f"{proved.epsilon:.4g} " not in found


def test_the_reason_for_no_promise_is_the_true_one(tmp_path, capsys):
    answers = guarantee_of(FilteredCharge(8.0, 0.5), delta=1e-5, unit=Unit.PART)
    plain, ensembles, mixed = (CorpusLedger(tmp_path / name) for name in ("plain", "ensembles", "mixed"))
    plain.enter("one", None)
    assert "no release of this corpus has a guarantee" in said(capsys, plain.path)
    mixed.enter("one", None)
    mixed.enter("two", RECORD)
    assert "2 releases of this corpus together: one was made plainly" in said(capsys, mixed.path)
    for name in ("one", "two"):
        ensembles.enter(name, answers)
    found = said(capsys, ensembles.path)
    assert "ensembles are split differently" in found
    assert "plain" not in found


def test_a_name_of_another_alphabet_or_of_none_is_listed(tmp_path):
    ledger = CorpusLedger(tmp_path / "mails.ledger")
    for name in ("письма", "\udcff"):
        ledger.enter(name, None)
    assert [entry.run for entry in ledger.entries()] == ["письма", "\udcff"]


@pytest.mark.parametrize("content", [{"before": ""}, {"schema_version": 1}, [], 3], ids=str)
def test_a_line_that_is_none_of_ours_is_refused_in_words(tmp_path, content):
    """Also one whose digests fit, as whoever knows how they are made can write."""
    path = tmp_path / "mails.ledger"
    if isinstance(content, dict):
        content = {"schema_version": 1, "before": _digest("reticent corpus ledger")} | content
    digest = _digest(json.dumps(content, ensure_ascii=False))
    path.write_text(json.dumps({"entry": content, "digest": digest}) + "\n")
    with pytest.raises(LedgerError, match="edited"):
        CorpusLedger(path).entries()


def edited(lines):
    entry = json.loads(lines[0])
    entry["entry"]["guarantee"]["epsilon"] = 0.1
    return [json.dumps(entry, ensure_ascii=False), *lines[1:]]


@pytest.mark.parametrize(
    "damage",
    [
        edited,
        lambda lines: lines[1:],
        lambda lines: [lines[0], lines[2]],
        lambda lines: [*lines[:2], lines[2][:-9]],
    ],
    ids=["edited", "first line lost", "middle line lost", "line cut"],
)
def test_an_edited_or_missing_line_is_refused(tmp_path, damage):
    ledger = CorpusLedger(tmp_path / "mails.ledger")
    for name in ("a", "b", "c"):
        ledger.enter(name, RECORD)
    lines = ledger.path.read_text().splitlines()
    ledger.path.write_text("\n".join(damage(lines)) + "\n")
    for use in (ledger.entries, lambda: ledger.enter("d", RECORD)):
        with pytest.raises(LedgerError, match="edited"):
            use()


def test_a_line_that_was_cut_off_by_a_crash_is_refused_not_overwritten(tmp_path):
    ledger = CorpusLedger(tmp_path / "mails.ledger")
    ledger.enter("a", RECORD)
    with ledger.path.open("a") as file:
        file.write('{"entry"')
    with pytest.raises(LedgerError, match="cut off"):
        ledger.enter("b", RECORD)


def test_runs_that_start_together_are_all_listed(tmp_path):
    path = tmp_path / "mails.ledger"
    threads = [threading.Thread(target=CorpusLedger(path).enter, args=(str(i), RECORD)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(entry.run for entry in CorpusLedger(path).entries()) == [str(i) for i in range(8)]


def test_an_unwritable_ledger_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match="cannot be written"):
        CorpusLedger(tmp_path / "file" / "ledger").enter("run", None)
