"""`reticent audit`: run attacks on a model, set what they find beside what was proved, and gate on it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.cli.console import Output, table
from reticent.cli.options import (
    AsJson,
    CorpusFormat,
    EngineChoice,
    IdField,
    OwnerField,
    RayAddress,
    SkipEmpty,
    TextField,
    Workers,
    engine_of,
)
from reticent.core.errors import ConfigError
from reticent.core.ranges import SEED
from reticent.runs.corpora import corpus_at
from reticent.runs.policies import POLICY_HELP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.progress import Progress

    from reticent.audit.attack import PlannedAttack
    from reticent.audit.settings import AuditSettings, Sizes
    from reticent.audit.subject import Subject
    from reticent.core.finding import Comparison, Finding
    from reticent.runs.audit.gate import GateResult
    from reticent.runs.audit.plan import AuditPlan
    from reticent.runs.audit.remote import RemoteAccess
    from reticent.runs.audit.run import Audit, Observer

_CORPUS = "Corpus"


def audit(
    model: Annotated[
        str,
        typer.Argument(
            help="Directory, hub id, run directory, 'embedded', or http://host:port#name of a server.",
            metavar="MODEL",
        ),
    ],
    train: Annotated[Path, typer.Option("--train", help="Corpus the model was trained on.", metavar="FILE")],
    holdout: Annotated[
        Path, typer.Option("--holdout", help="Corpus of the same kind that it never saw.", metavar="FILE")
    ],
    out: Annotated[Path, typer.Option("--out", help="Run directory to write.", metavar="DIR")],
    base: Annotated[
        str | None,
        typer.Option("--base", help="Model that training started from; a run says it itself.", metavar="MODEL"),
    ] = None,
    canaries: Annotated[
        Path | None, typer.Option("--canaries", help="Key file of planted canaries.", metavar="FILE")
    ] = None,
    attacks: Annotated[
        str,
        typer.Option(
            "--attacks",
            help="all (exposure,codes,membership,lazy,extraction,generation), or some of them; "
            "only where named: neighbourhood,shadow,novelty,divergence,pii.",
        ),
    ] = "all",
    records: Annotated[
        int, typer.Option("--records", help="Most targets of either side, drawn by the seed.", min=2, metavar="N")
    ] = 1000,
    samples: Annotated[
        int, typer.Option("--samples", help="How often the lazy attacker draws.", min=1, metavar="N")
    ] = 1_000_000,
    by_coin: Annotated[
        bool,
        typer.Option("--by-coin", help="Each record was trained on or held out by its own fair coin: bound ε."),
    ] = False,
    budget: Annotated[
        str | None, typer.Option("--budget", help="Time for the attacks: 90s, 10m, 2h.", metavar="TIME")
    ] = None,
    shadow_models: Annotated[
        int,
        typer.Option("--shadow-models", help="Models to train for the attack 'shadow'.", min=2, metavar="N"),
    ] = 8,
    policy: Annotated[
        str, typer.Option("--policy", help=f"Tags personal data for the attack 'pii': {POLICY_HELP}")
    ] = "patterns",
    require: Annotated[
        list[str] | None,
        typer.Option(
            "--require",
            help='Release gate: exit with 1 unless the whole interval is within "METRIC<=NUMBER". Repeatable.',
            metavar="LIMIT",
        ),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-if",
            help='Alarm: exit with 1 if the whole interval is beyond "METRIC>NUMBER". Repeatable.',
            metavar="LIMIT",
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option("--cache", help="Keeps scores between runs (in the user's cache folder).", metavar="DIR"),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Measure everything anew, keep nothing.")] = False,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            "--tokenizer", help="Directory of a served model's tokenizer, where its server has none.", metavar="DIR"
        ),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            "--journal",
            help="Keeps a served model's scores as they come: an audit that was cut off goes on.",
            metavar="FILE",
        ),
    ] = None,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Write the texts and secrets that were found to revealed.json.")
    ] = False,
    seed: Annotated[
        int,
        typer.Option(
            "--seed", help="Seed of samples, so that it can be repeated.", min=0, max=int(SEED.high), metavar="N"
        ),
    ] = 0,
    text_field: TextField = "text",
    id_field: IdField = "id",
    owner_field: OwnerField = "owner",
    format: CorpusFormat = None,
    skip_empty: SkipEmpty = False,
    engine: EngineChoice = None,
    workers: Workers = None,
    ray_address: RayAddress = None,
    as_json: AsJson = False,
) -> int:
    """Run attacks on a model and compare what they find with the guarantee beside its weights.

    Exit code 1 if a finding refutes the guarantee, a --require limit is not met (exceeded, undecided or not
    measured) or a --fail-if limit is exceeded.
    """
    from reticent.audit.settings import AuditSettings, Sizes, parse_budget
    from reticent.runs.audit.gate import asked_rates, parse_limits
    from reticent.runs.audit.registry import parse_attacks
    from reticent.runs.audit.remote import RemoteAccess

    limits = parse_limits(require, fail_if)
    defaults = AuditSettings()
    settings = AuditSettings(
        attacks=parse_attacks(attacks),
        sizes=Sizes(
            records=records,
            extraction_records=min(records, defaults.sizes.extraction_records),
            texts=min(records, defaults.sizes.texts),
        ),
        samples=samples,
        rates=tuple(dict.fromkeys((*defaults.rates, *asked_rates(limits)))),
        budget=None if budget is None else parse_budget(budget),
        seed=seed,
        by_coin=by_coin,
        shadow_models=shadow_models,
        policy=policy,
        reveal=reveal,
        engine=engine_of(engine, workers, ray_address),
    )
    if no_cache and cache is not None:
        raise ConfigError("--cache and --no-cache contradict each other")
    from reticent.runs.directory import RunDirectory

    RunDirectory.create(out)  # refuses a folder that holds anything, before the work
    fields: dict[str, Any] = {
        "text": text_field,
        "id": id_field,
        "owner": owner_field,
        "format": format,
        "skip_empty": skip_empty,
    }
    remote = None if tokenizer is None and journal is None else RemoteAccess(tokenizer=tokenizer, journal=journal)
    subject = _subject((model, base), train=train, holdout=holdout, canaries=canaries, fields=fields, remote=remote)
    config = {
        "model": model,
        "base": None if subject.base is None else subject.base.name,
        "train": str(train),
        "holdout": str(holdout),
        "canaries": None if canaries is None else str(canaries),
        "attacks": list(settings.attacks or ()),
        "records": records,
        "samples": samples,
        "by_coin": by_coin,
        "budget": budget,
        "shadow_models": shadow_models,
        "policy": policy,
        "reveal": reveal,
        "require": list(require or []),
        "fail_if": list(fail_if or []),
    }
    return _run(subject, settings, Output(as_json=as_json), out=out, config=config, cache=(cache, no_cache))


def _subject(
    named: tuple[str, str | None],
    *,
    train: Path,
    holdout: Path,
    canaries: Path | None,
    fields: dict[str, Any],
    remote: "RemoteAccess | None",
) -> "Subject":
    """Everything the audit looks at; files first, since they fail sooner than models."""
    from reticent.audit.subject import make_subject
    from reticent.data.canaries import read_key
    from reticent.models.huggingface.location import locate
    from reticent.runs.audit.remote import is_remote
    from reticent.runs.audit.subject import find_model, open_models

    model, base = named
    find_model(model)
    training, held_out = (corpus_at(path, **fields).load() for path in (train, holdout))
    planted = () if canaries is None else read_key(canaries)
    for name in (model, base):
        if name is not None and not is_remote(name):
            locate(name)  # a path that leads nowhere is said before torch is loaded
    opened = open_models(model, base, remote)
    return make_subject(
        opened.model,
        opened.base,
        training=training,
        held_out=held_out,
        canaries=planted,
        place=opened.place,
    )


def _run(
    subject: "Subject",
    settings: "AuditSettings",
    output: Output,
    *,
    out: Path,
    config: dict[str, Any],
    cache: tuple[Path | None, bool],
) -> int:
    """Plan, show the plan, work, write, show."""
    from reticent.runs.audit.gate import check_gate, check_known, parse_limits
    from reticent.runs.audit.plan import measure_speed, plan_audit, share_error
    from reticent.runs.audit.run import audit_to_json, is_cacheable, run_audit, score_key, start_run, write_audit
    from reticent.runs.audit.score_cache import ScoreCache, default_folder
    from reticent.runs.audit.shards import sharded_subject

    settings = share_error(subject, settings)
    limits = parse_limits(config["require"], config["fail_if"])
    folder, is_off = cache
    scores = None
    if not is_off and not settings.reveal and is_cacheable(subject):
        scores = ScoreCache(default_folder() if folder is None else folder)

    def is_cached(name: str, sizes: "Sizes") -> bool:
        return scores is not None and scores.has(score_key(name, subject, settings, sizes=sizes))

    plan = plan_audit(subject, settings, measure_speed(subject), is_cached=is_cached)
    output.show(*_plan_lines(plan, subject.notes))
    if not plan.running:
        raise ConfigError("no attack can run here", found="; ".join(line.skipped for line in plan.attacks))
    check_known(limits, plan.metrics)
    run = start_run(out, subject=subject, settings=settings, config=config)
    with output.progress() as bars, sharded_subject(subject, settings.engine) as shared:
        found = run_audit(shared, plan, settings=settings, cache=scores, observe=_observer(bars, plan))
    try:
        gate = check_gate(limits, found.findings, missing=found.why_missing)
    except ConfigError:
        write_audit(run, found, subject=subject, settings=settings)
        raise
    write_audit(run, found, subject=subject, settings=settings, gate=gate)
    document = audit_to_json(found, subject=subject, settings=settings, gate=gate)
    output.document(document | {"run": str(out), "cached": list(found.cached)})
    output.show(*_result_lines(found, gate, settings, out))
    if not found.findings:
        raise ConfigError("nothing was measured", found="; ".join(line.skipped for line in found.attacks))
    return int(bool(found.refuted) or any(result.fails for result in gate))


def _observer(bars: "Progress", plan: "AuditPlan") -> "Observer":
    """Two bars: the attacks of the plan, and the targets of the one that runs."""
    whole = bars.add_task("audit", total=len(plan.running), status="")
    inside = bars.add_task("", total=None, status="targets")
    names = [line.name for line in plan.running]

    def observe(line: "PlannedAttack", share: float) -> None:
        bars.update(whole, completed=names.index(line.name), status=line.name)
        bars.update(inside, description=line.name, total=line.n, completed=int(share * line.n))

    return observe


def _plan_lines(plan: "AuditPlan", notes: "Sequence[str]") -> list[object]:
    """The plan as a table, with what is left out and why."""
    rows = [
        (line.name, line.needs, f"{line.n:,}", "cached" if line.is_cached else f"≈ {line.seconds:,.0f} s")
        for line in plan.running
    ]
    lines: list[object] = [
        table(f"Plan: at most about {plan.seconds:,.0f} s", ["attack", "needs", "n", "time"], rows),
        "",
    ]
    lines += [f"Skipped: {line.name}: {line.skipped}." for line in plan.attacks if line.skipped]
    return [*lines, *(f"Note: {note}." for note in notes), ""]


def _result_lines(
    found: "Audit", gate: "Sequence[GateResult]", settings: "AuditSettings", out: Path
) -> list[object]:
    """The summary: every finding beside its null and its ceiling, and in words what is void or refuted."""
    from reticent.reporting.comparing import comparison_sentences

    beside = {id(one.finding): one for one in found.comparisons}
    columns = ["metric", "attack", "value", "interval", "n", "null", "ceiling", "verdict"]
    shown = [finding for finding in found.findings if not finding.void]
    lines: list[object] = [table("Findings", columns, [_row(one, beside.get(id(one))) for one in shown]), ""]
    void: dict[tuple[str, str], int] = {}
    for finding in found.findings:
        if finding.void:
            void[finding.metric, finding.void] = void.get((finding.metric, finding.void), 0) + 1
    lines += [f"Void: {metric} of {count} attacks: {reason}." for (metric, reason), count in void.items()]
    lines.append(
        f"All intervals hold together with {settings.confidence:.0%}. No finding proves that nothing leaks."
    )
    if found.cached:
        lines.append(f"From the cache: {', '.join(found.cached)}.")
    for one in found.refuted:
        lines.append(
            f"REFUTED: {one.finding.attack} measured {one.finding.metric} of at least {one.finding.low:.3g}, "
            f"where the guarantee allows {one.ceiling:.3g}."
        )
    if found.comparisons:
        lines.append(comparison_sentences(found.comparisons))
    lines += _beside_lines(found)
    lines += [result.sentence() for result in gate]
    if settings.reveal:
        lines.append(
            f"revealed.json holds {len(found.revealed):,} texts and secrets in clear: keep it to yourself."
        )
    return [*lines, f"Written to {out}."]


def _beside_lines(found: "Audit") -> list[str]:
    """Findings above the ceiling of a further guarantee, which holds for some secrets only and is not refuted."""
    from reticent.core.finding import Verdict

    return [
        f"Above the guarantee '{name}': {one.finding.attack} measured {one.finding.metric} of at least "
        f"{one.finding.low:.3g}, where it allows {one.ceiling:.3g} for {one.guarantee.covers}. "
        "Either it does not hold, or the target is none of these."
        for name, one in found.beside
        if one.verdict is Verdict.REFUTED
    ]


def _row(finding: "Finding", comparison: "Comparison | None") -> tuple[object, ...]:
    """A line of the summary."""
    ceiling = None if comparison is None else comparison.ceiling
    return (
        finding.metric,
        finding.attack,
        f"{finding.value:.3g}",
        f"{finding.low:.3g} … {finding.high:.3g}",
        f"{finding.n:,}",
        "–" if finding.null is None else f"{finding.null:.3g}",
        "–" if ceiling is None else f"{ceiling:.3g}",
        _verdict(finding, comparison),
    )


def _verdict(finding: "Finding", comparison: "Comparison | None") -> str:
    """In a word or two; never that nothing leaks, and a leak is told even where it is consistent with a ceiling."""
    above = "" if finding.standing is None else finding.standing.value
    if comparison is None or comparison.ceiling is None:
        return above or "–"
    said = comparison.verdict.value
    return f"above null, {said}" if finding.beats_null and said != "refuted" else said
