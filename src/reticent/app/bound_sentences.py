"""Bounds as sentences: one for each number, with its unit and what it speaks of."""

import math
from typing import Any


def number(value: float | str | None, digits: int = 2) -> str:
    """A number for a person; no bound is said in words."""
    if value is None:
        return "unknown"
    if value in ("inf", math.inf):
        return "unbounded"
    value = float(value)
    return f"{value:.{digits + 1}g}" if 0.0 < abs(value) < 0.01 else f"{value:.{digits}f}".rstrip("0").rstrip(".")


def chance(bits: float) -> str:
    """2^bits as a chance: per cent where that can be read, else a power of two."""
    return f"{2.0**bits:.3%}" if bits > -13 else f"2^{bits:.1f}"


def dp_sgd_sentences(document: dict[str, Any]) -> list[str]:
    """What `bound dp-sgd` says."""
    epsilon = document["epsilon"]
    known = [float(value) for value in (epsilon["rdp"], epsilon["pld"]) if value is not None]
    setting = (
        f"noise multiplier {document['noise_multiplier']:g}, sampling rate {document['sampling_rate']:.3g} "
        f"and {document['steps']:,} steps"
    )
    promise = f"({number(min(known))}, {document['delta']:g})-differentially private for one record"
    lines = [
        f"DP-SGD with {setting} is {promise} ({document['neighbours']}).",
        f"Rényi accounting proves ε = {number(epsilon['rdp'])} (order {number(document['order'])}), the privacy "
        f"loss distribution ε = {number(epsilon['pld'])}; both hold, so the lesser counts.",
    ]
    lines += [_leakage_sentence(entry) for entry in document["leakage"]]
    ceilings = document["ceilings"]
    found = f"{ceilings['tpr_at_fpr_0.01']:.1%} of members at 1 % false alarms"
    lines += [
        f"No membership attack on one record has an expected AUC above {ceilings['auc']:.3f}, nor finds more than "
        f"{found} ({ceilings['tpr_at_fpr_0.001']:.2%} at 0.1 %).",
        _conditions(document),
    ]
    return lines


def _leakage_sentence(entry: dict[str, Any]) -> str:
    copies = "" if entry["copies"] == 1 else f" that stands in {entry['copies']} records"
    by = min(entry["bounds"], key=lambda name: float(entry["bounds"][name])) if entry["bounds"] else "its own size"
    sentence = (
        f"Of a secret of {entry['secret_bits']:g} bits{copies} at most {number(entry['leaked_bits'])} bits leak "
        f"(by {by.replace('_', ' ')}): whoever sees the model names it with chance at most "
        f"{chance(entry['posterior_bits'])}, by guessing {chance(-entry['secret_bits'])}."
    )
    if entry["traditional_bits"] is not None:
        sentence += f" The traditional bound says {number(entry['traditional_bits'])} bits."
    return sentence


def confidentiality_sentences(document: dict[str, Any]) -> list[str]:
    """What `bound confidentiality` says."""

    def pair(key: str) -> str:
        point = document[key]
        if point["epsilon"] == "inf" or point["delta"] >= 1.0:
            return "nothing is proved"
        return f"({number(point['epsilon'], 3)}, {point['delta']:.3g})-confidentiality"

    rates = f"{document['miss_rate']:.3g} and the conservative policy {document['conservative_miss_rate']:.3g}"
    plainly = ", since a secret that both policies miss is trained on plainly"
    return [
        f"On average over secrets, where the policy misses {rates}: {pair('bayesian')}, against an attacker who "
        "does not know the secret.",
        f"For a secret that the policy does miss: {pair('missed')}.",
        f"For the worst-off secret: {pair('worst_case')}"
        + (plainly if document["worst_case"]["epsilon"] == "inf" else "")
        + ".",
        f"For {document['group']['size']} missed secrets together: {pair('group')}.",
        "The average can be small while the worst-off secret lies open: never quote it alone.",
        _conditions(document),
    ]


def extraction_sentences(document: dict[str, Any]) -> list[str]:
    """What `bound extraction` says."""
    private, owner, bounds = document["differential_privacy"], document["owner"], document["bounds"]
    where = "one part" if document["copies"] == 1 else f"{document['copies']} parts"
    promise = f"ε = {number(document['epsilon'])} at order {number(document['order'])}"
    older = f"{number(private['epsilon_classic'])} by the older conversion"
    return [
        f"Under Rényi privacy of {promise}, whoever sees the output names a secret among "
        f"{document['candidates']:,} equally likely ones, standing in {where}, with chance at most "
        f"{document['success']:.3g}; guessing has {document['guess']:.3g}.",
        f"That is the lesser of {bounds['direct']:.3g} (directly) and {bounds['fano']:.3g} (by Fano's inequality).",
        f"For changing one owner's text the guarantee is ε = {number(owner['epsilon'])} at order "
        f"{number(owner['order'])}, and the chance at most {owner['success']:.3g}.",
        f"As (ε, δ) at δ = {private['delta']:g}: ε = {number(private['epsilon'])} for one part ({older}), "
        f"{number(private['owner_epsilon'])} for one owner.",
    ]


def _conditions(document: dict[str, Any]) -> str:
    return "This holds if " + "; ".join(document["assumes"]) + "."
