"""What a training run will do and what that costs, in one frozen object.

A private plan holds the sampler, the clipping, the noise and the number of steps; the event that prices them is
*derived* from these, so nobody types a sampling rate into an accountant and the two cannot disagree:

    event = Repeated(SampledGaussian(noise multiplier, sampler.rate), steps)          Poisson samples
            Repeated(RandomAllocation(noise multiplier, steps of an epoch), epochs)   random allocation
            Repeated(BandedCycle(noise multiplier, sampler.rate, bands), cycles)      correlated noise (`bands`)
    step  = (Σ clipped gradients of the sample + N(0, deviation²)) / normaliser
    deviation = noise multiplier · clip norm · (1 + rounding room)

With a clip quantile the clip norm is that of the first step alone, and later ones follow from noisy counts that are
released beside the gradients. The gradients' noise is then raised, so that both together cost what the event says
(`adaptive_norm`).

Computed sums are not real numbers: a record that joins also moves the rounding of the others. The room is what that
movement may be, in clip norms, so that the noise multiplier of the event is the true one. That it is enough is in
part tested while training (`gradients.rounding`) or, slower, proved (`gradients.rounding_bound`).

The normaliser is the expected batch size, a public constant: never the size of the batch that was drawn.
A plan that would not be private cannot be built: no noise, no clipping, another sampler, a meaningless δ.
"""

import hashlib
import json
import math
from dataclasses import dataclass, field, replace
from typing import Any, Final

from reticent.accounting.bounds.ceiling import ceiling
from reticent.accounting.bounds.leakage import LeakageBounds, leakage_bounds
from reticent.accounting.calibration import Target, least_noise, round_up
from reticent.accounting.guarantees import CLIPPED, dp_sgd_guarantee, epsilons, guarantee_of
from reticent.accounting.individual import IndividualPrice
from reticent.accounting.prices.best_of_runs import rate_for
from reticent.accounting.risk_target import RiskTarget, noise_for_risk
from reticent.core.choice import member_of, settle_choices
from reticent.core.document import UNLESS_DEFAULT, UNWRITTEN, JsonObject, check_schema, fields_to_json
from reticent.core.errors import ConfigError, InternalError
from reticent.core.event import BestOfRuns, Repeated, Round, SampledGaussian
from reticent.core.guarantee import UNSEEN, Guarantee, Neighbours, Unit
from reticent.core.ledger import Budget
from reticent.core.metric import require_metric
from reticent.core.ranges import EPOCHS, NOISE_MULTIPLIER, NORM, STEPS
from reticent.training.gradients.levels import LEVELS
from reticent.training.gradients.rounding_bound import Rounding, movement_by_rounding
from reticent.training.plans.adaptive_norm import check_moving_norm, next_norm, raised_multiplier, usual_count_noise
from reticent.training.plans.bands import coefficients, noise_of_a_step, prefix_error
from reticent.training.plans.sampler import (
    SAMPLERS,
    PrivateSampler,
    SamplerName,
    ShuffledEpochs,
    audited_sampler,
    check_sampler,
    sampler_of,
)
from reticent.training.plans.spending import Spending

SCHEMA_VERSION: Final = 1
MEASURE: Final = "steps"

