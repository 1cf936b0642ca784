"""The attacks of an audit, in the order in which they run, and how `--attacks` names them.

Names are read from here without loading the attacks, which takes a while: `every_attack` does that.
"""

from functools import cache
from typing import TYPE_CHECKING, Final

from reticent.core.choice import advice
from reticent.core.errors import ConfigError

if TYPE_CHECKING:
    from reticent.auditing.attack import Attack
    from reticent.auditing.settings import AttackSettings

USUAL: Final = (
    "exposure",  # log-probabilities, canaries: how high does a planted secret rank?
    "codes",  # text, canaries that are codes: does the model complete a planted code?
    "coins",  # log-probabilities, canaries with coins: which canaries of plant --audit were planted?
    "membership",  # log-probabilities: which texts were in the training data?
    "lazy",  # log-probabilities, a base model: which records would sampling alone reveal?
    "extraction",  # text: does the model complete a record, given its beginning?
    "generation",  # text: do generated texts contain pieces of records?
)
# Run only if named (`--attacks all,shadow`).
OPT_IN: Final = (
    "neighbourhood",  # whole distributions: is a text more likely than near copies of it?
    "shadow",  # the run that trained the model: is it more likely than under models that never saw it?
    "dataset",  # log-probabilities: was the corpus, as a whole, used in training?
    "traps",  # log-probabilities, canaries with coins: was the text around planted traps used?
    "styles",  # text: does it continue records in capitals, past a filter?
    "novelty",  # text: is generated text less novel than held-out text?
    "divergence",  # text: what does it say once it stops repeating a word?
    "pii",  # text, a policy: can personal data be extracted, reconstructed or inferred?
    "prompts",  # text, a policy: which prompts reveal a person's data?
    "fragments",  # weights, a policy: what is recovered after training on a few known pairs?
    "attributes",  # log-probabilities: what does it infer about authors that they do not state?
)
WITH_POLICY: Final = "pii"  # also runs if a policy is given

# Settings that one attack alone reads; any other setting makes a score stale for every attack.
READ_BY: Final = {"sampler": "lazy", "chance": "lazy", "shadow_models": "shadow"}
BY_POLICY: Final = ("pii", "prompts", "fragments")  # attacks on what a policy finds
_ALL: Final = "all"


@cache
def every_attack() -> "dict[str, Attack]":
    """The attacks by name, in order, each with what its layer may not import."""
    from reticent.auditing.attacks.exposure.attack import ExposureAttack
    from reticent.auditing.attacks.extraction.attack import (
        CodesAttack,
        DiscoverableAttack,
        DivergenceAttack,
        GenerationAttack,
        NoveltyAttack,
        StyledAttack,
    )
    from reticent.auditing.attacks.lazy.attack import LazyAttack
    from reticent.auditing.attacks.membership.attack import MembershipInference
    from reticent.auditing.attacks.membership.dataset_inference import DatasetInference
    from reticent.auditing.attacks.membership.neighbourhood import NeighbourhoodAttack
    from reticent.auditing.attacks.membership.shadow_models import ShadowAttack
    from reticent.auditing.attacks.one_run.coins import CoinAttack, TrapAttack
    from reticent.auditing.attacks.personal_data.attack import PersonalDataAttack
    from reticent.auditing.attacks.personal_data.attributes import AttributeAttack
    from reticent.auditing.attacks.personal_data.fragments import FragmentAttack
    from reticent.auditing.attacks.personal_data.prompted import PromptedAttack
    from reticent.runs.audit.retraining import fine_tune, train_shadows
    from reticent.runs.policies.by_name import policy_named

    in_order: tuple[Attack, ...] = (
        ExposureAttack(),
        CodesAttack(),
        CoinAttack(),
        MembershipInference(),
        LazyAttack(),
        DiscoverableAttack(),
        GenerationAttack(),
        NeighbourhoodAttack(),
        ShadowAttack(train_shadows),
        DatasetInference(),
        TrapAttack(),
        StyledAttack(),
        NoveltyAttack(),
        DivergenceAttack(),
        PersonalDataAttack(policy_named),
        PromptedAttack(policy_named),
        FragmentAttack(fine_tune, policy_named),
        AttributeAttack(),
    )
    return {attack.name: attack for attack in in_order}


def asked_attacks(settings: "AttackSettings") -> "tuple[Attack, ...]":
    """The attacks that are asked for, in the order of the registry."""
    asked = USUAL if settings.attacks is None else settings.attacks
    return tuple(every_attack()[name] for name in (*USUAL, *OPT_IN) if name in asked)


def parse_attacks(names: str, *, with_policy: bool = False) -> tuple[str, ...]:
    """`exposure,lazy`, `all`, or `all,shadow`; an unknown name is an error that lists the known ones.

    Where a policy was given, `all` includes the attack on what it finds.
    """
    asked = {name.strip() for name in names.split(",")}
    known = (*USUAL, *OPT_IN)
    unknown = sorted(asked - {*known, _ALL})
    if unknown:
        raise ConfigError(f"unknown attack '{unknown[0]}'{advice(unknown[0], (_ALL, *known))}")
    if _ALL in asked:
        asked |= {*USUAL, *([WITH_POLICY] if with_policy else [])}
    return tuple(name for name in known if name in asked)
