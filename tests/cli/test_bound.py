"""`reticent bound`: the documented commands, their numbers, their sentences and their refusals."""

import json

import pytest

from reticent.cli import main as cli
from reticent.core.errors import ConfigError
from reticent.runs.bounds.settings import bits_of
from tests.test_repository import TORCH, modules_after

DP_SGD = ["--noise-multiplier", "0.5", "--sampling-rate", "2.81e-4", "--steps", "186000", "--delta", "3e-7"]

SCHEDULE = ["--sampling-rate", "0.01", "--steps", "10"]


def document(capsys, *arguments):
    assert cli.run(["bound", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_dp_sgd_gives_the_numbers_of_the_specification(capsys):
    found = document(capsys, "dp-sgd", *DP_SGD, "--secret-bits", "20,53.15,60")
    assert found["epsilon"]["rdp"] == pytest.approx(7.69, abs=0.02)
    assert found["epsilon"]["pld"] == pytest.approx(6.61, abs=0.01)
    by_bits = {entry["secret_bits"]: entry for entry in found["leakage"]}
    for bits, rdp, traditional in [(20, 8.06, 11.63), (53.15, 17.98, 25.21), (60, 19.96, 27.89)]:
        assert by_bits[bits]["bounds"]["rdp"] == pytest.approx(rdp, abs=0.03)
        assert by_bits[bits]["traditional_bits"] == pytest.approx(traditional, abs=0.05)
    assert by_bits[20]["bounds"]["pld"] == pytest.approx(7.05, abs=0.01)
    for entry in found["leakage"]:
        assert entry["leaked_bits"] == min(entry["bounds"].values())
        assert entry["posterior_bits"] == pytest.approx(entry["leaked_bits"] - entry["secret_bits"])
    assert 0.5 < found["ceilings"]["auc"] < 1


def test_sentences_carry_the_numbers_and_their_units(capsys):
    assert (
        cli.run(
            [
                "bound",
                "dp-sgd",
                "--noise-multiplier",
                "1",
                "--sampling-rate",
                "0.01",
                "--steps",
                "100",
                "--secret",
                "6 digits",
            ]
        )
        == 0
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert "differentially private for one record (add or remove one)" in shown
    assert "bits of a secret of 19.9316 bits leak" in shown
    assert "This holds if every unit takes part" in shown


def test_a_target_gives_the_least_noise_that_reaches_it(capsys):
    found = document(
        capsys, "dp-sgd", "--target-epsilon", "2", "--records", "10000", "--batch", "100", "--epochs", "2"
    )
    assert found["sampling_rate"] == 0.01
    assert found["steps"] == 200
    assert min(found["epsilon"].values()) <= 2.0
    assert min(found["epsilon"].values()) > 1.98
    assert 0.5 < found["noise_multiplier"] < 1.0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--target-tpr", "0.05@0.01"], "true-positive rate at 1 % false positives, at most 5 % (asked for: 5 %)"),
        (["--target-bits", "10:20"], "what leaks of a secret of 20 bits, at most 9.99"),
        (["--target-advantage", "0.1"], "advantage, at most 9.99 % (asked for: 10 %)"),
    ],
)
def test_a_risk_gives_the_least_noise_that_keeps_it_and_its_epsilon(flags, said, capsys):
    steps = ["bound", "dp-sgd", *flags, "--sampling-rate", "0.043", "--steps", "70"]
    assert cli.run([*steps, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["target"]["reached"] <= document["target"]["limit"]
    assert document["epsilon"]["pld"] > 0
    assert cli.run(steps) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert f"Ceiling of the target: {said}" in words
    assert "-differentially private for one record" in words


def test_replacing_costs_more_than_adding_and_copies_more_than_one(capsys):
    common = ["dp-sgd", "--noise-multiplier", "1", "--sampling-rate", "0.01", "--steps", "1000", "--delta", "8e-5"]
    plain = document(capsys, *common, "--secret-bits", "20")
    # 1.544 and 2.474: specification, section 5.
    assert plain["epsilon"]["pld"] == pytest.approx(1.544, abs=0.002)
    replaced = document(capsys, *common, "--neighbours", "replace", "--secret-bits", "20")
    assert replaced["epsilon"]["pld"] == pytest.approx(2.474, abs=0.002)
    several = document(capsys, *common, "--secret-bits", "20", "--copies", "3")
    assert several["leakage"][0]["leaked_bits"] > plain["leakage"][0]["leaked_bits"]


def test_confidentiality_gives_the_average_and_never_without_the_worst_case(capsys):
    found = document(
        capsys,
        "confidentiality",
        "--epsilon",
        "1",
        "--delta",
        "8e-5",
        "--miss-rate",
        "0.1",
        "--conservative-miss-rate",
        "0",
        "--group",
        "10",
    )
    assert found["bayesian"]["epsilon"] == pytest.approx(0.159, abs=5e-4)
    assert found["bayesian"]["delta"] == pytest.approx(8e-6)
    assert found["worst_case"]["epsilon"] == 1.0
    assert found["group"]["epsilon"] == 10.0
    open_ended = document(
        capsys,
        "confidentiality",
        "--epsilon",
        "1",
        "--delta",
        "8e-5",
        "--miss-rate",
        "0.1",
        "--conservative-miss-rate",
        "0.01",
    )
    assert open_ended["worst_case"]["epsilon"] == "inf"


def test_sentences_name_a_single_step_and_what_both_policies_miss(capsys):
    setting = ["--noise-multiplier", "1", "--sampling-rate", "0.01", "--steps", "1", "--delta", "1e-5"]
    assert cli.run(["bound", "dp-sgd", *setting]) == 0
    assert "and 1 step is (" in " ".join(capsys.readouterr().out.split())
    assert cli.run(["bound", "confidentiality", *setting, "--miss-rate", "0.1"]) == 0
    assert "misses 0.1 of them and both policies 0:" in " ".join(capsys.readouterr().out.split())


def said(capsys, *arguments):
    """What a bound prints, in one line."""
    assert cli.run(["bound", *arguments]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_what_holds_of_a_missed_secret_is_said_of_caught_ones_where_both_policies_may_miss(capsys):
    some = said(capsys, "confidentiality", "--epsilon", "1", "--conservative-miss-rate", "0.01")
    assert "For a secret that the policy misses and the conservative policy catches: (1, 1e-05)" in some
    assert "For the worst-off secret: nothing is proved" in some
    none = said(capsys, "confidentiality", "--epsilon", "1", "--group", "1")
    assert "For a secret that the policy misses: (1, 1e-05)" in none
    assert "together" not in none


@pytest.mark.parametrize(
    ("training", "rests_on"),
    [
        (["--epsilon", "1"], "the given ε and δ for replacing one record"),
        (["--noise-multiplier", "1", *SCHEDULE], "Poisson sampling"),
    ],
)
def test_confidentiality_says_what_each_of_its_statements_rests_on(capsys, training, rests_on):
    none_missed = said(capsys, "confidentiality", *training)
    assert rests_on in none_missed
    assert "the conservative policy catches every secret that the policy misses" in none_missed
    some = said(capsys, "confidentiality", *training, "--conservative-miss-rate", "0.01")
    assert "catches every secret" not in some


def test_a_bound_that_allows_everything_is_said_to_prove_nothing(capsys):
    found = said(capsys, "dp-sgd", "--noise-multiplier", "0.1", "--sampling-rate", "0.5", "--steps", "100")
    assert "Nothing is proved about a secret of 20 bits: all of it may leak." in found
    assert "Nothing is proved against membership attacks on one record." in found
    assert "100 %" not in found
    setting = ["extraction", "--order", "2", "--epsilon", "2", "--candidates", "10000"]
    found = said(capsys, *setting, "--copies", "3")
    assert "proves nothing about a secret among 10,000 equally likely ones, in 3 parts" in found
    assert "the probability is at most 0.449" in found  # of one owner's text
    assert "proves nothing" not in said(capsys, *setting)
    assert "proves nothing about the secret" in said(capsys, *setting[:-1], "3")


def test_extraction_says_what_it_rests_on(capsys):
    found = said(capsys, "extraction", "--order", "2", "--epsilon", "2", "--candidates", "10000")
    assert "This holds if the release has the given Rényi guarantee for one part;" in found
    assert "each owner's text stands in one part" in found


def test_confidentiality_from_training_is_priced_by_replacing_one(capsys):
    found = document(
        capsys,
        "confidentiality",
        "--noise-multiplier",
        "1",
        "--sampling-rate",
        "0.01",
        "--steps",
        "1000",
        "--delta",
        "8e-5",
    )
    assert found["missed"]["epsilon"] == pytest.approx(2.474, abs=0.002)


def test_extraction_gives_the_corrected_bound_and_its_conversions(capsys):
    found = document(capsys, "extraction", "--order", "2", "--epsilon", "2", "--candidates", "10000")
    assert found["success"] == pytest.approx(0.027, abs=5e-4)
    assert found["bounds"]["fano"] == pytest.approx(0.292, abs=5e-4)
    assert found["differential_privacy"]["epsilon"] == pytest.approx(12.1, abs=0.05)
    assert found["differential_privacy"]["epsilon_classic"] == pytest.approx(13.5, abs=0.05)
    assert (found["owner"]["order"], found["owner"]["epsilon"]) == (pytest.approx(4 / 3), pytest.approx(6.0))


@pytest.mark.parametrize(
    ("words", "bits"),
    [
        ("16 digits", 53.15),
        ("4 letters", 18.80),
        ("9 hex digits", 36.0),
        ("1 of 5000", 12.29),
        ("1 of 1,000,000", 19.93),
        ("80 bits", 80.0),
        ("1 digit", 3.32),
    ],
)
def test_secrets_in_words_have_their_bits(words, bits):
    assert bits_of(words) == pytest.approx(bits, abs=0.005)


@pytest.mark.parametrize("words", ["", "digits", "sixteen digits", "16 apples", "2 of 3"])
def test_unclear_secrets_are_refused(words):
    with pytest.raises(ConfigError, match="how many bits"):
        bits_of(words)


@pytest.mark.parametrize(
    "arguments",
    [
        ["dp-sgd", *SCHEDULE],
        ["dp-sgd", *SCHEDULE, "--noise-multiplier", "1", "--target-epsilon", "2"],
        ["dp-sgd", "--noise-multiplier", "1"],
        ["dp-sgd", "--noise-multiplier", "1", *SCHEDULE, "--records", "5"],
        ["dp-sgd", "--noise-multiplier", "0", *SCHEDULE],
        ["dp-sgd", "--noise-multiplier", "nan", *SCHEDULE],
        ["dp-sgd", "--noise-multiplier", "1", "--sampling-rate", "1.5", "--steps", "10"],
        ["dp-sgd", "--noise-multiplier", "1", "--sampling-rate", "0.1", "--steps", "0"],
        ["dp-sgd", "--noise-multiplier", "1", *SCHEDULE, "--delta", "0"],
        ["dp-sgd", "--noise-multiplier", "1", *SCHEDULE, "--delta", "1"],
        ["dp-sgd", "--noise-multiplier", "1", *SCHEDULE, "--secret-bits", "ten"],
        ["dp-sgd", "--noise-multiplier", "1", *SCHEDULE, "--secret-bits", "-3"],
        ["dp-sgd", "--noise-multiplier", "1", *SCHEDULE, "--plot", "figure.docx"],
        ["dp-sgd", "--target-epsilon", "-1", *SCHEDULE],
        ["dp-sgd", "--target-tpr", "0.01@0.05", *SCHEDULE],
        ["dp-sgd", "--target-bits", "10:20", "--target-advantage", "0.1", *SCHEDULE],
        ["dp-sgd", "--target-bits", "0.001:20", *SCHEDULE],
        ["confidentiality"],
        ["confidentiality", "--epsilon", "1", "--steps", "10"],
        ["confidentiality", "--epsilon", "1", "--miss-rate", "2"],
        ["confidentiality", "--epsilon", "1", "--delta", "1"],
        ["confidentiality", "--epsilon", "1", "--miss-rate", "0.1", "--conservative-miss-rate", "0.2"],
        ["extraction", "--order", "1", "--epsilon", "2", "--candidates", "10"],
        ["extraction", "--order", "2", "--epsilon", "-2", "--candidates", "10"],
        ["extraction", "--order", "2", "--epsilon", "2", "--candidates", "0"],
    ],
    ids=" ".join,
)
def test_wrong_parameters_are_exit_code_2_and_one_line(arguments, capsys):
    assert cli.run(["bound", *arguments]) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert len(written.err.splitlines()) == 1


def test_bound_answers_without_torch():
    code = f"from reticent.cli.main import run; run(['bound', 'dp-sgd', *{DP_SGD!r}])"
    assert not TORCH & modules_after(code)


def test_plot_draws_the_figure(tmp_path, capsys, monkeypatch):
    from reticent.runs.bounds import figures

    for name in ("_LENGTHS", "_NOISES", "_STEPS"):  # a few points of each curve; `plotted` has them all
        monkeypatch.setattr(figures, name, getattr(figures, name)[::6])
    path = tmp_path / "bits.svg"
    assert (
        cli.run(
            ["bound", "dp-sgd", "--noise-multiplier", "1", *SCHEDULE, "--secret-bits", "20", "--plot", str(path)]
        )
        == 0
    )
    drawn = path.read_text()
    assert drawn.startswith("<?xml")
    assert "length of the secret (bits)" in drawn


@pytest.fixture(scope="module")
def plotted():
    """The document that the text is made from, and the curves of its figure."""
    from reticent.runs.bounds.bound import Training, dp_sgd_bound
    from reticent.runs.bounds.figures import dp_sgd_curves

    training = Training(noise_multiplier=1.0, sampling_rate=0.02, steps=200, delta=1e-5)
    sizes = [20.0]
    return training, dp_sgd_bound(training, sizes), dp_sgd_curves(training, sizes)


def test_every_panel_of_the_figure_holds_the_numbers_that_the_text_quotes(plotted):
    """The figure once drew the Rényi bound alone while the text quoted the least of four."""
    training, document, curves = plotted
    epsilon = min(document["epsilon"].values())
    for entry in document["leakage"]:
        bits, quoted = entry["secret_bits"], entry["leaked_bits"]
        assert {one.secret_bits: one.least for one in curves.by_length}[bits] == quoted
        assert dict(curves.by_steps[bits])[float(training.steps)] == quoted
        assert dict(curves.by_epsilon[bits])[epsilon] == quoted
        assert quoted in [one.least for one in curves.quoted]


def test_broken_twin_the_renyi_bound_alone_is_another_curve(plotted):
    _, document, curves = plotted
    (quoted,) = (entry["leaked_bits"] for entry in document["leakage"] if entry["secret_bits"] == 20.0)
    (drawn,) = (one for one in curves.by_length if one.secret_bits == 20.0)
    assert drawn.rdp > quoted + 0.1


def test_the_figure_is_drawn_for_as_many_copies_as_the_text_speaks_of(monkeypatch):
    from reticent.runs.bounds import figures
    from reticent.runs.bounds.bound import Training, dp_sgd_bound
    from reticent.runs.bounds.figures import dp_sgd_curves

    monkeypatch.setattr(figures, "_LENGTHS", (10.0,))
    monkeypatch.setattr(figures, "_NOISES", (1.0,))
    monkeypatch.setattr(figures, "_STEPS", (1.0,))
    training = Training(noise_multiplier=2.0, sampling_rate=0.01, steps=20, delta=1e-5)
    (entry,) = dp_sgd_bound(training, [20.0], copies=3)["leakage"]
    curves = dp_sgd_curves(training, [20.0], copies=3)
    assert [one.least for one in curves.quoted] == [entry["leaked_bits"]]
    assert {one.copies for one in curves.by_length} == {3}


def test_curves_of_the_figure_never_pass_the_secret_or_the_traditional_bound(plotted):
    _, _, curves = plotted
    for one in curves.by_length:
        assert one.least <= min(one.secret_bits, one.traditional) * (1 + 1e-9)
    for lines in (curves.by_steps, curves.by_epsilon):
        for bits, points in lines.items():
            leaked = [y for _, y in points]
            assert leaked == sorted(leaked)
            assert leaked[-1] <= bits
