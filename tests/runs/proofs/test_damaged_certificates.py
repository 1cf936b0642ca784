"""A damaged or made-up guarantee.json: one sentence and exit code 2, never a traceback, never a smaller ε."""

import copy
import json
import math
import shutil
from dataclasses import replace

import pytest

from reticent.accounting.bounds.confidentiality import confidentiality, missed_secret_of
from reticent.accounting.derivation import agrees, derived
from reticent.accounting.guarantees import guarantee_of
from reticent.cli import main as cli
from reticent.core.errors import GuaranteeError
from reticent.core.event import FilteredCharge, RealisedCharge, Repeated, SampledGaussian
from reticent.core.evidence.certificate import Certificate
from reticent.core.guarantee import Neighbours, Notion, Unit
from reticent.runs.proofs.certificates import is_about, read_other_guarantees, stated
from tests.claims import certify

PROVED = guarantee_of(Repeated(SampledGaussian(1.0, 0.05), 20), delta=1e-5, unit=Unit.RECORD)
GONE = object()


def at(path, value):
    """An edit of the document: set, or remove with GONE, what stands at a path of keys."""

    def edit(document):
        *parents, last = path.split(".")
        holder = document
        for key in parents:
            holder = holder[key]
        if value is GONE:
            del holder[last]
        else:
            holder[last] = value

    return edit


def nested(depth):
    event = {"type": "Gaussian", "noise_multiplier": 1.0}
    for _ in range(depth):
        event = {"type": "Repeated", "event": event, "count": 1}
    return event


EDITS = {
    "no basis": at("basis", GONE),
    "null basis": at("basis", None),
    "basis a word": at("basis", "event"),
    "basis a list": at("basis", []),
    "no earlier": at("basis.earlier", GONE),
    "earlier a number": at("basis.earlier", 3),
    "earlier of words": at("basis.earlier", ["x"]),
    "an unknown key": at("basis.mercy", 1),
    "basis delta a word": at("basis.delta", "small"),
    "basis delta NaN": at("basis.delta", math.nan),
    "basis delta negative": at("basis.delta", -1.0),
    "basis delta null": at("basis.delta", None),
    "group a half": at("basis.group", 0.5),
    "group a word": at("basis.group", "one"),
    "miss rate a word": at("basis.miss_rate", "none"),
    "clip norm NaN": at("basis.clip_norm", math.nan),
    "clip quantile a word": at("basis.clip_quantile", "half"),
    "clip quantile NaN": at("basis.clip_quantile", math.nan),
    "clip quantile of everybody": at("basis.clip_quantile", 1.0),
    "count noise negative": at("basis.count_noise", -1.0),
    "count noise infinite": at("basis.count_noise", math.inf),
    "units a list": at("basis.units", [1]),
    "no event": at("basis.event", None),
    "event a word": at("basis.event", "Gaussian"),
    "unknown event": at("basis.event", {"type": "Magic"}),
    "event without fields": at("basis.event", {"type": "Gaussian"}),
    "parts a number": at("basis.event", {"type": "Composed", "events": 5}),
    "parts of numbers": at("basis.event", {"type": "Composed", "events": [5]}),
    "a part a number": at("basis.event", {"type": "Repeated", "event": 5, "count": 2}),
    "count a fraction": at("basis.event.count", 0.001),
    "count a word": at("basis.event.count", "many"),
    "count negative": at("basis.event.count", -3),
    "count huge": at("basis.event.count", 10**400),
    "no noise": at("basis.event.event.noise_multiplier", 0.0),
    "noise next to nothing": at("basis.event.event.noise_multiplier", 1e-300),
    "noise NaN": at("basis.event.event.noise_multiplier", math.nan),
    "noise infinite": at("basis.event.event.noise_multiplier", math.inf),
    "noise a list": at("basis.event.event.noise_multiplier", [1.0]),
    "rate above one": at("basis.event.event.sampling_rate", 2.0),
    "nested deeply": at("basis.event", nested(600)),
    "mixture of words": at(
        "basis.event", {"type": "SubsampledMixture", "models": "x", "sampling_rate": 1.0, "order": 2.0, "beta": 1.0}
    ),
    "epsilon NaN": at("epsilon", math.nan),
    "epsilon negative": at("epsilon", -1.0),
    "epsilon a word": at("epsilon", "low"),
    "epsilon null": at("epsilon", None),
    "delta a word": at("delta", "low"),
    "order at one": at("order", 1.0),
    "profile a number": at("profile", 1),
    "profile of one": at("profile", [[1.0]]),
    "unknown unit": at("unit", "galaxy"),
    "unit a list": at("unit", []),
    "mechanism null": at("mechanism", None),
    "assumes a word": at("assumes", "nothing"),
    "assumes of numbers": at("assumes", [1]),
    "covers a list": at("covers", []),
    "data dependent a word": at("data_dependent", "no"),
    "another schema": at("schema_version", 99),
    "released a number": at("released", 7),
    "ledger a number": at("ledger", 7),
    "ledger of lists": at("ledger", {"rows": [1], "digest": []}),
    "another notion": at("notion", "confidentiality"),
    "another notion on average": at("notion", "Bayesian confidentiality"),
    "of a secret": at("unit", "secret"),
    "secretly operational": at("data_dependent", True),
}


