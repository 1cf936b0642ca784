"""The lazy attack of an audit: its sampler, its chance, generated texts in its map, and texts counted once."""

import dataclasses
import math
from pathlib import Path

import pytest

from reticent.auditing.attacks.lazy.risk_map import GENERATED
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import make_subject
from reticent.core.errors import ConfigError
from reticent.core.sampling import Sampling
from reticent.runs.audit.attacking import run_audit, score_key
from reticent.runs.audit.plan import Speed, plan_audit
from reticent.runs.audit.settings import AuditSettings
from reticent.runs.report.curves import extraction_curves
from tests.runs.audit.subjects import fit, records, sentences, subject

SIZES = Sizes(records=30, texts=16)
SUBJECT = subject(count=30)
SETTINGS = AttackSettings(attacks=("lazy",), sizes=SIZES)


def lazy(settings: AttackSettings, of=SUBJECT):
    """The finding and the risk map of one audit."""
    found = run_audit(of, plan_audit(of, settings, Speed(1e6, 1e5)), settings=settings)
    (finding,) = found.findings
    return finding, found.artefacts["risk_map.json"]


def emissions(document, name: str) -> list[object]:
    return next(group["emission"] for group in document["groups"] if group["name"] == name)


def test_the_sampler_of_the_settings_is_the_attackers():
    plain, drawn = lazy(SETTINGS)
    greedy, by_greedy = lazy(dataclasses.replace(SETTINGS, sampler=Sampling(temperature=0.0)))
    assert set(emissions(by_greedy, "training")) <= {0.0, "-inf"}  # said for certain, or never
    scheduled, by_schedule = lazy(dataclasses.replace(SETTINGS, sampler=Sampling(temperature=(1.0, 0.0), top_k=40)))
    assert by_schedule["sampling"]["temperature"] == (1.0, 0.0)
    assert emissions(by_schedule, "training") != emissions(drawn, "training")
    assert plain.n == greedy.n == scheduled.n == 30


def test_the_chance_and_the_samples_decide_what_counts_as_emitted():
    shares = [
        lazy(dataclasses.replace(SETTINGS, samples=samples, chance=chance))[0].value
        for samples, chance in ((10, 0.99), (1000, 0.5), (1_000_000, 0.5), (1_000_000, 0.01))
    ]
    assert shares == sorted(shares)
    assert shares[0] < shares[-1]


@pytest.mark.parametrize("wrong", [{"chance": 0.0}, {"chance": 1.5}, {"samples": 0}])
def test_chances_and_samples_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError):
        dataclasses.replace(SETTINGS, **wrong)


def test_sampler_and_chance_are_part_of_the_key_of_what_was_measured():
    settings = (
        SETTINGS,
        dataclasses.replace(SETTINGS, sampler=Sampling(top_k=5)),
        dataclasses.replace(SETTINGS, chance=0.1),
    )
    assert len({score_key("lazy", SUBJECT, one, sizes=SIZES).material() for one in settings}) == 3
    assert len({score_key("membership", SUBJECT, one, sizes=SIZES).material() for one in settings}) == 1


def test_generated_texts_stand_in_the_map_without_their_text_and_in_no_curve():
    _, document = lazy(SETTINGS)
    (group,) = (one for one in document["groups"] if one["name"] == GENERATED)
    assert 0 < len(group["ids"]) <= SIZES.texts
    assert all(name.startswith("generated-") for name in group["ids"])
    assert {curve.name for curve in extraction_curves(document, confidence=0.95)} == {"training", "held-out"}


def test_a_text_in_many_copies_is_counted_once():
    often, others = sentences(1, 3), sentences(2, 20)
    copies = make_subject(
        fit(often * 40 + others),
        fit(sentences(5, 40), order=3),
        training=records("train", [*often * 40, *others]),
        held_out=records("held", sentences(9, 30)),
    )
    finding, document = lazy(dataclasses.replace(SETTINGS, sizes=Sizes(records=200, texts=16)), copies)
    assert finding.n == 23
    curve = next(one for one in extraction_curves(document, confidence=0.95) if one.name == "training")
    assert curve.n == 23


def asked(**options) -> AuditSettings:
    return AuditSettings(model="m", train=Path("t"), holdout=Path("h"), out=Path("o"), **options)


def test_the_options_of_the_command_reach_the_attacker():
    usual = asked().attack_settings()
    assert (usual.sampler, usual.chance) == (Sampling(), 0.5)
    chosen = asked(temperature=(1.0, 0.0), top_k=40, chance=0.1, samples=500).attack_settings()
    assert (chosen.sampler, chosen.chance) == (Sampling(temperature=(1.0, 0.0), top_k=40), 0.1)
    assert (usual.samples, chosen.samples) == (1_000_000, 500)
    assert asked(temperature=(0.7,)).attack_settings().sampler == Sampling(temperature=0.7)


@pytest.mark.parametrize("wrong", [{"temperature": (-1.0,)}, {"temperature": (1.0, math.nan)}, {"chance": 0.0}])
def test_options_without_a_meaning_are_refused(wrong):
    with pytest.raises(ConfigError):
        asked(**wrong).attack_settings()
