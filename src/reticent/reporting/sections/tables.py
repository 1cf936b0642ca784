"""The tables of a report: records and what to do, findings, policies, updates, what is missing, how to repeat."""

from collections import Counter
from typing import Final

from reticent.core.metric import scale_of, words_of
from reticent.core.printing.numbers import MISSING, Scale, interval, one_in, per_cent, rounded_count, shown
from reticent.reporting.actions import worst_records
from reticent.reporting.content import Absent, Block, Cell, Heading, Lines, Section, cell, table
from reticent.reporting.questions import answer_of
from reticent.reporting.report import Report, RiskPoint, RunReport
from reticent.reporting.sections.charts import for_every_run
from reticent.reporting.sections.first_screen import why_nothing_was_measured

_AMONG_ITS_KIND: Final = {True: "stands out", False: "like held-out text", None: "no held-out records"}

_PROVED: Final = (
    "“Proved at most” follows from the ε that training proved of the text, with all of its copies, by its own "
    "gradients: e^ε times the chance without it (estimated from the base model and held-out texts) plus δ. "
    "These two columns depend on the records and are as private as they are."
)


def records_section(report: Report) -> Section:
    """The records most at risk, with suggested actions."""
    lead = (
        "The training texts most at risk: those that the model is likeliest to say, whole or in part, because of "
        "training on them. Texts that the base model, or a model of similar text, would produce as well come last. "
        "Listed by id, with a suggested action. “Stands out”: more likely to be emitted, or better "
        "known relative to the base model, token for token, than 97.5\u00a0% of the held-out texts; one text in "
        "twenty does so by chance."
    )
    return Section("records", "Records and what to do", lead, for_every_run(report, "risk", _records))


def _records(run: RunReport, _: str) -> Block | None:
    advised = worst_records(run)
    if not advised or run.risk_map is None:
        return None
    is_proved = any(one.point.log_proved is not None for one in advised)
    rows = [
        (
            cell(one.point.id),
            cell(one.copies),
            cell(one.point.tokens),
            Cell(one_in(one.point.log_chance), one.point.log_chance),
            *(_proved(one.point) if is_proved else ()),
            Cell(f"{shown(one.point.calibrated)} nats", one.point.calibrated),
            cell(_AMONG_ITS_KIND[one.stands_out], tone="found" if one.stands_out else ""),
            cell("not shown" if one.point.facts is None else one.point.facts.masked[:64]),
            cell(" ".join(one.actions)),
        )
        for one in advised
    ]
    columns = (
        "record",
        "copies",
        "tokens",
        f"chance in {rounded_count(run.risk_map.samples)} samples",
        *(("proved at most", "ε of this text") if is_proved else ()),
        "loss minus base loss",
        "compared with held-out",
        "masked text",
        "suggested action",
    )
    note = (
        ""
        if any(one.point.facts for one in advised)
        else "With --corpus FILE, the list also shows copies and kinds of secrets."
    )
    return table("Texts most at risk", columns, rows, note=" ".join(filter(None, (_PROVED * is_proved, note))))


def _proved(point: RiskPoint) -> tuple[Cell, Cell]:
    """The chance that is proved at most, and the ε that it follows from."""
    if point.log_proved is None or point.epsilon is None:
        return cell(MISSING), cell(MISSING)
    return (
        Cell(one_in(point.log_proved, side="up"), point.log_proved),
        Cell(shown(point.epsilon, side="up"), point.epsilon),
    )


def findings_section(report: Report) -> Section:
    """Every finding, void ones too."""
    rows = []
    for run in report.runs:
        for one in run.findings:
            scale, ceiling = scale_of(one.metric), run.ceiling(one)
            verdict = f"void: {one.void}" if one.void else answer_of(run, one).value
            rows.append(
                (
                    *([cell(run.name)] if len(report.runs) > 1 else []),
                    cell(words_of(one.metric)),
                    cell(one.attack),
                    Cell(shown(one.value, scale), one.value),
                    cell(interval(one.low, one.high, scale)),
                    cell(one.n),
                    Cell(shown(one.null, scale), one.null),
                    Cell(shown(ceiling, scale, side="up"), ceiling),
                    cell(verdict, tone="" if one.void else answer_of(run, one).name.lower()),
                    cell("; ".join(one.notes) or MISSING),
                )
            )
    columns: tuple[str, ...] = (
        "metric",
        "attack",
        "value",
        "interval",
        "n",
        "without leakage",
        "proved at most",
        "verdict",
        "notes",
    )
    if len(report.runs) > 1:
        columns = ("run", *columns)
    blocks: tuple[Block, ...] = (
        (table("All findings", columns, rows),)
        if rows
        else (Absent("No findings", why_nothing_was_measured(report), said=""),)
    )
    lead = "Every number with its interval, the number of targets (n), its null and its proved bound."
    return Section("findings", "All findings", lead, blocks)


def policies_section(report: Report) -> Section:
    """How much of the secrets the policies find."""
    lead = (
        "How much of the sensitive text a policy finds, measured on labelled text. What it misses is not redacted."
    )
    return Section("policies", "Policy recall", lead, for_every_run(report, "policies", _policies))


