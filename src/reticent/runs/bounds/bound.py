"""`reticent bound` as calls: settings in, the JSON document out. No model, no data, no torch.

The document is what `reticent bound … --json` prints; the sentences for people are made from it
(`reticent.cli.bound`).
"""

import math
from dataclasses import dataclass
from typing import Any

from reticent.accounting.bounds.confidentiality import (
    Confidentiality,
    confidentiality,
    missed_secret,
    missed_secret_of,
)
from reticent.accounting.bounds.leakage import leakage_bounds
from reticent.accounting.bounds.parts import ONE_PART, extraction_success, owner_point
from reticent.accounting.bounds.tradeoff import auc_ceiling, true_positive_rate_ceiling
from reticent.accounting.calibration import Target, least_noise
from reticent.accounting.conversion import classic_epsilon_from_renyi, epsilon_from_renyi
from reticent.accounting.guarantees import CLIPPED, dp_sgd_guarantee, epsilons
from reticent.accounting.risk_target import RiskTarget, noise_for_risk
from reticent.core.document import number_to_json
from reticent.core.errors import ConfigError
from reticent.core.event import Event, Repeated, SampledGaussian
from reticent.core.guarantee import Guarantee, Neighbours, Unit
from reticent.core.metric import AUC, TPR_AT_FPR
from reticent.core.ranges import STEPS
from reticent.runs.bounds.settings import (
    ConfidentialityBoundSettings,
    DpSgdBoundSettings,
    ExtractionBoundSettings,
)

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


def _training(
    settings: DpSgdBoundSettings | ConfidentialityBoundSettings,
    *,
    rate: float | None,
    steps: int | None,
    target: float | None,
    neighbours: Neighbours,
    risk: RiskTarget | None = None,
) -> Training:
    """The training that the options describe; its noise given, or the least that reaches a target."""
    noise, delta = settings.noise_multiplier, settings.delta
    if rate is None or steps is None:
        raise ConfigError("--sampling-rate and --steps are both needed")
    if not 0.0 < rate <= 1.0:
        raise ConfigError("--sampling-rate is a probability", found=rate, expected="above 0, at most 1")
    STEPS.require("--steps", steps, hint="no training takes more")
    if risk is not None:
        noise = noise_for_risk(
            risk,
            lambda each: Repeated(SampledGaussian(each, rate), steps),
            delta=delta,
            neighbours=neighbours,
        )
    if noise is None:
        assert target is not None
        wanted = Target(epsilon=target, delta=delta, sampling_rate=rate, neighbours=neighbours)
        noise = least_noise(wanted, steps=steps).noise_multiplier
    return Training(noise_multiplier=noise, sampling_rate=rate, steps=steps, delta=delta, neighbours=neighbours)


def bound_dp_sgd(settings: DpSgdBoundSettings) -> dict[str, Any]:
    """ε of DP-SGD, how many bits of a secret can leak, and what attacks may reach; draws the figure if asked."""
    rate, steps = settings.described()
    target, bits = settings.target_epsilon, settings.bits
    risk = RiskTarget.of(tpr=settings.target_tpr, bits=settings.target_bits, advantage=settings.target_advantage)
    training = _training(settings, rate=rate, steps=steps, target=target, neighbours=settings.neighbours, risk=risk)
    document = dp_sgd_bound(training, bits, copies=settings.copies) | {"target": None}
    if risk is not None:
        proved = dp_sgd_guarantee(training.event, delta=training.delta, neighbours=training.neighbours)
        reached = risk.ceiling(proved)
        alone = " that stands in one record" if settings.copies > 1 and risk.secret_bits is not None else ""
        document["target"] = {
            "name": risk.name,
            "limit": risk.limit,
            "reached": reached,
            "in_words": f"{risk.name}{alone}, at most {risk.shown(reached)} (asked for: {risk.shown(risk.limit)})",
        }
    if settings.plot is not None:
        from reticent.runs.bounds.figures import draw_dp_sgd

        draw_dp_sgd(training, bits, path=settings.plot, copies=settings.copies)
    return document


