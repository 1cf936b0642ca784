"""Whose turn it is, with made-up times of turns: no model, no clock."""

import pytest

from reticent.server.scheduling import fair_queue
from reticent.server.scheduling.fair_queue import CREDIT, STAY, FairQueue
from reticent.server.scheduling.jobs import Continuation, Job

WORK = 24.0


def texts(key, count, *, length, is_read=True):
    """The texts of one request of a key."""
    job = Job(key, None, 10**6, 0.0, None)
    job.continuations = [
        Continuation(job, index, [1] * length, None, handle=index if is_read else None, is_read=is_read)
        for index in range(count)
    ]
    return job.continuations


def put(queue, *lines):
    for line in lines:
        for each in line:
            queue.put(each)


def turn(queue, *, work=WORK):
    """One turn: its texts, and seconds that grow with their work."""
    taken = queue.take(32, work=work)
    shares = [(each.job.key, each.work) for each in taken]
    seconds = 2.0 + sum(share for _, share in shares)
    queue.count(shares, seconds)
    for each in taken:
        each.drawn += 1
    queue.put_back(taken)
    return taken, seconds


def seconds_until(queue, text, tokens, *, turns=2000):
    """How long a text waits for so many tokens; infinity where it does not get them."""
    waited = 0.0
    for _ in range(turns):
        waited += turn(queue)[1]
        if text.drawn >= tokens:
            return waited
    return float("inf")


class ForgetsTime(FairQueue):
    """Twin: nobody's time is counted."""

    def count(self, work, seconds):
        pass


class WholeTurns(FairQueue):
    """Twin: as many texts of any length as there is room for."""

    def take(self, count, *, work=None):
        return super().take(count)


@pytest.mark.parametrize("length", [16, 60, 440])
@pytest.mark.parametrize(("kind", "is_fair"), [(FairQueue, True), (ForgetsTime, False), (WholeTurns, False)])
def test_a_key_waits_at_most_three_times_as_long_beside_a_flood(kind, is_fair, length):
    waits = []
    for flood in (0, 128):
        queue = kind()
        put(queue, texts("flood", flood, length=length))
        for _ in range(40 if flood else 0):
            turn(queue)
        calm = texts("calm", 1, length=16)
        put(queue, calm)
        waits.append(seconds_until(queue, calm[0], 16))
    assert (waits[1] <= 3.0 * waits[0]) is is_fair


def test_a_key_that_comes_late_has_no_claim_to_the_time_before():
    queue = FairQueue()
    first, second = texts("first", 1, length=400), texts("second", 1, length=400)
    put(queue, first)
    for _ in range(500):
        turn(queue, work=1.0)
    put(queue, second)
    first[0].drawn = 0
    for _ in range(20):
        turn(queue, work=1.0)
    assert abs(first[0].drawn - second[0].drawn) <= 1


def test_many_keys_with_a_text_each_share_one_turn():
    queue = FairQueue()
    lines = [texts(str(number), 1, length=20) for number in range(32)]
    put(queue, *lines)
    assert len(turn(queue)[0]) == 32


def test_beside_other_keys_short_and_long_texts_have_turns_of_their_own():
    queue = FairQueue()
    put(queue, texts("a", 2, length=10), texts("a", 2, length=400), texts("b", 1, length=12))
    turns = [sorted(len(each.context) for each in turn(queue)[0]) for _ in range(20)]
    assert turns[0] == [10, 10, 12]
    assert {tuple(each) for each in turns} == {(10, 10, 12), (12,), (400, 400)}
    assert len(turn(queue, work=None)[0]) == 5  # alone, all at once


def test_texts_keep_their_places_for_a_while_and_then_make_room():
    queue = FairQueue()
    mine = texts("k", 40, length=400)
    put(queue, mine)
    while any(not each.drawn for each in mine):  # one token each
        turn(queue)
    first = turn(queue)[0]
    assert 1 < len(first) < 10
    assert all(turn(queue)[0] == first for _ in range(STAY - 1))
    assert not set(turn(queue)[0]) & set(first)


@pytest.mark.parametrize("is_patient", [True, False])
def test_no_text_waits_for_those_of_its_key_that_come_later(monkeypatch, is_patient):
    if not is_patient:  # twin: whoever was just read goes on at once
        monkeypatch.setattr(fair_queue, "_is_to_move", lambda each: each.drawn > 0 and each.drawn % STAY == 0)
    queue, held, answer = FairQueue(), 12, 8
    put(queue, *(texts("k", 1, length=10, is_read=False) for _ in range(held)))
    age, waits = {}, []
    for _ in range(400):
        taken = queue.take(4)
        for each in taken:
            each.is_read = True
            each.drawn += 1
        done = [each for each in taken if each.drawn == answer]
        queue.put_back([each for each in taken if each.drawn < answer])
        put(queue, *(texts("k", 1, length=10, is_read=False) for _ in done))
        waits += [age.pop(each) for each in done]
        age = {each: age.get(each, 0) + 1 for line in queue._lines.values() for each in line}
    waits += age.values()
    assert (max(waits) <= 2 * held * answer / 4) is is_patient


def test_a_piece_of_a_prompt_has_a_turn_of_its_own_where_it_would_make_one_long():
    queue = FairQueue()
    drawing, reading = texts("k", 2, length=400), texts("k", 3, length=400, is_read=False)
    put(queue, drawing, reading)
    assert queue.take(32, work=WORK) == drawing
    assert queue.take(32, work=WORK) == reading[:1]
    assert len(queue) == 2
    assert len(queue.take_all()) == 2
    assert queue.take(32) == []


def test_no_turn_has_more_work_than_it_may_unless_one_text_alone_has():
    queue = FairQueue()
    put(queue, texts("k", 20, length=300), texts("k", 20, length=400, is_read=False), texts("k", 9, length=20))
    for _ in range(100):
        taken = turn(queue)[0]
        assert len(taken) == 1 or sum(each.work for each in taken) <= WORK + 1.0  # each is one token longer since


@pytest.mark.parametrize("away", [1, 4, 1000])
def test_a_key_that_was_away_goes_first_until_it_had_as_much_as_the_others_but_not_for_long(away):
    queue, short = FairQueue(), CREDIT / 16

    def one():
        [taken] = queue.take(1, work=WORK)
        queue.count([(taken.job.key, 1.0)], short)
        queue.put_back([taken])
        return taken.job.key

    busy, seldom = texts("busy", 1, length=400), texts("seldom", 1, length=100)
    put(queue, busy)
    assert {one() for _ in range(away)} == {"busy"}
    put(queue, seldom)
    order = [one() for _ in range(200)]
    ahead = order.index("busy")
    assert abs(ahead - min(away, 16)) <= 1  # what it missed, and never more than its credit
    assert abs(order[ahead:].count("busy") - order[ahead:].count("seldom")) <= 1


def test_a_key_that_left_is_forgotten_unless_it_had_more_than_the_others():
    queue = FairQueue()
    put(queue, texts("a", 1, length=10))
    turn(queue)
    queue.take_all()
    queue.forget("a")
    assert queue._had == {"a": pytest.approx(2.0 + 1 + 10 / 128)}  # it had its turn, nobody else had
    put(queue, texts("b", 1, length=10))
    for _ in range(3):
        turn(queue)
    queue.forget("a")
    assert set(queue._had) == {"b"}
