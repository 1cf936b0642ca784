"""Serving through the command line: a real ensemble behind TLS and keys, its ledger, workers, a private model."""

import json
import shutil
import signal
import socket
import ssl
import subprocess
import time
from contextlib import contextmanager

import httpx
import pytest

from reticent.cli import main as cli
from reticent.ledger.durable import SqliteLedger
from reticent.runs.ensemble.prediction import answers_given
from reticent.server.access.keys import add_key
from tests.ledger.conftest import postgres  # noqa: F401
from tests.ledger.postgres.server import PASSWORD
from tests.models.tiny import tiny_gpt2, tiny_tokenizer
from tests.patience import PATIENCE
from tests.processes import Command

SMALL_ENSEMBLE = ("--method", "submix", "--parts", 2, "--lora-rank", 2)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    tiny_gpt2().save_pretrained(folder / "model")
    tiny_tokenizer().save_pretrained(folder / "model")
    rows = [{"id": f"r{i}", "owner": f"o{i % 16}", "text": f"order {i} is late."} for i in range(32)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def train(corpus, run, *method):
    arguments = ("--model", corpus / "model", "--data", corpus / "train.jsonl", "--batch", 8, "--epochs", 1)
    assert cli.run([str(each) for each in ("train", *method, *arguments, "--seed", 3, "--out", run)]) == 0
    return run


@pytest.fixture(scope="module")
def ensemble(corpus, tmp_path_factory):
    return train(corpus, tmp_path_factory.mktemp("ensemble") / "run", *SMALL_ENSEMBLE)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def served(*arguments, port, verify=True, scheme="http"):
    """`reticent serve` in a process of its own, until it is ready."""
    process = Command("serve", *arguments, "--port", port)
    with httpx.Client(base_url=f"{scheme}://127.0.0.1:{port}", verify=verify, timeout=PATIENCE) as client:
        try:
            deadline = time.monotonic() + PATIENCE
            while True:
                assert process.is_running, process.end(seconds=PATIENCE).stderr
                assert time.monotonic() < deadline
                try:
                    if client.get("/readyz").status_code == 200:
                        break
                except httpx.HTTPError:
                    time.sleep(0.1)
            yield client
        finally:
            process.send_signal(signal.SIGTERM)
            done = process.end(seconds=PATIENCE)
            client.said = (done.stdout, done.stderr)
    assert done.returncode == 0


def certificate(folder):
    """A self-signed certificate for this machine."""
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
        ],
        check=True,
        capture_output=True,
    )
    return folder / "cert.pem", folder / "key.pem"


def test_an_ensemble_is_served_with_keys_and_tls_and_every_token_is_charged(ensemble, tmp_path, capsys):
    dry = ["serve", str(ensemble), "--epsilon", "8", "--delta", "1e-5", "--dry-run"]
    assert cli.run([*dry, "--json"]) == 0
    promised = json.loads(capsys.readouterr().out)["guarantee"]
    assert promised["epsilon"] <= 8.0
    assert not (ensemble / "ledger.db").exists()
    keys = tmp_path / "keys.json"
    key, operator = add_key(keys, "ann"), add_key(keys, "op", is_operator=True)
    cert, secret = certificate(tmp_path)
    port, page = free_port(), free_port()
    flags = ("--epsilon", 8, "--delta", 1e-5, "--keys", keys, "--tls-cert", cert, "--tls-key", secret)
    trusted = ssl.create_default_context(cafile=str(cert))
    with served(
        ensemble, *flags, "--operator-port", page, "--name", "orders", port=port, verify=trusted, scheme="https"
    ) as client:
        client.headers["Authorization"] = f"Bearer {key}"
        turns = [{"role": "user", "content": "order seven"}]
        answers = [
            client.post("/v1/completions", json={"model": "orders", "prompt": "order ", "max_tokens": 6, "n": 2}),
            client.post("/v1/chat/completions", json={"model": "orders", "messages": turns, "max_tokens": 5}),
        ]
        assert [answer.status_code for answer in answers] == [200, 200]
        drawn = sum(answer.json()["usage"]["completion_tokens"] for answer in answers)
        assert client.get("/guarantee").json()["guarantee"] == promised
        shown = httpx.get(
            f"http://127.0.0.1:{page}/ledger.json",
            headers={"Authorization": f"Bearer {operator}"},
            timeout=PATIENCE,
        )
        assert shown.json()["answers"] == drawn
    assert "order seven" not in "".join(client.said)  # no prompt in what it logs
    assert "POST /v1/chat/completions 200" in client.said[1]
    with SqliteLedger.open(ensemble / "ledger.db") as ledger:
        assert answers_given(ledger) == drawn
        ledger.verify()
    keys.chmod(0o644)
    assert cli.run(["serve", str(ensemble), "--keys", str(keys), "--port", str(port)]) == 2
    assert "others can read" in capsys.readouterr().err


