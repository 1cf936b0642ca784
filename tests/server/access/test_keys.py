"""Keys: hashed at rest, private, rationed; operators' keys open the operator's page and nothing else does."""

import base64
import json
import stat

import httpx
import pytest

from reticent.cli import main as cli
from reticent.core.errors import ConfigError
from reticent.ledger.durable import SqliteLedger
from reticent.server.access.keys import KeyFile, add_key, remove_key
from reticent.server.access.quotas import Quotas
from reticent.server.operator.page import operator_app
from reticent.server.refusal import Refusal
from tests.patience import PATIENCE
from tests.server.letters import NAME, listening, make_run, serving


@pytest.fixture
def path(tmp_path):
    return tmp_path / "keys.json"


def test_a_key_is_stored_as_its_hash_in_a_private_file(path):
    key = add_key(path, "ann", quota=100)
    assert key not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = KeyFile(path).find(key)
    assert (found.name, found.quota, found.is_operator) == ("ann", 100, False)
    assert KeyFile(path).find(key + "x") is None
    with pytest.raises(ConfigError, match="of this name"):
        add_key(path, "ann")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_file_that_others_can_read_is_refused(path, mode):
    add_key(path, "ann")
    path.chmod(mode)
    with pytest.raises(ConfigError, match="others can read"):
        KeyFile(path)


def test_a_running_server_follows_the_file_and_admits_nobody_by_a_broken_one(path):
    first = add_key(path, "ann")
    keys = KeyFile(path)
    second = add_key(path, "ben")
    assert keys.find(second).name == "ben"
    remove_key(path, "ann")
    assert keys.find(first) is None
    path.chmod(0o644)
    with pytest.raises(ConfigError):
        keys.find(second)
    path.chmod(0o600)
    path.write_text("{}")
    with pytest.raises(ConfigError):
        keys.find(second)


def test_quotas_cannot_be_passed_together_and_outlive_a_restart(path, tmp_path):
    add_key(path, "ann", quota=10)
    (key,) = KeyFile(path).keys
    quotas, other = Quotas(tmp_path / "usage"), Quotas(tmp_path / "usage")
    quotas.reserve(key, 6)
    with pytest.raises(Refusal) as caught:
        other.reserve(key, 5)
    assert caught.value.code == "insufficient_quota"
    quotas.give_back(key, 4)
    other.reserve(key, 8)
    quotas.close()
    assert Quotas(tmp_path / "usage").drawn() == {key.digest: 10}


def test_the_server_asks_for_keys_and_rations_them(path, tmp_path):
    key = add_key(path, "ann", quota=10)
    body = {"model": NAME, "prompt": "ab", "max_tokens": 4}
    run = make_run(tmp_path / "run")
    with serving(run, keys=KeyFile(path)) as address, httpx.Client(base_url=address.url) as client:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eA=="}):
            answer = client.post("/v1/completions", json=body, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
            assert client.get("/v1/models", headers=headers).status_code == 401
        mine = {"Authorization": f"Bearer {key}"}
        statuses = [client.post("/v1/completions", json=body, headers=mine).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        assert client.post("/v1/completions", json=body | {"max_tokens": 2}, headers=mine).status_code == 200
        path.chmod(0o644)
        assert client.get("/v1/models", headers=mine).status_code == 503


def test_the_operators_page_shows_spend_to_operators_alone(path, tmp_path, capsys, monkeypatch):
    user, operator = add_key(path, "ann <b>"), add_key(path, "op", is_operator=True)
    run = make_run(tmp_path / "run")
    with serving(run) as address:
        httpx.post(
            address.url + "/v1/completions", json={"model": NAME, "prompt": "ab", "max_tokens": 9}, timeout=PATIENCE
        )
    with SqliteLedger.open(run / "ledger.db") as ledger:
        app = operator_app(ledger, KeyFile(path), Quotas(None), name=NAME, queries=2000)
        with listening(app) as port:
            url = f"http://127.0.0.1:{port}"
            basic = base64.b64encode(f"x:{operator}".encode()).decode()
            page = httpx.get(url, headers={"Authorization": f"Basic {basic}"}, timeout=PATIENCE)
            assert page.status_code == 200
            assert "part 0" in page.text
            assert "Spend over time" in page.text
            assert "tokens, until " in page.text
            assert "ann &lt;b&gt;" in page.text
            assert "<script" not in page.text
            for header in ("", f"Bearer {user}", "Basic !!!", "Basic eA==", "Bearer x"):
                for route in ("/", "/ledger.json", "/verify", "/export"):
                    assert (
                        httpx.get(url + route, headers={"Authorization": header}, timeout=PATIENCE).status_code
                        == 401
                    )
            monkeypatch.setenv("RETICENT_OPERATOR_KEY", operator)
            assert cli.run(["ledger", "show", url, "--json"]) == 0
            remote = json.loads(capsys.readouterr().out)
            assert cli.run(["ledger", "verify", url]) == 0
            assert "9 rows" in capsys.readouterr().out
            monkeypatch.setenv("RETICENT_OPERATOR_KEY", user)
            assert cli.run(["ledger", "show", url]) == 2
    capsys.readouterr()
    assert cli.run(["ledger", "show", str(run), "--json"]) == 0
    local = json.loads(capsys.readouterr().out)
    assert local == {name: value for name, value in remote.items() if name != "name"}
    assert local["answers"] == 9
    assert 0 < max(part["share"] for part in local["parts"].values()) < 1
    assert cli.run(["ledger", "show", str(run)]) == 0
    assert "9 tokens in 9 charges" in capsys.readouterr().out
    assert cli.run(["ledger", "export", str(run), "--out", str(tmp_path / "rows.jsonl")]) == 0
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 10
    assert stat.S_IMODE((tmp_path / "rows.jsonl").stat().st_mode) == 0o600


def test_keys_by_the_command_line(path, capsys):
    assert cli.run(["keys", "add", "ann", "--file", str(path), "--quota", "5", "--json"]) == 0
    key = json.loads(capsys.readouterr().out)["key"]
    assert KeyFile(path).find(key).quota == 5
    assert cli.run(["keys", "list", "--file", str(path)]) == 0
    listed = capsys.readouterr().out
    assert "ann" in listed
    assert key not in listed
    assert cli.run(["keys", "remove", "ann", "--file", str(path)]) == 0
    assert KeyFile(path).keys == ()
