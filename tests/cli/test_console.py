"""What a person sees of long work where stderr is no terminal."""

import io

from rich.console import Console

from reticent.cli.console import PlainProgress


def test_progress_in_a_log_is_a_plain_line_at_most_every_ten_seconds():
    seen, now = io.StringIO(), [0.0]
    bars = PlainProgress(Console(file=seen), clock=lambda: now[0])
    task = bars.add_task("training", total=4000, status="")
    for step in range(40):
        now[0] += 1.0
        bars.update(task, completed=100 * step, status="ε 1.25")
    bars.advance(task)
    assert seen.getvalue().splitlines() == [
        f"training: {done} of 4,000  ε 1.25" for done in ("900", "1,900", "2,900", "3,900")
    ]


def test_work_inside_work_that_stands_still_is_told():
    seen, now = io.StringIO(), [0.0]
    bars = PlainProgress(Console(file=seen), clock=lambda: now[0])
    whole, inside = bars.add_task("audit", total=2, status="membership"), bars.add_task("membership", total=250)
    for done in range(0, 250, 50):
        now[0] += 11.0
        bars.update(whole, completed=1)
        bars.update(inside, completed=done)
    assert seen.getvalue().splitlines() == [
        "audit: 1 of 2  membership",
        *(f"membership: {done} of 250" for done in (50, 100, 150, 200)),
    ]


def test_progress_is_silent_for_programs_and_for_short_work():
    for is_silent, seconds in ((True, 100.0), (False, 9.0)):
        seen, now = io.StringIO(), [0.0]
        bars = PlainProgress(Console(file=seen), is_silent=is_silent, clock=lambda now=now: now[0])
        task = bars.add_task("reading", total=None)
        now[0] = seconds
        bars.advance(task)
        assert seen.getvalue() == ""
