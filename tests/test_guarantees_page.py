"""docs/guarantees.md cannot fall behind: tests, events, promises and sources it names exist, and none is left out.

The page is read as text and the code by its syntax tree; nothing of ours is imported for that. Each check is a
function of texts, so that a broken page can be shown to fail it. Below them, numbers on the page that no other test
holds are computed again.
"""

import ast
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from reticent.accounting.bounds.ceiling import ceiling
from reticent.accounting.bounds.confidentiality import group_of_secrets, missed_secret
from reticent.accounting.bounds.leakage import leakage_bounds
from reticent.accounting.curve import renyi_epsilon
from reticent.accounting.guarantees import epsilons, guarantee_of
from reticent.accounting.mixing.charge import leave_one_out_charges
from reticent.accounting.prices.best_of_runs import rate_for
from reticent.accounting.prices.noisy_vote import likely_outcome_epsilon, log_outcome_chances, log_upset_chance
from reticent.core.divergence import log_normalise, renyi_divergence, symmetric_renyi_divergence
from reticent.core.event import (
    BestOfRuns,
    ConcentratedRelease,
    ExponentialSampling,
    Laplace,
    NoisyVote,
    RandomAllocation,
    Repeated,
    SampledGaussian,
    SubsampledMixture,
)
from reticent.core.guarantee import Neighbours, Unit

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "reticent"
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf8")

NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
STATED = {"Statement", "Unit", "Neighbours", "Assumes", "Priced by", "Reference", "Locked by"}
NO_TEST = "no test yet"


# ---------------------------------------------------------------- reading


def section(page, title, level=2):
    """The text under a heading, up to the next heading of the same or a higher level."""
    found = re.search(rf"^#{{{level}}} {re.escape(title)}$(.*?)(?=^#{{1,{level}}} |\Z)", page, re.M | re.S)
    assert found, f"the page has no section '{title}'"
    return found[1]


def rows(text):
    """Cells of every table row of a text, without headings and rules."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [
        row
        for row, after in zip(cells, [*cells[1:], None], strict=True)
        if not _is_rule(row) and not (after and _is_rule(after))
    ]


def _is_rule(row):
    return all(re.fullmatch(r":?-+:?", cell) for cell in row)


def mechanisms(page):
    """Title and text of every mechanism's section."""
    body = section(page, "Mechanisms")
    return {title: section(body, title, level=3) for title in re.findall(r"^### (.+)$", body, re.M)}


