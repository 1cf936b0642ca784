"""Verdicts on made-up results: what the papers report is judged to hold, and the reverse is not."""

import numpy as np
import pytest

from reproductions.catalogue import experiments
from reproductions.crt import attacks as crt_attacks
from reproductions.crt.training import (
    BUILT_IN,
    ORACLE,
    _lines,
    _options,
    _write_policies,
    is_missed,
    share_lost,
)
from reproductions.experiment import ClaimVerdict, Scale
from reproductions.pii import defence_table as pii_defence_table
from reproductions.rdp import models as rdp_models
from reproductions.submix import extraction as submix_extraction
from reproductions.submix import utility as submix_utility
from reproductions.submix.utility import EPSILONS, ORDERS, RIVALS, _cases, _key
from reproductions.updates import canaries as updates_canaries
from reproductions.updates import phrases as updates_phrases
from reticent.core.randomness import Randomness
from reticent.core.secret import CodeSpace
from reticent.data.canaries import make_canaries
from reticent.data.generators import generate_dialogues

HOLDS, FAILS, UNTESTED = ClaimVerdict.HOLDS, ClaimVerdict.FAILS, ClaimVerdict.NOT_TESTABLE


def verdicts(name, results):
    return [one.verdict for one in experiments()[name].render(results).judgements]


def names(name):
    return [piece.name for piece in experiments()[name].pieces(Scale.SMALL)]


@pytest.mark.parametrize("scale", Scale)
def test_every_experiment_has_pieces_with_distinct_names_at_every_scale_it_names(scale):
    for one in experiments().values():
        pieces = one.pieces(scale)
        assert pieces
        assert len({piece.name for piece in pieces}) == len(pieces)
        assert all(isinstance(key, str) for piece in pieces for key in piece.parameters)


def ensemble(parts, *, helps=True, dear_orders=True):
    """Perplexities between public 30 and non-private 15: more ε helps, more queries, parts and order cost."""
    middle = parts == submix_utility.PARTS[Scale.SMALL][1]
    parameters = {**submix_utility.SIZES[Scale.SMALL], "rivals": middle}
    found = {}
    for answers in parameters["budgets"]:
        for kind, order, epsilon in _cases(parameters, answers):
            lost = (order if dear_orders else 1.0 / order) * (answers / 128.0) / (epsilon * parts)
            mixed = 15.0 + 15.0 * lost / (1.0 + lost)
            value = {"public": 30.0, "non-private": 15.0, "subsample-and-aggregate": 200.0, "gnmax": 90.0}
            found[_key(kind, order, epsilon, answers)] = value.get(kind, mixed if helps else 60.0 - mixed)
    return {"perplexity": found}


def rival(value=32.0, *, helps=True):
    """DP-SGD, above the public model's 30 unless told otherwise."""
    found = {_key("dp-sgd", 2.0, 2.0, b): value for b in submix_utility.SIZES[Scale.SMALL]["budgets"]}
    return {"perplexity": found, "epsilon": 12.1 if helps else 1.0}


def fine_tuned():
    """Plain fine-tuning: all dialogues below the non-private ensemble's 15, one part's above it."""
    budgets = submix_utility.SIZES[Scale.SMALL]["budgets"]
    values = {"full": 12.0, "single": 18.0}
    return {"perplexity": {_key(kind, 2.0, 2.0, b): value for kind, value in values.items() for b in budgets}}


def bad_rival():
    made = {name: ensemble(4) for name in names("submix-fig2")}
    return made | {submix_utility.PRIVATE: rival(20.0), submix_utility.PLAIN: fine_tuned()}


def codes(*, open_rate=0.95, at_hundred=0.02, longer=0.1):
    """Hit rates at every length: little at ε = 100, `longer` at the next to last ε with the longest codes."""
    made = {}
    for name in names("submix-fig6"):
        last = longer if name.startswith("5") else 0.3
        rates = {10.0: 0.0, 100.0: at_hundred, 1000.0: 0.1, 10_000.0: last, 100_000.0: 0.5}
        found = {f"{e:g}": {"hit_rate": r, "high": 1.0, "recall": r, "ceiling": 1.0} for e, r in rates.items()}
        made[name] = {
            "open": {"hit_rate": open_rate, "recall": 1.0},
            "members": [0.9],
            "guess": 0.006,
            "submix": found,
        }
    return made


