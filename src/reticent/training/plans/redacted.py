"""The plan of confidentially redacted training, and what it proves about secrets (Zhao, Li and Wang 2022).

    public part     shuffled epochs first, ordinary gradients, no charge
    private part    then Poisson samples, clipped and noised: DpSgd under **replace-one**; each step also reads
                    public records, as many as their share of all (`methods.redacted`), at no charge

Masking a secret that the conservative policy catches replaces part of one private record (`redaction` says why), so
the noise is calibrated under replace-one. Four statements follow (`accounting.bounds.confidentiality`). The
headline is the *worst case* over secrets: its ε is infinite as soon as both policies may miss one. The average
is never stated alone.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from reticent.accounting.bounds.confidentiality import Confidentiality, confidentiality, missed_secret_of
from reticent.core.corpus import Policy
from reticent.core.document import check_schema
from reticent.core.errors import ConfigError
from reticent.core.guarantee import Guarantee, Neighbours, Unit
from reticent.core.ledger import Budget
from reticent.data.policies.combined import reads_context
from reticent.training.methods.redaction import MissRates, RedactedCorpus
from reticent.training.plans.choice import PUBLIC_BATCH
from reticent.training.plans.plan import (
    MEASURE,
    NO_TUNING,
    ROUNDING,
    SEEDED,
    DpSgd,
    PlainPlan,
    ledger_name,
    plan_from_json,
)
from reticent.training.plans.sampler import PoissonSampler

SCHEMA_VERSION: Final = 4  # 4: public steps come first, and private ones read public records, too
KIND: Final = "redacted"
GROUP: Final = 10  # secrets that the group statement speaks of, unless another number is asked for

_EVERYWHERE: Final = (
    "one secret, masked wherever it stands, that the policy misses and the conservative policy finds with the "
    "same characters wherever it stands"
)
_CAUGHT: Final = (
    "the conservative policy finds the secret whole, with the same characters wherever it stands, in what the "
    "policy left (a secret found in part, or with more around it, may change several records)"
)
_NOT_LOCAL: Final = (
    "masking a secret changes nothing of what the policies find elsewhere, though one of them reads what stands "
    'around or within a span, as "ID" in "ID 123" (not checked)'
)
_SAMPLED: Final = (
    "every private record takes part in each private step with the stated chance, independently (Poisson sampling, "
    "no shuffling), and its contribution is clipped to the stated norm before noise is added"
)
_KINDS: Final = (
    "a secret is told from a mask that names the kind which the policies give to the secret: its characters are "
    "protected, and not that it is a name or a number"
)
_ALL_PRIVATE: Final = "every record is trained with noise, as there is no conservative policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFacts:
    """What a guarantee must say of the policies: whether they are local together, and whether one is conservative.

    Together: masking what either finds changes nothing of what either finds elsewhere. A secret that the policy
    misses and the conservative one finds is nothing to the policy but text, and this may read it.
    """

    is_local: bool
    has_conservative: bool

    @classmethod
    def of(cls, policy: Policy, conservative: Policy | None) -> "PolicyFacts":
        """The facts about these policies."""
        if conservative is None:
            return cls(is_local=policy.is_local, has_conservative=False)
        is_local = policy.is_local and conservative.is_local and not reads_context(policy)
        return cls(is_local=is_local, has_conservative=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedPlan:
    """Both halves of the training and how often secrets are missed: all that the confidentiality follows from."""

    public: PlainPlan | None  # None where no record is public
    private: DpSgd
    misses: MissRates
    policies: PolicyFacts
    group: int = GROUP
    shows_kinds: bool = False  # whether what stands in a secret's place tells its kind

    def __post_init__(self) -> None:
        if self.private.neighbours is not Neighbours.REPLACE or self.private.unit is not Unit.RECORD:
            raise ConfigError(
                "masking a secret replaces part of a record, so that is what the noise must be priced for",
                found=f"{self.private.unit.value}, {self.private.neighbours.value}",
                expected=f"{Unit.RECORD.value}, {Neighbours.REPLACE.value}",
            )
        if self.private.clip_quantile is not None:  # public records beside private ones would be counted
            raise ConfigError("redacted training has a fixed clip norm", found="one that follows a quantile")
        if not self.policies.has_conservative and (self.public is not None or self.misses.both > 0.0):
            raise ConfigError(
                "without a conservative policy every record must be trained with noise",
                hint="route the records without one, or name it",
            )
        if self.group < 1:
            raise ConfigError("a group has at least one secret", found=self.group)

    @property
    def steps(self) -> int:
        """Steps of both kinds."""
        return self.private.steps + (0 if self.public is None else self.public.steps)

    @property
    def public_per_step(self) -> int:
        """Public records that a private step reads: the share of them that it expects of the private ones."""
        return 0 if self.public is None else round(self.private.sampler.rate * self.public.units)

    def confidentiality(self, *, is_seeded: bool = False) -> Confidentiality:
        """What is proved of secrets, all four statements.

        Guarantee: (ε, δ) of the private part under replace-one is that of one missed secret (`redacted` says why
        neighbours differ in one private record); the rest follows in `accounting.bounds.confidentiality`.
        """
        two = self.policies.has_conservative
        found = missed_secret_of(self.private.event, self.private.delta, has_conservative=two)
        missed = self.private.stated(found)
        assumes = [*missed.assumes, _SAMPLED, NO_TUNING, ROUNDING]
        assumes += [self.misses.origin] if self.misses.origin else []
        if not self.policies.is_local:
            assumes.append(_NOT_LOCAL)
        assumes.append(_CAUGHT if two else _ALL_PRIVATE)
        if self.shows_kinds:
            assumes.append(_KINDS)
        if is_seeded:
            assumes.append(SEEDED)
        covers = _EVERYWHERE if two else missed.covers
        return confidentiality(
            replace(missed, assumes=tuple(assumes), covers=covers),
            self.group,
            miss_rate=self.misses.policy,
            conservative_miss_rate=self.misses.both,
            has_conservative=two,
        )

    def guarantee(self, *, is_seeded: bool = False) -> Guarantee:
        """The headline: what holds for whichever secret is worst off.

        Guarantee: that of `confidentiality().worst_case`.
        """
        return self.confidentiality(is_seeded=is_seeded).worst_case

    def budget(self, *, is_seeded: bool = False) -> Budget:
        """What a ledger of this plan may spend: its private steps, each once."""
        return Budget(MEASURE, float(self.private.steps), self.guarantee(is_seeded=is_seeded))

    def ledger_name(self, corpus: str) -> str:
        """The name of the ledger that pays for this plan on the corpus with this fingerprint."""
        return ledger_name(self.to_json(), corpus, kind="redacted training")

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": KIND,
            "public": None if self.public is None else self.public.to_json(),
            "private": self.private.to_json(),
            "misses": self.misses.to_json(),
            "is_local": self.policies.is_local,
            "has_conservative": self.policies.has_conservative,
            "group": self.group,
            "shows_kinds": self.shows_kinds,
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "RedactedPlan":
        """The plan that `to_json` wrote; an unknown schema version or kind is refused."""
        check_schema(document, SCHEMA_VERSION, kind="redacted plan")
        public = None if document["public"] is None else plan_from_json(document["public"])
        private = plan_from_json(document["private"])
        if document["kind"] != KIND or not isinstance(public, PlainPlan | None) or type(private) is not DpSgd:
            raise ConfigError("not a plan of redacted training", found=document["kind"], expected=KIND)
        return cls(
            public=public,
            private=private,
            misses=MissRates(**document["misses"]),
            policies=PolicyFacts(is_local=document["is_local"], has_conservative=document["has_conservative"]),
            group=document["group"],
            shows_kinds=document["shows_kinds"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedSettings:
    """What is asked of redacted training: its length, and either a target ε or the noise itself.

    Noise wants large batches; plain training learns more from many small ones, hence `public_batch`.
    """

    epochs: float
    batch: int  # of a step with noise, public records among them
    delta: float
    seed: int
    clip_norm: float = 1.0
    public_batch: int = PUBLIC_BATCH
    target_epsilon: float | None = None
    noise_multiplier: float | None = None

    def __post_init__(self) -> None:
        if (self.target_epsilon is None) == (self.noise_multiplier is None):
            raise ConfigError("redacted training needs either a target epsilon or a noise multiplier")


def plan_redacted(
    settings: RedactedSettings,
    corpus: RedactedCorpus,
    *,
    misses: MissRates,
    policies: PolicyFacts,
    group: int = GROUP,
) -> RedactedPlan:
    """The plan for a routed corpus, with the least noise for the target where one is given.

    Guarantee: `confidentiality().missed.epsilon` is at most the target.
    """
    if not len(corpus.private):
        raise ConfigError(
            "no record is private: the policies find nothing, so nothing would be protected",
            hint="choose other policies, or train with --method sgd and know it",
        )
    public = None
    if len(corpus.public):
        units = len(corpus.public)
        batch = min(settings.public_batch, units)
        public = PlainPlan(units=units, batch=batch, epochs=settings.epochs, seed=settings.seed)
    return RedactedPlan(
        public=public,
        private=_private_plan(settings, len(corpus.private), of=len(corpus.private) + len(corpus.public)),
        misses=misses,
        policies=policies,
        group=group,
    )


def _private_plan(settings: RedactedSettings, records: int, *, of: int) -> DpSgd:
    """A batch of all `of` records holds private ones in proportion: neighbours agree on both numbers."""
    sampler = PoissonSampler(records, min(max(1, round(settings.batch * records / of)), records))
    if settings.target_epsilon is not None:
        return DpSgd.for_target(
            epsilon=settings.target_epsilon,
            delta=settings.delta,
            units=sampler.units,
            batch=sampler.batch,
            epochs=settings.epochs,
            clip_norm=settings.clip_norm,
            neighbours=Neighbours.REPLACE,
        )
    assert settings.noise_multiplier is not None
    return DpSgd(
        sampler=sampler,
        clip_norm=settings.clip_norm,
        noise_multiplier=settings.noise_multiplier,
        steps=sampler.steps(settings.epochs),
        delta=settings.delta,
        neighbours=Neighbours.REPLACE,
    )
