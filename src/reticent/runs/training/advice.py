"""`reticent plan`: how to train privately, chosen from counts and a target; no private text is read.

    batch, epochs, rate    the rules of `training.plans.choice`, within the compute that may be spent
    sampler                Poisson samples or random allocation, whichever leaves less noise in the sum of all
                           gradients. Correlated noise can leave less still, but is larger in each step, and Adam
                           divides a step by its size: models were worse with it
    noise                  the least that meets the target over the whole run
    method                 DP-SGD; when redacted training or private prediction may fit better, it says so, and with
                           --public-text it compares on public text (`comparison`)

What is chosen depends on public facts alone: the numbers of records, owners and tokens, the model, the target. How
good the model will be depends on the text: with public text like it the plan is tried out there, and what to expect
is stated with an interval, for this corpus and with the noise of ten times as many units. Without public text only
the noise on a gradient entry is stated for both.
"""

import math
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from reticent.core.document import UNWRITTEN, JsonObject, called, write_atomically
from reticent.core.errors import ConfigError, TargetOutOfReach
from reticent.core.guarantee import PRACTICALLY_NOTHING, Guarantee, Neighbours, Unit
from reticent.core.metric import ADVANTAGE, AUC, TPR_AT_FPR
from reticent.core.printing.numbers import Scale, at_most, counted, shown
from reticent.core.ranges import COUNT, EPOCHS, EPSILON, RANK
from reticent.runs.policies.by_name import DEFAULT_POLICY
from reticent.runs.progress import Track, untracked
from reticent.runs.settings.declaration import flag_of, option
from reticent.runs.settings.shared import AddedOrReplaced, Shown
from reticent.runs.settings.starter import settings_text
from reticent.runs.training.settings import TEXTS_PER_OWNER, Method, ModelSection, risk_of
from reticent.training.plans.choice import choose
from reticent.training.plans.sampler import SamplerName

if TYPE_CHECKING:
    from reticent.accounting.risk_target import RiskTarget
    from reticent.runs.training.comparison import Compared
    from reticent.training.plans.choice import Choice
    from reticent.training.plans.plan import DpSgd

MORE_PEOPLE: Final = 10
_HARDLY_LESS: Final = 0.995  # of the noise, as a share
_FEW_UNITS: Final = 200
_TARGETS: Final = ("target_epsilon", "target_tpr", "target_bits", "target_advantage")
_CEILINGS: Final = (TPR_AT_FPR.at(0.01), AUC.name, ADVANTAGE.name)
_NOT_TRIED: Final = {
    Unit.RECORD: (
        "How well the model will do cannot be told from counts: --public-text FILE, with text like yours, tries "
        "the plan out there and says what to expect, with an interval."
    ),
    Unit.OWNER: (
        "How well the model will do cannot be told from counts. --public-text tries out plans for records alone: a "
        "plan for as many records as there are owners shows what this noise does."
    ),
}
_HEAD: Final = """\
# DP-SGD for {units:,} {unit}s, chosen by `reticent plan` from counts alone.
#
#   reticent train --config {name} --dry-run      prints the guarantee that the run would have
#   reticent train --config {name} --out runs/1
#
# The guarantee is stated for the number of {unit}s that the corpus then has.
"""


