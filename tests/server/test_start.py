"""What a server refuses to start with, and what it says it promises."""

import gc
import json
import shutil
import socket
from dataclasses import replace

import pytest
from fastapi import FastAPI

from reticent.cli import main as cli
from reticent.core.errors import ConfigError, LedgerError
from reticent.core.randomness import Randomness
from reticent.prediction import budgets
from reticent.prediction.budgets import MechanismName
from reticent.prediction.mechanisms.mechanism import Layout, Moment
from reticent.prediction.mechanisms.shaping import Shaping
from reticent.prediction.mechanisms.unprotected import NGramIndex
from reticent.runs.ensemble.manifest import Manifest
from reticent.runs.ensemble.prediction import PredictionSettings
from reticent.runs.ledger_place import LedgerPlace
from reticent.server import launching
from reticent.server.access.keys import add_key
from reticent.server.backends.backend import reshaping, settings_for
from reticent.server.backends.weights import FilteredModel, open_weights
from reticent.server.launching import Serving
from reticent.server.settings import ServeSettings
from tests.claims import certify, claim
from tests.patience import PATIENCE
from tests.server.letters import ASKED, NAME, LetterEnsemble, make_run, opened


@pytest.fixture
def run(tmp_path):
    """A run that has answered."""
    run = make_run(tmp_path / "run")
    with opened(run) as backend:
        backend.predictor.generate([1], 5)
    return run


def test_a_ledger_that_is_missing_for_a_served_run_is_refused(run):
    (run / "ledger.db").unlink()
    with pytest.raises(LedgerError, match="missing"), opened(run):
        pass
    (run / "prediction.json").unlink()  # nor does forgetting the settings open a second budget
    with pytest.raises(LedgerError, match="a ledger was here"), opened(run):
        pass


def test_a_ledger_that_was_rolled_back_is_refused(run, tmp_path):
    shutil.copy(run / "ledger.db", tmp_path / "old.db")
    with opened(run) as backend:
        backend.predictor.generate([1], 5)
    shutil.copy(tmp_path / "old.db", run / "ledger.db")
    with pytest.raises(LedgerError, match="rolled back"), opened(run):
        pass


def test_a_ledger_of_another_ensemble_is_refused(run):
    other = LetterEnsemble(seed=1)
    other.fingerprint = "another"
    with pytest.raises(LedgerError, match="something else"), opened(run, ensemble=other):
        pass


def test_other_settings_than_those_of_the_first_use_are_refused(run):
    with pytest.raises(ConfigError, match="already fixed"), opened(run, asked=ASKED | {"epsilon": 9.0}):
        pass


@pytest.mark.parametrize("table", ["seed = 1", "[prediction]\nseed = 1", "[limits]\nseed = 0"])
def test_a_seed_in_the_configuration_is_refused(tmp_path, table):
    path = tmp_path / "serve.toml"
    path.write_text(table)
    with pytest.raises(ConfigError, match="predictable"):
        ServeSettings.of(run=tmp_path, config=path)


def test_a_seed_on_the_command_line_is_refused(run, capsys):
    assert cli.run(["serve", str(run), "--epsilon", "8", "--delta", "1e-5", "--seed", "1"]) == 2
    assert "predictable" in capsys.readouterr().err


def test_flags_override_the_file_and_unknown_keys_are_refused(tmp_path):
    path = tmp_path / "serve.toml"
    path.write_text("[prediction]\nepsilon = 4.0\ndelta = 1e-6\n[limits]\nbatch = 3\n")
    read = ServeSettings.of(run=tmp_path, config=path, epsilon=8.0, delta=None)
    assert (read.prediction.asked()["epsilon"], read.prediction.asked()["delta"], read.limits.batch) == (
        8.0,
        1e-6,
        3,
    )
    path.write_text("[limits]\nbatches = 3\n")
    with pytest.raises(ConfigError, match="did you mean"):
        ServeSettings.of(run=tmp_path, config=path)


def test_a_temperature_that_nobody_asked_for_before_costs_no_calibration_and_no_more_privacy(monkeypatch):
    ensemble = LetterEnsemble()
    settings = PredictionSettings(mechanism=MechanismName.CLIPPED_DIFFERENCES, epsilon=8.0, delta=1e-5, queries=100)
    plain = settings.set_up(Layout(ensemble.rows)).mechanism
    calibrated = settings.set_up(Layout(ensemble.rows), Shaping(0.7)).mechanism
    shaped = reshaping(settings, ensemble)
    monkeypatch.setattr(budgets, "_greatest", None)  # whoever calibrates now fails
    for temperature in (0.1, 1 / 3, 0.7, 1.0, 1.3, 2.0):
        made = shaped(Shaping(temperature, top_p=0.9))
        assert made.shaping == Shaping(temperature, top_p=0.9)
        assert (1 - 1e-9) * plain.event.epsilon < made.event.epsilon <= plain.event.epsilon
    assert shaped(Shaping(0.7)).clip == pytest.approx(calibrated.clip, rel=1e-9)
    unscaled = replace(plain, shaping=Shaping(0.5))  # twin: the clip stays as it was
    assert unscaled.event.epsilon > plain.event.epsilon


def serving_of(run, **values):
    return Serving(**{"run": run, "name": NAME, "settings": None} | values)


def test_a_budget_with_a_last_day_is_not_shared(tmp_path):
    """Each process would count its own answers alone, and plan for too few."""
    asked = PredictionSettings(
        mechanism=MechanismName.SUBMIX_F, epsilon=8.0, delta=1e-5, since="2027-01-01", until="2027-12-31"
    )
    one = Serving(run=tmp_path, name=NAME, settings=asked)
    one.check()
    for shared in ({"workers": 2}, {"ledger": LedgerPlace("postgresql://db/budgets#orders")}):
        with pytest.raises(ConfigError, match="several share the budget"):
            replace(one, **shared).check()


