"""The plan of an audit, made before the work: which attacks, on how many targets, at what cost, and why not.

Costs are forward tokens, generated ones apart, over speeds measured on a few records of this very model. Where
there is a budget, each attack is also tried at the least sizes and at twice those: the line through both times
corrects its estimate. Trials take about a fifth of the budget at most, and their results are thrown away. Then
sizes are halved until the estimate fits, first what is spent on each target, then targets (`Sizes.smaller`); what
does not fit at the least sizes is skipped, the dearest first. Sizes are never chosen by what was measured.

The error of an audit is split over the attacks that can run here: by what was asked, the access, and the targets
there are. No result decides it, and an attack that the budget leaves out keeps its share.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Final

from reticent.auditing.attack import NothingToAttack, PlannedAttack
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import Subject
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.runs.audit.registry import asked_attacks, every_attack

IsCached = Callable[[str, Sizes], bool]  # whether an attack was measured at these sizes before
Trial = Callable[[str, Sizes], float | None]  # seconds that an attack takes at these sizes; None if it cannot run

_TRIAL_SHARE: Final = 0.2  # of the budget, at most
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


def share_error(subject: Subject, settings: AttackSettings) -> AttackSettings:
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
    subject: Subject,
    settings: AttackSettings,
    speed: Speed,
    *,
    is_cached: IsCached = lambda _, __: False,
    trial: Trial = lambda _, __: None,
) -> AuditPlan:
    """The plan whose estimate fits the budget, where there is one; what was measured before costs nothing."""

    def lines_of(sizes: Sizes) -> tuple[PlannedAttack, ...]:
        planned = (attack.plan(subject, settings, sizes=sizes, mean=mean) for attack in attacks)
        lines = [line for lines in planned for line in lines]
        timed = []
        for line in lines:
            if not line.skipped and is_cached(line.name, sizes):
                line = replace(line, is_cached=True)
            elif not line.skipped:
                reading, writing = line.forward_tokens / speed.forward, line.generated_tokens / speed.generated
                line = replace(line, seconds=_OVERHEAD + reading + writing)
            timed.append(corrections[line.name](line) if line.name in corrections else line)
        return tuple(timed)

    settings = share_error(subject, settings)
    attacks = asked_attacks(settings)
    mean = _mean_tokens(subject)
    sizes, corrections = settings.sizes, dict[str, Correction]()  # none while attacks are tried
    budget = math.inf if settings.budget is None else settings.budget
    if settings.budget is not None:
        corrections, spent = tried(lines_of, sizes, trial, most=_TRIAL_SHARE * settings.budget)
        budget -= spent
    while True:
        plan = AuditPlan(lines_of(sizes), sizes)
        if plan.seconds <= budget:
            return plan
        if sizes.smaller() == sizes:
            break
        sizes = sizes.smaller()
    lines = list(plan.attacks)
    while sum(line.seconds for line in lines if not line.skipped) > budget:
        dearest = max((line for line in lines if not line.skipped), key=lambda line: line.seconds)
        reason = f"would take about {dearest.seconds:.0f} s, which exceeds the budget"
        lines[lines.index(dearest)] = replace(dearest, skipped=reason)
    return AuditPlan(tuple(lines), sizes)


@dataclass(frozen=True, slots=True)
class Correction:
    """What an attack takes, as a line over its estimate: seconds = fixed + factor · estimate."""

    fixed: float
    factor: float

    @classmethod
    def through(cls, small: tuple[float, float], large: tuple[float, float]) -> "Correction":
        """The line through two pairs (estimate, seconds); without a slope the ratio of the larger one."""
        (estimate, seconds), (more, longer) = small, large
        if not (more > estimate and longer > seconds):
            return cls(0.0, longer / more)
        factor = (longer - seconds) / (more - estimate)
        return cls(max(0.0, seconds - factor * estimate), factor)

    def __call__(self, line: PlannedAttack) -> PlannedAttack:
        """The line of the plan with its estimate corrected; what is skipped or cached stays as it is."""
        if line.skipped or line.is_cached:
            return line
        return replace(line, seconds=self.fixed + self.factor * line.seconds)


def tried(
    lines_of: Callable[[Sizes], tuple[PlannedAttack, ...]], sizes: Sizes, trial: Trial, *, most: float
) -> tuple[dict[str, Correction], float]:
    """A correction for each attack that can be tried within `most` seconds in all, and the seconds it took."""
    least = sizes
    while least.smaller() != least:
        least = least.smaller()
    twice = Sizes(
        **{one.name: min(getattr(sizes, one.name), 2 * getattr(least, one.name)) for one in fields(least)}
    )
    small, large = ({line.name: line for line in lines_of(each)} for each in (least, twice))
    corrections, spent = dict[str, Correction](), 0.0
    for name, line in large.items():
        estimate = small[name].seconds
        if line.skipped or line.is_cached or spent + estimate > most:
            continue
        first = trial(name, least)  # with whatever the first run alone costs
        if first is None:
            continue
        spent += first
        corrections[name] = Correction(0.0, first / estimate)
        if spent + 3.0 * first <= most:
            times = [trial(name, each) or 0.0 for each in (least, twice)]
            spent += sum(times)
            corrections[name] = Correction.through((estimate, times[0]), (line.seconds, times[1]))
    return corrections, spent


def try_attack(subject: Subject, settings: AttackSettings, name: str, sizes: Sizes) -> float | None:
    """Run an attack and give the seconds it took, None if it cannot run; what it measured is thrown away."""
    started = time.perf_counter()
    try:
        every_attack()[name].run(subject, settings, sizes=sizes)
    except NothingToAttack:
        return None
    return time.perf_counter() - started


def _mean_tokens(subject: Subject) -> float:
    """Tokens of a record, on average, as far as the model reads them."""
    texts = [*subject.training[:_SAMPLED_TEXTS].texts, *subject.held_out[:_SAMPLED_TEXTS].texts]
    model = subject.scoring_model
    if model is None:
        return sum(len(text) for text in texts) / len(texts) / 4.0
    room = math.inf if model.context_length is None else model.context_length - 1
    return sum(min(len(tokens), room) for tokens in model.encode(texts)) / len(texts)
