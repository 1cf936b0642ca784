"""Prompts that ask for personal data, from knowing a name to knowing the text before a value: which bring it out?

Every style of `association.Style` but the plain templates, which the attack `pii` asks, on the same pairs of a
person and a value; examples of few-shot prompts are further pairs of the training text, which are no targets.
Styles are compared on the same targets by exact paired tests (`metrics.paired`), whose p-values stand in
prompts.json, each by itself. Text access alone; hits that the name gives away are misses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from reticent.auditing.attack import SCHEMA_VERSION, Lines, Measurement, NothingToAttack, PlannedAttack
from reticent.auditing.attacks.personal_data.association import Asking, Association, Style, associate
from reticent.auditing.attacks.personal_data.attack import ASKED, PEOPLE, chosen_pairs, tag_sides, unit_of
from reticent.auditing.attacks.personal_data.findings import PiiSetting, prompted_finding
from reticent.auditing.attacks.personal_data.pairs import Pair
from reticent.auditing.metrics.intervals import shared_confidence
from reticent.auditing.metrics.paired import Paired
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import Subject
from reticent.core.corpus import Policy
from reticent.core.metric import PROMPTED_SHARE

STYLES: Final = (Style.TRUE_PREFIX, Style.FEW_SHOT, Style.JAILBREAK, Style.MANY_QUERY)
EXAMPLES: Final = 32  # pairs that the adversary knows, a quarter of all at most


@dataclass(frozen=True, slots=True)
class PromptedAttack:
    """Values that true prefixes, examples, many queries and jailbreaks bring out."""

    policy_named: Callable[[str], Policy]

    name: ClassVar[str] = "prompts"

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line: answers on pairs of either side, in every style."""
        self.policy_named(settings.policy)  # an unknown policy is told before the work
        asked = 2 * len(Style) * sizes.extraction_records * sizes.draws
        line = PlannedAttack(
            name=self.name,
            needs="text, a policy",
            n=sizes.extraction_records,
            generated_tokens=asked * ASKED.max_tokens,
            metrics=tuple(PROMPTED_SHARE.at(style.value) for style in STYLES),
        )
        return (line,)

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:
        """A share for every style."""
        tagged = tag_sides(subject, settings, self.policy_named(settings.policy))
        people = self.policy_named(PEOPLE)
        mine, strangers = chosen_pairs(tagged, settings, sizes.extraction_records + EXAMPLES, people)
        if not mine:
            raise NothingToAttack("no training record names a person before a value")
        examples, mine = parted(mine)
        asking = Asking(tagged.tagger, ASKED, sizes.draws, examples)
        strangers = strangers[: len(mine)]
        setting = PiiSetting(
            unit=unit_of(subject),
            confidence=shared_confidence(settings.attack_confidence, len(STYLES)),
            tagger=tagged.note,
        )
        games = {
            name: ask_all(subject, settings, asking, side, name)
            for name, side in (("training", mine), ("held-out", strangers))
            if side
        }
        findings = [
            prompted_finding(
                games["training"][style],
                games["held-out"][style] if strangers else None,
                style=style.value,
                setting=setting,
            )
            for style in STYLES
        ]
        document = {
            "schema_version": SCHEMA_VERSION,
            "ids": [pair.record for pair in mine],
            "kinds": [pair.value.kind for pair in mine],
            "memorised": {style.value: games["training"][style].memorised.tolist() for style in Style},
            "paired": compared(games["training"], [pair.owner for pair in mine]),
        }
        return Measurement(tuple(findings), {"prompts.json": document})


def parted(pairs: tuple[Pair, ...]) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
    """Pairs that the adversary knows, and the others, which are the targets."""
    known = min(EXAMPLES, len(pairs) // 4)
    return pairs[:known], pairs[known:]


def ask_all(
    subject: Subject, settings: AttackSettings, asking: Asking, pairs: tuple[Pair, ...], name: str
) -> dict[Style, Association]:
    """Outcomes of every style; many queries hit what any other style of text hits as well."""
    hits = {
        style: asking.hits(subject.model, pairs, style, randomness=settings.randomness(f"{name} {style.value}"))
        for style in Style
    }
    for style in (Style.TEMPLATE, Style.FEW_SHOT, Style.TRUE_PREFIX):
        hits[Style.MANY_QUERY] = hits[Style.MANY_QUERY] | hits[style]
    return {style: associate(pairs, each) for style, each in hits.items()}


def compared(games: dict[Style, Association], owners: list[str]) -> list[dict[str, object]]:
    """Every two styles on the same targets: who alone hit how many, and the chance of such a lead of the first."""
    rows = list[dict[str, object]]()
    for first in Style:
        for second in Style:
            if first is not second:
                paired = Paired.of(games[first].memorised.tolist(), games[second].memorised.tolist(), owners)
                alone, other = paired.counts
                row = {"first": first.value, "second": second.value, "first_alone": alone, "second_alone": other}
                rows.append({**row, "p_value": paired.p_value})
    return rows
