"""The remote model against a real HTTP server on this machine that wraps an n-gram model and can misbehave."""

import json
import logging
import socket
import threading
import time
import traceback
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest
import tokenizers

from reticent.core.errors import AccessError, ConfigError, ModelError
from reticent.core.model import CHAT_OPENING, Access, LanguageModel, TextModel
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.core.secret import Secret
from reticent.models.remote import protocol
from reticent.models.remote import transport as remote_transport
from reticent.models.remote.model import RemoteModel
from reticent.models.remote.tokenizer import LocalTokenizer
from reticent.models.remote.transport import RemoteOptions
from tests.models.ngram import END, NGramModel

KEY = Secret("sk-very-private-key", "api key")
NAME = "tiny"
ORACLE = NGramModel.fit(["Hello world", "Hello there", "low hello", "the world held"], order=3, smoothing=0.05)
# a is always followed by b: log-probabilities of 0 and -inf
CERTAIN = NGramModel.from_table(
    ["a", "b"], {(): {"a": 1.0}, ("a",): {"b": 1.0}, ("b",): {"a": 0.5, END: 0.5}}, order=2
)
QUICK = RemoteOptions(
    connect_seconds=2, read_seconds=5, retries=3, backoff_seconds=0.01, longest_wait_seconds=2, concurrency=4
)


@dataclass
class Behaviour:
    """How the server behaves, and what it saw."""

    model: NGramModel = ORACLE
    scorings: frozenset[str] = frozenset({"echo", "prompt_logprobs"})
    has_tokenizer: bool = True
    extensions: str = "honoured"  # or "ignored", or "refused"
    has_token_ids: bool = True
    adds_tokens: int = 0
    card: dict = field(default_factory=lambda: {"created": 1_700_000_000, "max_model_len": 50})
    faults: list = field(default_factory=list)  # one taken by each completion request
    delay: float = 0.0
    requests: list = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    in_flight: int = 0
    most_in_flight: int = 0
    connections: int = 0

    def count(self, path: str = "/v1/completions") -> int:
        return sum(seen == path for seen, _, _ in self.requests)


