"""The orders that the papers claim, at the smallest scale, on trained models: minutes each, hence slow.

Plain trainings and everything evaluated on them follow from the seed: those verdicts come out the same each time.
Private trainings of CRT and of the PII table draw from the system's generator; what is asked of them states its
false-alarm rate. Finished pieces are kept with pytest's own cache: their key holds the code that made them, so that
they are computed again when it changes and at no other time.
"""

import pytest

from reproductions.catalogue import experiments
from reproductions.crt.attacks import SELECTIVE
from reproductions.experiment import ClaimVerdict
from reproductions.running import Course, reproduce

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]


@pytest.fixture(scope="module")
def run_folder(request, tmp_path_factory):
    cache = getattr(request.config, "cache", None)
    return tmp_path_factory.mktemp("run") if cache is None else cache.mkdir("reproduce")


def judged(name, folder, data=None):
    made = reproduce(experiments()[name], Course(folder=folder, seed=7, data=data))
    return {one.claim: one.verdict for one in made.rendering.judgements}


def not_failed(verdicts):
    return [claim for claim, verdict in verdicts.items() if verdict is ClaimVerdict.FAILS] == []


@pytest.mark.parametrize("name", ["submix-fig4", "submix-fig5", "submix-fig8"])
def test_submix_orders_hold(name, run_folder):
    assert set(judged(name, run_folder).values()) == {ClaimVerdict.HOLDS}


def test_submix_is_below_the_public_model_and_its_ensemble_rivals_are_not(run_folder):
    """The third claim, that DP-SGD does not improve either, is about text that the public model knows."""
    submix, rivals, _ = judged("submix-fig2", run_folder).values()
    assert {submix, rivals} == {ClaimVerdict.HOLDS}


def test_perplexity_of_submix_falls_with_epsilon(run_folder):
    assert next(iter(judged("submix-fig3", run_folder).values())) is ClaimVerdict.HOLDS


def test_submix_keeps_codes_that_a_model_without_protection_gives_away(run_folder):
    """Seeded. At ε = 100 fewer than a tenth of 100 answers above guessing: at a true rate of 0.03, 2 in 10,000."""
    _, prevented, longer = judged("submix-fig6", run_folder).values()
    assert {prevented, longer} == {ClaimVerdict.HOLDS}


@pytest.mark.parametrize("name", ["updates-table1", "updates-fig1"])
def test_update_orders_hold(name, run_folder):
    assert set(judged(name, run_folder).values()) == {ClaimVerdict.HOLDS}


def test_regimes_stand_in_the_claimed_order(run_folder):
    """The second claim, that extra data changes nothing in re-training, does not hold at equal numbers of steps."""
    continued, _, extra, two_stages = judged("updates-table2", run_folder).values()
    assert {continued, extra, two_stages} == {ClaimVerdict.HOLDS}


@pytest.mark.parametrize("name", ["updates-table3", "updates-table4"])
def test_exposed_phrases_are_on_the_subject(name, run_folder, shared):
    """Seeded; three of five phrases hold a word of the subject by chance less than once in 1,000 searches."""
    assert next(iter(judged(name, run_folder, shared / "data").values())) is ClaimVerdict.HOLDS


def test_continued_training_exposes_more_than_re_training(run_folder, shared):
    first, second, _ = judged("updates-table5", run_folder, shared / "data").values()
    assert {first, second} == {ClaimVerdict.HOLDS}


def test_a_canary_keeps_more_bits_than_the_bound_says(run_folder):
    """Seeded noise. The bound fails for a random canary with a chance far below 1e-6 at the margins seen."""
    assert next(iter(judged("rdp-fig3-canary", run_folder).values())) is ClaimVerdict.HOLDS


def test_training_texts_have_a_lower_calibrated_loss(run_folder):
    """Three standard errors: a false alarm in 700 if there were no memory."""
    assert next(iter(judged("rdp-fig4-table1", run_folder).values())) is ClaimVerdict.HOLDS


def test_redacted_training_keeps_exposure_at_chance_where_redaction_alone_does_not(run_folder):
    """Exposure of canaries passes its limit by chance in 1 of 20 runs: of CRT, twice, and of redaction."""
    built_in, oracle, redaction, _ = judged("crt-fig3", run_folder).values()
    assert {built_in, oracle, redaction} == {ClaimVerdict.HOLDS}


def test_selective_training_exposes_what_the_policy_misses(run_folder):
    """Canaries that were not learnt pass the limit of 7.6 bits at one γ in 1 of 20 runs, at both in 1 of 400.

    The trainings draw from the system; five came out between 15.7 and 18.4 bits. At γ = 0, where the paper claims
    nothing, everything is noised: two runs gave 6.8 and 10.0 bits, of which ε = 8 allows 11.5 beyond chance.
    """
    made = reproduce(experiments()["crt-fig3"], Course(folder=run_folder, seed=7))
    assert made.rendering.judgements[-1].verdict is ClaimVerdict.HOLDS
    largest = {name: float(bits) for name, _, bits, _ in made.rendering.tables[0].rows}
    assert largest[f"{SELECTIVE}, γ = 0"] < min(
        bits for name, bits in largest.items() if f"{SELECTIVE}, γ = 0." in name
    )


@pytest.mark.parametrize("name", ["crt-fig4", "crt-fig5"])
def test_membership_of_redacted_canaries_is_not_shown(name, run_folder):
    """A 99 % interval of an area at each of three miss rates, two policies: false alarms in 6 of 200 runs."""
    assert not_failed(judged(name, run_folder))


def test_nothing_measured_under_dp_refutes_what_was_proved(run_folder):
    """Two findings, 95 % intervals, both far below their ceilings: a false alarm is rarer than 1 in 1,000."""
    assert list(judged("pii-table6", run_folder).values())[-1] is ClaimVerdict.HOLDS


def test_defences_lower_what_the_games_find(run_folder):
    """Intervals of 95 % that do not overlap, or else not testable: "does not hold" needs the order reversed."""
    assert not_failed(judged("pii-table6", run_folder))
    assert not_failed(judged("pii-table4", run_folder))


@pytest.mark.parametrize("name", ["pii-fig4", "pii-fig5", "pii-fig6"])
def test_properties_of_values_decide_what_is_extracted(name, run_folder):
    """Plain trainings, seeded: the same verdicts each time."""
    assert not_failed(judged(name, run_folder))


def test_membership_of_sentences_goes_with_reconstruction(run_folder):
    """The second claim, on generated text, does not hold for small models; the others are seeded."""
    shadow, _, success = judged("pii-fig7", run_folder).values()
    assert shadow is ClaimVerdict.HOLDS
    assert success is not ClaimVerdict.FAILS
