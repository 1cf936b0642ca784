"""Guarantees and leakage bounds from parameters alone: no model, no data, no torch.

Each function takes checked parameters and returns the JSON document that `reticent bound … --json` prints; the
sentences for people are made from the document (`reticent.cli.bound_sentences`).
"""

import math
from dataclasses import dataclass
from typing import Any

from reticent.accounting.bounds.confidentiality import confidentiality, missed_secret, missed_secret_of
from reticent.accounting.bounds.leakage import LeakageBounds, leakage_bounds
from reticent.accounting.bounds.parts import extraction_success, owner_point
from reticent.accounting.bounds.tradeoff import auc_ceiling, true_positive_rate_ceiling
from reticent.accounting.calibration import Target, least_noise
from reticent.accounting.conversion import classic_epsilon_from_renyi, epsilon_from_renyi
from reticent.accounting.guarantees import dp_sgd_guarantee, epsilons
from reticent.core.document import number_to_json
from reticent.core.event import Event, Repeated, SampledGaussian
from reticent.core.guarantee import Guarantee, Neighbours, Unit
from reticent.core.metric import AUC, TPR_AT_FPR

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """DP-SGD in the terms of its proof."""

    noise_multiplier: float
    sampling_rate: float
    steps: int
    delta: float
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    @property
    def event(self) -> Event:
        """What is priced."""
        return Repeated(SampledGaussian(self.noise_multiplier, self.sampling_rate), self.steps)


def calibrated(
    epsilon: float, *, delta: float, sampling_rate: float, steps: int, neighbours: Neighbours
) -> Training:
    """The training with the least noise that stays within (epsilon, delta)."""
    target = Target(epsilon=epsilon, delta=delta, sampling_rate=sampling_rate, neighbours=neighbours)
    noise = least_noise(target, steps=steps).noise_multiplier
    return Training(
        noise_multiplier=noise, sampling_rate=sampling_rate, steps=steps, delta=delta, neighbours=neighbours
    )


def dp_sgd_bound(training: Training, secret_bits: list[float], *, copies: int = 1) -> dict[str, Any]:
    """ε, leaked bits of each secret and what attacks may reach."""
    found = epsilons(training.event, delta=training.delta, neighbours=training.neighbours)
    guarantee = dp_sgd_guarantee(training.event, delta=training.delta, neighbours=training.neighbours)
    return {
        "schema_version": SCHEMA_VERSION,
        "mechanism": "dp-sgd",
        "noise_multiplier": training.noise_multiplier,
        "sampling_rate": training.sampling_rate,
        "steps": training.steps,
        "delta": training.delta,
        "unit": Unit.RECORD.value,
        "neighbours": training.neighbours.value,
        "epsilon": {"rdp": number_to_json(found.rdp), "pld": number_to_json(found.pld)},
        "order": number_to_json(found.rdp_order),
        "leakage": [
            _leakage(leakage_bounds(training.event, bits, neighbours=training.neighbours, copies=copies))
            for bits in secret_bits
        ],
        "ceilings": {
            AUC.name: auc_ceiling(guarantee),
            TPR_AT_FPR.at(0.01): true_positive_rate_ceiling(guarantee, 0.01),
            TPR_AT_FPR.at(0.001): true_positive_rate_ceiling(guarantee, 0.001),
        },
        "assumes": list(guarantee.assumes),
    }


def _leakage(bounds: LeakageBounds) -> dict[str, Any]:
    return {
        "secret_bits": bounds.secret_bits,
        "copies": bounds.copies,
        "leaked_bits": bounds.least,
        "bounds": bounds.bounds,
        "posterior_bits": bounds.posterior_bits,
        "traditional_bits": number_to_json(bounds.traditional),
    }


def confidentiality_bound(
    missed: Guarantee, *, miss_rate: float, conservative_miss_rate: float, group: int
) -> dict[str, Any]:
    """Average (Bayesian), worst-case and group confidentiality of secrets with respect to a redaction policy."""
    proved = confidentiality(missed, group, miss_rate=miss_rate, conservative_miss_rate=conservative_miss_rate)
    return {
        "schema_version": SCHEMA_VERSION,
        "mechanism": "confidentially redacted training",
        "notion": missed.notion.value,
        "miss_rate": miss_rate,
        "conservative_miss_rate": conservative_miss_rate,
        "missed": _point(proved.missed),
        "bayesian": _point(proved.bayesian),
        "worst_case": _point(proved.worst_case),
        "group": {"size": group} | _point(proved.group),
        "assumes": list(proved.bayesian.assumes),
    }


def missed_by_training(training: Training) -> Guarantee:
    """One missed secret of a training, priced by replacing one record."""
    return missed_secret_of(training.event, training.delta)


def missed_by_promise(epsilon: float, delta: float) -> Guarantee:
    """One missed secret of a training that was proved (epsilon, delta) for replacing one record."""
    return missed_secret(epsilon, delta)


def _point(guarantee: Guarantee) -> dict[str, Any]:
    return {"epsilon": number_to_json(guarantee.epsilon), "delta": guarantee.delta, "covers": guarantee.covers}


def extraction_bound(order: float, epsilon: float, *, candidates: int, group: int, delta: float) -> dict[str, Any]:
    """Chance to name a secret among candidates under a Rényi guarantee, with its conversions."""
    bound = extraction_success(order, epsilon, candidates=candidates, group=group)
    owner_order, owner_epsilon = owner_point(order, epsilon)
    owner = extraction_success(owner_order, owner_epsilon, candidates=candidates)
    return {
        "schema_version": SCHEMA_VERSION,
        "order": number_to_json(order),
        "epsilon": epsilon,
        "candidates": candidates,
        "copies": group,
        "guess": 1.0 / candidates,
        "success": bound.success,
        "bounds": {"direct": bound.direct, "fano": bound.fano},
        "owner": {"order": number_to_json(owner_order), "epsilon": owner_epsilon, "success": owner.success},
        "differential_privacy": {
            "delta": delta,
            "epsilon": epsilon_from_renyi(order, epsilon, delta=delta),
            "epsilon_classic": classic_epsilon_from_renyi(order, epsilon, delta=delta),
            "owner_epsilon": epsilon_from_renyi(owner_order, owner_epsilon, delta=delta),
        },
        "leaked_bits": math.log2(bound.success * candidates) if bound.success > 0.0 else 0.0,
    }
