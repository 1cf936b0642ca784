"""`reticent audit` as a call: options in; plan, attacks, gate and run directory out."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import Subject, make_subject
from reticent.core.errors import ConfigError, UsageError
from reticent.core.finding import Comparison, Finding
from reticent.core.metric import shown_interval, shown_value
from reticent.core.printing.numbers import counted, per_cent
from reticent.core.printing.safe_text import for_html
from reticent.data.canaries import read_key
from reticent.data.coin_canaries import read_coins
from reticent.runs.audit.attacking import (
    Audit,
    Observer,
    audit_to_json,
    is_cacheable,
    run_audit,
    score_key,
    start_run,
    write_audit,
)
from reticent.runs.audit.gate import GateResult, LimitKind, check_gate, check_known, parse_limit
from reticent.runs.audit.plan import AuditPlan, measure_speed, plan_audit, share_error, try_attack
from reticent.runs.audit.score_cache import ScoreCache, default_folder
from reticent.runs.audit.settings import AuditSettings
from reticent.runs.audit.shards import sharded_subject
from reticent.runs.audit.subject import check_held_out, open_models
from reticent.runs.experiment_log import opened_log

if TYPE_CHECKING:
    import pandas

# Shown the plan before the work; what it returns watches the attacks while it is open.
Watch = Callable[[AuditPlan, Subject], AbstractContextManager[Observer]]


def unwatched(_plan: AuditPlan, _subject: Subject) -> AbstractContextManager[Observer]:
    """No observer is attached."""
    return nullcontext(lambda _, __: None)


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What an audit found, how the gate decided, and where everything is written."""

    audit: Audit
    gate: tuple[GateResult, ...]
    subject: Subject
    settings: AttackSettings
    path: Path

    @property
    def fails(self) -> bool:
        """Whether a guarantee was refuted or the gate stays closed."""
        return bool(self.audit.refuted) or any(result.fails for result in self.gate)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that was measured."""
        return self.audit.findings

    @property
    def refuted(self) -> tuple[Comparison, ...]:
        """Comparisons in which more leaked than was proved possible."""
        return self.audit.refuted

    def exceeds(self, limit: str) -> bool:
        """Whether the whole interval of a metric lies beyond a limit such as "auc>0.6", as --fail-if has it.

        A metric that was not measured is an error.
        """
        (result,) = check_gate(
            [parse_limit(limit, LimitKind.FAIL_IF)], self.findings, missing=self.audit.why_missing
        )
        return result.fails

    def meets(self, requirement: str) -> bool:
        """Whether the whole interval of a metric lies within a limit such as "auc<=0.6", as --require has it.

        A metric that was not measured does not meet it.
        """
        limit = parse_limit(requirement, LimitKind.REQUIRE)
        (result,) = check_gate([limit], self.findings, missing=self.audit.why_missing)
        return not result.fails

    def summary(self) -> str:
        """One line a usable finding: what was measured, its interval, n and what was proved possible."""
        lines = []
        for metric, attack, value, interval, n, allowed in self._rows():
            proved = f", proved at most {allowed}" if allowed else ""
            lines.append(f"{metric} ({attack}): {value} ({interval}), n = {n}{proved}")
        return "\n".join(lines)

    def to_frame(self) -> "pandas.DataFrame":
        """The findings as a table of pandas, one row each, with the ceiling of what was proved beside it."""
        try:
            import pandas
        except ImportError:
            raise UsageError("a table of findings needs pandas", hint="pip install pandas") from None
        ceilings = self._ceilings()
        rows = [
            {
                "attack": one.attack,
                "metric": one.metric,
                "value": one.value,
                "low": one.low,
                "high": one.high,
                "n": one.n,
                "null": one.null,
                "ceiling": ceilings.get(id(one)),
                "unit": one.unit.value,
                "void": one.void,
            }
            for one in self.findings
        ]
        return pandas.DataFrame(rows)

    def report(self, out: Path | str) -> Path:
        """Write the audit as one self-contained page, and its Markdown beside it; the page's path."""
        from reticent.runs.report.run import ReportSettings, report

        return report(ReportSettings.of(runs=[str(self.path)], out=str(out))).page

    def _repr_html_(self) -> str:
        """A short table for notebooks: what was measured beside what was proved, and how sure the intervals are."""
        cells = "".join(f"<tr>{''.join(f'<td>{for_html(cell)}</td>' for cell in row)}</tr>" for row in self._rows())
        columns = ("metric", "attack", "measured", "interval", "n", "proved at most")
        heads = "".join(f"<th>{head}</th>" for head in columns)
        void = sum(bool(one.void) for one in self.findings)
        unused = f" {counted(void, 'void finding')} left out." if void else ""
        caption = f"All intervals hold together at {per_cent(self.settings.confidence)} confidence.{unused}"
        return (
            f"<table><caption>{for_html(caption)}</caption><thead><tr>{heads}</tr></thead>"
            f"<tbody>{cells}</tbody></table>"
        )

    def _ceilings(self) -> dict[int, float | None]:
        """What the guarantee allows each finding, by the finding's identity."""
        return {id(one.finding): one.ceiling for one in self.audit.comparisons}

    def _rows(self) -> list[tuple[str, ...]]:
        ceilings = self._ceilings()
        rows: list[tuple[str, ...]] = []
        for one in (each for each in self.findings if not each.void):
            ceiling = ceilings.get(id(one))
            allowed = "" if ceiling is None else shown_value(one.metric, ceiling, side="up")
            interval = shown_interval(one.metric, one.low, one.high)
            rows.append(
                (one.metric, one.attack, shown_value(one.metric, one.value), interval, f"{one.n:,}", allowed)
            )
        return rows

    def to_json(self) -> dict[str, Any]:
        """The document of findings.json, the place of the run and what came from the cache."""
        document = audit_to_json(self.audit, subject=self.subject, settings=self.settings, gate=self.gate)
        return document | {"run": str(self.path), "cached": list(self.audit.cached)}