class Handler(BaseHTTPRequestHandler):
    """Speaks completions, models, tokenize and detokenize."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement
    behaviour: Behaviour

    def setup(self):
        super().setup()
        with self.behaviour.lock:
            self.behaviour.connections += 1

    def log_message(self, *_):
        pass

    def answer(self, document, status=200, headers=()):
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        self.behaviour.requests.append((self.path, None, dict(self.headers)))
        self.answer({"data": [{"id": "other"}, {"id": NAME, **self.behaviour.card}]})

    def do_POST(self):
        behaviour = self.behaviour
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with behaviour.lock:
            behaviour.requests.append((self.path, body, dict(self.headers)))
            behaviour.in_flight += 1
            behaviour.most_in_flight = max(behaviour.most_in_flight, behaviour.in_flight)
            fault = behaviour.faults.pop(0) if behaviour.faults and self.path == "/v1/completions" else None
        try:
            time.sleep(behaviour.delay)
            if fault is None or not self.misbehave(fault, body):
                self.serve(body)
        finally:
            with behaviour.lock:
                behaviour.in_flight -= 1

    def misbehave(self, fault, body) -> bool:
        """Do what the fault says; whether that was the answer."""
        if isinstance(fault, tuple):
            status, headers = fault
            self.answer({"error": {"message": f"no: {body} {dict(self.headers)}"}}, status, headers)
        elif fault == "drop":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif fault == "garbage":
            self.answer(b"<html>not json</html>")
        elif fault == "deep":
            self.answer(b"[" * 100_000 + b"]" * 100_000)
        elif fault == "truncated":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [')
            self.close_connection = True
        elif fault == "drip":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.close_connection = True
            for _ in range(40):
                time.sleep(0.05)
                try:
                    self.wfile.write(b" ")
                except OSError:
                    break
        elif fault == "slow":
            time.sleep(1.0)
            return False
        return True

    def serve(self, body):
        behaviour, model = self.behaviour, self.behaviour.model
        if self.path == "/tokenize" and behaviour.has_tokenizer:
            special = [model.start_token] if body["add_special_tokens"] else []
            tokens = special + model.encode([body["prompt"]])[0]
            self.answer({"tokens": tokens, "count": len(tokens), "max_model_len": 50})
        elif self.path == "/detokenize" and behaviour.has_tokenizer:
            self.answer({"prompt": model.decode([body["tokens"]])[0]})
        elif self.path == "/v1/completions":
            refused = behaviour.extensions == "refused" and {"top_k", "min_p"} & set(body)
            status, document = (400, {}) if refused or "model" not in body else (200, self.completion(body))
            self.answer(document, status)
        elif self.path == "/v1/chat/completions":
            document = self.completion({**body, "prompt": body["messages"][-1]["content"]})
            for choice in document["choices"]:
                choice["message"] = {"role": "assistant", "content": choice.pop("text") or None}
            self.answer(document)
        else:
            self.answer({"detail": "Not Found"}, 404)

    def completion(self, body):
        behaviour, model = self.behaviour, self.behaviour.model
        prompt = body["prompt"]
        tokens = [model.start_token, *model.encode([prompt])[0]] if isinstance(prompt, str) else prompt
        honoured = behaviour.extensions == "honoured"
        top_k = body.get("top_k", -1) if honoured else -1
        sampling = Sampling(
            body["max_tokens"],
            temperature=body.get("temperature", 1.0),
            top_k=top_k if top_k > 0 else None,
            top_p=body.get("top_p", 1.0),
        )
        source = Randomness.seeded(body["seed"]) if "seed" in body else Randomness.system()
        if body.get("n", 1) > 1 and body.get("temperature") == 0:
            raise AssertionError("greedy sampling with n > 1, which vLLM refuses")
        sampled = model.generate([tokens[1:]], sampling, count=body.get("n", 1), randomness=source)[0]
        seen = [model.start_token] * behaviour.adds_tokens + list(tokens)
        choices = [self.choice(index, seen, row, body) for index, row in enumerate(sampled)]
        choices.reverse()  # the order is the index's business
        return {"choices": choices, "usage": {"prompt_tokens": len(seen)}}

    def choice(self, index, seen, sampled, body):
        behaviour, model = self.behaviour, self.behaviour.model
        scores = [None, *(max(float(v), -9999.0) for v in model.token_log_probs([seen[1:]])[0])]
        choice = {"index": index, "text": model.decode([sampled])[0], "logprobs": None}
        shown, values = [*sampled, model.end_token], [-0.5] * (len(sampled) + 1)
        if body.get("echo") and "echo" in behaviour.scorings:
            shown, values = [*seen, *shown[:1]], [*scores, -0.5]
        if "logprobs" in body:
            as_ids = body.get("return_tokens_as_token_ids") and behaviour.has_token_ids
            written = [f"token_id:{token}" if as_ids else model.decode([[token]])[0] for token in shown]
            choice["logprobs"] = {"token_logprobs": values, "tokens": written}
        if "prompt_logprobs" in body and "prompt_logprobs" in behaviour.scorings:
            rows = [{str(t): {"logprob": s, "rank": 1}} for t, s in zip(seen, scores, strict=True)]
            choice["prompt_logprobs"] = [None, *rows[1:]]
        return choice


@contextmanager
def serving(**behaviour):
    state = Behaviour(**behaviour)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"behaviour": state}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def remote(url: str, **options) -> RemoteModel:
    return RemoteModel(url, NAME, **{"api_key": KEY, "options": QUICK, **options})


TEXTS = ["Hello", "the hello world", "w", ""]


@pytest.mark.parametrize("scoring", ["echo", "prompt_logprobs"])
@pytest.mark.parametrize("tokenizer", [None, ORACLE], ids=["server's tokenizer", "local tokenizer"])
@pytest.mark.parametrize("extensions", ["honoured", "refused"])
def test_log_probabilities_equal_those_of_the_model_behind_the_server(scoring, tokenizer, extensions):
    with serving(scorings=frozenset({scoring}), extensions=extensions) as (url, _):
        model = remote(url, tokenizer=tokenizer)
        assert isinstance(model, TextModel)
        assert model.access is Access.LOGPROBS
        assert model.probe().scoring == scoring
        sequences = model.encode(TEXTS)
        assert sequences == ORACLE.encode(TEXTS)
        assert model.decode(sequences) == TEXTS
        ended = [[*sequence, ORACLE.end_token] for sequence in sequences]
        for mine, true in zip(model.token_log_probs(ended), ORACLE.token_log_probs(ended), strict=True):
            np.testing.assert_allclose(mine, true, rtol=0, atol=1e-12)
            assert mine.dtype == np.float64
        prefix, continuations = sequences[0], ORACLE.encode([" there", " w", ""])
        theirs = ORACLE.continuation_log_probs(prefix, continuations)
        for mine, true in zip(model.continuation_log_probs(prefix, continuations), theirs, strict=True):
            np.testing.assert_allclose(mine, true, rtol=0, atol=1e-12)
        assert model.start_token == ORACLE.start_token
        assert model.context_length == 49


@pytest.mark.parametrize("scoring", ["echo", "prompt_logprobs"])
def test_impossible_tokens_come_out_as_minus_infinity(scoring):
    with serving(model=CERTAIN, scorings=frozenset({scoring})) as (url, _):
        scores = remote(url, tokenizer=CERTAIN).token_log_probs([[0, 1], [0, 0]])
        assert scores[0].tolist() == [0.0, 0.0]
        assert scores[1].tolist() == [0.0, -np.inf]


def test_a_server_that_adds_tokens_to_prompts_is_not_trusted_with_log_probabilities():
    with serving(adds_tokens=1) as (url, _):
        assert remote(url).access is Access.TEXT


@pytest.mark.parametrize("scoring", ["echo", "prompt_logprobs"])
def test_scores_that_do_not_fit_the_prompt_are_an_error_and_never_shifted(scoring):
    with serving(scorings=frozenset({scoring})) as (url, behaviour):
        model = remote(url)
        assert model.access is Access.LOGPROBS
        behaviour.adds_tokens = 1
        with pytest.raises(ModelError, match="added tokens"):
            model.token_log_probs(model.encode(["Hello"]))


def test_a_server_without_scores_grants_text_alone():
    with serving(scorings=frozenset(), has_token_ids=False) as (url, _):
        model = remote(url)
        assert model.access is Access.TEXT
        for call in (
            lambda: model.token_log_probs([[0]]),
            lambda: model.continuation_log_probs([0], [[1]]),
            lambda: model.generate([[0]], Sampling(), count=1, randomness=Randomness.system()),
        ):
            with pytest.raises(AccessError):
                call()


def test_a_chat_is_asked_by_a_users_messages_and_shows_text_alone():
    oracle = NGramModel.fit(["Hello world", "Hello there", CHAT_OPENING], order=3, smoothing=0.05)
    with serving(model=oracle) as (url, behaviour):
        model = remote(url, chat=True)
        greedy = Sampling(6, temperature=0.0)
        said = model.complete(["Hello", ""], greedy, count=2, randomness=Randomness.seeded(1))
        expected = oracle.complete(["Hello", CHAT_OPENING], greedy, count=2, randomness=Randomness.seeded(1))
        assert said == expected
        assert model.access is Access.TEXT
        assert behaviour.count() == behaviour.count("/tokenize") == 0
        bodies = [body for path, body, _ in behaviour.requests if path == "/v1/chat/completions"]
        assert all([turn["role"] for turn in body["messages"]] == ["user"] for body in bodies)
        assert model.fingerprint != remote(url).fingerprint
        with pytest.raises(AccessError, match=r"log-probabilities|start token|tokenizer"):
            model.token_log_probs([[1]])


def test_a_message_without_content_is_an_empty_answer():
    assert protocol.text_of({"message": {"role": "assistant", "content": None}}) == ""
    with pytest.raises(ModelError, match="no text"):
        protocol.text_of({"message": "Hello"})
    with pytest.raises(AccessError, match="not tokens"):
        protocol.request([1, 2], chat=True)


def test_whole_distributions_are_an_access_error_with_a_hint():
    with serving() as (url, _):
        with pytest.raises(AccessError, match="next-token distributions") as caught:
            remote(url).next_token_log_probs([[0]])
        assert caught.value.hint


def test_without_any_tokenizer_text_still_works_and_tokens_are_an_access_error():
    with serving(has_tokenizer=False) as (url, _):
        model = remote(url)
        assert model.access is Access.TEXT
        assert model.complete(["Hello"], Sampling(3), count=1, randomness=Randomness.seeded(0))[0][0]
        with pytest.raises(AccessError, match="tokenizer"):
            model.encode(["Hello"])


def test_the_vocabulary_is_the_local_tokenizers_or_unknown():
    with serving() as (url, _):
        assert remote(url, tokenizer=ORACLE).vocabulary_size == ORACLE.vocabulary_size
        assert isinstance(remote(url, tokenizer=ORACLE), LanguageModel)
        with pytest.raises(AccessError, match="vocabulary"):
            assert remote(url).vocabulary_size


def test_the_server_is_probed_once_and_not_before_it_is_needed():
    with serving() as (url, behaviour):
        model = remote(url)
        assert repr(model) == f"RemoteModel({url}, 'tiny')"
        assert behaviour.requests == []
        assert model.access is Access.LOGPROBS
        after = len(behaviour.requests)
        assert 1 <= after <= 8
        assert model.access is Access.LOGPROBS
        assert model.fingerprint
        assert model.start_token is not None
        assert len(behaviour.requests) == after


def test_probes_hold_no_text_but_a_greeting():
    with serving() as (url, behaviour):
        remote(url).probe()
        prompts = [body["prompt"] for _, body, _ in behaviour.requests if body is not None]
        assert {p for p in prompts if isinstance(p, str)} == {"Hello"}
        assert all(set(p) == {ORACLE.start_token} for p in prompts if not isinstance(p, str))


def test_completions_repeat_with_their_seed_and_come_in_the_number_asked_for():
    with serving() as (url, behaviour):
        model = remote(url)
        sampling = Sampling(6, temperature=0.9, top_p=0.95)
        first = model.complete(["Hello", "the"], sampling, count=40, randomness=Randomness.seeded(3))
        again = model.complete(["Hello", "the"], sampling, count=40, randomness=Randomness.seeded(3))
        other = model.complete(["Hello", "the"], sampling, count=40, randomness=Randomness.seeded(4))
        assert first == again
        assert first != other
        assert [len(row) for row in first] == [40, 40]
        asked = [body for path, body, _ in behaviour.requests if path == "/v1/completions" and "seed" in body]
        assert Counter(body["n"] for body in asked) == {32: 6, 8: 6}
        assert {(body["temperature"], body["top_p"], body["max_tokens"]) for body in asked} == {(0.9, 0.95, 6)}
        assert {body["repetition_penalty"] for body in asked} == {1.0}
        model.complete(["Hello"], sampling, count=1, randomness=Randomness.system())
        assert "seed" not in behaviour.requests[-1][1]
        with pytest.raises(ValueError):
            model.complete(["Hello"], sampling, count=0, randomness=Randomness.system())


def test_greedy_completions_and_generations_equal_the_local_model():
    with serving() as (url, _):
        model, greedy = remote(url, tokenizer=ORACLE), Sampling(8, temperature=0.0)
        system = Randomness.system()
        theirs = ORACLE.complete(["Hello", "w"], greedy, count=3, randomness=system)
        assert model.complete(["Hello", "w"], greedy, count=3, randomness=system) == theirs
        prompts = ORACLE.encode(["Hello", "w"])
        theirs = ORACLE.generate(prompts, greedy, count=3, randomness=system)
        assert model.generate(prompts, greedy, count=3, randomness=system) == theirs


def test_generated_tokens_are_cut_before_the_end_token():
    with serving(model=CERTAIN) as (url, _):
        model = remote(url, tokenizer=CERTAIN)
        drawn = model.generate([[]], Sampling(9), count=20, randomness=Randomness.seeded(1))[0]
        assert len(drawn) == 20
        assert all(set(row) <= {0, 1} and row[:2] == [0, 1] for row in drawn)
        assert len({len(row) for row in drawn}) > 1


def test_top_k_is_used_where_it_works():
    with serving() as (url, behaviour):
        model = remote(url)
        texts = model.complete(["Hello"], Sampling(6, top_k=1), count=5, randomness=Randomness.system())[0]
        assert len(set(texts)) == 1
        assert behaviour.requests[-1][1]["top_k"] == 1


@pytest.mark.parametrize("extensions", ["ignored", "refused"])
def test_top_k_is_an_access_error_where_the_server_ignores_or_refuses_it(extensions):
    with serving(extensions=extensions) as (url, _):
        model = remote(url)
        with pytest.raises(AccessError, match="top"):
            model.complete(["Hello"], Sampling(6, top_k=2), count=2, randomness=Randomness.system())
        assert model.complete(["Hello"], Sampling(6), count=2, randomness=Randomness.system())


def test_a_temperature_schedule_is_an_access_error():
    with serving() as (url, _), pytest.raises(AccessError, match="temperature"):
        remote(url).complete(
            ["Hello"], Sampling(6, temperature=(2.0, 1.0)), count=1, randomness=Randomness.system()
        )


RETRIED = [(500, ()), (502, ()), (503, ()), (429, (("Retry-After", "0"),)), "drop", "garbage", "deep", "truncated"]


@pytest.mark.parametrize("fault", RETRIED, ids=str)
def test_a_fault_that_passes_is_survived_by_trying_again(fault):
    with serving() as (url, behaviour):
        model = remote(url, tokenizer=ORACLE)
        model.probe()
        before = behaviour.count()
        behaviour.faults = [fault, fault]
        scores = model.token_log_probs(ORACLE.encode(["Hello"]))
        np.testing.assert_allclose(scores[0], ORACLE.token_log_probs(ORACLE.encode(["Hello"]))[0], atol=1e-12)
        # A drop over an idle connection is one try over two connections.
        assert behaviour.count() - before == 3


@pytest.mark.parametrize(("fault", "word"), [((500, ()), "HTTP 500"), ("garbage", "not JSON"), ("drop", "lost")])
def test_a_fault_that_stays_ends_in_a_model_error_after_the_tries_it_names(fault, word):
    with serving() as (url, behaviour):
        model = remote(url, tokenizer=ORACLE)
        model.probe()
        model.close()
        before = behaviour.count()
        behaviour.faults = [fault] * 50
        with pytest.raises(ModelError, match="failed 4 times") as caught:
            model.token_log_probs(ORACLE.encode(["Hello"]))
        assert word in caught.value.line()
        assert behaviour.count() - before == 4


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 302])
def test_a_refusal_is_not_tried_again(status):
    with serving() as (url, behaviour):
        model = remote(url, tokenizer=ORACLE)
        model.probe()
        before = behaviour.count()
        behaviour.faults = [(status, (("Location", f"{url}/elsewhere"),))] * 9
        with pytest.raises(ModelError, match=f"HTTP {status}") as caught:
            model.token_log_probs(ORACLE.encode(["Hello"]))
        assert caught.value.hint
        assert behaviour.count() - before == 1
        assert behaviour.count("/elsewhere") == 0


@pytest.fixture
def waits(monkeypatch):
    """The seconds that the client waits between tries, which pass at once."""
    seconds = []
    monkeypatch.setattr(remote_transport, "time", SimpleNamespace(sleep=seconds.append, monotonic=time.monotonic))
    return seconds


def test_retry_after_is_waited_for(waits):
    with serving() as (url, behaviour):
        model = remote(url, tokenizer=ORACLE)
        model.probe()
        behaviour.faults = [(429, (("Retry-After", "1"),))]
        model.token_log_probs(ORACLE.encode(["Hello"]))
    assert waits == [1.0]


@pytest.mark.parametrize("value", ["3600", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_server_that_asks_to_wait_too_long_is_an_error_at_once(value, waits):
    with serving() as (url, behaviour):
        model = remote(url, tokenizer=ORACLE)
        model.probe()
        behaviour.faults = [(429, (("Retry-After", value),))]
        with pytest.raises(ModelError, match="asks to wait too long"):
            model.token_log_probs(ORACLE.encode(["Hello"]))
    assert waits == []


def test_a_date_in_the_past_or_nonsense_in_retry_after_is_no_reason_to_wait(waits):
    with serving() as (url, behaviour):
        model = remote(url, tokenizer=ORACLE)
        model.probe()
        dates = ["Sat, 01 Jan 2000 00:00:00 GMT", "Sat, 01 Jan 2000 00:00:00 -0000", "soon"]
        behaviour.faults = [(503, (("Retry-After", date),)) for date in dates]
        model.token_log_probs(ORACLE.encode(["Hello"]))
    assert len(waits) == len(dates)
    assert max(waits) < 2.0  # pauses of its own at most


@pytest.mark.parametrize("fault", ["slow", "drip"])
def test_no_answer_in_time_is_an_error_that_says_so(fault):
    options = RemoteOptions(read_seconds=0.2, retries=1, backoff_seconds=0.01, concurrency=2)
    with serving() as (url, behaviour):
        model = remote(url, tokenizer=ORACLE, options=options)
        model.probe()
        behaviour.faults = [fault] * 9
        with pytest.raises(ModelError, match="failed 2 times; found no answer in time"):
            model.token_log_probs(ORACLE.encode(["Hello"]))


def test_a_server_that_is_not_there_is_an_error_with_its_address():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    model = remote(f"http://127.0.0.1:{port}")
    with pytest.raises(ModelError, match=f"127.0.0.1:{port}.*ConnectionRefusedError") as caught:
        model.complete(["Hello"], Sampling(3), count=1, randomness=Randomness.system())
    assert "is the server up" in (caught.value.hint or "")


def test_requests_run_at_once_but_never_more_than_allowed_and_share_connections():
    with serving() as (url, behaviour):
        model = remote(url, tokenizer=ORACLE)
        model.probe()
        behaviour.delay = 0.02
        behaviour.most_in_flight = 0
        sequences = ORACLE.encode(["Hello", "the", "world"] * 8)
        scores = model.token_log_probs(sequences)
        assert 2 <= behaviour.most_in_flight <= QUICK.concurrency
        assert behaviour.connections <= QUICK.concurrency + 1
        for mine, true in zip(scores, ORACLE.token_log_probs(sequences), strict=True):
            np.testing.assert_allclose(mine, true, atol=1e-12)


def test_the_first_error_of_many_requests_ends_them():
    with serving() as (url, behaviour):
        model = remote(url, tokenizer=ORACLE)
        model.probe()
        before = behaviour.count()
        behaviour.delay = 0.02
        behaviour.faults = [(400, ())] * 100
        with pytest.raises(ModelError, match="HTTP 400"):
            model.token_log_probs(ORACLE.encode(["Hello"] * 60))
        assert behaviour.count() - before < 30


@pytest.mark.parametrize("fault", [(400, ()), (500, ()), "garbage", "drop"], ids=str)
def test_neither_key_nor_prompt_is_in_any_error_log_or_repr(fault, caplog):
    caplog.set_level(logging.DEBUG)
    with serving() as (url, behaviour):
        model = remote(url, tokenizer=ORACLE)
        model.probe()
        assert behaviour.requests[-1][2]["Authorization"] == f"Bearer {KEY.reveal()}"
        behaviour.faults = [fault] * 50  # the server quotes request and headers in its answer
        prompt = "the hello world held"
        for call in (
            lambda: model.complete([prompt], Sampling(3), count=1, randomness=Randomness.system()),
            lambda: model.token_log_probs(ORACLE.encode([prompt])),
        ):
            with pytest.raises(ModelError) as caught:
                call()
            shown = "".join(traceback.format_exception(caught.value)) + caught.value.line() + str(caught.value.hint)
            shown += repr(caught.value) + repr(vars(caught.value))
            assert KEY.reveal() not in shown
            assert prompt not in shown
            assert str(ORACLE.encode([prompt])[0])[1:-1] not in shown
        everything = repr(model) + repr(model.__dict__) + repr(model._transport.__dict__) + caplog.text
        assert KEY.reveal() not in everything
        assert prompt not in everything


def test_no_key_sends_no_authorization():
    with serving() as (url, behaviour):
        remote(url, api_key=None).probe()
        assert all("Authorization" not in headers for _, _, headers in behaviour.requests)


def test_a_model_the_server_does_not_list_is_an_error_with_those_it_lists():
    with serving() as (url, _), pytest.raises(ModelError, match="other, tiny"):
        RemoteModel(url, "absent", options=QUICK).probe()


def test_the_address_may_end_in_v1():
    with serving() as (url, _):
        assert remote(f"{url}/v1/").access is Access.LOGPROBS


@pytest.mark.parametrize(
    "url", ["ftp://host", "host:80", "http://user:word@host", "http://host/?key=1", "http://", "http://host/#x"]
)
def test_addresses_that_are_none_or_hold_secrets_are_refused_without_showing_them(url):
    with pytest.raises(ConfigError) as caught:
        RemoteModel(url, NAME)
    assert "word" not in caught.value.line()


def test_a_key_that_no_header_can_hold_is_refused_without_showing_it():
    with pytest.raises(ConfigError) as caught:
        RemoteModel("http://host", NAME, api_key=Secret("sk-abc\nInjected: 1", "api key"))
    assert "sk-abc" not in caught.value.line()


@pytest.mark.parametrize(
    "fields", [{"retries": -1}, {"read_seconds": 0}, {"concurrency": 0}, {"longest_wait_seconds": -1}]
)
def test_options_without_sense_are_refused(fields):
    with pytest.raises(ConfigError):
        RemoteOptions(**fields)


def test_fingerprint_follows_what_the_server_says_but_not_its_clock():
    with serving() as (url, behaviour):
        first = remote(url).fingerprint
        assert remote(url).fingerprint == first
        behaviour.card = {**behaviour.card, "created": 1_800_000_000}
        second = remote(url).fingerprint
        assert second != first
        assert remote(url, tokenizer=ORACLE).fingerprint != second
        clock = []
        for offset in (0, 1):
            behaviour.card = {**behaviour.card, "created": int(time.time()) - offset}
            clock.append(remote(url).fingerprint)
        assert clock[0] == clock[1] != second


def test_a_sequence_longer_than_the_model_reads_is_an_error_before_it_is_sent():
    with serving() as (url, behaviour):
        model = remote(url, tokenizer=ORACLE)
        model.probe()
        before = behaviour.count()
        with pytest.raises(ModelError, match="longer than the remote model reads"):
            model.token_log_probs([[0] * 49])
        assert behaviour.count() == before
        assert len(model.token_log_probs([[0] * 48])[0]) == 48


def test_a_local_tokenizer_is_read_from_a_models_directory(tmp_path):
    vocabulary = {"<s>": 0, "</s>": 1, "hello": 2, "world": 3}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<s>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.enable_truncation(1)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    settings = {"bos_token": {"content": "<s>"}, "eos_token": "</s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    local = LocalTokenizer.from_directory(tmp_path)
    assert (local.start_token, local.end_token, local.vocabulary_size) == (0, 1, 4)
    assert local.encode(["hello world hello"]) == [[2, 3, 2]]
    assert local.decode([[2, 3]]) == ["hello world"]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
    assert LocalTokenizer.from_directory(tmp_path).start_token == 1
    assert RemoteModel("http://host", NAME, tokenizer=tmp_path).start_token == 1
    with pytest.raises(ModelError):
        LocalTokenizer.from_directory(tmp_path / "absent")


def test_requests_go_through_the_proxy_of_the_environment_and_spare_the_hosts_it_names(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with serving() as (url, behaviour):
        monkeypatch.setenv("http_proxy", url)
        # The server stands in for a proxy: it sees the whole address of a host that nobody can reach.
        with pytest.raises(ModelError):
            RemoteModel("http://model.invalid", NAME, options=QUICK).probe()
        assert behaviour.requests
        assert all(path.startswith("http://model.invalid/") for path, _, _ in behaviour.requests)
        behaviour.requests.clear()
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        remote(url).probe()
        assert behaviour.requests
        assert all(path.startswith("/") for path, _, _ in behaviour.requests)


def test_a_proxy_that_cannot_be_used_is_an_error_without_its_password(monkeypatch):
    monkeypatch.setenv("http_proxy", "nonsense://user:hidden-word@proxy:1")
    with pytest.raises(ConfigError, match="proxies") as caught:
        RemoteModel("http://model.invalid", NAME)
    assert "hidden-word" not in "".join(traceback.format_exception(caught.value)) + str(caught.value.hint)