class PlanSettings(Shown):
    """Everything that `reticent plan` can be asked for."""

    records: int = option("Number of records in the corpus.", within=COUNT, metavar="N")
    owners: int | None = option("Number of owners of the records.", default=None, within=COUNT, metavar="N")
    tokens: int | None = option("Number of tokens in the whole corpus.", default=None, within=COUNT, metavar="N")
    source: str = option(
        "Model to start from: a directory, a hub id or 'embedded'.",
        flag="--model",
        default="embedded",
        metavar="MODEL",
    )
    lora_rank: int = option("Rank of LoRA adapters. 0 trains all weights.", default=0, within=RANK, metavar="N")
    target_epsilon: float | None = option("ε to reach.", default=None, within=EPSILON)
    target_tpr: str | None = option(
        "Maximum true-positive rate of a membership test at this false-positive rate.",
        default=None,
        metavar="TPR@FPR",
    )
    target_bits: str | None = option(
        "Maximum number of bits that may leak from a secret of SECRET bits.", default=None, metavar="LEAKED:SECRET"
    )
    target_advantage: float | None = option("Maximum advantage (TPR − FPR) of a membership test.", default=None)
    delta: float | None = option(
        "δ of the guarantee.",
        default=None,
        shown="a power of ten, at most 1e-05 and at most a tenth of 1 / units",
    )
    unit: Literal[Unit.RECORD, Unit.OWNER] = option(
        "Unit of privacy: one record, or all records of one owner.", default=Unit.RECORD
    )
    neighbours: AddedOrReplaced = option(
        "Neighbouring corpora: one unit added or removed, or one unit replaced.", default=Neighbours.ADD_REMOVE
    )
    max_epochs: float | None = option("Maximum number of passes over the corpus.", default=None, within=EPOCHS)
    max_tokens: int | None = option(
        "Maximum number of training tokens. Needs --tokens.", default=None, within=COUNT, metavar="N"
    )
    answers_only: bool = option("The weights stay with you; others see only answers.", default=False)
    secrets_known: bool = option(
        "A policy can find what must not leak (numbers, names); the rest may be learnt.", default=False
    )
    public_text: str | None = option(
        "Public text like the corpus: the plan and other methods are tried out on it, to say what perplexity to "
        "expect, and dp-sgd is told to train on it first.",
        default=None,
        metavar="FILE",
    )
    policy: str = option("Policy that finds secrets in --public-text.", default=DEFAULT_POLICY, metavar="NAME")
    conservative_policy: str = option(
        "Policy that routes records of --public-text to private training.", default="conservative", metavar="NAME"
    )
    data: str = option("Corpus to name in the written file. It is not read.", default="train.jsonl", metavar="FILE")
    out: Path | None = option("TOML file to write for `reticent train --config`.", default=None, metavar="FILE")

    @property
    def units(self) -> int:
        """Records or owners, whichever a promise protects."""
        return self.records if self.unit is Unit.RECORD or self.owners is None else self.owners

    @property
    def risk(self) -> "RiskTarget | None":
        """The risk that the noise is calibrated to, where one was given."""
        return risk_of(tpr=self.target_tpr, bits=self.target_bits, advantage=self.target_advantage)

    def check(self) -> None:
        """Refuse targets and counts that contradict each other."""
        targets = (self.target_epsilon, self.target_tpr, self.target_bits, self.target_advantage)
        if sum(each is not None for each in targets) != 1:
            raise ConfigError(
                "a plan is made for one target",
                expected="one of --target-epsilon, --target-tpr, --target-bits and --target-advantage",
            )
        if self.unit is Unit.OWNER and self.owners is None:
            raise ConfigError("--unit owner needs the number of owners", hint="--owners N")
        if self.owners is not None and self.owners > self.records:
            raise ConfigError("there are more owners than records", found=f"{self.owners:,} of {self.records:,}")
        if self.max_tokens is not None and self.tokens is None:
            raise ConfigError("--max-tokens needs the size of the corpus", hint="--tokens N")
        if self.max_tokens is not None and self.max_epochs is not None:
            raise ConfigError("--max-tokens and --max-epochs are two ways to limit the compute: give one")
        if self.public_text is not None and self.unit is Unit.OWNER:
            raise ConfigError("--public-text compares guarantees for records", found="--unit owner")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAdvice(JsonObject):
    """What to do, why, and what it proves. `values` are the settings of `reticent train` by key."""

    schema_version: ClassVar = 1
    values: dict[str, Any] = field(metadata=called("settings"))
    steps: int
    noise_multiplier: float
    gradient_noise: float
    # None: no plan meets the target for so many more
    gradient_noise_with_more: float | None = field(metadata=called("gradient_noise_with_ten_times_as_many"))
    guarantee: Guarantee
    ceilings: dict[str, float]
    reasons: tuple[str, ...]
    expectation: str
    config: str = field(metadata=UNWRITTEN)
    compared: "tuple[Compared, ...]" = ()


