"""From run directories to a `Report`: reads what runs left on disk and draws the curves from it.

An audit's directory names the training run it looked at; where that is still there, its ledger, its guarantees and
its utility are read with it. A scan of a corpus is no run of a model: its recall is set beside the other runs.

Only numbers, ids and names are taken over. What is missing is told with the reason, section by section.
"""

import datetime
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from reticent import __version__
from reticent.accounting.bounds.ceiling import greatest_value
from reticent.accounting.derivation import require_derivable
from reticent.auditing.attacks.lazy.risk_map import SCHEMA_VERSION as RISK_MAP_VERSION
from reticent.core.document import MALFORMED, check_schema, fields_from_json, number_from_json, read_document
from reticent.core.errors import ConfigError, LedgerError
from reticent.core.evidence.certificate import GUARANTEE
from reticent.core.finding import Comparison, Finding
from reticent.core.guarantee import Guarantee
from reticent.core.metric import EXPOSURE
from reticent.reporting.report import (
    CanaryExposure,
    GateLine,
    Origin,
    PlanLine,
    PolicyRate,
    RecordFacts,
    Report,
    RiskGroup,
    RiskMap,
    RiskPoint,
    RunReport,
    UpdatePhrase,
    Utility,
    only_absent,
)
from reticent.runs.audit.gate import GateResult, Limit, check_gate, read_limit
from reticent.runs.directory import FINDINGS, RUN, RunDirectory
from reticent.runs.proofs.certificates import proved_of, read_certificate, read_other_guarantees, stated
from reticent.runs.report.command import command_of
from reticent.runs.report.curves import budget_use, extraction_curves, leakage_points, roc_curves
from reticent.runs.schemas import SCHEMAS, read_valid

SCHEMA_VERSION: Final = 1  # of the documents of an audit
_SCAN: Final = "scan"
_PHRASES: Final = 30  # of an update
_CONFIDENCE: Final = 0.95

Facts = Mapping[str, RecordFacts]


def read_report(
    paths: Sequence[Path],
    *,
    facts: Facts | None = None,
    with_fingerprints: bool = False,
    limits: Sequence[Limit] = (),
) -> Report:
    """The runs beside each other, named by their folders; `limits` are held against every run that was audited."""
    names = _names(paths)
    runs = [
        _read_safely(path, name, facts=facts or {}, with_fingerprints=with_fingerprints)
        for path, name in zip(paths, names, strict=True)
    ]
    scans, others = [run for run in runs if run.kind == _SCAN], [run for run in runs if run.kind != _SCAN]
    measured = tuple(rate for run in scans for rate in run.policies)
    audited = {folder for run in runs if run.findings and (folder := run.origin.trained_in)}
    shown = [_with_rates(_beside_audit(run, audited), measured) for run in others] or scans
    if limits:
        shown = _gated(shown, limits)
    now = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d, %H:%M UTC}"
    return Report(tuple(shown), now, __version__)


def _gated(runs: Sequence[RunReport], limits: Sequence[Limit]) -> list[RunReport]:
    """The runs with these limits instead of those that they were audited with."""
    if not any(run.findings for run in runs):
        raise ConfigError(
            "--require and --fail-if need a run that was audited",
            found=", ".join(run.name for run in runs),
            hint="name the directory that reticent audit wrote",
        )
    return [
        replace(
            run,
            gate=tuple(_gate_line(one.to_json(), run.findings) for one in check_gate(limits, run.findings)),
        )
        if run.findings
        else run
        for run in runs
    ]


def _read_safely(path: Path, name: str, *, facts: Facts, with_fingerprints: bool) -> RunReport:
    """A run, or one line that says that its documents do not fit together; never what they hold."""
    try:
        return _read_run(RunDirectory.open(path), name, facts=facts, with_fingerprints=with_fingerprints)
    except MALFORMED as error:
        raise ConfigError(
            f"{path}: a document of this run is malformed",
            found=type(error).__name__,
            hint="restore the run directory as it was written",
        ) from None


def _beside_audit(run: RunReport, audited: Collection[str]) -> RunReport:
    """The run, and whether another run of the report measured what it trained."""
    return replace(run, is_audited=not run.findings and run.origin.trained_in in audited)


def _with_rates(run: RunReport, measured: tuple[PolicyRate, ...]) -> RunReport:
    """The run beside the rates that scans measured; what they fill is no longer absent."""
    absent = {key: why for key, why in run.absent.items() if key != "policies" or not measured}
    return replace(run, policies=run.policies + measured, absent=absent)


