"""Every sentence of the report: a report in which it is true and said, and one in which it is false and unsaid.

`SAID` is the table. The last tests read the package's own source: a text literal that no report of this file says,
or that all of them say without being a heading or a definition, fails.
"""

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path

import pytest

import reticent.reporting
from reticent.core.finding import Comparison
from reticent.core.guarantee import Notion, Unit
from reticent.core.model import Access
from reticent.reporting.formats.annex import OPINION, render_annex
from reticent.reporting.formats.junit import render_junit
from reticent.reporting.formats.markdown import render_markdown
from reticent.reporting.formats.model_card import render_model_card
from reticent.reporting.formats.sarif import render_sarif
from reticent.reporting.outline import headline, sections
from reticent.reporting.report import GateLine, PlanLine, Report, RiskGroup, RiskMap
from reticent.reporting.sections.glossary import TERMS
from tests.reporting.sample_reports import bare_run, finding, full_run, guarantee, point, report, risk_map


def texts(value: object) -> Iterator[str]:
    """Every string in sections, tables and charts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from texts(key)
            yield from texts(each)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from texts(each)
    elif is_dataclass(value):
        for field in fields(value):
            yield from texts(getattr(value, field.name))


def said(made: Report) -> str:
    """All that a report says, headline and last line included."""
    last = render_markdown(made).splitlines()[-1]
    return "\n".join([headline(made), *texts(sections(made)), last])


def with_ceiling(ceiling: float | None, reason: str = "", **changes) -> Report:
    """A report of one finding beside a guarantee that allows it so much."""
    one, promise = finding(**changes), guarantee()
    comparison = Comparison(one, promise, ceiling, 1.0, reason)
    return report(bare_run(findings=(one,), guarantee=promise, comparisons=(comparison,)))


def with_finding(metric: str = "auc", **changes) -> Report:
    return report(bare_run(findings=(finding(metric, **changes),)))


def with_gate(option: str, outcome: str, *, fails: bool, **changes) -> Report:
    line = GateLine(option=option, limit="auc<=0.6", end="high", outcome=outcome, fails=fails, **changes)
    return report(bare_run(findings=(finding(),), gate=(line,)))


def with_map(training: RiskGroup, held_out: RiskGroup | None = None, **changes) -> Report:
    groups = (training,) if held_out is None else (training, held_out)
    return report(bare_run(absent={}, risk_map=RiskMap(groups, 10, "a model", "its base"), **changes))


LIKELY = RiskGroup("training", (point(0, log_chance=-0.01, emission=-1.0, calibrated=0.0),))
FULL, BARE = report(), report(bare_run())
SEVERAL = report(full_run("first"), full_run("second"), bare_run("third"))
TRAINING_RUN = report(
    bare_run(kind="train", absent={"plan": "this is a run of “train”", "findings": "this is a run of “train”"})
)
REFUTED, CONSISTENT, VACUOUS = with_ceiling(0.55), with_ceiling(0.75), with_ceiling(1.0)
NO_CEILING = with_ceiling(None, "no ceiling for its metric")
NOT_COMPARED = report(bare_run(findings=(finding(),), guarantee=guarantee()))
NOT_FOUND = with_finding(value=0.5, low=0.4, high=0.6)
NONE_OF_TWO = report(*(replace(NOT_FOUND.runs[0], name=name) for name in ("one", "other")))
VOID = with_finding(void="words alone tell members apart")
NO_NULL = with_finding(null=None)
WITHIN = with_gate("--require", "within", fails=False)
UNDECIDED = with_gate("--require", "undecided", fails=True, by=("loss",))
ALARM_UNDECIDED = with_gate("--fail-if", "undecided", fails=False, by=("loss",))
NOT_MEASURED = with_gate("--require", "not measured", fails=True, reason="every measurement is void: too few")
OUTSTANDING = with_map(*risk_map().groups)
STRANGE = with_map(
    *(RiskGroup(g.name, tuple(replace(p, log_chance=-50.0) for p in g.points)) for g in risk_map().groups)
)
NO_HELD_OUT = with_map(LIKELY)
COMMONPLACE = with_map(LIKELY, replace(LIKELY, name="held-out"))
UNLIKELY = with_map(RiskGroup("training", (point(0, log_chance=-50.0),)))
PROVED_EACH = with_map(RiskGroup("training", (point(0, log_chance=-50.0, epsilon=2.0, log_proved=-9.0),)))
EVERYTHING_RAN = report(bare_run(plan=(PlanLine(attack="lazy", needs="a base", n=3, seconds=1.0),)))
SKIPPED = report(bare_run(plan=(PlanLine(attack="codes", needs="canaries", n=0, seconds=0.0, skipped="no key"),)))
BESIDE = report(
    bare_run(guarantee=guarantee(), other_guarantees={"missed": guarantee(assumes=("nothing else is missed",))})
)
EMPTY_GROUP = report(bare_run(guarantee=guarantee(), other_guarantees={"group": guarantee(delta=1.0)}))
OF_THIS_DATA = report(bare_run(guarantee=guarantee(data_dependent=True, notion=Notion.OPERATIONAL_PRIVACY)))
NO_REASONS = report(bare_run(absent={}))
NO_NUMBERS = report(full_run(roc=(replace(full_run().roc[0], n=None),), findings=(), comparisons=()))
FOUND_NOWHERE = report(full_run(update=(replace(full_run().update[0], records=(), is_above_null=False),)))
BOTH_NULLS = report(
    bare_run("low", findings=(finding(null=0.5),)), bare_run("high", findings=(finding(null=0.61, low=0.62),))
)

# What is said, a report of which it is true, one of which it is not.
NO_NULL_LEAK = with_finding()
NO_UPDATE = report(bare_run(absent={"update": "one snapshot"}))
NO_SCAN = report(bare_run(absent={"policies": "no scan"}))
TOO_FEW = with_finding(low=0.3, n=4, could_pass=False)
SAID = [
    ("more than was proved possible, by 1 finding.", REFUTED, CONSISTENT),
    ("nothing was measured, so this report cannot tell.", BARE, FULL),
    ("Leaks: yes, for 1 of 1 question.", CONSISTENT, NOT_FOUND),
    ("Leaks: none found in 1 question. That does not mean that nothing leaks.", NOT_FOUND, CONSISTENT),
    ("Leaks: found in 2 of 3 runs: first, second.", SEVERAL, FULL),
    ("Leaks: none found in 2 runs. That does not mean that nothing leaks.", NONE_OF_TWO, SEVERAL),
    ("Proved: nothing.", NOT_FOUND, CONSISTENT),
    ("Proved: ε ≤ 2 at δ", CONSISTENT, BARE),
    ("Limits: none set.", BARE, WITHIN),
    ("Limits: 1 of 1 failed (1 undecided).", UNDECIDED, ALARM_UNDECIDED),
    ("Limits: 0 of 1 failed.", ALARM_UNDECIDED, UNDECIDED),
    ("refuted", REFUTED, CONSISTENT),
    ("leak found", CONSISTENT, NOT_FOUND),
    ("none found", NOT_FOUND, CONSISTENT),
    ("\nnot measured\n", VOID, CONSISTENT),
    ("The answer to each question for each run.", SEVERAL, FULL),
    ("Joint confidence of all intervals of an audit: 95", FULL, BARE),
    ("Membership: nobody asked for it. Measured by: --attacks membership.", BARE, FULL),
    ("Policy recall: no scan. Measured by: reticent scan FILE --labels --out RUN.", NO_SCAN, FULL),
    ("The attack “codes”, which needs canaries: no key.", SKIPPED, EVERYTHING_RAN),
    ("1 void measurement: words alone tell members apart.", VOID, CONSISTENT),
    ("What an update reveals: one snapshot. Measured by: reticent diff.", NO_UPDATE, FULL),
    ("Do not rely on the guarantee", REFUTED, CONSISTENT),
    ("Deduplicate the training text: 1 of the texts", OUTSTANDING, COMMONPLACE),
    ("--method dp-sgd, or --method crt if you know the secrets.", NO_NULL_LEAK, CONSISTENT),
    ("If the leak is too large, retrain with a smaller ε", CONSISTENT, NOT_FOUND),
    ("Redact or remove the records that stand out", OUTSTANDING, COMMONPLACE),
    ("Redact or remove the records that stand out", FULL, STRANGE),
    ("Audit with more records", TOO_FEW, VOID),
    ("Some measurements are void: “What was not measured” says", VOID, TOO_FEW),
    ("Audit the model: reticent audit MODEL", BARE, FULL),
    ("Set limits for the next release", CONSISTENT, WITHIN),
    ("Plant canaries before the next training", BARE, FULL),
    ("The one comparable finding refutes the guarantee.", REFUTED, VACUOUS),
    ("The one comparable finding does not refute the guarantee.", CONSISTENT, VACUOUS),
    ("No finding could have refuted the guarantee.", VACUOUS, CONSISTENT),
    ("1 with a vacuous ceiling (one that allows everything)", VACUOUS, CONSISTENT),
    ("1 not comparable (1: no ceiling for its metric)", NO_CEILING, VACUOUS),
    ("No limit was set", BARE, WITHIN),
    ("set one with reticent audit --require", BARE, WITHIN),
    ("undecided by loss", UNDECIDED, WITHIN),
    ("not affected", ALARM_UNDECIDED, UNDECIDED),
    ("1 (fails)", UNDECIDED, ALARM_UNDECIDED),
    ("not measured: every measurement is void: too few", NOT_MEASURED, UNDECIDED),
    ("Not distinguishable from chance: 0.", NOT_FOUND, CONSISTENT),
    ("Too few to tell: even a perfect score on 4 would not be above chance.", TOO_FEW, NOT_FOUND),
    ("too few to tell", TOO_FEW, CONSISTENT),
    ("No conclusion is possible.", VOID, CONSISTENT),
    ("Not measured in this run.", SEVERAL, FULL),
    ("without leakage at most 0.5 is expected", CONSISTENT, NO_NULL),
    ("the value without leakage is not known", NO_NULL, CONSISTENT),
    ("an attacker who sees log-probabilities", CONSISTENT, with_finding(access=Access.TEXT)),
    ("an attacker who sees the model's answers", with_finding(access=Access.TEXT), CONSISTENT),
    ("an attacker who has the weights", with_finding(access=Access.WEIGHTS), CONSISTENT),
    ("an attacker who sees every training step", with_finding(access=Access.STEPS), CONSISTENT),
    ("Proved: nothing. This run comes with no guarantee.", NOT_FOUND, CONSISTENT),
    (
        "Proved: see the guarantee; there is no usable finding to compare with it.",
        with_ceiling(0.75, void="too few"),
        CONSISTENT,
    ),
    (
        "Proved: at most 0.75 on average. The finding is consistent with that; it cannot confirm it.",
        CONSISTENT,
        VACUOUS,
    ),
    ("The whole interval lies above: the guarantee does not hold as stated.", REFUTED, CONSISTENT),
    ("a vacuous ceiling: it allows everything, so no finding could be above it.", VACUOUS, CONSISTENT),
    ("Proved: nothing comparable with this number (no ceiling for its metric).", NO_CEILING, CONSISTENT),
    ("Proved: nothing comparable with this number (the two were not compared).", NOT_COMPARED, NO_CEILING),
    ("; no proved bound", NO_CEILING, CONSISTENT),
    ("; proved: at most 0.75", CONSISTENT, NO_CEILING),
    (", which allows everything", VACUOUS, CONSISTENT),
    ("The headline guarantee holds if noise comes from a generator", FULL, BARE),
    ("The headline guarantee of first holds if noise comes from a generator", SEVERAL, FULL),
    (" (nothing is proved)", EMPTY_GROUP, BESIDE),
    ("The guarantee “missed” holds if, in addition, nothing else is missed.", BESIDE, FULL),
    ("these runs come with no guarantee", BARE, FULL),
    ("(specific to this data set: do not publish)", OF_THIS_DATA, FULL),
    ("Runs side by side", SEVERAL, FULL),
    ("No question was answered", BARE, FULL),
    ("no attack was run", NO_REASONS, TRAINING_RUN),
    ("Retrain with a guarantee: --method dp-sgd", OUTSTANDING, FULL),
    ("Retrain with a smaller ε if this is too much.", FULL, OUTSTANDING),
    ("Remove it and retrain; until then, filter it from answers.", OUTSTANDING, COMMONPLACE),
    ("Deduplicate: the text occurs 3 times.", OUTSTANDING, COMMONPLACE),
    ("As likely as other texts of its kind: check whether it is a template.", COMMONPLACE, NO_HELD_OUT),
    (
        "Likely to be emitted: audit with held-out text to see whether similar texts are too.",
        NO_HELD_OUT,
        COMMONPLACE,
    ),
    ("These numbers suggest no action.", UNLIKELY, NO_HELD_OUT),
    ("ε of this text", PROVED_EACH, UNLIKELY),
    ("“Proved at most” follows from the ε that training proved of the text", PROVED_EACH, UNLIKELY),
    ("like held-out text", COMMONPLACE, NO_HELD_OUT),
    ("no held-out records", NO_HELD_OUT, COMMONPLACE),
    ("Without held-out records, there is nothing to stand out from.", NO_HELD_OUT, OUTSTANDING),
    ("Standing out from held-out records: ", OUTSTANDING, NO_HELD_OUT),
    ("With --corpus FILE, the list also shows copies and kinds of secrets.", NO_HELD_OUT, OUTSTANDING),
    ("Texts most at risk", NO_HELD_OUT, BARE),
    ("of the members in this sample (n = 300).", FULL, NO_NUMBERS),
    ("of the members in this sample.", NO_NUMBERS, FULL),
    ("; the interval of the mean is under All findings", FULL, NO_NUMBERS),
    ("in no added record", FOUND_NOWHERE, FULL),
    ("not above it", FOUND_NOWHERE, FULL),
    ("phrases that changed most", FULL, BARE),
    ("What was measured as “odd new metric”?", FULL, BARE),
]

# A metric, and what the answer says where it was measured at least 62 % (or 0.62, or 0.62 bits) above its null.
ANSWERS = [
    ("exposure", "At least 0.62\u00a0bits of exposure per planted secret, on average."),
    ("largest_exposure", "At least 0.62\u00a0bits of exposure for the most exposed planted secret."),
    ("code_hit_rate", "At least 62\u00a0% of the answers give a planted code."),
    ("pii_recall", "At least 62\u00a0% of the distinct values in the training text were emitted."),
    (
        "pii_recall_beyond_base",
        "At least 62\u00a0% of the distinct values were emitted, but not by the base model.",
    ),
    ("pii_precision", "At least 62\u00a0% of the distinct emitted values are in the training text."),
    ("extractability_correlation", "At least 0.62 correlation between estimated and observed extraction."),
    ("reconstruction_top1", "At least 62\u00a0% of the masked values were reconstructed."),
    ("reconstruction_tab", "At least 62\u00a0% of the masked values were reconstructed by greedy decoding."),
    ("reconstruction_top5", "At least 62\u00a0% of the masked values are among the five best candidates."),
    (
        "reconstruction_membership_auc",
        "A masked value that was reconstructed is told apart from one that was not at least 62\u00a0% of the time; "
        "guessing gets 50\u00a0%.",
    ),
    ("inference_accuracy", "At least 62\u00a0% of the masked values were picked correctly from the candidates."),
    (
        "inference_accuracy_trained",
        "At least 62\u00a0% of the masked values were picked correctly from the candidates.",
    ),
    ("association_share", "At least 62\u00a0% of the person–value pairs were revealed by prompts with the name."),
    ("tpr_at_fpr_0.01", "At least 62\u00a0% of the members were identified at a false-positive rate of 0.01."),
    (
        "auc",
        "A training text is told apart from a held-out one at least 62\u00a0% of the time; "
        "guessing gets 50\u00a0%.",
    ),
    ("membership_accuracy", "At least 62\u00a0% of the membership guesses were right."),
    ("advantage", "At least 62\u00a0% more of the members than of the non-members were called members."),
    (
        "group_of_8_tpr_at_fpr_0.1",
        "At least 62\u00a0% of the groups of 8 were identified at a false-positive rate of 0.1.",
    ),
    (
        "group_of_8_auc",
        "A group of 8 training texts is told apart from a group of held-out ones at least 62\u00a0% of the time; "
        "guessing gets 50\u00a0%.",
    ),
    ("epsilon_lower_bound_at_delta_1e-05", "At least 0.62."),
    ("gaussian_mu_lower_bound", "At least 0.62 for μ of Gaussian differential privacy."),
    ("emitted_share", "At least 62\u00a0% of the records would probably be emitted."),
    ("discoverable_share", "At least 62\u00a0% of the records."),
    ("np_discoverable_share", "At least 62\u00a0% of the records."),
    ("sampled_share", "At least 62\u00a0% of the records."),
    ("extraction_probability", "At least 62\u00a0% probability of extracting the secret."),
    ("extracted_share", "At least 62\u00a0% of the records appear in part in the generated texts."),
    ("extraction_rate", "At least 62\u00a0% of the generated texts contain such a piece."),
    ("extraction_precision_zlib", "At least 62\u00a0% of the top-ranked texts contain such a piece."),
    ("divergence_rate", "At least 62\u00a0% of the answers to repeat prompts contain such a piece."),
    ("novelty_gap_7", "At least 62\u00a0% fewer novel sequences of 7 words than in held-out text."),
    ("exposed_records", "At least 62\u00a0% of the added records contain a phrase that was found."),
    ("bits_gained_per_token", "At least 0.62\u00a0bits per token of an added record, on average."),
    ("largest_differential_score", "At least 0.62 for the highest-scoring phrase."),
]

# What a section shows, and how it is to be read: true of every report, whatever it holds.
DEFINITIONS = (
    "Measured ≤ true leakage ≤ proved.",
    "The terms on this page in plain English.",
    *TERMS,
    *TERMS.values(),
    "Upper bounds, each with what it protects",
    "Within: the whole interval lies within the limit.",
    "Every point is a record.",
    "True-positive rate against false-positive rate",
    "How far a planted secret ranks",
    "The share of records that are at least",
    "From the guarantee: the most bits",
    "What the ledger charged",
    "The training texts most at risk",
    "How much of the sensitive text a policy finds",
    "What the change from one model snapshot",
    "An absence in this report is not evidence.",
    "The command, versions, seeds and fingerprints",
    "Every number with its interval",
)
# Headings and column names.
ALWAYS = {
    *(
        "What was proved",
        "Limits and gate",
        "Records and what to do",
        "What was not measured",
        "What to do next",
        "what it means",
    ),
    *("How to reproduce", "Exposure of planted secrets", "Bits leaked by secret length", "Budget over time"),
    *("type of run", "Run details", "Attacks that nobody has thought of yet."),
    ". No finding proves that nothing leaks.",
    *("No finding proves that nothing leaks.", "the training text"),
    *("Documentation of measures and tests", "regurgitation of training data"),
}
# Headings, points of the two texts and rules, which stand in every annex and every SARIF file.
HEADINGS = {
    "annex.py": (
        *OPINION,
        "Testing ",
        "Design ",
        "C11.",
        "#",
        "- ",
        "|",
        " in the",
        "This annex",
        "Each ",
        "assum",
        "A ",
    ),
    "sarif.py": ("The whole interval", "An attack found", "No finding may", "https:"),
    "junit.py": ("<?xml",),
}


@pytest.mark.parametrize(("fragment", "present", "absent"), SAID, ids=[row[0][:60] for row in SAID])
def test_a_sentence_is_said_where_it_is_true_and_nowhere_else(fragment, present, absent):
    assert fragment in said(present)
    assert fragment not in said(absent)


OF_DISTINCT = report(full_run(policies=(replace(full_run().policies[0], what="recall of distinct secrets"),)))
# The same for the annex, the model card, JUnit and SARIF.
SAID_TO_OTHERS = [
    ("No finding refutes it.", CONSISTENT, REFUTED),
    ("The guarantee does not hold as stated: loss measured auc of at least 0.62", REFUTED, CONSISTENT),
    (" A finding refutes it.", REFUTED, CONSISTENT),
    (" Its numbers depend on the training text: do not publish them.", OF_THIS_DATA, CONSISTENT),
    ("Assumed: nothing further.", report(bare_run(guarantee=guarantee(assumes=()))), CONSISTENT),
    ("Proved: a guarantee whose numbers depend on the training text", OF_THIS_DATA, CONSISTENT),
    ("Proved: nothing.", BARE, CONSISTENT),
    ("Nothing was proved.", BARE, CONSISTENT),
    ("What this model leaks about its training text was not measured.", BARE, CONSISTENT),
    ("What the model leaks about its training text, as measured by attacks.", CONSISTENT, BARE),
    ("No limit was set in this run.", BARE, WITHIN),
    ("Tried: none in this run.", BARE, EVERYTHING_RAN),
    ("Tried: lazy.", EVERYTHING_RAN, SKIPPED),
    ("No policy was measured on labelled text.", BARE, FULL),
    ("Measured on labelled text: the policy", FULL, BARE),
    ("recall of distinct secrets", OF_DISTINCT, FULL),
    ("training text: not named", BARE, report(bare_run(corpus="mails.csv"))),
    ("Can an attacker tell which texts the model was trained on? Leak found.", CONSISTENT, NOT_FOUND),
    ("Can an attacker tell which texts the model was trained on? None found.", NOT_FOUND, CONSISTENT),
]


@pytest.mark.parametrize(("fragment", "present", "absent"), SAID_TO_OTHERS, ids=[row[0] for row in SAID_TO_OTHERS])
def test_a_sentence_for_others_is_said_where_it_is_true_and_nowhere_else(fragment, present, absent):
    assert fragment in said_to_others(present)
    assert fragment not in said_to_others(absent)


@pytest.mark.parametrize(("metric", "answer"), ANSWERS)
def test_an_answer_says_what_was_counted(metric, answer):
    above = with_finding(metric, null=0.1)
    assert answer in said(above)
    assert answer not in said(with_finding(metric, null=0.9, low=0.1))


def _answers(made: Report):
    return next(section.blocks for section in sections(made) if section.key == "verdicts")


def test_every_run_has_the_line_of_its_own_null_on_the_axis():
    """One line at the greatest null was once drawn through all runs of a metric."""
    (strip,) = [strip for card in _answers(BOTH_NULLS) for strip in card.strips]
    assert [mark.null for mark in strip.marks] == [0.5, 0.61]
    assert "without leakage at most 0.5 is expected" in strip.marks[0].words
    assert "without leakage at most 0.61 is expected" in strip.marks[1].words


def test_a_value_without_an_upper_end_stands_on_the_axis():
    """The dot of a value beyond the axis was once drawn at its end, as another number."""
    (card,) = sections(with_finding("odd", null=None, value=3.0, low=2.0, high=math.inf))[0].blocks
    (strip,) = card.strips
    assert strip.end == 3.0


def test_a_vacuous_ceiling_is_called_so_where_runs_stand_side_by_side():
    one = VACUOUS.runs[0]
    other = replace(CONSISTENT.runs[0], name="other")
    row = [cell.text for cell in sections(report(one, other))[0].blocks[0].rows[0]]
    assert "proved ≤ 1, vacuous" in row[1]
    assert "proved ≤ 0.75)" in row[2]


def test_a_reason_for_the_absence_of_what_is_there_is_refused():
    """A page once said "the attack was not asked for" of attacks that ran."""
    with pytest.raises(ValueError, match="absence of what is there: roc"):
        full_run(absent={"roc": "the attack was not asked for"})


def test_the_area_beside_a_curve_of_records_is_not_that_of_owners():
    of_owners = finding(value=0.9, low=0.88, high=0.95, unit=Unit.OWNER)
    made = said(report(full_run(findings=(finding(), of_owners), comparisons=())))
    chart = made[made.index("Attacks with a curve") : made.index("Exposure of planted secrets")]
    assert "0.7" in chart
    assert "0.9" not in chart


@cache
def everything_said() -> dict[int, str]:
    pool = [made for _, present, absent in SAID for made in (present, absent)]
    pool += [with_finding(metric, null=0.1) for metric, _ in ANSWERS]
    pool.append(with_finding("group_of_8_odd", null=None, low=0.62, high=math.inf))
    pool += [made for _, present, absent in SAID_TO_OTHERS for made in (present, absent)]
    return {id(made): f"{said(made)}\n{said_to_others(made)}" for made in pool}


def said_to_others(made: Report) -> str:
    """What stands in the annex, the model card and the files for builds."""
    card = render_model_card(made) if len(made.runs) == 1 else ""
    return "\n".join((render_annex(made), card, render_junit(made), render_sarif(made)))


def literals() -> list[tuple[str, str]]:
    """Every text of three words or more in the source of the report, by file; no docstring, error or pattern."""
    found = []
    for path in sorted(Path(reticent.reporting.__file__).parent.rglob("*.py")):
        if path.name in ("svg.py", "links.py"):  # markup alone
            continue
        tree = ast.parse(path.read_text(encoding="utf8"))
        skipped: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise):
                skipped |= {id(each) for each in ast.walk(node)}
            if isinstance(node, ast.Expr):  # docstrings
                skipped.add(id(node.value))
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Measured":
                skipped |= {id(each) for each in ast.walk(node.args[0])}
        found += [
            (path.name, node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in skipped
            and len(re.findall(r"[A-Za-zε’]+", node.value)) >= 3
        ]
    return found


def is_said(literal: str, text: str) -> bool:
    """Whether a text holds the literal; one of a measured clause begins its sentence with a capital."""
    pieces = [piece for piece in literal.split("{}") if piece.strip(" .")]
    return all(piece in text or f"{piece[:1].upper()}{piece[1:]}" in text for piece in pieces)


@pytest.mark.parametrize(("file", "literal"), sorted(set(literals())))
def test_every_text_of_the_report_is_said_by_some_report_and_unsaid_by_another(file, literal):
    spoken = [is_said(literal, text) for text in everything_said().values()]
    assert any(spoken), f"{file}: no report of this file says it: add a row to the table"
    is_always_true = literal in ALWAYS or literal.startswith((*DEFINITIONS, *HEADINGS.get(file, ())))
    assert is_always_true or not all(spoken), f"{file}: every report says it: is it always true?"


def test_broken_twin_a_sentence_that_nobody_says_is_found():
    assert not any(is_said("this model is safe to release", text) for text in everything_said().values())