def plan(settings: PlanSettings, *, track: Track = untracked) -> PlanAdvice:
    """Choose a private training for counts and a target; writes the TOML file where one is named."""
    settings.check()
    if settings.out is not None and settings.out.exists():
        raise ConfigError(f"{settings.out}: already exists", hint="choose another --out, or remove it")
    model = ModelSection(source=settings.source, lora_rank=settings.lora_rank)
    size = model.size()
    choose_for = partial(choose, size=size)
    wanted = choose_for(settings.units, epsilon=settings.target_epsilon).epochs
    epochs = _affordable_epochs(settings, wanted)
    choice = choose_for(settings.units, epochs=epochs)
    if epochs * settings.units < choice.batch * (1.0 - 1e-9):
        raise ConfigError(
            "the compute is not enough for one step",
            found=f"{epochs:g} passes over {counted(settings.units, settings.unit.value)}",
            expected=f"at least {choice.batch / settings.units:.2g} passes, one batch of {choice.batch:,}",
            hint="raise --max-epochs or --max-tokens",
        )
    if epochs < 1.0:  # few steps: one more than the compute allows could be twice as many
        steps = math.floor(epochs * settings.units / choice.batch + 1e-9)
        epochs = steps * choice.batch / settings.units
        choice = replace(choice, epochs=epochs)
    delta = _delta(settings)
    plans = [_reached(settings, choice, delta=delta)]
    if epochs == round(epochs):  # allocation takes whole epochs
        # its accountant cannot say how small a very small ε or δ is
        allocated = _possible(settings, choice, units=settings.units, delta=delta, sampler=SamplerName.ALLOCATION)
        plans += [] if allocated is None else [allocated]
    chosen = min(plans, key=lambda each: each.summed_noise)
    units = MORE_PEOPLE * settings.units
    passes = choose_for(units, epsilon=settings.target_epsilon).epochs
    larger_choice = choose_for(units, epochs=min(epochs, passes))
    less = delta / MORE_PEOPLE  # a δ that promises as little as before to each of more people
    larger = _possible(settings, larger_choice, units=units, delta=less, sampler=chosen.sampler.name)
    if larger is None or settings.public_text is not None:  # methods are compared with Poisson samples
        poisson = _possible(settings, larger_choice, units=units, delta=less, sampler=SamplerName.POISSON)
        larger = larger or poisson
    values = _values(settings, choice, delta=delta, sampler=chosen.sampler.name)
    guarantee = chosen.guarantee()
    usual = choose_for(settings.units).epochs
    reasons = _reasons(
        settings, plans, chosen, larger, epochs=epochs, more_passes=epochs if epochs > usual else None
    )
    if size.whole is None:
        reasons.insert(
            1,
            f"How many weights '{settings.source}' has cannot be read from files here, and hubs are not asked: it "
            "is taken for a large model.",
        )
    compared: tuple[Compared, ...] = ()
    expected = _NOT_TRIED[settings.unit]
    if settings.public_text is not None:
        from reticent.runs.training.comparison import PublicText, advice_on, compare_on, expectation  # loads torch

        public = PublicText(
            file=settings.public_text, policy=settings.policy, conservative_policy=settings.conservative_policy
        )
        compared = compare_on(public, plans[0], model, choice=choice, track=track, larger=poisson)
        reasons.append(advice_on(compared))
        expected = expectation(compared)
    name = "reticent.toml" if settings.out is None else str(settings.out)
    text = settings_text(_HEAD.format(units=settings.units, unit=settings.unit.value, name=name), values)
    if settings.out is not None:
        write_atomically(settings.out, text.encode("utf8"))
    return PlanAdvice(
        values=values,
        steps=chosen.steps,
        noise_multiplier=chosen.noise_multiplier,
        gradient_noise=chosen.gradient_noise,
        gradient_noise_with_more=None if larger is None else larger.gradient_noise,
        guarantee=guarantee,
        ceilings=_ceilings(guarantee, settings.risk),
        reasons=tuple(reasons),
        expectation=expected,
        config=text,
        compared=compared,
    )


