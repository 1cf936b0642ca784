"""Clients that send slowly, too much, half of it or nonsense: others are answered, and every refusal says why."""

import asyncio
import json
import random
import resource
import socket
import threading
import time
from types import SimpleNamespace

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from reticent.server.access.keys import KeyFile, add_key
from reticent.server.access.pacing import AT_ONCE, LONGEST, RATE, Pace
from reticent.server.http.connections import connection_class
from reticent.server.limits import Limits
from tests.patience import PATIENCE
from tests.server.letters import NAME, LetterEnsemble, LetterModel, make_run, serving

ASK = {"model": NAME, "prompt": "ab", "max_tokens": 4}
WHOLE = json.dumps(ASK).encode()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    run = make_run(tmp_path_factory.mktemp("hostile") / "run")
    limits = Limits(max_tokens=16, patience=0.6, connections=24, prompt_characters=500, body_bytes=20_000)
    with serving(run, limits=limits, ensemble=LetterEnsemble(pause=0.002)) as address:
        yield address


def ask(address, path="/v1/completions", *, headers=None, **body):
    return httpx.post(address.url + path, json=ASK | body, headers=headers, timeout=PATIENCE)


def request(body=WHOLE, *, head="POST /v1/completions HTTP/1.1", host="127.0.0.1", length=None):
    size = len(body) if length is None else length
    return (
        f"{head}\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode()
        + body
    )


def talk(address, *pieces, pause=0.0, close_sending=False):
    """What the server says to raw bytes until it closes the connection or an answer is whole."""
    with socket.create_connection(("127.0.0.1", address.port), timeout=PATIENCE) as client:
        for piece in pieces:
            client.sendall(piece)
            time.sleep(pause)
        if close_sending:
            client.shutdown(socket.SHUT_WR)
        return everything(client)


def everything(client):
    said = b""
    try:
        while piece := client.recv(65_536):
            said += piece
            head, _, body = said.rpartition(b"\r\n\r\n")
            if b"content-length: %d\r\n" % len(body) in head.lower() + b"\r\n" and body:
                break
    except (TimeoutError, ConnectionError):
        pass
    return said


def error_of(said):
    """The last answer: its status and its error in OpenAI's form."""
    head, _, body = said.rpartition(b"\r\n\r\n")
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return int(head.rpartition(b"HTTP/1.1 ")[2].split()[0]), error


@pytest.mark.parametrize(
    "bytes_sent",
    [
        (b"POST /v1/comp",),
        (b"",),
        (b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n",),
        (request(length=5000),),
    ],
)
def test_a_request_that_never_ends_is_told_so_and_closed(address, bytes_sent):
    said = talk(address, *bytes_sent)  # ends when the server closes
    status, error = error_of(said)
    assert status == 408
    assert error["code"] == "timeout"


def test_the_second_request_of_a_connection_has_no_more_time_than_the_first(address):
    with socket.create_connection(("127.0.0.1", address.port), timeout=PATIENCE) as client:
        client.sendall(request())
        assert b" 200 " in everything(client)
        client.sendall(b"GET /hea")
        assert error_of(everything(client))[0] == 408


def test_connections_are_counted_and_idle_ones_make_room(address):
    held = [socket.create_connection(("127.0.0.1", address.port), timeout=PATIENCE) for _ in range(24)]
    status, error = error_of(talk(address, request()))
    assert (status, error["code"]) == (429, "rate_limit_exceeded")
    while ask(address).status_code == 429:  # until the server has closed the idle ones
        time.sleep(0.05)
    assert ask(address).status_code == 200
    for client in held:
        client.close()


def test_files_remain_for_the_ledger(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (256, 256))
    assert connection_class(connections=10_000, patience=1.0).most == 128
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (256, 4096))
    raised = []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: raised.append(limits))
    assert connection_class(connections=10_000, patience=1.0).most == 4096 - 128
    assert raised == [(4096, 4096)]


