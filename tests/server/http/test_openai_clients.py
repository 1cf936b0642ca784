"""The official client and curl against the server: completions, chat, streams, models, errors."""

import json
import subprocess

import openai
import pytest

from reticent.ledger.durable import SqliteLedger
from reticent.runs.ensemble.prediction import answers_given
from tests.patience import PATIENCE
from tests.prediction.test_budgets import RESTS_ON
from tests.server.letters import NAME, LetterEnsemble, make_run, serving


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    run = make_run(tmp_path_factory.mktemp("serve") / "run")
    with serving(run, ensemble=LetterEnsemble(context_length=100)) as address:
        address.run = run
        yield address


@pytest.fixture(scope="module")
def client(address):
    return openai.OpenAI(base_url=address.url + "/v1", api_key="any", max_retries=0)


def charged(address):
    """How many tokens the ledger was charged for."""
    with SqliteLedger.open(address.run / "ledger.db") as ledger:
        return answers_given(ledger)


def test_completions_of_several_prompts_and_answers(client, address):
    before = charged(address)
    made = client.completions.create(model=NAME, prompt=["ab", "cde"], max_tokens=5, n=2)
    assert [choice.index for choice in made.choices] == [0, 1, 2, 3]
    assert {len(choice.text) for choice in made.choices} == {5}
    assert {choice.finish_reason for choice in made.choices} == {"length"}
    assert all(choice.logprobs is None for choice in made.choices)
    assert (made.usage.prompt_tokens, made.usage.completion_tokens, made.usage.total_tokens) == (5, 20, 25)
    assert charged(address) - before == 20


def test_prompts_of_tokens_and_echo(client):
    made = client.completions.create(model=NAME, prompt=[1, 2, 3], max_tokens=2, echo=True)
    assert made.choices[0].text.startswith("abc")
    assert len(made.choices[0].text) == 5
    assert len(client.completions.create(model=NAME, prompt=[[1], [2]], max_tokens=1).choices) == 2


def test_streams_add_up_and_tell_their_usage(client):
    events = list(
        client.completions.create(
            model=NAME, prompt="ab", max_tokens=7, n=2, stream=True, stream_options={"include_usage": True}
        )
    )
    texts = ["", ""]
    for event in events:
        for choice in event.choices:
            texts[choice.index] += choice.text
    assert [len(text) for text in texts] == [7, 7]
    assert events[-1].usage.completion_tokens == 14
    assert len({event.id for event in events}) == 1


def test_chat_whole_and_streamed(client):
    turns = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    ]
    made = client.chat.completions.create(model=NAME, messages=turns, max_completion_tokens=6, temperature=0.7)
    assert made.choices[0].message.role == "assistant"
    assert len(made.choices[0].message.content) == 6
    stream = client.chat.completions.create(model=NAME, messages=turns, max_tokens=6, top_p=0.9, stream=True)
    pieces = [event.choices[0] for event in stream]
    assert pieces[0].delta.role == "assistant"
    assert len("".join(piece.delta.content or "" for piece in pieces)) == 6
    assert pieces[-1].finish_reason == "length"


def test_a_stop_string_ends_the_answer_and_what_follows_is_never_drawn(client, address):
    before = charged(address)
    made = client.completions.create(model=NAME, prompt="q", max_tokens=60, stop=list("aeio"))
    text = made.choices[0].text
    assert not set(text) & set("aeio")
    assert made.choices[0].finish_reason == "stop"
    assert charged(address) - before == made.usage.completion_tokens == len(text) + 1


def test_models(client):
    assert [model.id for model in client.models.list()] == [NAME]
    assert client.models.retrieve(NAME).object == "model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


