"""Guarantees that somebody writes beside weights, true or not: well-formed, with an event that gives their ε."""

from pathlib import Path

from reticent.accounting.calibration import Target, least_noise
from reticent.accounting.guarantees import guarantee_of
from reticent.core.event import Gaussian
from reticent.core.evidence.certificate import Certificate, model_digest
from reticent.core.guarantee import Guarantee, Neighbours, Unit


def claim(epsilon: float, *, delta: float = 1e-5, unit: Unit = Unit.RECORD) -> Guarantee:
    """A Gaussian release with the least noise for (epsilon, delta); its ε is that one, within the calibration."""
    target = Target(epsilon=epsilon, delta=delta, sampling_rate=1.0, neighbours=Neighbours.ADD_REMOVE)
    event = Gaussian(least_noise(target, steps=1).noise_multiplier)
    return guarantee_of(event, delta=delta, unit=unit, mechanism="a claim")


def certify(folder: Path, guarantee: Guarantee) -> Path:
    """Write the guarantee beside the weights of a folder, bound to them, as whoever makes a false claim can."""
    Certificate(guarantee, model_digest(folder)).write(folder)
    return folder / "guarantee.json"
