"""Events written and read."""

import json
import math

import pytest

from reticent.core.errors import ConfigError, UnsupportedEvent
from reticent.core.event import (
    Composed,
    Gaussian,
    NoisyCheck,
    NoisyVote,
    NonPrivate,
    RealisedCharge,
    Repeated,
    SampledGaussian,
    SubsampledMixture,
    event_from_json,
    event_to_json,
)

STEP = SampledGaussian(1.0, 0.01)
EVENTS = [
    STEP,
    Gaussian(2.0),
    RealisedCharge(math.inf, 0.25),
    NoisyVote(40.0, (3, 5)),
    NoisyVote(40.0),
    NoisyCheck(25.0),
    SubsampledMixture(8, 0.5, 2.0, 0.1),
    Composed((Repeated(STEP, 1000), Repeated(Composed((Gaussian(1.5),)), 2))),
    NonPrivate(),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_written_and_read_is_the_same(event):
    assert event_from_json(json.loads(json.dumps(event_to_json(event), allow_nan=False))) == event


def test_an_unknown_event_is_never_guessed():
    with pytest.raises(ConfigError, match="unknown type"):
        event_from_json({"type": "Magic"})
    with pytest.raises(UnsupportedEvent):
        event_to_json("Gaussian")
    with pytest.raises(ConfigError):
        event_from_json({"type": "Gaussian"})
    with pytest.raises(ConfigError):
        event_from_json({"type": "Gaussian", "noise_multiplier": 1.0, "scale": 1.0})
