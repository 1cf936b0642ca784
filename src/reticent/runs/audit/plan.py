"""The plan of an audit, made before the work: which attacks, on how many targets, at what cost, and why not.

Costs are forward tokens, generated ones apart, over speeds measured on a few records of this very model. With a
budget, all sizes are halved together until the estimate fits, at most six times; what does not fit then is skipped,
the dearest first. Sizes are never chosen by what was measured.

The error of an audit is split over the attacks that can run here: by what was asked, the access, and the targets
there are. No result decides it, and an attack that the budget leaves out keeps its share.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from reticent.auditing.attack import PlannedAttack
from reticent.auditing.settings import AuditSettings, Sizes
from reticent.auditing.subject import Subject
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.runs.audit.registry import asked_attacks

IsCached = Callable[[str, Sizes], bool]  # whether an attack was measured at these sizes before

_HALVINGS: Final = 6
_SAMPLED_TEXTS: Final = 64  # from which the mean number of tokens is estimated
_TRIAL_TEXTS: Final = 8
_PROMPT: Final = 16  # characters of a trial prompt
_OVERHEAD: Final = 1.0  # seconds an attack takes whatever its size: metrics, permutations


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens a second that the model reads, and that it writes."""

    forward: float
    generated: float


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """What will be done, with the sizes that fit the budget."""

    attacks: tuple[PlannedAttack, ...]
    sizes: Sizes

    @property
    def running(self) -> tuple[PlannedAttack, ...]:
        """The attacks that run."""
        return tuple(attack for attack in self.attacks if not attack.skipped)

    @property
    def seconds(self) -> float:
        """The estimate for all of them."""
        return sum(attack.seconds for attack in self.running)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Everything that will be measured, for limits to name."""
        return tuple(dict.fromkeys(metric for attack in self.running for metric in attack.metrics))


def measure_speed(subject: Subject) -> Speed:
    """Tokens a second over a few records: what an estimate of time rests on."""
    model = subject.scoring_model
    if model is None:
        return Speed(math.inf, _speed_of_answers(subject))  # a server: nothing is scored
    room = 64 if model.context_length is None else min(64, model.context_length - 1)
    sequences = [tokens[:room] for tokens in model.encode(subject.training[:_TRIAL_TEXTS].texts) if tokens]
    if not sequences:
        return Speed(math.inf, math.inf)
    model.token_log_probs(sequences[:1])  # whatever the first call alone costs
    started = time.perf_counter()
    model.token_log_probs(sequences)
    read = time.perf_counter()
    prompts = [tokens[:2] for tokens in sequences]
    sampling = Sampling(max_tokens=4)
    model.generate(prompts, sampling, count=1, randomness=Randomness.seeded(0))
    written = time.perf_counter()
    forward = sum(len(tokens) for tokens in sequences) / max(1e-6, read - started)
    return Speed(forward, 4 * len(prompts) / max(1e-6, written - read))


def _speed_of_answers(subject: Subject) -> float:
    """Tokens a second of a model that only writes: a few short answers, four characters a token."""
    prompts = [text[:_PROMPT] for text in subject.training[:_TRIAL_TEXTS].texts]
    started = time.perf_counter()
    subject.model.complete(prompts, Sampling(max_tokens=8), count=1, randomness=Randomness.seeded(0))
    return 8 * len(prompts) / max(1e-6, time.perf_counter() - started)


def share_error(subject: Subject, settings: AuditSettings) -> AuditSettings:
    """The settings with the error of the audit split over the attacks that can run on this subject.

    Guarantee: the count depends on the subject and the settings alone, so all intervals hold together.
    """
    if settings.shares is not None:
        return settings
    attacks = asked_attacks(settings)
    assumed = replace(settings, shares=max(1, len(attacks)))  # decides what has power, not which attacks run
    mean = _mean_tokens(subject)
    lines = {attack.name: attack.plan(subject, assumed, sizes=settings.sizes, mean=mean) for attack in attacks}
    running = sum(any(line.name == name and not line.skipped for line in own) for name, own in lines.items())
    return replace(settings, shares=max(1, running))


def plan_audit(
    subject: Subject, settings: AuditSettings, speed: Speed, *, is_cached: IsCached = lambda _, __: False
) -> AuditPlan:
    """The plan whose estimate fits the budget, where there is one; what was measured before costs nothing."""

    def lines_of(sizes: Sizes) -> tuple[PlannedAttack, ...]:
        planned = (attack.plan(subject, settings, sizes=sizes, mean=mean) for attack in attacks)
        lines = [line for lines in planned for line in lines]
        return tuple(line if line.skipped else _timed(line, speed, is_cached(line.name, sizes)) for line in lines)

    settings = share_error(subject, settings)
    attacks = asked_attacks(settings)
    mean = _mean_tokens(subject)
    sizes = settings.sizes
    budget = math.inf if settings.budget is None else settings.budget
    for _ in range(_HALVINGS):
        plan = AuditPlan(lines_of(sizes), sizes)
        if plan.seconds <= budget:
            return plan
        sizes = sizes.halved()
    lines = list(lines_of(sizes))
    while sum(line.seconds for line in lines if not line.skipped) > budget:
        dearest = max((line for line in lines if not line.skipped), key=lambda line: line.seconds)
        reason = f"would take about {dearest.seconds:.0f} s, which passes the budget"
        lines[lines.index(dearest)] = replace(dearest, skipped=reason)
    return AuditPlan(tuple(lines), sizes)


def _mean_tokens(subject: Subject) -> float:
    """Tokens of a record, on average, as far as the model reads them."""
    texts = [*subject.training[:_SAMPLED_TEXTS].texts, *subject.held_out[:_SAMPLED_TEXTS].texts]
    model = subject.scoring_model
    if model is None:
        return sum(len(text) for text in texts) / len(texts) / 4.0
    room = math.inf if model.context_length is None else model.context_length - 1
    return sum(min(len(tokens), room) for tokens in model.encode(texts)) / len(texts)


def _timed(line: PlannedAttack, speed: Speed, is_cached: bool) -> PlannedAttack:
    """The line with its estimate."""
    if is_cached:
        return replace(line, is_cached=True)
    seconds = line.forward_tokens / speed.forward + line.generated_tokens / speed.generated
    return replace(line, seconds=_OVERHEAD + seconds)