def test_code_verdicts_follow_the_numbers():
    assert set(verdicts("submix-fig6", codes())) == {HOLDS}
    assert verdicts("submix-fig6", codes(at_hundred=0.4))[1] is FAILS
    assert verdicts("submix-fig6", codes(longer=0.6))[2] is FAILS
    assert verdicts("submix-fig6", codes(open_rate=0.2))[:2] == [FAILS, UNTESTED]
    assert "not proved" in submix_extraction._proved(codes())
    passed = codes()
    passed["2 digits"]["submix"]["100"]["ceiling"] = 0.01
    assert submix_extraction._proved(passed).endswith("it is passed.")
    passed["2 digits"]["submix"]["100"]["ceiling"] = 0.9
    assert submix_extraction._proved(passed).endswith("it is not passed.")


def test_submix_verdicts_follow_the_numbers():
    def piece(name, **how):
        if name == submix_utility.PLAIN:
            return fine_tuned()
        return rival(**how) if name == submix_utility.PRIVATE else ensemble(int(name.removeprefix("k = ")), **how)

    for figure in ("submix-fig2", "submix-fig3", "submix-fig4", "submix-fig5", "submix-fig8"):
        good = {name: piece(name) for name in names(figure)}
        assert set(verdicts(figure, good)) == {HOLDS}, figure
        bad = {name: piece(name, helps=False) for name in names(figure)}
        assert FAILS in verdicts(figure, bad), figure
    assert verdicts("submix-fig2", bad_rival())[2] is FAILS
    cheap = {"k = 4": ensemble(4, dear_orders=False)}
    assert verdicts("submix-fig8", cheap)[0] is FAILS
    assert len(EPSILONS) > 2
    assert ORDERS[0] == 2.0
    assert RIVALS[0] == "submix"


def test_the_share_of_the_gap_that_is_lost_is_that_of_the_logarithms():
    """Public 16, non-private 4, SubMix 8: half of the way in logarithms, two thirds of it on the line."""
    perplexity = {"public": 16.0, "non-private": 4.0}
    found = {key: perplexity.get(key.split(",")[0], 8.0) for key in ensemble(4)["perplexity"]}
    (table,) = experiments()["submix-fig4"].render({"k = 4": {"perplexity": found}}).tables
    assert {cell for row in table.rows for cell in row[1:]} == {"50%"}
    near = found | {key: 4.6 for key in found if key.startswith("submix,")}  # 5 % on the line, 10.1 % in logarithms
    made = {"k = 4": {"perplexity": near}, submix_utility.PLAIN: fine_tuned()}
    assert verdicts("submix-fig3", made)[1] is FAILS
    lines = experiments()["submix-fig3"].render(made).pictures[0].panels[0].lines
    assert {line.name for line in lines if line.is_dashed} == {
        "public",
        "non-private",
        *submix_utility.FINE_TUNED.values(),
    }
    level = dict.fromkeys(found, 8.0)  # no gap at all: nothing to take a share of
    assert verdicts("submix-fig4", {"k = 4": {"perplexity": level}}) == [FAILS]


def update(score, *, epsilon=None, first=2, flat=False):
    """An update whose kinds have falling scores; increments grow unless `flat`."""
    scores = {kind: score - 0.1 * place for place, kind in enumerate(updates_canaries.CLASSES)}
    steps = [0.4] * 5 if flat else [0.05, 0.5, 0.9, 1.0, 1.0]
    return {
        "scores": scores,
        "increments": dict.fromkeys(updates_canaries.CLASSES, steps),
        "first": dict.fromkeys(updates_canaries.CLASSES, first),
        "ranks": {kind: [0, 3] for kind in updates_canaries.CLASSES},
        "share": 0.02,
        "accuracy": 0.2 if epsilon is None else 0.1 + epsilon / 10_000.0,
        "ranked": {
            "score": score,
            "is_found": epsilon is None,
            "rank": 0 if epsilon is None else 900 - int(epsilon),
        }
        | {"pairs": 10_000},
        "phrases": 2,
        "epsilon": epsilon,
    }


def test_update_verdicts_follow_the_numbers():
    *plain, transformer, private = names("updates-table1")
    last = {transformer: update(3.0), private: update(0.1, epsilon=5.0)}
    good = {name: update(1.0 + place) for place, name in enumerate(plain)} | last
    assert set(verdicts("updates-table1", good)) == {HOLDS}
    bad = {name: update(3.0 - place, first=0) for place, name in enumerate(plain)}
    bad |= {transformer: update(3.0), private: update(2.0, epsilon=5.0)}
    found = verdicts("updates-table1", bad)
    assert (found[0], found[1], found[3]) == (FAILS, FAILS, FAILS)
    assert verdicts("updates-fig1", {name: good[name] for name in plain}) == [HOLDS]
    assert verdicts("updates-fig1", {name: update(1.0, flat=True) for name in plain}) == [FAILS]


