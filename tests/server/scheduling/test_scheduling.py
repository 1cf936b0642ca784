"""Turns, fairness, cancellation, time-outs and refusals of the one thread that draws tokens; no network."""

import asyncio
import time

import pytest

from reticent.core.errors import ConfigError, LedgerError
from reticent.prediction.budgets import MechanismName, PredictionTarget, set_up_mechanism
from reticent.prediction.mechanisms.mechanism import Layout
from reticent.prediction.mechanisms.shaping import Shaping
from reticent.prediction.memory_ledger import MemoryLedger
from reticent.prediction.predictor import TokenPredictor
from reticent.server.limits import Limits
from reticent.server.metrics import Metrics
from reticent.server.refusal import Refusal
from reticent.server.scheduling.fair_queue import FairQueue
from reticent.server.scheduling.growing_text import GrowingText
from reticent.server.scheduling.jobs import Continuation, Job
from reticent.server.scheduling.scheduler import Scheduler
from tests.server.letters import LetterEnsemble

TARGET = PredictionTarget(epsilon=8.0, delta=1e-5, queries=500)


class Bench:
    """A scheduler on letters whose turns are taken by hand."""

    def __init__(self, *, batch=4, capacity=16, ledger=None, end=False):
        self.ensemble = LetterEnsemble(end=end)
        setup = set_up_mechanism(MechanismName.SUBMIX_F, TARGET, Layout.single(3))
        self.mechanism, self.budget = setup.mechanism, setup.budget
        self.ledger = (
            ledger(self.budget, self.ensemble.parts) if ledger else MemoryLedger(self.budget, self.ensemble.parts)
        )
        self.predictor = TokenPredictor(self.ensemble, self.mechanism, ledger=self.ledger, queries=500)
        self.delivered = []
        self.scheduler = Scheduler(
            self.predictor, self.delivered.extend, limits=Limits(batch=batch, capacity=capacity), metrics=Metrics()
        )

    def job(self, key="k", *, count=1, max_tokens=5, deadline=60.0, stops=()):
        job = Job(key, self.mechanism, max_tokens, time.monotonic() + deadline, asyncio.Queue())
        decode = lambda tokens: self.ensemble.public.decode([tokens])[0]  # noqa: E731
        for index in range(count):
            job.continuations.append(Continuation(job, index, [1], GrowingText(decode, [1], stops)))
        self.scheduler.submit(job)
        return job

    def turn(self):
        """One turn; whose continuations got a token."""
        before = len(self.delivered)
        self.scheduler._turn(self.scheduler._queue.take(self.scheduler._limits.batch))
        return [job.key for job, _ in self.delivered[before:]]

    @property
    def looked_up(self):
        return sum(count for name, count in self.ensemble.calls if name == "look_up")


def test_a_turn_is_one_look_up_and_one_charge_for_all_jobs():
    bench = Bench()
    for key in "abc":
        bench.job(key)
    assert bench.turn() == ["a", "b", "c"]
    assert [call for call in bench.ensemble.calls if call[0] == "look_up"] == [("look_up", 3)]
    assert bench.ledger._charges == 1


def test_keys_take_turns_however_much_one_of_them_asks_for():
    bench = Bench(batch=2)
    bench.job("greedy", count=8)
    bench.job("modest")
    rounds = [bench.turn() for _ in range(5)]
    assert all(sorted(keys) == ["greedy", "modest"] for keys in rounds)


def test_jobs_of_one_key_take_turns():
    queue = FairQueue()
    many, one = (Job("k", None, 1, 0.0, None) for _ in range(2))
    for index in range(3):
        queue.put(Continuation(many, index, [], None))
    queue.put(Continuation(one, 0, [], None))
    assert [c.job for c in queue.take(4)] == [many, one, many, many]
    assert len(queue) == 0


def reads_in_pieces(bench, lengths):
    """Let the streams of a bench read prompts by hand; what is left of each."""
    left = {}

    def read_ahead(handles, *, most):
        for handle in handles:
            known = left.setdefault(handle, lengths.pop(0) if lengths else 0)
            left[handle] = max(0, known - most)
            most -= known - left[handle]
        return [not left[handle] for handle in handles]

    bench.predictor._streams.read_ahead = read_ahead
    return left


