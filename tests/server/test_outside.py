"""Seen from outside: fuzzed requests break nothing and show nothing private; a spent budget does not show."""

import json
import random
import statistics
import time

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.generation.modes import GenerationMode
from scipy.stats import ks_2samp

from reticent.core.event import FilteredCharge
from reticent.ledger.durable import SqliteLedger
from reticent.prediction.predictor import TokenPredictor
from reticent.server.limits import Limits
from tests.patience import PATIENCE
from tests.server.letters import ASKED, NAME, make_run, opened, serving

MARKER = "zqzprivatepromptzqz"
PRIVATE = ("Traceback", 'File "', "part 0", "ledger", "spent", "remaining", "sqlite", ".py", MARKER)
STATUSES = {200, 400, 401, 404, 405, 413, 429}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    run = make_run(tmp_path_factory.mktemp("outside") / "run")
    with serving(run, limits=Limits(max_tokens=8, choices=4, batch=64)) as address:
        address.run = run
        yield address


def check(status, text, address, *, where):
    """Nothing broke and nothing private is in the answer."""
    assert status in STATUSES, f"{where}: {status}"
    for word in (*PRIVATE, str(address.run)):
        assert word not in text, where
    if status not in (200, 405):
        error = json.loads(text)["error"]
        assert set(error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("count", [6, pytest.param(400, marks=pytest.mark.slow)])
def test_schemathesis_finds_no_fault_by_the_openapi_document(address, mode, count):
    schema = schemathesis.openapi.from_url(address.url + "/openapi.json")
    tried = set()
    for operation in schema.get_all_operations():
        found = operation.ok()
        if mode is GenerationMode.NEGATIVE and found.method == "get" and "{" not in found.path:
            continue  # nothing in it can be wrong

        @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(case=found.as_strategy(generation_mode=mode))
        def explore(case):
            answer = case.call()
            tried.add((case.method, case.path))
            if case.path not in ("/openapi.json", "/metrics", "/guarantee"):
                check(answer.status_code, answer.text, address, where=case.path)
            assert answer.status_code < 500

        explore()
    assert ("POST", "/v1/chat/completions") in tried


ODD = [
    *(None, True, False, 0, -1, 1, 1.5, 1e308, -1e308, 10**30, "", "x", "\ud800", "\0", "🙂" * 50, [], {}, [[]]),
    *([None], {"a": {"b": []}}, [1, "a"], float("nan"), float("inf"), "a" * 5000, [0] * 300, "</s>", "{{7*7}}"),
]
FIELDS = [
    *("model", "prompt", "messages", "max_tokens", "temperature", "top_p", "n", "stop", "stream", "stream_options"),
    *(
        "logprobs",
        "seed",
        "echo",
        "best_of",
        "logit_bias",
        "user",
        "suffix",
        "top_logprobs",
        "tools",
        "\ud800",
        "é",
    ),
]


def fuzzed(picked):
    """A route and a body near a right one: odd values, odd fields, cut or noisy bytes."""
    is_chat = picked.random() < 0.5
    route = "/v1/chat/completions" if is_chat else "/v1/completions"
    body = {"model": NAME, "max_tokens": picked.randint(1, 3)}
    body |= {"messages": [{"role": "user", "content": MARKER}]} if is_chat else {"prompt": MARKER}
    for _ in range(picked.choice([0, 1, 1, 2, 4])):
        body[picked.choice(FIELDS)] = picked.choice(ODD)
    if is_chat and picked.random() < 0.3:
        body["messages"] = [{"role": picked.choice(ODD), "content": picked.choice(ODD)}]
    text = json.dumps(body).encode()
    chance = picked.random()
    if chance < 0.1:
        text = text[: picked.randrange(len(text))]
    elif chance < 0.2:
        place = picked.randrange(len(text))
        text = text[:place] + picked.randbytes(3) + text[place + 1 :]
    elif chance < 0.22:
        text = b"[" * picked.choice([10, 100_000])
    return route, text


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_fuzzed_bodies_get_no_500_and_nothing_private(address, count):
    picked = random.Random(1)
    statuses = set()
    kinds = ["application/json"] * 8 + ["text/plain", "application/x-www-form-urlencoded"]
    with httpx.Client(base_url=address.url, timeout=PATIENCE) as http:
        for number in range(count):
            route, content = fuzzed(picked)
            answer = http.post(route, content=content, headers={"Content-Type": picked.choice(kinds)})
            statuses.add(answer.status_code)
            is_echo = answer.status_code == 200 and b'"echo"' in content
            text = answer.text.replace(MARKER, "") if is_echo else answer.text
            check(answer.status_code, text, address, where=f"body {number}")
    assert {200, 400} <= statuses
    assert address.service.is_ready


def test_the_checks_catch_what_they_look_for(address):
    for status, text in [(500, "{}"), (200, "Traceback (most recent call last)"), (400, "{}"), (200, MARKER)]:
        with pytest.raises((AssertionError, KeyError)):
            check(status, text, address, where="twin")


def latencies(address, ledgers, tokens, seed):
    """Seconds of single tokens of one server that is fresh or spent by a fair coin, request by request.

    One server and not two: on a busy machine two processes or threads differ in latency whatever they have spent.
    """
    picked = random.Random(seed)
    order = [0, 1] * tokens
    picked.shuffle(order)
    found = ([], [])
    with httpx.Client(base_url=address.url, timeout=PATIENCE) as client:
        for which in [0, 1] * 5 + order:  # the first ten warm connections and caches
            address.service.backend.predictor._ledger = ledgers[which]
            body = {"model": NAME, "prompt": "".join(picked.choices("abcdefgh", k=6)), "max_tokens": 1}
            for _ in range(20):  # a machine with too much else to do may be too late with an answer
                answer = client.post("/v1/completions", json=body)
                if answer.status_code != 503:
                    break
            assert answer.status_code == 200
            found[which].append(answer.elapsed.total_seconds())
    return found[0][5:], found[1][5:]


def told_apart(folder, tokens, *, level, runs_needed):
    """Whether fresh and spent differ in latency, by a test at this level, in so many of three runs.

    Which of the two answers is drawn for each request apart, so that under the null hypothesis every order of the
    two is equally likely, however the machine's speed wanders, and the Kolmogorov-Smirnov test is exact: all of
    three runs alarm falsely with chance level³. At level 0.05 with 500 tokens each a run misses, with chance below
    0.03, that 15 % of the tokens come a grain of the scheduler later.
    """
    asked = ASKED | {"queries": 20_000}  # far more than all runs: what is fresh stays so
    with (
        opened(make_run(folder / "spent"), asked=asked) as other,
        serving(make_run(folder / "fresh"), asked=asked) as address,
    ):
        fresh, spent = address.service.backend.predictor._ledger, other.predictor._ledger
        spent.charge(spent.remaining(), FilteredCharge(2.0, spent.budget.limit))
        runs = [latencies(address, (fresh, spent), tokens, seed) for seed in range(3)]
        address.service.backend.predictor._ledger = fresh
        assert max(spent.remaining().values()) == 0.0
        assert max(fresh.spent().values()) > 0.0
        assert min(fresh.remaining().values()) > 0.5 * fresh.budget.limit
    values = [ks_2samp(*run).pvalue for run in runs]
    medians = ", ".join("/".join(f"{1e3 * statistics.median(each):.2f}" for each in run) for run in runs)
    print(f"{tokens} tokens each: Kolmogorov-Smirnov p = {', '.join(f'{value:.3g}' for value in values)};", end=" ")
    print(f"medians of fresh/spent {medians} ms")
    return sum(value <= level for value in values) >= runs_needed


# The quick one alarms falsely once in eight billion times; the long one, 7 times in a thousand, sees finer.
QUICK = {"tokens": 30, "level": 5e-4, "runs_needed": 3}
LONG = {"tokens": 500, "level": 0.05, "runs_needed": 2}


@pytest.mark.parametrize("sharpness", [QUICK, pytest.param(LONG, marks=pytest.mark.slow)], ids=["quick", "long"])
def test_a_spent_budget_does_not_show_in_latency(tmp_path, sharpness):
    assert not told_apart(tmp_path, **sharpness)


def lazy_mixing(monkeypatch):
    """Twin: work is saved where nothing remains, four times as long as the rest of an answer takes here."""
    plain, between, last = TokenPredictor._mix, [], []

    def mix(self, handles, rows, *, remaining):
        between.extend(time.monotonic() - ended for ended in last)
        pause = max([0.05, *(4.0 * statistics.median(each) for each in [between[-20:]] if each)])
        time.sleep(pause if max(remaining) > 0.0 else 0.0)
        mixed = plain(self, handles, rows, remaining=remaining)
        last[:] = [time.monotonic()]
        return mixed

    monkeypatch.setattr(TokenPredictor, "_mix", mix)


def unwritten_zeros(monkeypatch):
    """Twin: a charge of nothing is not written down, as one might think it need not be."""
    plain = SqliteLedger.charge_decided

    def charge_decided(self, decide):
        left = self.remaining()
        if max(left.values()) > 0.0:
            return plain(self, decide)
        decide(left)
        return self.head()

    monkeypatch.setattr(SqliteLedger, "charge_decided", charge_decided)


@pytest.mark.parametrize(
    ("twin", "sharpness"), [(lazy_mixing, QUICK), pytest.param(unwritten_zeros, LONG, marks=pytest.mark.slow)]
)
def test_latency_tells_a_spent_ensemble_that_saves_itself_the_work(tmp_path, monkeypatch, twin, sharpness):
    twin(monkeypatch)
    assert told_apart(tmp_path, **sharpness)