def test_open_addresses_need_keys_and_tls_needs_both_files(run, tmp_path):
    with pytest.raises(ConfigError, match="needs keys"):
        serving_of(run, host="0.0.0.0").check()
    with pytest.raises(ConfigError, match="both"):
        serving_of(run, tls_key=tmp_path).check()
    with pytest.raises(ConfigError, match="cannot be used together"):
        serving_of(run, tls_key=tmp_path / "key.pem", tls_certificate=tmp_path / "cert.pem").check()
    with pytest.raises(ConfigError, match="operator"):
        serving_of(run, operator_port=9).check()
    for host in ("127.0.0.1", "::1", "localhost"):
        serving_of(run, host=host).check()


def weights_run(folder):
    """A run of DP-SGD, without its weights."""
    run = make_run(folder)
    (run / "model").mkdir()
    certify(run / "model", claim(3.0))
    return run


class Alone(LetterEnsemble):
    """One model without parts: row 0 of the table."""

    parts, rows = (), ()

    def streams(self):
        made = super().streams()
        plain = made.look_up
        made.look_up = lambda handles: plain(handles)[:, :1]
        return made


def test_a_private_model_is_served_without_a_charge_by_the_guarantee_of_its_weights(tmp_path):
    run = weights_run(tmp_path / "run")
    assert settings_for(run, {"epsilon": None}) is None
    with pytest.raises(ConfigError, match="not an ensemble"):
        settings_for(run, ASKED)
    with pytest.raises(ConfigError, match="not an ensemble") as refused:  # as `predict` and `evaluate` do
        Manifest.read(run)
    assert "the weights carry the guarantee" in refused.value.hint
    with open_weights(run, name=NAME, ensemble=Alone()) as backend:
        assert backend.guarantee.epsilon == pytest.approx(3.0, rel=1e-3)
        assert len(backend.predictor.generate([1, 2], 8)) == 8
    assert not (run / "ledger.db").exists()


def test_memfree_never_completes_an_n_gram_and_voids_the_guarantee_of_answers(tmp_path):
    run = weights_run(tmp_path / "run")
    index = NGramIndex([[token, other] for token in range(1, 5) for other in range(1, 25)], 2)
    with open_weights(run, name=NAME, index=index, ensemble=Alone()) as backend:
        assert backend.guarantee is None
        assert "no guarantee" in backend.notes[0]
        for _ in range(20):
            assert backend.predictor.generate([3], 1)[0] not in range(1, 25)
    everything = NGramIndex([[1, token] for token in range(28)], 2)
    rows = Alone().table((1,))[:1]
    moment = Moment(remaining=rows[0] * 0, context=(1,))
    release = FilteredModel(everything).release(rows, moment, randomness=Randomness.seeded(0))
    assert release.pmf.sum() == pytest.approx(1.0)  # nothing is left: the model answers


def test_an_undefended_model_is_not_served(tmp_path, capsys):
    run = weights_run(tmp_path / "run")
    assert cli.run(["serve", str(run), "--dry-run", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["guarantee"]["epsilon"] == pytest.approx(3.0, rel=1e-3)
    assert cli.run(["serve", str(run), "--dry-run", "--memfree", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["guarantee"] is None
    (run / "model" / "guarantee.json").unlink()
    assert cli.run(["serve", str(run), "--dry-run"]) == 2
    assert "nothing was proved" in capsys.readouterr().err


def test_a_dry_run_refuses_keys_that_the_server_would_refuse(tmp_path, capsys):
    run, keys = weights_run(tmp_path / "run"), tmp_path / "keys.json"
    dry = ["serve", str(run), "--dry-run", "--keys", str(keys)]
    assert cli.run(dry) == 2
    assert "no such key file" in capsys.readouterr().err
    add_key(keys, "anna")
    assert cli.run(dry) == 0
    assert cli.run([*dry, "--operator-port", "9000"]) == 2
    assert "no key in the key file is an operator's" in capsys.readouterr().err


def test_what_was_loaded_before_the_server_runs_is_not_searched_for_garbage_meanwhile(monkeypatch):
    seen = []

    class Web:
        def run(self, sockets):
            seen.append((sockets, gc.get_freeze_count()))
            raise launching._Stopped

    monkeypatch.setattr(launching.signal, "signal", lambda *_: None)
    before = gc.get_freeze_count()
    launching._run(Web(), "port")
    assert seen[0][0] == ["port"]
    assert seen[0][1] > 10_000  # interpreter and libraries
    assert gc.get_freeze_count() <= before


@pytest.mark.parametrize("is_told_too_early", [False, True])
def test_the_address_is_told_once_clients_can_connect(tmp_path, monkeypatch, is_told_too_early):
    """The twin tells it where it used to be told: when the port is bound and nobody listens yet."""
    monkeypatch.setattr(launching.signal, "signal", lambda *_: None)
    reached = []

    def announce(port):
        with socket.socket() as client:
            client.settimeout(PATIENCE)
            reached.append(client.connect_ex(("127.0.0.1", port)) == 0)
        web.should_exit = True

    serving = Serving(run=tmp_path, name=NAME, settings=None, port=0)
    web = launching.uvicorn.Server(launching.web_config(FastAPI(), host="127.0.0.1", port=0))
    with launching._bound(serving) as port:
        if is_told_too_early:
            announce(port.getsockname()[1])
        launching._run(web, port, announce)
    assert reached == ([False, True] if is_told_too_early else [True])