def record_ids(paths: Sequence[Path]) -> frozenset[str]:
    """Ids of all records in the risk maps of these runs."""
    maps = [read_document(path / "risk_map.json") for path in paths if (path / "risk_map.json").is_file()]
    return frozenset(name for document in maps for group in document["groups"] for name in group["ids"])


def _names(paths: Sequence[Path]) -> list[str]:
    """A name for each run: its folder's, with as many parents as it takes to tell them apart."""
    resolved = [path.resolve() for path in paths]
    if len(set(resolved)) != len(resolved):
        raise ConfigError("a run is given twice", hint="give every run directory once")
    for depth in range(1, max(len(path.parts) for path in resolved) + 1):
        names = ["/".join(path.parts[-depth:]) for path in resolved]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in resolved]


def _read_run(run: RunDirectory, name: str, *, facts: Facts, with_fingerprints: bool) -> RunReport:
    information = run.information()
    trained = _training_run(run, information)
    found = _document(run, FINDINGS)
    absent = _absences(information, found)
    guarantee = _guarantee(run, found, trained)
    leakage, why_no_leakage = leakage_points(guarantee)
    absent["leakage"] = why_no_leakage
    findings, comparisons = _findings(found, guarantee)
    risk_map = _document(run, "risk_map.json", version=RISK_MAP_VERSION)
    exposures = _document(run, "exposure.json")
    results = {} if trained is None else trained.information().get("results", {})
    budget = None
    ledger = None if trained is None else trained.ledger
    if ledger is not None and ledger.is_file():
        try:
            budget = budget_use(ledger)
        except LedgerError as error:
            absent["budget"] = f"the ledger is refused: {error.what.rpartition(': ')[2]}"
    model = found.get("model") or {}
    read = RunReport(
        name=name,
        kind=str(information["command"]),
        model=_model_name(information, model),
        corpus=_corpus_name(information),
        origin=_origin(run, information, found, trained, with_fingerprints=with_fingerprints),
        base=(found.get("base") or {}).get("name"),
        findings=findings,
        comparisons=comparisons,
        guarantee=guarantee,
        other_guarantees=read_other_guarantees(results.get("guarantees") or {}, guarantee, where=RUN),
        confidence=found.get("confidence"),
        utility=_utility(results),
        plan=tuple(_plan_line(line) for line in found.get("attacks", [])),
        gate=tuple(_gate_line(line, findings) for line in found.get("gate", [])),
        notes=(*(f"{note}." for note in found.get("notes", [])), *_not_held_out(results)),
        risk_map=None if not risk_map else _risk_map(risk_map, facts),
        roc=tuple(curve for document in _scored(run, found) for curve in roc_curves(document)),
        exposures=tuple(_exposure(one) for one in exposures.get("exposures", [])),
        exposure_null=next((one.null for one in findings if one.metric == EXPOSURE.name), None),
        extraction=extraction_curves(risk_map, confidence=_CONFIDENCE) if risk_map else (),
        leakage=leakage,
        budget=budget,
        policies=_policies(_document(run, "scan.json")),
        update=_update(found),
    )
    return only_absent(read, absent)


def _document(run: RunDirectory, name: str, *, version: int = SCHEMA_VERSION) -> dict[str, Any]:
    """A document of the run, empty where there is none; one of an unknown version is refused."""
    path = run.path / name
    if not path.is_file():
        return {}
    if name in SCHEMAS:
        return read_valid(path)
    document = read_document(path)
    check_schema(document, version, kind=name)
    return document