def _affordable_epochs(settings: PlanSettings, wanted: float) -> float:
    """Passes over the corpus within the compute; whole ones where possible, which allocation needs."""
    most = settings.max_epochs
    if settings.max_tokens is not None and settings.tokens is not None:
        most = settings.max_tokens / settings.tokens
    if most is None or most >= wanted:
        return wanted
    return float(math.floor(most)) if most >= 1.0 else most


def _delta(settings: PlanSettings) -> float:
    """What was given, or the power of ten that is at most a tenth of 1 / units, and at most 1e-5."""
    if settings.delta is not None:
        return settings.delta
    exponent = math.floor(math.log10(0.1 / settings.units) + 1e-9)
    return float(f"1e{min(exponent, -5)}")


def _plan(settings: PlanSettings, choice: "Choice", *, units: int, delta: float, sampler: SamplerName) -> "DpSgd":
    from reticent.training.plans.plan import DpSgd

    return DpSgd.for_target(
        epsilon=settings.target_epsilon,
        risk=settings.risk,
        delta=delta,
        units=units,
        batch=choice.batch,
        epochs=choice.epochs,
        sampler=sampler,
        unit=settings.unit,
        neighbours=settings.neighbours,
        texts_per_unit=TEXTS_PER_OWNER if settings.unit is Unit.OWNER else 1,
    )


def _reached(settings: PlanSettings, choice: "Choice", *, delta: float) -> "DpSgd":
    """The plan with Poisson samples, which every target that can be met has."""
    try:
        return _plan(settings, choice, units=settings.units, delta=delta, sampler=SamplerName.POISSON)
    except TargetOutOfReach as error:
        target = flag_of(next(key for key in _TARGETS if getattr(settings, key) is not None))
        raised = f"{target} or --delta" if settings.risk is None else target
        passes = counted(1, "pass", "passes") if choice.epochs == 1.0 else f"{choice.epochs:g} passes"
        raise TargetOutOfReach(
            error.what,
            found=f"{error.found}, in {passes} over the corpus",
            expected=error.expected,
            hint=f"raise {raised}, or allow fewer passes with --max-epochs",
        ) from None


def _possible(
    settings: PlanSettings, choice: "Choice", *, units: int, delta: float, sampler: SamplerName
) -> "DpSgd | None":
    """The plan, or None where none is known to meet the target."""
    try:
        return _plan(settings, choice, units=units, delta=delta, sampler=sampler)
    except ConfigError:
        return None


def _values(settings: PlanSettings, choice: "Choice", *, delta: float, sampler: SamplerName) -> dict[str, Any]:
    """The settings of `reticent train`, by key."""
    targets = {name: getattr(settings, name) for name in _TARGETS if getattr(settings, name) is not None}
    owners = {"texts_per_owner": TEXTS_PER_OWNER} if settings.unit is Unit.OWNER else {}
    public = {} if settings.public_text is None else {"public_text": settings.public_text}
    return {
        "method": Method.DP_SGD.value,
        "file": settings.data,
        "source": settings.source,
        "lora_rank": settings.lora_rank,
        "batch": choice.batch,
        "epochs": choice.epochs,
        "learning_rate": choice.learning_rate,
        "sampler": sampler.value,
        "clip_norm": 1.0,
        "delta": delta,
        "unit": settings.unit.value,
        "neighbours": settings.neighbours.word,
        **owners,
        **targets,
        **public,
    }


def _ceilings(guarantee: Guarantee, risk: "RiskTarget | None") -> dict[str, float]:
    """What the guarantee allows attacks on membership to reach; that of the target leads."""
    from reticent.accounting.bounds.ceiling import ceiling

    asked = () if risk is None or risk.secret_bits is not None else (risk.metric,)
    found = {name: ceiling(name, guarantee) for name in dict.fromkeys((*asked, *_CEILINGS))}
    return {name: value for name, value in found.items() if value is not None}


