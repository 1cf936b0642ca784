"""Dataset inference: was this corpus used in training? One p-value for all of its records together.

A single record is rarely told apart from a stranger; a thousand together often are (Maini et al. 2024, "LLM Dataset
Inference"). Records of the corpus and of held-out text of the same kind are split in two by owner:

    fitting half   learns how to weigh the membership scores: ridge regression of the label on the scores, each
                   centred, scaled and cut at three deviations, so that no record alone decides
    testing half   is scored by these weights; p is the chance of so high an AUC if labels were exchanged between
                   owners: (1 + #{AUC* ≥ AUC}) / (1 + permutations), exact whatever was learnt

What is shown is the AUC of the testing half, with its interval, and p. Held-out text must come from the same
source: where words alone tell the two apart, the finding is void.
"""

from typing import ClassVar, Final

import numpy as np

from reticent.auditing.attack import Lines, Measurement, NothingToAttack, PlannedAttack, skip
from reticent.auditing.attacks.membership.attack import membership_attacks, score_targets
from reticent.auditing.attacks.membership.control import permutation_p_value
from reticent.auditing.attacks.membership.findings import ScoredTargets, independence
from reticent.auditing.metrics.roc import Owners, auc_interval
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import Subject
from reticent.auditing.targets import count_targets
from reticent.core.arrays import Flags, Floats
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.metric import DATASET_AUC
from reticent.core.model import Access
from reticent.core.randomness import Randomness

PERMUTATIONS: Final = 9_999
_FEWEST: Final = 4  # owners of either side: two in each half
_CUT: Final = 3.0  # deviations
_RIDGE: Final = 0.1  # of the number of records


def halves_by_owner(owners: list[str], is_member: Flags, *, randomness: Randomness) -> Flags:
    """Which records [n] are in the fitting half: half of the owners with members, and half of the others."""
    names, place = np.unique(np.asarray(owners, dtype=str), return_inverse=True)
    has_members = np.bincount(place, weights=is_member) > 0
    generator = randomness.generator()
    fits = np.zeros(len(names), dtype=np.bool_)
    for side in (has_members, ~has_members):
        chosen = generator.permutation(np.flatnonzero(side))
        fits[chosen[: len(chosen) // 2]] = True
    return np.asarray(fits[place])


def fitted_weights(scores: Floats, is_member: Flags) -> tuple[Floats, Floats, Floats]:
    """Centre, scale and weight of each score [k], by ridge regression of the label on the cut scores [n, k]."""
    centre, scale = scores.mean(axis=0), scores.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    x = _cut(scores, centre, scale)
    y = np.where(is_member, 1.0, -1.0) - (2.0 * is_member.mean() - 1.0)
    weights = np.linalg.solve(x.T @ x + _RIDGE * len(x) * np.eye(x.shape[1]), x.T @ y)
    return centre, scale, weights


def _cut(scores: Floats, centre: Floats, scale: Floats) -> Floats:
    return np.asarray(np.clip((scores - centre) / scale, -_CUT, _CUT))


def combined(scores: Floats, is_member: Flags, fits: Flags) -> Floats:
    """One score for each record of the testing half, by weights that the fitting half alone decided."""
    table = np.where(np.isfinite(scores), scores, np.nan)
    lowest = np.nanmin(np.where(np.isnan(table), np.inf, table), axis=0)
    table = np.where(np.isnan(table), np.where(np.isfinite(lowest), lowest, 0.0), table)  # no tokens: least likely
    centre, scale, weights = fitted_weights(table[fits], is_member[fits])
    return np.asarray(_cut(table[~fits], centre, scale) @ weights)


class DatasetInference:
    """All membership scores together, on all records together."""

    name: ClassVar[str] = "dataset"

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line: each text is read by every score that can be computed here."""
        needs = "log-probabilities"
        if subject.scoring_model is None:
            return (skip(self.name, needs, "the model returns text only"),)
        members, others = count_targets(subject, sizes.records)
        if min(members, others) < _FEWEST:
            return (skip(self.name, needs, f"fewer than {_FEWEST} members or non-members with unique texts"),)
        attacks, _ = membership_attacks(subject)
        passes = 2 + any(one.needs_reference for one in attacks) + any(one.needs_distributions for one in attacks)
        line = PlannedAttack(
            name=self.name,
            needs=needs,
            n=members + others,
            forward_tokens=round((members + others) * mean * passes),
            metrics=(DATASET_AUC.name,),
        )
        return (line,)

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:
        """The one finding, with its p-value."""
        whole, _ = score_targets(subject, settings, sizes=sizes)
        targets = whole.targets
        fits = halves_by_owner(targets.owners, targets.is_member, randomness=settings.randomness("dataset halves"))
        labels = targets.is_member[~fits]
        if min(labels.sum(), (~labels).sum(), targets.is_member[fits].sum(), (~targets.is_member[fits]).sum()) < 2:
            raise NothingToAttack("too few owners on either side to fit weights on one half and test on the other")
        values = combined(np.stack(list(whole.scores.values()), axis=1), targets.is_member, fits)
        finding = self._finding(values, labels, whole=whole, tested=~fits, settings=settings)
        document = whole.to_json() | {"fitting_half": fits.tolist(), "p_value": finding.p_value}
        return Measurement((finding,), {"dataset.json": document})

    def _finding(
        self, values: Floats, labels: Flags, *, whole: ScoredTargets, tested: Flags, settings: AttackSettings
    ) -> Finding:
        names = [owner for owner, is_tested in zip(whole.targets.owners, tested, strict=True) if is_tested]
        owners = None if whole.targets.clusters(settings) is None else Owners.of(names, labels)
        p_value = permutation_p_value(
            values,
            labels,
            randomness=settings.randomness("dataset permutations"),
            permutations=PERMUTATIONS,
            owners=None if owners is None else names,
        )
        confidence = settings.attack_confidence
        area = auc_interval(values[labels], values[~labels], confidence=confidence, owners=owners)
        control = whole.control
        return Finding(
            attack=self.name,
            metric=DATASET_AUC.name,
            value=area.value,
            low=area.low,
            high=area.high,
            confidence=confidence,
            n=len(values),
            measure=f"AUC of {len(whole.scores)} scores together, on the half that fitted nothing",
            unit=Unit.RECORD,
            access=max(whole.access.values(), default=Access.LOGPROBS),
            null=0.5,
            void=control.void,
            notes=(
                f"probability of such an AUC if the corpus was not used: p = {p_value:.3g}",
                f"words alone: AUC {control.auc.value:.3f}, p = {control.p_value:.3g}",
                independence(owners, settings),
            ),
            p_value=p_value,
        )