@pytest.fixture
def run(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"weights")
    certify(tmp_path / "model", PROVED)
    return tmp_path


def codes(run, capsys):
    """Exit codes of the readers, with what they said."""
    found = []
    for words in (["bound", run], ["serve", run, "--dry-run"]):
        code = cli.run([str(word) for word in words])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err + printed.out
        found.append(code)
    return found


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_a_damaged_guarantee_is_refused_in_words(run, capsys, edit):
    stored = run / "model" / "guarantee.json"
    document = json.loads(stored.read_text())
    edit(document)
    stored.write_text(json.dumps(document))
    bound, serve = codes(run, capsys)
    assert bound in (1, 2)  # 1: read, and found not to agree
    assert serve == 2


@pytest.mark.parametrize("content", [b"", b"[]", b"7", b"\xff", b"{" * 9, b"[" * 100_000, b'{"schema_version": 1}'])
def test_what_is_no_document_is_refused_in_words(run, capsys, content):
    (run / "model" / "guarantee.json").write_bytes(content)
    assert codes(run, capsys) == [2, 2]


def test_bound_looks_at_the_model_under_an_adapter_too(run, capsys):
    base, adapter = run / "base", run / "model"
    base.mkdir()
    (base / "model.safetensors").write_bytes(b"public weights")
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(base)}))
    Certificate(PROVED).bound_to(adapter).write(adapter)
    for content, code, said in (
        (b"public weights", 0, "weights: The weights beside it are the ones"),
        (b"weights that saw it", 1, "The model under the adapter is NOT the one that it was trained on"),
        (None, 0, "the model under it is not here"),
    ):
        if content is None:
            shutil.rmtree(base)
        else:
            (base / "model.safetensors").write_bytes(content)
        assert cli.run(["bound", str(run)]) == code
        assert said in " ".join(capsys.readouterr().out.split())


def test_an_honest_guarantee_is_read(run, capsys):
    assert cli.run(["bound", str(run)]) == 0
    assert "they agree" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("proved", "change"),
    [
        (
            guarantee_of(RealisedCharge(2.0, 0.5), delta=1e-5, unit=Unit.PART),
            {"notion": Notion.DIFFERENTIAL_PRIVACY, "data_dependent": False},
        ),
        (
            guarantee_of(FilteredCharge(8.0, 0.5), delta=1e-5, unit=Unit.OWNER),
            {"neighbours": Neighbours.ADD_REMOVE},
        ),
        (PROVED, {"notion": Notion.CONFIDENTIALITY}),
    ],
    ids=["operational as differential privacy", "replaced as removed", "records as secrets"],
)
def test_the_kind_of_promise_follows_from_the_event_too(proved, change):
    assert agrees(proved, derived(proved))
    lie = replace(copy.copy(proved), **change)
    assert (lie.epsilon, lie.delta, lie.order) == (proved.epsilon, proved.delta, proved.order)
    assert not agrees(lie, derived(lie))


def test_miss_rates_of_a_statement_are_those_that_the_headline_was_charged_with():
    """Lower rates make the average over secrets look better, and its ε follows from them: the headline tells."""
    event = Repeated(SampledGaussian(1.0, 0.01), 100)
    missed = missed_secret_of(event, 1e-5)
    honest = confidentiality(missed, 5, miss_rate=0.5, conservative_miss_rate=0.0)
    forged = confidentiality(missed, 5, miss_rate=1e-6, conservative_miss_rate=0.0)
    assert forged.bayesian.epsilon < honest.bayesian.epsilon / 100
    assert stated(forged.bayesian.to_json(), where="a file") is not None  # it follows from its own basis
    statements = {"missed": honest.missed, "group": honest.group, "bayesian": honest.bayesian}
    for name, statement in statements.items():
        assert is_about(name, statement, honest.worst_case)
    documents = {"bayesian": forged.bayesian.to_json()}
    with pytest.raises(GuaranteeError, match="miss rates"):
        read_other_guarantees(documents, honest.worst_case, where="training.json")
    assert honest.worst_case != forged.worst_case  # so that the ledger of one is not the ledger of the other


@pytest.mark.parametrize("change", [{"miss_rate": 0.4}, {"conservative_miss_rate": 0.1}, {"keeps_one_copy": False}])
def test_every_fact_about_the_policies_is_the_headline_s(change):
    """Miss rates of either policy, and whether one copy is kept, are bound by the ledger in the headline alone."""
    missed = missed_secret_of(Repeated(SampledGaussian(1.0, 0.01), 100), 1e-5)
    honest = confidentiality(missed, 5, miss_rate=0.5, conservative_miss_rate=0.2)
    for name, statement in (("missed", honest.missed), ("group", honest.group), ("bayesian", honest.bayesian)):
        assert is_about(name, statement, honest.worst_case)
        forged = replace(statement, basis=replace(statement.basis, **change))
        assert forged != statement
        assert not is_about(name, forged, honest.worst_case)