def test_regime_verdicts_follow_the_numbers():
    def score(name, *, order):
        if name.startswith("two"):
            return 0.4 if order else 3.5
        base = 3.6 if name.startswith("continued") == order else 2.0
        return base - 0.5 * float(name.split("%")[0].rpartition(" ")[2]) / 100.0 * name.startswith("continued")

    good = {name: update(score(name, order=True)) for name in names("updates-table2")}
    assert set(verdicts("updates-table2", good)) == {HOLDS}
    bad = {name: update(score(name, order=False)) for name in names("updates-table2")}
    assert verdicts("updates-table2", bad)[0] is FAILS
    assert verdicts("updates-table2", bad)[3] is FAILS


def test_equal_epochs_stand_beside_equal_steps_and_do_not_change_the_verdict():
    def score(name):
        if name.startswith("two"):
            return 0.4
        continued = name.startswith("continued")
        return 2.0 + (0.0 if continued == name.endswith("equal epochs") else 1.0) - continued * ("100%" in name) / 2

    made = {name: update(score(name)) for name in names("updates-table2")}
    found = experiments()["updates-table2"].render(made)
    assert found.judgements[0].verdict is HOLDS
    assert "at 0 where each takes equally many epochs" in found.judgements[0].reason
    assert {row[4] for row in found.tables[0].rows} == {"2.0%"}


def test_verdicts_on_private_updates_follow_the_numbers():
    plain, five, most = names("updates-rq5")
    good = {plain: update(3.9), five: update(0.01, epsilon=5.0), most: update(0.1, epsilon=111.0)}
    assert set(verdicts("updates-rq5", good)) == {HOLDS}
    seen = good | {five: good[five] | {"ranked": good[plain]["ranked"]}}
    assert verdicts("updates-rq5", seen)[:2] == [FAILS, FAILS]
    assert verdicts("updates-rq5", good | {five: good[five] | {"accuracy": 0.3}})[2] is FAILS
    (table,) = experiments()["updates-rq5"].render(good).tables
    assert table.rows[2][-3:] == updates_canaries.PRINTED_PRIVATE[111.0]


def training(name, *, leaky):
    """A training of CRT's figures; redaction leaks as γ grows, CRT does where `leaky`."""
    method, _, rate = name.partition(", γ = ")
    is_crt = method in crt_attacks.CRT
    exposed = float(rate) > 0.0 and (method in ("redaction", crt_attacks.SELECTIVE) or (is_crt and leaky))
    area = [0.95, 0.85, 0.99] if exposed else [0.52, 0.35, 0.7]
    return {
        "perplexity": {"redaction": 5.0}.get(method, 20.0 if is_crt and leaky else 6.0),
        "top1": 0.5,
        "epsilon": None if method == "redaction" else 8.0,
        "average_epsilon": 5.8 if is_crt else None,
        "average_delta": 8e-6 if is_crt else None,
        "lost": 0.0 if is_crt else None,
        "largest": 19.0 if exposed else 3.0,
        "mean": 2.0,
        "missed": 19.0 if exposed else None,
        "auc": area,
        "group_auc": area,
    }


@pytest.mark.parametrize("figure", ["crt-fig2", "crt-fig3", "crt-fig4", "crt-fig5"])
def test_crt_verdicts_follow_the_numbers(figure):
    assert set(verdicts(figure, {name: training(name, leaky=False) for name in names(figure)})) == {HOLDS}
    assert verdicts(figure, {name: training(name, leaky=True) for name in names(figure)})[:2] == [FAILS, FAILS]


def test_an_average_over_secrets_is_no_lower_epsilon_where_some_are_found_by_no_policy():
    """The built-in policy's average holds at a δ of a few per cent: no match for DP-SGD's 8e-5."""
    plain = {name: training(name, leaky=False) for name in names("crt-fig2")}
    built_in = f"{crt_attacks.BUILT_IN}, γ = 0.1"
    lossy = plain | {built_in: plain[built_in] | {"lost": 0.02, "average_delta": 0.02}}
    assert verdicts("crt-fig2", lossy) == [HOLDS, HOLDS, FAILS, HOLDS]
    judged = experiments()["crt-fig2"].render(lossy).judgements[2]
    assert "2.0% of the values" in judged.reason
    assert "δ = 0.02" in judged.reason


