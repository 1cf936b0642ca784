"""`reticent bound`: guarantees and leakage bounds from parameters alone: no model, no data, no torch."""

from typing import Any

import typer
import typer.core

from reticent.cli.console import Output
from reticent.cli.flags import VerbCommand, verb
from reticent.core.finding import allows_everything
from reticent.core.metric import AUC, TPR_AT_FPR
from reticent.core.printing.numbers import at_least, at_most, chance_at_most, counted
from reticent.runs.bounds.settings import (
    ConfidentialityBoundSettings,
    DpSgdBoundSettings,
    ExtractionBoundSettings,
    RunBoundSettings,
)


class _BoundGroup(typer.core.TyperGroup):
    """`reticent bound RUN` beside `reticent bound dp-sgd …`: what is no bound's name is a path."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The named bound, or the re-derivation of a run."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["run", *args])


bound = typer.Typer(
    cls=_BoundGroup,
    help="Compute guarantees and leakage bounds from parameters alone; `bound RUN` recomputes those of a run.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@bound.command("run", cls=VerbCommand)
@verb(RunBoundSettings)
def run(settings: RunBoundSettings, output: Output) -> int:
    """Recompute the ε of a run, and check its weights and ledger. `reticent bound RUN` for short."""
    from reticent.runs.proofs.rederivation import rederive, sentences

    found = rederive(settings.run)
    output.document(found)
    output.show(*sentences(found))
    return 0 if found.agrees else 1


@bound.command("dp-sgd", cls=VerbCommand)
@verb(DpSgdBoundSettings)
def dp_sgd(settings: DpSgdBoundSettings, output: Output) -> None:
    """Compute ε of DP-SGD with two accountants, the bits of a secret that can leak, and the limits on attacks."""
    from reticent.runs.bounds.bound import bound_dp_sgd

    document = bound_dp_sgd(settings)
    output.document(document)
    output.show(*dp_sgd_sentences(document))


@bound.command("confidentiality", cls=VerbCommand)
@verb(ConfidentialityBoundSettings)
def confidentiality(settings: ConfidentialityBoundSettings, output: Output) -> None:
    """Bound the confidentiality of secrets under redacted training: on average, at worst, and for groups."""
    from reticent.runs.bounds.bound import bound_confidentiality

    document = bound_confidentiality(settings)
    output.document(document)
    output.show(*confidentiality_sentences(document))


@bound.command("extraction", cls=VerbCommand)
@verb(ExtractionBoundSettings)
def extraction(settings: ExtractionBoundSettings, output: Output) -> None:
    """Bound the probability of extracting a secret under a Rényi guarantee; convert to owner level and (ε, δ)."""
    from reticent.runs.bounds.bound import bound_extraction

    document = bound_extraction(settings)
    output.document(document)
    output.show(*extraction_sentences(document))


def dp_sgd_sentences(document: dict[str, Any]) -> list[str]:
    """What `bound dp-sgd` says."""
    epsilon = document["epsilon"]
    known = [float(value) for value in (epsilon["rdp"], epsilon["pld"]) if value is not None]
    setting = (
        f"noise multiplier {document['noise_multiplier']:g}, sampling rate {document['sampling_rate']:.3g} "
        f"and {counted(document['steps'], 'step')}"
    )
    promise = f"({at_most(min(known))}, {document['delta']:g})-differentially private for one record"
    lines = [
        f"DP-SGD with {setting} is {promise} ({document['neighbours']}).",
        f"Rényi accounting proves ε = {at_most(epsilon['rdp'])} (order {at_least(document['order'])}), the privacy "
        f"loss distribution ε = {at_most(epsilon['pld'])}; both hold, so the smaller one counts.",
    ]
    if document.get("target") is not None:
        lines.append(f"Ceiling of the target: {document['target']['in_words']}.")
    lines += [_leakage_sentence(entry) for entry in document["leakage"]]
    return [*lines, _membership_sentence(document["ceilings"]), _conditions(document)]


def _membership_sentence(ceilings: dict[str, float]) -> str:
    area, *shares = (ceilings[name] for name in (AUC.name, TPR_AT_FPR.at(0.01), TPR_AT_FPR.at(0.001)))
    if allows_everything(shares[-1], 1.0):
        return "Nothing is proved against membership attacks on one record."
    found, at_less = (f"{at_most(100 * share, 3)} %" for share in shares)
    return (
        f"No membership attack on one record has an expected AUC above {at_most(area, 3)}, "
        f"or finds more than {found} of the members at 1 % false positives ({at_less} at 0.1 %)."
    )


def _leakage_sentence(entry: dict[str, Any]) -> str:
    copies = "" if entry["copies"] == 1 else f" that occurs in {entry['copies']} records"
    if allows_everything(entry["leaked_bits"], entry["secret_bits"]):
        return f"Nothing is proved about a secret of {entry['secret_bits']:g} bits{copies}: all of it may leak."
    by = min(entry["bounds"], key=lambda name: float(entry["bounds"][name])) if entry["bounds"] else "its own size"
    sentence = (
        f"At most {at_most(entry['leaked_bits'])} bits of a secret of {entry['secret_bits']:g} bits{copies} leak "
        f"(bound: {by.replace('_', ' ')}): anyone who sees the model guesses it with probability at most "
        f"{chance_at_most(entry['posterior_bits'])} (blind guessing: {chance_at_most(-entry['secret_bits'])})."
    )
    if entry["traditional_bits"] is not None:
        sentence += f" The traditional bound gives {at_most(entry['traditional_bits'])} bits."
    return sentence


def confidentiality_sentences(document: dict[str, Any]) -> list[str]:
    """What `bound confidentiality` says."""

    def pair(key: str) -> str:
        point = document[key]
        if point["epsilon"] == "inf" or point["delta"] >= 1.0:
            return "nothing is proved"
        return f"({at_most(point['epsilon'])}, {at_most(point['delta'])})-confidentiality"

    rates = f"{document['miss_rate']:.3g} of them and both policies {document['conservative_miss_rate']:.3g}"
    plainly = ", since a secret that both policies miss is trained on plainly"
    caught = " and the conservative policy catches" if document["conservative_miss_rate"] > 0.0 else ""
    size = document["group"]["size"]
    together = [f"For {size} such secrets together: {pair('group')}."] if size > 1 else []
    return [
        f"On average over secrets, where the policy misses {rates}: {pair('bayesian')}, against an attacker who "
        "does not know the secret.",
        f"For a secret that the policy misses{caught}: {pair('missed')}.",
        *together,
        f"For the worst-off secret: {pair('worst_case')}"
        + (plainly if document["worst_case"]["epsilon"] == "inf" else "")
        + ".",
        "The average can be small while the worst-off secret is unprotected: never quote it alone.",
        _conditions(document),
    ]


def extraction_sentences(document: dict[str, Any]) -> list[str]:
    """What `bound extraction` says."""
    private, owner, bounds = document["differential_privacy"], document["owner"], document["bounds"]
    where = "one part" if document["copies"] == 1 else f"{document['copies']} parts"
    promise = f"ε = {at_most(document['epsilon'])} at order {at_least(document['order'])}"
    older = f"{at_most(private['epsilon_classic'])} by the older conversion"
    secret = f"a secret among {document['candidates']:,} equally likely ones, in {where}"
    named = [
        f"Under Rényi DP with {promise}, anyone who sees the output guesses {secret}, with probability at most "
        f"{at_most(document['success'], 3)} (blind guessing: {document['guess']:.3g}).",
        f"That is the smaller of {at_most(bounds['direct'], 3)} (direct bound) and {at_most(bounds['fano'], 3)} "
        "(by Fano's inequality).",
    ]
    if allows_everything(document["success"], 1.0):
        named = [f"Rényi DP with {promise} proves nothing about {secret}: it may be guessed with certainty."]
    chance = at_most(owner["success"], 3)
    is_open = allows_everything(owner["success"], 1.0)
    reached = "it proves nothing about the secret" if is_open else f"the probability is at most {chance}"
    return [
        *named,
        f"For changing one owner's text the guarantee is ε = {at_most(owner['epsilon'])} at order "
        f"{at_least(owner['order'])}, and {reached}.",
        f"As (ε, δ) at δ = {private['delta']:g}: ε = {at_most(private['epsilon'])} for one part ({older}), "
        f"{at_most(private['owner_epsilon'])} for one owner.",
        _conditions(document),
    ]


def _conditions(document: dict[str, Any]) -> str:
    return "This holds if " + "; ".join(document["assumes"]) + "."
