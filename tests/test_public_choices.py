"""Whatever is public and takes a member of an enum takes its word as well, and refuses every other word."""

import enum
import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, get_args

import pytest

import reticent
from reticent import accounting, auditing, data, engine, prediction, training
from reticent.core import Access, ConfigError, Neighbours, Notion, Randomness, SampledGaussian, Unit
from reticent.core.choice import member_of, word_of
from tests.test_api import PACKAGES
from tests.training.small_runs import private_plan, token_texts

EVENT = SampledGaussian(1.0, 0.1)
TARGET = {"epsilon": 8.0, "delta": 1e-4, "units": 100, "batch": 20, "epochs": 1.0}


def _plan(**choice: Any) -> reticent.DpSgd:
    return reticent.DpSgd(**{"sampler": private_plan(20, 5).sampler, **_NUMBERS, **choice})


def _guarantee(**choice: Any) -> reticent.Guarantee:
    usual = {"notion": Notion.DIFFERENTIAL_PRIVACY, "unit": Unit.RECORD, "neighbours": Neighbours.REPLACE}
    return reticent.Guarantee(mechanism="m", epsilon=1.0, covers="c", **usual | choice)


def _finding(**choice: Any) -> reticent.Finding:
    numbers = {"value": 0.5, "low": 0.4, "high": 0.6, "confidence": 0.95, "n": 9, "measure": "ratio"}
    return reticent.Finding(
        attack="a", metric="auc", **numbers, **{"unit": Unit.RECORD, "access": Access.TEXT} | choice
    )


def _hits() -> auditing.CodeHits:
    counts = {"asked": 4, "answered": 4, "well_formed": 4, "hits": 1, "distinct_hits": 1, "codes": 2}
    return auditing.CodeHits(**counts, guess_rate=0.1)


_NUMBERS = {"clip_norm": 1.0, "noise_multiplier": 1.0, "steps": 4, "delta": 1e-3}
_SCORES = {"scores": [1.0, 2.0], "is_member": [True, False]}
# Each parameter that takes a member, called with a choice; the rest is as little as it takes to get there.
CALLS: dict[str, Callable[[Any], Any]] = {
    "DpSgd unit": lambda word: _plan(unit=word).unit,
    "DpSgd neighbours": lambda word: _plan(neighbours=word).neighbours,
    "DpSgd rounding": lambda word: _plan(rounding=word).rounding,
    "DpSgd.for_target unit": lambda word: reticent.DpSgd.for_target(**TARGET, unit=word).unit,
    "DpSgd.for_target neighbours": lambda word: reticent.DpSgd.for_target(**TARGET, neighbours=word).neighbours,
    "DpSgd.for_target rounding": lambda word: reticent.DpSgd.for_target(**TARGET, rounding=word).rounding,
    "Guarantee notion": lambda word: _guarantee(notion=word).notion,
    "Guarantee unit": lambda word: _guarantee(unit=word).unit,
    "Guarantee neighbours": lambda word: _guarantee(neighbours=word).neighbours,
    "Finding unit": lambda word: _finding(unit=word).unit,
    "Finding access": lambda word: _finding(access=word).access,
    "accounting.RenyiCurve neighbours": lambda word: accounting.RenyiCurve(EVENT, word).neighbours,
    "accounting.dp_sgd_guarantee unit": lambda word: accounting.dp_sgd_guarantee(EVENT, delta=1e-4, unit=word).unit,
    "accounting.dp_sgd_guarantee neighbours": lambda word: (
        accounting.dp_sgd_guarantee(EVENT, delta=1e-4, neighbours=word).neighbours
    ),
    "accounting.guarantee_of unit": lambda word: accounting.guarantee_of(EVENT, delta=1e-4, unit=word).unit,
    "accounting.guarantee_of neighbours": lambda word: (
        accounting.guarantee_of(EVENT, delta=1e-4, unit=Unit.RECORD, neighbours=word).neighbours
    ),
    "accounting.epsilons neighbours": lambda word: accounting.epsilons(EVENT, delta=1e-4, neighbours=word),
    "accounting.leakage_bounds neighbours": lambda word: accounting.leakage_bounds(EVENT, 20.0, neighbours=word),
    "data.plant_canaries owner": lambda word: data.plant_canaries(
        [], [], randomness=Randomness.seeded(1), owner=word
    ),
    "data.redact_records style": lambda word: list(data.redact_records([], data.PatternPolicy(), style=word)),
    "auditing.BeamSettings score": lambda word: auditing.BeamSettings(score=word).score,
    "auditing.CandidateDraw decoys": lambda word: auditing.CandidateDraw((), (), 0, word).decoys,
    "auditing.CandidateScorer scoring": lambda word: auditing.CandidateScorer(None, scoring=word).scoring,
    "auditing.CodeHits.finding unit": lambda word: _hits().finding(unit=word).unit,
    "auditing.MembershipSetting access": lambda word: auditing.MembershipSetting(attack="a", access=word).access,
    "auditing.MembershipSetting unit": lambda word: auditing.MembershipSetting(attack="a", unit=word).unit,
    "auditing.PhraseScore.by score": lambda word: auditing.PhraseScore((1,), (0.5,), 0.5, 0.7, 1.0).by(word),
    "auditing.PhraseWalk score": lambda word: auditing.PhraseWalk(None, word, prefix=(), entries=8),
    "auditing.PiiSetting unit": lambda word: auditing.PiiSetting(unit=word).unit,
    "auditing.masked_spans others": lambda word: auditing.masked_spans(
        (), others=word, count=0, randomness=Randomness.seeded(1)
    ),
    "auditing.pooled_scores pooling": lambda word: auditing.pooled_scores(
        **_SCORES, groups=[[0], [1]], pooling=word
    ),
    "auditing.score_owners pooling": lambda word: auditing.score_owners(**_SCORES, owners=["a", "b"], pooling=word),
    "training.OptimiserSettings rule": lambda word: training.OptimiserSettings(rule=word).rule,
    "training.OptimiserSettings decay": lambda word: training.OptimiserSettings(decay=word).decay,
    "training.Units unit": lambda word: training.Units(token_texts(3), word),
    "prediction.PredictionTarget unit": lambda word: (
        prediction.PredictionTarget(epsilon=1.0, delta=0.0, queries=1, unit=word).unit
    ),
    "prediction.TokenPredictor exhausted": lambda word: prediction.TokenPredictor(
        None, None, ledger=None, queries=1, exhausted=word
    ),
    "prediction.set_up_mechanism kind": lambda word: prediction.set_up_mechanism(word, None, None),
    "engine.EngineSettings name": lambda word: engine.EngineSettings(name=word).name,
}
# A verb's own settings check words by themselves, and these need more than a word to begin with.
SETTINGS = {"open_corpus format", "runs.EngineOptions engine"}
BEYOND = {"auditing.PhraseWalk score", "prediction.TokenPredictor exhausted", "prediction.set_up_mechanism kind"}