def dp_sgd_bound(training: Training, secret_bits: list[float], *, copies: int = 1) -> dict[str, Any]:
    """ε, leaked bits of each secret and what attacks may reach."""
    found = epsilons(training.event, delta=training.delta, neighbours=training.neighbours)
    guarantee = dp_sgd_guarantee(training.event, delta=training.delta, neighbours=training.neighbours)
    leaks = [
        leakage_bounds(training.event, bits, neighbours=training.neighbours, copies=copies) for bits in secret_bits
    ]
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
            {
                "secret_bits": bounds.secret_bits,
                "copies": bounds.copies,
                "leaked_bits": bounds.least,
                "bounds": bounds.bounds,
                "posterior_bits": bounds.posterior_bits,
                "traditional_bits": number_to_json(bounds.traditional),
            }
            for bounds in leaks
        ],
        "ceilings": {
            AUC.name: auc_ceiling(guarantee),
            TPR_AT_FPR.at(0.01): true_positive_rate_ceiling(guarantee, 0.01),
            TPR_AT_FPR.at(0.001): true_positive_rate_ceiling(guarantee, 0.001),
        },
        "assumes": list(guarantee.assumes),
    }


def bound_confidentiality(settings: ConfidentialityBoundSettings) -> dict[str, Any]:
    """Confidentiality of secrets under redacted training: on average (Bayesian), at worst, and for groups."""
    if settings.epsilon is not None:
        missed = missed_secret(settings.epsilon, settings.delta)
    else:
        drawn, steps = settings.sampling_rate, settings.steps
        training = _training(settings, rate=drawn, steps=steps, target=None, neighbours=Neighbours.REPLACE)
        missed = missed_secret_of(training.event, training.delta)
    rate, conservative = settings.miss_rate, settings.conservative_miss_rate
    proved = confidentiality(missed, settings.group, miss_rate=rate, conservative_miss_rate=conservative)
    return {
        "schema_version": SCHEMA_VERSION,
        "mechanism": "confidentially redacted training",
        "notion": missed.notion.value,
        "miss_rate": rate,
        "conservative_miss_rate": conservative,
        "missed": _point(proved.missed),
        "bayesian": _point(proved.bayesian),
        "worst_case": _point(proved.worst_case),
        "group": {"size": settings.group} | _point(proved.group),
        "assumes": _assumptions(proved, settings),
    }


def _assumptions(proved: Confidentiality, settings: ConfidentialityBoundSettings) -> list[str]:
    """What any of the statements rests on, each once."""
    private: tuple[str, ...] = (*SampledGaussian.assumes, CLIPPED)
    if settings.epsilon is not None:
        private = ("the private training has the given ε and δ for replacing one record",)
    stated = (proved.missed, proved.worst_case, proved.group, proved.bayesian)
    return list(dict.fromkeys([*private, *(line for one in stated for line in one.assumes)]))


def _point(guarantee: Guarantee) -> dict[str, Any]:
    return {"epsilon": number_to_json(guarantee.epsilon), "delta": guarantee.delta, "covers": guarantee.covers}


def bound_extraction(settings: ExtractionBoundSettings) -> dict[str, Any]:
    """Chance to name a secret among candidates under a Rényi guarantee, with owner-level and (ε, δ) conversions."""
    order, epsilon, candidates = settings.order, settings.epsilon, settings.candidates
    bound = extraction_success(order, epsilon, candidates=candidates, group=settings.copies)
    owner_order, owner_epsilon = owner_point(order, epsilon)
    owner = extraction_success(owner_order, owner_epsilon, candidates=candidates)
    return {
        "schema_version": SCHEMA_VERSION,
        "order": number_to_json(order),
        "epsilon": epsilon,
        "candidates": candidates,
        "copies": settings.copies,
        "guess": 1.0 / candidates,
        "success": bound.success,
        "bounds": {"direct": bound.direct, "fano": bound.fano},
        "owner": {"order": number_to_json(owner_order), "epsilon": owner_epsilon, "success": owner.success},
        "differential_privacy": {
            "delta": settings.delta,
            "epsilon": epsilon_from_renyi(order, epsilon, delta=settings.delta),
            "epsilon_classic": classic_epsilon_from_renyi(order, epsilon, delta=settings.delta),
            "owner_epsilon": epsilon_from_renyi(owner_order, owner_epsilon, delta=settings.delta),
        },
        "leaked_bits": math.log2(bound.success * candidates) if bound.success > 0.0 else 0.0,
        "assumes": [
            "the release has the given Rényi guarantee for one part",
            ONE_PART,
            "without the release every candidate is equally likely",
        ],
    }
