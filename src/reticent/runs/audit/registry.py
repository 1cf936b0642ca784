"""The attacks of an audit, in the order in which they run, and how `--attacks` names them.

    attack       needs                                  asks
    exposure     log-probabilities, canaries            how high does a planted secret rank?
    codes        text, canaries that are codes          does the model complete a planted code?
    coins        log-probabilities, canaries with coins which canaries of plant --audit were planted?
    membership   log-probabilities                      which texts were in the training data?
    lazy         log-probabilities, a base model        which records would sampling alone reveal?
    extraction   text                                   does the model complete a record, given its beginning?
    generation   text                                   do generated texts contain pieces of records?

Opt-in, run only if named (`--attacks all,shadow`); pii also runs if a policy is given:

    neighbourhood  whole distributions                  is a text more likely than near copies of it?
    shadow         the run that trained the model       is it more likely than under models that never saw it?
    dataset        log-probabilities                    was the corpus, as a whole, used in training?
    traps          log-probabilities, canaries with coins was the text around planted traps used?
    styles         text                                 does it continue records in capitals, past a filter?
    novelty        text                                 is generated text less novel than held-out text?
    divergence     text                                 what does it say once it stops repeating a word?
    pii            text, a policy                       can personal data be extracted, reconstructed or inferred?
    prompts        text, a policy                       which prompts reveal a person's data?
    fragments      weights, a policy                    what is recovered after training on a few known pairs?
    attributes     log-probabilities                    what does it infer about authors that they do not state?
"""

from typing import Final

from reticent.auditing.attack import Attack
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
from reticent.auditing.settings import AttackSettings
from reticent.core.errors import ConfigError
from reticent.runs.audit.retraining import fine_tune, train_shadows
from reticent.runs.policies.by_name import policy_named

_IN_ORDER: Final[tuple[Attack, ...]] = (
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
ATTACKS: Final = {attack.name: attack for attack in _IN_ORDER}
USUAL: Final = tuple(attack.name for attack in _IN_ORDER if not attack.is_opt_in)
_ALL: Final = "all"


def asked_attacks(settings: AttackSettings) -> tuple[Attack, ...]:
    """The attacks that are asked for, in the order of the registry."""
    asked = USUAL if settings.attacks is None else settings.attacks
    return tuple(attack for name, attack in ATTACKS.items() if name in asked)


def parse_attacks(names: str, *, with_policy: bool = False) -> tuple[str, ...]:
    """`exposure,lazy`, `all`, or `all,shadow`; an unknown name is an error that lists the known ones.

    Where a policy was given, `all` includes the attack on what it finds.
    """
    asked = {name.strip() for name in names.split(",")}
    unknown = sorted(asked - {*ATTACKS, _ALL})
    if unknown:
        expected = f"all, or some of {', '.join(ATTACKS)}"
        raise ConfigError("unknown attack", found=repr(unknown[0]), expected=expected)
    if _ALL in asked:
        asked |= {*USUAL, *([PersonalDataAttack.name] if with_policy else [])}
    return tuple(name for name in ATTACKS if name in asked)
