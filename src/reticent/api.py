"""The verbs of the library: whatever the command line does, in one call.

A verb takes what it cannot do without by position or by name. Every other option is a keyword with the name of its
flag (`learning_rate=1e-3` for --learning-rate, see docs/cli.md); an unknown one is an error that suggests the
nearest. What a flag lists with commas may be a list (`attacks=["membership", "exposure"]`).
Nothing is printed; a verb returns what it found or made.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reticent.core.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from reticent.data.scanning import Scan
    from reticent.runs.audit.audit import AuditResult
    from reticent.runs.corpus.dedup import Deduplicated
    from reticent.runs.corpus.plant import Planted
    from reticent.runs.corpus.scrub import ScrubResult
    from reticent.runs.ensemble.evaluate import EvaluationResult
    from reticent.runs.report.run import WrittenReport
    from reticent.runs.synthesis.synthesize import SyntheticCorpus
    from reticent.runs.training.advice import PlanAdvice
    from reticent.runs.training.result import Observer, TrainedRun
    from reticent.runs.update.diff import Diff
    from reticent.training.plans.plan import DpSgd

Bound = Literal["dp-sgd", "confidentiality", "extraction"]


def scan(file: Path | str, **options: Any) -> "Scan":
    """Count sensitive spans and duplicates in a corpus, as `reticent scan` does. No value is kept.

    >>> found = reticent.scan("mails.jsonl", policy="patterns")
    >>> found.records
    60
    """
    from reticent.runs.corpus import scan as verb

    return verb.scan(verb.ScanSettings.of(file=_file(file), **options))


def scrub(file: Path | str, *, out: Path | str, **options: Any) -> "ScrubResult":
    """Write a corpus with its sensitive spans replaced, as `reticent scrub` does.

    >>> done = reticent.scrub("mails.jsonl", out="clean.jsonl", policy="patterns", replace="type")
    >>> len(reticent.open_corpus("clean.jsonl").load())
    60
    """
    from reticent.runs.corpus import scrub as verb

    return verb.scrub(verb.ScrubSettings.of(file=_file(file), out=_file(out), **options))


def dedup(file: Path | str, *, out: Path | str, **options: Any) -> "Deduplicated":
    """Write a corpus without repeated texts, as `reticent dedup` does.

    >>> done = reticent.dedup("mails.jsonl", out="distinct.jsonl")
    >>> len(reticent.open_corpus("distinct.jsonl").load()) <= 60
    True
    """
    from reticent.runs.corpus import dedup as verb

    return verb.dedup(verb.DedupSettings.of(file=_file(file), out=_file(out), **options))


def plant(file: Path | str, *, out: Path | str, key: Path | str, **options: Any) -> "Planted":
    """Write a corpus with canaries and the key file that names them, as `reticent plant` does.

    >>> planted = reticent.plant("mails.jsonl", out="planted.jsonl", key="canaries.json", count=2, copies=4)
    >>> len(reticent.open_corpus("planted.jsonl").load())
    68
    """
    from reticent.runs.corpus import plant as verb

    return verb.plant(verb.PlantSettings.of(file=_file(file), out=_file(out), key=_file(key), **options))


def bound(kind: Bound, **options: Any) -> dict[str, Any]:
    """Guarantees and leakage bounds from parameters alone: the document of `reticent bound KIND --json`.

    >>> proved = reticent.bound("dp-sgd", noise_multiplier=1.0, sampling_rate=0.01, steps=500, delta=1e-6)
    >>> proved["epsilon"]["pld"] < 3
    True
    """
    from reticent.runs.bounds import bound as verb
    from reticent.runs.bounds import settings

    if kind == "dp-sgd":
        return verb.bound_dp_sgd(settings.DpSgdBoundSettings.of(**options))
    if kind == "confidentiality":
        return verb.bound_confidentiality(settings.ConfidentialityBoundSettings.of(**options))
    if kind == "extraction":
        return verb.bound_extraction(settings.ExtractionBoundSettings.of(**options))
    raise ConfigError("no such bound", found=repr(kind), expected="dp-sgd, confidentiality or extraction")


def plan(**options: Any) -> "PlanAdvice":
    """Choose a private training from counts and a target, as `reticent plan` does. No private text is read.

    >>> advice = reticent.plan(records=10_000, model="embedded", target_epsilon=8, delta=1e-6)
    >>> advice.guarantee.epsilon <= 8, advice.values["batch"] > 1
    (True, True)
    """
    from reticent.runs.training import advice

    return advice.plan(advice.PlanSettings.of(**options))


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

    `method` is a plan, or the name of a method: sgd, dp-sgd, crt, selective, submix. A plan must be for as many
    units as the corpus has. `observe(progress, epsilon)` is called after every step; returning False stops the run.

    >>> plan = reticent.DpSgd.for_target(epsilon=8, delta=1e-3, units=60, batch=20, epochs=1)
    >>> run = reticent.train("mails.jsonl", model="embedded", method=plan, out="private", max_length=24)
    >>> run.is_finished, run.guarantee.epsilon <= 8
    (True, True)
    """
    from reticent.runs.training.result import unobserved
    from reticent.runs.training.run import train as train_run
    from reticent.runs.training.settings import TrainSettings, options_of

    chosen = {"method": method} if isinstance(method, str) else options_of(method)
    if both := sorted(set(chosen) & set(options)):
        raise ConfigError(
            f"the plan decides {both[0]}, so it cannot be given beside it",
            hint="change the plan, or give method='dp-sgd' and options alone",
        )
    settings = TrainSettings.of(data=_file(data), model=_place(model), out=_file(out), **chosen, **options)
    settings.check_paths()
    units = None if isinstance(method, str) else method.sampler.units
    return train_run(settings, observe=observe or unobserved, units=units)