def audit(options: AuditSettings, *, watch: Watch = unwatched) -> AuditResult:
    """Plan the attacks, run them, set what they find beside what was proved, and write the run directory."""
    options.check_paths()
    place = options.log_place
    limits, subject = options.limits(), _subject(options)
    settings = share_error(subject, options.attack_settings())
    scores = None
    if not options.no_cache and not settings.reveal and is_cacheable(subject):
        scores = ScoreCache(default_folder() if options.cache is None else options.cache)

    def is_cached(name: str, sizes: Sizes) -> bool:
        return scores is not None and scores.has(score_key(name, subject, settings, sizes=sizes))

    trial = partial(try_attack, subject, settings)
    plan = plan_audit(subject, settings, measure_speed(subject), is_cached=is_cached, trial=trial)
    with watch(plan, subject) as observe:
        if not plan.running:
            raise ConfigError("no attack can run here", found="; ".join(line.skipped for line in plan.attacks))
        check_known(limits, (*plan.metrics, *(one.metric for one in subject.measured)))
        config = options.recorded(None if subject.base is None else subject.base.name)
        run = start_run(options.out, subject=subject, settings=settings, config=config)
        with opened_log(place, options.out.name) as log, sharded_subject(subject, settings.engine) as shared:
            found = run_audit(shared, plan, settings=settings, cache=scores, observe=observe)
            log.found(found.findings, found.comparisons)
    try:
        gate = tuple(check_gate(limits, found.findings, missing=found.why_missing))
    except ConfigError:
        write_audit(run, found, subject=subject, settings=settings)
        raise
    write_audit(run, found, subject=subject, settings=settings, gate=gate)
    if options.junit is not None or options.sarif is not None:
        from reticent.runs.report.reading import read_report

        options.write_gate(read_report([options.out]))
    return AuditResult(found, gate, subject, settings, options.out)


def _subject(options: AuditSettings) -> Subject:
    """Everything the audit looks at; files first, since they fail sooner than models."""
    training, held_out = (options.corpus(path).load() for path in (options.train, options.holdout))
    check_held_out(options.model, held_out, options.holdout)
    coins = None if options.canaries is None else read_coins(options.canaries)
    planted = () if options.canaries is None or coins is not None else read_key(options.canaries)
    opened = open_models(
        options.model, options.base, chat=options.chat, tokenizer=options.tokenizer, journal=options.journal
    )
    return make_subject(
        opened.model,
        opened.base,
        training=training,
        held_out=held_out,
        canaries=planted,
        coins=coins,
        place=opened.place,
    )
