"""Confidentiality of a secret with respect to a redaction policy: per secret, for groups, and on average.

Neighbours are a corpus with the secret and the same corpus with `<MASK>` in its place (Zhao, Li and Wang 2022,
CRT): part of a record is **replaced**, so DP-SGD is priced under replace-one adjacency, not add-remove. With (ε, δ)
for one replaced record, and secrets redacted before repeated ones are looked for:

- a secret the policy π finds, whole, wherever it stands: both worlds are one, (0, 0);
- a secret π misses and the conservative policy π_c catches: trained with DP-SGD, (ε, δ); the training's redaction
  says what it means to catch one;
- a secret both miss: trained plainly, no bound. Without a conservative policy (`has_conservative`) there is none:
  every record is trained with DP-SGD, so a secret that π misses has (ε, δ) whatever it is;
- a secret in several records: with π_c training reads one of its copies, so it is one replaced record; without
  π_c it is a group of as many;
- k missed secrets together: (kε, δ (e^{kε} − 1)/(e^ε − 1)), the geometric sum, not the printed k e^{kε} δ; or
  k records removed and k others added, each way a mixture of Gaussians (`sampled_group`), where that is tighter;
- on average over secrets drawn from a distribution that π misses at rate γ and π_c at rate δ2, for an attacker who
  knows that distribution and not the secret: (log(1 + γ(e^ε − 1)), γδ + δ2).

Theorem 8(2) prints "detects" where it must read "misses". The average (Bayesian) statement with ε = 0 can still
disclose everything: it never stands alone here, `Confidentiality` always holds the worst case beside it.
"""

import math
from dataclasses import dataclass, replace

from reticent.accounting.bounds.approximate import log_group_delta
from reticent.accounting.groups import group_event
from reticent.accounting.guarantees import NOISE
from reticent.accounting.pld import PrivacyProfile, privacy_profile
from reticent.core.event import Event
from reticent.core.guarantee import UNSEEN, Basis, Guarantee, Neighbours, Notion, Unit

Points = tuple[tuple[float, float], ...]

_KNOWS_ONLY_THE_DISTRIBUTION = "the attacker knows the distribution the secret is drawn from, not the secret"
_LOCAL = "masking the secret changes nothing of what the policies find elsewhere"
_ORDER = "repeated secrets are looked for after redaction, by an exact hash"
_PUBLIC_MAKING = f"tokenizer, vocabulary and initial model were {UNSEEN}"
_ONE_COPY = "of a secret that stands in several records training reads one copy, and masks the others"
_ONE_RECORD = "a secret stands in one record of the private training; in several it is a group of as many"
_NONE_LOST = "the conservative policy catches every secret that the policy misses"


def _one(has_conservative: bool) -> str:
    """What one secret is: with a conservative policy, all its copies, as one of them is trained on."""
    return "one secret" if has_conservative else "one secret in one record"


def _missed(has_conservative: bool) -> str:
    """Which secrets (ε, δ) speaks of: without a conservative policy, all that the policy misses."""
    return "that the policy misses" + (" and the conservative policy catches" if has_conservative else "")


@dataclass(frozen=True, slots=True)
class Confidentiality:
    """What redacted training proves about secrets; the statements belong together, since each alone misleads.

    `missed`: one secret that π misses and π_c, where there is one, catches. `worst_case`: any secret. `group`:
    `missed` for several at once. `bayesian`: on average over secrets.
    """

    missed: Guarantee
    worst_case: Guarantee
    group: Guarantee
    bayesian: Guarantee


def missed_secret(
    epsilon: float, delta: float, *, profile: Points = (), has_conservative: bool = True
) -> Guarantee:
    """The guarantee of one secret that the policy misses and the conservative policy, where there is one, catches.

    Guarantee: (epsilon, delta), and each point of `profile`, must be proved for replacing one record of the private
    training.
    """
    return Guarantee(
        mechanism="confidentially redacted training",
        notion=Notion.CONFIDENTIALITY,
        unit=Unit.SECRET,
        neighbours=Neighbours.MASK,
        epsilon=epsilon,
        delta=delta,
        profile=profile,
        covers=f"{_one(has_conservative)}, {_missed(has_conservative)}",
        assumes=(_ONE_COPY if has_conservative else _ONE_RECORD, _LOCAL, _ORDER, _PUBLIC_MAKING, NOISE),
    )


def missed_secret_of(event: Event, delta: float, *, has_conservative: bool = True) -> Guarantee:
    """The same from what the private training did, priced by its privacy-loss distribution under replace-one.

    Guarantee: masking part of a record replaces the record, so add-remove prices would be too low (q=0.01, σ=1,
    1000 steps, δ=8e-5: 1.545 where 2.475 is due).
    """
    profile = privacy_profile(event, Neighbours.REPLACE)
    epsilon = profile.epsilon(delta)
    points = profile.points() if epsilon < math.inf else ()
    missed = missed_secret(epsilon, delta, profile=points, has_conservative=has_conservative)
    return replace(missed, basis=Basis(event=event, delta=delta, keeps_one_copy=has_conservative))


def worst_case(missed: Guarantee, *, conservative_miss_rate: float, has_conservative: bool = True) -> Guarantee:
    """The guarantee of whichever secret is worst off: none at all where the conservative policy may miss one.

    Guarantee: `missed` itself if the conservative policy catches every secret or there is none, else ε = ∞.
    """
    _require_rate("conservative_miss_rate", conservative_miss_rate)
    if not has_conservative and conservative_miss_rate > 0.0:
        raise ValueError("without a conservative policy no secret is trained on plainly")
    if conservative_miss_rate == 0.0:
        return replace(
            missed,
            covers=f"any {_one(has_conservative)}, known to the attacker or not",
            assumes=(*missed.assumes, *([_NONE_LOST] if has_conservative else [])),
        )
    return replace(
        missed,
        epsilon=math.inf,
        delta=0.0,
        profile=(),
        covers="a secret that both policies miss: it is trained on plainly",
    )