def _reasons(
    settings: PlanSettings,
    plans: "list[DpSgd]",
    chosen: "DpSgd",
    larger: "DpSgd | None",
    *,
    epochs: float,
    more_passes: float | None,
) -> list[str]:
    """Why, in sentences. `more_passes`: the epochs, where a small ε would have fewer."""
    unit, units = settings.unit.value, settings.units
    said = [
        f"Batch {chosen.sampler.batch:,}, {counted(chosen.steps, 'step')}: a larger batch means less noise on a "
        "gradient but fewer steps. Small models and adapters learn more from many noisy steps, large models from "
        "fewer."
    ]
    if more_passes is not None:
        said.append(
            f"{more_passes:g} passes over the corpus: at so large an ε, larger samples need much less noise on a "
            "gradient, and few texts are quickly read again. --max-epochs limits the passes."
        )
    if settings.public_text is not None:
        said.append(
            "The public text is trained on first, without noise and at no cost in ε. It must hold nothing of the "
            "corpus: train refuses equal texts, and nothing finds near copies."
        )
    said.append(_why_sampler(plans, chosen, epochs=epochs))
    if larger is not None:
        share = shown(larger.gradient_noise / chosen.gradient_noise, Scale.SHARE, digits=2)
        said.append(
            f"With ten times as many {unit}s ({MORE_PEOPLE * units:,}), and δ = {at_most(larger.delta)} as there "
            f"are more, the noise on a gradient would be {share} of this, in {counted(larger.steps, 'step')}."
        )
    else:
        said.append(f"For ten times as many {unit}s no plan that meets the target was found.")
    if settings.unit is Unit.RECORD and settings.owners is not None and settings.owners < settings.records:
        said.append(
            f"An owner has {settings.records / settings.owners:.1f} records on average, and the promise is for one "
            "record: use --unit owner to protect people."
        )
    if chosen.guarantee().epsilon > PRACTICALLY_NOTHING:
        said.append(
            f"An ε above {PRACTICALLY_NOTHING} by itself promises practically nothing; the ceilings say what is "
            "left."
        )
    return said + _other_methods(settings)


def _why_sampler(plans: "list[DpSgd]", chosen: "DpSgd", *, epochs: float) -> str:
    """Why these samples and not the others."""
    if epochs != round(epochs):
        return f"Poisson sampling: random allocation takes whole passes over the corpus, and these are {epochs:g}."
    if len(plans) == 1:
        return (
            "Poisson sampling: for random allocation no noise is proved to meet this target, since its accountant "
            "cannot resolve a very small ε or δ."
        )
    ratio = plans[1].summed_noise / plans[0].summed_noise
    if chosen is plans[0]:
        return "Poisson sampling: random allocation leaves no less noise in the sum of all gradients here."
    if ratio > _HARDLY_LESS:
        return (
            "Random allocation: it leaves hardly less noise in the sum of all gradients than Poisson sampling does."
        )
    left = shown(ratio, Scale.SHARE, digits=2, side="up")
    return f"Random allocation: it leaves {left} of Poisson sampling's noise in the sum of all gradients."


def _other_methods(settings: PlanSettings) -> list[str]:
    """When another tool than DP-SGD is the right one."""
    said = []
    if settings.answers_only:
        said.append(
            "Others see only answers: `reticent serve` answers with this model too, as often as it is asked, at no "
            "further ε. Private prediction (`reticent train --method submix`) is for weights that cannot be "
            "trained privately: closed adapters, many tenants, a model per department. Its budget covers all "
            "answers for all time. At an equal ε for one owner DP-SGD was mostly more useful; with a small ε and "
            "few answers private prediction can be (docs/serving.md has the figures)."
        )
    if settings.secrets_known and settings.public_text is None:
        said.append(
            "A policy can find what must not leak: consider redacted training, `reticent train --method crt`. It "
            "promises confidentiality of secrets, not of membership, and learns nothing of what it masks. "
            "--public-text FILE compares the two on public text like yours."
        )
    if settings.units < _FEW_UNITS and not said:
        said.append(
            f"Few for DP-SGD: {counted(settings.units, settings.unit.value)}. The public model may hardly improve. "
            "If users will see answers alone, see --answers-only. If a policy can find the secrets, see "
            "--secrets-known."
        )
    return said
