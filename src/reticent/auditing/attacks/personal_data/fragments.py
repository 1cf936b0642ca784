"""Fragments: whoever holds the weights and a few of the pairs trains on these, and asks for the others.

After the Janus attack (Chen et al. 2024): a few epochs on pairs of a person and a value that the adversary knows
teach the model the task, and what it had seemed to forget comes back. Templates are asked before and after, on
pairs that share no value with the known ones. The null are held-out pairs, asked after the training as well: what
the fine-tuned model makes up. Needs weights; who trains is given, for training is no matter of an attack.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from reticent.auditing.attack import SCHEMA_VERSION, Lines, Measurement, NothingToAttack, PlannedAttack, skip
from reticent.auditing.attacks.personal_data.association import Asking, Association, Style, associate, prompts_of
from reticent.auditing.attacks.personal_data.attack import ASKED, PEOPLE, chosen_pairs, tag_sides, unit_of
from reticent.auditing.attacks.personal_data.findings import PiiSetting, recovered_finding
from reticent.auditing.attacks.personal_data.pairs import Pair
from reticent.auditing.attacks.personal_data.prompted import EXAMPLES, parted
from reticent.auditing.metrics.paired import Paired
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import Subject
from reticent.core.corpus import Policy
from reticent.core.metric import RECOVERED_SHARE
from reticent.core.model import Access, TextModel

# The model after a few epochs on the texts; the model itself stays as it is.
FineTune = Callable[[TextModel, Sequence[str], AttackSettings], TextModel]
EPOCHS = 5
_TEXT = 20  # tokens of a known pair in a sentence, roughly
_TRAINING_COST = 3


@dataclass(frozen=True, slots=True)
class FragmentAttack:
    """Values that come back after training on some known ones."""

    fine_tune: FineTune
    policy_named: Callable[[str], Policy]

    name: ClassVar[str] = "fragments"

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line: a short training, and answers before and after it."""
        needs = "weights, a policy"
        if subject.model.access < Access.WEIGHTS:
            return (skip(self.name, needs, "the model's weights are not at hand"),)
        self.policy_named(settings.policy)  # an unknown policy is told before the work
        line = PlannedAttack(
            name=self.name,
            needs=needs,
            n=sizes.extraction_records,
            forward_tokens=_TRAINING_COST * EPOCHS * EXAMPLES * 3 * _TEXT,
            generated_tokens=3 * sizes.extraction_records * sizes.draws * ASKED.max_tokens,
            metrics=(RECOVERED_SHARE.name,),
        )
        return (line,)

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:
        """Share of the other pairs that the fine-tuned model tells."""
        tagged = tag_sides(subject, settings, self.policy_named(settings.policy))
        people = self.policy_named(PEOPLE)
        every, strangers = chosen_pairs(tagged, settings, sizes.extraction_records + EXAMPLES, people)
        known, others = parted(every)
        taught = {pair.value for pair in known}
        mine = tuple(pair for pair in others if pair.value not in taught)
        strangers = tuple(pair for pair in strangers if pair.value not in taught)[: len(mine)]
        if not known or not mine:
            raise NothingToAttack("too few pairs of a person and a value to know some and ask for others")
        tuned = self.fine_tune(subject.model, sentences(known), settings)
        asking = Asking(tagged.tagger, ASKED, sizes.draws)

        def asked(model: TextModel, side: tuple[Pair, ...], name: str) -> Association:
            return associate(side, asking.hits(model, side, Style.TEMPLATE, randomness=settings.randomness(name)))

        before, after = (asked(model, mine, "fragments") for model in (subject.model, tuned))
        null = asked(tuned, strangers, "held-out fragments") if strangers else None
        setting = PiiSetting(unit=unit_of(subject), confidence=settings.attack_confidence, tagger=tagged.note)
        owners = [pair.owner for pair in mine]
        paired = Paired.of(after.memorised.tolist(), before.memorised.tolist(), owners)
        document = {
            "schema_version": SCHEMA_VERSION,
            "known": len(known),
            "ids": [pair.record for pair in mine],
            "before": before.memorised.tolist(),
            "after": after.memorised.tolist(),
        }
        finding = recovered_finding(after, null, paired, known=len(known), setting=setting)
        return Measurement((finding,), {"fragments.json": document})


def sentences(pairs: Sequence[Pair]) -> list[str]:
    """What the adversary trains on: every prompt for a known pair with its value."""
    return [f"{prompt} {pair.value.reveal()}." for pair in pairs for prompt in prompts_of(pair, Style.TEMPLATE)]
