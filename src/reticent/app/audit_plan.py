"""The plan of an audit, made before the work: which attacks, on how many targets, at what cost, and why not.

    attack       needs                                  asks
    exposure     log-probabilities, canaries            how likely is a planted secret among all it could have been?
    codes        text, canaries that are codes          does the model say a planted code when given its beginning?
    membership   log-probabilities                      which texts were in the training data?
    lazy         log-probabilities, a base model        which records would somebody see who only samples?
    extraction   text                                   does the model go on as a record does?
    generation   text                                   does it say what records say when asked for anything?

Costs are forward tokens, generated ones apart, over speeds measured on a few records of this very model. With a
budget, all sizes are halved together until the estimate fits, at most six times; what does not fit then is skipped,
the dearest first. Sizes are never chosen by what was measured.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from reticent.app.audit_settings import AttackName, AuditSettings, Sizes
from reticent.app.audit_subject import Subject
from reticent.auditing.comparison_scores import ErrorZone, WindowComparison
from reticent.auditing.membership import MembershipAttack
from reticent.auditing.membership_scores import Calibrated, Loss, LowerCase, MinK, MinKPlusPlus, Zlib
from reticent.auditing.target_scores import PositionModel
from reticent.core.corpus import Corpus
from reticent.core.guarantee import Neighbours, Unit
from reticent.core.model import LanguageModel
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.core.secret import CodeSpace

IsCached = Callable[[str, Sizes], bool]  # whether an attack was measured at these sizes before

GENERATED_TOKENS: Final = 96  # of a text that is generated without a prompt
DELTA: Final = 1e-5  # of an ε lower bound where no guarantee names one
_HALVINGS: Final = 6
_SAMPLED_TEXTS: Final = 64  # from which the mean number of tokens is estimated
_TRIAL_TEXTS: Final = 8
_SUFFIX_TOKENS: Final = 50
_OVERHEAD: Final = 1.0  # seconds an attack takes whatever its size: metrics, permutations


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens a second that the model reads, and that it writes."""

    forward: float
    generated: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAttack:
    """One line of the plan; `skipped` says why an attack does not run. `seconds` is a rough estimate."""

    name: str
    needs: str
    n: int = 0
    forward_tokens: int = 0
    generated_tokens: int = 0
    seconds: float = 0.0
    metrics: tuple[str, ...] = ()
    skipped: str = ""
    is_cached: bool = False

    def to_json(self) -> dict[str, Any]:
        """For run.json."""
        return {
            "attack": self.name,
            "needs": self.needs,
            "n": self.n,
            "forward_tokens": self.forward_tokens,
            "generated_tokens": self.generated_tokens,
            "seconds": round(self.seconds, 1),
            "cached": self.is_cached,
            "skipped": self.skipped,
        }


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


def sample_records(corpus: Corpus, count: int, *, randomness: Randomness) -> Corpus:
    """At most `count` records, every choice equally likely, in their order."""
    if len(corpus) <= count:
        return corpus
    places = sorted(randomness.permutation(len(corpus))[:count].tolist())
    return Corpus(corpus[place] for place in places)


def membership_attacks(subject: Subject) -> tuple[tuple[MembershipAttack, ...], tuple[PlannedAttack, ...]]:
    """The scores that can be computed here, and lines for those that cannot."""
    alone: tuple[MembershipAttack, ...] = (Loss(), Zlib(), LowerCase(), MinK())
    compared: tuple[MembershipAttack, ...] = (Calibrated(), WindowComparison())
    whole: tuple[MembershipAttack, ...] = (MinKPlusPlus(),)
    skipped = []
    if reason := why_no_comparison(subject):
        skipped.append(_skip("membership: calibrated, wbc, ez", "a base that splits text alike", reason))
        compared = ()
    else:
        whole = (*whole, ErrorZone())
    if not isinstance(subject.model, PositionModel):
        names = ", ".join(attack.name for attack in whole)
        reason = "the model gives distributions one position at a time: a forward for every token"
        skipped.append(_skip(f"membership: {names}", "distributions at all positions", reason))
        whole = ()
    return (*alone, *compared, *whole), tuple(skipped)