def group_of_secrets(missed: Guarantee, group: int, *, has_conservative: bool = True) -> Guarantee:
    """The guarantee of `group` missed secrets masked together, deduplicated by the secret's own text.

    Guarantee: each secret changes one private record. Either the secret's (ε, δ) applied `group` times, δ summed as
    Σ_j e^{jε} δ, j < group, capped at 1; or `group` records removed and as many added, priced from the event as a
    mixture of Gaussians, at the δ of one secret. The second where the first needs a greater ε at that δ.
    """
    if group < 1:
        raise ValueError(f"a group needs at least one secret, found {group}")
    epsilon, delta = group * missed.epsilon, _group_delta(missed.epsilon, missed.delta, group)
    profile = tuple((group * e, _group_delta(e, d, group)) for e, d in missed.profile)
    limit = min((e for e, d in ((epsilon, delta), *profile) if d <= missed.delta), default=math.inf)
    mixed = _mixed(missed, group)
    of_records = " together" if has_conservative else f" of one record each, or one of {group} records"
    if mixed is not None and mixed.epsilon(missed.delta) < limit:
        epsilon, delta, profile = mixed.epsilon(missed.delta), missed.delta, mixed.points()
    return replace(
        missed,
        epsilon=epsilon,
        delta=delta,
        profile=profile,
        covers=f"{group} secrets{of_records}, {_missed(has_conservative)}",
        basis=None if missed.basis is None else replace(missed.basis, group=group),
    )


def _mixed(missed: Guarantee, group: int) -> PrivacyProfile | None:
    """δ(ε) of replacing `group` records; None where the event is not known, or not of Gaussian steps."""
    if group == 1 or missed.basis is None or missed.basis.earlier:
        return None
    event = group_event(missed.basis.event, group)
    return None if event is None else privacy_profile(event, Neighbours.REPLACE)


def bayesian(
    missed: Guarantee, *, miss_rate: float, conservative_miss_rate: float, has_conservative: bool = True
) -> Guarantee:
    """The guarantee on average over secrets drawn from a distribution with these miss rates.

    Guarantee: amplification by redaction (advanced joint convexity, Balle et al. 2018): (log(1+γ(e^ε−1)),
    γδ + δ2). It speaks of an attacker who does not know the secret, so no attack that scores the secret itself can
    be held against it; print the worst case beside it.
    """
    _require_rate("miss_rate", miss_rate)
    _require_rate("conservative_miss_rate", conservative_miss_rate)
    if conservative_miss_rate > miss_rate:
        raise ValueError("the conservative policy must not miss more than the policy")
    headline, *profile = [
        (_amplified(e, miss_rate), min(1.0, miss_rate * d + conservative_miss_rate)) for e, d in missed.points
    ]
    return replace(
        missed,
        notion=Notion.BAYESIAN_CONFIDENTIALITY,
        epsilon=headline[0],
        delta=headline[1],
        profile=tuple(profile),
        covers=f"{_one(has_conservative)} at random, missed at rate {miss_rate:g}"
        + (f", and at {conservative_miss_rate:g} by both policies" if has_conservative else ""),
        assumes=(*missed.assumes, _KNOWS_ONLY_THE_DISTRIBUTION, "the miss rates hold under that distribution"),
        basis=None
        if missed.basis is None
        else replace(missed.basis, miss_rate=miss_rate, conservative_miss_rate=conservative_miss_rate),
    )


def confidentiality(
    missed: Guarantee,
    group: int,
    *,
    miss_rate: float,
    conservative_miss_rate: float,
    has_conservative: bool = True,
) -> Confidentiality:
    """Everything that redacted training proves about secrets: one missed, the worst, a group, and on average.

    Guarantee: each as its own function says; the worst case is never left out. The miss rates stand in the basis of
    every one, so that whatever binds one of them (a certificate, a ledger) binds the rates of all.
    """
    two, rate = has_conservative, conservative_miss_rate
    if missed.basis is not None:
        rates = replace(missed.basis, miss_rate=miss_rate, conservative_miss_rate=rate)
        missed = replace(missed, basis=rates)
    return Confidentiality(
        missed=missed,
        worst_case=worst_case(missed, conservative_miss_rate=rate, has_conservative=two),
        group=group_of_secrets(missed, group, has_conservative=two),
        bayesian=bayesian(missed, miss_rate=miss_rate, conservative_miss_rate=rate, has_conservative=two),
    )


def _amplified(epsilon: float, rate: float) -> float:
    """log(1 + γ(e^ε − 1)), exact for small and for large ε."""
    if rate == 0.0:
        return 0.0
    if epsilon < 1.0:
        return math.log1p(rate * math.expm1(epsilon))
    return epsilon + math.log(rate + (1.0 - rate) * math.exp(-epsilon))


def _group_delta(epsilon: float, delta: float, group: int) -> float:
    """δ of several secrets, at most 1."""
    if epsilon == math.inf:
        return 1.0 if group > 1 and delta > 0.0 else delta
    return math.exp(min(0.0, log_group_delta(epsilon, delta, copies=group)))


def _require_rate(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be in [0, 1], found {value}")