@pytest.mark.parametrize("scale", [Scale.SMALL, Scale.MEDIUM])
def test_redacted_training_is_shown_with_the_built_in_policy_beside_the_oracle(scale):
    pieces = {piece.name for piece in experiments()["crt-fig2"].pieces(scale)}
    built_in, oracle = (
        {name.partition(", γ")[2] for name in pieces if name.startswith(one)} for one in crt_attacks.CRT
    )
    assert built_in == oracle != set()


@pytest.mark.parametrize(("method", "policy"), [(BUILT_IN, "conservative"), (ORACLE, "dictionary:")])
def test_the_built_in_conservative_policy_reads_no_list(tmp_path, method, policy):
    options = _options(method, {"epochs": 1, "epsilon": 8.0, "miss_rate": 0.1}, tmp_path, 0.02)
    assert options["conservative_policy"].startswith(policy)
    assert options["conservative_miss_rate"] == 0.02


def test_what_no_policy_finds_whole_is_counted_and_the_oracle_finds_all(tmp_path):
    dialogues = _lines(generate_dialogues(20, randomness=Randomness.seeded(3)))
    canaries = make_canaries("My ID is: {}", CodeSpace(6), count=10, copies=1, randomness=Randomness.seeded(4))
    lost = {}
    for rate in (0.0, 0.5):
        _write_policies(dialogues, canaries, tmp_path, rate)
        for method in crt_attacks.CRT:
            lost[method, rate] = share_lost(dialogues, tmp_path, method)
    assert lost[BUILT_IN, 0.0] == lost[ORACLE, 0.0] == lost[ORACLE, 0.5] == 0.0
    assert 0.0 < lost[BUILT_IN, 0.5] < 0.25


def test_selective_training_must_expose_at_every_rate_above_zero_and_may_at_zero():
    name, figure = f"{crt_attacks.SELECTIVE}, γ = {{:g}}", "crt-fig3"
    plain = {each: training(each, leaky=False) for each in names(figure)}
    loud, quiet = (training(f"redaction, γ = {rate}", leaky=False) for rate in (0.1, 0.0))
    assert verdicts(figure, plain | {name.format(0.1): quiet})[-1] is FAILS
    assert verdicts(figure, plain | {name.format(0.0): loud})[-1] is HOLDS


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.5])
def test_a_policy_misses_the_share_of_secrets_that_was_asked_for(rate):
    for count in (10, 99, 1000):
        assert sum(is_missed(place, rate) for place in range(count)) == int(count * rate + 1e-9)


def test_nothing_memorised_anywhere_is_not_testable_rather_than_a_success():
    quiet = {name: training("DP-SGD, γ = 0", leaky=False) for name in names("crt-fig3")}
    assert verdicts("crt-fig3", quiet)[2:] == [UNTESTED, UNTESTED]
    assert set(verdicts("crt-fig4", quiet)) == {UNTESTED}


def test_the_largest_of_ten_exposures_passes_its_limit_by_chance_less_than_once_in_twenty():
    """Exposure of a code that is not memorised is −log2 of a uniform share. 20,000 draws: se 0.0015, at three."""
    drawn = (-np.log2(Randomness.seeded(1).uniform((20_000, 10)))).max(axis=1)
    assert 0.04 < (drawn > crt_attacks.chance_limit(10)).mean() < 0.055


def row(level, *, auc, width=0.05, epsilon=None, tab=0.1):
    """A row of the defence table with all shares at one level."""
    ends = {metric: (auc if metric == "auc" else level) for metric in pii_defence_table.METRICS.values()}
    findings = {m: {"value": v, "low": v - width, "high": v + width, "null": None} for m, v in ends.items()}
    findings["reconstruction_tab"] = {"value": tab, "low": tab - width, "high": tab + width, "null": None}
    return {
        "perplexity": 10.0,
        "masked_perplexity": 9.0,
        "epsilon": epsilon,
        "tagger": 0.9,
        "findings": findings,
        "comparisons": {"auc": "consistent"} if epsilon else {},
    }


def named(rows, domain="case law", model="embedded"):
    return {f"{domain}, {defence}, {model}": one for defence, one in rows.items()}