def audit(
    model: "TrainedRun | Path | str", *, train: Path | str, holdout: Path | str, out: Path | str, **options: Any
) -> "AuditResult":
    """Attack a model and compare what leaks with what was proved, as `reticent audit` does.

    `model` is a run, a directory, a hub id, or the address of a served model. A notebook shows the result as a
    table.

    >>> result = reticent.audit(
    ...     "private", train="mails.jsonl", holdout="others.jsonl", out="audit", attacks="membership", records=20
    ... )
    >>> result.refuted, result.exceeds("auc>0.9"), result.meets("auc<=1")
    ((), False, True)
    >>> list(result.to_frame().columns)[:5]
    ['attack', 'metric', 'value', 'low', 'high']
    >>> result.report("audit.html").name, "auc" in result.summary()
    ('audit.html', True)
    """
    from reticent.runs.audit.audit import audit as verb
    from reticent.runs.audit.settings import AuditSettings

    named = {"model": _place(model), "train": _file(train), "holdout": _file(holdout), "out": _file(out)}
    return verb(AuditSettings.of(**named, **options))


def report(*runs: "TrainedRun | AuditResult | Path | str", out: Path | str, **options: Any) -> "WrittenReport":
    """Write one self-contained page about run directories, and its Markdown, as `reticent report` does.

    >>> written = reticent.report("private", "audit", out="page.html")
    >>> written.page.name, written.markdown.name
    ('page.html', 'page.md')
    """
    from reticent.runs.report.run import ReportSettings
    from reticent.runs.report.run import report as verb

    return verb(ReportSettings.of(runs=[_place(run) for run in runs], out=_file(out), **options))


def diff(
    before: "TrainedRun | Path | str", after: "TrainedRun | Path | str", *, out: Path | str, **options: Any
) -> "Diff":
    """Find what an update from one snapshot to the next reveals, as `reticent diff` does.

    >>> found = reticent.diff("embedded", "private", data="mails.jsonl", out="update", length=2, width=8)
    >>> len(found.steps)
    1
    """
    from reticent.runs.update.diff import diff as verb
    from reticent.runs.update.settings import DiffSettings

    return verb(DiffSettings.of(before=_place(before), after=_place(after), out=_file(out), **options))


def evaluate(run: "TrainedRun | Path | str", *, data: Path | str, **options: Any) -> "EvaluationResult":
    """Perplexity of private-prediction mechanisms at equal (ε, δ), as `reticent evaluate` does. Nothing is charged.

    >>> found = reticent.evaluate("ensemble", data="others.jsonl", mechanisms="submix-f", queries=32, max_length=16)
    >>> sorted({line.mechanism.value for line in found.lines})
    ['non-private', 'public', 'submix-f']
    """
    from reticent.runs.ensemble.evaluate import evaluate_ensemble
    from reticent.runs.ensemble.settings import EvaluateSettings

    return evaluate_ensemble(EvaluateSettings.of(run=_place(run), data=_file(data), **options))


def synthesize(run: "TrainedRun | Path | str", *, out: Path | str, **options: Any) -> "SyntheticCorpus":
    """Write a corpus of new texts with its datasheet, as `reticent synthesize` does.

    `run` is a private model, whose guarantee covers the texts at no further cost, or an ensemble with a budget.

    >>> made = reticent.synthesize("private", out="synthetic.jsonl", count=3, max_tokens=8, policy="patterns")
    >>> made.is_complete, made.guarantee.epsilon <= 8, made.datasheet.name
    (True, True, 'synthetic.datasheet.json')
    """
    from reticent.runs.synthesis.settings import SynthesizeSettings
    from reticent.runs.synthesis.synthesize import synthesize as verb

    return verb(SynthesizeSettings.of(run=_place(run), out=_file(out), **options))


def _place(run: "TrainedRun | AuditResult | Path | str") -> str:
    """Where a run lies: what earlier verbs returned may be given instead of its path."""
    if isinstance(run, str | os.PathLike):
        return str(run)
    place = getattr(run, "path", None)
    if not isinstance(place, Path):
        raise UsageError(
            "a model or a run is given by its place",
            found=type(run).__name__,
            expected="a path, a hub id, an address, or what train or audit returned",
            hint="save a model that is in memory first: step.release(folder), or reticent.training.release_model",
        )
    return str(place)


def _file(path: object) -> str:
    """The name of a file that a verb reads or writes; a corpus in memory has none."""
    if isinstance(path, str | os.PathLike):
        return str(path)
    raise UsageError(
        "a verb reads and writes files",
        found=type(path).__name__,
        expected="a path",
        hint='write a corpus that is in memory first: reticent.data.write_corpus(corpus, "corpus.jsonl")',
    )
