"""Text canaries with coins: what learnt them is found out, coins thrown afterwards are not, the key is private."""

import dataclasses
import json
import stat

import numpy as np
import pytest

from reticent.auditing.attacks.one_run.coins import CoinAttack, TrapAttack
from reticent.auditing.settings import AttackSettings
from reticent.auditing.subject import make_subject
from reticent.core.corpus import Corpus
from reticent.core.errors import ConfigError, DataError
from reticent.core.guarantee import Unit
from reticent.core.model import Access
from reticent.core.randomness import Randomness
from reticent.data.coin_canaries import CoinKey, CorpusStyle, DesignName, design_named, read_coins, toss_canaries
from tests.runs.audit.subjects import fit, records, sentences

N = 200
PUBLIC = fit(sentences(5, 40), order=3)
TEXTS = sentences(1, 80)
SETTINGS = AttackSettings(seed=3, shares=1)


def key(seed=0, *, design=DesignName.RANDOM_TOKENS, count=N, copies=1) -> CoinKey:
    made = design_named(design, PUBLIC, length=20)
    return toss_canaries(made, count, copies=copies, known=TEXTS, randomness=Randomness.seeded(seed))


def subject(coins, *, learns=True):
    training = Corpus([*records("train", TEXTS[:40]), *coins.records()])
    model = fit(training.texts if learns else sentences(3, 40))
    return make_subject(model, PUBLIC, training=training, held_out=records("held", TEXTS[40:]), coins=coins)


def measured(one):
    return CoinAttack().run(one, SETTINGS, sizes=SETTINGS.sizes).findings


def test_a_model_that_learnt_its_canaries_is_found_out():
    one = subject(key())
    found = measured(one)
    assert {finding.access for finding in found} == {Access.LOGPROBS}
    by_name = {finding.attack: finding.low for finding in found if finding.metric.startswith("epsilon")}
    assert len(by_name) == 4  # by count and by curve, of loss and of calibrated scores
    assert max(by_name.values()) > 1.0
    (line,) = CoinAttack().plan(one, SETTINGS, sizes=SETTINGS.sizes, mean=10.0)
    assert {finding.metric for finding in found} == set(line.metrics)
    assert not any(text in json.dumps([finding.to_json() for finding in found]) for text in one.coins.texts)


# All bounds together at 95 %: P[Binomial(20, 0.05) > 5] = 0.03 %, P[Binomial(200, 0.05) > 19] = 0.3 %.
@pytest.mark.parametrize(("runs", "most"), [(20, 5), pytest.param(200, 19, marks=pytest.mark.slow)])
def test_coins_thrown_after_training_raise_an_alarm_within_the_stated_rate(runs, most):
    coins = key()
    one = subject(coins)
    alarms = 0
    for seed in range(runs):
        thrown = np.random.default_rng(seed).random(N) < 0.5
        null = dataclasses.replace(one, coins=dataclasses.replace(coins, is_member=thrown))
        alarms += any(finding.low > 0.0 for finding in measured(null))
    print(f"{alarms} alarms of {runs}")
    assert alarms <= most


def test_a_model_that_never_saw_the_canaries_shows_nothing():
    assert all(finding.low == 0.0 for finding in measured(subject(key(7), learns=False)))


@pytest.mark.parametrize("design", DesignName)
def test_every_design_gives_different_texts_of_which_a_coin_keeps_about_half(design):
    coins = key(design=design)
    assert len(set(coins.texts)) == N
    assert abs(int(coins.is_member.sum()) - N // 2) < 40  # 5.6 standard deviations
    assert len(list(coins.records())) == coins.is_member.sum()
    assert coins.design == design.value
    assert coins.measures


def test_a_rare_prefix_is_shared_and_a_cool_style_is_refused():
    assert len({text[:5] for text in key(design=DesignName.RARE_PREFIX).texts}) == 1
    with pytest.raises(ConfigError, match="differ"):
        CorpusStyle(PUBLIC, 20, temperature=0.5)


def test_copies_of_one_owner_measure_owners():
    assert key().unit(Unit.RECORD) is key().unit(None) is Unit.RECORD
    assert key().unit(Unit.OWNER) is Unit.OWNER
    several = key(copies=3)
    assert several.unit(Unit.RECORD) is Unit.OWNER
    assert len({record.owner for record in several.records()}) * 3 == len(list(several.records()))


def test_a_design_without_enough_texts_is_refused():
    with pytest.raises(ConfigError, match="too few"):
        toss_canaries(
            design_named(DesignName.RANDOM_TOKENS, PUBLIC, length=1),
            N,
            copies=1,
            known=(),
            randomness=Randomness.seeded(0),
        )


def test_a_key_comes_back_from_a_file_that_only_its_owner_reads(tmp_path):
    coins, path = key(), tmp_path / "key.json"
    coins.write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_coins(path).to_json() == coins.to_json()
    assert coins.texts[0] not in repr(coins)
    document = json.loads(path.read_text())
    del document["canaries"][0]["is_member"]
    path.write_text(json.dumps(document))
    with pytest.raises(DataError, match="lacks a part"):
        read_coins(path)
    path.write_text('{"schema_version": 1, "canaries": []}')
    assert read_coins(path) is None


def test_a_key_of_another_corpus_is_refused():
    training = Corpus([*records("train", TEXTS[:40]), *key(1).records()])
    with pytest.raises(ConfigError, match="does not contain the canaries"):
        make_subject(PUBLIC, None, training=training, held_out=records("held", TEXTS[40:]), coins=key(2))


def trapped(one, seed=3):
    settings = dataclasses.replace(SETTINGS, seed=seed)
    ((line,), measured) = (
        TrapAttack().plan(one, settings, sizes=settings.sizes, mean=9.0),
        TrapAttack().run(one, settings, sizes=settings.sizes),
    )
    (finding,) = measured.findings
    assert line.metrics == (finding.metric,)
    return finding


def test_traps_tell_that_the_text_around_them_was_used_and_nothing_of_a_model_that_never_saw_it():
    coins = key(copies=3)
    used, unused = (trapped(subject(coins, learns=learns)) for learns in (True, False))
    assert used.value > 0.9
    assert used.p_value == 1e-4  # the least of 9,999 permutations
    assert used.beats_null
    assert not unused.beats_null
    assert not any(text in json.dumps(used.to_json()) for text in coins.texts)


def test_the_p_value_of_traps_is_uniform_where_coins_say_nothing(monkeypatch):
    """40 throws of coins after the training, at 10 %: more than 11 have chance 1e-3."""
    monkeypatch.setattr("reticent.auditing.attacks.one_run.coins.PERMUTATIONS", 199)
    coins = key()
    one = subject(coins, learns=False)
    alarms = 0
    for seed in range(40):
        thrown = np.random.default_rng(seed).random(len(coins)) < 0.5
        again = dataclasses.replace(one, coins=dataclasses.replace(coins, is_member=thrown))
        alarms += trapped(again, seed).p_value <= 0.1
    assert alarms <= 11


def test_traps_need_both_sides_of_the_coins_and_scores():
    one = subject(key())
    none = dataclasses.replace(one, coins=None)
    (line,) = TrapAttack().plan(none, SETTINGS, sizes=SETTINGS.sizes, mean=9.0)
    assert "plant --audit" in line.skipped