def _kinds(annotation: Any) -> Iterator[type[enum.Enum]]:
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        yield annotation
    for each in get_args(annotation):
        yield from _kinds(each)


def _public() -> Iterator[tuple[str, Any]]:
    """Every public callable with its name, and the methods of public classes."""
    for package in ("", *PACKAGES):
        offered = import_module(f"reticent.{package}".rstrip("."))
        for name in set(offered.__all__) - {"__version__"}:
            value, shown = getattr(offered, name), f"{package}.{name}".lstrip(".")
            if inspect.isclass(value) and not issubclass(value, enum.Enum):
                methods = [each for each in vars(value) if not each.startswith("_")]
                yield from ((f"{shown}.{each}", getattr(value, each)) for each in methods)
            yield shown, value


def _choices() -> dict[str, type[enum.Enum]]:
    """Every parameter of the public API that takes a member of an enum."""
    found = {}
    for name, value in _public():
        if not callable(value) or (inspect.isclass(value) and issubclass(value, enum.Enum)):
            continue
        try:
            parameters = inspect.signature(value).parameters.values()
        except ValueError:  # built in, or a protocol
            continue
        for each in parameters:
            for kind in _kinds(each.annotation):
                found[f"{name} {each.name}"] = kind
    return found


CHOICES = _choices()


def test_every_choice_of_the_public_api_is_tried_below():
    assert set(CHOICES) - SETTINGS == set(CALLS)


@pytest.mark.parametrize("place", CALLS)
def test_a_word_that_is_no_choice_is_refused_with_the_choices(place):
    kind, name = CHOICES[place], place.split()[1]
    for wrong in ("foo", "", 17, None):
        with pytest.raises(ConfigError, match=f"{name} is none of its choices") as caught:
            CALLS[place](wrong)
        assert all(word_of(member) in str(caught.value) for member in kind)


@pytest.mark.parametrize("place", sorted(set(CALLS) - BEYOND))
def test_a_choice_may_be_given_by_member_by_value_or_by_word(place):
    member = Unit.OWNER if CHOICES[place] is Unit else list(CHOICES[place])[-1]
    if CHOICES[place] is Neighbours:
        member = Neighbours.ADD_REMOVE  # what most prices are known for
    by_member = CALLS[place](member)
    for spelling in (member.value, word_of(member)):
        found = CALLS[place](spelling)
        assert found is by_member if isinstance(by_member, enum.Enum) else repr(found) == repr(by_member)


def test_a_word_gives_the_noise_of_its_member_and_leaves_that_of_other_plans_alone():
    asked = {**TARGET, "delta": 1e-5, "units": 1000}
    by_word = reticent.DpSgd.for_target(**asked, neighbours="add or remove one")
    usual = reticent.DpSgd.for_target(**asked)
    assert by_word == usual
    replaced = reticent.DpSgd.for_target(**asked, neighbours="replace")
    assert replaced.neighbours is Neighbours.REPLACE
    assert replaced.noise_multiplier > usual.noise_multiplier


def test_a_member_of_another_choice_is_refused_and_a_long_word_is_not_quoted():
    with pytest.raises(ConfigError, match="'record'; expected add-remove or replace or mask"):
        member_of(Neighbours, Unit.RECORD.value, name="neighbours")
    with pytest.raises(ConfigError, match="found Unit"):
        member_of(Neighbours, Unit.RECORD, name="neighbours")
    with pytest.raises(ConfigError, match="found str"):
        member_of(Neighbours, "Dear Anna, " * 9, name="neighbours")