def definitions(path):
    """Names of the test functions that a file defines."""
    tree = ast.parse(path.read_text(encoding="utf8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def classes(path):
    """Classes of a file by name."""
    tree = ast.parse(path.read_text(encoding="utf8"))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def promises(tree, prefix=""):
    """Dotted names of the functions, methods and classes whose docstring has a `Guarantee:` section."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}.{node.name}"
            if re.search(r"^\s*Guarantee:", ast.get_docstring(node) or "", re.M):
                yield name
            if isinstance(node, ast.ClassDef):
                yield from promises(node, name)


def promised_in_accounting():
    """`module.function` of every promise of accounting and ledger."""
    for path in sorted([*(SOURCE / "accounting").rglob("*.py"), *(SOURCE / "ledger").rglob("*.py")]):
        yield from promises(ast.parse(path.read_text(encoding="utf8")), path.stem)


def enum_values(path, name):
    """String values of an enumeration, from the source."""
    return {
        node.value.value
        for node in classes(path)[name].body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    }


# ---------------------------------------------------------------- checks


def missing_tests(page):
    """Tests that the page names and the tree does not have."""
    known = {}
    gone = []
    for file, name in NAMED_TEST.findall(page):
        path = ROOT / file
        if file not in known:
            known[file] = definitions(path) if path.is_file() else set()
        if name not in known[file] or not name.startswith("test_"):
            gone.append(f"{file}::{name}")
    return gone


def unstated(page):
    """What the mechanisms' sections fail to say."""
    gaps = []
    for title, text in mechanisms(page).items():
        said = {row[0]: row[1] for row in rows(text) if len(row) == 2}
        gaps += [f"{title}: {name}" for name in sorted(STATED) if not said.get(name)]
        if not NAMED_TEST.search(said.get("Locked by", "")):
            gaps.append(f"{title}: no test")
    return gaps


def unnamed(page, names):
    """Which of the names do not stand on the page as code."""
    return sorted(name for name in names if f"`{name}`" not in page)


def promises_on(page):
    """The table of promises: dotted name → one line."""
    return {row[0].strip("`"): row[1] for row in rows(section(page, "Every function that promises something"))}


def unlocked(page):
    """Corrections of papers without a test and without the words that say so."""
    body = section(page, "What is wrong in the printed papers, and what we do instead")
    return [row[0] for row in rows(body) if not NAMED_TEST.search(row[-1]) and NO_TEST not in row[-1]]


def gone_sources(page):
    """Source files and modules that the page names and the tree does not have."""
    return [
        path
        for path in re.findall(r"`((?:src|tests|docs)/[\w/]+\.(?:py|md))`", page)
        if not (ROOT / path).is_file()
    ]


# ---------------------------------------------------------------- the page as it is


def test_every_test_that_the_page_names_exists():
    assert missing_tests(PAGE) == []


def test_every_mechanism_states_its_promise_and_names_a_test():
    assert len(mechanisms(PAGE)) >= 10
    assert unstated(PAGE) == []


def test_every_event_and_every_notion_is_on_the_page():
    assert unnamed(PAGE, classes(SOURCE / "core" / "event.py")) == [], (
        "events that docs/guarantees.md does not name"
    )
    for notion in enum_values(SOURCE / "core" / "guarantee.py", "Notion"):
        assert notion.lower() in PAGE.lower()


def test_every_promise_of_the_accounting_package_is_listed_and_no_other():
    listed = promises_on(PAGE)
    found = list(promised_in_accounting())
    assert len(found) > 30
    section = "“Every function that promises something” of docs/guarantees.md"
    assert sorted(set(found) - set(listed)) == [], f"functions with a Guarantee: section that {section} lacks"
    assert sorted(set(listed) - set(found)) == [], f"rows of {section} without such a function"
    assert len(listed) == len(found)
    assert all(20 < len(line) < 200 for line in listed.values())


def test_every_correction_of_a_paper_names_a_test_or_says_that_there_is_none():
    assert unlocked(PAGE) == []


def test_every_source_that_the_page_names_exists():
    assert gone_sources(PAGE) == []


def test_what_can_be_run_is_what_the_tree_can_run():
    status = section(PAGE, "What can be run today")
    methods = set(re.findall(r"`reticent train --method ([\w-]+)`", status))
    offered = set()
    for path in (SOURCE / "runs").rglob("*.py"):
        if "Method" in classes(path):
            offered |= enum_values(path, "Method")
    assert methods == offered - {"sgd"}  # plain training promises nothing
    empty = {path.name for path in (SOURCE / "prediction").rglob("*.py")} == {"__init__.py"}
    assert ("`prediction/` holds no mechanism yet" in status) == empty


# ---------------------------------------------------------------- broken twins: each check fails where it must


def test_the_checks_catch_a_page_that_fell_behind():
    assert missing_tests("`tests/test_guarantees_page.py::test_that_was_renamed`")
    assert missing_tests("`tests/accounting/test_gone.py::test_every_order_equals_arbitrary_precision`")
    assert missing_tests("`tests/test_guarantees_page.py::missing_tests`")  # a function, but not a test
    twin = "## Mechanisms\n### Ours\n| | |\n|---|---|\n| Statement | safe |\n| Locked by | hope |\n"
    assert {"Ours: Unit", "Ours: no test"} <= set(unstated(twin))
    assert unnamed("a `Gaussian` and Laplace", ["Gaussian", "Laplace"]) == ["Laplace"]
    code = 'class A:\n  def f(self):\n    """X.\n\n    Guarantee: y.\n    """\ndef g():\n  """No Guarantee."""'
    assert list(promises(ast.parse(code), "module")) == ["module.A.f"]
    title = "What is wrong in the printed papers, and what we do instead"
    assert unlocked(f"## {title}\n| a | b |\n|---|---|\n| claim | trust us |\n") == ["claim"]
    assert gone_sources("`src/reticent/accounting/gone.py`")


# ---------------------------------------------------------------- numbers on the page that no other test holds


def gaussian_dp_epsilon():
    """The central limit at σ = 0.5, q = 2.81e-4, 186,000 steps, δ = 3e-7: μ = q √(T (e^{1/σ²} − 1))."""
    mu = 2.81e-4 * math.sqrt(186_000 * math.expm1(4.0))
    return brentq(lambda e: ndtr(mu / 2 - e / mu) - math.exp(e) * ndtr(-mu / 2 - e / mu) - 3e-7, 0.1, 30.0)


def charge_over_beta():
    """Three parts whose halves agree, so that every λ is 1: the third part's charge in units of β = ε/B."""
    parts, public = np.array([[0.97, 0.03], [0.97, 0.03], [0.03, 0.97]]), np.array([0.5, 0.5])
    return leave_one_out_charges(parts, public, np.ones(3), order=2.0, common=True)[2] / (2.0 / 1024)


def tempered(temperature):
    """D_2 between (½, ½) and (0.6, 0.4), both tempered."""
    rows = log_normalise(np.log([[0.5, 0.5], [0.6, 0.4]]) / temperature)
    return float(symmetric_renyi_divergence(*rows, 2.0))


def voted():
    """GNMax at votes (8, 0, 0), σ = 1.2, order 3, one vote replaced: theorem 6, the exact reverse, our price."""
    counts, noise, order = (8, 0, 0), 1.2, 3.0
    here, moved = log_outcome_chances(counts, noise), log_outcome_chances((7, 1, 0), noise)
    theorem = likely_outcome_epsilon(log_upset_chance(counts, noise), 1 / noise**2, order=order)
    return (
        theorem,
        float(renyi_divergence(moved, here, order)),
        renyi_epsilon(NoisyVote(noise, counts), order, Neighbours.REPLACE),
    )


def mixed_models():
    """Two models of PMixED within the radius 2β of the public one at order 2, of which one leaves with its place.

    D_2 between the two answers, and what is proved at order 4/3.
    """
    beta, x = 0.01, 1e-6
    c = math.expm1(2 * beta)
    up, down = (np.array([1 - y, y]) for y in (math.sqrt(x * c), x * x / c))
    exact = symmetric_renyi_divergence(np.log((up + down) / 2), np.log(down), 2.0)
    event = SubsampledMixture(models=2, sampling_rate=1.0, order=2.0, beta=beta)
    return float(exact), renyi_epsilon(event, 4 / 3, Neighbours.REPLACE)


def chain(*chances):
    """D_2 between neighbours of a chain of three worlds, the greater, and between its ends."""
    first, middle, last = (np.log([1 - y, y]) for y in chances)
    near = max(float(symmetric_renyi_divergence(each, middle, 2.0)) for each in (first, last))
    return near, float(renyi_divergence(first, last, 2.0))


def kl_of_ends(x):
    """KL between two worlds that are both within D_2 = 0.9 of (1 − x, x)."""
    edge = math.expm1(0.9)
    up, down = math.sqrt(x * edge * (1 - x)) + x, x / (1 + edge / x)
    assert chain(up, x, down)[0] <= 0.9 + 1e-9
    return (1 - up) * math.log((1 - up) / (1 - down)) + up * math.log(up / down)


# What is computed, its digits, and the words in which the page says it.
NUMBERS = {
    "Gaussian DP": (gaussian_dp_epsilon, "4.49", "3e-7: 4.49 where the loss distribution gives 6.61"),
    "SubMix's charge over β": (charge_over_beta, "756", "costs the third part 1.476 = 756 β"),
    "share of the perplexity gain": (
        lambda: 100 * (37.5 - 26.9) / (37.5 - 20.0),
        "60.6",
        "60.6 % by its own numbers",
    ),
    "D_2 before tempering": (lambda: tempered(1.0), "0.041", "D_2 grows from 0.041 to"),
    "D_2 after tempering": (lambda: tempered(0.5), "0.160", "to 0.160"),
    "ten exposures": (
        lambda: sum(1 / k for k in range(1, 11)) / math.log(2),
        "4.23",
        "4.23 for the largest of ten",
    ),
    "δ of three secrets": (lambda: 1e4 * group_of_secrets(missed_secret(1.0, 8e-5), 3).delta, "8.89", "8.89e-4"),
    "its printed δ": (lambda: 1e3 * 3 * math.exp(3) * 8e-5, "4.82", "where k·e^{kε}·δ is 4.82e-3"),
    "one model in place of the mean": (lambda: 1.5**2 / 2, "1.1", "log-normal: by 1.1 nats"),
    "GNMax by theorem 6": (lambda: voted()[0], "0.470", "theorem 6 gives 0.470"),
    "GNMax, exact reverse": (lambda: voted()[1], "0.952", "the exact reverse divergence is 0.952"),
    "GNMax, our price": (lambda: voted()[2], "1.508", "we charge 1.508"),
    "PMixED, exact": (lambda: mixed_models()[0], "4.63", "D_2 = 4.63 where 0.0408 is printed"),
    "PMixED as printed": (lambda: math.log((1 + math.exp(0.08)) / 2), "0.0408", "where 0.0408 is printed"),
    "neighbours of a group": (lambda: chain(0.02, 1e-3, 2.5e-5)[0], "0.308", "neighbours within 0.308 at order 2"),
    "ends of a group": (lambda: chain(0.02, 1e-3, 2.5e-5)[1], "2.83", "the ends 2.83 apart"),
    "KL of the ends of a group": (lambda: kl_of_ends(0.24), "2.01", "ends 2.01, printed 1.8"),
    "random stopping": (lambda: 26.9 + (1001 / 2000) * (37.5 - 26.9), "32.2053", "C = 1: 32.2053 against 32.2000"),
}


# Upper bounds: rounded up, or the page would promise too much.
UPPER_BOUNDS = {
    "belief at ε = 0.1": (lambda: belief(0.1), "52.5", "| 52.5 % |"),
    "belief at ε = 1": (lambda: belief(1), "73.2", "| 73.2 % |"),
    "belief at ε = 2": (lambda: belief(2), "88.1", "| 88.1 % |"),
    "belief at ε = 4": (lambda: belief(4), "98.3", "| 98.3 % |"),
    "belief at ε = 8": (lambda: belief(8), "99.97", "| 99.97 % |"),
    "DP-SGD, add or remove one": (lambda: trained(1.0, 0.01, 1000, 8e-5), "1.545", "ε = 1.545 and 2.475"),
    "DP-SGD, replace one": (
        lambda: trained(1.0, 0.01, 1000, 8e-5, Neighbours.REPLACE),
        "2.475",
        "2.475 and not 1.545",
    ),
    "allocation, σ = 1": (lambda: allocated(1.0), "2.17", "σ = 1 gives ε = 2.17 where"),
    "Poisson, σ = 1": (lambda: trained(1.0, 1 / 24, 72, 1e-5), "2.58", "Poisson samples give 2.58"),
    "allocation, σ = 3": (lambda: allocated(3.0), "0.421", "σ = 3 gives 0.421 and 0.452"),
    "Poisson, σ = 3": (lambda: trained(3.0, 1 / 24, 72, 1e-5), "0.452", "0.421 and 0.452"),
    "allocation, σ = 0.6": (lambda: allocated(0.6), "7.23", "σ = 0.6 gives 7.23 and 8.86"),
    "Poisson, σ = 0.6": (lambda: trained(0.6, 1 / 24, 72, 1e-5), "8.86", "7.23 and 8.86"),
    "one of ten runs at ε = 8": (lambda: trained(0.6553, 0.02, 500, 1e-5), "8.00", "ε = 8.00 becomes 13.3"),
    "the best of ten at ε = 8": (lambda: tuned(0.6553), "13.3", "ε = 8.00 becomes 13.3"),
    "the best of ten at ε = 1": (lambda: tuned(1.879), "1.93", "ε = 1.00 becomes 1.93"),
    "PMixED as proved": (lambda: mixed_models()[1], "0.0302", "D = 0.0237, ours 0.0302"),
    "KL of a group": (lambda: 0.9 * 3, "2.7", "printed 1.8, ours 2.7"),
}


def belief(epsilon):
    return 100 / (1 + math.exp(-epsilon))


def trained(noise, rate, steps, delta, neighbours=Neighbours.ADD_REMOVE):
    return epsilons(Repeated(SampledGaussian(noise, rate), steps), delta=delta, neighbours=neighbours).least


def allocated(noise):
    event = Repeated(RandomAllocation(noise, 24), 3)
    return epsilons(event, delta=1e-5, neighbours=Neighbours.ADD_REMOVE).least


def tuned(noise):
    event = BestOfRuns(Repeated(SampledGaussian(noise, 0.02), 500), 0.0, rate_for(10, 0.0))
    return epsilons(event, delta=1e-5, neighbours=Neighbours.ADD_REMOVE).least


@pytest.mark.parametrize("name", UPPER_BOUNDS)
def test_an_upper_bound_on_the_page_is_the_computed_one_rounded_up(name):
    compute, digits, words = UPPER_BOUNDS[name]
    scale = 10 ** len(digits.partition(".")[2])
    assert math.ceil(compute() * scale * (1 - 1e-12)) / scale == pytest.approx(float(digits), rel=1e-9)
    assert digits in words
    assert words in PAGE


def test_the_table_of_bits_is_the_computed_one_rounded_up():
    table = [row for row in rows(section(PAGE, "How a bound is chosen")) if len(row) == 6]
    assert len(table) == 5
    event = Repeated(SampledGaussian(0.5, 2.81e-4), 186_000)
    for secret, *stated in table:
        found = leakage_bounds(event, float(secret))
        computed = (found.rdp, found.binary_rdp, found.pld, found.least, found.traditional)
        assert [float(value) for value in stated] == [math.ceil(100 * value) / 100 for value in computed], secret


def test_the_table_of_ceilings_is_the_computed_one():
    promise = guarantee_of(ConcentratedRelease(1.0), delta=1e-5, unit=Unit.RECORD)
    promise = replace(promise, epsilon=1.0, profile=(), renyi=())
    table = {
        row[0].strip("`").split("`")[0]: row[2]
        for row in rows(section(PAGE, "Ceilings, and what is not comparable"))
        if len(row) == 3
    }
    asked = {
        "tpr_at_fpr_X": ("tpr_at_fpr_0.01", {}),
        "inference_accuracy": ("inference_accuracy", {"candidates": 100}),
        "extraction_probability": ("extraction_probability", {"secret_bits": 20}),
        "exposure": ("exposure", {"candidates": 10**6}),
    }
    assert len(table) == 8
    for name, stated in table.items():
        metric, context = asked.get(name, (name, {}))
        digits = stated.split()[0]
        assert float(digits) == float(f"{ceiling(metric, promise, **context):.3g}"), name


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_on_the_page_is_the_computed_one(name):
    compute, digits, words = NUMBERS[name]
    assert f"{compute():.{len(digits.partition('.')[2])}f}" == digits
    assert digits in words
    assert words in PAGE


def test_the_mean_of_k_pmfs_moves_by_two_over_k_and_half_of_that_is_caught():
    # One of k = 5 parts turns from one sure token to another: L1 distance 2/k, where 1/k is printed.
    parts = np.tile([1.0, 0.0], (5, 1))
    moved = parts.copy()
    moved[0] = [0.0, 1.0]
    distance = np.abs(parts.mean(axis=0) - moved.mean(axis=0)).sum()
    assert distance == pytest.approx(2 / 5)
    scale = 0.1
    # Laplace noise of scale b on each entry: at order ∞ the price is the distance over b.
    exact = distance / scale
    assert renyi_epsilon(Laplace(scale * 5), math.inf, Neighbours.REPLACE) == pytest.approx(exact)
    assert renyi_epsilon(Laplace(scale * 5 / 2), math.inf, Neighbours.ADD_REMOVE) == pytest.approx(exact)
    assert renyi_epsilon(Laplace(scale * 5), math.inf, Neighbours.ADD_REMOVE) < exact  # the printed sensitivity


@pytest.mark.parametrize("neighbours", [Neighbours.ADD_REMOVE, Neighbours.REPLACE])
def test_clipped_differences_have_the_printed_price_and_the_exact_range_is_no_dearer(neighbours):
    clip, parts, temperature = 1.5, 4, 0.8
    rho = clip**2 / (2 * parts**2 * temperature**2)
    width = 2 * clip / (parts * temperature)
    rng = np.random.default_rng(0)
    for order in (1.5, 2.0, 8.0):
        printed = renyi_epsilon(ConcentratedRelease(rho), order, neighbours)
        exact = renyi_epsilon(ExponentialSampling(width), order, neighbours)
        assert exact <= printed * (1 + 1e-12)
        worst = 0.0
        for _ in range(60):
            public = rng.normal(size=3)
            shifts = rng.choice([-clip, clip], size=(parts, 3))  # as far as clipping allows
            other = shifts.copy()
            other[0] = 0.0 if neighbours is Neighbours.ADD_REMOVE else -shifts[0]
            pair = [log_normalise((public + s.mean(axis=0)) / temperature) for s in (shifts, other)]
            worst = max(worst, float(symmetric_renyi_divergence(*pair, order)))
        assert 0.5 * exact < worst <= exact * (1 + 1e-9)  # a price of half the range (a quarter of ρ) is passed


def test_a_realised_sum_of_counted_votes_is_no_bound_on_the_transcripts():
    # The first answer is a coin toss. After one outcome the votes are clear and cost next to nothing, after the
    # other they are ties. The sum of the cheap branch is passed by the divergence of all transcripts.
    noise, order, ties = 2.0, 2.0, 8
    tie, toss, clear = (3, 3), (4, 2), ((60, 0), (59, 1))
    here, there = log_outcome_chances(tie, noise), log_outcome_chances(toss, noise)
    one = float(renyi_divergence(here, there, order))
    cheap = float(renyi_divergence(*(log_outcome_chances(c, noise) for c in clear), order))
    moments = order * here + (1 - order) * there + np.array([cheap, ties * one]) * (order - 1)
    whole = float(np.logaddexp.reduce(moments)) / (order - 1)
    prices = [renyi_epsilon(NoisyVote(noise, c), order, Neighbours.REPLACE) for c in (tie, clear[0])]
    cheap_branch, dear_branch = sum(prices), (1 + ties) * prices[0]
    assert one <= prices[0]
    assert whole > cheap_branch
    assert whole <= dear_branch  # the greatest sum over all transcripts is a bound