def test_without_a_file_for_a_connection_the_log_has_one_line_and_no_traceback(address, caplog, capfd):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(name) for name in __import__("os").listdir("/proc/self/fd"))
    client = socket.socket()  # its own file exists before there are none left
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 2, hard))
        fillers = []
        try:
            while True:
                fillers.append(open("/dev/null"))  # noqa: PTH123, SIM115
        except OSError:
            pass
        client.connect(("127.0.0.1", address.port))
        time.sleep(0.3)
    finally:
        for filler in fillers:
            filler.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        client.close()
    assert "Traceback" not in capfd.readouterr().err
    assert not [record for record in caplog.records if record.exc_info]
    time.sleep(1.2)  # asyncio waits a second before it accepts again
    assert ask(address).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:8000", 200),
        ("[::1]:80", 200),
        ("evil.example", 421),
        ("127.0.0.1.nip.io", 421),
    ],
)
def test_a_server_without_keys_answers_to_the_names_of_this_machine_alone(address, host, status):
    said = talk(address, request(host=host))
    assert f"HTTP/1.1 {status} ".encode() in said


def test_a_client_that_closed_its_sending_side_is_answered(address):
    said = talk(address, request(json.dumps(ASK | {"max_tokens": 16}).encode()), close_sending=True)
    assert b"HTTP/1.1 200 " in said
    assert json.loads(said.rpartition(b"\r\n\r\n")[2])["usage"]["completion_tokens"] == 16


def test_a_client_that_left_is_let_go_of(address):
    before = address.service.backend.predictor.answered
    with socket.create_connection(("127.0.0.1", address.port)) as client:
        client.sendall(request(json.dumps(ASK | {"max_tokens": 16, "n": 16}).encode()))
    deadline = time.monotonic() + PATIENCE
    while address.service._scheduler.load and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not address.service._scheduler.load
    assert address.service.backend.predictor.answered - before <= 16 * 16


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
        b"GET\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + b"X: " + b"y" * 1_000_000,
    ],
)
def test_what_is_no_http_is_refused_in_openai_s_form(address, raw):
    status, error = error_of(talk(address, raw))
    assert status == 400
    assert error["message"] == "the request is not valid HTTP"


@pytest.mark.parametrize("bad", ["\\ud800", "a\\udfffb"])
@pytest.mark.parametrize("field", ["prompt", "list", "messages", "stop", "model", "user"])
def test_a_lone_surrogate_is_refused_with_a_reason(address, bad, field):
    body = {"model": NAME, "prompt": "ab", "max_tokens": 2}
    path = "/v1/completions"
    if field == "messages":
        path, body = "/v1/chat/completions", {"model": NAME, "messages": [{"role": "user", "content": "BAD"}]}
    elif field == "list":
        body["prompt"] = ["ok", "BAD"]
    else:
        body[field] = "BAD"
    raw = json.dumps(body).replace("BAD", bad).encode()
    said = talk(address, request(raw, head=f"POST {path} HTTP/1.1"))
    status, error = error_of(said)
    assert status in (400, 404)
    if field in ("prompt", "list", "messages"):
        assert "surrogate" in error["message"]


def test_characters_are_counted_before_anything_is_read_in_tokens(address, monkeypatch):
    monkeypatch.setattr(LetterModel, "encode", lambda self, texts: pytest.fail("read in tokens"))
    answer = ask(address, prompt="a" * 501)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert ask(address, prompt=["a" * 300, "b" * 300]).status_code == 400
    chat = {"messages": [{"role": "user", "content": "a" * 501}], "prompt": None}
    body = {key: value for key, value in (ASK | chat).items() if value is not None}
    assert httpx.post(address.url + "/v1/chat/completions", json=body, timeout=PATIENCE).status_code == 400