GOOD = {
    "undefended": row(0.6, auc=0.95),
    "DP": row(0.1, auc=0.51, epsilon=8.0),
    "scrubbed": row(0.05, auc=0.8),
    "DP and scrubbed": row(0.05, auc=0.5, epsilon=8.0),
}


def test_defence_verdicts_follow_the_numbers():
    assert [piece.name for piece in experiments()["pii-table6"].pieces(Scale.SMALL)] == list(named(GOOD))
    assert set(verdicts("pii-table6", named(GOOD))) == {HOLDS}
    unclear = GOOD | {"DP": row(0.55, auc=0.51, epsilon=8.0)}
    assert verdicts("pii-table6", named(unclear))[0] is UNTESTED
    useless = GOOD | {"DP": row(0.7, auc=0.97, epsilon=8.0)}
    assert verdicts("pii-table6", named(useless))[:3] == [FAILS] * 3
    broken = {**GOOD["DP"], "comparisons": {"auc": "refuted"}}
    assert verdicts("pii-table6", named(GOOD | {"DP": broken}))[-1] is FAILS


def test_reconstruction_verdicts_follow_the_numbers_on_every_domain():
    two = {name: GOOD[name] for name in ("undefended", "DP")}
    here = named(two) | named(two, "dialogues")
    assert verdicts("pii-table4", here) == [HOLDS, HOLDS, HOLDS, UNTESTED]  # one size of model
    assert len(verdicts("pii-table4", here | named(two, "TAB"))) == 5
    close, worse = row(0.6, auc=0.95, tab=0.55), row(0.3, auc=0.95, tab=0.8)
    assert verdicts("pii-table4", named(two | {"undefended": close}))[0] is UNTESTED
    assert verdicts("pii-table4", named(two | {"undefended": worse}))[0] is FAILS
    assert verdicts("pii-table4", named(two | {"DP": row(0.7, auc=0.9, epsilon=8.0)}))[1] is FAILS
    sizes = {}
    for level, model in zip((0.2, 0.3, 0.6, 0.5), pii_defence_table.MODELS[Scale.PAPER], strict=True):
        sizes |= named({"undefended": row(level, auc=0.9), "DP": row(0.01, auc=0.5, epsilon=8.0)}, model=model)
    assert verdicts("pii-table4", sizes)[-1] is HOLDS


def games(*, duplicated=(9, 12), longer=(30, 40), success=(0.8, 0.7, 0.9), correlation=(0.6, 0.4, 0.8), made=0.05):
    """The numbers of figures 4 to 7."""

    def counted(group, hits, training, emitted=20):
        row = {"group": group, "training": training, "emitted": emitted, "hits": hits}
        recall = hits / training if training else None
        return (
            row
            | {"recall": recall, "recall_interval": [0.0, 1.0]}
            | {
                "precision": hits / emitted,
                "precision_interval": [0.0, 1.0],
            }
        )

    points = [(100, 4, 2, 0.5, 0.02), (900, 20, 6, 0.3, 0.06)]
    names = ("after", "emitted", "hits", "precision", "recall")
    return {
        "undefended": {
            "duplication": [counted("1", 3, 100), counted("2", 2, 20), counted("3 to 4", *duplicated)],
            "length": [counted("1 to 2", 0, 0), counted("3 to 4", 3, 30)],
            "kind": [counted("DATE", 2, 30), counted("PERSON", 3, 40)],
            "sampled": [dict(zip(names, point, strict=True)) for point in points],
            "extractability": {"estimated": [-3.0, -9.0], "observed": [2, 0], "correlation": correlation},
            "inference": [
                {"characters": 13, "right": 5, "targets": 40},
                {"characters": 360, "right": longer[0], "targets": longer[1]},
            ],
            "membership": {
                "auc": [0.9, 0.85, 0.95],
                "means": {"training": 0.6, "held-out": 0.0, "generated": made},
                "deviation": 0.1,
                "reconstruction": {"scores": [0.5, 0.9], "hits": [False, True]},
                "success": success,
            },
        }
    }