def why_no_comparison(subject: Subject) -> str:
    """Why losses cannot be compared with a base token by token; empty where they can."""
    model, base = subject.scoring_model, subject.base
    if model is None or base is None:
        return "no base model; name it with --base"
    texts = [record.text for record in (*subject.training[:_SAMPLED_TEXTS], *subject.held_out[:_SAMPLED_TEXTS])]
    return "" if model.encode(texts) == base.encode(texts) else "the base has another tokenizer"


def why_no_one_run(subject: Subject, settings: AuditSettings) -> str:
    """Why no ε lower bound can be given from this one model; empty where one can."""
    if not settings.by_coin:
        return "each record must have been trained on or held out by its own fair coin; say so with --by-coin"
    if subject.guarantee is not None and subject.guarantee.neighbours is not Neighbours.ADD_REMOVE:
        return "the guarantee speaks of replaced units, the bound of added or removed ones"
    return ""


def one_run_delta(subject: Subject) -> float:
    """The δ at which ε is bounded from below: the guarantee's, so that the two can be compared."""
    return subject.guarantee.delta if subject.guarantee is not None else DELTA


def measure_speed(subject: Subject) -> Speed:
    """Tokens a second over a few records: what an estimate of time rests on."""
    model = subject.model
    if not isinstance(model, LanguageModel) or subject.scoring_model is None:
        return Speed(math.inf, 20.0)  # a server: nothing is scored, and what it writes depends on others
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


def plan_audit(
    subject: Subject, settings: AuditSettings, speed: Speed, *, is_cached: IsCached = lambda _, __: False
) -> AuditPlan:
    """The plan whose estimate fits the budget, where there is one; what was measured before costs nothing."""

    def lines_of(sizes: Sizes) -> tuple[PlannedAttack, ...]:
        lines = _lines(subject, settings, sizes=sizes, mean=mean)
        return tuple(line if line.skipped else _timed(line, speed, is_cached(line.name, sizes)) for line in lines)

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


def _lines(subject: Subject, settings: AuditSettings, *, sizes: Sizes, mean: float) -> tuple[PlannedAttack, ...]:
    """One line an attack, and further ones for parts of it that are left out."""
    lines: list[PlannedAttack] = []
    for name in settings.attacks:
        match name:
            case AttackName.EXPOSURE:
                lines.append(_exposure(subject, sizes))
            case AttackName.CODES:
                lines.append(_codes(subject, sizes))
            case AttackName.MEMBERSHIP:
                lines += _membership(subject, settings, sizes, mean)
            case AttackName.LAZY:
                lines.append(_lazy(subject, sizes, mean))
            case AttackName.EXTRACTION:
                lines.append(_extraction(subject, sizes, mean))
            case AttackName.GENERATION:
                lines.append(_generation(subject, sizes))
    return tuple(lines)


def _timed(line: PlannedAttack, speed: Speed, is_cached: bool) -> PlannedAttack:
    """The line with its estimate."""
    if is_cached:
        return replace(line, is_cached=True)
    seconds = line.forward_tokens / speed.forward + line.generated_tokens / speed.generated
    return replace(line, seconds=_OVERHEAD + seconds)


def _skip(name: str, needs: str, reason: str) -> PlannedAttack:
    return PlannedAttack(name=name, needs=needs, skipped=reason)


def _exposure(subject: Subject, sizes: Sizes) -> PlannedAttack:
    name, needs, model = AttackName.EXPOSURE, "log-probabilities, canaries", subject.scoring_model
    if not subject.canaries:
        return _skip(name, needs, "no canaries; name their key with --canaries")
    if model is None:
        return _skip(name, needs, "the model shows text alone")
    rest = max(len(row) for row in model.encode([c.secret.reveal() + c.suffix for c in subject.canaries]))
    templates = len({canary.template for canary in subject.canaries})
    return PlannedAttack(
        name=name,
        needs=needs,
        n=len(subject.canaries),
        forward_tokens=templates * sizes.candidates * rest + len(subject.canaries) * sizes.search_tokens,
        metrics=("exposure", "largest_exposure"),
    )