def test_a_long_prompt_is_read_in_pieces_between_the_turns_of_others():
    bench = Bench()
    bench.scheduler._is_shared = True
    left = reads_in_pieces(bench, [1000, 0])
    long, short = bench.job("long", max_tokens=20), bench.job("short", max_tokens=20)
    bench.scheduler._turn(bench.scheduler._chosen())
    assert (long.drawn, short.drawn) == (0, 1)
    assert bench.ledger._charges == 1
    assert left[long.continuations[0].handle] == 1000 - 16
    bench.scheduler.cancel(short)
    while bench.scheduler.load > 1:
        bench.scheduler._turn(bench.scheduler._chosen())
    bench.scheduler._shared_until = 0.0  # that was long ago
    bench.scheduler._turn(bench.scheduler._chosen())
    assert (long.drawn, short.drawn) == (1, 1)


def test_a_turn_that_only_reads_charges_and_hands_out_nothing():
    bench = Bench()
    reads_in_pieces(bench, [3000])
    job = bench.job("a")
    assert [bench.turn() for _ in range(3)] == [[], [], ["a"]]
    assert (job.drawn, bench.ledger._charges, bench.predictor.answered) == (1, 1, 1)


def test_a_prompt_that_cannot_be_read_refuses_the_turn():
    bench = Bench()
    bench.predictor._streams.read_ahead = lambda handles, *, most: 1 // 0
    bench.job("a")
    bench.turn()
    assert [item.status for _, item in bench.delivered] == [500]
    assert bench.scheduler.load == 0


def test_what_is_cancelled_before_its_turn_costs_nothing():
    bench = Bench()
    leaving, staying = bench.job("a"), bench.job("b")
    bench.turn()
    spent = bench.ledger.spent()
    bench.scheduler.cancel(leaving)
    bench.scheduler.cancel(staying)
    bench.turn()
    assert bench.ledger.spent() == spent
    assert bench.looked_up == 2
    assert bench.scheduler.load == 0
    assert bench.predictor._texts == {}


def test_load_alone_refuses_and_counts_all_answers_of_a_job():
    bench = Bench(capacity=5)
    bench.job(count=4)
    with pytest.raises(Refusal) as caught:
        bench.job(count=2)
    assert caught.value.status == 429
    assert bench.scheduler.load == 4
    bench.job(count=1)


def test_capacity_comes_back_when_jobs_end():
    bench = Bench(capacity=4)
    bench.job(count=4, max_tokens=3)
    for _ in range(3):
        bench.turn()
    assert bench.scheduler.load == 0
    finishes = [piece.finish for _, piece in bench.delivered]
    assert finishes == [None] * 8 + ["length"] * 4


def test_late_jobs_are_told_once_and_not_charged():
    bench = Bench()
    bench.job(count=3, deadline=-1.0)
    bench.turn()
    assert [item.status for _, item in bench.delivered] == [504]
    assert bench.looked_up == 0
    assert bench.scheduler.load == 0


class Broken(MemoryLedger):
    """A disk that is full."""

    def charge(self, costs, event):
        raise LedgerError("the disk is full")


class ReleasesAnyway(Scheduler):
    """Twin: what could not be charged is handed out all the same."""

    def _refuse(self, continuations, refusal):
        self._hand_out(continuations, [1] * len(continuations))


@pytest.mark.parametrize(("kind", "leaks"), [(Scheduler, False), (ReleasesAnyway, True)])
def test_nothing_is_handed_out_when_the_charge_fails(kind, leaks):
    bench = Bench(ledger=Broken)
    bench.scheduler.__class__ = kind
    bench.job(count=2)
    bench.job("b")
    bench.turn()
    assert any(not isinstance(item, Refusal) for _, item in bench.delivered) is leaks
    if not leaks:
        assert [item.status for _, item in bench.delivered] == [503, 503]  # one a job
        assert not bench.scheduler.is_ready
        assert bench.scheduler.load == 0


def test_a_fault_of_the_model_refuses_the_turn_without_its_message(caplog):
    bench = Bench()
    bench.predictor._streams.look_up = lambda handles: (_ for _ in ()).throw(RuntimeError("private words"))
    bench.job()
    bench.turn()
    assert [item.status for _, item in bench.delivered] == [500]
    assert "private" not in caplog.text
    assert "RuntimeError" in caplog.text


def test_whatever_breaks_a_turn_off_its_texts_are_refused_and_the_next_ones_are_answered(caplog):
    bench = Bench()
    close, faults = bench.predictor.close, iter([True])
    # Texts end, and the ensemble cannot let go of the first.
    bench.predictor.close = lambda handle: 1 // 0 if next(faults, False) else close(handle)
    first = bench.job("a", max_tokens=1)
    bench.job("b", count=2, max_tokens=3)
    bench.scheduler.start()
    try:
        while bench.scheduler.load:
            time.sleep(0.001)
        last = bench.job("c", max_tokens=1)
        while not any(job is last for job, _ in bench.delivered):
            time.sleep(0.001)
        assert bench.scheduler.is_ready
    finally:
        bench.scheduler.stop()
    assert "ZeroDivisionError" in caplog.text
    for job in (first, last):
        assert next(item for each, item in bench.delivered if each is job).finish == "length"
    assert bench.scheduler.load == 0
    assert not bench.scheduler._held