def test_pii_figure_verdicts_follow_the_numbers():
    for figure in ("pii-fig4", "pii-fig5", "pii-fig6", "pii-fig7"):
        assert set(verdicts(figure, games())) == {HOLDS}, figure
    silent = games()
    silent["undefended"]["sampled"] = [{"after": 9, "emitted": 0, "hits": 0, "precision": None, "recall": 0.0}]
    assert verdicts("pii-fig5", silent) == [UNTESTED]
    assert verdicts("pii-fig4", games(duplicated=(0, 12))) == [FAILS]
    assert verdicts("pii-fig4", games(duplicated=(1, 12))) == [UNTESTED]  # higher, but one value is no evidence
    assert verdicts("pii-fig6", games(longer=(2, 40)))[2] is FAILS
    assert verdicts("pii-fig6", games(correlation=None))[0] is UNTESTED
    assert verdicts("pii-fig6", games(correlation=(-0.5, -0.8, -0.1)))[0] is FAILS
    assert verdicts("pii-fig7", games(success=(0.2, 0.1, 0.3)))[2] is FAILS
    assert verdicts("pii-fig7", games(success=None, made=0.5))[1:] == [FAILS, UNTESTED]


def phrases(*, words, scores):
    rows = [{"phrase": "a b c d", "score": 20.0, "words": count, "holders": count % 2} for count in words]
    named = [f"phrase {n}" for n in range(3)]
    found = {"re-training 0%": {"groups": rows, "vanilla": rows}}
    return {"found": found, "phrases": named, "chance": 0.02, "scores": scores}


def regimes(again, on):
    shares = updates_phrases.SHARES
    return {
        f"{name} {share:.0%}": [level, 2.0 * level, 3.0 * level]
        for name, levels in (("re-training", again), ("continued training", on))
        for share, level in zip(shares, levels, strict=True)
    }


def test_phrase_verdicts_follow_the_numbers():
    for name, group in (("updates-table3", updates_phrases.HOCKEY), ("updates-table4", updates_phrases.MIDEAST)):
        assert verdicts(name, {group: phrases(words=(1, 2, 3, 0, 0), scores={})}) == [HOLDS, HOLDS]
        assert verdicts(name, {group: phrases(words=(0, 0, 0, 0, 2), scores={})}) == [FAILS, FAILS]
    good = phrases(words=(1,) * 5, scores=regimes((25.0, 25.0, 24.0), (80.0, 30.0, 15.0)))
    assert verdicts("updates-table5", {updates_phrases.MIDEAST: good}) == [HOLDS] * 3
    bad = phrases(words=(1,) * 5, scores=regimes((25.0, 5.0, 60.0), (10.0, 20.0, 30.0)))
    assert verdicts("updates-table5", {updates_phrases.MIDEAST: bad}) == [FAILS] * 3
    none = phrases(words=(1,) * 5, scores=regimes((0.1, 0.1, 0.1), (0.2, 0.1, 0.1)))
    assert verdicts("updates-table5", {updates_phrases.MIDEAST: none})[2] is UNTESTED


def test_three_of_five_phrases_are_on_the_subject_by_chance_less_than_once_in_a_thousand():
    assert updates_phrases._by_chance(0.03) < 1e-3
    assert updates_phrases._by_chance(0.5) == pytest.approx(0.5)


def test_canary_and_risk_map_verdicts_follow_the_numbers():
    def run(name, left):
        return {"steps": [0, 20, 40], "bits": [55.0, 54.0, left], "bound": [53.15, 30.0, 20.0]}

    good = {name: run(name, 40.0 + 10.0 * float(name.rpartition("= ")[2])) for name in names("rdp-fig3-canary")}
    assert set(verdicts("rdp-fig3-canary", good)) == {HOLDS}
    bad = {name: run(name, 10.5 - 10.0 * float(name.rpartition("= ")[2])) for name in names("rdp-fig3-canary")}
    assert verdicts("rdp-fig3-canary", bad)[0] is FAILS
    assert verdicts("rdp-fig3-canary", bad)[2] is FAILS

    def groups(train, held_out, generated):
        centred = [-1.0, 0.0, 1.0] * 20
        made = {"training": train, "held-out": held_out, "generated": generated}
        return {
            "map": {
                "groups": {name: {"x": [-5.0] * 60, "y": [y + at for y in centred]} for name, at in made.items()},
                "worst": [[5, -3.0, -9.0, 0.9]],
            }
        }

    assert set(verdicts("rdp-fig4-table1", groups(-5.0, 0.0, -8.0))) == {HOLDS}
    assert set(verdicts("rdp-fig4-table1", groups(3.1, 3.0, 4.0))) == {FAILS}
    assert abs(rdp_models.BITS - 53.15) < 0.01