def _codes(subject: Subject, sizes: Sizes) -> PlannedAttack:
    name, needs = AttackName.CODES, "text, canaries that are codes"
    lengths = [canary.space.length for canary in subject.canaries if isinstance(canary.space, CodeSpace)]
    if not lengths:
        reason = "no canary is a code" if subject.canaries else "no canaries; name their key with --canaries"
        return _skip(name, needs, reason)
    templates = len({canary.template for canary in subject.canaries if isinstance(canary.space, CodeSpace)})
    count = templates * sizes.answers
    return PlannedAttack(
        name=name, needs=needs, n=count, generated_tokens=count * (max(lengths) + 4), metrics=("code_hit_rate",)
    )


def _membership(subject: Subject, settings: AuditSettings, sizes: Sizes, mean: float) -> tuple[PlannedAttack, ...]:
    name, needs = AttackName.MEMBERSHIP, "log-probabilities"
    if subject.scoring_model is None:
        return (_skip(name, needs, "the model shows text alone"),)
    inside = len(subject.training) - len(subject.repeated)
    members, others = min(sizes.records, inside), min(sizes.records, len(subject.held_out))
    if min(members, others) < 2:
        return (_skip(name, needs, "fewer than two members or non-members with texts of their own"),)
    attacks, skipped = membership_attacks(subject)
    passes = 2 + any(attack.needs_reference for attack in attacks) + any(a.needs_distributions for a in attacks)
    metrics = ["auc", *(f"tpr_at_fpr_{rate:g}" for rate in settings.rates)]
    lines = list(skipped)
    if reason := why_no_one_run(subject, settings):
        lines.append(_skip("membership: ε lower bound", "inclusion by coin", reason))
    else:
        metrics.append(f"epsilon_lower_bound_at_delta_{one_run_delta(subject):g}")
    if subject.guarantee is not None and subject.guarantee.unit is Unit.OWNER and subject.splits_owners:
        reason = "some owner has training and held-out records; split by owner"
        lines.append(_skip("membership: owners", "owners on one side", reason))
    tokens = round((members + others) * mean * passes)
    first = PlannedAttack(name=name, needs=needs, n=members + others, forward_tokens=tokens, metrics=tuple(metrics))
    return (first, *lines)


def _lazy(subject: Subject, sizes: Sizes, mean: float) -> PlannedAttack:
    name, needs = AttackName.LAZY, "log-probabilities, a base model"
    if subject.scoring_model is None:
        return _skip(name, needs, "the model shows text alone")
    if subject.base is None:
        return _skip(name, needs, "no base model; name it with --base")
    n = _both(subject, sizes.records)
    return PlannedAttack(
        name=name, needs=needs, n=n, forward_tokens=round(2 * n * mean), metrics=("emitted_share",)
    )


def _extraction(subject: Subject, sizes: Sizes, mean: float) -> PlannedAttack:
    n = _both(subject, sizes.extraction_records)
    last = "sampled_share" if subject.scoring_model is None else "np_discoverable_share"
    return PlannedAttack(
        name=AttackName.EXTRACTION,
        needs="text",
        n=n,
        forward_tokens=round(n * mean),
        generated_tokens=round(n * min(mean / 2.0, _SUFFIX_TOKENS)),
        metrics=("discoverable_share", "near_discoverable_share", last),
    )


def _generation(subject: Subject, sizes: Sizes) -> PlannedAttack:
    metrics = ["extracted_share", "extraction_rate", "extraction_precision_repeats"]
    if subject.scoring_model is not None:
        rankings = ["perplexity", "zlib", "lower_case", "window", *(["reference"] if subject.base else [])]
        metrics += [f"extraction_precision_{ranking}" for ranking in rankings]
    tokens = sizes.texts * GENERATED_TOKENS
    return PlannedAttack(
        name=AttackName.GENERATION,
        needs="text",
        n=sizes.texts,
        forward_tokens=3 * tokens,
        generated_tokens=tokens,
        metrics=tuple(metrics),
    )


def _both(subject: Subject, most: int) -> int:
    return sum(min(most, len(corpus)) for corpus in _sides(subject))


def _sides(subject: Subject) -> Sequence[Corpus]:
    return (subject.training, subject.held_out)
