"""Measure, prevent and prove limits on what a language model leaks about its training text.

The public API: the names in `__all__`, each loaded when it is first used. `import reticent` is fast and imports
neither torch nor numpy. Every name has an example in its docstring, and docs/api.md lists them all. For researchers
each package has public names of its own (`from reticent.core import Randomness`). Whatever else there is can be
imported from its module, but may change between versions.

    plan = reticent.DpSgd.for_target(epsilon=8, delta=1e-5, units=10_000, batch=256, epochs=3)
    run = reticent.train("mails.jsonl", model="embedded", method=plan, out="runs/private")
    audit = reticent.audit(run, train="mails.jsonl", holdout="others.jsonl", out="runs/audit")
    audit.report("page.html")
"""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from reticent.api import audit as audit
    from reticent.api import bound as bound
    from reticent.api import dedup as dedup
    from reticent.api import diff as diff
    from reticent.api import evaluate as evaluate
    from reticent.api import plan as plan
    from reticent.api import plant as plant
    from reticent.api import report as report
    from reticent.api import scan as scan
    from reticent.api import scrub as scrub
    from reticent.api import synthesize as synthesize
    from reticent.api import train as train
    from reticent.core.corpus import Corpus as Corpus
    from reticent.core.corpus import Record as Record
    from reticent.core.errors import BudgetExhausted as BudgetExhausted
    from reticent.core.errors import ReticentError as ReticentError
    from reticent.core.errors import UsageError as UsageError
    from reticent.core.finding import Finding as Finding
    from reticent.core.guarantee import Guarantee as Guarantee
    from reticent.data.reading.corpus_file import open_corpus as open_corpus
    from reticent.models.huggingface.loading import load_model as load_model
    from reticent.runs.ensemble.text_predictor import Predictor as Predictor
    from reticent.runs.verifying import verify as verify
    from reticent.training.plans.plan import DpSgd as DpSgd
    from reticent.training.private_step import PrivateStep as PrivateStep

__version__ = "0.2.0"

# Where each public name is defined, in the order in which their examples tell one story.
_PLACES = {
    "Record": "reticent.core.corpus",
    "Corpus": "reticent.core.corpus",
    "open_corpus": "reticent.data.reading.corpus_file",
    "scan": "reticent.api",
    "scrub": "reticent.api",
    "dedup": "reticent.api",
    "plant": "reticent.api",
    "bound": "reticent.api",
    "DpSgd": "reticent.training.plans.plan",
    "plan": "reticent.api",
    "Guarantee": "reticent.core.guarantee",
    "train": "reticent.api",
    "PrivateStep": "reticent.training.private_step",
    "verify": "reticent.runs.verifying",
    "load_model": "reticent.models.huggingface.loading",
    "audit": "reticent.api",
    "Finding": "reticent.core.finding",
    "report": "reticent.api",
    "diff": "reticent.api",
    "Predictor": "reticent.runs.ensemble.text_predictor",
    "evaluate": "reticent.api",
    "synthesize": "reticent.api",
    "ReticentError": "reticent.core.errors",
    "UsageError": "reticent.core.errors",
    "BudgetExhausted": "reticent.core.errors",
}

if not TYPE_CHECKING:
    __all__ = ["__version__", *sorted(_PLACES)]
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
