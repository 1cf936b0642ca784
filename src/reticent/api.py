"""The verbs of the library: whatever the command line does, in one call.

A verb takes what it cannot do without by position or by name. Every other option is a keyword with the name of its
flag (`learning_rate=1e-3` for --learning-rate, see docs/cli.md); an unknown one is an error that suggests the nearest.
Nothing is printed; a verb returns what it found or made.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reticent.runs.training.result import Observer, TrainedRun
    from reticent.training.plans.plan import DpSgd


def train(
    data: Path | str,
    *,
    model: Path | str,
    method: "DpSgd | str",
    out: Path | str,
    observe: "Observer | None" = None,
    **options: Any,
) -> "TrainedRun":
    """Train a model on a corpus into a new run directory, as `reticent train` does.

    `method` is a plan, or the name of a method: sgd, dp-sgd, crt, selective, submix. A plan must be for as many units
    as the corpus has. `observe(progress, epsilon)` hears of every step and stops the run by returning False.

    >>> plan = reticent.DpSgd.for_target(epsilon=8, delta=1e-3, units=60, batch=20, epochs=2)
    >>> run = reticent.train("mails.jsonl", model="embedded", method=plan, out="private")
    >>> run.is_finished, run.guarantee.epsilon <= 8
    (True, True)
    """
    from reticent.runs.training import run as course
    from reticent.runs.training.result import unobserved
    from reticent.runs.training.settings import TrainSettings, options_of

    chosen = {"method": method} if isinstance(method, str) else options_of(method)
    settings = TrainSettings.of(data=str(data), model=str(model), out=str(out), **chosen, **options)
    if not isinstance(method, str):
        settings.require_units(method.sampler.units)
    settings.look_around()
    return course.train(settings, observe=observe or unobserved)