@pytest.mark.slow
def test_several_workers_share_the_ledger_and_add_up(ensemble, tmp_path):
    port, before, drawn = free_port(), 0, 0
    if (ensemble / "ledger.db").exists():
        with SqliteLedger.open(ensemble / "ledger.db") as ledger:
            before = answers_given(ledger)
    flags = ("--epsilon", 8, "--delta", 1e-5, "--workers", 2, "--name", "orders")
    with served(ensemble, *flags, port=port) as client:
        time.sleep(10)  # the second one has loaded as well
        for _ in range(30):
            body = {"model": "orders", "prompt": "order ", "max_tokens": 4}
            with httpx.Client(base_url=client.base_url) as fresh:  # a new connection: either worker
                drawn += fresh.post("/v1/completions", json=body).json()["usage"]["completion_tokens"]
        counted = [line for line in client.get("/metrics").text.splitlines() if "completion_tokens_total" in line]
        assert float(counted[-1].split()[-1]) == drawn
    with SqliteLedger.open(ensemble / "ledger.db") as ledger:
        assert answers_given(ledger) - before == drawn


@pytest.mark.slow
def test_a_model_trained_with_dp_sgd_is_served_by_the_guarantee_of_its_weights(corpus, tmp_path):
    method = ("--method", "dp-sgd", "--noise-multiplier", 1, "--delta", 1e-4)
    run = train(corpus, tmp_path / "run", *method)
    before = (run / "ledger.db").read_bytes()
    with served(run, "--name", "weights", "--memfree", corpus / "train.jsonl", port=free_port()) as client:
        answer = client.post("/v1/completions", json={"model": "weights", "prompt": "order ", "max_tokens": 6})
        assert answer.status_code == 200
        assert client.get("/guarantee").json()["guarantee"] is None  # the filter reads the training text
    with served(run, "--name", "weights", port=free_port()) as client:
        bodies = [{"model": "weights", "prompt": "order ", "max_tokens": 6, "n": n} for n in (1, 4)]
        assert [client.post("/v1/completions", json=body).status_code for body in bodies] == [200, 200]
        assert client.get("/guarantee").json()["guarantee"]["epsilon"] > 0
    assert (run / "ledger.db").read_bytes() == before


@pytest.mark.slow
def test_two_servers_share_one_budget_in_postgresql(corpus, tmp_path, postgres, capsys):  # noqa: F811
    first, second = train(corpus, tmp_path / "one", *SMALL_ENSEMBLE), tmp_path / "two"
    shutil.copytree(first, second)
    address = f"{postgres.url}#journey"
    flags = ("--epsilon", 8, "--delta", 1e-5, "--name", "orders", "--ledger", address)
    body = {"model": "orders", "prompt": "order ", "max_tokens": 6}
    with (
        served(first, *flags, port=free_port()) as one,
        served(second, *flags, "--join", "--workers", 2, port=free_port()) as two,
    ):
        answers = [client.post("/v1/completions", json=body) for client in (one, two, one, two)]
        postgres.kill()
        assert [client.post("/v1/completions", json=body).status_code for client in (one, two)] == [503, 503]
        postgres.start()
        answers += [client.post("/v1/completions", json=body) for client in (one, two)]
    assert {answer.status_code for answer in answers} == {200}
    drawn = sum(answer.json()["usage"]["completion_tokens"] for answer in answers)
    capsys.readouterr()  # what training said
    for run in (first, second):
        assert cli.run(["ledger", "show", str(run), "--ledger", address, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["answers"] == drawn
        assert not (run / "ledger.db").exists()
    assert PASSWORD not in "".join((*one.said, *two.said))
    assert cli.run(["serve", str(second), "--ledger", address, "--join", "--port", str(free_port())]) == 2
    assert "used the ledger before" in capsys.readouterr().err
    assert cli.run(["predict", str(first), "--prompt", "order "]) == 2  # its budget is not in a file
    assert "missing" in capsys.readouterr().err