def _policies(run: RunReport, _: str) -> Block | None:
    if not run.policies:
        return None
    rows = [
        (
            cell(rate.policy),
            cell(rate.what),
            Cell(shown(rate.value, Scale.SHARE), rate.value),
            cell(f"{interval(rate.low, rate.high, Scale.SHARE)} ({per_cent(rate.confidence)})"),
            cell(rate.trials),
        )
        for rate in run.policies
    ]
    return table("Policies", ("policy", "what", "value", "interval", "n"), rows)


def update_section(report: Report) -> Section:
    """What an update reveals."""
    lead = "What the change from one model snapshot to the next reveals about the text that was added."
    return Section("update", "Update", lead, for_every_run(report, "update", _update))


def _update(run: RunReport, _: str) -> Block | None:
    if not run.update:
        return None
    said = {True: "above it", False: "not above it", None: MISSING}
    rows = [
        (
            cell(one.update),
            cell(one.number),
            Cell(shown(one.bits, Scale.BITS), one.bits),
            Cell(shown(one.score, digits=4), one.score),
            cell(said[one.is_above_null], tone="found" if one.is_above_null else ""),
            cell(MISSING if one.records is None else ", ".join(one.records[:5]) or "in no added record"),
        )
        for one in run.update
    ]
    columns = ("update", "phrase", "bits gained", "differential score", "null", "records that contain it")
    note = "Phrases are corpus text, so no report shows them. Findings and their intervals are under All findings."
    return table(f"The {len(rows)} phrases that changed most", columns, rows, note=note)


_SHORT: Final = 8  # lines that are read without being asked for


def untested_section(report: Report) -> Section:
    """What was not measured: one list for all runs, each line once, with what would measure it."""
    lines: dict[str, list[str]] = {}
    for run in report.runs:
        for said in (*_skipped(run), *_unseen(run), *run.notes):
            lines.setdefault(said, []).append(run.name)
    several = len(report.runs) > 1
    named = [
        f"{', '.join(names)}: {said}" if several and len(names) < len(report.runs) else said
        for said, names in lines.items()
    ]
    lead = "An absence in this report is not evidence. What was skipped or could not be measured:"
    items = Lines((*named, "Attacks that nobody has thought of yet."))
    return Section("untested", "What was not measured", lead, (items,), is_folded=len(named) > _SHORT)


def _skipped(run: RunReport) -> tuple[str, ...]:
    skipped = [line for line in run.plan if line.skipped]
    planned = [
        f"The attack “{_in_words(line.attack)}”, which needs {line.needs}: {line.skipped}." for line in skipped
    ]
    told = {line.attack.rpartition(": ")[2] for line in skipped}  # metrics that the plan has said are void
    reasons = Counter(one.void for one in run.findings if one.void and one.metric not in told)
    return (*planned, *(f"{count} void measurement{'s' * (count > 1)}: {why}." for why, count in reasons.items()))


def _in_words(attack: str) -> str:
    """An attack's name in a plan; what it measures, where that is named, in words."""
    name, colon, metric = attack.partition(": ")
    return f"{name}{colon}{words_of(metric)}" if colon else name


_MEASURED_BY: Final = {
    "exposure": ("Planted secrets", "reticent plant before training, then reticent audit --canaries FILE"),
    "roc": ("Membership", "--attacks membership"),
    "risk": ("Risk of each record", "--attacks lazy"),
    "policies": ("Policy recall", "reticent scan FILE --labels --out RUN"),
    "leakage": ("A bound on leaked bits", "training with a guarantee"),
    "budget": ("Budget over time", "the ledger beside a run with a guarantee"),
    "update": ("What an update reveals", "reticent diff"),
}


def _unseen(run: RunReport) -> tuple[str, ...]:
    return tuple(
        f"{what}: {run.absent[key]}. Measured by: {by}."
        for key, (what, by) in _MEASURED_BY.items()
        if key in run.absent
    )


def reproduce_section(report: Report) -> Section:
    """Commands, versions, seeds, fingerprints."""
    blocks: list[Block] = []
    for run in report.runs:
        origin = run.origin
        if len(report.runs) > 1:
            blocks.append(Heading(run.name))
        blocks.append(Lines((origin.command,), is_code=True))
        seed = MISSING if origin.seed is None else str(origin.seed)
        facts = {"type of run": run.kind, "model": run.model, "base": run.base or MISSING, "seed": seed}
        facts |= {"started": origin.started, "finished": origin.finished or "not finished"}
        facts |= {f"fingerprint of {name}": value for name, value in origin.fingerprints.items()}
        facts |= {f"version of {name}": value for name, value in origin.versions.items()}
        facts["read from"] = ", ".join(origin.sources)
        rows = [(cell(name), cell(value)) for name, value in facts.items()]
        blocks.append(table("Run details", ("what", "value"), rows))
    lead = "The command, versions, seeds and fingerprints of what was read. Paths are as the run recorded them."
    return Section("reproduce", "How to reproduce", lead, tuple(blocks))
