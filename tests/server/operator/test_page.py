"""The operator's page says what is left by when, from a ledger whose numbers are known."""

import datetime

import pytest

from reticent.server.operator.page import render, verdict
from reticent.server.operator.spending import Pace, Spending

NOW = datetime.datetime(2030, 5, 2, 12, tzinfo=datetime.UTC)
SINCE = NOW - datetime.timedelta(hours=10)


def spent(**changes) -> Spending:
    """Part b has spent 6 of 10, 2 of them today with 100 tokens in ten hours."""
    chosen = {
        "measure": "rho",
        "limit": 10.0,
        "epsilon": 8.0,
        "delta": 1e-5,
        "spent": {"part a": 3.0, "part <b>": 6.0},
        "rows": 40,
        "answers": 300,
        "queries": None,
        "reanchored": 0,
        "course": (
            ("2030-05-01T12:00:00+00:00", {"part a": 1.0, "part <b>": 4.0}),
            ("2030-05-02T11:55:00+00:00", {"part a": 3.0, "part <b>": 6.0}),
        ),
        "last": NOW - datetime.timedelta(minutes=5),
        "today": Pace(since=SINCE, tokens=100, charges=8, spent={"part a": 2.0, "part <b>": 2.0}),
    }
    return Spending(**(chosen | changes))


def test_what_is_left_goes_by_the_part_that_runs_out_first():
    # Part b has 4 left and spends 2 in ten hours for 100 tokens: 200 tokens and twenty hours more. Part a has more.
    assert spent().tokens_left == 200
    assert spent().lasts_until(NOW) == NOW + datetime.timedelta(hours=20)
    budget, left, today, health = verdict(spent(), NOW)
    assert left == "Left: about 200 tokens, until 2030-05-03 08:00 UTC at today's rate."
    said = "60\u00a0% spent by the part that spent most, within (ε = 8, δ = 10⁻⁵): 300 tokens in 40 charges"
    assert budget == f"Budget: {said} since the start."
    assert today == "Today: 100 tokens in 8 charges since 2030-05-02 02:00 UTC."
    assert health.startswith("Health: the ledger can be read, last charge 5 minutes ago. ")


def test_the_query_budget_stands_beside_the_tokens_where_it_is_known():
    assert ": 300 of 1,024 tokens in 40 charges since" in verdict(spent(queries=1024), NOW)[0]
    assert spent(queries=1024).to_json()["queries"] == 1024
    assert "queries" not in spent().to_json()


def test_a_day_without_charges_has_no_rate_and_a_spent_budget_has_nothing_left():
    quiet = Pace(since=SINCE, tokens=0, charges=0, spent={"part a": 0.0, "part <b>": 0.0})
    assert verdict(spent(today=quiet), NOW)[1] == "Left: no token was charged today, so no rate is known."
    empty = spent(spent={"part a": 3.0, "part <b>": 10.0})
    assert verdict(empty, NOW)[1] == "Left: nothing. A part has spent its whole budget."
    assert verdict(None, NOW) == ("Budget: nothing is charged, since the weights carry the guarantee.",)


def test_a_rate_too_small_for_the_calendar_gives_no_date():
    slow = Pace(since=SINCE, tokens=1, charges=1, spent={"part a": 0.0, "part <b>": 1e-12})
    assert spent(today=slow).lasts_until(NOW) is None


@pytest.mark.parametrize("state", [spent(), spent(course=(), rows=0, last=None), None])
def test_the_page_refreshes_itself_without_a_script_and_escapes_names(state):
    page = render("a <name>", state, [("ann <b>", 7, 10), ("bob", 3, None)], now=NOW)
    assert '<meta http-equiv="refresh" content="60">' in page
    assert "<script" not in page
    assert "<b>" not in page
    assert "ann &lt;b&gt;" in page
    assert "prefers-color-scheme: dark" in page
    if state is not None and state.course:
        assert "hours since the first charge" in page
        assert page.count('class="curve') == 3  # two parts and the whole budget