def _scored(run: RunDirectory, found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What each attack of the plan that scored members and others wrote, `membership` and its like."""
    for name in dict.fromkeys(str(line["attack"]) for line in found.get("attacks", [])):
        document = _document(run, f"{name}.json") if name.isidentifier() else {}  # never a path
        if "is_member" in document and "scores" in document:
            yield document


def _training_run(run: RunDirectory, information: dict[str, Any]) -> RunDirectory | None:
    """The run that trained the model: this one, or the one that an audit names, where it is still there."""
    if information["command"] == "train" or run.ledger.is_file():
        return run
    source = information.get("config", {}).get("model")
    if not isinstance(source, str):
        return None
    folder = Path(source).expanduser()
    for place in (folder, folder.parent if folder.name == "model" else folder):
        if (place / RUN).is_file():
            return RunDirectory.open(place)
    return None


def _guarantee(run: RunDirectory, found: dict[str, Any], trained: RunDirectory | None) -> Guarantee | None:
    """What was proved: as the audit recorded it, else as it stands beside the weights."""
    if "guarantee" in found:
        document = found["guarantee"]
        return None if document is None else stated(document, where=str(run.path / FINDINGS))
    for place in (run, trained):
        if place is not None and place.model.is_dir():
            return proved_of(place.model)
        if place is not None and (place.path / GUARANTEE).is_file():  # a training that is not finished
            return require_derivable(read_certificate(place.path).guarantee, where=str(place.path / GUARANTEE))
    return None


def _findings(
    found: dict[str, Any], guarantee: Guarantee | None
) -> tuple[tuple[Finding, ...], tuple[Comparison, ...]]:
    findings = tuple(Finding.from_json(entry) for entry in found.get("findings", []))
    if guarantee is None:
        return findings, ()
    return findings, tuple(
        _comparison(entry, findings[entry["finding"]], guarantee) for entry in found.get("comparisons", [])
    )


def _comparison(entry: dict[str, Any], finding: Finding, guarantee: Guarantee) -> Comparison:
    """A comparison as it was recorded; one that an older version wrote says neither the greatest value nor why."""
    greatest = entry["greatest"] if "greatest" in entry else greatest_value(finding.metric)
    ceiling = None if entry["ceiling"] is None else number_from_json(entry["ceiling"])
    return Comparison(finding, guarantee, ceiling, number_from_json(greatest), entry.get("reason", ""))


def _absences(information: dict[str, Any], found: dict[str, Any]) -> dict[str, str]:
    """Why a section may be empty, in the words of the plan where it has some."""
    command = information["command"]
    if "attacks" not in found:
        no_audit = f"this is a run of “{command}”; only an audit measures it"
        keys = ("findings", "risk", "roc", "exposure", "extraction", "plan")
        absent = dict.fromkeys(keys, no_audit)
    else:
        names = {"risk": "lazy", "roc": "membership", "exposure": "exposure", "extraction": "lazy"}
        absent = {key: _why_no_data(attack, found["attacks"]) for key, attack in names.items()}
        absent["findings"] = "no attack of the plan measured anything"
    absent["policies"] = "no scan of labelled text is among these runs"
    absent["update"] = (
        "no phrase was found" if "updates" in found else "a single snapshot; reticent diff compares two"
    )
    absent["budget"] = "no ledger beside this run: nothing was charged, or the training run is elsewhere"
    return absent


def _why_no_data(attack: str, plan: list[dict[str, Any]]) -> str:
    """Why an attack left nothing to draw: not asked for, skipped, or run with another result."""
    lines = [line for line in plan if line["attack"] == attack]
    if not lines:
        return f"the attack “{attack}” was not requested"
    skipped = [str(line["skipped"]) for line in lines if line["skipped"]]
    return skipped[0] if skipped else f"the attack “{attack}” ran and its results are not in the run directory"


def _corpus_name(information: dict[str, Any]) -> str:
    """The training text's file name, as the run's configuration has it."""
    config = information.get("config", {})
    data = config.get("data")
    named = config.get("train") or (data.get("file") if isinstance(data, dict) else data)
    return Path(str(named)).name if named else ""


def _model_name(information: dict[str, Any], model: dict[str, Any]) -> str:
    if "name" in model:
        return str(model["name"])
    if snapshots := information.get("config", {}).get("snapshots"):
        return " → ".join(str(each) for each in snapshots)
    named = information.get("config", {}).get("model")
    if isinstance(named, dict):
        method = information["config"].get("training", {}).get("method", "")
        return f"{named.get('source', '')}, {method}".strip(", ")
    return str(named or information.get("config", {}).get("file", "–"))


def _utility(results: dict[str, Any]) -> tuple[Utility, ...]:
    """Perplexity and top-1 accuracy; an evaluation that an older version wrote has intervals that say nothing."""
    whole = results.get("evaluation") or {}
    outside = whole.get("outside") or {}
    names = (
        (whole, "perplexity", "held-out perplexity", (1.0, "inf")),
        (outside, "perplexity", "held-out perplexity outside secrets", (1.0, "inf")),
        (whole, "top1", "held-out top-1 accuracy", (0.0, 1.0)),
    )
    found = []
    for evaluation, key, words, unknown in names:
        if key in evaluation:
            low, high = (number_from_json(end) for end in evaluation.get(f"{key}_interval", unknown))
            value = number_from_json(evaluation[key])
            found.append(Utility(name=words, value=value, low=low, high=high, n=evaluation["tokens"]))
    return tuple(found)


def _not_held_out(results: dict[str, Any]) -> tuple[str, ...]:
    """How many of the texts that usefulness was measured on were trained on."""
    seen = (results.get("evaluation") or {}).get("trained_on", 0)
    said = f"{seen:,} of the texts that usefulness was measured on {'was' if seen == 1 else 'were'} trained on."
    return (said,) if seen else ()


def _plan_line(line: dict[str, Any]) -> PlanLine:
    return PlanLine(
        attack=line["attack"], needs=line["needs"], n=line["n"], seconds=line["seconds"], skipped=line["skipped"]
    )


def _gate_line(line: dict[str, Any], findings: Sequence[Finding]) -> GateLine:
    """A limit as it was recorded; of one that an older version wrote the outcome is worked out again."""
    if "outcome" not in line:
        limit = read_limit(line["limit"])
        line = GateResult(limit, tuple(one for one in findings if one.metric == limit.metric)).to_json()
    return fields_from_json(GateLine, line | {"by": [one["attack"] for one in line["by"]]}, ignores_others=True)


def _risk_map(document: dict[str, Any], facts: Facts) -> RiskMap:
    """The map, as the audit drew it."""
    groups = []
    for group in document["groups"]:
        columns = [[number_from_json(v) for v in group[key]] for key in ("emission", "log_chance", "calibrated")]
        proved = [
            [number_from_json(v) for v in group[key]] if key in group else [None] * len(group["ids"])
            for key in ("epsilon", "log_proved")
        ]
        points = tuple(
            RiskPoint(
                id=name,
                tokens=tokens,
                emission=emission,
                log_chance=log_chance,
                calibrated=calibrated,
                rank=rank,
                facts=facts.get(name),
                epsilon=epsilon,
                log_proved=log_proved,
            )
            for name, rank, tokens, emission, log_chance, calibrated, epsilon, log_proved in zip(
                group["ids"], group["rank"], group["tokens"], *columns, *proved, strict=True
            )
        )
        groups.append(RiskGroup(group["name"], points, group["skipped"], group["cut"]))
    return RiskMap(tuple(groups), document["samples"], document["model"], document["reference"])


def _exposure(one: dict[str, Any]) -> CanaryExposure:
    return fields_from_json(CanaryExposure, one | {"bits": math.log2(one["candidates"])}, ignores_others=True)


def _policies(scan: dict[str, Any]) -> tuple[PolicyRate, ...]:
    """Recall and precision of a scan with labels."""
    measured = scan.get("measurement")
    if not measured:
        return ()
    named = {"recall": measured["recall"], "recall of distinct secrets": measured["distinct_recall"]}
    named |= {f"recall of {kind}": rate for kind, rate in measured["recall_by_kind"].items()}
    named |= {f"recall of {kind} identifiers": rate for kind, rate in measured["recall_by_identifier"].items()}
    named |= {"precision": measured["precision"]}
    return tuple(
        fields_from_json(PolicyRate, measured | rate | {"what": what}, ignores_others=True)
        for what, rate in named.items()
    )


def _update(found: dict[str, Any]) -> tuple[UpdatePhrase, ...]:
    """The numbers of the phrases that a comparison of snapshots found; their text is left where it is."""
    return tuple(
        fields_from_json(UpdatePhrase, one | {"update": f"{place + 1}"}, ignores_others=True)
        for place, update in enumerate(found.get("updates", []))
        for one in update["phrases"][:_PHRASES]
    )


def _from_here(path: Path) -> str:
    """The path seen from the working directory; the folder's name where it lies elsewhere."""
    place, here = path.resolve(), Path.cwd()
    return place.relative_to(here).as_posix() if place.is_relative_to(here) else place.name


def _origin(
    run: RunDirectory,
    information: dict[str, Any],
    found: dict[str, Any],
    trained: RunDirectory | None,
    *,
    with_fingerprints: bool,
) -> Origin:
    """How to make it again. Fingerprints of corpora only if asked for: guesses can be tested by them."""
    models = {"model": found.get("model"), "base model": found.get("base")}
    fingerprints = {name: one["fingerprint"] for name, one in models.items() if one}
    for name, value in information.get("corpora", {}).items():
        fingerprints[f"the {name} text"] = (
            value if with_fingerprints else "in run.json (--fingerprints shows it here)"
        )
    return Origin(
        command=command_of(information, run.path),
        started=str(information["started"]),
        finished=str(information["finished"] or ""),
        seed=information.get("seed"),
        versions=information.get("versions", {}),
        fingerprints=fingerprints,
        sources=tuple(sorted(path.name for path in run.path.glob("*.json"))),
        folder=_from_here(run.path),
        trained_in="" if trained is None else str(trained.path.resolve()),
    )
