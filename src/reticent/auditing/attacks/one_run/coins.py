"""ε from below by text canaries that were planted or left out by fair coins, seen through the finished model.

The score of a canary is its mean log-probability (`loss`), and that minus the base model's (`calibrated`). Each is
turned into ε by `one_run` (Steinke et al. 2023) and `one_run_curve` (Mahloujifar et al. 2024). Both need fair coins
and nothing else. The plan's own test (`one_run_family`) is not used: gradients of texts are not orthogonal.

The same canaries are copyright traps (Meeus et al. 2024) for whoever publishes text and asks later whether a model
was trained on it: planted texts against those that the coins left out, and one p-value, exact whatever the model
is.
"""

from dataclasses import replace
from typing import ClassVar, Final

from reticent.auditing.attack import SCHEMA_VERSION, Lines, Measurement, PlannedAttack, planned_model, skip
from reticent.auditing.attacks.membership.attack import (
    ONE_RUN_BOUNDS,
    one_run_delta,
    one_run_findings,
    why_no_comparison,
)
from reticent.auditing.attacks.membership.control import permutation_p_value
from reticent.auditing.attacks.membership.scores import CalibratedScore, LossScore, MembershipScore, run_attacks
from reticent.auditing.attacks.membership.target_scores import TargetScores
from reticent.auditing.metrics.intervals import shared_confidence
from reticent.auditing.metrics.roc import auc_interval
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import Subject
from reticent.core.finding import Finding
from reticent.core.guarantee import Neighbours
from reticent.core.metric import EPSILON_LOWER_BOUND_AT_DELTA, GAUSSIAN_MU_LOWER_BOUND, TRAP_AUC
from reticent.core.model import Access


class CoinAttack:
    """Guesses which canaries of a key with coins were planted."""

    name: ClassVar[str] = "coins"

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line: every canary is scored by the model, and by its base where there is one."""
        needs, model = "log-probabilities, canaries with coins", subject.scoring_model
        if model is None:
            return (skip(self.name, needs, "the model returns text only"),)
        if subject.coins is None:
            return (skip(self.name, needs, "no canaries with coins; make them with plant --audit"),)
        if subject.guarantee is not None and subject.guarantee.neighbours is not Neighbours.ADD_REMOVE:
            reason = "the guarantee is about replaced units, the bound about added or removed ones"
            return (skip(self.name, needs, reason),)
        tokens = sum(len(row) for row in model.encode(subject.coins.texts))
        line = PlannedAttack(
            name=self.name,
            needs=needs,
            n=len(subject.coins),
            forward_tokens=tokens * len(_scores(subject)),
            metrics=(EPSILON_LOWER_BOUND_AT_DELTA.at(one_run_delta(subject)), GAUSSIAN_MU_LOWER_BOUND.name),
        )
        return (line,)

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:  # noqa: ARG002
        """Every bound by every score; all hold together."""
        coins, attacks = subject.coins, _scores(subject)
        assert coins is not None
        base = subject.base if len(attacks) > 1 else None
        scores = run_attacks(attacks, TargetScores(coins.texts, planned_model(subject), reference=base))
        confidence = shared_confidence(settings.attack_confidence, ONE_RUN_BOUNDS * len(attacks))
        promised = None if subject.guarantee is None else subject.guarantee.unit
        said = f"{coins.design} canaries: {coins.measures}"
        findings = tuple(
            replace(
                finding, attack=f"coins, {finding.attack}", unit=coins.unit(promised), notes=(said, *finding.notes)
            )
            for name, values in scores.items()
            for finding in one_run_findings(subject, settings, coins, scores={name: values}, confidence=confidence)
        )
        document = {
            "schema_version": SCHEMA_VERSION,
            "design": coins.design,
            "n": len(coins),
            "scores": list(scores),
        }
        return Measurement(findings, {"coins.json": document})


PERMUTATIONS: Final = 9_999


class TrapAttack:
    """Whether planted texts are likelier than those that the coins left out: was the text around them used?"""

    name: ClassVar[str] = "traps"

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line: every trap is read by the model, and by its base where there is one."""
        needs, model = "log-probabilities, canaries with coins", subject.scoring_model
        if model is None:
            return (skip(self.name, needs, "the model returns text only"),)
        if subject.coins is None or not 0 < subject.coins.is_member.sum() < len(subject.coins):
            return (skip(self.name, needs, "no canaries on either side of coins; make them with plant --audit"),)
        tokens = sum(len(row) for row in model.encode(subject.coins.texts))
        return (
            PlannedAttack(
                name=self.name,
                needs=needs,
                n=len(subject.coins),
                forward_tokens=tokens * len(_scores(subject)),
                metrics=(TRAP_AUC.name,),
            ),
        )

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:  # noqa: ARG002
        """The one finding, by the score that is best by its design: no result chose it."""
        coins, attacks = subject.coins, _scores(subject)[-1:]
        assert coins is not None
        base = subject.base if attacks[0].needs_reference else None
        ((name, values),) = run_attacks(
            attacks, TargetScores(coins.texts, planned_model(subject), reference=base)
        ).items()
        source, confidence = settings.randomness("trap permutations"), settings.attack_confidence
        p_value = permutation_p_value(values, coins.is_member, randomness=source, permutations=PERMUTATIONS)
        area = auc_interval(values[coins.is_member], values[~coins.is_member], confidence=confidence)
        finding = Finding(
            attack=f"{self.name}, {name}",
            metric=TRAP_AUC.name,
            value=area.value,
            low=area.low,
            high=area.high,
            confidence=confidence,
            n=len(coins),
            measure=f"AUC of {int(coins.is_member.sum())} planted texts, {coins.copies} times each, and the rest",
            unit=coins.unit(None),
            access=Access.LOGPROBS,
            null=0.5,
            p_value=p_value,
            could_pass=confidence <= 1.0 - 1.0 / (1 + PERMUTATIONS),
            notes=(f"probability of such an AUC if the text was not used: p = {p_value:.3g}",),
        )
        return Measurement((finding,))


def _scores(subject: Subject) -> tuple[MembershipScore, ...]:
    """The scores that can be computed here."""
    return (LossScore(),) if why_no_comparison(subject) else (LossScore(), CalibratedScore())