REFUSED = [
    ({"logprobs": 5}, "logprobs"),
    ({"logprobs": 5, "echo": True}, "logprobs"),
    ({"seed": 1}, "seed"),
    ({"best_of": 3}, "best_of"),
    ({"temperature": 0}, "temperature"),
    ({"temperature": 1.99, "top_p": 0.001}, "top_p"),
    ({"logit_bias": {"5": 100}}, "logit_bias"),
    ({"presence_penalty": 1.0}, "presence_penalty"),
    ({"extra_body": {"top_k": 3}}, "top_k"),
    ({"extra_body": {"min_p": 0.1}}, "min_p"),
    ({"max_tokens": 10**6}, "max_tokens"),
    ({"max_tokens": 99}, "prompt"),
    ({"n": 1000}, "n"),
    ({"prompt": [99]}, "prompt"),
    ({"prompt": "x" * 500}, "prompt"),
]


@pytest.mark.parametrize(("change", "param"), REFUSED, ids=str)
def test_what_would_leave_the_accounting_is_refused_with_a_reason(client, address, change, param):
    before = charged(address)
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(**{"model": NAME, "prompt": "ab", "max_tokens": 2} | change)
    error = caught.value.body
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert param in error["message"] or error["code"] == "context_length_exceeded"
    assert charged(address) == before


@pytest.mark.parametrize("change", [{"logprobs": True}, {"top_logprobs": 3}, {"tools": []}], ids=str)
def test_chat_refuses_the_same(client, change):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=NAME, messages=[{"role": "user", "content": "hi"}], **change)
    assert caught.value.body["param"] == next(iter(change))


def curl(*arguments):
    """Status and body of one call."""
    done = subprocess.run(
        ["curl", "-s", "-w", "\n%{http_code}", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def test_curl_gets_answers_streams_and_errors(address):
    body = {"model": NAME, "prompt": "ab", "max_tokens": 3}
    status, text = curl(address.url + "/v1/completions", "--json", json.dumps(body))
    assert (status, len(json.loads(text)["choices"][0]["text"])) == (200, 3)
    status, text = curl("-N", address.url + "/v1/completions", "--json", json.dumps(body | {"stream": True}))
    lines = [line for line in text.splitlines() if line]
    assert status == 200
    assert len(lines) == 4
    assert lines[-1] == "data: [DONE]"
    assert curl(address.url + "/v1/completions", "--json", "{")[0] == 400
    assert curl(address.url + "/v1/completions")[0] == 405
    status, text = curl(address.url + "/nowhere")
    assert (status, json.loads(text)["error"]["message"]) == (404, "no such page")
    assert curl(address.url + "/v1/completions", "--json", json.dumps(body | {"model": "x"}))[0] == 404
    large = json.dumps(body | {"prompt": "x" * 1_100_000})
    done = subprocess.run(
        ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", address.url + "/v1/completions", "--json", "@-"],
        input=large,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout == "413"


def test_health_readiness_guarantee_and_metrics_are_public_and_hold_no_spend(address):
    assert curl(address.url + "/healthz")[0] == 200
    assert curl(address.url + "/readyz")[0] == 200
    promise = json.loads(curl(address.url + "/guarantee")[1])["guarantee"]
    listed = "; ".join(promise["assumes"])
    assert [each for each in RESTS_ON if each not in listed] == []  # all of it is served, not a part
    assert "mixing weight and charge follow from its own rows" in listed
    assert promise["epsilon"] <= 8.0
    status, page = curl(address.url + "/metrics")
    assert status == 200
    names = {line.split("{")[0].split(" ")[0] for line in page.splitlines() if line and line[0] != "#"}
    stems = ("requests", "request_seconds", "prompt_tokens", "completion_tokens", "overloads", "load", "turn")
    assert all(name.startswith(tuple(f"reticent_{stem}" for stem in stems)) for name in names)
    assert not {"part", "spent", "charge", "key"} & set(page.replace("_", " ").replace("{", " ").split())


def test_answers_carry_safe_headers_and_no_cross_origin_permission(address):
    done = subprocess.run(
        ["curl", "-s", "-i", "-H", "Origin: http://evil.example", address.url + "/healthz"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    headers = done.stdout.lower()
    assert "x-content-type-options: nosniff" in headers
    assert "cache-control: no-store" in headers
    assert "access-control-allow" not in headers
    assert "\nserver:" not in headers