def test_a_key_without_quota_is_refused_before_its_prompt_is_read(tmp_path, monkeypatch):
    keys = tmp_path / "keys.json"
    key = add_key(keys, "small", quota=3)
    monkeypatch.setattr(LetterModel, "encode", lambda self, texts: pytest.fail("read in tokens"))
    with serving(make_run(tmp_path / "run"), keys=KeyFile(keys)) as address:
        answer = ask(address, headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code == 429
        assert answer.json()["error"]["code"] == "insufficient_quota"


def test_a_refused_prompt_gives_its_reservation_back(tmp_path):
    keys = tmp_path / "keys.json"
    key = add_key(keys, "some", quota=20)
    with serving(make_run(tmp_path / "run"), keys=KeyFile(keys)) as address:
        headers = {"Authorization": f"Bearer {key}"}
        for _ in range(4):
            assert ask(address, prompt="a" * 300, max_tokens=16, headers=headers).status_code == 400  # no context
        assert ask(address, max_tokens=16, headers=headers).status_code == 200


def test_one_key_s_long_prompts_hold_up_no_other_key_s(tmp_path, monkeypatch):
    """Twelve prompts of one key wait to be read; another key's is read after the one that was begun."""
    plain, order, may_go_on = LetterModel.encode, [], threading.Event()

    def slowly(self, texts):
        order.append(texts[0][0])
        may_go_on.wait(20)
        return plain(self, texts)

    monkeypatch.setattr(LetterModel, "encode", slowly)
    keys = tmp_path / "keys.json"
    flood, calm = (add_key(keys, name) for name in ("flood", "calm"))

    async def pour(address):
        async with httpx.AsyncClient(base_url=address.url, timeout=PATIENCE) as http:

            def post(key, prompt):
                headers = {"Authorization": f"Bearer {key}"}
                return asyncio.create_task(
                    http.post("/v1/completions", json=ASK | {"prompt": prompt}, headers=headers)
                )

            flooding = [post(flood, "q" * 100) for _ in range(12)]
            while sum(each.done() for each in flooding) < 4:  # no more than eight of a key wait
                await asyncio.sleep(0.01)
            other = post(calm, "ab")
            while len(address.service._readings) < 2:
                await asyncio.sleep(0.01)
            may_go_on.set()
            return [each.status_code for each in await asyncio.gather(other, *flooding)]

    with serving(make_run(tmp_path / "run"), keys=KeyFile(keys)) as address:
        calm_status, *statuses = asyncio.run(pour(address))
    assert calm_status == 200
    assert sorted(statuses) == [200] * 8 + [429] * 4
    assert order.index("a") <= 1


def test_one_key_cannot_take_the_whole_capacity(tmp_path, monkeypatch):
    paced: list[str] = []
    monkeypatch.setattr(Pace, "delay", lambda _, key: paced.append(key) or 0.0)
    keys = tmp_path / "keys.json"
    flood, calm = (add_key(keys, name) for name in ("flood", "calm"))
    limits = Limits(capacity=32, choices=16, max_tokens=100)

    async def pour(address):
        async with httpx.AsyncClient(base_url=address.url, timeout=PATIENCE) as http:
            body = ASK | {"n": 8, "max_tokens": 60}
            headers = {"Authorization": f"Bearer {flood}"}
            asked = [
                asyncio.create_task(http.post("/v1/completions", json=body, headers=headers)) for _ in range(6)
            ]
            await asyncio.sleep(0.3)
            calm_answer = await http.post(
                "/v1/completions", json=ASK | {"n": 2}, headers={"Authorization": f"Bearer {calm}"}
            )
            return calm_answer.status_code, [each.status_code for each in await asyncio.gather(*asked)]

    with serving(
        make_run(tmp_path / "run"), keys=KeyFile(keys), limits=limits, ensemble=LetterEnsemble(pause=0.02)
    ) as address:
        status, flooding = asyncio.run(pour(address))
    assert status == 200
    assert sorted(flooding) == [200, 200, 429, 429, 429, 429]  # half of 32
    assert len(paced) == 4
    assert len(set(paced)) == 1


def test_a_key_that_goes_on_being_refused_waits_for_it_and_no_other_key_does():
    now = [0.0]
    pace = Pace(clock=lambda: now[0])
    delays = [pace.delay("flood") for _ in range(AT_ONCE + 200)]
    assert delays[:AT_ONCE] == pytest.approx([0.0] * AT_ONCE)
    assert delays == sorted(delays)
    assert delays[AT_ONCE] == pytest.approx(1 / RATE)
    assert delays[-1] == pytest.approx(LONGEST)
    assert pace.delay("calm") == 0.0
    now[0] = LONGEST + AT_ONCE / RATE + 1.0
    assert pace.delay("flood") == 0.0
    assert set(pace._due) == {"flood"}


def test_memory_is_computed_before_a_text_is_admitted(tmp_path, monkeypatch):
    """A token of a text takes 1 MB here and a text has 64 columns: 320 MB hold four texts with a quarter more."""
    monkeypatch.setattr("reticent.prediction.predictor.TokenPredictor.token_bytes", 2**20)
    limits = Limits(memory_bytes=320 * 2**20)
    with serving(make_run(tmp_path / "run"), limits=limits) as address:
        assert ask(address, n=4, max_tokens=40).status_code == 200
        assert ask(address, n=5, max_tokens=40).status_code == 429
        assert ask(address, n=3, max_tokens=100).status_code == 429  # 128 columns


def test_twenty_seconds_of_mutated_requests_break_nothing(address, caplog):
    mutate(address, seed=1, count=150)
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.slow
def test_twenty_thousand_mutated_requests_break_nothing(address):
    mutate(address, seed=2, count=20_000)


def mutate(address, *, seed, count):
    """Raw requests with bytes changed, cut, doubled and swapped: an answer in form, or a closed connection."""
    picked = random.Random(seed)
    seeds = [
        request(),
        request(
            head="POST /v1/chat/completions HTTP/1.1", body=b'{"model":"letters","messages":[{"role":"user"}]}'
        ),
        b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /metrics HTTP/1.0\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\r\nabc\r\n0\r\n\r\n",
    ]
    statuses = set()
    for _ in range(count):
        raw = bytearray(picked.choice(seeds))
        for _ in range(picked.randint(1, 6)):
            place = picked.randrange(len(raw) or 1)
            kind = picked.randrange(5)
            if kind == 0 and raw:
                raw[place] = picked.randrange(256)
            elif kind == 1:
                del raw[place : place + picked.randint(1, 20)]
            elif kind == 2:
                raw[place:place] = bytes(picked.randrange(256) for _ in range(picked.randint(1, 20)))
            elif kind == 3:
                raw[place:place] = raw[place : place + picked.randint(1, 60)]
            else:
                raw[place:place] = picked.choice(
                    [b"\r\n", b"\x00", b"Content-Length: 7\r\n", b"\xff\xfe", b"{" * 50]
                )
        said = talk(address, bytes(raw), close_sending=True)  # ends when the server has answered or closes
        if said:
            status = int(said.rpartition(b"HTTP/1.1 ")[2].split()[0])
            statuses.add(status)
            assert status < 500, bytes(raw)
            assert b"Traceback" not in said
    assert statuses <= {100, 200, 400, 401, 404, 405, 408, 413, 421, 422, 429, 499}
    assert ask(address).status_code == 200


class _SilentTransport(asyncio.Transport):
    """A TLS client that never says goodbye: the connection is closing and not closed."""

    def __init__(self, unsent):
        super().__init__()
        self.unsent, self.is_aborted, self._is_closing = unsent, False, False

    def is_closing(self):
        return self._is_closing

    def close(self):
        self._is_closing = True

    def abort(self):
        self.is_aborted = True

    def get_write_buffer_size(self):
        return self.unsent


@pytest.mark.parametrize("unsent", [0, 100])
def test_a_server_that_ends_does_not_wait_for_an_idle_client_but_for_an_answer_under_way(unsent):
    async def end():
        config = uvicorn.Config(lambda: None, log_config=None, http="h11", ws="none")
        config.load()
        connection = connection_class(connections=4, patience=PATIENCE)(config, ServerState(), {})
        transport, later = _SilentTransport(unsent), []
        connection.connection_made(transport)
        connection.loop = SimpleNamespace(call_later=lambda seconds, call: later.append((seconds, call)))
        connection.shutdown()
        connection._stop_waiting()
        return transport, later

    transport, [(seconds, call)] = asyncio.run(end())
    assert transport.is_closing()
    assert not transport.is_aborted
    assert seconds < 5
    call()
    assert transport.is_aborted == (unsent == 0)