def test_a_text_that_cannot_be_decoded_is_refused_and_the_others_go_on():
    bench = Bench()
    bad, good = bench.job("a"), bench.job("b")
    bad.continuations[0].growth.add = lambda token: 1 // 0
    bench.turn()
    assert {job.key: getattr(item, "status", 200) for job, item in bench.delivered} == {"a": 500, "b": 200}
    assert bench.turn() == ["b"]
    assert good.drawn == 2


def test_stopping_refuses_what_waits():
    bench = Bench()
    job = bench.job(max_tokens=10**9)
    bench.scheduler.start()
    while not bench.delivered:
        time.sleep(0.001)
    bench.scheduler.stop()
    assert bench.delivered[-1][0] is job
    assert bench.delivered[-1][1].status == 503
    with pytest.raises(Refusal):
        bench.job()


def test_a_stop_between_the_choice_and_the_turn_refuses_those_that_were_not_chosen_too():
    bench = Bench(batch=2)
    jobs = [bench.job(str(number)) for number in range(5)]
    plain = bench.scheduler._chosen

    def chosen_before_the_stop():
        chosen = plain()
        bench.scheduler._is_stopping = True
        return chosen

    bench.scheduler._chosen = chosen_before_the_stop
    bench.scheduler._run()
    assert [job for job, item in bench.delivered if isinstance(item, Refusal)] == jobs
    assert bench.scheduler.load == 0


def test_the_end_token_is_charged_counted_and_has_no_text():
    bench = Bench(end=True, capacity=64, batch=64)
    bench.job(count=20, max_tokens=40)
    while bench.scheduler.load:
        bench.turn()
    pieces = [piece for _, piece in bench.delivered]
    assert len(pieces) == bench.looked_up == bench.predictor.answered
    assert "stop" in {piece.finish for piece in pieces}
    assert all("\0" not in piece.text for piece in pieces)


def test_a_text_may_be_shaped_its_own_way_but_not_priced_otherwise():
    bench = Bench()
    other = set_up_mechanism(MechanismName.PMIXED, TARGET, Layout.single(3)).mechanism
    with pytest.raises(ConfigError, match="priced otherwise"):
        bench.predictor.open([1], mechanism=other)
    from dataclasses import replace

    cold = replace(bench.mechanism, shaping=Shaping(temperature=0.05))
    handles = [bench.predictor.open([1], mechanism=cold) for _ in range(30)]
    assert len(set(bench.predictor.step(handles))) <= 3  # nearly greedy
    warm = [bench.predictor.open([1]) for _ in range(30)]
    assert len(set(bench.predictor.step(warm))) > 5


def by_bytes(tokens):
    return bytes(tokens).decode("utf8", "replace")


def grown(text, stops=(), tail=b""):
    growing = GrowingText(by_bytes, list(tail), stops)
    pieces = []
    for byte in text.encode("utf8"):
        pieces.append(growing.add(byte))
        if growing.is_stopped:
            return pieces
    return [*pieces, growing.end()]


def test_pieces_add_up_and_never_cut_a_character():
    text = "naïve – 日本語 🙂 end"
    pieces = grown(text, tail="é".encode())
    assert "".join(pieces) == text
    assert all("\ufffd" not in piece for piece in pieces)


def test_bytes_that_are_no_character_do_not_hold_the_text_for_ever():
    growing = GrowingText(by_bytes, [], ())
    pieces = [growing.add(0xFF) for _ in range(20)]
    assert "".join([*pieces, growing.end()]) == "\ufffd" * 20
    assert any(pieces)


@pytest.mark.parametrize(
    ("text", "stops", "expected"),
    [
        ("one two three", ["two"], "one "),
        ("ababac rest", ["abac"], "ab"),
        ("no stop here", ["xyz", "herd"], "no stop here"),
        ("early late", ["late", "ly"], "ear"),
    ],
)
def test_text_is_held_back_while_a_stop_string_may_begin(text, stops, expected):
    assert "".join(grown(text, stops)) == expected


def test_limits_that_mean_nothing_are_refused():
    for wrong in ({"batch": 0}, {"least_temperature": 0.0}, {"least_top_p": 0.0}, {"timeout": 0.0}):
        with pytest.raises(ConfigError):
            Limits(**wrong)