PUBLIC_MAKING: Final = f"the tokenizer and the initial model were {UNSEEN}"
NO_TUNING: Final = "hyper-parameters were not chosen by looking at the private text"
TUNED: Final = (
    "the number of runs was drawn from the stated distribution, it and every run but the best stay secret, and the "
    "best was chosen by its released weights and public text alone"
)
TUNING_SHAPE: Final = 0.0  # the logarithmic distribution: a good price for few runs
# What rounding may add to the clip norm: far above what is measured (1e-5 to 1e-4), for 0.8 % more noise.
ROUNDING_ROOM: Final = 2.0**-7
ROUNDING: Final = (
    "rounding adds at most 1/128 of the clip norm to what one unit moves a step by, and the noise is larger than "
    "priced by as much; this is not proved: how a batch rounds its records is tested on made-up text while "
    "training, and how norms and sums round is not tested"
)
PROVED_ROUNDING: Final = (
    "arithmetic is IEEE 754, and a unit that is computed by itself twice gives the same numbers both times; then "
    "it is proved that rounding adds at most 1/512 of the clip norm to what one unit moves a step by, and the "
    "noise is larger than priced by 1/128"
)
HIDDEN_NOISE: Final = (
    "nobody who sees the model reads the noise that the last checkpoint of an unfinished run holds, in a file that "
    "its owner alone may read and that is removed at the end"
)
ADAPTIVE: Final = (
    "each unit's gradient is clipped to the norm of its step, which follows from the stated first norm and earlier "
    "noisy counts alone, and its part in a count is at most 1/2, before noise is added to both; rounding adds at "
    "most 1/128 of that part, which is tested as it is for gradients"
)
_PROVED_ROOM: Final = ROUNDING_ROOM / 4
SEEDED: Final = (
    "nobody who sees the model knows the seed that sampling and noise were drawn from; this run is an experiment "
    "and must not be released"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainPlan(JsonObject):
    """Training without protection: shuffled epochs, ordinary gradients."""

    units: int
    batch: int
    epochs: float
    seed: int

    def __post_init__(self) -> None:
        _ = self.sampler, self.steps  # both refuse what makes no sense

    @property
    def sampler(self) -> ShuffledEpochs:
        """Which records make each step."""
        return ShuffledEpochs(self.units, self.batch, self.seed)

    @property
    def steps(self) -> int:
        """Number of updates."""
        EPOCHS.require("the number of epochs", self.epochs)
        steps = max(1, math.ceil(self.epochs * self.sampler.steps_per_epoch - 1e-9))
        STEPS.require("the number of steps", steps, hint="lower --epochs, or raise --batch")
        return steps

    def ledger_name(self, corpus: str) -> str:
        """The name of the ledger that pays for this plan on the corpus with this fingerprint."""
        return ledger_name(self.to_json(), corpus)

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        return {"schema_version": SCHEMA_VERSION, "kind": "plain", **fields_to_json(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DpSgd(JsonObject):
    """DP-SGD (Abadi et al. 2016): sampling, clipping, Gaussian noise, and what they prove together.

    `unit` is what the guarantee protects: a record, or an owner with all of their texts. A step uses at most
    `texts_per_unit` texts of an owner and clips them together.

    >>> plan = reticent.DpSgd.for_target(epsilon=8, delta=1e-5, units=10_000, batch=256, epochs=3)
    >>> plan.steps, round(plan.guarantee().epsilon, 1)
    (118, 8.0)
    >>> plan.leakage(bits=20).least < 20, plan.ceiling("auc") < 1
    (True, True)
    """

    sampler: PrivateSampler = field(metadata=UNWRITTEN)
    clip_norm: float
    noise_multiplier: float
    steps: int
    delta: float
    unit: Unit = Unit.RECORD
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    texts_per_unit: int = 1
    # Of the sampler's units, how many are gradient canaries (`gradients.canaries`).
    canaries: int = field(default=0, metadata=UNLESS_DEFAULT)
    rounding: Rounding = field(default=Rounding.TESTED, metadata=UNLESS_DEFAULT)
    # Whether each record is clipped to its own level (`gradients.levels`).
    individual: bool = field(default=False, metadata=UNLESS_DEFAULT)
    # A quantile of the units' norms, which the clip norm follows (`adaptive_norm`), and the deviation of the noise
    # on its counts (None: `usual_count_noise`).
    clip_quantile: float | None = field(default=None, metadata=UNLESS_DEFAULT)
    count_noise: float | None = field(default=None, metadata=UNLESS_DEFAULT)

    def __post_init__(self) -> None:
        settle_choices(self, unit=Unit, neighbours=Neighbours, rounding=Rounding)
        if not 0 <= self.canaries < self.sampler.units:
            raise ConfigError("canaries are units beside records", found=self.canaries)
        if self.canaries and self.rounding is not Rounding.TESTED:
            raise ConfigError("canaries are added where rounding is tested", found=self.rounding.value)
        check_sampler(self.sampler, self.steps)
        if not 0.0 < self.noise_multiplier < math.inf:
            raise ConfigError(
                "a plan without noise is not private", found=self.noise_multiplier, expected="above 0"
            )
        NOISE_MULTIPLIER.require("the noise multiplier", self.noise_multiplier, hint="less is no protection")
        NORM.require("the norm that clipping holds a unit to", self.clip_norm)
        STEPS.require("the number of steps", self.steps)
        if self.unit not in (Unit.RECORD, Unit.OWNER):
            raise ConfigError("training protects records or owners", found=self.unit.value)
        if self.texts_per_unit < 1 or (self.unit is Unit.RECORD and self.texts_per_unit != 1):
            raise ConfigError("a record is one text; an owner has one or more", found=self.texts_per_unit)
        if self.individual and (self.sampler.name is not SamplerName.POISSON or self.unit is not Unit.RECORD):
            raise ConfigError(
                "each record is accounted for by itself with Poisson samples of records alone",
                found=f"{self.sampler.name.value} samples of {self.unit.value}s",
            )
        if self.individual and self.neighbours is not Neighbours.ADD_REMOVE:
            raise ConfigError("a bound for one record is for adding or removing it", found=self.neighbours.value)
        if self.rounding is Rounding.PROVED and movement_by_rounding(self.sampler.batch) > _PROVED_ROOM:
            raise ConfigError(
                "the sums of so large a batch round by more than is proved here",
                found=f"{self.sampler.batch} records a step",
                hint="lower --batch, or let rounding be tested (--rounding tested)",
            )
        _check_delta(self.delta, self.sampler.units, self.unit)
        self._check_clipping()

    def _check_clipping(self) -> None:
        """Refuse what was not proved together with a clip norm that moves; decide on the noise of its counts."""
        check_moving_norm(
            self.clip_quantile,
            self.count_noise,
            correlated=self.sampler.is_correlated,
            canaries=self.canaries > 0,
            individual=self.individual,
            proved_rounding=self.rounding is Rounding.PROVED,
        )
        if self.clip_quantile is None:
            return
        if self.count_noise is None:
            usual = usual_count_noise(self.noise_multiplier, self.sampler.expected_batch)
            object.__setattr__(self, "count_noise", usual)
        _ = self.gradient_multiplier  # refuses a count with too little noise

    @classmethod
    def for_target(
        cls,
        *,
        epsilon: float | None = None,
        risk: RiskTarget | None = None,
        delta: float,
        units: int,
        batch: int,
        epochs: float,
        sampler: str = SamplerName.POISSON,
        bands: int | None = None,
        clip_norm: float = 1.0,
        unit: Unit | str = Unit.RECORD,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        texts_per_unit: int = 1,
        canaries: int = 0,
        rounding: Rounding | str = Rounding.TESTED,
        individual: bool = False,
        clip_quantile: float | None = None,
        count_noise: float | None = None,
    ) -> "DpSgd":
        """The plan with the least noise that meets a target over `epochs` expected epochs: an ε, or a risk.

        `units` and `batch` count canaries too. Choices are members or the words of their flags ("replace").

        Guarantee: `guarantee().epsilon` of the returned plan is at most `epsilon`; the ceiling of what it proves at
        most that of `risk`.
        """
        if (epsilon is None) == (risk is None):
            raise ConfigError("a plan is made for one target", expected="an epsilon or a risk")
        unit, neighbours = member_of(Unit, unit, name="unit"), member_of(Neighbours, neighbours, name="neighbours")
        _check_delta(delta, units, unit)
        drawn = sampler_of(sampler, units, batch, bands=bands)
        steps = drawn.steps(epochs)
        target = Target(
            epsilon=epsilon or 1.0,
            delta=delta,
            sampling_rate=drawn.rate,
            neighbours=neighbours,
            round_event=drawn.round_event(1.0),
        )
        if risk is None:
            noise = least_noise(target, steps=steps).noise_multiplier
        else:
            noise = noise_for_risk(risk, lambda each: target.event(each, steps), delta=delta, neighbours=neighbours)
        plan = cls(
            sampler=drawn,
            clip_norm=clip_norm,
            noise_multiplier=noise,
            steps=steps,
            delta=delta,
            unit=unit,
            neighbours=neighbours,
            texts_per_unit=texts_per_unit,
            canaries=canaries,
            rounding=member_of(Rounding, rounding, name="rounding"),
            individual=individual,
            clip_quantile=clip_quantile,
            count_noise=count_noise,
        )
        # By its own event: that of the target was made for the same sampler.
        if epsilon is not None and epsilons(plan.event, delta=delta, neighbours=neighbours).least > epsilon:
            raise InternalError(f"the noise was not calibrated for {drawn.name} sampling")
        return plan

    def audited(self, canaries: int) -> "DpSgd":
        """The same plan with this many gradient canaries added to its units.

        The batch grows with the units, so that a record takes part as often as before, up to rounding upwards.

        Guarantee: canaries are units, and the returned plan proves for each of its units what its own rate gives.
        """
        return replace(self, sampler=audited_sampler(self.sampler, canaries), canaries=self.canaries + canaries)

    @property
    def records(self) -> int:
        """The number of units that are records or owners, not canaries."""
        return self.sampler.units - self.canaries

    @property
    def round_event(self) -> Round:
        """What one round releases: a Poisson step, an epoch of random allocation, or a cycle."""
        return self.sampler.round_event(self.noise_multiplier)

    @property
    def event(self) -> Repeated:
        """What the whole run releases."""
        return Repeated(self.round_event, self.steps // self.sampler.steps_per_round)

    @property
    def normaliser(self) -> float:
        """What the noisy sum is divided by: the expected number of records in a batch, not the number drawn."""
        return self.sampler.expected_batch * self.records / self.sampler.units

    @property
    def noise_deviation(self) -> float:
        """Standard deviation of the noise on every entry of the clipped sum; of the first, if its norm moves."""
        return self.deviation_at(self.clip_norm)

    def deviation_at(self, clip_norm: float) -> float:
        """The same for a sum that was clipped to this norm.

        Guarantee: where a count is released beside the sum, both together cost what the event says.
        """
        return noise_deviation(self.gradient_multiplier, clip_norm)

    @property
    def gradient_multiplier(self) -> float:
        """The noise multiplier of gradients by themselves: the event's, raised where counts are released, too."""
        if self.count_noise is None:
            return self.noise_multiplier
        return raised_multiplier(self.noise_multiplier, self.count_noise)

    @property
    def count_deviation(self) -> float:
        """Standard deviation of the noise on the count of short gradients, room for rounding included."""
        assert self.count_noise is not None
        return noise_deviation(self.count_noise, 1.0)

    def next_clip_norm(self, clip_norm: float, noisy_count: float) -> float:
        """The clip norm of the step after one with this norm and this noisy count."""
        assert self.clip_quantile is not None
        return next_norm(clip_norm, noisy_count, expected_batch=self.normaliser, quantile=self.clip_quantile)

    @property
    def strategy(self) -> tuple[float, ...]:
        """The coefficients by which noise is correlated (`bands`): one for independent noise.

        Guarantee: the root of the sum of their squares is at most 1.
        """
        return coefficients(self._bands, self.steps)

    @property
    def gradient_noise(self) -> float:
        """Standard deviation of the noise on every entry of the normalised gradient."""
        return self.noise_deviation / self.normaliser * noise_of_a_step(self._bands, self.steps)

    @property
    def summed_noise(self) -> float:
        """The same for the running sum of gradients: root mean square over the steps, divided by their number."""
        return self.noise_deviation / self.normaliser * prefix_error(self._bands, self.steps) / self.steps

    @property
    def _bands(self) -> int:
        return self.sampler.bands or 1

    def guarantee(self, *, is_seeded: bool = False) -> Guarantee:
        """The guarantee of the final weights and of all intermediate ones.

        Guarantee: (ε, δ)-differential privacy for one unit, under what `assumes` lists; an experiment whose
        sampling and noise come from a seed says so there.
        """
        word = self.unit.value
        assumes = [
            PUBLIC_MAKING,
            NO_TUNING,
            PROVED_ROUNDING if self.rounding is Rounding.PROVED else ROUNDING,
            f"the number of {word}s, from which the sampling rate and the number of steps follow, is public",
        ]
        if self.unit is Unit.OWNER:
            assumes.append("all texts of an owner carry the same owner name")
        if self._bands > 1:
            assumes.append(HIDDEN_NOISE)
        if is_seeded:
            assumes.append(SEEDED)
        found = dp_sgd_guarantee(
            self.event, delta=self.delta, unit=self.unit, neighbours=self.neighbours, assumes=tuple(assumes)
        )
        if self.clip_quantile is not None:
            said = tuple(ADAPTIVE if each == CLIPPED else each for each in found.assumes)
            found = replace(found, assumes=said)
        return self.stated(found)

    def tuned_guarantee(self, runs: float, *, is_seeded: bool = False) -> Guarantee:
        """The guarantee of the best of a random number of runs (`runs` on average) with different settings.

        The number is drawn from the logarithmic distribution and kept secret with all runs but the best, which is
        chosen by its own output or by public text. For hyper-parameters that change no sampler, noise or step.

        Guarantee: (ε, δ)-differential privacy of the kept run for one unit (Papernot and Steinke 2022).
        """
        alone = self.guarantee(is_seeded=is_seeded)
        event = self._tuned_event(runs)
        others = tuple(each for each in alone.assumes if each != NO_TUNING)
        found = guarantee_of(
            event,
            delta=self.delta,
            unit=self.unit,
            neighbours=self.neighbours,
            mechanism="DP-SGD, tuned",
            assumes=(*others, TUNED),
        )
        return self.stated(found)

    def _tuned_event(self, runs: float) -> BestOfRuns:
        return BestOfRuns(self.event, TUNING_SHAPE, rate_for(runs, TUNING_SHAPE))

    def calibrated_for_tuning(self, runs: float, *, epsilon: float) -> "DpSgd":
        """The same plan with enough noise for the best of a random number of runs to meet the target.

        Guarantee: `tuned_guarantee(runs).epsilon` of the returned plan is at most `epsilon`.
        """

        def meets(noise: float) -> bool:
            event = self._with_noise(noise)._tuned_event(runs)
            return epsilons(event, delta=self.delta, neighbours=self.neighbours).least <= epsilon

        low = high = self.noise_multiplier
        while not meets(high):
            low, high = high, 1.25 * high
            if high > NOISE_MULTIPLIER.high:
                unknown = " or ".join(each.label for each in SAMPLERS.values() if not each.has_renyi_price)
                raise ConfigError(
                    "no noise reaches the target for the best of several runs",
                    found=f"{self.sampler.name.value} samples, epsilon {epsilon:g}",
                    hint=f"the cost is not known for {unknown}: use --sampler poisson, or raise the target",
                )
        while high > low * (1.0 + 1e-3):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if meets(middle) else (middle, high)
        rounded = round_up(high)
        return self._with_noise(rounded if meets(rounded) else high)

    def _with_noise(self, noise_multiplier: float) -> "DpSgd":
        """The same plan with other noise; that on its counts follows, unless it was chosen."""
        usual = usual_count_noise(self.noise_multiplier, self.sampler.expected_batch)
        kept = None if self.count_noise == usual else self.count_noise
        return replace(self, noise_multiplier=noise_multiplier, count_noise=kept)

    def stated(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee with the public facts that its sampling rate and noise refer to."""
        assert guarantee.basis is not None
        facts: dict[str, Any] = {"units": self.sampler.units, "clip_norm": self.clip_norm}
        facts |= {"clip_quantile": self.clip_quantile, "count_noise": self.count_noise}
        return replace(guarantee, basis=replace(guarantee.basis, **facts))

    def individual_price(self) -> IndividualPrice:
        """What the steps at each level (`gradients.levels`) prove of a record.

        Guarantee: as `IndividualPrice.epsilons`; a level has room for rounding, as the noise has.
        """
        assert isinstance(self.round_event, SampledGaussian)  # checked when the plan was made
        shares = tuple((level + ROUNDING_ROOM) / (1.0 + ROUNDING_ROOM) for level in LEVELS)
        return IndividualPrice(self.round_event, shares, self.steps, self.delta, self.guarantee().epsilon)

    def leakage(self, bits: float, *, copies: int = 1) -> LeakageBounds:
        """Upper bounds on what leaks of a secret of this many bits that appears in `copies` units.

        Guarantee: as `accounting.bounds.leakage.leakage_bounds` of the event.
        """
        return leakage_bounds(self.event, bits, neighbours=self.neighbours, copies=copies)

    def ceiling(
        self, metric: str, *, candidates: int | None = None, secret_bits: float | None = None
    ) -> float | None:
        """The largest expected value of an attack's metric, such as "auc", that the guarantee allows.

        A name that is no metric is refused.

        Guarantee: as `accounting.bounds.ceiling.ceiling`; None where the metric has no ceiling.
        """
        require_metric(metric)
        return ceiling(metric, self.guarantee(), candidates=candidates, secret_bits=secret_bits)

    def budget(self, *, is_seeded: bool = False) -> Budget:
        """The budget of this plan's ledger: each step once."""
        return Budget(MEASURE, float(self.steps), self.guarantee(is_seeded=is_seeded))

    def spending(self, epsilon: float) -> Spending:
        """ε spent so far. Takes the ε of the whole plan, which is expensive to compute twice."""
        return Spending(
            self.round_event, steps=self.steps, neighbours=self.neighbours, epsilon=epsilon, delta=self.delta
        )

    def ledger_name(self, corpus: str) -> str:
        """The name of the ledger that pays for this plan on the corpus with this fingerprint."""
        return ledger_name(self.to_json(), corpus)

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": "private",
            "units": self.sampler.units,
            "batch": self.sampler.batch,
            **({} if self.sampler.name is SamplerName.POISSON else {"sampler": self.sampler.name.value}),
            **({} if self.sampler.bands is None else {"bands": self.sampler.bands}),
            **fields_to_json(self),
        }


Plan = PlainPlan | DpSgd


def noise_deviation(noise_multiplier: float, clip_norm: float) -> float:
    """Standard deviation of the noise on a sum whose terms are clipped to `clip_norm`, room for rounding included.

    Guarantee: `noise_multiplier` times what one record moves, where rounding moves the others within the room.
    """
    return noise_multiplier * clip_norm * (1.0 + ROUNDING_ROOM)


def plan_from_json(document: dict[str, Any]) -> Plan:
    """The plan that `to_json` wrote; an unknown schema version is refused."""
    check_schema(document, SCHEMA_VERSION, kind="plan")
    values = {key: value for key, value in document.items() if key not in ("schema_version", "kind")}
    if document["kind"] == "plain":
        return PlainPlan(**values)
    if document["kind"] != "private":
        raise ConfigError("a plan of an unknown kind", found=document["kind"], expected="plain or private")
    name = values.pop("sampler", SamplerName.POISSON)  # plans that name none were made when there was one
    sampler = sampler_of(name, values.pop("units"), values.pop("batch"), bands=values.pop("bands", None))
    return DpSgd(sampler=sampler, **values)


def ledger_name(plan: dict[str, Any], corpus: str, *, kind: str = "training") -> str:
    """The name of the ledger that pays for this plan (as JSON) on the corpus with this fingerprint."""
    content = json.dumps([plan, corpus], sort_keys=True).encode()
    return f"{kind} {hashlib.blake2b(content, digest_size=16).hexdigest()}"


def _check_delta(delta: float, units: int, unit: Unit) -> None:
    """δ at 1/N or above permits publishing one unit in full."""
    if not 0.0 < delta < 1.0:
        raise ConfigError(
            "delta must be above 0 and below 1: at δ = 0 Gaussian noise proves no finite ε",
            found=delta,
            expected=f"well below 1 / number of {unit.value}s",
            hint=_small_delta(units),
        )
    if delta * units >= 1.0:
        raise ConfigError(
            f"this delta promises nothing: at 1 / {units} {unit.value}s or above, publishing one in full would "
            "satisfy it",
            found=delta,
            expected=f"well below {1.0 / units:.2g}",
            hint=_small_delta(units),
        )


def _small_delta(units: int) -> str:
    """A δ that would do: a tenth of one in all units."""
    return f"--delta {0.1 / max(units, 1):.1g}"
